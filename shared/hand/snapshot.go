package hand

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits of a snapshot: what a message of NATS holds, with room for its headers, and
// what it may come to when it is read.
const (
	maxPacked   = 960 << 10
	maxUnpacked = 64 << 20
)

// Pack encodes a snapshot: a load balancer with many backends says the same of each.
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

// ReadSnapshot reads what Pack has encoded.
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
