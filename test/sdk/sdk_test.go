package sdk

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// patience is when a client that has not ended counts as hung.
const patience = 4 * time.Minute

// trial is a scenario with one client and one form of heartbeats.
type trial struct {
	id       string // of the route, too
	client   string
	sentence string
	form     string
	scenario

	tap     *tap
	through result // through the proxy
	beside  result // at the backend directly
}

// trials lists all, in the same order every time.
func trials() []*trial {
	var all []*trial
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		scenarios := scenariosOf(name)
		for _, sentence := range slices.Sorted(maps.Keys(scenarios)) {
			s := scenarios[sentence]
			for _, form := range s.forms(clients[name]) {
				all = append(all, &trial{id: fmt.Sprintf("t%d", len(all)), client: name, sentence: sentence, form: form, scenario: s})
			}
		}
	}
	return all
}

// forms returns the forms of heartbeats in which a scenario is run. Without early heartbeats the form shows in one comment.
func (s *scenario) forms(c client) []string {
	switch {
	case s.form != "":
		return []string{s.form}
	case !s.early || c.linesOnly || c.once:
		return []string{line}
	}
	return []string{line, block}
}

// scenariosOf returns what a client is put through, by sentences.
func scenariosOf(client string) map[string]scenario {
	all := map[string]scenario{}
	d := clients[client].dialect
	add := func(sentence string, s scenario) {
		possible := (!s.stream || d.text != nil) && (!s.tools || d.tools != nil)
		if possible && (s.only == nil || slices.Contains(s.only, client)) {
			all[sentence] = s
		}
	}
	for sentence, s := range answered {
		add(sentence, s)
	}
	for sentence, s := range broken {
		add(sentence, s)
	}
	for sentence, s := range refused {
		add(sentence, s)
		if clients[client].once {
			continue
		}
		s.stream = true
		add(sentence+", in answer to a request for a stream", s)
	}
	return all
}

func TestSDKs(t *testing.T) {
	all := trials()
	observe(t, all)
	for _, tr := range all {
		t.Run(tr.client+"/"+tr.sentence+"/"+tr.form, tr.judge)
	}
}

// observe runs all trials at the same time and fills in their results.
func observe(t *testing.T, all []*trial) {
	t.Helper()
	argv := commands(t)
	up := newUpstream(t)
	var plain, overTLS strings.Builder
	for _, tr := range all {
		manifests := &plain
		if clients[tr.client].http2 {
			manifests = &overTLS
		}
		manifests.WriteString(tr.route(up))
	}
	proxies := startProxies(t, plain.String(), overTLS.String())
	jobs := map[string][]job{}
	for _, tr := range all {
		tr.tap = proxies.newTap(t, clients[tr.client].http2)
		jobs[tr.client] = append(jobs[tr.client], tr.jobs(up)...)
	}
	results := performAll(t, argv, jobs)
	for _, tr := range all {
		tr.through, tr.beside = results[tr.id], results[tr.id+direct]
	}
}

// direct marks the job that goes past the proxy.
const direct = "-direct"

// route is the manifest of the trial's route.
func (tr *trial) route(up *upstream) string {
	var chain strings.Builder
	for i := range tr.chain {
		name := string(rune('a' + i))
		fmt.Fprintf(&chain, "  - {name: %s, url: %q, model: %s", name, up.server.URL+"/"+tr.id+"/"+name+"/v1", physical)
		if i == 0 && tr.impatient {
			chain.WriteString(", saturation: {slowAfter: 200ms, coldStartGrace: 0s}")
		}
		chain.WriteString("}\n")
	}
	commitAfter, idle, budget := "1h", "1h", "0s"
	if tr.early {
		commitAfter = "0s"
	}
	if tr.idle != "" {
		idle = tr.idle
	}
	if tr.budget != "" {
		budget = tr.budget
	}
	return fmt.Sprintf(`apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: %s, namespace: sdk}
spec:
  chain:
%s  saturation: {slowAfter: 0s}
  recovery: {probe: Request}
  timeouts: {idle: %s, request: %s}
  heartbeat: {interval: 1s, commitAfter: %s, form: %s}
  rateLimit: {requests: 0}
---
`, tr.id, chain.String(), idle, budget, commitAfter, tr.form)
}

