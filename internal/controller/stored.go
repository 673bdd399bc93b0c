package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// The kinds of the API as they come from the API server. An object that was stored before its schema changed may not fit
// its Go type; decoded plainly it would fail the whole list, for every reader. These types decode what they can and keep
// the fault, so that it becomes a verdict on the one object.
type (
	storedRoute struct {
		v1alpha1.LLMRoute `json:",inline"`
		// fault says what does not fit, as a clause without values; empty for a whole object.
		fault string
		// unknown are the fields of the spec that this release does not know, sorted: the CRD is newer.
		unknown []string
	}
	storedPin struct {
		v1alpha1.BackendPin `json:",inline"`
		fault               string
		unknown             []string
	}
	storedReport struct {
		v1alpha1.ProxyReport `json:",inline"`
		fault                string
	}
)

// Lists of the above, as informers read them.
type (
	storedRouteList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []storedRoute `json:"items"`
	}
	storedPinList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []storedPin `json:"items"`
	}
	storedReportList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []storedReport `json:"items"`
	}
)

// newScheme returns the scheme of the manager: the kinds of Spillway in their stored form, and those of core/v1.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("register core/v1: %w", err)
	}
	for kind, objects := range map[string][2]runtime.Object{
		"LLMRoute":    {&storedRoute{}, &storedRouteList{}},
		"BackendPin":  {&storedPin{}, &storedPinList{}},
		"ProxyReport": {&storedReport{}, &storedReportList{}},
	} {
		s.AddKnownTypeWithName(gvk(kind), objects[0])
		s.AddKnownTypeWithName(gvk(kind+"List"), objects[1])
	}
	metav1.AddToGroupVersion(s, v1alpha1.GroupVersion)
	return s, nil
}

func gvk(kind string) schema.GroupVersionKind { return v1alpha1.GroupVersion.WithKind(kind) }

// UnmarshalJSON implements json.Unmarshaler. It fails only for what is no object at all.
func (r *storedRoute) UnmarshalJSON(data []byte) error {
	var whole v1alpha1.LLMRoute
	fault, unknown, err := decodeLeniently(data, &whole, &r.LLMRoute, &r.LLMRoute.Status)
	if err == nil && fault == "" {
		r.LLMRoute = whole
	}
	r.fault, r.unknown = fault, unknown
	return err
}

// UnmarshalJSON implements json.Unmarshaler. It fails only for what is no object at all.
func (p *storedPin) UnmarshalJSON(data []byte) error {
	var whole v1alpha1.BackendPin
	fault, unknown, err := decodeLeniently(data, &whole, &p.BackendPin, &p.BackendPin.Status)
	if err == nil && fault == "" {
		p.BackendPin = whole
	}
	p.fault, p.unknown = fault, unknown
	return err
}

// UnmarshalJSON implements json.Unmarshaler. It fails only for what is no object at all.
func (r *storedReport) UnmarshalJSON(data []byte) error {
	var whole v1alpha1.ProxyReport
	fault, _, err := decodeLeniently(data, &whole, &r.ProxyReport, nil)
	if err == nil && fault == "" {
		r.ProxyReport = whole
	}
	r.fault = fault
	return err
}

// envelope is an object of which only the head is read.
type envelope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            json.RawMessage `json:"status"`
}

// head is what decodeLeniently fills in where the whole does not decode.
type head interface {
	metav1.Object
	runtime.Object
}

// decodeLeniently decodes data into whole and returns the fields of the spec that it has no place for. Where that fails it
// fills in the metadata of part, and its status where that decodes alone, and returns what is wrong.
func decodeLeniently(data []byte, whole any, part head, status any) (fault string, unknown []string, err error) {
	strict, fits := kjson.UnmarshalStrict(data, whole, kjson.DisallowUnknownFields)
	if fits == nil {
		return "", specFields(strict), nil
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return "", nil, err
	}
	part.GetObjectKind().SetGroupVersionKind(e.GroupVersionKind())
	copyMeta(part, &e.ObjectMeta)
	if status != nil && len(e.Status) > 0 {
		_ = json.Unmarshal(e.Status, status) // what is left of it is ours to write anew
	}
	return faultOf(fits), nil, nil
}

// specFields are the paths below spec that strict decoding complains of, sorted.
func specFields(strict []error) (fields []string) {
	for _, err := range strict {
		var field kjson.FieldError
		if errors.As(err, &field) && strings.HasPrefix(field.FieldPath(), "spec.") {
			fields = append(fields, field.FieldPath())
		}
	}
	slices.Sort(fields)
	return fields
}

func copyMeta(to metav1.Object, from *metav1.ObjectMeta) {
	to.SetName(from.Name)
	to.SetNamespace(from.Namespace)
	to.SetUID(from.UID)
	to.SetResourceVersion(from.ResourceVersion)
	to.SetGeneration(from.Generation)
	to.SetCreationTimestamp(from.CreationTimestamp)
	to.SetDeletionTimestamp(from.DeletionTimestamp)
	to.SetLabels(from.Labels)
	to.SetAnnotations(from.Annotations)
}

// faultOf says what does not fit without quoting it.
func faultOf(err error) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return fmt.Sprintf("%s is not of the type that its field has", mismatch.Field)
	}
	return "a value does not fit the type of its field"
}

// DeepCopyObject implements runtime.Object.
func (r *storedRoute) DeepCopyObject() runtime.Object {
	return &storedRoute{LLMRoute: *r.LLMRoute.DeepCopy(), fault: r.fault, unknown: slices.Clone(r.unknown)}
}

// DeepCopyObject implements runtime.Object.
func (p *storedPin) DeepCopyObject() runtime.Object {
	return &storedPin{BackendPin: *p.BackendPin.DeepCopy(), fault: p.fault, unknown: slices.Clone(p.unknown)}
}

// DeepCopyObject implements runtime.Object.
func (r *storedReport) DeepCopyObject() runtime.Object {
	return &storedReport{ProxyReport: *r.ProxyReport.DeepCopy(), fault: r.fault}
}

// DeepCopyObject implements runtime.Object.
func (l *storedRouteList) DeepCopyObject() runtime.Object {
	return &storedRouteList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: copyItems(l.Items)}
}

// DeepCopyObject implements runtime.Object.
func (l *storedPinList) DeepCopyObject() runtime.Object {
	return &storedPinList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: copyItems(l.Items)}
}

// DeepCopyObject implements runtime.Object.
func (l *storedReportList) DeepCopyObject() runtime.Object {
	return &storedReportList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: copyItems(l.Items)}
}

func copyItems[T any, P interface {
	*T
	runtime.Object
}](items []T) []T {
	copies := make([]T, len(items))
	for i := range items {
		copies[i] = *(P(&items[i]).DeepCopyObject().(P))
	}
	return copies
}
