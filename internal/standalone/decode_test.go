package standalone

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const (
	goodRoute  = "apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata: {name: good}\nspec: {chain: [{name: a, url: 'http://127.0.0.1:1'}]}\n"
	goodSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {token: swordfish}\n"
)

func TestDecode(t *testing.T) {
	tests := map[string]struct {
		text         string
		wantObjects  []string
		wantMessages []string
		wantBroken   bool
	}{
		"nothing": {},
		"comments and empty documents are nothing": {text: "# a\n---\n---\n# b\n---\nnull\n"},
		"several documents, the namespace defaulted": {
			text:        goodRoute + "---\n" + goodSecret,
			wantObjects: []string{"LLMRoute default/good", "Secret default/key"},
		},
		"line ends of Windows and a byte order mark": {
			text:        "\xef\xbb\xbf" + strings.ReplaceAll(goodRoute+"---\n"+goodSecret, "\n", "\r\n"),
			wantObjects: []string{"LLMRoute default/good", "Secret default/key"},
		},
		"JSON": {
			text:        `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"},"data":{"a":"b"}}`,
			wantObjects: []string{"ConfigMap n/c"},
		},
		"a list as kubectl prints it": {
			text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: s}\n" +
				"- apiVersion: v1\n  kind: Secret\n  metadata: {name: k}\n  stringdata: {}\n- 7\n",
			wantObjects: []string{"Service default/s", "Secret default/k"},
			wantMessages: []string{
				`f.yaml:10: The field "stringdata" is not known and is ignored.`,
				"f.yaml:11: The item is not an object with apiVersion and kind.",
			},
			wantBroken: true,
		},
		"an unknown field is named with its line and ignored": {
			text: "apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata:\n  name: good\nspec:\n  chain:\n  - name: a\n    url: http://h\n" +
				"  - name: b\n    urll: http://h\n  saturation:\n    slowafter: 1s\n",
			wantObjects: []string{"LLMRoute default/good"},
			wantMessages: []string{
				`f.yaml:10: The field "spec.chain[1].urll" is not known and is ignored.`,
				`f.yaml:12: The field "spec.saturation.slowafter" is not known and is ignored.`,
			},
		},
		"a zero that the API server would refuse is told, at its line": {
			text:        goodRoute[:len(goodRoute)-2] + ",\n  failure: {cooldown: 1s, threshold: 0},\n  saturation: {threshold: 1},\n  rateLimit: {burst: 0}}\n",
			wantObjects: []string{"LLMRoute default/good"},
			wantMessages: []string{
				`f.yaml:5: The field "spec.failure.threshold" must be at least 1; its default is taken.`,
				`f.yaml:7: The field "spec.rateLimit.burst" must be at least 1; its default is taken.`,
			},
		},
		"a field of the wrong type costs its document": {
			text:         goodSecret + "---\n" + strings.Replace(goodRoute, "'http://127.0.0.1:1'", "[x]", 1) + "---\n" + strings.Replace(goodRoute, "good", "next", 1),
			wantObjects:  []string{"Secret default/key", "LLMRoute default/next"},
			wantMessages: []string{`f.yaml:9: The field "spec.chain.url" takes no array; the document is ignored.`},
			wantBroken:   true,
		},
		"broken YAML costs its document and quotes nothing": {
			text:         "kind: Secret\nstringData:\n  token: *swordfish\n---\n" + goodRoute + "---\nstringData: {token: swordfish\n---\n" + goodSecret,
			wantObjects:  []string{"LLMRoute default/good", "Secret default/key"},
			wantMessages: []string{"f.yaml:1: The document is not valid YAML near this line; it is ignored.", "f.yaml:9: The document is not valid YAML near this line; it is ignored."},
			wantBroken:   true,
		},
		"a key that is set twice": {
			text:         "apiVersion: v1\nkind: Secret\nkind: Secret\n",
			wantMessages: []string{"f.yaml:3: A key is set twice in one object; the document is ignored."},
			wantBroken:   true,
		},
		"data of a Secret that is not base64": {
			text:         "apiVersion: v1\nkind: Secret\nmetadata: {name: k}\ndata: {token: swordfish!}\n",
			wantMessages: []string{"f.yaml:1: A value cannot be read; the document is ignored. The data of a Secret is base64; use stringData for plain text."},
			wantBroken:   true,
		},
		"a time that is none": {
			text:         "apiVersion: spillway.dev/v1alpha1\nkind: BackendPin\nmetadata: {name: p}\nspec: {expiresAt: tonight}\n",
			wantMessages: []string{"f.yaml:1: A time is not written as 2026-12-31T23:00:00Z; the document is ignored."},
			wantBroken:   true,
		},
		"other kinds are told": {
			text:         "apiVersion: apps/v1\nkind: Deployment\n---\napiVersion: spillway.dev/v2\nkind: LLMRoute\n",
			wantMessages: []string{`f.yaml:1: The kind "Deployment" of apiVersion "apps/v1" is not read from files and is ignored.`, `f.yaml:4: The kind "LLMRoute" of apiVersion "spillway.dev/v2" is not read from files and is ignored.`},
		},
		"no name, a bad name, no kind, no object": {
			text: "apiVersion: v1\nkind: Secret\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: a/b\n---\nfoo: bar\n---\n- 1\n---\nhello\n",
			wantMessages: []string{
				"f.yaml:1: The metadata.name or metadata.namespace is missing or not a DNS name; the document is ignored.",
				"f.yaml:7: The metadata.name or metadata.namespace is missing or not a DNS name; the document is ignored.",
				"f.yaml:9: The document has no apiVersion or no kind.",
				"f.yaml:11: The document is not an object with apiVersion and kind.",
				"f.yaml:13: The document is not an object with apiVersion and kind.",
			},
			wantBroken: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, messages, broken := Decode("f.yaml", []byte(tc.text), DefaultNamespace)
			var gotObjects, gotMessages []string
			for _, o := range objects {
				gotObjects = append(gotObjects, o.identity())
			}
			for _, m := range messages {
				gotMessages = append(gotMessages, m.String())
			}
			if diff := cmp.Diff(tc.wantObjects, gotObjects); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantMessages, gotMessages); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if broken != tc.wantBroken {
				t.Errorf("broken is %v, want %v", broken, tc.wantBroken)
			}
			if strings.Contains(strings.Join(gotMessages, "\n"), "swordfish") {
				t.Errorf("a message quotes a secret: %v", gotMessages)
			}
		})
	}
}

