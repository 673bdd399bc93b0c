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
	off, kubernetes, keys := c.auth == callerAuthOff, c.auth == callerAuthKubernetes, c.auth == callerAuthKeys
	fromSecret, fromFolder, fromAnywhere := c.keysSecret != "", c.keysDir != "", c.keysSecret+c.keysDir != ""
	misnamed := fromSecret && !isSecretName(c.keysSecret)
	for _, rule := range []struct {
		broken  bool
		message string
	}{
		{!(off || kubernetes || keys), "--caller-auth: give off, kubernetes or keys"},
		{!kubernetes && len(c.audiences) > 0, "--caller-audience is for --caller-auth=kubernetes"},
		{!keys && fromAnywhere, "--caller-keys-secret and --caller-keys-dir are for --caller-auth=keys"},
		{keys && fromSecret == fromFolder, "--caller-auth=keys needs one of --caller-keys-secret and --caller-keys-dir"},
		{standalone && kubernetes, "--caller-auth=kubernetes needs a cluster, and --manifests runs without one: give --caller-auth=keys"},
		{standalone && fromSecret, "--caller-keys-secret needs a cluster, and --manifests runs without one: give --caller-keys-dir"},
		{misnamed, "--caller-keys-secret: this is not the name of a Secret"},
	} {
		if rule.broken {
			return usagef("%s", rule.message)
		}
	}
	return nil
}

func isSecretName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// callers says who may call.
type callers interface {
	proxy.Authorizer
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

// authorizer is what the pipeline asks; nil where everybody may call.
func (p *parts) authorizer() proxy.Authorizer {
	if _, open := p.callers.(everybody); open {
		return nil
	}
	return p.callers
}

// everybody may call.
type everybody struct{}

func (everybody) Authorize(context.Context, http.Header, *table.Route) (string, *openai.Error) {
	return "", nil
}

func (everybody) Usable(_ context.Context, _ http.Header, routes []*table.Route) ([]*table.Route, string, *openai.Error) {
	return routes, "", nil
}

func (everybody) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (everybody) Ready() error { return nil }
