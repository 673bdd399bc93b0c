package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageIsWhatTheTypesSay(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := render(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/api.md differs from the types; run make generate (-types +page):\n%s", diff)
	}
}

func TestWordsOfAField(t *testing.T) {
	one, eight := int64(1), int64(8)
	rule := []struct{ Message string }{{"threshold must be at least 1."}}
	tests := map[string]struct {
		field       schema
		wantType    string
		wantMeaning string
	}{
		"a list says how many entries it takes": {
			field:       schema{Description: "chain of backends.", Items: &schema{Type: "object"}, MinItems: &one, MaxItems: &eight},
			wantType:    "list of object",
			wantMeaning: "chain of backends. 1 to 8 entries.",
		},
		"a rule of the API server stands behind the description": {
			field:       schema{Type: "integer", Description: "threshold of failures.", Validations: rule},
			wantType:    "integer",
			wantMeaning: "threshold of failures. threshold must be at least 1.",
		},
		"what a table or HTML would swallow is escaped": {
			field:       schema{Type: "string", Description: "Default: <namespace>/<name>, a|b."},
			wantType:    "string",
			wantMeaning: `Default: &lt;namespace&gt;/&lt;name&gt;, a\|b.`,
		},
		"a duration is one by its pattern": {
			field:       schema{Type: "string", Pattern: durationSign + `{1,4}$`, Description: "cooldown.", MinLength: &one},
			wantType:    "duration",
			wantMeaning: "cooldown.",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.field.typeName(); got != tc.wantType {
				t.Errorf("type is %q, want %q", got, tc.wantType)
			}
			if diff := cmp.Diff(tc.wantMeaning, tc.field.meaning()); diff != "" {
				t.Errorf("meaning (-want +got):\n%s", diff)
			}
		})
	}
}
