package plugin

import "github.com/spf13/cobra"

// oneRoute wants a ROUTE and nothing else.
func oneRoute(cmd *cobra.Command, args []string) error {
	if err := routeFirst(cmd, args); err != nil {
		return err
	}
	return atMostOneRoute(cmd, args)
}

// atMostOneRoute wants a ROUTE or nothing.
func atMostOneRoute(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage(cmd, "one ROUTE at a time: %q is one too many", args[1])
	}
	return nil
}

// routeFirst wants a ROUTE, with or without something behind it.
func routeFirst(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage(cmd, "say which ROUTE")
	}
	return nil
}

// flagsOnly wants flags alone.
func flagsOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, "%s takes flags alone, and %q is none", cmd.Name(), args[0])
	}
	return nil
}

// noFiles wants flags alone; who names files without their flag is told of it.
func noFiles(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, "files are named by a flag: -f %s", args[0])
	}
	return nil
}
