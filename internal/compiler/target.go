package compiler

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// maxURLLength is the schema's bound on a URL.
const maxURLLength = 2048

// readTarget reads where the backend is: a URL or a Service.
func readTarget(b *backendDraft) {
	switch hasURL, hasService := b.spec.URL != "", b.spec.Service != nil; {
	case hasURL && hasService:
		b.refuse(v1alpha1.ReasonInvalidSpec, "url", "The backend has both url and service; set exactly one.")
	case hasURL:
		readURL(b)
	case hasService:
		readService(b)
	default:
		b.refuse(v1alpha1.ReasonInvalidSpec, "url", "The backend has neither url nor service; set exactly one.")
	}
}

func readURL(b *backendDraft) {
	base, query, fault := parseBaseURL(b.spec.URL)
	if len(b.spec.URL) > maxURLLength {
		fault = fmt.Sprintf("is longer than %d characters", maxURLLength)
	}
	if fault != "" {
		b.refuse(v1alpha1.ReasonInvalidURL, "url", "The URL "+fault+".")
	}
	b.out.BaseURL, b.out.Query = base, query
}

// readService turns a Service into the URL of its DNS name in the cluster.
func readService(b *backendDraft) {
	ref := b.spec.Service
	namespace := b.route.verdict.Key.Namespace
	scheme := choice[v1alpha1.ServiceScheme, string](b, "service.scheme", ref.Scheme, v1alpha1.ServiceSchemeHTTP, v1alpha1.ServiceSchemeHTTPS)
	number(b, "service.port", ref.Port, 1, 65535)
	path, fault := servicePath(ref.Path)
	if fault != "" {
		b.refuse(v1alpha1.ReasonInvalidURL, "service.path", "The path "+fault+".")
	}
	service := b.route.reader.Services[types.NamespacedName{Namespace: namespace, Name: ref.Name}]
	if service == nil {
		b.unresolved(v1alpha1.ReasonServiceNotFound, "service.name",
			fmt.Sprintf("The Service %q does not exist in this namespace; create it, or use url.", ref.Name))
		return
	}
	port, ok := dialPort(service, ref.Port)
	if !ok {
		b.unresolved(v1alpha1.ReasonServicePortNotFound, "service.port",
			fmt.Sprintf("The Service %q has no TCP port %d; name one of its ports.", ref.Name, ref.Port))
		return
	}
	b.out.BaseURL = scheme + "://" + ref.Name + "." + namespace + ".svc." + b.route.reader.Options.ClusterDomain + ":" + strconv.Itoa(int(port)) + path
}

// servicePath normalises the path of a Service as that of a URL.
func servicePath(path string) (normal, fault string) {
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "?") {
		return "", "must begin with / and have no query"
	}
	const origin = "http://service"
	base, _, fault := parseBaseURL(origin + path)
	return strings.TrimPrefix(base, origin), fault
}

// dialPort returns the port to dial for a port of a Service. The name of a headless Service resolves to its pods, where
// nothing translates ports, so the pods' own number is needed where the Service gives it.
func dialPort(service *corev1.Service, port int32) (dial int32, ok bool) {
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return port, true // it is a name for another host, and its ports are not listed
	}
	for _, p := range service.Spec.Ports {
		if p.Port != port || (p.Protocol != "" && p.Protocol != corev1.ProtocolTCP) {
			continue
		}
		if service.Spec.ClusterIP == corev1.ClusterIPNone && p.TargetPort.IntVal > 0 {
			return p.TargetPort.IntVal, true
		}
		return port, true
	}
	return 0, false
}
