package api

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const (
	managerUser = "system:serviceaccount:" + systemNamespace + ":spillway-manager"
	proxyUser   = "system:serviceaccount:" + systemNamespace + ":spillway-proxy"
)

// access is one question to the authorizer.
type access struct {
	user, verb, group, resource, subresource, name, namespace string
}

var _ = Describe("The roles", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		for _, role := range []string{"view", "edit", "admin"} {
			bind(ctx, role+"er", "ClusterRole", role)
		}
		bind(ctx, "caller", "ClusterRole", "spillway-user")
		aggregateRoles(ctx)
	})

	secrets := func(user, verb, name, namespace string) access {
		return access{user: user, verb: verb, resource: "secrets", name: name, namespace: namespace}
	}
	lease := func(verb, name string) access {
		return access{user: managerUser, verb: verb, group: "coordination.k8s.io", resource: "leases", name: name, namespace: systemNamespace}
	}
	ours := func(user, verb, resource, namespace string) access {
		return access{user: user, verb: verb, group: v1alpha1.Group, resource: resource, namespace: namespace}
	}
	cases := map[string]struct {
		ask  access
		want bool
	}{
		"a proxy reads a shard":                         {secrets(proxyUser, "get", "spillway-table-00", systemNamespace), true},
		"a proxy watches a shard by its name":           {secrets(proxyUser, "watch", "spillway-table-31", systemNamespace), true},
		"a proxy does not write a shard":                {secrets(proxyUser, "update", "spillway-table-00", systemNamespace), false},
		"a proxy does not read the salt":                {secrets(proxyUser, "get", "spillway-salt", systemNamespace), false},
		"a proxy does not list Secrets":                 {secrets(proxyUser, "list", "", systemNamespace), false},
		"a proxy does not read Secrets elsewhere":       {secrets(proxyUser, "get", "spillway-table-00", namespace), false},
		"a proxy writes reports":                        {ours(proxyUser, "update", "proxyreports", systemNamespace), true},
		"a proxy does not write reports elsewhere":      {ours(proxyUser, "create", "proxyreports", namespace), false},
		"a proxy does not delete all reports at once":   {ours(proxyUser, "deletecollection", "proxyreports", systemNamespace), false},
		"a proxy does not read routes":                  {ours(proxyUser, "get", "llmroutes", namespace), false},
		"a proxy does not read pins":                    {ours(proxyUser, "list", "backendpins", namespace), false},
		"the manager reads routes":                      {ours(managerUser, "watch", "llmroutes", ""), true},
		"the manager does not change routes":            {ours(managerUser, "update", "llmroutes", namespace), false},
		"the manager deletes pins that ended":           {ours(managerUser, "delete", "backendpins", namespace), true},
		"the manager does not make pins":                {ours(managerUser, "create", "backendpins", namespace), false},
		"the manager does not pin":                      {ours(managerUser, "pin", "llmroutes", namespace), false},
		"the manager does not write reports":            {ours(managerUser, "update", "proxyreports", systemNamespace), false},
		"the manager does not read reports elsewhere":   {ours(managerUser, "list", "proxyreports", namespace), false},
		"the manager writes a shard":                    {secrets(managerUser, "update", "spillway-table-07", systemNamespace), true},
		"the manager makes the salt":                    {secrets(managerUser, "create", "", systemNamespace), true},
		"the manager does not replace the salt":         {secrets(managerUser, "update", "spillway-salt", systemNamespace), false},
		"the manager does not write other Secrets":      {secrets(managerUser, "update", "database", systemNamespace), false},
		"the manager may change who owns a shard":       {secrets(managerUser, "delete", "spillway-table-07", systemNamespace), true},
		"the manager sets who owns the salt":            {secrets(managerUser, "patch", "spillway-salt", systemNamespace), true},
		"the manager does not delete other Secrets":     {secrets(managerUser, "delete", "database", systemNamespace), false},
		"the manager may change who owns its lease":     {lease("delete", "spillway-manager"), true},
		"the manager reads its own Deployment":          {access{user: managerUser, verb: "get", group: "apps", resource: "deployments", name: "spillway-manager", namespace: systemNamespace}, true},
		"the manager reads no other Deployment":         {access{user: managerUser, verb: "get", group: "apps", resource: "deployments", name: "spillway-proxy", namespace: systemNamespace}, false},
		"the manager changes no Deployment":             {access{user: managerUser, verb: "patch", group: "apps", resource: "deployments", name: "spillway-manager", namespace: systemNamespace}, false},
		"the manager does not patch Secrets":            {secrets(managerUser, "patch", "spillway-table-07", systemNamespace), false},
		"the manager renews its lease":                  {lease("update", "spillway-manager"), true},
		"the manager does not take others' leases":      {lease("update", "kube-scheduler"), false},
		"the manager does not replace a route's status": {access{user: managerUser, verb: "update", group: v1alpha1.Group, resource: "llmroutes", subresource: "status", namespace: namespace}, false},
		"the manager does not write Secrets elsewhere":  {secrets(managerUser, "create", "", namespace), false},
		"the manager reads no Pods":                     {access{user: managerUser, verb: "list", resource: "pods", namespace: systemNamespace}, false},
		"the manager writes the status of routes":       {access{user: managerUser, verb: "patch", group: v1alpha1.Group, resource: "llmroutes", subresource: "status", namespace: namespace}, true},
		"view sees pins":                                {ours("viewer", "get", "backendpins", namespace), true},
		"view does not change routes":                   {ours("viewer", "patch", "llmroutes", namespace), false},
		"edit changes routes":                           {ours("editer", "patch", "llmroutes", namespace), true},
		"edit does not pin":                             {ours("editer", "pin", "llmroutes", namespace), false},
		"admin changes routes":                          {ours("adminer", "delete", "llmroutes", namespace), true},
		"a user of the namespace uses its routes":       {ours("caller", "use", "llmroutes", namespace), true},
		"a user of the namespace reads no routes":       {ours("caller", "get", "llmroutes", namespace), false},
		"a user of the namespace does not pin":          {ours("caller", "pin", "llmroutes", namespace), false},
		"a user of the namespace uses none elsewhere":   {ours("caller", "use", "llmroutes", "default"), false},
		"edit does not use routes":                      {ours("editer", "use", "llmroutes", namespace), false},
		"edit does not write the status of a route":     {access{user: "editer", verb: "patch", group: v1alpha1.Group, resource: "llmroutes", subresource: "status", namespace: namespace}, false},
		"admin does not write the status of a route":    {access{user: "adminer", verb: "update", group: v1alpha1.Group, resource: "llmroutes", subresource: "status", namespace: namespace}, false},
		"admin does not make reports":                   {ours("adminer", "create", "proxyreports", namespace), false},
		"a pinner makes pins":                           {ours("gamer", "create", "backendpins", namespace), true},
		"a pinner does not change routes":               {ours("gamer", "update", "llmroutes", namespace), false},
		"a pinner does not write the status of a pin":   {access{user: "gamer", verb: "update", group: v1alpha1.Group, resource: "backendpins", subresource: "status", namespace: namespace}, false},
		"a pinner does nothing in another namespace":    {ours("gamer", "create", "backendpins", "default"), false},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		It("say: "+name, func(ctx SpecContext) {
			Expect(allowed(ctx, tc.ask)).To(Equal(tc.want))
		})
	}
})

