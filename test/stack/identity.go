package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// tokenLifetime of the tokens that the stack's own programs hold. Nothing rotates them here.
const tokenLifetime = int64(7 * 24 * 3600)

func clientConfig(kubeconfig string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// serviceAccount returns a kubeconfig for a ServiceAccount of the system namespace, bound to a Pod: such a token is what
// a kubelet would mount, and carries the Pod's name, which the admission policy on ProxyReports reads. No kubelet runs
// here, so the Pod object stays pending for ever; the process beside it is the real thing.
// server is where its API server is to be reached; empty for its own address.
func (c *controlPlane) serviceAccount(ctx context.Context, account, pod, server string) (*User, *corev1.Pod, error) {
	object, err := c.pod(ctx, account, pod)
	if err != nil {
		return nil, nil, err
	}
	lifetime := tokenLifetime
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &lifetime,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: object.UID},
	}}
	token, err := c.client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("ask for a token of %s: %w", account, err)
	}
	// A file, as a kubelet mounts it: it is read again when the token is not accepted any more.
	file := filepath.Join(c.dir, "tokens", pod)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(token.Status.Token), 0o600)); err != nil {
		return nil, nil, err
	}
	kubeconfig, err := c.tokenKubeconfig(pod, file, cmp.Or(server, c.url()))
	if err != nil {
		return nil, nil, err
	}
	user, err := c.newUser(pod, kubeconfig)
	return user, object, err
}

// url of the API server.
func (c *controlPlane) url() string { return c.plane.APIServer.SecureServing.URL("https", "").String() }

func (c *controlPlane) tokenKubeconfig(user, tokenFile, server string) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"spillway": {
			Server: server, CertificateAuthorityData: c.plane.APIServer.CA,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {TokenFile: tokenFile}},
		Contexts:       map[string]*clientcmdapi.Context{"spillway": {Cluster: "spillway", AuthInfo: user}},
		CurrentContext: "spillway",
	})
}

func (c *controlPlane) pod(ctx context.Context, account, name string) (*corev1.Pod, error) {
	pods := c.client.CoreV1().Pods(Namespace)
	object, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "main", Image: "spillway", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true), // the namespace is "restricted"
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		object, err = pods.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("create the Pod object %s: %w", name, err)
	}
	return object, nil
}
