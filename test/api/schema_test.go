package api

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/test/apiserver"
)

// rule is one file of testdata: one rule of the schema with what it accepts and what it refuses.
type rule struct {
	Message string           `json:"message"`
	Accepts map[string]patch `json:"accepts"`
	Refuses map[string]patch `json:"refuses"`
}

// patch changes a valid object; null removes a field.
type patch struct {
	Spec    map[string]any `json:"spec"`
	Backend map[string]any `json:"backend"`
	Status  map[string]any `json:"status"`
	Then    map[string]any `json:"then"`
}

// valid is an object of each kind that every rule accepts.
var valid = map[string]string{
	"llmroute": `
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {generateName: case-, namespace: sirens-echo}
spec:
  chain: [{name: tower, url: "http://tower.lan:11434/v1"}]`,
	"backendpin": `
apiVersion: spillway.dev/v1alpha1
kind: BackendPin
metadata: {generateName: case-, namespace: sirens-echo}
spec: {routes: {names: [default]}, backend: hosted, mode: Prefer, duration: 4h}`,
	"proxyreport": `
apiVersion: spillway.dev/v1alpha1
kind: ProxyReport
metadata: {generateName: case-, namespace: sirens-echo}
status: {ready: true, draining: false}`,
}

var _ = Describe("The schema", func() {
	for _, kind := range slices.Sorted(maps.Keys(valid)) {
		for _, file := range ruleFiles(kind) {
			tc := readRule(file)
			Context(kind+": "+strings.TrimSuffix(filepath.Base(file), ".yaml"), func() {
				for _, name := range slices.Sorted(maps.Keys(tc.Accepts)) {
					It("accepts "+name, func(ctx SpecContext) {
						Expect(submit(ctx, kind, tc.Accepts[name])).To(Succeed())
					})
				}
				for _, name := range slices.Sorted(maps.Keys(tc.Refuses)) {
					It("refuses "+name, func(ctx SpecContext) {
						Expect(submit(ctx, kind, tc.Refuses[name])).To(MatchError(And(ContainSubstring(tc.Message), Not(ContainSubstring("evaluating rule")))))
					})
				}
			})
		}
	}

	for _, kind := range []string{"llmroute", "backendpin"} {
		It("refuses a "+kind+" without a spec", func(ctx SpecContext) {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(valid[kind]), object)).To(Succeed())
			delete(object.Object, "spec")
			Expect(admin.Create(ctx, object, client.DryRunAll)).To(MatchError(ContainSubstring("spec: Required value")))
		})
	}

	It("has a file for every rule of the CRDs, and every rule says its message as a sentence", func() {
		tested := map[string]bool{}
		for kind := range valid {
			for _, file := range ruleFiles(kind) {
				tested[kind+": "+readRule(file).Message] = true
			}
		}
		for _, crd := range readCRDs() {
			for _, message := range ruleMessages(crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
				Expect(message).To(MatchRegexp(`^\S.* .*\.$`), "not a sentence")
				Expect(tested).To(HaveKey(crd.Spec.Names.Singular + ": " + message))
			}
		}
	})
})

var _ = Describe("The folder config", func() {
	for _, dir := range []string{"crd", "rbac", "policy"} {
		It("applies every file of "+dir, func() {
			files, err := filepath.Glob(apiserver.Config(dir, "*.yaml"))
			Expect(err).NotTo(HaveOccurred())
			names := []string{"kustomization.yaml"}
			names = append(names, kustomization(dir)...)
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			Expect(names).To(ConsistOf(files))
		})
	}
})

// submit sends a case to the API server without storing it; a case with `then` is stored, updated and removed.
func submit(ctx context.Context, kind string, p patch) error {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(valid[kind]), object)).To(Succeed())
	merge(object.Object, map[string]any{"spec": p.Spec, "status": p.Status})
	if p.Backend != nil {
		chain := object.Object["spec"].(map[string]any)["chain"].([]any)
		merge(chain[0].(map[string]any), p.Backend)
	}
	if p.Then == nil {
		return admin.Create(ctx, object, client.DryRunAll)
	}
	Expect(admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, object)).To(Succeed()) })
	merge(object.Object, map[string]any{"spec": p.Then})
	return admin.Update(ctx, object.DeepCopy(), client.DryRunAll)
}

// merge is a JSON merge patch, in place: maps are merged, null removes, everything else replaces.
func merge(into, from map[string]any) {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		there, wasMap := into[key].(map[string]any)
		switch {
		case isMap && below == nil: // a part that the case leaves alone
		case isMap && wasMap:
			merge(there, below)
		case value == nil:
			delete(into, key)
		default:
			into[key] = value
		}
	}
}

func ruleFiles(kind string) []string {
	files, err := filepath.Glob(filepath.Join("testdata", kind, "*.yaml"))
	if err != nil || len(files) == 0 {
		panic("no rules in testdata/" + kind) // the tree of specs is built before anything can fail
	}
	return files
}

func readRule(file string) rule {
	data, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var r rule
	if err := yaml.UnmarshalStrict(data, &r); err != nil {
		panic(file + ": " + err.Error())
	}
	if r.Message == "" || len(r.Refuses) == 0 {
		panic(file + ": a rule has a message and refuses something")
	}
	return r
}

func readCRDs() []apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	files, err := filepath.Glob(apiserver.Config("crd", "spillway.dev_*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(len(valid)))
	crds := make([]apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(data, &crds[i])).To(Succeed())
	}
	return crds
}

// ruleMessages lists the messages of all rules of a schema.
func ruleMessages(s *apiextensionsv1.JSONSchemaProps) []string {
	var messages []string
	for _, r := range s.XValidations {
		messages = append(messages, r.Message)
	}
	for name := range s.Properties {
		property := s.Properties[name]
		messages = append(messages, ruleMessages(&property)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		messages = append(messages, ruleMessages(s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		messages = append(messages, ruleMessages(s.AdditionalProperties.Schema)...)
	}
	return messages
}
