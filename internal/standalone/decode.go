package standalone

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// DefaultNamespace is where an object without one is, as with kubectl.
const DefaultNamespace = "default"

// Object is one readable object of a file.
type Object struct {
	Kind  compiler.Kind
	File  string
	Line  int           // of the file, where the object begins
	Value metav1.Object // *v1alpha1.LLMRoute, *v1alpha1.BackendPin, *corev1.Secret, *corev1.ConfigMap or *corev1.Service

	root  *yamlnode.Node
	first int // line of the file where the object's document begins
}

// Key is the object's name.
func (o *Object) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Value.GetNamespace(), Name: o.Value.GetName()}
}

// lineOf is the line of the file where a field is, such as "spec.chain[1].url", or the last part of its path that is there.
func (o *Object) lineOf(field string) int { return o.first + lineOf(o.root, field) - 1 }

// identity tells objects of all kinds apart.
func (o *Object) identity() string { return string(o.Kind) + " " + o.Key().String() }

// kinds are the ones that a folder may hold, by apiVersion and kind.
var kinds = map[metav1.TypeMeta]func() metav1.Object{
	{APIVersion: v1alpha1.GroupVersion.String(), Kind: string(compiler.KindRoute)}: func() metav1.Object { return &v1alpha1.LLMRoute{} },
	{APIVersion: v1alpha1.GroupVersion.String(), Kind: string(compiler.KindPin)}:   func() metav1.Object { return &v1alpha1.BackendPin{} },
	{APIVersion: "v1", Kind: string(compiler.KindSecret)}:                          func() metav1.Object { return &corev1.Secret{} },
	{APIVersion: "v1", Kind: string(compiler.KindConfigMap)}:                       func() metav1.Object { return &corev1.ConfigMap{} },
	{APIVersion: "v1", Kind: string(compiler.KindService)}:                         func() metav1.Object { return &corev1.Service{} },
}

// decoder reads the documents of one file.
type decoder struct {
	file      string
	namespace string
	first     int // line of the file where the current document begins
	objects   []Object
	messages  []Message
	broken    bool // a document could not be read
}

// Decode reads the objects of a file that the compiler knows. Those without a namespace are in the one that is given. What
// cannot be read is told, and costs no more than its own document; broken says that there was such a document.
func Decode(file string, data []byte, namespace string) (objects []Object, messages []Message, broken bool) {
	d := &decoder{file: file, namespace: namespace}
	for _, doc := range split(data) {
		d.first = doc.line
		json, root, problem := doc.parse()
		switch {
		case problem != nil:
			d.fail(problem.Line, problem.Text)
		case root != nil:
			d.document(json, root)
		}
	}
	return d.objects, d.messages, d.broken
}

// at turns a line of the current document into one of the file.
func (d *decoder) at(line int) int { return d.first + line - 1 }

func (d *decoder) warn(line int, text string) {
	d.messages = append(d.messages, Message{File: d.file, Line: d.at(line), Text: text})
}

func (d *decoder) fail(line int, text string) {
	d.broken = true
	d.warn(line, text)
}

// document reads one object, or the items of a List as kubectl prints them.
func (d *decoder) document(data []byte, root *yamlnode.Node) {
	var list struct {
		metav1.TypeMeta
		Items []stdjson.RawMessage
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &list.TypeMeta); err != nil {
		d.fail(root.Line, "The apiVersion and kind of the document are not text.")
		return
	}
	newObject := kinds[list.TypeMeta]
	switch {
	case newObject != nil:
		d.object(data, root, newObject())
	case strings.HasSuffix(list.Kind, "List"):
		nodes := children(root, "items", map[int]bool{})
		if err := stdjson.Unmarshal(data, &list); err != nil || len(nodes) != 1 || len(nodes[0].Content) != len(list.Items) {
			d.fail(root.Line, "The items of the list are not objects.")
			return
		}
		for i, item := range list.Items {
			d.item(item, nodes[0].Content[i])
		}
	case list.Kind == "" || list.APIVersion == "":
		d.fail(root.Line, "The document has no apiVersion or no kind.")
	default:
		d.warn(root.Line, fmt.Sprintf("The kind %.100q of apiVersion %.100q is not read from files and is ignored.", list.Kind, list.APIVersion))
		d.messages[len(d.messages)-1].Foreign = !strings.HasPrefix(list.APIVersion, v1alpha1.Group+"/")
	}
}

