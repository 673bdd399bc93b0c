package compiler

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Bounds of the schema.
const (
	maxHeaders     = 16
	maxHeaderName  = 128
	maxHeaderValue = 4096
	maxServerName  = 253
)

// authorization is the header of scheme Bearer.
const authorization = "Authorization"

// refusedHeaders may not be set by a route: they belong to one connection, or frame the request.
var refusedHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
	"Accept-Encoding", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
}

// pemVerdict is what is wrong with a CA bundle or a client pair; the zero value is a good one.
type pemVerdict struct{ fault string }

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
		b.unresolved(v1alpha1.ReasonSecretNotFound, field,
			fmt.Sprintf("The Secret %q does not exist in this namespace; create it.", name))
	}
	return secret
}

// readTLS reads how the backend is verified and what the proxy shows of its own.
func readTLS(b *backendDraft) {
	spec := b.spec.TLS
	if spec == nil {
		return
	}
	choice[v1alpha1.TLSVerify, string](b, "tls.verify", spec.Verify, v1alpha1.TLSVerifyFull, v1alpha1.TLSVerifyNone)
	if len(spec.ServerName) > maxServerName || strings.ContainsFunc(spec.ServerName, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		b.refuse(v1alpha1.ReasonInvalidSpec, "tls.serverName",
			fmt.Sprintf("The server name must have at most %d characters and no spaces.", maxServerName))
	}
	b.out.TLS = &table.TLS{ServerName: spec.ServerName, SkipVerify: spec.Verify == v1alpha1.TLSVerifyNone}
	if spec.CARef != nil {
		b.out.TLS.CA = readCA(b, spec.CARef)
	}
	if spec.ClientCertRef != nil {
		b.out.TLS.ClientCert, b.out.TLS.ClientKey = readClientPair(b, spec.ClientCertRef.Name)
	}
}

func readCA(b *backendDraft, ref *v1alpha1.CARef) string {
	choice[v1alpha1.CARefKind, string](b, "tls.caRef.kind", ref.Kind, v1alpha1.CARefConfigMap, v1alpha1.CARefSecret)
	data, found := b.caData(ref)
	if !found {
		return ""
	}
	bundle := Reference{kindOfCA(ref), b.route.verdict.Key.Namespace, ref.Name + "/" + ref.Key}
	verdict := b.route.reader.verdictOn(bundle, func() string {
		if !utf8.Valid(data) || !x509.NewCertPool().AppendCertsFromPEM(data) {
			return "holds no certificate in PEM"
		}
		return ""
	})
	if verdict.fault != "" {
		b.unresolved(v1alpha1.ReasonInvalidCertificate, "tls.caRef",
			fmt.Sprintf("The key %q of the %s %q %s; store the CA's certificates there.", ref.Key, kindOfCA(ref), ref.Name, verdict.fault))
		return ""
	}
	return string(data)
}

// caData returns the bytes of a CA bundle; where there are none it says so.
func (b *backendDraft) caData(ref *v1alpha1.CARef) (data []byte, found bool) {
	kind := kindOfCA(ref)
	if kind == KindSecret {
		secret := b.secret("tls.caRef", ref.Name)
		if secret == nil {
			return nil, false
		}
		data, found = secret.Data[ref.Key]
	} else {
		config := b.route.reader.ConfigMaps[types.NamespacedName{Namespace: b.route.verdict.Key.Namespace, Name: ref.Name}]
		if config == nil {
			b.unresolved(v1alpha1.ReasonConfigMapNotFound, "tls.caRef",
				fmt.Sprintf("The ConfigMap %q does not exist in this namespace; create it.", ref.Name))
			return nil, false
		}
		if data, found = config.BinaryData[ref.Key]; !found {
			var text string
			text, found = config.Data[ref.Key]
			data = []byte(text)
		}
	}
	if !found {
		b.unresolved(v1alpha1.ReasonKeyNotFound, "tls.caRef.key", fmt.Sprintf("The %s %q has no key %q; add it.", kind, ref.Name, ref.Key))
	}
	return data, found
}

func readClientPair(b *backendDraft, name string) (cert, key string) {
	secret := b.secret("tls.clientCertRef", name)
	if secret == nil {
		return "", ""
	}
	for _, part := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if _, ok := secret.Data[part]; !ok {
			b.unresolved(v1alpha1.ReasonKeyNotFound, "tls.clientCertRef", fmt.Sprintf("The Secret %q has no key %q; add it.", name, part))
			return "", ""
		}
	}
	pair := [2][]byte{secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]}
	verdict := b.route.reader.verdictOn(Reference{KindSecret, secret.Namespace, name}, func() string {
		// The error is not shown: it could quote what the Secret holds.
		if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil || !utf8.Valid(pair[0]) || !utf8.Valid(pair[1]) {
			return "does not hold a certificate and its private key in PEM"
		}
		return ""
	})
	if verdict.fault != "" {
		b.unresolved(v1alpha1.ReasonInvalidCertificate, "tls.clientCertRef",
			fmt.Sprintf("The Secret %q %s; store the pair as a Secret of type kubernetes.io/tls.", name, verdict.fault))
		return "", ""
	}
	return string(pair[0]), string(pair[1])
}

// verdictOn judges PEM data once, however many backends name it.
func (r *reader) verdictOn(data Reference, judge func() string) pemVerdict {
	verdict, known := r.bundles[data]
	if !known {
		verdict = pemVerdict{judge()}
		r.bundles[data] = verdict
	}
	return verdict
}

// readHeaders reads the headers that are added to each request.
func readHeaders(b *backendDraft) {
	if len(b.spec.Headers) > maxHeaders {
		b.refuse(v1alpha1.ReasonInvalidSpec, "headers", fmt.Sprintf("The list of headers has more than %d entries.", maxHeaders))
		return
	}
	for i, h := range b.spec.Headers {
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		if fault := faultInAddedHeader(b, name, h.Value); fault != "" {
			b.refuse(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("headers[%d]", i), "The header "+fault+".")
			continue
		}
		b.out.Headers = append(b.out.Headers, table.Header{Name: name, Value: h.Value})
	}
}

func faultInAddedHeader(b *backendDraft, name, value string) string {
	sameName := func(h table.Header) bool { return h.Name == name }
	switch fault := faultInHeaderName(name); {
	case fault != "":
		return fault
	case name == authorization:
		return "must not be Authorization; use auth"
	case b.spec.Auth != nil && textproto.CanonicalMIMEHeaderKey(b.spec.Auth.Header) == name:
		return "is the one that auth sends; name it once"
	case slices.ContainsFunc(b.out.Headers, sameName):
		return "is named twice; upper and lower case are the same"
	case len(value) > maxHeaderValue:
		return fmt.Sprintf("has a value longer than %d bytes", maxHeaderValue)
	case strings.ContainsFunc(value, func(r rune) bool { return isControl(r) && r != '\t' }) || !utf8.ValidString(value):
		return "has a value with control characters"
	}
	return ""
}

// faultInHeaderName takes a canonical name.
func faultInHeaderName(name string) string {
	switch {
	case name == "":
		return "has no name"
	case len(name) > maxHeaderName || !isToken(name):
		return "must have a name of letters, digits and -_.!#$%&'*+^`|~"
	case slices.Contains(refusedHeaders, name):
		return "must not be one that belongs to the connection or frames the request"
	}
	return ""
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := rune(s[i]); !isAlphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c) {
			return false
		}
	}
	return true
}
