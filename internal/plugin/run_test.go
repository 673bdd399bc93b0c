package plugin

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAPIServerThatIsNotThereIsNamed(t *testing.T) {
	refused := errors.New("dial tcp 127.0.0.1:8080: connect: connection refused")
	cases := map[string]struct {
		err  error
		want string
	}{
		"an API server that is not there is named, and the way to another": {
			&url.Error{Op: "Get", URL: "http://localhost:8080/apis/spillway.dev/v1alpha1/namespaces/default/llmroutes", Err: refused},
			"Error: the API server at localhost:8080 cannot be reached: dial tcp 127.0.0.1:8080: connect: connection refused\n" +
				"Name the right cluster with --context, --kubeconfig or $KUBECONFIG."},
		"a proxy that is not there is another matter": {
			&url.Error{Op: "Post", URL: "http://127.0.0.1:1/v1/chat/completions", Err: refused},
			`Error: Post "http://127.0.0.1:1/v1/chat/completions": dial tcp 127.0.0.1:8080: connect: connection refused`},
		"anything else is said as it is": {errors.New("no such thing"), "Error: no such thing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, explainError(tc.err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
