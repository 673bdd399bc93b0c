package standalone

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// view is the page as JSON. Specs are not in it: they hold hosts.
type view struct {
	Version  string      `json:"version"`
	LoadedAt metav1.Time `json:"loadedAt"`
	Files    int         `json:"files"`
	Routes   []routeView `json:"routes"`
	Pins     []pinView   `json:"pins"`
	Mistakes []Message   `json:"mistakes"`
}

type routeView struct {
	Namespace string                  `json:"namespace"`
	Name      string                  `json:"name"`
	Status    v1alpha1.LLMRouteStatus `json:"status"`
}

type pinView struct {
	Namespace string                    `json:"namespace"`
	Name      string                    `json:"name"`
	Backend   string                    `json:"backend"`
	Mode      v1alpha1.PinMode          `json:"mode"`
	Reason    string                    `json:"reason,omitempty"`
	Status    v1alpha1.BackendPinStatus `json:"status"`
}

// ServeHTTP answers with the page as text, or as JSON where ?format=json or the header Accept asks for it.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.refresh()
	w.Header().Set("Cache-Control", "no-store")
	v, ok := p.view()
	if !ok {
		http.Error(w, "The manifests have not been read yet.", http.StatusServiceUnavailable)
		return
	}
	switch format := cmp.Or(r.URL.Query().Get("format"), accepted(r.Header.Get("Accept"))); format {
	case "json":
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		_ = out.Encode(v) // who went away is not told
	case "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		v.print(w)
	default:
		http.Error(w, "The format is json or text.", http.StatusBadRequest)
	}
}

// accepted is the format that a caller prefers: browsers and curl read text, programs ask for JSON.
func accepted(header string) string {
	if strings.Contains(header, "application/json") {
		return "json"
	}
	return "text"
}

func (p *Page) view() (v view, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded == nil {
		return v, false
	}
	v = view{
		Version: p.version, LoadedAt: metav1.NewTime(p.loaded.At.UTC()), Files: p.loaded.Files,
		Routes: []routeView{}, Pins: []pinView{}, Mistakes: append([]Message{}, p.loaded.Mistakes...),
	}
	for _, verdict := range p.loaded.Result.SortedRoutes() {
		v.Routes = append(v.Routes, routeView{verdict.Key.Namespace, verdict.Key.Name, p.routes[verdict.Key]})
	}
	specs := map[string]v1alpha1.BackendPinSpec{}
	for _, pin := range p.loaded.Snapshot.Pins {
		specs[pin.Namespace+"/"+pin.Name] = pin.Spec
	}
	for _, verdict := range p.loaded.Result.SortedPins() {
		spec := specs[verdict.Key.String()]
		v.Pins = append(v.Pins, pinView{verdict.Key.Namespace, verdict.Key.Name, spec.Backend, spec.Mode, spec.Reason, p.pins[verdict.Key]})
	}
	return v, true
}

// print writes the page for people: the tables of kubectl, one below the other.
func (v *view) print(w io.Writer) {
	fmt.Fprintf(w, "Spillway proxy %s, without a cluster; manifests read at %s, files: %d\n", v.Version, v.LoadedAt.Format(time.RFC3339), v.Files)
	rows(w, "ROUTE\tMODEL\tSTATE\tSERVING\tPINNED\tREADY\tCHAIN\tRETRY\tREASON", len(v.Routes), func(i int) []string {
		r := &v.Routes[i]
		s := &r.Status
		return []string{r.Namespace + "/" + r.Name, s.Model, string(s.State), s.Serving, s.Pinned, isReady(s.Conditions), s.Chain, instant(s.RetryAt), s.Reason}
	})
	backends := v.backends()
	rows(w, "ROUTE\tBACKEND\tSTATE\tREASON\tSINCE\tRETRY\tMESSAGE", len(backends), func(i int) []string { return backends[i] })
	v.printRest(w)
}

func (v *view) backends() (all [][]string) {
	for i := range v.Routes {
		r := &v.Routes[i]
		for _, b := range r.Status.Backends {
			all = append(all, []string{r.Namespace + "/" + r.Name, b.Name, string(b.State), b.Reason, instant(b.Since), instant(b.RetryAt), b.Message})
		}
	}
	return all
}

// printRest writes what is there at times only.
func (v *view) printRest(w io.Writer) {
	if len(v.Pins) > 0 {
		rows(w, "PIN\tBACKEND\tMODE\tROUTES\tPHASE\tEXPIRES\tREASON", len(v.Pins), func(i int) []string {
			p := &v.Pins[i]
			return []string{p.Namespace + "/" + p.Name, p.Backend, string(p.Mode), p.Status.Scope, string(p.Status.Phase), instant(p.Status.ExpiresAt), p.Reason}
		})
	}
	if len(v.Mistakes) > 0 {
		fmt.Fprintln(w, "\nMISTAKES")
	}
	for _, m := range v.Mistakes {
		fmt.Fprintln(w, m)
	}
}

// rows writes a table of n rows, with a line before it.
func rows(w io.Writer, head string, n int, row func(int) []string) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "\n%s\n", head)
	for i := range n {
		fmt.Fprintln(t, strings.Join(row(i), "\t"))
	}
	_ = t.Flush() // who went away is not told
}

func instant(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func isReady(all []metav1.Condition) string {
	for _, c := range all {
		if c.Type == string(v1alpha1.ConditionReady) {
			return string(c.Status)
		}
	}
	return ""
}
