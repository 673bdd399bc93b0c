package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writePair writes a self-signed pair whose subject is name.
func writePair(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", cert)
	writePEM(t, keyFile, "PRIVATE KEY", der)
}

// writePEM replaces the file as a whole, as a mounted Secret is replaced.
func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	temporary := file + ".new"
	if err := os.WriteFile(temporary, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, file); err != nil {
		t.Fatal(err)
	}
}

func TestTLSServesHTTP2(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	writePair(t, cert, key, "first")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }, func(c *Config) {
		c.TLSCert, c.TLSKey = cert, key
	})
	for want, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
		if _, got := get(t, &http.Client{Transport: transport}, "https://"+s.Addr()); got != want {
			t.Errorf("protocol = %q, want %q", got, want)
		}
		transport.CloseIdleConnections()
	}
}

func TestKeyPairIsReadAgainWhenItChanges(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	writePair(t, cert, key, "first")
	now := time.Unix(0, 0)
	pair, err := newKeyPair(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pair.now = func() time.Time { return now }
	pair.checked = now

	serves := func(step, want string) {
		t.Helper()
		if got := subject(t, pair.current()); got != want {
			t.Errorf("%s: certificate of %q, want %q", step, got, want)
		}
	}
	serves("at start", "first")
	writePair(t, cert, key, "second")
	serves("before the next check", "first")
	now = now.Add(keyPairCheck)
	serves("after it", "second")

	writePair(t, cert, filepath.Join(t.TempDir(), "other.key"), "third") // the key has not come yet
	now = now.Add(keyPairCheck)
	serves("while only half is rotated", "second")
	writePair(t, cert, key, "fourth")
	now = now.Add(keyPairCheck)
	serves("when the pair fits again", "fourth")
}

func subject(t *testing.T, pair *tls.Certificate) string {
	t.Helper()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.Subject.CommonName
}
