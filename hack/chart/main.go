package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	configDir = "config"
	chartDir  = "charts/spillway"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// run writes what is generated; root is that of the repository.
func run(root string) error {
	for _, c := range copies {
		if err := c.write(root); err != nil {
			return err
		}
	}
	return writeReadme(filepath.Join(root, chartDir))
}

// The marks in the README between which the values stand.
const (
	valuesBegin = "<!-- values: generated from values.yaml, do not edit -->\n"
	valuesEnd   = "<!-- end of values -->\n"
)

func writeReadme(chart string) error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	table, err := document(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	path := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(readme), valuesBegin)
	_, after, ends := strings.Cut(rest, valuesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s lacks the marks %q and %q", path, valuesBegin, valuesEnd)
	}
	return os.WriteFile(path, []byte(before+valuesBegin+table+valuesEnd+after), 0o644)
}
