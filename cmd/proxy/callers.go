package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/internal/callerauth"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
)

// Values of --caller-auth.
const (
	callerAuthOff        = "off"
	callerAuthKubernetes = "kubernetes"
	callerAuthKeys       = "keys"
)

// callerSettings are the flags that say who may call.
type callerSettings struct {
	auth                string
	audiences           []string
	keysSecret, keysDir string
}

func (c *callerSettings) declare(set *flag.FlagSet) {
	set.StringVar(&c.auth, "caller-auth", callerAuthOff, "`kind` of callers that are let in: off (everybody), kubernetes (tokens of ServiceAccounts that may \"use\" the route) or keys")
	set.Func("caller-audience", "with --caller-auth=kubernetes: `audience` of which a token must name one (default: the API server's own); may be repeated, or several with commas", c.addAudiences)
	set.StringVar(&c.keysSecret, "caller-keys-secret", "", "with --caller-auth=keys: `name` of the Secret of the proxy's namespace that holds the keys, by the callers' names")
	set.StringVar(&c.keysDir, "caller-keys-dir", "", "with --caller-auth=keys: `folder` with one file for each caller, such as a mounted Secret")
}

func (c *callerSettings) addAudiences(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			c.audiences = append(c.audiences, one)
		}
	}
	return nil
}

// check refuses combinations that make no sense. standalone says that there is no cluster.
func (c *callerSettings) check(standalone bool) error {
	keys, keySources := c.auth == callerAuthKeys, 0
	for _, source := range []string{c.keysSecret, c.keysDir} {
		if source != "" {
			keySources++
		}
	}
	switch {
	case c.auth != callerAuthOff && c.auth != callerAuthKubernetes && !keys:
		return usagef("--caller-auth is %q: give off, kubernetes or keys", c.auth)
	case len(c.audiences) > 0 && c.auth != callerAuthKubernetes:
		return usagef("--caller-audience is for --caller-auth=kubernetes")
	case keySources > 0 && !keys:
		return usagef("--caller-keys-secret and --caller-keys-dir are for --caller-auth=keys")
	case keys && keySources != 1:
		return usagef("--caller-auth=keys needs one of --caller-keys-secret and --caller-keys-dir")
	case standalone && c.auth == callerAuthKubernetes:
		return usagef("--caller-auth=kubernetes needs a cluster, and --manifests runs without one: give --caller-auth=keys")
	case standalone && c.keysSecret != "":
		return usagef("--caller-keys-secret needs a cluster, and --manifests runs without one: give --caller-keys-dir")
	}
	if problems := validation.IsDNS1123Subdomain(c.keysSecret); c.keysSecret != "" && len(problems) > 0 {
		return usagef("--caller-keys-secret: %q names no Secret (%s)", c.keysSecret, problems[0])
	}
	return nil
}

// callers says who may call.
type callers interface {
	proxy.Authorizer
	Usable(ctx context.Context, header http.Header, routes []*table.Route) ([]*table.Route, *openai.Error)
	// Run keeps what is known of callers up to date until ctx ends. An error means that it cannot.
	Run(ctx context.Context) error
	// Ready returns nil when callers can be told apart, else what is missing.
	Ready() error
}

// newCallers chooses by the flags. Off, it lets everybody in, and says so once.
func newCallers(s *settings, log *slog.Logger) (callers, error) {
	switch {
	case s.callers.auth == callerAuthOff:
		log.Warn("callers are not authenticated: whoever reaches the data port may use every route; see --caller-auth")
		return everybody{}, nil
	case s.callers.keysDir != "":
		keys, err := callerauth.KeysFromFolder(s.callers.keysDir, log)
		if err != nil {
			return nil, usagef("--caller-keys-dir: %w", err)
		}
		return keys, nil
	}
	cfg, namespace, err := cluster(s)
	if err != nil {
		return nil, err
	}
	if s.callers.auth == callerAuthKeys {
		return callerauth.KeysFromSecret(callerauth.SecretConfig{REST: cfg, Namespace: namespace, Name: s.callers.keysSecret, Log: log})
	}
	return callerauth.NewKubernetes(callerauth.KubernetesConfig{REST: cfg, Audiences: s.callers.audiences, Log: log})
}

// guard puts the list of models behind the callers' check, where there is one.
func (p *parts) guard(next http.Handler) http.Handler {
	if _, open := p.callers.(everybody); open {
		return next
	}
	return callerauth.Models(p.callers, p.store.Load, next)
}

// everybody may call.
type everybody struct{}

func (everybody) Authorize(context.Context, http.Header, *table.Route) *openai.Error { return nil }

func (everybody) Usable(_ context.Context, _ http.Header, routes []*table.Route) ([]*table.Route, *openai.Error) {
	return routes, nil
}

func (everybody) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (everybody) Ready() error { return nil }
