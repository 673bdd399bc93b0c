package api

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
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

// withPodToken returns a client with a real token of a ServiceAccount, bound to a Pod that it makes.
func withPodToken(ctx context.Context, account, name string) client.Client {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: systemNamespace},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "proxy", Image: "spillway", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true),
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}}},
		},
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) })
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID},
	}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: systemNamespace}}
	Expect(admin.SubResource("token").Create(ctx, owner, request)).To(Succeed())
	c := rest.AnonymousClientConfig(config)
	c.BearerToken = request.Status.Token
	return clientFor(c)
}
