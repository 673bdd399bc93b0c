package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// errBadURL is about a URL that the compiler should not have let through. The URL stays out of it.
var errBadURL = errors.New("the backend's URL cannot be used")

// transportOutcome is how an attempt ended that got no answer.
func transportOutcome(err error) Outcome {
	if errors.Is(err, errForbiddenAddress) {
		return Outcome{Class: Misconfigured, Cause: describe(err)}
	}
	return Outcome{Class: Failed, Transport: true, Cause: describe(err)}
}

// errorTexts are our own words for errors that errors.Is recognises, in the order in which they are looked for.
var errorTexts = [...]struct {
	err  error
	says string
}{
	{errForbiddenAddress, "its address is link-local, loopback or unspecified and not allowed by --allow-cidr"},
	{errAnswerTooLarge, "larger than the limit"},
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.ECONNRESET, "connection reset"},
	{syscall.EPIPE, "connection reset"},
	{io.EOF, "connection closed early"},
	{io.ErrUnexpectedEOF, "connection closed early"},
	{context.Canceled, "cancelled"},
}

// describe says in our own words what went wrong between this proxy and a backend. The errors of net and net/http name
// hosts and addresses, so their text is never used.
func describe(err error) string {
	var dns *net.DNSError
	var encoding errEncoding
	var damaged errDamaged
	switch {
	case errors.As(err, &dns):
		return "name resolution failed"
	case errors.As(err, &encoding), errors.As(err, &damaged):
		return "its Content-Encoding cannot be decoded"
	}
	if text := describeTLS(err); text != "" {
		return text
	}
	for _, w := range errorTexts {
		if errors.Is(err, w.err) {
			return w.says
		}
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return "connect timeout"
	}
	return "transport error"
}

// describeTLS says which part of a TLS handshake failed, and what of a route's tls block it is about; "" where err is of none.
func describeTLS(err error) string {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &authority):
		return "TLS: its certificate is from an authority that is not trusted (tls.caRef)"
	case errors.As(err, &hostname):
		return "TLS: its certificate is for another name (tls.serverName)"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "TLS: its certificate has expired or is not valid yet"
	case errors.As(err, &record):
		return "TLS: it does not speak TLS on this port"
	case errors.As(err, &verify), errors.As(err, &invalid), errors.As(err, &alert):
		return "TLS handshake failed"
	}
	return ""
}
