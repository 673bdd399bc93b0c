package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// created is when the objects of the pages are taken to have been made.
var created = time.Date(2026, time.August, 13, 12, 0, 0, 0, time.UTC)

var separator = regexp.MustCompile(`(?m)^---\s*$`)

func TestManifestsCompile(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		fenced, _ := p.blocks()
		for _, b := range fenced {
			if !strings.Contains(b.text, v1alpha1.GroupVersion.Group) || (b.language != "yaml" && b.language != "sh") {
				continue
			}
			for _, text := range manifestsOf(b) {
				seen++
				for _, problem := range problemsOf(text) {
					t.Errorf("%s:%d: %s", p.path, b.line, problem)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no page shows a manifest: the test does not find them")
	}
}

var heredoc = regexp.MustCompile(`(?s)<<'EOF'[^\n]*\n(.*?)\n *EOF\b`)

// manifestsOf returns what is YAML in a block: all of it, or the here-documents of a script.
func manifestsOf(b block) []string {
	if b.language == "yaml" {
		return []string{b.text}
	}
	var texts []string
	for _, match := range heredoc.FindAllStringSubmatch(b.text, -1) {
		if strings.Contains(match[1], v1alpha1.GroupVersion.Group) {
			texts = append(texts, match[1])
		}
	}
	return texts
}

// problemsOf reads the objects strictly, as the API server warns, and compiles them. What a route refers to may be elsewhere.
func problemsOf(text string) []string {
	var problems []string
	s := compiler.Snapshot{Secrets: map[types.NamespacedName]*corev1.Secret{}, Salt: []byte("salt")}
	for _, doc := range separator.Split(text, -1) {
		if err := read(doc, &s); err != nil {
			problems = append(problems, err.Error())
		}
	}
	result := compiler.Compile(s, created)
	for _, v := range result.SortedRoutes() {
		for _, p := range v.Problems {
			if !elsewhere(p.Reason) {
				problems = append(problems, fmt.Sprintf("LLMRoute %s: %s", v.Key, p))
			}
		}
	}
	for _, v := range result.SortedPins() {
		for _, p := range v.Problems {
			problems = append(problems, fmt.Sprintf("BackendPin %s: %s", v.Key, p))
		}
	}
	return problems
}

func elsewhere(reason v1alpha1.ConditionReason) bool {
	return reason == v1alpha1.ReasonSecretNotFound || reason == v1alpha1.ReasonServiceNotFound || reason == v1alpha1.ReasonConfigMapNotFound
}

// read adds the object of a document to the snapshot. Kinds that the compiler does not know are not judged.
func read(doc string, s *compiler.Snapshot) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
		return err
	}
	switch meta.Kind {
	case "LLMRoute":
		route := &v1alpha1.LLMRoute{}
		s.Routes = append(s.Routes, route)
		return readStrict(doc, route)
	case "BackendPin":
		pin := &v1alpha1.BackendPin{}
		s.Pins = append(s.Pins, pin)
		return readStrict(doc, pin)
	case "Secret":
		secret := &corev1.Secret{Data: map[string][]byte{}}
		err := readStrict(doc, secret)
		for key, value := range secret.StringData {
			secret.Data[key] = []byte(value)
		}
		s.Secrets[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] = secret
		return err
	}
	return nil
}

func readStrict(doc string, into metav1.Object) error {
	err := yaml.UnmarshalStrict([]byte(doc), into)
	into.SetCreationTimestamp(metav1.NewTime(created))
	if into.GetName() == "" {
		return fmt.Errorf("an object has no name: %w", err)
	}
	return err
}

func TestWrongManifestsAreFound(t *testing.T) {
	tests := map[string]struct{ text, wantPart string }{
		"an unknown field": {"kind: LLMRoute\nmetadata: {name: a}\nspec: {chian: []}\n", "chian"},
		"a URL that ends in an endpoint": {
			"kind: LLMRoute\nmetadata: {name: a}\nspec: {chain: [{name: b, url: 'http://x.lan/v1/chat/completions'}]}\n", "/chat/completions",
		},
		"a pin without an end": {"kind: BackendPin\nmetadata: {name: a}\nspec: {routes: {names: [a]}, backend: b, mode: Prefer}\n", "duration"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(problemsOf(tc.text), "\n"); !strings.Contains(got, tc.wantPart) {
				t.Errorf("problems are %q, want %q among them", got, tc.wantPart)
			}
		})
	}
}
