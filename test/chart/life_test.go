package chart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience bounds waits for the API server; two noisy cores are slow.
const patience = 2 * time.Minute

// cluster is a real API server and Helm pointed at it.
type cluster struct {
	client.Client
	helm *helmer
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set, so there is no kube-apiserver to test on: run `make test-chart`, which builds one, or set it to a folder with etcd, kube-apiserver and kubectl")
	}
	environment := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute} // the machine may be busy
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	config.QPS = -1
	admin, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: c, helm: newHelm(t, path)}
}

// TestLife takes one release through its life, each part on what the part before left.
func TestLife(t *testing.T) {
	c := startCluster(t)
	old := oldChart(t)
	for _, part := range []struct {
		sentence string
		run      func(*testing.T)
	}{
		{"an older version is installed", func(t *testing.T) {
			c.makeNamespaces(t)
			c.helm.run(t, "install", release, old, "--namespace", namespace)
			c.waitForWindow(t, false)
			c.create(t, newRoute("before"))
		}},
		{"an upgrade brings the fields of newer CRDs, and keeps routes", func(t *testing.T) {
			c.helm.run(t, "upgrade", release, chartDir(), "--namespace", namespace)
			c.waitForWindow(t, true)
			c.wantRoute(t, "before", false)
			c.create(t, newRoute("after"))
			c.wantRoute(t, "after", true)
		}},
		{"Pod Security admits the Pods of both Deployments as restricted", c.podsAreRestricted},
		{"a policy that mutates comes with a cluster that serves it", func(t *testing.T) {
			c.wantThere(t, "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "", "spillway-pinned-by")
		}},
		{"the manager and pinners may do what values say, and no more", c.valuesGrant},
		{"a rollback brings the older CRD back and loses no route and no stored field", func(t *testing.T) {
			c.helm.run(t, "rollback", release, "1", "--namespace", namespace)
			c.waitForWindow(t, false)
			c.helm.run(t, "rollback", release, "2", "--namespace", namespace)
			c.waitForWindow(t, true)
			c.wantRoute(t, "after", true)
		}},
		{"an uninstall leaves CRDs and routes, and nothing else", func(t *testing.T) {
			c.helm.run(t, "uninstall", release, "--namespace", namespace)
			c.wantNothingLeft(t)
			c.wantRoute(t, "after", true)
		}},
		{"the next install adopts what was left", func(t *testing.T) {
			notes := c.helm.run(t, "install", release, chartDir(), "--namespace", namespace)
			c.wantRoute(t, "after", true)
			c.takesRouteOf(t, notes)
		}},
		{"kustomize takes over what Helm made: both say the same of what is one value to an apply", func(t *testing.T) {
			apply := exec.Command(kubectl(t), "apply", "--kubeconfig", c.helm.kubeconfig, "--server-side", "--dry-run=server", "-k", root("config", "install"))
			if out, err := apply.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}},
		{"a second release is refused, and harms nothing", func(t *testing.T) {
			_, err := c.helm.try(t.Context(), "install", "another", chartDir(), "--namespace", "sirens-echo")
			if err == nil || !strings.Contains(err.Error(), "exists and cannot be imported into the current release") {
				t.Errorf("error %v", err)
			}
			c.wantThere(t, "apps/v1", "Deployment", namespace, "spillway-proxy")
		}},
		{"a release of another name takes over the CRDs if it is told to", func(t *testing.T) {
			c.helm.run(t, "uninstall", release, "--namespace", namespace)
			if _, err := c.helm.try(t.Context(), "install", "another", chartDir(), "--namespace", "outside"); err == nil {
				t.Error("it does so without being told")
			}
			c.helm.run(t, "install", "another", chartDir(), "--namespace", "outside", "--take-ownership")
			c.wantRoute(t, "after", true)
		}},
	} {
		if !t.Run(part.sentence, part.run) {
			return // what comes next builds on it
		}
	}
}

// oldChart is the chart as it could have been: a version before, whose LLMRoute has no contextWindow yet.
func oldChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spillway")
	if err := os.CopyFS(dir, os.DirFS(chartDir())); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, "Chart.yaml"), func(line string) string {
		return strings.Replace(line, "0.1.0", "0.0.9", 1)
	})
	indent := 0 // of the field, while it is being left out
	edit(t, filepath.Join(dir, "templates", "generated", "crd-llmroutes.yaml"), func(line string) string {
		is := len(line) - len(strings.TrimLeft(line, " "))
		if strings.TrimSpace(line) == "contextWindow:" {
			indent = is
			return ""
		}
		if indent > 0 && is > indent {
			return ""
		}
		indent = 0
		return line
	})
	return dir
}