// item is document for an element of a list; lists do not nest.
func (d *decoder) item(data []byte, node *yamlnode.Node) {
	var meta metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &meta); err != nil || node.Kind != yamlnode.MappingNode ||
		strings.HasSuffix(meta.Kind, "List") {
		d.fail(node.Line, "The item is not an object with apiVersion and kind.")
		return
	}
	d.document(data, node)
}

func (d *decoder) object(data []byte, root *yamlnode.Node, into metav1.Object) {
	strict, err := json.UnmarshalStrict(data, into)
	if err != nil {
		d.typeError(err, root)
		return
	}
	for _, unknown := range strict {
		var field json.FieldError
		if errors.As(unknown, &field) {
			d.warn(lineOf(root, field.FieldPath()), fmt.Sprintf("The field %q is not known and is ignored.", field.FieldPath()))
		}
	}
	if _, isRoute := into.(*v1alpha1.LLMRoute); isRoute {
		d.warnOfZeros(root)
	}
	if into.GetNamespace() == "" {
		into.SetNamespace(d.namespace)
	}
	if len(validation.IsDNS1123Subdomain(into.GetName())) > 0 || len(validation.IsDNS1123Label(into.GetNamespace())) > 0 {
		d.fail(lineOf(root, "metadata.name"), "The metadata.name or metadata.namespace is missing or not a DNS name; the document is ignored.")
		return
	}
	if secret, ok := into.(*corev1.Secret); ok {
		mergeStringData(secret)
	}
	d.objects = append(d.objects, Object{Kind: kindOf(into), File: d.file, Line: d.at(root.Line), Value: into, root: root, first: d.first})
}

// noZeros are numbers of a route that must be at least 1. In Go their zero means that they are not set, so that only the text
// tells somebody who wants none from somebody who says nothing.
var noZeros = []string{"spec.failure.threshold", "spec.saturation.threshold", "spec.rateLimit.burst"}

func (d *decoder) warnOfZeros(root *yamlnode.Node) {
	for _, path := range noZeros {
		node := root
		for step := range strings.SplitSeq(path, ".") {
			if found := children(node, step, map[int]bool{}); len(found) == 1 {
				node = found[0]
				continue
			}
			node = root // not there
			break
		}
		if node.Kind == yamlnode.ScalarNode && node.Value == "0" {
			d.warn(node.Line, fmt.Sprintf("The field %q must be at least 1; its default is taken.", path))
		}
	}
}

// typeError says which field has the wrong type. Values are left out: they could be secret.
func (d *decoder) typeError(err error, root *yamlnode.Node) {
	var mismatch *stdjson.UnmarshalTypeError
	var badTime *time.ParseError
	switch {
	case errors.As(err, &mismatch):
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		d.fail(lineOf(root, mismatch.Field), fmt.Sprintf("The field %q takes no %s; the document is ignored.", mismatch.Field, kind))
	case errors.As(err, &badTime):
		d.fail(root.Line, "A time is not written as 2026-12-31T23:00:00Z; the document is ignored.")
	default:
		d.fail(root.Line, "A value cannot be read; the document is ignored. The data of a Secret is base64; use stringData for plain text.")
	}
}

// mergeStringData does what the API server does with a Secret.
func mergeStringData(s *corev1.Secret) {
	if s.Data == nil && len(s.StringData) > 0 {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

// kindOf is the inverse of kinds.
func kindOf(o metav1.Object) compiler.Kind {
	switch o.(type) {
	case *v1alpha1.LLMRoute:
		return compiler.KindRoute
	case *v1alpha1.BackendPin:
		return compiler.KindPin
	case *corev1.Secret:
		return compiler.KindSecret
	case *corev1.ConfigMap:
		return compiler.KindConfigMap
	default:
		return compiler.KindService
	}
}
