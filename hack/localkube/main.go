package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: go run -C hack/localkube . COMMAND

  assets        build what is missing of etcd, kube-apiserver and kubectl; print their directory on stdout
  node          build hyper, a whole Kubernetes node in one program, if it is missing; print the directory of its names
                on stdout
  up [--dir D]  start etcd and kube-apiserver on loopback, print the kubeconfig's path, run until interrupted
                (without --dir everything is kept in a temporary directory and removed at the end)
  clean         remove the binaries that other versions left in the cache; what is current stays

KUBEBUILDER_ASSETS names a directory of binaries to use instead of building (absolute path).
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "localkube: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "localkube:", err)
		os.Exit(1)
	}
}

// run carries out one command. Results go to stdout, everything a person reads meanwhile to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return errors.New("no command given")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	dir := ""
	if args[0] == "up" {
		flags.StringVar(&dir, "dir", "", "keep data, certificates and logs here")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q", args[0], flags.Arg(0))
	}
	switch args[0] {
	case "assets":
		return printed(stdout)(findAssets(ctx, stderr))
	case "node":
		return printed(stdout)(findNode(ctx, stderr))
	case "up":
		return up(ctx, dir, stdout, stderr)
	case "clean":
		return clean(ctx, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	}
	fmt.Fprint(stderr, usage)
	return fmt.Errorf("unknown command %q", args[0])
}

// printed prints a directory that was found.
func printed(stdout io.Writer) func(dir string, err error) error {
	return func(dir string, err error) error {
		if err == nil {
			fmt.Fprintln(stdout, dir)
		}
		return err
	}
}
