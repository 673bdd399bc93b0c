package oldest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/yaml"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	sigsyaml "sigs.k8s.io/yaml"
)

// mutatingSince is the first version that serves MutatingAdmissionPolicy v1. The chart leaves ours out elsewhere.
var mutatingSince = version.MajorMinor(1, 36)

func root(parts ...string) string {
	return filepath.Join(append([]string{"..", ".."}, parts...)...)
}

// oldestAllowed is the version that the chart names, which is what helm refuses to go below.
func oldestAllowed(t *testing.T) *version.Version {
	t.Helper()
	data, err := os.ReadFile(root("charts", "spillway", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^kubeVersion: ">=(1\.\d+)\.0-0"$`).FindSubmatch(data)
	if found == nil {
		t.Fatal("the chart names no oldest version")
	}
	return version.MustParseGeneric(string(found[1]))
}

// environmentOf is what a server of that version compiles a new expression in: it takes no more than the version before
// knows, so that it can be rolled back.
func environmentOf(server *version.Version) *environment.EnvSet {
	return environment.MustBaseEnvSet(server.SubtractMinor(1))
}

func documents(t *testing.T, file string) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reader := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	defer func() { _ = reader.Close() }()
	for {
		buffer := make([]byte, len(data)+1)
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, buffer[:n])
	}
}

func TestRulesOfCRDsCompileOnTheOldestServer(t *testing.T) {
	files, err := filepath.Glob(root("config", "crd", "spillway.dev_*.yaml"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%d CRDs, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := sigsyaml.UnmarshalStrict(documents(t, file)[0], &crd); err != nil {
				t.Fatal(err)
			}
			var internal apiextensions.JSONSchemaProps
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
				t.Fatal(err)
			}
			structural, err := schema.NewStructural(&internal)
			if err != nil {
				t.Fatal(err)
			}
			if n := compileRules(t, "", structural, environmentOf(oldestAllowed(t))); n == 0 && crd.Spec.Names.Kind != "ProxyReport" {
				t.Error("no rule was compiled")
			}
		})
	}
}

// compileRules compiles the rules of a schema and of what is in it, and returns how many there are.
func compileRules(t *testing.T, at string, s *schema.Structural, env *environment.EnvSet) int {
	t.Helper()
	n := len(s.XValidations)
	for _, rule := range s.XValidations {
		if rule.MessageExpression != "" || rule.OptionalOldSelf != nil || rule.FieldPath != "" || rule.Reason != nil {
			t.Errorf("%s: a rule has more than an expression and a message: look since when that is served", at)
		}
	}
	if n > 0 {
		results, err := schemacel.Compile(s, model.SchemaDeclType(s, at == ""), celconfig.PerCallLimit, env, schemacel.NewExpressionsEnvLoader())
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		for i, result := range results {
			if result.Error != nil {
				t.Errorf("%s: %s: %v", at, s.XValidations[i].Rule, result.Error)
			}
		}
	}
	for name := range s.Properties {
		property := s.Properties[name]
		n += compileRules(t, at+"."+name, &property, env)
	}
	if s.Items != nil {
		n += compileRules(t, at+"[]", s.Items, env)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		n += compileRules(t, at+"{}", s.AdditionalProperties.Structural, env)
	}
	return n
}

// expression is one expression of a policy. It implements the interfaces of the API server's compiler.
type expression struct {
	name, text string
	yields     *cel.Type
}

func (e expression) GetExpression() string    { return e.text }
func (e expression) GetName() string          { return e.name }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.yields} }
func named(name, text string) expression      { return expression{name, text, cel.AnyType} }
func condition(name, text string) expression  { return expression{name, text, cel.BoolType} }
func text(name, text string) expression       { return expression{name, text, cel.StringType} }
func patch(name, text string) expression {
	return expression{name, text, cel.ListType(types.NewObjectType("JSONPatch"))}
}

// policy is what is common to both kinds of policies.
type policy struct {
	since       *version.Version
	variables   []expression
	expressions []expression
	patches     []expression
}

func TestPoliciesCompileOnTheOldestServer(t *testing.T) {
	for file, want := range map[string]int{"pin.yaml": 1, "report.yaml": 1, "pinned-by.yaml": 1} {
		t.Run(file, func(t *testing.T) {
			n := 0
			for _, document := range documents(t, root("config", "policy", file)) {
				if p := readPolicy(t, document); p != nil {
					n++
					p.compile(t)
				}
			}
			if n != want {
				t.Errorf("%d policies, want %d", n, want)
			}
		})
	}
}

// readPolicy returns nil for what is no policy.
func readPolicy(t *testing.T, document []byte) *policy {
	t.Helper()
	var head metav1.TypeMeta
	if err := sigsyaml.Unmarshal(document, &head); err != nil {
		t.Fatal(err)
	}
	if head.APIVersion != admissionv1.SchemeGroupVersion.String() {
		t.Fatalf("%s of %s: which servers serve that?", head.Kind, head.APIVersion)
	}
	switch head.Kind {
	case "ValidatingAdmissionPolicy":
		var v admissionv1.ValidatingAdmissionPolicy
		decode(t, document, &v)
		return readValidating(oldestAllowed(t), &v.Spec)
	case "MutatingAdmissionPolicy":
		var m admissionv1.MutatingAdmissionPolicy
		decode(t, document, &m)
		return readMutating(&m.Spec)
	default:
		return nil
	}
}

func decode(t *testing.T, document []byte, into any) {
	t.Helper()
	if err := sigsyaml.UnmarshalStrict(document, into); err != nil {
		t.Fatal(err)
	}
}

func readValidating(since *version.Version, spec *admissionv1.ValidatingAdmissionPolicySpec) *policy {
	p := &policy{since: since}
	for _, v := range spec.Variables {
		p.variables = append(p.variables, named(v.Name, v.Expression))
	}
	for _, c := range spec.MatchConditions {
		p.expressions = append(p.expressions, condition(c.Name, c.Expression))
	}
	for _, v := range spec.Validations {
		p.expressions = append(p.expressions, condition(v.Expression, v.Expression))
		if v.MessageExpression != "" {
			p.expressions = append(p.expressions, text(v.MessageExpression, v.MessageExpression))
		}
	}
	return p
}

func readMutating(spec *admissionv1.MutatingAdmissionPolicySpec) *policy {
	p := &policy{since: mutatingSince}
	for _, v := range spec.Variables {
		p.variables = append(p.variables, named(v.Name, v.Expression))
	}
	for _, c := range spec.MatchConditions {
		p.expressions = append(p.expressions, condition(c.Name, c.Expression))
	}
	for _, m := range spec.Mutations {
		p.patches = append(p.patches, patch("mutation", m.JSONPatch.Expression))
	}
	return p
}

func (p *policy) compile(t *testing.T) {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environmentOf(p.since))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range p.variables {
		if r := compiler.CompileAndStoreVariable(v, options, environment.NewExpressions); r.Error != nil {
			t.Errorf("variable %s: %v", v.name, r.Error)
		}
	}
	for _, e := range p.expressions {
		if r := compiler.CompileCELExpression(e, options, environment.NewExpressions); r.Error != nil {
			t.Errorf("%s: %v", e.name, r.Error)
		}
	}
	options.HasPatchTypes = true
	for _, e := range p.patches {
		if r := compiler.CompileCELExpression(e, options, environment.NewExpressions); r.Error != nil {
			t.Errorf("%s: %v", e.name, r.Error)
		}
	}
}