// jobs sets the backends up and returns what the client is asked: once through the proxy, once without.
func (tr *trial) jobs(up *upstream) []job {
	d := clients[tr.client].dialect
	for i, s := range tr.chain {
		up.add("/"+tr.id+"/"+string(rune('a'+i)), &backend{dialect: d, script: s, tap: tr.tap})
	}
	through := job{
		ID: tr.id, BaseURL: tr.tap.url(), Suffix: d.suffix, Model: tr.logical(), Stream: tr.stream, Tools: tr.tools, Retries: tr.retries,
		CA: tr.tap.ca(),
	}
	if tr.model != "" {
		through.Model = tr.model
	}
	if tr.direct == nil {
		return []job{through}
	}
	beside := through
	beside.CA = ""
	beside.ID, beside.Model = tr.id+direct, physical
	beside.BaseURL = up.add("/"+tr.id+"/"+direct, &backend{dialect: d, script: tr.direct})
	return []job{through, beside}
}

func (tr *trial) logical() string { return "sdk/" + tr.id }

// judge compares what the client made of its trial with what it should have.
func (tr *trial) judge(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the client made of it: %+v %+v\nit had read:\n%s", tr.through, tr.through.Error, tr.tap.wire())
		}
	})
	if tr.through.ID == "" {
		t.Fatal("the client gave no result")
	}
	if want := max(tr.requests, 1); tr.tap.requests() != want {
		t.Errorf("the client asked %d times, want %d", tr.tap.requests(), want)
	}
	if http2 := clients[tr.client].http2; tr.tap.spokeHTTP2() != http2 {
		t.Errorf("the client spoke HTTP/2: %t, want %t", !http2, http2)
	}
	tr.judgeComments(t)
	if tr.want != nil {
		tr.judgeException(t)
		return
	}
	if !tr.referenceHolds() {
		t.Fatalf("without the proxy, the client has not read what was said: %+v %+v", tr.beside, tr.beside.Error)
	}
	if diff := cmp.Diff(tr.beside, tr.through, cmpopts.IgnoreFields(result{}, "ID", "Model")); diff != "" {
		t.Errorf("through the proxy, where the client reads something else (-without +through):\n%s", diff)
	}
	if tr.through.Model != tr.logical() {
		t.Errorf("model = %q, want the logical one, %q", tr.through.Model, tr.logical())
	}
}

// referenceHolds says whether the client has read all without the proxy, so that the comparison with it means something.
func (tr *trial) referenceHolds() bool {
	r, d := &tr.beside, clients[tr.client].dialect
	if r.ID == "" || r.Error != nil || r.Tokens != 12 {
		return false
	}
	switch {
	case d.text == nil:
		return cmp.Equal(r.Vectors, vectorsTold)
	case r.Finish == "":
		return false
	case !tr.tools:
		return r.Text == textTold && (r.Reasoning == reasoningTold || d != chat)
	}
	return cmp.Equal(r.Tools, []toolCall{{"weather", `{"city":"Paris"}`}, {"weather", `{"city":"東京"}`}})
}

func (tr *trial) judgeException(t *testing.T) {
	t.Helper()
	got := tr.through.Error
	if got == nil {
		t.Fatal("no exception")
	}
	class := tr.want.class
	if class == "" {
		class = clients[tr.client].class(tr.want.status)
	}
	if got.Class != class || got.Status != tr.want.status {
		t.Errorf("exception = %s with status %d, want %s with %d", got.Class, got.Status, class, tr.want.status)
	}
	if !strings.Contains(fmt.Sprint(got.Code, " ", got.Message), tr.want.says) {
		t.Errorf("exception with code %v says %q, want %q in it", got.Code, got.Message, tr.want.says)
	}
	if tr.through.Text != tr.text {
		t.Errorf("text before the exception = %q, want %q", tr.through.Text, tr.text)
	}
	if tr.direct == nil {
		return
	}
	if tr.beside.Error == nil {
		t.Fatal("without the proxy there is no exception")
	}
	var ignored cmp.Options
	if !tr.sameAsDirect {
		ignored = cmp.Options{cmpopts.IgnoreFields(raised{}, "Code", "Message")}
	}
	if diff := cmp.Diff(tr.beside.Error, got, ignored); diff != "" {
		t.Errorf("exception (-without +through):\n%s", diff)
	}
}

// judgeComments looks at the heartbeats that the client has skipped: they are there where the status line went out early,
// in the form that was asked for.
func (tr *trial) judgeComments(t *testing.T) {
	t.Helper()
	if !tr.early {
		return
	}
	body := tr.tap.body()
	if !bytes.HasPrefix(body, comment) {
		t.Error("no comment before the first event")
	}
	for _, after := range bytes.Split(body, comment)[1:] {
		_, rest, _ := bytes.Cut(after, []byte("\n"))
		if (tr.form == block) != bytes.HasPrefix(rest, []byte("\n")) {
			t.Errorf("a comment that is not of the form %s, before %.40q", tr.form, rest)
		}
	}
}
