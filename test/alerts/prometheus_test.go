package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/test/stack"
	"github.com/spillway-dev/spillway/test/story"
)

// patience bounds waits; nothing is measured by it.
const patience = time.Minute

// TestPrometheusSeesTheStory tells the story until the tower has come back, and a pin that is about to end after it.
func TestPrometheusSeesTheStory(t *testing.T) {
	binary := tool(t, "PROMETHEUS")
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	metrics := freeAddr(t)
	s, err := stack.Start(ctx, stack.Options{
		Root: root, Dir: t.TempDir(), Backends: story.Backends(), Tokens: story.Tokens,
		Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, ManagerMetrics: metrics, Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	prometheus := startPrometheus(t, binary, root, metrics, s.Proxies[0].Admin, s.Proxies[1].Admin)
	telling := story.New(s, t.Output())
	for _, step := range story.Steps()[:4] {
		if err := telling.Tell(ctx, step); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Admin().Apply(ctx, shortPin); err != nil {
		t.Fatal(err)
	}
	t.Run("every target is up", func(t *testing.T) { prometheus.eventually(t, "count(up == 1) == 3", 1) })
	for where, query := range dashboardQueries(t, root) {
		least := 1
		if _, ok := untold[where]; ok {
			least = 0
		}
		t.Run(where, func(t *testing.T) { prometheus.eventually(t, query, least) })
	}
	t.Run("every alert can be evaluated, and the pin's fires", prometheus.alerts)
}

// untold are the queries that the story has nothing for, and why: a series begins with what it counts.
var untold = map[string]string{
	"panel Shed A": "no caller goes over the route's rate limit",
	"panel Shed C": "no request is refused with 503",
}

const shortPin = `apiVersion: spillway.dev/v1alpha1
kind: BackendPin
metadata: {name: short, namespace: sirens-echo}
spec: {routes: {selector: {}}, backend: hosted, mode: Prefer, duration: 10m, reason: to see the alert}
`

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := stack.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// server is a running Prometheus.
type server struct{ address string }

func startPrometheus(t *testing.T, binary, root string, targets ...string) *server {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: spillway, honor_labels: true, static_configs: [{targets: [%s]}]}
`, filepath.Join(root, "charts", "spillway", "files", "rules.yaml"), quoted(targets))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{freeAddr(t)}
	var log bytes.Buffer
	cmd := exec.Command(binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", &log)
		}
	})
	return s
}

// quoted is a list as YAML has it between brackets.
func quoted(all []string) string { return `"` + strings.Join(all, `", "`) + `"` }

// get asks Prometheus' API.
func (s *server) get(ctx context.Context, path string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Data  json.RawMessage
		Error string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// eventually waits until an expression has so many series at least. One that cannot be evaluated has none, not even zero.
func (s *server) eventually(t *testing.T, expression string, least int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := stack.Eventually(ctx, func() error {
		var found struct{ Result []json.RawMessage }
		if err := s.get(ctx, "query", url.Values{"query": {expression}}, &found); err != nil {
			return err
		}
		if len(found.Result) < least {
			return fmt.Errorf("%s has no series", expression)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// alerts waits until every rule has been evaluated without an error and the pin's alert fires.
func (s *server) alerts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := stack.Eventually(ctx, func() error {
		var all struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string }
			}
		}
		if err := s.get(ctx, "rules", nil, &all); err != nil {
			return err
		}
		firing := map[string]bool{}
		for _, group := range all.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return fmt.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError)
				}
				firing[rule.Name] = rule.State == "firing"
			}
		}
		if len(firing) < 5 || !firing["SpillwayPinAboutToExpire"] || firing["SpillwayManagerAbsent"] {
			return fmt.Errorf("firing: %v", firing)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// dashboardQueries are the queries of the dashboard's panels and annotations, with everything selected.
func dashboardQueries(t *testing.T, root string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "charts", "spillway", "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Annotations struct{ List []struct{ Name, Expr string } }
		Panels      []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	// The story is short, so a rate looks at all of it.
	all := strings.NewReplacer("$namespace", ".*", "$model", ".*", "$__rate_interval", "10m")
	queries := map[string]string{}
	for _, a := range dashboard.Annotations.List {
		queries["annotation "+a.Name] = all.Replace(a.Expr)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries["panel "+panel.Title+" "+target.RefID] = all.Replace(target.Expr)
		}
	}
	return queries
}
