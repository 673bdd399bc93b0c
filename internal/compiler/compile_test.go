package compiler

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	mathrand "math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// newRoute returns a route of namespace "a" with one backend behind a credential.
func newRoute(name string, mutate ...func(*v1alpha1.LLMRoute)) *v1alpha1.LLMRoute {
	route := &v1alpha1.LLMRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Generation: 1, CreationTimestamp: metav1.NewTime(goldenNow)},
		Spec: v1alpha1.LLMRouteSpec{Chain: []v1alpha1.Backend{{
			Name: "tower",
			URL:  "http://tower.lan/v1",
			Auth: &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "tower", Key: "token"}},
		}}},
	}
	for _, m := range mutate {
		m(route)
	}
	return route
}

func newSecret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, StringData: data}
}

func snapshotOf(objects ...metav1.Object) Snapshot {
	s := emptySnapshot()
	for _, o := range objects {
		s.add(o)
	}
	return s.Snapshot
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: name} }

// TestBackendID holds each part of an identity against the identity of newRoute's backend.
func TestBackendID(t *testing.T) {
	idOf := func(s Snapshot) table.BackendID { return Compile(s, goldenNow).Routes[key("r")].Backends[0].ID }
	secret := newSecret("tower", map[string]string{"token": "one"})
	base := idOf(snapshotOf(newRoute("r"), secret))
	if len(base) != 32 {
		t.Fatalf("id %q is not 32 hex digits", base)
	}
	backend := func(change func(*v1alpha1.Backend)) *v1alpha1.LLMRoute {
		return newRoute("r", func(r *v1alpha1.LLMRoute) {
			r.Spec.Model = "a/r"
			change(&r.Spec.Chain[0])
		})
	}
	salted := snapshotOf(newRoute("r"), secret)
	salted.Salt = []byte("another")
	tests := map[string]struct {
		s        Snapshot
		wantSame bool
	}{
		"the name in the chain does not count":   {snapshotOf(secret, backend(func(b *v1alpha1.Backend) { b.Name = "other" })), true},
		"limits do not count":                    {snapshotOf(secret, backend(func(b *v1alpha1.Backend) { b.MaxInFlight = 3 })), true},
		"a spelling of the same URL":             {snapshotOf(secret, backend(func(b *v1alpha1.Backend) { b.URL = "http://Tower.lan/" })), true},
		"another URL is another backend":         {snapshotOf(secret, backend(func(b *v1alpha1.Backend) { b.URL = "http://tower.lan/v2" })), false},
		"another query is another backend":       {snapshotOf(secret, backend(func(b *v1alpha1.Backend) { b.URL += "?x=1" })), false},
		"another model is another backend":       {snapshotOf(secret, backend(func(b *v1alpha1.Backend) { b.Model = "m" })), false},
		"a rotated key is another backend":       {snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "two"})), false},
		"a key with a newline is the same":       {snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one\n"})), true},
		"no credential is another backend":       {snapshotOf(backend(func(b *v1alpha1.Backend) { b.Auth = nil })), false},
		"another salt gives ids without meaning": {salted, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := idOf(tc.s); (got == base) != tc.wantSame {
				t.Errorf("id %s, base %s: same = %v, want %v", got, base, got == base, tc.wantSame)
			}
		})
	}
}

