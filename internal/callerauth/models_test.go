package callerauth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

func TestModels(t *testing.T) {
	ann, bob := token("ann", time.Time{}), token("bob", time.Time{})
	server := &apiServer{users: map[string]string{ann: "ann", bob: "bob"}, allowed: []string{"ann ns/m"}}
	k, _ := newGate(t, server)
	routes := table.New([]*table.Route{route("ns", "m"), route("ns", "secret")})
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "pipeline") })
	handler := Models(k, func() *table.Table { return routes }, next)

	const (
		mine = `{"object":"list","data":[{"id":"ns/m","object":"model","created":0,"owned_by":"spillway"}]}`
		none = `{"object":"list","data":[]}`
	)
	cases := map[string]struct {
		method, path, token string
		wantStatus          int
		wantBody            string // "" for an error
	}{
		"a caller sees what it may use":              {"GET", "/v1/models", ann, 200, mine},
		"a caller without permissions sees nothing":  {"GET", "/v1/models", bob, 200, none},
		"the list is for callers only":               {"GET", "/v1/models", "", 401, ""},
		"one model that it may use":                  {"GET", "/v1/models/ns/m", ann, 200, "pipeline"},
		"the same, escaped":                          {"GET", "/v1/models/ns%2Fm", ann, 200, "pipeline"},
		"one that it may not":                        {"GET", "/v1/models/ns/secret", ann, 403, ""},
		"one without a credential":                   {"HEAD", "/v1/models/ns/m", "", 401, ""},
		"one that does not exist":                    {"GET", "/v1/models/ns/none", bob, 200, "pipeline"},
		"that too is for callers only":               {"GET", "/v1/models/ns/none", "", 401, ""},
		"other methods are the pipeline's":           {"POST", "/v1/models", "", 200, "pipeline"},
		"health is for everybody":                    {"GET", "/healthz", "", 200, "pipeline"},
		"a path that only begins alike is no models": {"GET", "/v1/modelsx", "", 200, "pipeline"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil)
			if tc.token != "" {
				r.Header = bearer(tc.token)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			got := w.Body.String()
			if tc.wantBody == "" {
				got = ""
			}
			if diff := cmp.Diff([]any{tc.wantStatus, tc.wantBody}, []any{w.Code, got}); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}