func TestHostileDocumentsCostOnlyThemselves(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for name, hostile := range map[string]string{
		"aliases that grow":      bomb,
		"an alias to itself":     "a: &a [*a]\n",
		"deep nesting":           strings.Repeat("[", 100_000) + "\n",
		"deep nesting, closed":   "a: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n",
		"bytes that are no text": "a: \xff\xfe\x00\n",
		"very many documents":    strings.Repeat("---\n", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			objects, _, _ := Decode("f.yaml", []byte(hostile+"---\n"+goodRoute), DefaultNamespace)
			if len(objects) != 1 || objects[0].identity() != "LLMRoute default/good" {
				t.Errorf("the good document beside it was read as %v", objects)
			}
		})
	}
}

func TestStringDataIsMergedAsTheAPIServerDoes(t *testing.T) {
	objects, _, _ := Decode("f", []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: k}\ndata: {a: YQ==, b: Yg==}\nstringData: {b: new, c: c}\n"), DefaultNamespace)
	want := map[string][]byte{"a": []byte("a"), "b": []byte("new"), "c": []byte("c")}
	if diff := cmp.Diff(want, objects[0].Value.(*corev1.Secret).Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

// FuzzDecodeNeverPanics also holds what was read against what the compiler takes.
func FuzzDecodeNeverPanics(f *testing.F) {
	for _, seed := range []string{
		goodRoute, goodSecret, "---\n---", "a: &a [*a]", "&a {<<: *a}", "kind: List\napiVersion: v1\nitems: {}", "\x00", "a: \xff", "? [a]\n: b",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: []}]}", "kind: 1\napiVersion: 2", "metadata: 1",
		"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := newFolder("")
		dir.update("f.yaml", data, nil)
		dir.collect()
	})
}
