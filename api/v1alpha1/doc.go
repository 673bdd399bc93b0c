// Package v1alpha1 holds the Kubernetes API of Spillway: group spillway.dev, version v1alpha1.
//
// Its place in the flow: people write LLMRoute and BackendPin, the compiler reads them and turns them into the routing
// table, the manager writes their status. ProxyReport is the other direction: each proxy writes its own, the manager folds
// all of them into status, and the other proxies adopt newer evidence from them. The proxies never read routes or pins.
//
// The package imports only apimachinery and core/v1, so that any Go program may depend on it. Its types carry the markers from
// which hack/generate.sh writes the deep copies and the CRDs. Defaults and bounds that are constants are markers, so that
// the API server applies and shows them; Default applies the same ones where no API server does (the standalone proxy).
//
// +kubebuilder:object:generate=true
// +groupName=spillway.dev
package v1alpha1
