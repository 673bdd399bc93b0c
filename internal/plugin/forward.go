package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podPort is where a port-forward leads.
type podPort struct {
	namespace, pod string
	port           int32
	tls            bool // what listens there speaks TLS
}

// forward opens a way to one ready pod of a Service and returns the local URL, without a path. stop closes it.
func (c *cli) forward(ctx context.Context, service string) (base string, stop func(), err error) {
	namespace, name, ok := strings.Cut(service, "/")
	if !ok || namespace == "" || name == "" {
		return "", nil, errors.New("want NAMESPACE/NAME")
	}
	api, err := c.connect()
	if err != nil {
		return "", nil, err
	}
	to, err := podOf(ctx, api, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return "", nil, err
	}
	config, err := c.restConfig()
	if err != nil {
		return "", nil, err
	}
	address, stop, err := to.open(ctx, config)
	if to.tls {
		return "https://" + address, stop, err
	}
	return "http://" + address, stop, err
}

// podOf chooses the first ready pod by name, and its port behind the Service's.
func podOf(ctx context.Context, api client.Reader, name types.NamespacedName) (podPort, error) {
	var service corev1.Service
	if err := api.Get(ctx, name, &service); err != nil {
		return podPort{}, err
	}
	if len(service.Spec.Selector) == 0 || len(service.Spec.Ports) == 0 {
		return podPort{}, fmt.Errorf("the Service %s has no selector or no port", name)
	}
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace(name.Namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return podPort{}, err
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !isReady(pod) {
			continue
		}
		if port, ok := containerPort(pod, httpPort(&service)); ok {
			return podPort{pod.Namespace, pod.Name, port, speaksTLS(pod)}, nil
		}
	}
	return podPort{}, fmt.Errorf("none of the %d pods of the Service %s is ready", len(pods.Items), name)
}

// httpPort is the callers' port: the one named http, else the first.
func httpPort(service *corev1.Service) corev1.ServicePort {
	for _, p := range service.Spec.Ports {
		if p.Name == "http" {
			return p
		}
	}
	return service.Spec.Ports[0]
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// speaksTLS says whether a pod's callers need TLS: the flag says so, as the port's name stays the same.
func speaksTLS(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "tls-cert") })
	})
}

func containerPort(pod *corev1.Pod, p corev1.ServicePort) (port int32, ok bool) {
	if p.TargetPort.Type == intstr.Int {
		return cmp.Or(p.TargetPort.IntVal, p.Port), true
	}
	for _, container := range pod.Spec.Containers {
		for _, named := range container.Ports {
			if named.Name == p.TargetPort.StrVal {
				return named.ContainerPort, true
			}
		}
	}
	return 0, false
}

// open forwards a free local port until stop is called or ctx ends.
func (p podPort) open(ctx context.Context, config *rest.Config) (address string, stop func(), err error) {
	dialer, err := p.dialer(config)
	if err != nil {
		return "", nil, err
	}
	quit, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", p.port)}, quit, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	var failure error
	ended := make(chan struct{})
	go func() {
		failure = forwarder.ForwardPorts()
		close(ended)
	}()
	stop = func() {
		close(quit)
		<-ended
	}
	select {
	case <-ready:
	case <-ended:
		return "", nil, cmp.Or(failure, errors.New("it ended at once"))
	case <-ctx.Done():
		stop()
		return "", nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

// dialer speaks WebSocket, and SPDY with API servers that do not, as kubectl does.
func (p podPort) dialer(config *rest.Config) (httpstream.Dialer, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	to := server.JoinPath("api/v1/namespaces", url.PathEscape(p.namespace), "pods", url.PathEscape(p.pod), "portforward")
	roundTripper, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, to)
	current, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(current, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