// TestSecretsComeAndGo follows E5: rotation, deletion and return of a Secret.
func TestSecretsComeAndGo(t *testing.T) {
	credential := func(objects ...metav1.Object) string {
		r := Compile(snapshotOf(objects...), goldenNow)
		route := r.Table().ByKey("a/r")
		if len(route.Chain) == 0 {
			return string(r.Routes[key("r")].Problems[0].Reason)
		}
		return route.Chain[0].Credential.Value
	}
	steps := []struct {
		name string
		data map[string]string
		want string
	}{
		{"there", map[string]string{"token": "one"}, "Bearer one"},
		{"rotated, with a newline", map[string]string{"token": "two\r\n"}, "Bearer two"},
		{"deleted", nil, "SecretNotFound"},
		{"back with another key name", map[string]string{"key": "two"}, "KeyNotFound"},
		{"back", map[string]string{"token": "three"}, "Bearer three"},
	}
	for _, step := range steps {
		objects := []metav1.Object{newRoute("r")}
		if step.data != nil {
			objects = append(objects, newSecret("tower", step.data))
		}
		if got := credential(objects...); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

func TestModelIsHandedOverWhenItsHolderGoes(t *testing.T) {
	model := func(r *v1alpha1.LLMRoute) { r.Spec.Model = "gpt"; r.Spec.Chain[0].Auth = nil }
	younger := func(r *v1alpha1.LLMRoute) { r.CreationTimestamp = metav1.NewTime(goldenNow.Add(time.Second)) }
	both := Compile(snapshotOf(newRoute("first", model), newRoute("second", model, younger)), goldenNow)
	if got := both.Table().ByModel("gpt").Name; got != "first" {
		t.Errorf("%s holds the model, want first", got)
	}
	if v := both.Routes[key("second")]; v.Winner != key("first") || v.Programmable || both.Table().ByKey("a/second") != nil {
		t.Errorf("the loser is in the table, or does not know the winner: %+v", v)
	}
	alone := Compile(snapshotOf(newRoute("second", model, younger)), goldenNow)
	if v := alone.Routes[key("second")]; !v.Accepted() || !v.Programmable || alone.Table().ByModel("gpt") == nil {
		t.Errorf("the model was not handed over: %+v", v)
	}
}

func TestUndecodableObjectsGetAVerdictAndNothingElse(t *testing.T) {
	s := snapshotOf(newRoute("good"), newSecret("tower", map[string]string{"token": "one"}))
	s.Undecodable = []Undecodable{
		{Kind: KindRoute, Key: key("bad"), Generation: 4, Detail: "spec.retry.attempts is not a number"},
		{Kind: KindPin, Key: key("bad-pin"), UID: "7", Generation: 5, Detail: "spec.routes is not an object"},
	}
	r := Compile(s, goldenNow)
	if !r.Routes[key("good")].Programmable {
		t.Error("the good route is not served")
	}
	want := "The stored object does not fit its schema (spec.retry.attempts is not a number); apply it again with the right types."
	if v := r.Routes[key("bad")]; v.Accepted() || v.Generation != 4 || v.Problems[0].String() != want {
		t.Errorf("verdict on the route: %+v", v)
	}
	wantPin := &PinVerdict{Key: key("bad-pin"), UID: "7", Generation: 5, Problems: []Problem{{
		Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonInvalidSpec,
		Message: "The stored object does not fit its schema (spec.routes is not an object); apply it again with the right types.",
	}}}
	if diff := cmp.Diff(wantPin, r.Pins[key("bad-pin")]); diff != "" {
		t.Errorf("verdict on the pin (-want +got):\n%s", diff)
	}
}

func TestReferences(t *testing.T) {
	route := newRoute("r", func(r *v1alpha1.LLMRoute) {
		r.Spec.Chain = append(r.Spec.Chain, v1alpha1.Backend{
			Name:    "second",
			Service: &v1alpha1.ServiceRef{Name: "vllm", Port: 80},
			Auth:    &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "tower", Key: "other"}},
			TLS: &v1alpha1.BackendTLS{
				CARef:         &v1alpha1.CARef{Name: "ca"},
				ClientCertRef: &v1alpha1.SecretRef{Name: "pair"},
			},
		}, v1alpha1.Backend{
			Name: "third", TLS: &v1alpha1.BackendTLS{CARef: &v1alpha1.CARef{Kind: v1alpha1.CARefSecret, Name: "ca"}},
		})
	})
	want := []Reference{
		{KindConfigMap, "a", "ca"}, {KindSecret, "a", "ca"}, {KindSecret, "a", "pair"}, {KindSecret, "a", "tower"}, {KindService, "a", "vllm"},
	}
	if diff := cmp.Diff(want, References(route)); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	if got := References(nil); got != nil {
		t.Errorf("a nil route names %v", got)
	}
}

