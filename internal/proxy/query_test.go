package proxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergedQuery(t *testing.T) {
	cases := map[string]struct{ own, callers, want string }{
		"neither has one":                   {"", "", ""},
		"the backend's alone":               {"api-version=1", "", "api-version=1"},
		"the caller's alone":                {"", "api-version=1&beta=true", "api-version=1&beta=true"},
		"both":                              {"api-version=1", "beta=true", "api-version=1&beta=true"},
		"the backend has the word":          {"api-version=1", "api-version=2&API-Version=3&api%2Dversion=4", "api-version=1"},
		"bytes stay as they are":            {"", "a=%2f+x&a=%2F", "a=%2f+x&a=%2F"},
		"a name alone":                      {"", "beta", "beta"},
		"nothing between":                   {"", "&&a=1&", "a=1"},
		"credentials":                       {"", "key=C&api_key=C&API-KEY=C&access_token=C&sig=C&code=C&subscription-key=C&X-Amz-Credential=C", ""},
		"a credential that is escaped":      {"", "%6bey=C&k%65%79=C", ""},
		"an escape that is none":            {"", "%zz=C&a=%z&b=1", "b=1"},
		"a semicolon, which some split at":  {"", "a=1;key=C&b=1", "b=1"},
		"what does not belong into a query": {"", "a=\x80&b=#x&d=e f&\x7f=1&c=\"~ok\"", "c=\"~ok\""},
		"no name":                           {"a=1", "=C", "a=1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mergedQuery(tc.own, tc.callers)); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
		})
	}
}
