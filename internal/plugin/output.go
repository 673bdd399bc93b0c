package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// format is the value of -o.
type format string

// The formats; formatText is the default.
const (
	formatText format = ""
	formatWide format = "wide"
	formatJSON format = "json"
	formatYAML format = "yaml"
)

// addFormat declares -o with the formats that the command has.
func addFormat(cmd *cobra.Command, into *format, formats ...format) {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	flag := &formatFlag{into, names}
	cmd.Flags().VarP(flag, "output", "o", "one of: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// formatFlag refuses what the command cannot print.
type formatFlag struct {
	into  *format
	names []string
}

// String implements pflag.Value.
func (f *formatFlag) String() string { return string(*f.into) }

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "format" }

// Set implements pflag.Value.
func (f *formatFlag) Set(text string) error {
	for _, name := range f.names {
		if text == name {
			*f.into = format(text)
			return nil
		}
	}
	return fmt.Errorf("want one of: %s", strings.Join(f.names, ", "))
}

// structured says whether the format is for programs.
func (f format) structured() bool { return f == formatJSON || f == formatYAML }

// print writes a value in a format for programs.
func (f format) print(w io.Writer, value any) error {
	var data []byte
	var err error
	if f == formatYAML {
		data, err = yaml.Marshal(value)
	} else {
		data, err = json.MarshalIndent(value, "", "  ")
		data = append(data, '\n')
	}
	if err != nil {
		return fmt.Errorf("write as %s: %w", f, err)
	}
	_, err = w.Write(data)
	return err
}

// grid collects rows and prints them aligned, as kubectl does.
type grid struct {
	header []string
	rows   [][]string
}

func (t *grid) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *grid) print(w io.Writer) error {
	tabs := printers.GetNewTabWriter(w)
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			row[i] = oneLine(cell)
		}
		fmt.Fprintln(tabs, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return tabs.Flush()
}

// oneLine keeps what others wrote, such as a pin's reason, from breaking a line or steering the terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, text)
}