func TestClientPair(t *testing.T) {
	cert, certKey := newPair(t)
	other, _ := newPair(t)
	tests := map[string]struct {
		data       map[string]string
		wantReason v1alpha1.ConditionReason
	}{
		"a pair is used":                      {map[string]string{"tls.crt": cert, "tls.key": certKey}, ""},
		"a key of another certificate is not": {map[string]string{"tls.crt": other, "tls.key": certKey}, v1alpha1.ReasonInvalidCertificate},
		"a pair without key is not":           {map[string]string{"tls.crt": cert}, v1alpha1.ReasonKeyNotFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			route := newRoute("r", func(r *v1alpha1.LLMRoute) {
				r.Spec.Chain[0].Auth = nil
				r.Spec.Chain[0].TLS = &v1alpha1.BackendTLS{ClientCertRef: &v1alpha1.SecretRef{Name: "pair"}}
			})
			r := Compile(snapshotOf(route, newSecret("pair", tc.data)), goldenNow)
			v := r.Routes[key("r")]
			if tc.wantReason == "" {
				if b := r.Table().ByKey("a/r"); !v.Programmable || b.Chain[0].TLS.ClientKey != certKey || b.Chain[0].TLS.ClientCert != cert {
					t.Errorf("the pair is not used: %+v", v.Problems)
				}
				return
			}
			if len(v.Problems) != 1 || v.Problems[0].Reason != tc.wantReason || strings.Contains(v.Problems[0].Message, "BEGIN") {
				t.Errorf("problems %+v, want one with reason %s", v.Problems, tc.wantReason)
			}
		})
	}
}

func newPair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

// TestOrderOfInputDoesNotMatter shuffles a whole snapshot, and holds it against a copy: Compile changes nothing in it.
func TestOrderOfInputDoesNotMatter(t *testing.T) {
	for _, file := range []string{"pins", "conflicts", "sharing", "invalid", "references"} {
		s := readSnapshot(t, "testdata/"+file+".in.yaml")
		before := deepCopy(s)
		want := Compile(s, goldenNow)
		for seed := range uint64(20) {
			random := mathrand.New(mathrand.NewPCG(seed, 0))
			shuffled := deepCopy(s)
			random.Shuffle(len(s.Routes), reflect.Swapper(shuffled.Routes))
			random.Shuffle(len(s.Pins), reflect.Swapper(shuffled.Pins))
			got := Compile(shuffled, goldenNow)
			if diff := cmp.Diff(want.Table().Routes(), got.Table().Routes()); diff != "" {
				t.Fatalf("%s: the table depends on the order (-want +got):\n%s", file, diff)
			}
			if diff := cmp.Diff(want.SortedRoutes(), got.SortedRoutes()); diff != "" {
				t.Fatalf("%s: the verdicts depend on the order (-want +got):\n%s", file, diff)
			}
			if diff := cmp.Diff(want.SortedPins(), got.SortedPins()); diff != "" {
				t.Fatalf("%s: the verdicts on pins depend on the order (-want +got):\n%s", file, diff)
			}
		}
		if diff := cmp.Diff(before, s); diff != "" {
			t.Errorf("%s: Compile changed its input (-before +after):\n%s", file, diff)
		}
	}
}

func deepCopy(s Snapshot) Snapshot {
	s.Routes, s.Pins = slices.Clone(s.Routes), slices.Clone(s.Pins)
	for i, r := range s.Routes {
		s.Routes[i] = r.DeepCopy()
	}
	for i, p := range s.Pins {
		s.Pins[i] = p.DeepCopy()
	}
	return s
}
