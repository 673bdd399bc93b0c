package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// Whatever is wrapped around an error, the log has its cause in words that name no host.
func TestDescribe(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"a name":                  {&net.OpError{Op: "dial", Err: &net.DNSError{Name: "HOST", IsTimeout: true}}, "name resolution failed"},
		"an encoding":             {errEncoding("x"), "its Content-Encoding cannot be decoded"},
		"a damaged body":          {errDamaged{errors.New("HOST")}, "its Content-Encoding cannot be decoded"},
		"a timeout":               {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "connect timeout"},
		"an error of the network": {&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, "transport error"},
		"a reset":                 {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "connection reset"},
		"a cancellation":          {fmt.Errorf("HOST: %w", context.Canceled), "cancelled"},
		"a certificate":           {&tls.CertificateVerificationError{Err: errors.New("HOST")}, "TLS handshake failed"},
		"a certificate's use":     {x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, "TLS handshake failed"},
		"an alert":                {fmt.Errorf("remote error: %w", tls.AlertError(40)), "TLS handshake failed"},
		"anything":                {errors.New("HOST"), "transport error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := describe(tc.err); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
