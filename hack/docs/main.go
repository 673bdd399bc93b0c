// Docs writes the pages of docs/ that are made from declarations in the code. `make generate` calls it, in the root of the
// repository; its tests compare the pages with the code.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillway-dev/spillway/internal/telemetry"
)

const metricsPage = "docs/metrics.md"

func main() {
	if err := os.WriteFile(filepath.FromSlash(metricsPage), []byte(renderMetrics()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

const metricsHead = `# Metrics

<!-- Made from internal/telemetry by hack/docs; make generate writes it anew. -->

Prometheus metrics, on /metrics: the proxy's on its admin port, the manager's on its metrics port. Both also expose the
usual ones of the Go runtime and the process; the manager those of controller-runtime, too.

Values of labels come from the routing table, never from what a caller sends: a request for a model that nobody serves counts
under an empty logical_model. When a route or a backend leaves the table, its series are deleted.
`

// sections of the page, in order.
var sections = []struct {
	program telemetry.Program
	title   string
}{{telemetry.InProxy, "The proxy's"}, {telemetry.InManager, "The manager's"}}

func renderMetrics() string {
	var page strings.Builder
	page.WriteString(metricsHead)
	for _, s := range sections {
		fmt.Fprintf(&page, "\n## %s\n\n| name | type | labels | unit | meaning |\n|---|---|---|---|---|\n", s.title)
		for _, m := range telemetry.Metrics() {
			if m.Program == s.program {
				page.WriteString(row(&m))
			}
		}
	}
	return page.String()
}

func row(m *telemetry.Metric) string {
	var labels []string
	for _, label := range m.Labels {
		labels = append(labels, "`"+label+"`")
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, ", "), m.Unit, m.Help)
}
