package plugin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func proxyPod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "s", Labels: map[string]string{"app": "proxy"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "data", ContainerPort: 8080}}}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func withArgs(pod *corev1.Pod, args ...string) *corev1.Pod {
	pod.Spec.Containers[0].Args = args
	return pod
}

func proxyService(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: "s"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "proxy"}, Ports: ports},
	}
}

func TestPodOf(t *testing.T) {
	metrics := corev1.ServicePort{Name: "metrics", Port: 9090}
	http := corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromString("data")}
	cases := map[string]struct {
		objects []client.Object
		want    podPort
		wantErr string
	}{
		"the first ready pod by name, at the port behind the name": {
			objects: []client.Object{proxyService(metrics, http), proxyPod("c", "True"), proxyPod("b", "True"), proxyPod("a", "False")},
			want:    podPort{"s", "b", 8080, false},
		},
		"a numbered target": {
			objects: []client.Object{proxyService(corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(8081)}), proxyPod("a", "True")},
			want:    podPort{"s", "a", 8081, false},
		},
		"no target is the port itself": {
			objects: []client.Object{proxyService(corev1.ServicePort{Port: 80}), proxyPod("a", "True")},
			want:    podPort{"s", "a", 80, false},
		},
		"a pod that speaks TLS": {
			objects: []client.Object{proxyService(http), withArgs(proxyPod("a", "True"), "--listen=:8080", "--tls-cert=/etc/tls.crt")},
			want:    podPort{"s", "a", 8080, true},
		},
		"no ready pod": {
			objects: []client.Object{proxyService(http), proxyPod("a", "False")},
			wantErr: "none of the 1 pods of the Service s/proxy is ready",
		},
		"no Service":           {wantErr: `services "proxy" not found`},
		"a Service of no pods": {objects: []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: "s"}}}, wantErr: "no selector"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.objects...)
			got, err := podOf(t.Context(), r.api, types.NamespacedName{Namespace: "s", Name: "proxy"})
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(podPort{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// With an address the cluster is a convenience: a route that cannot be read has the default model.
func TestChatWithoutACluster(t *testing.T) {
	r := newRig(t)
	s := &scripted{status: 200, contentType: "text/event-stream", body: spilled}
	url := serve(t, s)
	r.begin()
	r.cli.connect = func() (client.WithWatch, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "llmroutes"}, "default", nil)
	}
	if code := r.cli.run(t.Context(), []string{"kubectl-spillway", "chat", "default", "Hi", "-n=sirens-echo", "--url", url}); code != 0 {
		t.Fatalf("exit code %d: %s", code, r.err)
	}
	if !strings.Contains(r.err.String(), "its model is taken to be sirens-echo/default") || !strings.Contains(s.asked[0], `"model":"sirens-echo/default"`) {
		t.Errorf("asked %s, said %s", s.asked, r.err)
	}
}

func TestAMissingServiceIsNoReasonToGuess(t *testing.T) {
	r := newRig(t, world(t)...)
	if code := r.run("chat", "default", "Hi", "-n=sirens-echo"); code != 1 {
		t.Errorf("exit code %d", code)
	}
	want := `services "spillway-proxy" not found`
	if got := r.err.String(); !strings.Contains(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestExplainError(t *testing.T) {
	unknown := apierrors.NewGenericServerResponse(404, "get", v1alpha1Resource, "", "", 0, true)
	if got := explainError(unknown); !strings.Contains(got, "install its CRDs") {
		t.Errorf("got %q", got)
	}
	missing := apierrors.NewNotFound(v1alpha1Resource, "default")
	if got, want := explainError(missing), `Error from server (NotFound): llmroutes.spillway.dev "default" not found`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

var v1alpha1Resource = schema.GroupResource{Group: "spillway.dev", Resource: "llmroutes"}
