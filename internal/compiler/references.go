package compiler

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// References returns the objects that a route names, sorted and each once, so that whoever fills a Snapshot knows what
// to fetch, and which routes an event of one of them concerns. A nil route names nothing.
func References(route *v1alpha1.LLMRoute) []Reference {
	if route == nil {
		return nil
	}
	var refs []Reference
	add := func(kind Kind, name string) {
		if name != "" {
			refs = append(refs, Reference{Kind: kind, Namespace: route.Namespace, Name: name})
		}
	}
	for i := range route.Spec.Chain {
		b := &route.Spec.Chain[i]
		if b.Service != nil {
			add(KindService, b.Service.Name)
		}
		if b.Auth != nil {
			add(KindSecret, b.Auth.SecretRef.Name)
		}
		if b.TLS != nil && b.TLS.CARef != nil {
			add(kindOfCA(b.TLS.CARef), b.TLS.CARef.Name)
		}
		if b.TLS != nil && b.TLS.ClientCertRef != nil {
			add(KindSecret, b.TLS.ClientCertRef.Name)
		}
	}
	slices.SortFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(refs)
}

func kindOfCA(ref *v1alpha1.CARef) Kind {
	if ref.Kind == v1alpha1.CARefSecret {
		return KindSecret
	}
	return KindConfigMap
}
