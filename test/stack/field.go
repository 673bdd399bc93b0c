package stack

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Objects are what `kubectl get KIND NAME -n NAMESPACE` speaks of: one object, or all of a kind where Name is empty.
type Objects struct {
	Kind      string // llmroutes, backendpins, proxyreports, events or leases
	Namespace string
	Name      string
}

var resources = map[string]schema.GroupVersionResource{
	"llmroutes":    v1alpha1.GroupVersion.WithResource("llmroutes"),
	"backendpins":  v1alpha1.GroupVersion.WithResource("backendpins"),
	"proxyreports": v1alpha1.GroupVersion.WithResource("proxyreports"),
	"events":       {Version: "v1", Resource: "events"},
	"leases":       {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
}

// Get returns what `kubectl get ... --ignore-not-found -o jsonpath=TEMPLATE` prints as this user, without a process: one who
// waits asks again and again, and a process for each question is most of what a suite would cost.
func (u *User) Get(ctx context.Context, o Objects, template string) (string, error) {
	resource, known := resources[o.Kind]
	if !known {
		return "", fmt.Errorf("get %s: not a kind that is known here", o.Kind)
	}
	client, err := u.client()
	if err != nil {
		return "", err
	}
	content, err := read(ctx, client.Resource(resource).Namespace(o.Namespace), o.Name)
	if err != nil || content == nil {
		return "", err
	}
	path := jsonpath.New("get").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return "", err
	}
	var out strings.Builder
	err = path.Execute(&out, content)
	return out.String(), err
}

// read returns the content of an object, or of the list of all; nil where there is no such object.
func read(ctx context.Context, from dynamic.ResourceInterface, name string) (map[string]any, error) {
	if name == "" {
		list, err := from.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return list.UnstructuredContent(), nil
	}
	object, err := from.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return object.Object, nil
}

// clientOf makes the client of a kubeconfig, when it is first asked for.
func clientOf(kubeconfig string) func() (dynamic.Interface, error) {
	return func() (dynamic.Interface, error) {
		config, err := clientConfig(kubeconfig)
		if err != nil {
			return nil, err
		}
		config.QPS = -1
		return dynamic.NewForConfig(config)
	}
}
