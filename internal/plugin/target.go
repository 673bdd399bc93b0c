package plugin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// TokenVariable is the environment variable with the token that proxies ask for where caller authentication is on.
const TokenVariable = "SPILLWAY_TOKEN"

// targetFlags say which proxy to speak to.
type targetFlags struct {
	url, service string
}

func (f *targetFlags) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "url", "", "address of a proxy, such as http://127.0.0.1:8081 (default: a port-forward to --proxy)")
	cmd.Flags().StringVar(&f.service, "proxy", "spillway-system/spillway-proxy", "NAMESPACE/NAME of the proxies' Service")
}

// target is one proxy's API, and the model to ask there.
type target struct {
	base   string // ends in /v1
	model  string
	route  *v1alpha1.LLMRoute // nil where it was not read
	why    string             // why it was not
	client *http.Client
	close  func()
}

// openTarget finds the model of ROUTE and the way to a proxy. The target must be closed.
func (c *cli) openTarget(ctx context.Context, f targetFlags, routeOrModel string) (*target, error) {
	t := &target{close: func() {}, client: &http.Client{
		Transport: transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the address answers with a redirect, which no proxy does: check --url")
		},
	}}
	if f.url != "" {
		base, err := baseURL(f.url)
		if err != nil {
			return nil, err
		}
		t.base = base
	}
	if err := c.findModel(ctx, t, routeOrModel); err != nil {
		return nil, err
	}
	if t.base != "" {
		return t, nil
	}
	base, stop, err := c.forward(ctx, f.service)
	if err != nil {
		return nil, fmt.Errorf("port-forward to %s: %w (or name a proxy's address with --url)", f.service, err)
	}
	t.base, t.close = base+"/v1", stop
	forwarded := transport()
	// The API server has led here, and no certificate names this end of the way.
	forwarded.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	t.client.Transport = forwarded
	return t, nil
}

// transport keeps as many connections as a burst opens.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // it is one, unless somebody replaced it
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = maxBurst
	return t
}

// baseURL checks an address and ends it in /v1.
func baseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", errors.New("--url is not an address such as http://127.0.0.1:8081")
	case u.User != nil:
		return "", errors.New("--url must not contain a password; put a token into $" + TokenVariable)
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("--url must have no query and no fragment")
	}
	path := strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	return u.Scheme + "://" + u.Host + path, nil
}

// findModel reads the route for its model. With an address the cluster is not needed: a name with a slash is a model then,
// and a route that cannot be read has the model that routes have by default.
func (c *cli) findModel(ctx context.Context, t *target, arg string) error {
	if t.base != "" && strings.Contains(arg, "/") {
		t.model, t.why = arg, "a model was named, not a route"
		return nil
	}
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err == nil {
		var route v1alpha1.LLMRoute
		if err = api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: arg}, &route); err == nil {
			t.route, t.model = &route, modelOf(&route)
			return nil
		}
	}
	var status apierrors.APIStatus
	if t.base == "" || apierrors.IsNotFound(err) || ctx.Err() != nil {
		return err
	}
	t.model, t.why = namespace+"/"+arg, "the API server cannot be reached"
	if errors.As(err, &status) {
		t.why = "the API server refuses (" + string(status.Status().Reason) + ")"
	}
	fmt.Fprintf(c.ErrOut, "Note: the route cannot be read, as %s; its model is taken to be %s.\n", t.why, t.model)
	return nil
}

func modelOf(r *v1alpha1.LLMRoute) string {
	if r.Spec.Model != "" {
		return r.Spec.Model
	}
	return r.Namespace + "/" + r.Name
}

// authorize adds the caller's token, if there is one.
func authorize(r *http.Request) {
	if token := strings.TrimSpace(os.Getenv(TokenVariable)); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}
