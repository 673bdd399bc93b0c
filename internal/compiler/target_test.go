package compiler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// TestParseBaseURL is field case C12.
func TestParseBaseURL(t *testing.T) {
	type parsed struct{ Base, Query string }
	cases := map[string]struct {
		raw       string
		want      parsed
		wantFault string // part of it
	}{
		"no path means /v1":                      {"http://h", parsed{"http://h/v1", ""}, ""},
		"a slash means /v1":                      {"http://h/", parsed{"http://h/v1", ""}, ""},
		"a path stays":                           {"https://o/api/v1", parsed{"https://o/api/v1", ""}, ""},
		"slashes behind it go":                   {"http://h/v1//", parsed{"http://h/v1", ""}, ""},
		"a query is kept":                        {"https://a/openai/x?api-version=1", parsed{"https://a/openai/x", "api-version=1"}, ""},
		"a query without a path, too":            {"http://h?api-version=1", parsed{"http://h/v1", "api-version=1"}, ""},
		"large letters of the host do not count": {"HTTP://Tower.LAN/V1?A=B", parsed{"http://tower.lan/V1", "A=B"}, ""},
		"an IPv6 address in brackets":            {"http://[fd00::2]:8000/v1", parsed{"http://[fd00::2]:8000/v1", ""}, ""},
		"an IPv6 address without":                {"http://fd00::2:8000/v1", parsed{}, "brackets"},
		"an escaped segment stays as it is":      {"http://h/a%2Fb", parsed{"http://h/a%2Fb", ""}, ""},
		"a dot within a segment is no directory": {"http://h/v1.0/..x", parsed{"http://h/v1.0/..x", ""}, ""},
		"the first sign that can be seen":        {"http://h/!", parsed{"http://h/!", ""}, ""},
		"the last one":                           {"http://h/~", parsed{"http://h/~", ""}, ""},
		"a space":                                {"http://h/a b", parsed{}, "spaces"},
		"a sign that cannot be seen":             {"http://h/\x7f", parsed{}, "control"},
		"a letter outside of ASCII":              {"http://h/ä", parsed{}, "ASCII"},
		"a fragment":                             {"http://h/v1#a", parsed{}, "fragment"},
		"a user":                                 {"http://u:p@h/v1", parsed{}, "user"},
		"another scheme":                         {"ftp://h/v1", parsed{}, "http://"},
		"no host":                                {"http:///v1", parsed{}, "host"},
		"a port of nothing":                      {"http://h:/v1", parsed{}, "port"},
		"port 0":                                 {"http://h:0/v1", parsed{}, "port"},
		"a port that is too large":               {"http://h:65536/v1", parsed{}, "port"},
		"the largest port":                       {"http://h:65535/v1", parsed{"http://h:65535/v1", ""}, ""},
		"an endpoint":                            {"http://h/v1/chat/completions/", parsed{}, "endpoint"},
		"a directory above":                      {"http://h/v1/../admin", parsed{}, ".."},
		"the directory itself":                   {"http://h/v1/./x", parsed{}, "."},
		"a directory above that is written so":   {"http://h/v1/%2E%2e/admin", parsed{}, ".."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			base, query, fault := parseBaseURL(tc.raw)
			if diff := cmp.Diff(tc.want, parsed{base, query}); diff != "" {
				t.Errorf("parsed (-want +got):\n%s", diff)
			}
			if (fault == "") != (tc.wantFault == "") || !strings.Contains(fault, tc.wantFault) {
				t.Errorf("fault = %q, want %q in it", fault, tc.wantFault)
			}
		})
	}
}

func TestServicePath(t *testing.T) {
	cases := map[string]struct {
		path, want string
		wantFault  bool
	}{
		"a path":                     {"/v1", "/v1", false},
		"the root is what URLs mean": {"/", "/v1", false},
		"a slash behind":             {"/api/v1/", "/api/v1", false},
		"no slash before":            {"v1", "", true},
		"no path at all":             {"", "", true},
		"a query":                    {"/v1?a=b", "", true},
		"an endpoint":                {"/v1/embeddings", "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, fault := servicePath(tc.path)
			if got != tc.want || (fault != "") != tc.wantFault {
				t.Errorf("path %q, fault %q, want %q and fault = %v", got, fault, tc.want, tc.wantFault)
			}
		})
	}
}

func TestDialPort(t *testing.T) {
	service := func(change func(*corev1.ServiceSpec), ports ...corev1.ServicePort) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: ports}}
		change(&s.Spec)
		return s
	}
	asIs := func(*corev1.ServiceSpec) {}
	headless := func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }
	external := func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }
	port := func(protocol corev1.Protocol, n int32, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Protocol: protocol, Port: n, TargetPort: target}
	}
	number := intstr.FromInt32(8000)
	cases := map[string]struct {
		service *corev1.Service
		want    int32 // 0: it is not there
	}{
		"one of its ports":                          {service(asIs, port("TCP", 80, number)), 80},
		"one that does not say that it is TCP":      {service(asIs, port("", 80, number)), 80},
		"the second one of the number is TCP":       {service(asIs, port("UDP", 80, number), port("TCP", 80, number)), 80},
		"one of another number":                     {service(asIs, port("TCP", 81, number)), 0},
		"one of another protocol":                   {service(asIs, port("UDP", 80, number)), 0},
		"none":                                      {service(asIs), 0},
		"of a headless Service it is the pods' own": {service(headless, port("TCP", 80, number)), 8000},
		"unless that is a name":                     {service(headless, port("TCP", 80, intstr.FromString("http"))), 80},
		"or not said":                               {service(headless, port("TCP", 80, intstr.IntOrString{})), 80},
		"a name for another host has any":           {service(external), 80},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := dialPort(tc.service, 80)
			if got != tc.want || ok != (tc.want != 0) {
				t.Errorf("dial port %d, %v, want %d", got, ok, tc.want)
			}
		})
	}
}

