package callerauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	// maxTokens and maxVerdicts bound what is remembered: tokens, and pairs of a token and a route.
	maxTokens   = 4096
	maxVerdicts = 16384
	// strangersPerSecond bounds the TokenReviews for tokens that were never accepted, so that a flood of invented ones
	// reaches the API server as a trickle. Known callers do not feel it.
	strangersPerSecond, strangersBurst = 50, 200
	// uncheckedRetry is when a caller may try again that could not be checked.
	uncheckedRetry = 2 * time.Second
)

// What a caller must be allowed.
const (
	verbUse    = "use"
	groupOwn   = "spillway.dev"
	resourceOf = "llmroutes"
)

// KubernetesConfig of a Kubernetes. REST is required.
type KubernetesConfig struct {
	// REST says how to reach the API server, as an account that may create TokenReviews and SubjectAccessReviews.
	REST *rest.Config
	// Audiences, where given, are those of which a token must name one. Without them it is the API server's own.
	Audiences []string
	// Log is told about outages, never about callers. Default: discarded.
	Log *slog.Logger
	// Clock is the wall clock. Default: the real one.
	Clock clock.Clock
}

// reviewer asks the API server. Tests put another one in its place.
type reviewer interface {
	reviewToken(ctx context.Context, spec authenticationv1.TokenReviewSpec) (*authenticationv1.TokenReviewStatus, error)
	reviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, err error)
}

// Kubernetes lets callers in by the API server's word. It implements proxy.Authorizer.
type Kubernetes struct {
	reviewer  reviewer
	audiences []string
	clock     clock.Clock
	accounts  *memo[authenticationv1.UserInfo] // by token
	verdicts  *memo[struct{}]                  // by token and route
	strangers *rate.Limiter
	tokens    outage
	access    outage
	closeIdle func()
}

// NewKubernetes returns a Kubernetes that asks nobody yet. Run must follow.
func NewKubernetes(cfg KubernetesConfig) (*Kubernetes, error) {
	reviews, closeIdle, err := newReviews(cfg.REST)
	if err != nil {
		return nil, err
	}
	k := newKubernetes(&cfg, reviews)
	k.closeIdle = closeIdle
	return k, nil
}

func newKubernetes(cfg *KubernetesConfig, r reviewer) *Kubernetes {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	about := func(what string) outage {
		return outage{log: cfg.Log, what: "create " + what, lasts: "verdicts that are known are kept",
			advice: "bind the ClusterRole spillway-proxy-auth to the proxy's ServiceAccount"}
	}
	return &Kubernetes{
		reviewer: r, audiences: cfg.Audiences, clock: cfg.Clock,
		accounts:  newMemo[authenticationv1.UserInfo](maxTokens, cfg.Clock),
		verdicts:  newMemo[struct{}](maxVerdicts, cfg.Clock),
		strangers: rate.NewLimiter(strangersPerSecond, strangersBurst),
		tokens:    about("tokenreviews"), access: about("subjectaccessreviews"),
		closeIdle: func() {},
	}
}

// Ready returns nil: what is not known is asked when a caller comes.
func (k *Kubernetes) Ready() error { return nil }

// Run holds the connections until ctx ends and then takes them down. The error is nil.
func (k *Kubernetes) Run(ctx context.Context) error {
	<-ctx.Done()
	k.accounts.close()
	k.verdicts.close()
	k.closeIdle()
	return nil
}

// account is a caller whose token the API server knows.
type account struct {
	user  *authenticationv1.UserInfo
	token fingerprint
	until time.Time // the token's end; zero: none
}

