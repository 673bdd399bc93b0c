package compiler

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/spillway-dev/spillway/internal/table"
)

// idBytes is the part of the hash that makes an id: 128 bits, 32 hex digits.
const idBytes = 16

// identifier computes backend ids. One is made per compile, so that the keyed hash is set up once.
type identifier struct {
	mac hash.Hash
	buf []byte
}

func newIdentifier(salt []byte) *identifier {
	return &identifier{mac: hmac.New(sha256.New, salt)}
}

// id returns the identity of a backend: a keyed hash over its namespace, URL, physical model and credential, a client
// certificate included. Each part is preceded by its length, so that no two lists of parts read the same.
func (i *identifier) id(namespace string, b *table.Backend) table.BackendID {
	parts := [...]string{namespace, b.BaseURL, b.Query, b.Model, "", "", "", ""}
	if b.Credential != nil {
		parts[4], parts[5] = b.Credential.Header, b.Credential.Value
	}
	if b.TLS != nil {
		parts[6], parts[7] = b.TLS.ClientCert, b.TLS.ClientKey
	}
	i.buf = i.buf[:0]
	for _, p := range parts {
		i.buf = binary.AppendUvarint(i.buf, uint64(len(p)))
		i.buf = append(i.buf, p...)
	}
	i.mac.Reset()
	i.mac.Write(i.buf)
	i.buf = i.mac.Sum(i.buf[:0])
	i.buf = hex.AppendEncode(i.buf, i.buf[:idBytes])
	return table.BackendID(i.buf[sha256.Size:])
}
