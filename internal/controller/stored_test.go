package controller

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

func TestOneBadObjectDoesNotSpoilAList(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	const list = `{"apiVersion":"spillway.dev/v1alpha1","kind":"LLMRouteList","metadata":{"resourceVersion":"9"},"items":[
		{"metadata":{"namespace":"a","name":"good","generation":2},"spec":{"chain":[{"name":"tower","url":"http://tower/v1"}]}},
		{"metadata":{"namespace":"a","name":"odd","generation":3,"uid":"u","resourceVersion":"7","labels":{"x":"y"}},
		 "spec":{"chain":"sk-secret"},"status":{"model":"a/odd"}},
		{"metadata":{"namespace":"a","name":"both"},"spec":{"retry":{"attempts":"many"}},"status":7}]}`
	object, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode([]byte(list), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	routes := object.(*storedRouteList).Items
	if len(routes) != 3 || routes[0].fault != "" || routes[0].Spec.Chain[0].Name != "tower" {
		t.Fatalf("the good route is %+v", routes[0])
	}
	odd := routes[1]
	if want := "spec.chain is not of the type that its field has"; odd.fault != want {
		t.Errorf("fault = %q, want %q", odd.fault, want)
	}
	if odd.Name != "odd" || odd.Generation != 3 || odd.UID != "u" || odd.ResourceVersion != "7" || odd.Labels["x"] != "y" {
		t.Errorf("metadata = %+v, want it whole", odd.ObjectMeta)
	}
	if odd.Status.Model != "a/odd" {
		t.Error("a status that decodes alone is lost")
	}
	if routes[2].fault == "" || routes[2].Name != "both" {
		t.Errorf("a route with a bad status, too, is %+v", routes[2])
	}
}

func TestFieldsOfANewerCRDAreNoticed(t *testing.T) {
	const object = `{"metadata":{"name":"default","future":1},"spec":{"chain":[{"name":"tower","url":"http://tower/v1","budget":9}],
		"budget":{"tokens":7}},"status":{"later":true}}`
	var r storedRoute
	if err := json.Unmarshal([]byte(object), &r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"spec.budget", "spec.chain[0].budget"}, r.unknown); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
	if copied := r.DeepCopyObject().(*storedRoute); len(copied.unknown) != 2 || r.fault != "" || len(r.Spec.Chain) != 1 {
		t.Errorf("the route is %+v, its copy %+v", r, copied)
	}
	var p storedPin
	if err := json.Unmarshal([]byte(`{"spec":{"backend":"tower","weight":3}}`), &p); err != nil || len(p.unknown) != 1 || p.Spec.Backend != "tower" {
		t.Errorf("the pin is %+v, error %v", p, err)
	}
}

func TestStoredObjectsAreWrittenAsTheyAre(t *testing.T) {
	r := &storedRoute{LLMRoute: v1alpha1.LLMRoute{Spec: v1alpha1.LLMRouteSpec{Model: "m"}}, fault: "f"}
	r.Name = "n"
	copied := r.DeepCopyObject().(*storedRoute)
	if copied.fault != "f" {
		t.Error("a copy loses its fault")
	}
	plain, err := json.Marshal(&r.LLMRoute)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(copied)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(plain), string(stored)); diff != "" {
		t.Errorf("JSON (-API type +stored type):\n%s", diff)
	}
}
