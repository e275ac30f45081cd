package hand

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits in bytes: of a NATS message, less room for its headers, and of the JSON in it.
const (
	maxPacked   = 960 << 10
	maxUnpacked = 64 << 20
)

// Pack encodes a snapshot as compressed JSON: the entries of many backends are nearly equal. It fails if that is too large.
func (s *Snapshot) Pack() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(s), z.Close()); err != nil {
		return nil, err
	}
	if b.Len() > maxPacked {
		return nil, fmt.Errorf("it has %d bytes, and the journal takes %d", b.Len(), maxPacked)
	}
	return b.Bytes(), nil
}

// ReadSnapshot decodes a snapshot that Pack encoded.
func ReadSnapshot(packed []byte) (Snapshot, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, maxUnpacked))
	if err != nil {
		return Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	return s, nil
}
