// Package control holds the documents that limit what engines write: control.<cluster> with the cluster's pause, breakers and
// policy, budget.<cluster> with the places in its budgets, and claim.<resource> with the places of a resource. They are JSON
// values in the bucket, changed by compare-and-set. All times that decide are those of the NATS server. A document that can't
// be read permits nothing: all is paused, and every breaker is open.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// ErrUnreadable says that a document is none of this program's.
var ErrUnreadable = errors.New("the document can't be read")

// A Doc is what people and the engine itself permit in one cluster, and the policy in force. That of all clusters has a pause alone.
type Doc struct {
	V        int                 `json:"v"`
	Cluster  string              `json:"cluster,omitempty"` // empty: all clusters
	Pause    *Pause              `json:"pause,omitempty"`
	Breakers map[string]*Breaker `json:"breakers,omitempty"` // open ones, by class
	Failed   map[string][]Failed `json:"failed,omitempty"`   // fixes that did not work lately, by class
	Policy   *Policy             `json:"policy,omitempty"`

	broken error // why the document can't be read
}

// A Failed is a fix that did not work.
type Failed struct {
	Attempt string    `json:"attempt"` // its case and number
	At      time.Time `json:"at"`
}

// A Policy is the one in force.
type Policy struct {
	Version string    `json:"version"`
	Text    string    `json:"text"` // of the file
	Since   time.Time `json:"since"`
}

// version is that of the documents' form.
const version = 1

// mostText bounds each text of a person, and mostClasses the classes that a document names.
const (
	mostText    = 4 << 10
	mostClasses = 1000
)

// all is the key of the document of all clusters. Those of clusters have two parts.
const all = "control"

// Key returns the key of the document of a cluster, or that of all ("").
func Key(cluster string) string {
	if cluster == "" {
		return all
	}
	return all + "." + cluster
}

// Update changes the document of a cluster, or that of all (""). change may be called again, and is the only one that changes
// the document then; now is the server's time. An error of it is returned, and leaves the document as it was.
// ErrUnreadable: the document can't be read and stays as it is; Resume makes a new one.
func Update(ctx context.Context, s *stream.Stream, cluster string, change func(d *Doc, now time.Time) error) error {
	return update(ctx, s, cluster, func(d *Doc, now time.Time) error {
		if d.broken != nil {
			return d.broken
		}
		return change(d, now)
	})
}

// update is Update that also gives change a document that can't be read.
func update(ctx context.Context, s *stream.Stream, cluster string, change func(d *Doc, now time.Time) error) error {
	if cluster != "" {
		if err := event.ValidCluster(cluster); err != nil {
			return err
		}
	}
	return stream.ChangeDocument(ctx, s, Key(cluster), 0, func(value []byte) *Doc { return read(value, cluster) },
		func(d *Doc, now time.Time) (bool, error) {
			if err := change(d, now); err != nil || d.broken != nil {
				return false, err
			}
			return true, d.check(cluster)
		})
}

// Read returns the document of a cluster, or that of all (""). One that can't be read is an ErrUnreadable.
func Read(ctx context.Context, s *stream.Stream, cluster string) (*Doc, error) {
	view, err := s.View(ctx, Key(cluster))
	if err != nil {
		return nil, fmt.Errorf("read what is permitted: %w", err)
	}
	d := in(view, cluster)
	return d, d.broken
}

// in returns the document of a cluster that a view holds, or an empty one.
func in(view stream.View, cluster string) *Doc {
	e, ok := view[Key(cluster)]
	if !ok {
		return empty(cluster)
	}
	return read(append([]byte{}, e.Value...), cluster) // without a value it is one that nobody can read
}

func empty(cluster string) *Doc { return &Doc{V: version, Cluster: cluster} }

// read makes a document of a value, or an empty one of nil.
func read(value []byte, cluster string) *Doc {
	if value == nil {
		return empty(cluster)
	}
	d := new(Doc)
	err := strict(value, d)
	if err == nil {
		err = d.check(cluster)
	}
	if err != nil {
		return &Doc{Cluster: cluster, broken: fmt.Errorf("%w: key %s: %w; lbremedy resume starts a new one", ErrUnreadable, Key(cluster), err)}
	}
	return d
}

// check returns what is wrong with a document.
func (d *Doc) check(cluster string) error {
	if d.V != version || d.Cluster != cluster {
		return fmt.Errorf("it has version %d and is of cluster %q", d.V, d.Cluster)
	}
	if p := d.Pause; p != nil {
		if p.By == "" || p.Cluster != cluster {
			return errors.New("its pause has no person, or is of another cluster")
		}
		for _, text := range []string{p.By, p.Why, p.Identity, p.Host} {
			if len(text) > mostText {
				return fmt.Errorf("its pause has a text of %d bytes, at most %d are allowed", len(text), mostText)
			}
		}
	}
	if cluster == "" && (d.Breakers != nil || d.Failed != nil || d.Policy != nil) {
		return errors.New("that of all clusters has more than a pause")
	}
	if max(len(d.Breakers), len(d.Failed)) > mostClasses {
		return fmt.Errorf("it has more than %d classes", mostClasses)
	}
	for class, b := range d.Breakers {
		if b == nil || b.Class != class || b.Cluster != cluster || event.ValidClass(class) != nil || len(b.Why) > mostText {
			return fmt.Errorf("the breaker of class %.80q is none", class)
		}
	}
	for class, failed := range d.Failed {
		if event.ValidClass(class) != nil || len(failed) > bears {
			return fmt.Errorf("the failed fixes of class %.80q are none", class)
		}
		for _, f := range failed {
			if len(f.Attempt) > mostText {
				return fmt.Errorf("a failed fix of class %s has a name of %d bytes", class, len(f.Attempt))
			}
		}
	}
	return nil
}

// unreadable says that the places under a key can't be read, and what helps.
func unreadable(key string, err error) error {
	return fmt.Errorf("%w: key %s: %w; if the key is deleted, all its places are free", ErrUnreadable, key, err)
}

// strict decodes JSON that has these fields and no others.
func strict(data []byte, into any) error {
	if len(data) > stream.MostDocument {
		return fmt.Errorf("it has %d bytes, and at most %d are read", len(data), stream.MostDocument)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}
