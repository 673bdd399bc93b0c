package compiler

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
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
		route := r.Table.ByKey("a/r")
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
	if got := both.Table.ByModel("gpt").Name; got != "first" {
		t.Errorf("%s holds the model, want first", got)
	}
	if v := both.Routes[key("second")]; v.Winner != key("first") || v.Programmable || both.Table.ByKey("a/second") != nil {
		t.Errorf("the loser is in the table, or does not know the winner: %+v", v)
	}
	alone := Compile(snapshotOf(newRoute("second", model, younger)), goldenNow)
	if v := alone.Routes[key("second")]; !v.Accepted() || !v.Programmable || alone.Table.ByModel("gpt") == nil {
		t.Errorf("the model was not handed over: %+v", v)
	}
}

// A pin ends by the clocks of the proxies, so ours does not take it away from one that is behind.
func TestAPinThatHasEndedStaysForClocksThatAreBehind(t *testing.T) {
	end := goldenNow.Add(3 * time.Hour)
	s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
	s.Pins = []*v1alpha1.BackendPin{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", CreationTimestamp: metav1.NewTime(goldenNow.Add(-time.Hour))},
		Spec:       v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinOnly, Duration: "4h"},
	}}
	for name, tc := range map[string]struct {
		now  time.Time
		want int
	}{
		"before its end":                   {end.Add(-time.Second), 1},
		"when it ends by our clock":        {end, 1},
		"when it may be on at some proxy":  {end.Add(clockSkew - time.Second), 1},
		"when it has ended by everybody's": {end.Add(clockSkew), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := Compile(s, tc.now)
			if pins := r.Table.ByKey("a/r").Pins; len(pins) != tc.want {
				t.Errorf("pins in the table: %v, want %d", pins, tc.want)
			}
			if v := r.Pins[key("p")]; !v.ExpiresAt.Equal(end) {
				t.Errorf("it ends at %s, want %s", v.ExpiresAt, end)
			}
		})
	}
}

// Deleting a pin ends it, also while something else keeps the object.
func TestADeletedPinHasEnded(t *testing.T) {
	pin := &v1alpha1.BackendPin{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", CreationTimestamp: metav1.NewTime(goldenNow.Add(-time.Hour))},
		Spec:       v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinOnly, Duration: "4h"},
	}
	s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
	s.Pins = []*v1alpha1.BackendPin{pin}
	if pins := Compile(s, goldenNow).Table.ByKey("a/r").Pins; len(pins) != 1 {
		t.Fatalf("pins in force: %v, want one", pins)
	}
	deleted := metav1.NewTime(goldenNow.Add(-time.Second))
	pin.DeletionTimestamp = &deleted
	r := Compile(s, goldenNow)
	if pins := r.Table.ByKey("a/r").Pins; len(pins) != 0 {
		t.Errorf("pins in force: %v, want none", pins)
	}
	if v := r.Pins[key("p")]; !v.Accepted() || !v.ExpiresAt.Equal(deleted.Time) {
		t.Errorf("verdict: %+v, want an end at the deletion", v)
	}
}