// edit changes a file line by line; it fails the test where nothing changes.
func edit(t *testing.T, path string, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		out.WriteString(change(line))
	}
	if out.String() == string(text) {
		t.Fatalf("%s has not what this test takes out of it", path)
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) makeNamespaces(t *testing.T) {
	t.Helper()
	for name, labels := range map[string]map[string]string{
		namespace:     {"pod-security.kubernetes.io/enforce": "restricted"},
		"sirens-echo": nil, "team-b": nil, "outside": nil,
	} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
}

func newRoute(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "spillway.dev/v1alpha1", "kind": "LLMRoute",
		"metadata": map[string]any{"name": name, "namespace": "sirens-echo"},
		"spec": map[string]any{"chain": []any{map[string]any{
			"name": "tower", "url": "http://tower.lan:11434/v1", "model": "ornith:35b", "contextWindow": int64(48128),
		}}},
	}}
}

// create makes the object once its kind is served.
func (c *cluster) create(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	c.eventually(t, func(ctx context.Context) error { return c.Create(ctx, object.DeepCopy()) })
}

// hasWindow tells whether the field of the newer CRD is in a route, with what newRoute says. Its default is 0.
func hasWindow(route *unstructured.Unstructured) bool {
	chain, _, _ := unstructured.NestedSlice(route.Object, "spec", "chain")
	return len(chain) == 1 && chain[0].(map[string]any)["contextWindow"] == int64(48128)
}

// waitForWindow waits until the API server keeps, or drops, the field of the newer CRD.
func (c *cluster) waitForWindow(t *testing.T, want bool) {
	t.Helper()
	c.eventually(t, func(ctx context.Context) error {
		probe := newRoute("probe")
		if err := c.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if hasWindow(probe) != want {
			return errNotYet
		}
		return nil
	})
}

func (c *cluster) wantRoute(t *testing.T, name string, window bool) {
	t.Helper()
	c.eventually(t, func(ctx context.Context) error {
		route := newRoute(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(route), route); err != nil {
			return err
		}
		if hasWindow(route) != window {
			return errNotYet
		}
		return nil
	})
}

func (c *cluster) wantThere(t *testing.T, version, kind, in, name string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: in, Name: name}, object); err != nil {
		t.Error(err)
	}
}

// takesRouteOf creates the route that the notes give for a first one.
func (c *cluster) takesRouteOf(t *testing.T, notes string) {
	t.Helper()
	_, rest, begins := strings.Cut(notes, "<<'EOF'\n")
	manifest, _, ends := strings.Cut(rest, "\n   EOF\n")
	if !begins || !ends {
		t.Fatalf("no manifest in the notes:\n%s", notes)
	}
	for _, route := range objects(t, manifest) {
		c.create(t, route)
	}
}

// podsAreRestricted asks Pod Security about the Pods that the Deployments would make.
func (c *cluster) podsAreRestricted(t *testing.T) {
	for _, name := range []string{"spillway-manager", "spillway-proxy"} {
		deployment := &unstructured.Unstructured{}
		deployment.SetAPIVersion("apps/v1")
		deployment.SetKind("Deployment")
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			t.Fatal(err)
		}
		pod := podOf(t, deployment)
		pod.Name, pod.Namespace = name, namespace
		if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("the Pod of %s: %v", name, err)
		}
		if root := pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
			t.Errorf("%s can write to its image", name)
		}
	}
}

// access is a question to RBAC.
type access struct {
	user, verb, group, resource, in, name string
}

func (c *cluster) may(ctx context.Context, a access) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.verb, Group: a.group, Resource: a.resource, Namespace: a.in, Name: a.name,
		},
	}}
	err := c.Create(ctx, review)
	return review.Status.Allowed, err
}

