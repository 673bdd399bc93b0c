package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// Each way in which a handshake fails has a cure of its own, so the log tells which it was, and no host.
func TestTheLogTellsWhatOfAHandshakeFailed(t *testing.T) {
	cases := map[string]struct {
		plain      bool   // the backend speaks no TLS
		validUntil int    // days from now
		trust      bool   // the backend's authority
		serverName string // in place of the URL's host
		want       string
	}{
		"the authority is not known":             {validUntil: 1, want: "an authority that is not trusted (tls.caRef)"},
		"the certificate is for another":         {validUntil: 1, trust: true, serverName: "elsewhere.example", want: "for another name (tls.serverName)"},
		"the certificate has expired":            {validUntil: -1, trust: true, want: "has expired"},
		"the URL says https, and http is spoken": {plain: true, want: "does not speak TLS"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			backend := httptest.NewUnstartedServer(http.NotFoundHandler())
			backend.Config.ErrorLog = log.New(io.Discard, "", 0) // it is refused on purpose
			defer backend.Close()
			route := newRoute(says(t))
			route.Chain[0].TLS = &table.TLS{ServerName: tc.serverName}
			if tc.plain {
				backend.Start()
			} else {
				pair := certificateUntil(t, tc.validUntil)
				backend.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} //nolint:gosec // of a test
				backend.StartTLS()
				if tc.trust {
					route.Chain[0].TLS.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
				}
			}
			_, address, _ := strings.Cut(backend.URL, "://")
			route.Chain[0].BaseURL = "https://" + address
			r := newRig(t, route)
			got := toldBy(t, r.post(streamed))
			if logged := r.log.String(); got.Code != "upstream_error" || !strings.Contains(logged, tc.want) || strings.Contains(logged, address) {
				t.Errorf("the caller gets %+v, the log says %s; want %q in it", got, logged, tc.want)
			}
		})
	}
}

// certificateUntil is one for loopback that is its own authority.
func certificateUntil(t *testing.T, days int) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().AddDate(0, 0, -2), NotAfter: time.Now().AddDate(0, 0, days),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
