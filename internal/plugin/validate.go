package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/standalone"
)

// validateCommand checks manifests without a cluster.
type validateCommand struct {
	*cli
	files      []string
	standalone bool
	format     format
}

func newValidate(c *cli) *cobra.Command {
	v := &validateCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR",
		Short: "Check routes and pins in files, without a cluster",
		Long: `Check routes and pins in files, without a cluster, with the compiler that the manager runs.

Each problem is a line with file and line number, and the exit code is 1. A Secret, ConfigMap or Service that a route
names and that is not in the files is a note: it may well be in the cluster. With --standalone the files are taken as
those of a proxy without a cluster, where everything must be in them and a pin's duration needs a start.`,
		Example: `  # A folder with manifests
  kubectl spillway validate -f manifests/

  # What a generator writes
  kustomize build . | kubectl spillway validate -f -

  # The folder of a proxy that runs without a cluster
  kubectl spillway validate -f /etc/spillway --standalone`,
		Args:              noFiles,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(v.files) == 0 {
				return usage(cmd, "say what to check with --filename")
			}
			return v.run()
		},
	}
	cmd.Flags().StringSliceVarP(&v.files, "filename", "f", nil, "file or folder (its .yaml, .yml and .json files); - is standard input; may be repeated")
	cmd.Flags().BoolVar(&v.standalone, "standalone", false, "check as a proxy reads them that runs without a cluster")
	addFormat(cmd, &v.format, formatJSON, formatYAML)
	return cmd
}

// remark is a problem or a note about a place in a file.
type remark struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"` // 0: the whole file
	Object  string `json:"object,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Note    bool   `json:"note,omitempty"` // no problem
}

// String is the remark as compilers write theirs, so that editors can jump to it.
func (r remark) String() string {
	var b strings.Builder
	b.WriteString(r.File + ":")
	if r.Line > 0 {
		fmt.Fprintf(&b, "%d:", r.Line)
	}
	if r.Note {
		b.WriteString(" note:")
	}
	for _, part := range []string{r.Object, r.Field} {
		if part != "" {
			b.WriteString(" " + part + ":")
		}
	}
	return oneLine(b.String() + " " + r.Message)
}

func (v *validateCommand) run() error {
	namespace := *v.config.Namespace
	m := &manifests{namespace: cmp.Or(namespace, standalone.DefaultNamespace)}
	for _, name := range v.files {
		if err := m.read(name, v.In); err != nil {
			return err
		}
	}
	now := v.Clock.Now()
	collection := m.collect(v.standalone, now)
	snapshot := collection.Snapshot
	result := compiler.Compile(snapshot, now)
	check := checker{Collection: collection, standalone: v.standalone, now: now}
	remarks := slices.Concat(check.files(), check.routes(&result), check.pins(&result))
	slices.SortStableFunc(remarks, func(a, b remark) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if err := v.show(remarks); err != nil {
		return err
	}
	problems := 0
	for _, r := range remarks {
		if !r.Note {
			problems++
		}
	}
	in := count(len(snapshot.Routes), "route") + " and " + count(len(snapshot.Pins), "pin")
	if problems > 0 {
		fmt.Fprintf(v.ErrOut, "%s in %s.\n", count(problems, "problem"), in)
		return errTold
	}
	if len(snapshot.Routes)+len(snapshot.Pins) == 0 {
		return errors.New("there is neither an LLMRoute nor a BackendPin to check")
	}
	fmt.Fprintf(v.ErrOut, "No problem in %s.\n", in)
	return nil
}

func (v *validateCommand) show(remarks []remark) error {
	if v.format.structured() {
		return v.format.print(v.Out, struct {
			Remarks []remark `json:"remarks"`
		}{append([]remark{}, remarks...)})
	}
	for _, r := range remarks {
		fmt.Fprintln(v.Out, r)
	}
	return nil
}

// count is "1 route" or "2 routes".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
