package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// preserve keeps a snapshot in CASES before steps of medium or high risk are
// applied, as they were declared. An error means that they must not be.
func (x *run) preserve(ctx context.Context, risk remedy.Risk, steps []remedy.Step, undo bool) error {
	s, err := x.standing(ctx, risk, steps, undo)
	if err != nil || s == nil {
		return err
	}
	s.At = x.env.now()
	data, err := pack(s)
	if err != nil {
		return fmt.Errorf("take a snapshot before the write: %w", err)
	}
	header := map[string][]string{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	if err := x.env.Stream.Snapshot(ctx, s.Cluster, s.Service.UID, s.Class, header, data); err != nil {
		return fmt.Errorf("keep the snapshot before the write: %w", err)
	}
	return nil
}

// standing returns the snapshot that preserve would keep; nil for none.
func (x *run) standing(ctx context.Context, risk remedy.Risk, steps []remedy.Step, undo bool) (*hand.Snapshot, error) {
	if risk == remedy.Low || x.c.Event.Service.Kind != "" {
		return nil, nil // of a cluster there is no load balancer to write to
	}
	a, err := x.ask(ctx, hand.Backup, undo, steps...)
	if err == nil && a.Backup == nil {
		err = errors.New("the hand sent none")
	}
	if err != nil {
		return nil, fmt.Errorf("take a snapshot before the write: %w", err)
	}
	return a.Backup, nil
}

// Limits of a snapshot: what a message of NATS holds, with room for its headers, and
// what it may come to when it is read.
const (
	maxPacked   = 960 << 10
	maxUnpacked = 64 << 20
)

// pack encodes a snapshot: a load balancer with many backends says the same of each.
func pack(s *hand.Snapshot) ([]byte, error) {
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

// ReadSnapshot reads a snapshot from a message of CASES.
func ReadSnapshot(m stream.Message) (hand.Snapshot, error) {
	z, err := gzip.NewReader(bytes.NewReader(m.Data))
	if err != nil {
		return hand.Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, maxUnpacked))
	if err != nil {
		return hand.Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	var s hand.Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return hand.Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	return s, nil
}