// TestWhatTheSchemaRefusesOfATarget holds what files may say against the rules of the schema, where all that a route names is there,
// so that nothing else can be the cause.
func TestWhatTheSchemaRefusesOfATarget(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 0}, {Port: 80}}}}
	service.Namespace, service.Name = "a", "vllm"
	of := func(port int32) func(*v1alpha1.Backend) {
		return func(b *v1alpha1.Backend) { b.URL, b.Service = "", &v1alpha1.ServiceRef{Name: "vllm", Port: port} }
	}
	tls := func(tls v1alpha1.BackendTLS) func(*v1alpha1.Backend) {
		return func(b *v1alpha1.Backend) { b.TLS = &tls }
	}
	ca, _ := newPair(t)
	cases := map[string]struct {
		change func(*v1alpha1.Backend)
		want   string // field; empty: nothing is refused
	}{
		"a port of a Service":         {of(80), ""},
		"port 0 of a Service":         {of(0), "spec.chain[0].service.port"},
		"a server name":               {tls(v1alpha1.BackendTLS{ServerName: "tower.lan"}), ""},
		"a space in a server name":    {tls(v1alpha1.BackendTLS{ServerName: "tower lan"}), "spec.chain[0].tls.serverName"},
		"a line break in it":          {tls(v1alpha1.BackendTLS{ServerName: "tower\n"}), "spec.chain[0].tls.serverName"},
		"a sign that cannot be seen":  {tls(v1alpha1.BackendTLS{ServerName: "tower\x7f"}), "spec.chain[0].tls.serverName"},
		"a CA":                        {tls(v1alpha1.BackendTLS{CARef: &v1alpha1.CARef{Kind: "Secret", Name: "tower", Key: "ca"}}), ""},
		"a CA of another kind":        {tls(v1alpha1.BackendTLS{CARef: &v1alpha1.CARef{Kind: "Pod", Name: "tower-ca", Key: "ca"}}), "spec.chain[0].tls.caRef.kind"},
		"a CA in a ConfigMap's bytes": {tls(v1alpha1.BackendTLS{CARef: &v1alpha1.CARef{Name: "tower-ca", Key: "bytes"}}), ""},
	}
	config := &corev1.ConfigMap{Data: map[string]string{"ca": ca}, BinaryData: map[string][]byte{"bytes": []byte(ca)}}
	config.Namespace, config.Name = "a", "tower-ca"
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route := newRoute("r", func(r *v1alpha1.LLMRoute) { tc.change(&r.Spec.Chain[0]) })
			s := snapshotOf(route, service, config, newSecret("tower", map[string]string{"token": "t", "ca": ca}))
			var want, got []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			for _, p := range Compile(s, goldenNow).Routes[key("r")].Problems {
				got = append(got, p.Field)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields with a problem (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecompileFollowsEachKindThatARouteNames(t *testing.T) {
	ca, _ := newPair(t)
	service := func(port int32) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
		s.Namespace, s.Name = "a", "vllm"
		return s
	}
	config := func(text string) *corev1.ConfigMap {
		c := &corev1.ConfigMap{Data: map[string]string{"ca.crt": text}}
		c.Namespace, c.Name = "a", "tower-ca"
		return c
	}
	route := newRoute("r", func(r *v1alpha1.LLMRoute) {
		b := &r.Spec.Chain[0]
		b.URL, b.Auth, b.Service = "", nil, &v1alpha1.ServiceRef{Name: "vllm", Port: 80}
		b.TLS = &v1alpha1.BackendTLS{CARef: &v1alpha1.CARef{Name: "tower-ca"}}
	})
	vllm, bundle := service(80), config(ca) // what is the same is the same object, as that of an informer is
	whole, domain := snapshotOf(route, vllm, bundle), snapshotOf(route, vllm, bundle)
	domain.Options.ClusterDomain = "other.local"
	for name, tc := range map[string]struct{ was, is Snapshot }{
		"a Service changes":     {whole, snapshotOf(route, service(81), bundle)},
		"a Service goes":        {whole, snapshotOf(route, bundle)},
		"a Service comes":       {snapshotOf(route, bundle), whole},
		"a ConfigMap changes":   {whole, snapshotOf(route, vllm, config("no certificate"))},
		"a ConfigMap goes":      {whole, snapshotOf(route, vllm)},
		"a ConfigMap comes":     {snapshotOf(route, vllm), whole},
		"the domain is another": {whole, domain},
		"nothing changes":       {whole, whole},
	} {
		t.Run(name, func(t *testing.T) { sameAsAnew(t, tc.was, tc.is) })
	}
}
