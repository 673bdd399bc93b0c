package api

import (
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// smallest uses every optional block that has defaults of its own, and nothing else.
const smallest = `
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: smallest, namespace: sirens-echo}
spec:
  chain:
  - name: tower
    url: http://tower.lan:11434/v1
    auth: {secretRef: {name: tower, key: token}}
    tls: {caRef: {name: tower-ca}}
    failure: {}
    saturation: {}
  - name: pool
    service: {name: vllm, port: 8000}
`

// inForce is what get shows of it. What is derived (model, slowAfter, nonStreamingSlowAfter) and what a backend inherits
// is not here.
const inForce = `
chain:
- name: tower
  url: http://tower.lan:11434/v1
  regime: unknown
  maxInFlight: 0
  contextWindow: 0
  auth: {secretRef: {name: tower, key: token}, scheme: Bearer}
  tls: {caRef: {kind: ConfigMap, name: tower-ca, key: ca.crt}, verify: Full}
  failure: {}
  saturation: {}
- name: pool
  service: {name: vllm, port: 8000, scheme: http, path: /v1}
  regime: unknown
  maxInFlight: 0
  contextWindow: 0
failure: {threshold: 5, cooldown: 30s}
saturation: {threshold: 2, cooldown: 15m, slowAfterPerKilotoken: 0s, coldStartGrace: 2m}
recovery: {probe: Synthetic}
timeouts: {request: 0s, connect: 5s, idle: 2m}
retry: {attempts: 0, backoff: 250ms}
heartbeat: {interval: 10s, commitAfter: 1s, form: Line}
rateLimit: {requests: 1, per: 1s, burst: 1}
queue: {length: 32, maxWait: 30s}
preferHeader: Honor
whenAllOpen: Try
responseModel: Logical
`

var _ = Describe("Defaults", func() {
	It("are shown by get", func(ctx SpecContext) {
		route := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(smallest), &route.Object)).To(Succeed())
		Expect(admin.Create(ctx, route, client.DryRunAll)).To(Succeed())
		want := map[string]any{}
		Expect(yaml.Unmarshal([]byte(inForce), &want)).To(Succeed())
		Expect(cmp.Diff(asYAML(want), asYAML(route.Object["spec"]))).To(BeEmpty())
	})

	It("are those that Default applies where there is no API server", func(ctx SpecContext) {
		var sent, local v1alpha1.LLMRoute
		Expect(yaml.UnmarshalStrict([]byte(smallest), &sent)).To(Succeed())
		sent.DeepCopyInto(&local)
		local.Default()
		Expect(admin.Create(ctx, &sent, client.DryRunAll)).To(Succeed())
		Expect(cmp.Diff(sent.Spec, local.Spec)).To(BeEmpty())
	})

	It("leave alone what a Go program sets to zero on purpose", func(ctx SpecContext) {
		zero := int32(0)
		route := &v1alpha1.LLMRoute{
			ObjectMeta: metav1.ObjectMeta{Name: "zero", Namespace: namespace},
			Spec: v1alpha1.LLMRouteSpec{
				Chain:     []v1alpha1.Backend{{Name: "tower", URL: "http://tower.lan:11434/v1"}},
				RateLimit: v1alpha1.RateLimit{Requests: &zero},
				Queue:     v1alpha1.QueuePolicy{Length: &zero},
				Heartbeat: v1alpha1.Heartbeat{Interval: "0s"},
			},
		}
		want := route.Spec.DeepCopy()
		Expect(admin.Create(ctx, route, client.DryRunAll)).To(Succeed())
		Expect(route.Spec.RateLimit.Requests).To(Equal(want.RateLimit.Requests))
		Expect(route.Spec.Queue.Length).To(Equal(want.Queue.Length))
		Expect(route.Spec.Heartbeat.Interval).To(Equal(want.Heartbeat.Interval))
	})

	It("are kept beside the fields that somebody sets in the same block", func(ctx SpecContext) {
		route := &v1alpha1.LLMRoute{
			ObjectMeta: metav1.ObjectMeta{Name: "partly", Namespace: namespace},
			Spec: v1alpha1.LLMRouteSpec{
				Chain:      []v1alpha1.Backend{{Name: "tower", URL: "http://tower.lan:11434/v1"}},
				Saturation: v1alpha1.SaturationPolicy{SlowAfter: "20s"},
			},
		}
		Expect(admin.Create(ctx, route, client.DryRunAll)).To(Succeed())
		Expect(route.Spec.Saturation).To(Equal(v1alpha1.SaturationPolicy{
			Threshold: 2, Cooldown: "15m", SlowAfter: "20s", SlowAfterPerKilotoken: "0s", ColdStartGrace: "2m",
		}))
	})
})

// asYAML writes a value with its keys sorted, so that a difference reads well.
func asYAML(value any) string {
	GinkgoHelper()
	text, err := yaml.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
