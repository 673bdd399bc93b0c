package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// keyPairCheck is how often a handshake looks whether the files have changed.
const keyPairCheck = time.Second

// keyPair serves a certificate from two files and reads them again when they change. It looks during handshakes, so it
// needs no goroutine and no watch, and follows the symlink swaps of mounted Secrets.
type keyPair struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	seen    [2]os.FileInfo
	checked time.Time
}

// newKeyPair reads the pair once; a pair that cannot be read at start is an error.
func newKeyPair(certFile, keyFile string, log *slog.Logger) (*keyPair, error) {
	k := &keyPair{certFile: certFile, keyFile: keyFile, now: time.Now, log: log}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, nil
}

// config is a server's TLS configuration for HTTP/1.1 and HTTP/2.
func (k *keyPair) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current(), nil },
	}
}

// current returns the newest readable pair. One that cannot be read (half rotated, damaged) leaves the old in place.
func (k *keyPair) current() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); now.Sub(k.checked) >= keyPairCheck {
		k.checked = now
		if err := k.load(); err != nil {
			k.log.Error("TLS pair cannot be read again; the old one is served on", "error", err.Error())
		}
	}
	return k.pair
}

// load reads the pair where a file is another than the one last read.
func (k *keyPair) load() error {
	var found [2]os.FileInfo
	for i, name := range []string{k.certFile, k.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("read the TLS pair: %w", err)
		}
		found[i] = info
	}
	if k.pair != nil && sameFile(found[0], k.seen[0]) && sameFile(found[1], k.seen[1]) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		var notFound *os.PathError
		if errors.As(err, &notFound) {
			return fmt.Errorf("read the TLS pair: %w", err)
		}
		return fmt.Errorf("the TLS pair %s and %s does not fit together: %w", k.certFile, k.keyFile, err)
	}
	k.pair, k.seen = &pair, found
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
