package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// completer is the name under which kubectl looks for a plugin's completion. A link of that name to the program is one.
const completer = "kubectl_complete-spillway"

// Run runs one command line (the program's own name included) and returns the exit code: 0, or 1 with one line on ErrOut.
func Run(ctx context.Context, env Env, args []string) int {
	return newCLI(env).run(ctx, args)
}

func (c *cli) run(ctx context.Context, args []string) int {
	name, args := args[0], args[1:]
	if strings.TrimSuffix(filepath.Base(name), ".exe") == completer {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root := c.command()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return 1 // the person ended it and knows
	case !errors.Is(err, errTold):
		fmt.Fprintln(c.ErrOut, explainError(err))
	}
	return 1
}

// errTold ends a command whose output has said what is wrong.
var errTold = errors.New("see above")

// explainError is the error as kubectl would print it. What the API server says is not changed; only where it does not
// know Spillway's kinds at all something is added, and where it says nothing.
func explainError(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "Error: " + unreached(err)
	}
	text := fmt.Sprintf("Error from server (%s): %s", status.Status().Reason, err)
	if details := status.Status().Details; apierrors.IsNotFound(err) && (details == nil || details.Name == "") {
		text += "\nThe cluster does not know Spillway's kinds: install its CRDs, or look at another cluster with --context."
	}
	return text
}

// unreached says of a request to the API server that got no answer which server it was, and how to name another.
func unreached(err error) string {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err.Error()
	}
	server, parseErr := url.Parse(failed.URL)
	if parseErr != nil || !strings.Contains(server.Path, "/apis/") && !strings.Contains(server.Path, "/api/v1/") {
		return err.Error() // a proxy's: the command has said which
	}
	return fmt.Sprintf("the API server at %s cannot be reached: %v\nName the right cluster with --context, --kubeconfig or $KUBECONFIG.",
		server.Host, failed.Err)
}

// usage is an error of the command line, with the way to the help.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return fmt.Errorf("%s\nSee '%s --help'", fmt.Sprintf(format, args...), cmd.CommandPath())
}
