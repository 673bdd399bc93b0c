package plugin

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// maxManifest bounds a file.
const maxManifest = 32 << 20

// manifests are the objects of some files that the compiler knows, and what is wrong with the files.
type manifests struct {
	namespace string // of objects that name none
	objects   []manifest
	remarks   []remark
}

// manifest is one object and its place.
type manifest struct {
	kind  compiler.Kind
	file  string
	node  *yamlnode.Node // knows its lines
	value metav1.Object
}

func (m *manifest) key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.value.GetNamespace(), Name: m.value.GetName()}
}

// newObject makes an empty object of a kind that the compiler reads; nil for all others.
func newObject(t metav1.TypeMeta) (compiler.Kind, metav1.Object) {
	kind := compiler.Kind(t.Kind)
	switch t {
	case kindOf(string(compiler.KindRoute)):
		return kind, &v1alpha1.LLMRoute{}
	case kindOf(string(compiler.KindPin)):
		return kind, &v1alpha1.BackendPin{}
	case metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}:
		return kind, &corev1.Secret{}
	case metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}:
		return kind, &corev1.ConfigMap{}
	case metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}:
		return kind, &corev1.Service{}
	}
	return "", nil
}

// read takes in a file, the manifests of a folder, or standard input ("-").
func (m *manifests) read(name string, in io.Reader) error {
	if name == "-" {
		return m.readFrom("stdin", in)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	files := []string{name}
	if info.IsDir() {
		if files, err = manifestsIn(name); err != nil {
			return err
		}
	}
	for _, file := range files {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		err = errors.Join(m.readFrom(file, opened), opened.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// manifestsIn lists the files of a folder that a proxy would read, sorted.
func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		ext := strings.ToLower(filepath.Ext(e.Name()))
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json file", dir)
	}
	return files, nil
}

func (m *manifests) readFrom(name string, in io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	case len(data) > maxManifest:
		return fmt.Errorf("%s is larger than %d MiB", name, maxManifest>>20)
	}
	documents := yamlnode.NewDecoder(bytes.NewReader(data))
	for {
		var document yamlnode.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			m.refuse(name, lineIn(err), "This is not valid YAML; the rest of the file is not read.")
			return nil
		}
		if len(document.Content) == 1 && document.Content[0].Tag != "!!null" {
			m.document(name, document.Content[0])
		}
	}
}

func (m *manifests) refuse(file string, line int, message string) {
	m.remarks = append(m.remarks, remark{File: file, Line: line, Message: message})
}

var lineInError = regexp.MustCompile(`line (\d+)`)

// lineIn is the line that a YAML error names. Its text is not shown, as it may quote a Secret.
func lineIn(err error) int {
	if found := lineInError.FindStringSubmatch(err.Error()); found != nil {
		line, _ := strconv.Atoi(found[1]) // digits; too many are no line
		return line
	}
	return 1
}

// document takes in an object, or those of a List.
func (m *manifests) document(file string, node *yamlnode.Node) {
	if node.Kind != yamlnode.MappingNode {
		m.refuse(file, node.Line, "This is not an object with apiVersion and kind.")
		return
	}
	var meta struct {
		APIVersion string        `yaml:"apiVersion"`
		Kind       string        `yaml:"kind"`
		Items      yamlnode.Node `yaml:"items"`
	}
	if err := node.Decode(&meta); err != nil || meta.APIVersion == "" || meta.Kind == "" {
		m.refuse(file, node.Line, "The object has no apiVersion or no kind, or a key twice.")
		return
	}
	if meta.Items.Kind == yamlnode.SequenceNode && strings.HasSuffix(meta.Kind, "List") {
		for _, item := range meta.Items.Content {
			m.document(file, item)
		}
		return
	}
	kind, into := newObject(metav1.TypeMeta{APIVersion: meta.APIVersion, Kind: meta.Kind})
	switch {
	case into != nil:
		m.object(manifest{kind, file, node, into})
	case strings.HasPrefix(meta.APIVersion, v1alpha1.Group+"/"):
		m.refuse(file, node.Line, fmt.Sprintf("Spillway has no %.100s of %.100s here.", meta.Kind, meta.APIVersion))
	}
}

