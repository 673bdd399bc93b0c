package plugin

import "github.com/spf13/cobra"

// command returns the plugin with all of its commands.
func (c *cli) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-spillway",
		Short: "See which model backend serves, decide which should, and ask why",
		Long: `See which model backend serves, decide which should, and ask why.

A route gives one model name to a chain of backends. When a backend is busy or broken, requests spill over to the
next one and stay there until it is well again. A pin moves a backend to the front or the back for a limited time.`,
		Example: `  # What is going on?
  kubectl spillway status

  # A game starts: leave the GPU alone until 23:00
  kubectl spillway pin default --backend hosted --until 23:00 --reason "game night"

  # It is over earlier
  kubectl spillway unpin default`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl spillway"},
		Version:           c.Version,
		SilenceErrors:     true, // Run tells them once
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%s", err) })
	root.SetVersionTemplate("kubectl-spillway {{.Version}}\n")
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.ErrOut)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	c.config.AddFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions) // fails only where the flag is missing
	root.AddCommand(
		newStatus(c), newExplain(c),
		newPin(c), newUnpin(c), newPins(c),
		newValidate(c), newChat(c), newBurstProbe(c),
	)
	return root
}
