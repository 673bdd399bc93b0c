package compiler

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// maxServerName is the schema's bound.
const maxServerName = 253

// pemKey names PEM data: one key of an object, or the pair of a Secret where key is empty.
type pemKey struct {
	kind                 Kind
	namespace, name, key string
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
	bundle := pemKey{kindOfCA(ref), b.route.verdict.Key.Namespace, ref.Name, ref.Key}
	fault := b.route.reader.faultInPEM(bundle, func() string {
		if !utf8.Valid(data) || !x509.NewCertPool().AppendCertsFromPEM(data) {
			return "holds no certificate in PEM"
		}
		return ""
	})
	if fault != "" {
		b.unresolved(v1alpha1.ReasonInvalidCertificate, "tls.caRef",
			fmt.Sprintf("The key %q of the %s %q %s; store the CA's certificates there.", ref.Key, kindOfCA(ref), ref.Name, fault))
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
			b.unresolved(v1alpha1.ReasonConfigMapNotFound, "tls.caRef", b.whyAbsent(KindConfigMap, ref.Name))
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
	fault := b.route.reader.faultInPEM(pemKey{KindSecret, b.route.verdict.Key.Namespace, name, ""}, func() string {
		// The error is not shown: it could quote what the Secret holds.
		if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil || !utf8.Valid(pair[0]) || !utf8.Valid(pair[1]) {
			return "does not hold a certificate and its private key in PEM"
		}
		return ""
	})
	if fault != "" {
		b.unresolved(v1alpha1.ReasonInvalidCertificate, "tls.clientCertRef",
			fmt.Sprintf("The Secret %q %s; store the pair as a Secret of type kubernetes.io/tls.", name, fault))
		return "", ""
	}
	return string(pair[0]), string(pair[1])
}

// faultInPEM judges PEM data once, however many backends name it. A fault is a clause; good data has none.
func (r *reader) faultInPEM(data pemKey, judge func() string) string {
	fault, known := r.faults[data]
	if !known {
		fault = judge()
		r.faults[data] = fault
	}
	return fault
}
