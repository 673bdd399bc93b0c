package commands

import (
	"regexp"
	"strings"
)

// rule is what is done with a command in place of running it.
type rule struct {
	command *regexp.Regexp
	why     string
	do      func(string) string
}

// helpOnly lets a program judge its flags, and do nothing.
func helpOnly(command string) string {
	command, _, _ = strings.Cut(command, " | ")
	command, _, _ = strings.Cut(command, "   #")
	if before, _, found := strings.Cut(command, " -- "); found {
		command = before
	}
	return command + " --help >/dev/null"
}

func versionOnly(command string) string { return command + " --version" }
func nothing(string) string             { return ":" }
func refused(command string) string {
	return "if " + command + "\nthen echo 'this should have been refused'; exit 1; fi"
}

func eventually(command string) string { return "until " + command + "; do sleep 0.2; done" }

func on(pattern, why string, do func(string) string) rule {
	return rule{regexp.MustCompile(pattern), why, do}
}

// rules apply in order, the first that matches.
var rules = []rule{
	on(`^make `, "is what builds and runs this test, or the same as a suite", nothing),
	on(`^export KUBECONFIG=\$PWD`, "is set: the test has a kubeconfig of its own", nothing),
	on(`^(useradd|install) `, "changes the machine", nothing),
	on(`^ln -s kubectl-spillway`, "changes a folder of the machine", nothing),
	on(`^helm `, "would install a second Spillway; test/chart takes a release through its life", helpOnly),
	on(`rollout status|scale deployment|port-forward| logs -l | run curl |wait --for=condition=Available`, "needs Pods, and none run here", helpOnly),
	on(`^kubectl apply --server-side -k config/install`, "would start a second manager and more proxies", func(c string) string { return c + " --dry-run=server --force-conflicts >/dev/null" }),
	on(`^kubectl delete (namespace|crd) `, "ends the installation of this test", helpOnly),
	on(`^kubectl label namespace spillway-system`, "sets what the namespace has already", func(c string) string { return c + " --overwrite" }),
	on(`kubectl create namespace sirens-echo`, "makes what exists already", helpOnly),
	on(`^(bin/)?proxy --manifests`, "would serve until it is stopped; test/docs lets it", versionOnly),
	on(`^curl .*Bearer \$\(cat keys/ann\)|^curl '?http://127.0.0.1:9090/statusz|"home/default"`, "asks a proxy that test/docs starts from files", nothing),
	on(`spillway pin fast `, "shows a refusal, of a person who has no right", nothing),
	on(`spillway burst-probe default --url [^ ]+$`, "sends nothing without --yes", refused),
	on(`spillway unpin pin/default-prefer-hosted`, "comes second on its page, and the first has ended the pin", refused),
	on(`auth can-i`, "may be asked before the API server's authorizer has heard of the role", eventually),
	on(`spillway chat default "Why`, "forwards a port of a Pod, and none run here", helpOnly),
	on(`spillway validate -f manifests/`, "shows the mistakes of a folder that is not there", helpOnly),
}

// instead is what is run for a command, and why it is not the command itself; empty where it is.
func instead(command string) (run, why string) {
	for _, r := range rules {
		if r.command.MatchString(command) {
			return r.do(command), r.why
		}
	}
	return command, ""
}
