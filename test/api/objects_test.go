package api

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// policyWait bounds the wait for the API server to take up policies and roles; two noisy cores are slow.
const policyWait = 2 * time.Minute

// podName is the key under which the API server tells the pod of a token.
const podName = "authentication.kubernetes.io/pod-name"

func newPin(name string, routes v1alpha1.PinRoutes) *v1alpha1.BackendPin {
	return &v1alpha1.BackendPin{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.BackendPinSpec{
			Routes: routes, Backend: "hosted", Mode: v1alpha1.PinPrefer, Duration: "4h", Reason: "game night",
		},
	}
}

func namesOf(names ...string) v1alpha1.PinRoutes { return v1alpha1.PinRoutes{Names: names} }

func everyRoute() v1alpha1.PinRoutes {
	return v1alpha1.PinRoutes{Selector: &v1alpha1.RouteSelector{}}
}

// proxy is the client of a proxy in that pod.
func proxy(pod string) client.Client {
	return as("system:serviceaccount:"+systemNamespace+":spillway-proxy", map[string][]string{podName: {pod}})
}

// manager is the client of the manager.
func manager() client.Client {
	return as("system:serviceaccount:"+systemNamespace+":spillway-manager",
		map[string][]string{podName: {"spillway-manager-0"}})
}
