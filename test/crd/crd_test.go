package crd

import (
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	schema, err := Read("llmroutes")
	if err != nil {
		t.Fatal(err)
	}
	backends := func(b ...any) any { return map[string]any{"backends": b} }
	tower := map[string]any{"name": "tower", "state": "Open"}
	cases := map[string]struct {
		status any
		want   string // part of the one fault; empty: none
	}{
		"a status as it should be":      {backends(tower), ""},
		"too long a text":               {map[string]any{"reason": strings.Repeat("r", 65)}, "status.reason"},
		"as long in any script":         {map[string]any{"reason": strings.Repeat("理", 64)}, ""},
		"a word that is not known":      {backends(map[string]any{"name": "tower", "state": "Ajar"}), "status.backends[0].state"},
		"a field that is not there":     {backends(map[string]any{"name": "tower"}), "status.backends[0].state"},
		"an instant that is none":       {map[string]any{"retryAt": "10000-01-01T00:00:00Z"}, "status.retryAt"},
		"a backend that is there twice": {backends(tower, tower), ".status.backends has tower; twice"},
		"too many backends": {backends(map[string]any{"name": "a", "state": "Open"}, map[string]any{"name": "b", "state": "Open"},
			map[string]any{"name": "c", "state": "Open"}, map[string]any{"name": "d", "state": "Open"}, map[string]any{"name": "e", "state": "Open"},
			map[string]any{"name": "f", "state": "Open"}, map[string]any{"name": "g", "state": "Open"}, map[string]any{"name": "h", "state": "Open"},
			map[string]any{"name": "i", "state": "Open"}), "status.backends"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{
				"spec":   map[string]any{"chain": []any{map[string]any{"name": "tower", "url": "http://tower.lan"}}},
				"status": tc.status,
			}
			faults, err := schema.Faults(object)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && len(faults) > 0 || tc.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], tc.want)) {
				t.Errorf("faults = %q, want %q", faults, tc.want)
			}
		})
	}
}
