package table

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

const (
	// Shards is the fixed number of shards. Their names never change, so that roles can name them.
	Shards = 32
	// Schema is the version of the shard format. Additive changes keep it.
	Schema = 1
	// ShardKey is the key in a shard's Secret that holds what Encode returns.
	ShardKey = "table.json.gz"
	// ShardSecretType is the type of those Secrets.
	ShardSecretType = "spillway.dev/table"
	// MaxShardBytes bounds a compressed shard, below the API server's limit of 1 MiB for a Secret.
	MaxShardBytes = 1000 << 10
	// maxDecodedBytes bounds what a shard may inflate to.
	maxDecodedBytes = 64 << 20
)

// ErrSchema is returned for a shard whose schema this binary does not know: keep what you have and report so.
var ErrSchema = errors.New("unknown table schema")

// Revision is the sha256 of a shard's canonical bytes, in hex. The empty revision means "never read".
type Revision string

// Shard is the part of the table that holds the routes whose key falls to it.
type Shard struct {
	Schema int      `json:"schema"`
	Routes []*Route `json:"routes"` // sorted by key

	lines [][]byte // the JSON of each route, once encoded or decoded
}

// ShardOf returns the shard of a route: the first byte of sha256 of its key, modulo Shards.
func ShardOf(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(sum[0]) % Shards
}

// ShardName is the name of the Secret that holds a shard: spillway-table-00 to -31.
func ShardName(index int) string { return fmt.Sprintf("spillway-table-%02d", index) }

// ShardIndex is the inverse of ShardName; ok is false for any other name.
func ShardIndex(name string) (index int, ok bool) {
	for i := range Shards {
		if name == ShardName(i) {
			return i, true
		}
	}
	return 0, false
}

// Split distributes the routes of a table over its shards, each sorted by key.
func (t *Table) Split() [Shards]Shard {
	var shards [Shards]Shard
	for i := range shards {
		shards[i] = Shard{Schema: Schema, Routes: []*Route{}}
	}
	for _, r := range t.Routes() {
		i := ShardOf(r.Key())
		shards[i].Routes = append(shards[i].Routes, r)
	}
	return shards
}

// compressors are gzip.Writers: each allocates most of a megabyte.
var compressors = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // many shards per minute; a third larger. The level is valid.
	return zw
}}

// Encode returns the gzip'd canonical JSON of a shard and the revision of those canonical bytes. Equal shards give equal
// bytes. Routes that are also, by pointer, in another shard that was encoded or decoded are not encoded again; known may be nil.
func (s *Shard) Encode(known *Shard) ([]byte, Revision, error) {
	if err := s.encodeLines(known); err != nil {
		return nil, "", fmt.Errorf("encode table shard: %w", err)
	}
	canonical := s.canonical()
	var out bytes.Buffer
	zw := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zw)
	zw.Reset(&out)
	if _, err := zw.Write(canonical); err != nil {
		return nil, "", fmt.Errorf("compress table shard: %w", err)
	}
	if err := zw.Close(); err != nil {
		return nil, "", fmt.Errorf("compress table shard: %w", err)
	}
	return out.Bytes(), revisionOf(canonical), nil
}

// Decode reads what Encode wrote. It returns ErrSchema for a version that this binary does not know. A route that reads the same
// in a shard that was encoded or decoded is the same value in both; known may be nil.
func Decode(data []byte, known *Shard) (*Shard, Revision, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, "", fmt.Errorf("decompress table shard: %w", err)
	}
	canonical, err := io.ReadAll(io.LimitReader(zr, maxDecodedBytes+1))
	if err != nil {
		return nil, "", fmt.Errorf("decompress table shard: %w", err)
	}
	if len(canonical) > maxDecodedBytes {
		return nil, "", fmt.Errorf("table shard is larger than %d bytes", maxDecodedBytes)
	}
	s := decodeLines(canonical, known)
	if s == nil {
		if s, err = decodeWhole(canonical); err != nil {
			return nil, "", err
		}
	}
	return s, revisionOf(canonical), nil
}

// decodeWhole reads any JSON of a shard.
func decodeWhole(canonical []byte) (*Shard, error) {
	// The version is read first: a later schema need not decode as this one.
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(canonical, &version); err != nil {
		return nil, fmt.Errorf("decode table shard: %w", redactJSON(err))
	}
	if version.Schema != Schema {
		return nil, fmt.Errorf("%w %d: this binary reads %d", ErrSchema, version.Schema, Schema)
	}
	s := &Shard{}
	if err := json.Unmarshal(canonical, s); err != nil {
		return nil, fmt.Errorf("decode table shard: %w", redactJSON(err))
	}
	if slices.Contains(s.Routes, nil) {
		return nil, errors.New("decode table shard: a route is null")
	}
	return s, nil
}

func revisionOf(canonical []byte) Revision {
	sum := sha256.Sum256(canonical)
	return Revision(hex.EncodeToString(sum[:]))
}

// redactJSON keeps a decoder's error from quoting the shard's content, which holds credentials.
func redactJSON(err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		return fmt.Errorf("field %q does not take a JSON %s", mismatch.Field, kind)
	}
	return errors.New("not valid JSON")
}
