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
	case isTLS(err):
		return "TLS handshake failed"
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

func isTLS(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &authority) || errors.As(err, &hostname)
}