// object decodes strictly: an unknown field, which the API server only warns about, is a typing error.
func (m *manifests) object(o manifest) {
	text, err := yamlnode.Marshal(o.node)
	if err == nil {
		text, err = yaml.YAMLToJSONStrict(text)
	}
	if err != nil {
		m.refuse(o.file, o.node.Line, "The object cannot be read: a key is there twice, or a value makes no sense.")
		return
	}
	strict, err := json.UnmarshalStrict(text, o.value)
	if err != nil {
		m.refuse(o.file, lineOf(o.node, fieldIn(err)), typeMessage(err))
		return
	}
	for _, unknown := range strict {
		var field json.FieldError
		if errors.As(unknown, &field) {
			m.refuse(o.file, lineOf(o.node, field.FieldPath()), fmt.Sprintf("The field %q is not known.", field.FieldPath()))
		}
	}
	if o.value.GetNamespace() == "" {
		o.value.SetNamespace(m.namespace)
	}
	if len(validation.IsDNS1123Subdomain(o.value.GetName())) > 0 {
		m.refuse(o.file, lineOf(o.node, "metadata.name"), "The metadata.name is missing or not a DNS name.")
		return
	}
	for i := range m.objects {
		if other := &m.objects[i]; other.kind == o.kind && other.key() == o.key() {
			m.refuse(o.file, o.node.Line, fmt.Sprintf("The %s %s is already in %s, line %d.", o.kind, o.key(), other.file, other.node.Line))
			return
		}
	}
	m.objects = append(m.objects, o)
}

func fieldIn(err error) string {
	var mismatch *stdjson.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return mismatch.Field
	}
	return ""
}

// typeMessage names no value: it could be a Secret's.
func typeMessage(err error) string {
	var mismatch *stdjson.UnmarshalTypeError
	var badTime *time.ParseError
	switch {
	case errors.As(err, &mismatch):
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		return fmt.Sprintf("The field %q takes no %s.", mismatch.Field, kind)
	case errors.As(err, &badTime):
		return "A time is not written as 2026-08-13T23:00:00Z."
	default:
		return "A value cannot be read. The data of a Secret is base64; stringData takes plain text."
	}
}

// snapshot is what the compiler reads. In a cluster a pin is created when it is applied, which is now.
func (m *manifests) snapshot(standalone bool, now time.Time) compiler.Snapshot {
	s := compiler.Snapshot{
		Secrets:    map[types.NamespacedName]*corev1.Secret{},
		ConfigMaps: map[types.NamespacedName]*corev1.ConfigMap{},
		Services:   map[types.NamespacedName]*corev1.Service{},
		Options:    compiler.Options{Standalone: standalone},
	}
	for i := range m.objects {
		o := &m.objects[i]
		switch value := o.value.(type) {
		case *v1alpha1.LLMRoute:
			s.Routes = append(s.Routes, value)
		case *v1alpha1.BackendPin:
			if value.CreationTimestamp.IsZero() {
				value.CreationTimestamp = metav1.NewTime(now)
			}
			s.Pins = append(s.Pins, value)
		case *corev1.Secret:
			s.Secrets[o.key()] = withStringData(value)
		case *corev1.ConfigMap:
			s.ConfigMaps[o.key()] = value
		case *corev1.Service:
			s.Services[o.key()] = value
		}
	}
	return s
}

// withStringData does what the API server does with a Secret.
func withStringData(s *corev1.Secret) *corev1.Secret {
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	return s
}

// lineOf is the line of a field such as "spec.chain[1].url", or of the last part of the path that is there.
func lineOf(node *yamlnode.Node, path string) int {
	line := node.Line
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

func child(node *yamlnode.Node, step string) (next *yamlnode.Node, line int) {
	switch node.Kind {
	case yamlnode.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yamlnode.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}
