package plugin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/hack/simbackend/sim"
	"github.com/spillway-dev/spillway/internal/plugin/burst"
)

// limited is a server that serves so many calls at once and sheds the others, as a full backend does.
func limited(t *testing.T, slots int) (url string, backend *sim.Backend) {
	t.Helper()
	backend = sim.New(sim.Config{Name: "tower", Mode: sim.Idle})
	free := make(chan struct{}, slots)
	for range slots {
		free <- struct{}{}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-free:
			defer func() { free <- struct{}{} }()
			backend.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, `{"error":{"code":"backend_saturated"}}`, http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(backend.Close)
	return server.URL, backend
}

func TestBurstProbeSendsNothingWithoutYes(t *testing.T) {
	url, backend := limited(t, 100)
	r := newRig(t, world(t)...)
	if code := r.run("burst-probe", "default", "-n=sirens-echo", "--url", url); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, part := range []string{
		`138 calls (3 times 1, 5, 10, 30 at once) of the model "sirens-echo/default" to ` + url + "/v1",
		"rate limit is on (1 per 1s, burst 4)", "Nothing was sent",
	} {
		if !strings.Contains(r.err.String(), part) {
			t.Errorf("%q is not in:\n%s", part, r.err)
		}
	}
	if n := backend.Stats().Requests; n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func TestBurstProbeOfAServerThatAdmitsAll(t *testing.T) {
	url, backend := limited(t, 100)
	r := newRig(t, world(t)...)
	file := filepath.Join(t.TempDir(), "record.json")
	if code := r.run("burst-probe", "young", "-n=work", "--url", url, "--pause=0s", "--yes", "--record", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, r.err)
	}
	stats := backend.Stats()
	if stats.Requests != 138 || stats.Synthetic != 138 {
		t.Errorf("the server saw %d calls, %d of them for one token", stats.Requests, stats.Synthetic)
	}
	compareGolden(t, "burst-flat", strings.ReplaceAll(r.out.String(), url, "http://proxy")+"\n"+r.err.String())

	var record burst.Record
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err != nil || !record.Complete || record.Made != 138 || record.Route != "work/young" || len(record.Levels) != 4 {
		t.Errorf("record %+v, %v", record, err)
	}
}

func TestBurstProbeOfAServerThatSheds(t *testing.T) {
	url, backend := limited(t, 1)
	backend.SetMode(sim.Busy) // nobody is ever served, so that the one slot is taken by the first of each burst
	r := newRig(t)
	if code := r.run("burst-probe", "a/model", "--url", url, "--pause=0s", "--concurrency=5", "--repeats=2", "--timeout=100ms", "--yes", "-o", "json"); code != 0 {
		t.Fatalf("exit code %d: %s", code, r.err)
	}
	var record burst.Record
	if err := json.Unmarshal(r.out.Bytes(), &record); err != nil {
		t.Fatal(err)
	}
	level := record.Levels[0]
	if level.Calls != 10 || level.Shed["503"] == 0 || level.RetryAfter != level.Shed["503"] || level.ShedCodes["backend_saturated"] == 0 {
		t.Errorf("level %+v", level)
	}
	if v := record.Verdict; v.Finding != burst.Shedding || v.Strength != burst.StrengthWeak {
		t.Errorf("verdict %+v", v)
	}
	if record.RateLimit.Known || !regexp.MustCompile("a model was named").MatchString(record.RateLimit.Unknown) {
		t.Errorf("rate limit %+v", record.RateLimit)
	}
}

func TestBurstProbeRefusesNonsense(t *testing.T) {
	for name, args := range map[string][]string{
		"no calls at once":  {"--concurrency=0"},
		"far too many":      {"--concurrency=1000"},
		"no repeats":        {"--repeats=0"},
		"no time for calls": {"--timeout=0s"},
		"a negative pause":  {"--pause=-1s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if code := r.run(append([]string{"burst-probe", "a/model", "--url=http://127.0.0.1:1", "--yes"}, args...)...); code != 1 {
				t.Errorf("exit code %d: %s", code, r.out)
			}
		})
	}
}