// valuesGrant narrows the manager to two namespaces and lets somebody pin, and asks RBAC before and after.
func (c *cluster) valuesGrant(t *testing.T) {
	const (
		manager = "system:serviceaccount:" + namespace + ":spillway-manager"
		proxy   = "system:serviceaccount:" + namespace + ":spillway-proxy"
		pins    = "spillway.dev"
	)
	c.wantAccess(t, access{manager, "list", "", "secrets", "outside", ""}, true)
	c.helm.run(t, "upgrade", release, chartDir(), "--namespace", namespace, "--set", "manager.watchNamespaces={sirens-echo,team-b}",
		"--set", "pinners[0].namespace=sirens-echo,pinners[0].routes={before},pinners[0].subjects[0].kind=User,pinners[0].subjects[0].name=gamer")
	for sentence, tc := range map[string]struct {
		access
		want bool
	}{
		"the manager reads Secrets where it is told to":       {access{manager, "list", "", "secrets", "sirens-echo", ""}, true},
		"the manager reads no Secrets elsewhere":              {access{manager, "list", "", "secrets", "outside", ""}, false},
		"the manager reads no Secrets of the whole cluster":   {access{manager, "list", "", "secrets", "", ""}, false},
		"the manager reads the table":                         {access{manager, "list", "", "secrets", namespace, ""}, true},
		"the manager reads routes where it is told to":        {access{manager, "watch", pins, "llmroutes", "team-b", ""}, true},
		"the manager compares its CRDs":                       {access{manager, "get", "apiextensions.k8s.io", "customresourcedefinitions", "", "llmroutes.spillway.dev"}, true},
		"the manager elects a leader":                         {access{manager, "update", "coordination.k8s.io", "leases", namespace, "spillway-manager"}, true},
		"a proxy reads a shard":                               {access{proxy, "get", "", "secrets", namespace, "spillway-table-00"}, true},
		"a proxy reads no other Secret":                       {access{proxy, "get", "", "secrets", namespace, "other"}, false},
		"a proxy reads no routes":                             {access{proxy, "list", pins, "llmroutes", "sirens-echo", ""}, false},
		"a pinner pins the routes that the values name":       {access{"gamer", "pin", pins, "llmroutes", "sirens-echo", "before"}, true},
		"a pinner pins no other route":                        {access{"gamer", "pin", pins, "llmroutes", "sirens-echo", "after"}, false},
		"a pinner makes pins":                                 {access{"gamer", "create", pins, "backendpins", "sirens-echo", ""}, true},
		"a pinner makes no pins elsewhere":                    {access{"gamer", "create", pins, "backendpins", "outside", ""}, false},
		"a pinner changes no routes":                          {access{"gamer", "update", pins, "llmroutes", "sirens-echo", "before"}, false},
		"somebody whom the values do not name pins no routes": {access{"guest", "pin", pins, "llmroutes", "sirens-echo", "before"}, false},
	} {
		t.Run(sentence, func(t *testing.T) { c.wantAccess(t, tc.access, tc.want) })
	}
	c.helm.run(t, "rollback", release, "2", "--namespace", namespace)
}

// wantAccess waits for RBAC to say it: it learns of bindings some time after they are made.
func (c *cluster) wantAccess(t *testing.T, a access, want bool) {
	t.Helper()
	c.eventually(t, func(ctx context.Context) error {
		if allowed, err := c.may(ctx, a); err != nil {
			return err
		} else if allowed != want {
			return errNotYet
		}
		return nil
	})
}

// wantNothingLeft asks for everything that the chart can make, apart from CRDs.
func (c *cluster) wantNothingLeft(t *testing.T) {
	t.Helper()
	for _, made := range objects(t, c.helm.render(t, "--api-versions", mutating)) {
		if made.GetKind() == "CustomResourceDefinition" {
			c.wantThere(t, made.GetAPIVersion(), made.GetKind(), "", made.GetName())
			continue
		}
		c.eventually(t, func(ctx context.Context) error {
			err := c.Get(ctx, client.ObjectKeyFromObject(made), made.DeepCopy())
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				return stillThere(keyOf(made))
			}
			return err
		})
	}
	secrets := &corev1.SecretList{}
	if err := c.List(t.Context(), secrets, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		t.Errorf("the Secret %s is left", secret.Name)
	}
}

// stillThere is the key of an object that should be gone.
type stillThere string

func (s stillThere) Error() string { return string(s) + " is left" }

const errNotYet = notYet("not yet as it should be")

type notYet string

func (n notYet) Error() string { return string(n) }

// eventually calls f until it succeeds.
func (c *cluster) eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}
