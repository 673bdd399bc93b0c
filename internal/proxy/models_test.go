package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
)

// doorkeeper knows callers by their credential, and what each may use.
type doorkeeper map[string][]string

func (d doorkeeper) Authorize(_ context.Context, h http.Header, route *table.Route) (string, *openai.Error) {
	usable, caller, refusal := d.Usable(context.Background(), h, []*table.Route{route})
	if refusal == nil && len(usable) == 0 {
		return caller, &openai.Error{Code: openai.CodeForbidden, Message: "no"}
	}
	return caller, refusal
}

func (d doorkeeper) Usable(_ context.Context, h http.Header, routes []*table.Route) ([]*table.Route, string, *openai.Error) {
	caller, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer SECRET-of-")
	mine, known := d[caller]
	if !ok || !known {
		return nil, "", &openai.Error{Code: openai.CodeUnauthenticated, Message: "who is there?"}
	}
	return slices.DeleteFunc(slices.Clone(routes), func(r *table.Route) bool { return !slices.Contains(mine, r.Model) }), caller, nil
}

func TestModelsAreShownToThoseWhoMayUseThem(t *testing.T) {
	const (
		mine = `{"object":"list","data":[{"id":"ns/m","object":"model","created":0,"owned_by":"spillway"}]}`
		none = `{"object":"list","data":[]}`
		one  = `{"id":"ns/m","object":"model","created":0,"owned_by":"spillway"}`
	)
	cases := map[string]struct {
		method, path, caller string
		wantStatus           int
		wantBody             string // a part of it
		wantLine             string // of the access log, between endpoint and code
		wantCounted          string
	}{
		"a caller sees what it may use": {"GET", "/v1/models", "ann", 200, mine,
			`"route":"","endpoint":"models"|"caller":"ann"`, `llm_requests_total{code="200",endpoint="models",logical_model=""} 1`},
		"a caller without permissions sees nothing": {"GET", "/v1/models", "bob", 200, none,
			`"route":"","endpoint":"models"|"caller":"bob"`, `llm_requests_total{code="200",endpoint="models",logical_model=""} 1`},
		"the list is for callers only": {"GET", "/v1/models", "eve", 401, `"code":"unauthenticated"`,
			`"route":"","endpoint":"models"|"error":"unauthenticated"`, `llm_requests_total{code="401",endpoint="models",logical_model=""} 1`},
		"one model that it may use": {"GET", "/v1/models/ns/m", "ann", 200, one,
			`"route":"ns/m","endpoint":"models"|"caller":"ann"`, `llm_requests_total{code="200",endpoint="models",logical_model="ns/m"} 1`},
		"the same, escaped": {"GET", "/v1/models/ns%2Fm", "ann", 200, one, `"caller":"ann"`, ""},
		"only its head":     {"HEAD", "/v1/models/ns/m", "ann", 200, "", `"caller":"ann"`, ""},
		"one that it may not": {"GET", "/v1/models/ns/hidden", "ann", 403, `"code":"forbidden"`,
			`"route":"ns/hidden"|"caller":"ann","error":"forbidden"`, `llm_requests_total{code="403",endpoint="models",logical_model="ns/hidden"} 1`},
		"one without a credential": {"HEAD", "/v1/models/ns/m", "eve", 401, "", `"error":"unauthenticated"`, ""},
		"one that does not exist": {"GET", "/v1/models/ns/none", "bob", 404, `"code":"model_not_found"`,
			`"route":"","endpoint":"models"|"caller":"bob","error":"model_not_found"`, `llm_requests_total{code="404",endpoint="models",logical_model=""} 1`},
		"that too is for callers only": {"GET", "/v1/models/ns/none", "eve", 401, `"code":"unauthenticated"`, `"error":"unauthenticated"`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRoute(says(t)), func(c *proxy.Config) { c.Authorize = doorkeeper{"ann": {"ns/m"}, "bob": nil} })
			r.store.Set(table.New([]*table.Route{r.route, {Namespace: "ns", Name: "hidden", Model: "ns/hidden"}}))
			got := r.get(tc.method, tc.path, "Authorization", "Bearer SECRET-of-"+tc.caller, "X-Request-Id", "mine")
			if got.status != tc.wantStatus || !strings.Contains(got.body, tc.wantBody) || got.header.Get("X-Request-Id") != "mine" {
				t.Errorf("%d %s, header %v", got.status, got.body, got.header)
			}
			if asks := got.header.Get("WWW-Authenticate") == "Bearer"; asks != (tc.wantStatus == http.StatusUnauthorized) {
				t.Errorf("status %d asks for %q", got.status, got.header.Get("WWW-Authenticate"))
			}
			waitFor(t, func() bool { return strings.Contains(r.log.String(), `"id":"mine"`) })
			for part := range strings.SplitSeq(tc.wantLine, "|") {
				if !strings.Contains(r.log.String(), part) {
					t.Errorf("no %s in the log: %s", part, r.log)
				}
			}
			if strings.Contains(r.log.String(), "SECRET") {
				t.Errorf("a credential in the log: %s", r.log)
			}
			if tc.wantCounted != "" && !r.counted(tc.wantCounted) {
				t.Errorf("not counted: %s", tc.wantCounted)
			}
		})
	}
}

func TestModelsAreForEverybodyWhereCallersAreNotToldApart(t *testing.T) {
	recorder, tracing := traced()
	r := newRig(t, newRoute(says(t)), tracing)
	for path, want := range map[string]string{
		"/v1/models":         "GET /v1/models",
		"/v1/models/ns/m":    "GET /v1/models/{id}",
		"/v1/models/ns/none": "GET /v1/models/{id}",
	} {
		recorder.Reset()
		got := r.get(http.MethodGet, path)
		waitFor(t, func() bool { return len(recorder.Ended()) == 1 })
		if name := recorder.Ended()[0].Name(); name != want || got.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: span %q, want %q; header %v", path, name, want, got.header)
		}
		if facts := factsOf(recorder.Ended()[0]); strings.Contains(facts, "gen_ai") {
			t.Errorf("%s: what is asked about a model is no call of one: %s", path, facts)
		}
	}
	if strings.Contains(r.log.String(), `"caller"`) {
		t.Errorf("a caller in the log: %s", r.log)
	}
}

func TestModelsWaitForATable(t *testing.T) {
	r := newRig(t, newRoute(says(t)), func(c *proxy.Config) { c.Store = table.NewStore() })
	for _, path := range []string{"/v1/models", "/v1/models/ns/m"} {
		if diff := cmp.Diff(told{503, "model_unavailable", "1", ""}, toldBy(t, r.get(http.MethodGet, path))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(told{503, "model_unavailable", "1", ""}, toldBy(t, r.post(unary))); diff != "" {
		t.Errorf("a request (-want +got):\n%s", diff)
	}
}

func TestTheCallerIsNamedInTheAccessLine(t *testing.T) {
	r := newRig(t, newRoute(says(t, status(200, "", whole))), func(c *proxy.Config) { c.Authorize = doorkeeper{"ann": {"ns/m"}, "bob": nil} })
	for caller, want := range map[string]int{"ann": 200, "bob": 403} {
		if got := r.post(unary, "Authorization", "Bearer SECRET-of-"+caller); got.status != want {
			t.Errorf("%s: status %d", caller, got.status)
		}
		waitFor(t, func() bool { return strings.Contains(r.log.String(), `"caller":"`+caller+`"`) })
	}
	if strings.Contains(r.log.String(), "SECRET") {
		t.Errorf("a credential in the log: %s", r.log)
	}
}
