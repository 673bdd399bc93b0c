package alerts

import (
	"os"
	"os/exec"
	"testing"
)

// tool is a program of Prometheus, from the environment.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set: run `make test-alerts`, which builds what this needs", variable)
	}
	return path
}

func TestRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "../../charts/spillway/files/rules.yaml"},
		{"test", "rules", "rules.test.yaml"},
	} {
		if out, err := exec.Command(tool(t, "PROMTOOL"), args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
