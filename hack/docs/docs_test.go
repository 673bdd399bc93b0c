package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMetricsPageIsWhatTheCodeDeclares(t *testing.T) {
	if diff := cmp.Diff(renderMetrics(), page(t, "metrics.md")); diff != "" {
		t.Errorf("docs/metrics.md differs from the declarations; run make generate (-code +page):\n%s", diff)
	}
}

// tableRows returns the cells of the rows of a page's table whose first cell is a word in backquotes.
func tableRows(text string) [][]string {
	var rows [][]string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "| "), " | ") {
			cells = append(cells, strings.Trim(cell, "` "))
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestErrorsPageHasEveryCodeAndNoOther(t *testing.T) {
	type fact struct{ Code, Status, Type string }
	var want, got []fact
	for _, code := range openai.Codes() {
		status := ""
		if code.Status() != 0 {
			status = strconv.Itoa(code.Status())
		}
		want = append(want, fact{string(code), status, code.Type()})
	}
	number := regexp.MustCompile(`^\d+`)
	for _, cells := range tableRows(page(t, "errors.md")) {
		if len(cells) != 4 {
			t.Fatalf("row %q has %d cells, want 4", cells[0], len(cells))
		}
		got = append(got, fact{cells[0], number.FindString(cells[1]), cells[2]})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/errors.md (-code +page):\n%s", diff)
	}
}

func TestTracingPageHasEveryOutcomeAndNoOther(t *testing.T) {
	var want, got []string
	for class := proxy.Success; class <= proxy.Broken; class++ {
		want = append(want, class.String())
	}
	_, outcomes, _ := strings.Cut(page(t, "tracing-and-logs.md"), "## Outcomes\n")
	outcomes, _, _ = strings.Cut(outcomes, "\n## ")
	for _, cells := range tableRows(outcomes) {
		got = append(got, cells[0])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-code +page):\n%s", diff)
	}
}

func TestTracingPageNamesEverySpanEventAndAttribute(t *testing.T) {
	text := page(t, "tracing-and-logs.md")
	for _, name := range telemetry.TraceNames() {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/tracing-and-logs.md does not explain %s", name)
		}
	}
	known := strings.Join(telemetry.TraceNames(), "\n") + "\n"
	for _, name := range regexp.MustCompile("`(spillway\\.[a-z_.]+)`").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(known, name[1]+"\n") {
			t.Errorf("docs/tracing-and-logs.md explains %s, which the code does not have", name[1])
		}
	}
}
