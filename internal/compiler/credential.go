package compiler

import (
	"bytes"
	"fmt"
	"net/textproto"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// authorization is the header of scheme Bearer.
const authorization = "Authorization"

// readAuth reads the credential.
func readAuth(b *backendDraft) {
	auth := b.spec.Auth
	if auth == nil {
		return
	}
	header, prefix := readAuthHeader(b, auth)
	secret := b.secret("auth.secretRef", auth.SecretRef.Name)
	if secret == nil {
		return
	}
	raw, ok := secret.Data[auth.SecretRef.Key]
	if !ok {
		b.unresolved(v1alpha1.ReasonKeyNotFound, "auth.secretRef.key",
			fmt.Sprintf("The Secret %q has no key %q; add it.", auth.SecretRef.Name, auth.SecretRef.Key))
		return
	}
	value := string(bytes.TrimRight(raw, "\r\n"))
	if fault := faultInCredential(value); fault != "" {
		b.unresolved(v1alpha1.ReasonInvalidCredential, "auth.secretRef",
			fmt.Sprintf("The value of key %q of the Secret %q %s; store the bare credential.", auth.SecretRef.Key, auth.SecretRef.Name, fault))
		return
	}
	b.out.Credential = &table.Credential{Header: header, Value: prefix + value}
}

// readAuthHeader returns the header that carries the credential and what stands before it there.
func readAuthHeader(b *backendDraft, auth *v1alpha1.BackendAuth) (header, prefix string) {
	choice[v1alpha1.AuthScheme, string](b, "auth.scheme", auth.Scheme, v1alpha1.AuthSchemeBearer, v1alpha1.AuthSchemeHeader)
	if auth.Scheme != v1alpha1.AuthSchemeHeader {
		if auth.Header != "" {
			b.refuse(v1alpha1.ReasonInvalidSpec, "auth.header", "The header is only for scheme Header; Bearer always uses Authorization.")
		}
		return authorization, "Bearer "
	}
	header = textproto.CanonicalMIMEHeaderKey(auth.Header)
	if fault := faultInHeaderName(header); fault != "" {
		b.refuse(v1alpha1.ReasonInvalidSpec, "auth.header", "The header "+fault+".")
	}
	return header, ""
}

func faultInCredential(value string) string {
	switch {
	case strings.TrimSpace(value) == "":
		return "is empty"
	case strings.ContainsFunc(value, isControl):
		return "has control characters, such as a line break or a tab"
	case !utf8.ValidString(value):
		return "is not text in UTF-8"
	}
	return ""
}

// secret returns a Secret of the route's namespace; where there is none it says so and returns nil.
func (b *backendDraft) secret(field, name string) *corev1.Secret {
	secret := b.route.reader.Secrets[types.NamespacedName{Namespace: b.route.verdict.Key.Namespace, Name: name}]
	if secret == nil {
		b.unresolved(v1alpha1.ReasonSecretNotFound, field, b.whyAbsent(KindSecret, name))
	}
	return secret
}

// whyAbsent says why there is no Secret or ConfigMap of that name.
func (b *backendDraft) whyAbsent(kind Kind, name string) string {
	if b.route.reader.Forbidden[Reference{Kind: kind, Namespace: b.route.verdict.Key.Namespace, Name: name}] {
		return fmt.Sprintf("The manager may not read the %s %q; let its ServiceAccount get %ss in this namespace.", kind, name, kind)
	}
	return fmt.Sprintf("The %s %q does not exist in this namespace; create it.", kind, name)
}