// aggregateRoles does what the controller manager of a cluster does, which does not run here: it writes the rules of
// our ClusterRoles into those that aggregate them.
func aggregateRoles(ctx context.Context) {
	GinkgoHelper()
	var roles rbacv1.ClusterRoleList
	Expect(admin.List(ctx, &roles)).To(Succeed())
	for _, label := range []string{"view", "edit", "admin"} {
		var sum rbacv1.ClusterRole
		for i := range roles.Items {
			if roles.Items[i].Name == label {
				sum = roles.Items[i]
			}
		}
		Expect(sum.AggregationRule).NotTo(BeNil())
		sum.Rules = aggregate(roles.Items, sum.AggregationRule)
		Expect(admin.Update(ctx, &sum)).To(Succeed())
	}
	Eventually(func(g Gomega) {
		g.Expect(allowed(ctx, access{user: "adminer", verb: "get", group: v1alpha1.Group, resource: "llmroutes", namespace: namespace})).To(BeTrue())
		g.Expect(allowed(ctx, access{user: "viewer", verb: "get", group: v1alpha1.Group, resource: "llmroutes", namespace: namespace})).To(BeTrue())
	}).WithContext(ctx).WithTimeout(policyWait).Should(Succeed())
}

func aggregate(roles []rbacv1.ClusterRole, rule *rbacv1.AggregationRule) []rbacv1.PolicyRule {
	GinkgoHelper()
	var rules []rbacv1.PolicyRule
	for _, selector := range rule.ClusterRoleSelectors {
		matches, err := metav1.LabelSelectorAsSelector(&selector)
		Expect(err).NotTo(HaveOccurred())
		for i := range roles {
			if matches.Matches(labels.Set(roles[i].Labels)) {
				rules = append(rules, roles[i].Rules...)
			}
		}
	}
	return rules
}

func allowed(ctx context.Context, a access) bool {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.subresource, Name: a.name, Namespace: a.namespace,
		},
	}}
	Expect(admin.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}
