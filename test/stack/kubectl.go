package stack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/dynamic"
)

// User is somebody who talks to the API server, through a kubeconfig file of their own.
type User struct {
	Name       string
	Kubeconfig string

	kubectl string
	client  func() (dynamic.Interface, error) // the same one each time
}

// Kubectl runs kubectl as this user and returns what it printed. Its error carries what kubectl said on stderr.
func (u *User) Kubectl(ctx context.Context, args ...string) (string, error) {
	return u.KubectlStdin(ctx, "", args...)
}

// Apply runs `kubectl apply -f -` with a manifest.
func (u *User) Apply(ctx context.Context, manifest string) (string, error) {
	return u.KubectlStdin(ctx, manifest, "apply", "-f", "-")
}

// KubectlStdin is Kubectl with standard input.
func (u *User) KubectlStdin(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, u.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+u.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
