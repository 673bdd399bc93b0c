package api

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/table"
)

// grants are what each role holds, no more and no less: "verbs group/resources", with the names where it holds for these alone. The
// manager watches what routes and pins are made of and deletes pins that ended; it writes no more than status, Events, and in its own
// namespace the table, the salt and the lease. A proxy reads the table and keeps its report. No role of a person holds the verb pin.
var grants = map[string][]string{
	"ClusterRole spillway-manager": {
		"get list watch /configmaps /secrets /services",
		"get apiextensions.k8s.io/customresourcedefinitions of backendpins.spillway.dev llmroutes.spillway.dev proxyreports.spillway.dev",
		"create patch events.k8s.io/events",
		"delete get list watch spillway.dev/backendpins",
		"patch spillway.dev/backendpins/status spillway.dev/llmroutes/status",
		"get list watch spillway.dev/llmroutes",
	},
	"Role spillway-manager": {
		"create /secrets",
		"delete patch /secrets of spillway-salt",
		"delete update /secrets of the shards",
		"get apps/deployments of spillway-manager",
		"create coordination.k8s.io/leases",
		"delete get update coordination.k8s.io/leases of spillway-manager",
		"delete list watch spillway.dev/proxyreports",
	},
	"Role spillway-proxy": {
		"get list watch /secrets of the shards",
		"create delete get list update watch spillway.dev/proxyreports",
	},
	"ClusterRole spillway-viewer, aggregate-to-view": {"get list watch spillway.dev/llmroutes spillway.dev/backendpins spillway.dev/proxyreports"},
	"ClusterRole spillway-editor, aggregate-to-admin, aggregate-to-edit": {
		"get list watch create update patch delete deletecollection spillway.dev/llmroutes",
	},
	"ClusterRole spillway-pinner": {
		"get list watch create update patch delete spillway.dev/backendpins",
		"get list watch spillway.dev/llmroutes",
	},
	"ClusterRole spillway-user": {"use spillway.dev/llmroutes"},
}

func TestRolesHoldNoMoreAndNoLess(t *testing.T) {
	got := map[string][]string{}
	for _, file := range []string{"manager_role.yaml", "proxy_role.yaml", "people.yaml"} {
		data, err := os.ReadFile("../../config/rbac/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(document, "---\n")), &role); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			name := role.Kind + " " + role.Name
			var labels []string
			for label := range role.Labels {
				labels = append(labels, ", "+strings.TrimPrefix(label, "rbac.authorization.k8s.io/"))
			}
			slices.Sort(labels)
			name += strings.Join(labels, "")
			for i := range role.Rules {
				got[name] = append(got[name], grantOf(&role.Rules[i]))
			}
		}
	}
	if diff := cmp.Diff(grants, got); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
}

func grantOf(r *rbacv1.PolicyRule) string {
	parts := slices.Clone(r.Verbs)
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			parts = append(parts, group+"/"+resource)
		}
	}
	var shards []string
	for i := range table.Shards {
		shards = append(shards, table.ShardName(i))
	}
	switch {
	case slices.Equal(r.ResourceNames, shards):
		parts = append(parts, "of the shards")
	case len(r.ResourceNames) > 0:
		parts = append(parts, "of", strings.Join(r.ResourceNames, " "))
	}
	return strings.Join(parts, " ")
}
