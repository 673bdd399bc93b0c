package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestSchemaRefuses(t *testing.T) {
	h := newHelm(t, "")
	for name, tc := range map[string]struct{ set, want string }{
		"a value that does not exist":            {"replica=3", "replica"},
		"a value that does not exist, deep down": {"proxy.drain.timeout=5m", "timeout"},
		"a negative number of Pods":              {"proxy.replicas=-1", "/proxy/replicas"},
		"a number of Pods that is a word":        {"manager.replicas=many", "/manager/replicas"},
		"an unknown level":                       {"proxy.logLevel=TRACE", "/proxy/logLevel"},
		"a duration without a unit":              {"manager.maxPin=168", "/manager/maxPin"},
		"a namespace that is none":               {"manager.watchNamespaces={Not_A_Name}", "/manager/watchNamespaces/0"},
		"no time to drain":                       {"proxy.drain.timeoutSeconds=0", "/proxy/drain/timeoutSeconds"},
		"a body without a size":                  {"proxy.maxBody=large", "/proxy/maxBody"},
		"a network that is an address":           {"proxy.allowCIDRs={10.0.0.1}", "/proxy/allowCIDRs/0"},
		"an unknown kind of Service":             {"proxy.service.type=ExternalName", "/proxy/service/type"},
		"a port that is none":                    {"proxy.service.port=70000", "/proxy/service/port"},
		"an unknown measure of load":             {"proxy.autoscaling.metric=memory", "/proxy/autoscaling/metric"},
		"an unknown kind of callers":             {"proxy.callerAuth.mode=basic", "/proxy/callerAuth/mode"},
		"a collector without a scheme":           {"proxy.tracing.endpoint=collector:4318", "/proxy/tracing/endpoint"},
		"a longer delay than the drain":          {"proxy.drain.delaySeconds=400", "proxy.drain.delaySeconds"},
		"fewer Pods at most than at least":       {"proxy.autoscaling.enabled=true,proxy.autoscaling.minReplicas=11", "proxy.autoscaling.minReplicas"},
		"a section that is taken away":           {"proxy.tls=null", "tls"},
		"a label of the chart's own":             {"commonLabels.app\\.kubernetes\\.io/name=llm", "/commonLabels/app.kubernetes.io~1name"},
		"a label that Services go by":            {"proxy.podLabels.app\\.kubernetes\\.io/component=llm", "/proxy/podLabels/app.kubernetes.io~1component"},
		"a short digest":                         {"proxy.digest=sha256:abc", "/proxy/digest"},
		"a flag that is none":                    {"proxy.extraArgs={debug}", "/proxy/extraArgs/0"},
		"a pinner without subjects":              {"pinners[0].namespace=a", "subjects"},
		"a pinner without a namespace":           {"pinners[0].subjects[0].kind=User,pinners[0].subjects[0].name=gamer", "namespace"},
		"a pinner that is a Pod":                 {"pinners[0].namespace=a,pinners[0].subjects[0].kind=Pod,pinners[0].subjects[0].name=b", "/pinners/0/subjects/0/kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.try(t.Context(), "template", release, chartDir(), "--set", tc.set)
			if err == nil {
				t.Fatalf("--set %s is accepted", tc.set)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the refusal does not name %q: %v", tc.want, err)
			}
		})
	}
}

// TestSchemaAndDefaultsNameTheSameValues: a value that only one of them knows is refused or does nothing.
func TestSchemaAndDefaultsNameTheSameValues(t *testing.T) {
	var defaults map[string]any
	text, err := os.ReadFile(filepath.Join(chartDir(), "values.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &defaults)
	}
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties map[string]json.RawMessage
	}
	var differing []string
	var compare func(path string, schema json.RawMessage, value any)
	compare = func(path string, schema json.RawMessage, value any) {
		var n node
		if err := json.Unmarshal(schema, &n); err != nil {
			t.Fatal(err)
		}
		section, isMap := value.(map[string]any)
		if !isMap || n.Properties == nil {
			return
		}
		for name, below := range n.Properties {
			if _, known := section[name]; !known {
				differing = append(differing, "only the schema has "+path+name)
			} else {
				compare(path+name+".", below, section[name])
			}
		}
		for name := range section {
			if _, known := n.Properties[name]; !known {
				differing = append(differing, "only the defaults have "+path+name)
			}
		}
	}
	schema, err := os.ReadFile(filepath.Join(chartDir(), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	compare("", schema, defaults)
	slices.Sort(differing)
	// Helm itself adds "global" where the chart is part of another.
	if diff := cmp.Diff([]string{"only the schema has global"}, differing); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