// Authorize implements proxy.Authorizer.
func (k *Kubernetes) Authorize(ctx context.Context, header http.Header, route *table.Route) (string, *openai.Error) {
	caller, refusal := k.identify(ctx, header)
	if refusal != nil {
		return "", refusal
	}
	allowed, err := k.mayUse(ctx, caller, route.Namespace, route.Name)
	switch {
	case err != nil:
		return caller.user.Username, unchecked(ctx)
	case !allowed:
		return caller.user.Username, &openai.Error{Code: openai.CodeForbidden, Param: "model", Message: fmt.Sprintf(
			"your account may not use this model: it needs the verb %q on %s/%s in the namespace %s", verbUse, resourceOf, route.Name, route.Namespace)}
	}
	return caller.user.Username, nil
}

// identify says whose token it is.
func (k *Kubernetes) identify(ctx context.Context, header http.Header) (*account, *openai.Error) {
	token, refusal := credentialOf(header)
	if refusal != nil {
		return nil, refusal
	}
	until, wellFormed := expiry(token)
	switch {
	case !wellFormed:
		return nil, unauthenticated("the credential is not a token of a Kubernetes ServiceAccount")
	case !until.IsZero() && !k.clock.Now().Before(until):
		return nil, unauthenticated("the token has expired")
	}
	hash := fingerprintOf(token)
	got, err := k.accounts.get(ctx, string(hash[:]), func(ctx context.Context, known bool) (answer[authenticationv1.UserInfo], error) {
		return k.askToken(ctx, token, until, known)
	})
	switch {
	case err != nil:
		return nil, unchecked(ctx)
	case !got.ok:
		return nil, unauthenticated("the API server does not accept this token; it may be of another cluster or audience, or revoked")
	}
	return &account{user: &got.value, token: hash, until: until}, nil
}

var errTooManyStrangers = errors.New("too many unknown tokens at the moment")

func (k *Kubernetes) askToken(ctx context.Context, token string, until time.Time, known bool) (answer[authenticationv1.UserInfo], error) {
	if !known && k.strangers.Wait(ctx) != nil {
		return answer[authenticationv1.UserInfo]{}, errTooManyStrangers
	}
	status, err := k.reviewer.reviewToken(ctx, authenticationv1.TokenReviewSpec{Token: token, Audiences: k.audiences})
	k.tokens.note(ctx, err)
	if err != nil {
		return answer[authenticationv1.UserInfo]{}, err
	}
	return answer[authenticationv1.UserInfo]{value: status.User, ok: status.Authenticated && k.meantForUs(status.Audiences), until: until}, nil
}

// meantForUs checks what an authenticator says that knows nothing of audiences: it accepts a token without naming any.
func (k *Kubernetes) meantForUs(audiences []string) bool {
	return len(k.audiences) == 0 || slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(k.audiences, a) })
}

// mayUse asks about one route, about all of a namespace where name is empty, or about all routes where both are.
func (k *Kubernetes) mayUse(ctx context.Context, caller *account, namespace, name string) (bool, error) {
	got, err := k.verdicts.get(ctx, verdictKey(caller, namespace, name), func(ctx context.Context, _ bool) (answer[struct{}], error) {
		allowed, err := k.reviewer.reviewAccess(ctx, accessSpec(caller.user, namespace, name))
		k.access.note(ctx, err)
		return answer[struct{}]{ok: allowed, until: caller.until}, err
	})
	return got.ok, err
}

// verdictKey holds the token's fingerprint rather than the user's name: an authorizer may look at what belongs to one token
// alone, such as its pod.
func verdictKey(caller *account, namespace, name string) string {
	return string(caller.token[:]) + namespace + "/" + name
}

func accessSpec(user *authenticationv1.UserInfo, namespace, name string) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verbUse, Group: groupOwn, Resource: resourceOf, Namespace: namespace, Name: name,
		},
	}
}

// unchecked is what a caller is told that nobody can vouch for at the moment.
func unchecked(ctx context.Context) *openai.Error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return &openai.Error{Code: openai.CodeClientClosed, Message: "the caller went away"}
	}
	return &openai.Error{Code: openai.CodeModelUnavailable, RetryAfter: uncheckedRetry,
		Message: "this proxy cannot check callers at the moment; try again"}
}
