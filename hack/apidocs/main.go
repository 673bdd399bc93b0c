// Apidocs writes docs/api.md, the reference of the kinds that people write, from the CRDs in config/crd and the condition and
// event reasons in api/v1alpha1. `make generate` calls it, in the root of the repository and after the CRDs are written.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// page is what this program writes, from the root of the repository.
const page = "docs/api.md"

// crdFiles are the kinds of the reference, in its order. ProxyReport is internal and has none.
var crdFiles = []string{"config/crd/spillway.dev_llmroutes.yaml", "config/crd/spillway.dev_backendpins.yaml"}

func main() {
	text, err := render(".")
	if err == nil {
		err = os.WriteFile(filepath.FromSlash(page), []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidocs:", err)
		os.Exit(1)
	}
}

const head = `# API reference

<!-- Made from config/crd and api/v1alpha1 by hack/apidocs; make generate writes it anew. -->

Group ` + "`spillway.dev`, version `v1alpha1`" + `. The same words are in ` + "`kubectl explain llmroute.spec`" + `. A duration is whole numbers with a
unit of h, m, s or ms, such as ` + "`250ms`, `30s` or `1h30m`" + `. A third kind, ProxyReport, is the proxies' own: do not write it and do not
build on it.
`

// render returns the whole page; root is that of the repository.
func render(root string) (string, error) {
	var out strings.Builder
	out.WriteString(head)
	for _, name := range crdFiles {
		crd, err := readCRD(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		crd.write(&out)
	}
	out.WriteString("\n## Words\n\nThe values of enums, and the conditions and reasons in status and Events.\n")
	types := filepath.Join(root, "api", "v1alpha1")
	for _, file := range []string{"conditions.go", "enums.go"} {
		groups, err := readConstants(filepath.Join(types, file))
		if err != nil {
			return "", err
		}
		for _, g := range groups {
			g.write(&out)
		}
	}
	return out.String(), nil
}