func TestUndecodableObjectsGetAVerdictAndNothingElse(t *testing.T) {
	s := snapshotOf(newRoute("good"), newSecret("tower", map[string]string{"token": "one"}))
	s.Undecodable = []Undecodable{
		{Kind: KindRoute, Key: key("bad"), Generation: 4, Detail: "spec.retry.attempts is not a number"},
		{Kind: KindPin, Key: key("bad-pin"), Generation: 5, Detail: "spec.routes is not an object"},
	}
	r := Compile(s, goldenNow)
	if !r.Routes[key("good")].Programmable {
		t.Error("the good route is not served")
	}
	want := "The stored object does not fit its schema (spec.retry.attempts is not a number); apply it again with the right types."
	if v := r.Routes[key("bad")]; v.Accepted() || v.Generation != 4 || v.Problems[0].String() != want {
		t.Errorf("verdict on the route: %+v", v)
	}
	if v := r.Pins[key("bad-pin")]; v.Accepted() || v.Generation != 5 {
		t.Errorf("verdict on the pin: %+v", v)
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
				if !v.Programmable || r.Table.ByKey("a/r").Chain[0].TLS.ClientKey != certKey {
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
			if diff := cmp.Diff(want.Table.Routes(), got.Table.Routes()); diff != "" {
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

// TestPinsOfARouteAreBounded lets the newest pins have the last word where there are too many.
func TestPinsOfARouteAreBounded(t *testing.T) {
	s := snapshotOf(newRoute("r"), newRoute("s"), newSecret("tower", map[string]string{"token": "one"}))
	for i := range maxPinsPerRoute + 3 {
		pin := &v1alpha1.BackendPin{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("p%02d", i), CreationTimestamp: metav1.NewTime(goldenNow.Add(time.Duration(i) * time.Second))},
			Spec: v1alpha1.BackendPinSpec{
				Routes: v1alpha1.PinRoutes{Selector: &v1alpha1.RouteSelector{}}, Backend: "tower", Mode: v1alpha1.PinPrefer, Duration: "4h"},
		}
		s.Pins = append(s.Pins, pin)
	}
	result := Compile(s, goldenNow.Add(time.Hour))
	for _, entry := range result.Table.Routes() {
		if n := len(entry.Pins); n != maxPinsPerRoute || entry.Pins[0].Name != "p03" || entry.Pins[n-1].Name != "p34" {
			t.Errorf("%s has %d pins, from %s to %s", entry.Key(), n, entry.Pins[0].Name, entry.Pins[n-1].Name)
		}
	}
	for key, v := range result.Pins {
		if !v.Accepted() || !slices.Equal(v.MatchedRoutes, []string{"r", "s"}) {
			t.Errorf("%s: accepted %v, matched %v", key, v.Accepted(), v.MatchedRoutes)
		}
	}
}

// TestOfTooManyPinsThoseCountThatAreOnOrNext is a year of Fridays in one file, behind which the pin of tonight must not vanish.
func TestOfTooManyPinsThoseCountThatAreOnOrNext(t *testing.T) {
	s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
	pin := func(name string, from, to time.Duration) {
		start, end := metav1.NewTime(goldenNow.Add(from)), metav1.NewTime(goldenNow.Add(to))
		s.Pins = append(s.Pins, &v1alpha1.BackendPin{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(goldenNow.Add(-time.Hour))},
			Spec: v1alpha1.BackendPinSpec{
				Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinPrefer, StartsAt: &start, ExpiresAt: &end},
		})
	}
	pin("a-tonight", -time.Hour, 3*time.Hour)
	const week = 7 * 24 * time.Hour
	for i := range 40 {
		pin(fmt.Sprintf("friday-%02d", i), time.Duration(40-i)*week, time.Duration(40-i)*week+4*time.Hour) // the last comes first
		pin(fmt.Sprintf("over-%02d", i), -2*time.Hour, -time.Minute)                                       // and is still in the table while there is room
	}
	cases := map[string]struct {
		now         time.Time
		first, last string
		next        time.Time
	}{
		"what is on and the next ones":           {goldenNow, "a-tonight", "friday-39", goldenNow.Add(3 * time.Hour)},
		"one more once the first is over":        {goldenNow.Add(3 * time.Hour), "friday-08", "friday-39", goldenNow.Add(week)},
		"and another one when the next has come": {goldenNow.Add(week + 4*time.Hour), "friday-07", "friday-38", goldenNow.Add(2 * week)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := Compile(s, tc.now)
			pins := result.Table.Routes()[0].Pins
			if n := len(pins); n != maxPinsPerRoute || pins[0].Name != tc.first || pins[n-1].Name != tc.last {
				t.Errorf("%d pins, from %s to %s; want %d, from %s to %s", n, pins[0].Name, pins[n-1].Name, maxPinsPerRoute, tc.first, tc.last)
			}
			if !result.Next.Equal(tc.next) {
				t.Errorf("next at %s, want %s", result.Next, tc.next)
			}
		})
	}
	if result := Compile(s, goldenNow.Add(12*week)); !result.Next.IsZero() {
		t.Errorf("next at %s although there is room for all", result.Next)
	}
}
