package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/telemetry"
)

// declared returns the labels of every metric of both programs.
func declared() map[string][]string {
	labels := map[string][]string{}
	for _, metric := range telemetry.Metrics() {
		labels[metric.Name] = metric.Labels
	}
	return labels
}

var (
	ours     = regexp.MustCompile(`\b(?:llm|spillway)_[a-z_]+\b`)
	selector = regexp.MustCompile(`\b((?:llm|spillway)_[a-z_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	parts    = regexp.MustCompile(`_(?:bucket|count|sum)$`)
)

// undeclared lists what an expression names and the code does not declare.
func undeclared(known map[string][]string, expression string) []string {
	var unknown []string
	labelsOf := func(name string) ([]string, bool) {
		if labels, ok := known[name]; ok {
			return labels, true
		}
		labels, ok := known[parts.ReplaceAllString(name, "")]
		return labels, ok
	}
	for _, name := range ours.FindAllString(expression, -1) {
		if _, ok := labelsOf(name); !ok {
			unknown = append(unknown, name)
		}
	}
	for _, found := range selector.FindAllStringSubmatch(expression, -1) {
		labels, _ := labelsOf(found[1])
		for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(labels, m[1]) {
				unknown = append(unknown, found[1]+"{"+m[1]+"}")
			}
		}
	}
	return unknown
}

func TestMetricsOfAlertsAreDeclared(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile(filepath.Join(chartDir(), "files", "rules.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(dropUnread(t, text), &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	known, alerts := declared(), 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
			if unknown := undeclared(known, rule.Expr); unknown != nil || !ours.MatchString(rule.Expr) {
				t.Errorf("%s: %q names what no program exposes: %q", rule.Alert, rule.Expr, unknown)
			}
		}
	}
	if alerts == 0 {
		t.Error("no alerts were found")
	}
}

// dropUnread leaves of the rules what the test reads.
func dropUnread(t *testing.T, text []byte) []byte {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, group := range all["groups"].([]any) {
		delete(group.(map[string]any), "name")
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			for _, field := range []string{"for", "labels", "annotations"} {
				delete(rule.(map[string]any), field)
			}
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMetricsOfDashboardAreDeclared(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir(), "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	for _, a := range dashboard.Annotations.List {
		expressions["annotation "+a.Name] = a.Expr
	}
	for _, v := range dashboard.Templating.List {
		expressions["variable "+v.Name] = v.Definition
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions["panel "+panel.Title+": "+target.Expr] = target.Expr
		}
	}
	if len(dashboard.Panels) == 0 || len(expressions) <= len(dashboard.Panels) {
		t.Fatal("no panels or no expressions were found")
	}
	known := declared()
	for where, expression := range expressions {
		if unknown := undeclared(known, expression); unknown != nil {
			t.Errorf("%s names what no program exposes: %q", where, unknown)
		}
	}
}

func TestMetricOfAutoscalingIsDeclared(t *testing.T) {
	text := newHelm(t, "").render(t, "--show-only", "templates/proxy-autoscaling.yaml",
		"--set", "proxy.autoscaling.enabled=true,proxy.autoscaling.metric=inFlight")
	if unknown := undeclared(declared(), text); unknown != nil || !ours.MatchString(text) {
		t.Errorf("it names what no program exposes, %q:\n%s", unknown, text)
	}
}
