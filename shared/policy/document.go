// Package policy keeps the policy in force in the stream, where every function reads it
// before each step, and the sinks beside it. Package policyfile reads both from the
// operator's file.
//
// Without a policy lbremedy observes: it plans and never writes. A policy that
// can't be read stops every write, because nobody knows what it would say; so does one
// with a version or a field that the program does not know.
package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// key is where the policy in force of each cluster lies in the stream's bucket, behind it
// the cluster's ID.
const key = "policy"

// Keys are those that InForce reads.
func Keys(cluster string) []string { return []string{key + "." + cluster} }

// inForce returns what lies under a key of a cluster.
func inForce(ctx context.Context, s *stream.Stream, key, cluster string) ([]byte, error) {
	own := key + "." + cluster
	view, err := s.View(ctx, own)
	if err != nil {
		return nil, err
	}
	e, ok := view[own]
	if !ok {
		return nil, stream.ErrNotFound
	}
	return e.Value, nil
}

// version is that of the document in which the policy in force lies. It grows when what
// a field means changes; a new field alone is told by its name.
const version = 1

// A document is the policy in force, as it lies in the bucket: the fields of the policy, and
// beside them the version. The sections of classes lie there as they are, whether or not this
// program has the class; package remedy knows which there are.
type document struct {
	Version int
	remedy.Policy
}

// MarshalJSON writes the version first.
func (d document) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(d.Policy)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, `{"version":%d,`, d.Version), text[1:]...), nil
}

// UnmarshalJSON reads the version and the policy.
func (d *document) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if text, ok := fields["version"]; ok {
		if err := json.Unmarshal(text, &d.Version); err != nil {
			return err
		}
		delete(fields, "version")
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(rest, &d.Policy)
}

// ErrNewer says that what is in force is of a newer release: it has a version or a field
// that this program does not know, and may forbid what this program would do.
var ErrNewer = errors.New("it is of a newer release than this program, which writes nothing and notifies nobody by it until it is upgraded or the " +
	"policy is put in force by its own release")

// ErrBroken says that what is in force can't be read at all.
var ErrBroken = errors.New("it is broken")

// Unreadable reports whether an error says that what is in force is there and can't be read, by
// this program or by any.
func Unreadable(err error) bool { return errors.Is(err, ErrNewer) || errors.Is(err, ErrBroken) }

// Publish makes the policy the one in force in a cluster.
func Publish(ctx context.Context, s *stream.Stream, cluster string, p remedy.Policy) error {
	data, err := json.Marshal(document{version, p})
	if err != nil {
		return fmt.Errorf("encode the policy: %w", err)
	}
	if err := s.Put(ctx, key+"."+cluster, data); err != nil {
		return fmt.Errorf("publish the policy: %w", err)
	}
	return nil
}

// InForce returns the policy that is in force in a cluster; without one, lbremedy observes. One of a
// newer release is an ErrNewer: who meets it pauses.
func InForce(ctx context.Context, s *stream.Stream, cluster string) (remedy.Policy, error) {
	data, err := inForce(ctx, s, key, cluster)
	if errors.Is(err, stream.ErrNotFound) {
		return remedy.Policy{Mode: remedy.Observe}, nil
	}
	if err == nil {
		var p remedy.Policy
		if p, err = read(data); err == nil {
			return p, nil
		}
	}
	return remedy.Policy{}, fmt.Errorf("read the policy in force: %w", err)
}

// read reads the document of a policy.
func read(data []byte) (remedy.Policy, error) {
	var d document
	if err := open(data, version, &d); err != nil {
		return remedy.Policy{}, err
	}
	return d.Policy, nil
}

// open reads a document of which this version is the newest known here. One that is newer,
// or has a field that is not known, is an ErrNewer.
func open(data []byte, newest int, into any) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return broken(err)
	}
	if head.Version > newest {
		return fmt.Errorf("its version is %d, and %d is the newest known here: %w", head.Version, newest, ErrNewer)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	if _, field, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
		return fmt.Errorf("its field %s is not known: %w", field, ErrNewer)
	}
	return broken(err)
}

// broken says what is wrong with JSON, without the names of Go's types.
func broken(err error) error {
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		what, _, _ := strings.Cut(kind.Value, " ") // "number 5"
		return fmt.Errorf("%w: its field %s is of the kind %s", ErrBroken, kind.Field, what)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}
