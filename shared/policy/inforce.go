// Package policy holds the parts of a policy file beside what may be written, compares policies, and stores the policy in use for
// commands. Package policyfile reads the file, or its ConfigMap. Begin with [Version], [InForce] and [Sink].
package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Version is a policy with its text.
type Version struct {
	Digest string // short digest of Text
	Text   string
	Policy remedy.Policy
	Sinks  []Sink
	People []Person
}

// An InForce is what the engine publishes of its policy for commands, which can't read it. The engine itself reads the policy at its
// source before each order.
type InForce struct {
	Version string    `json:"version,omitempty"` // digest of the text; empty: the policy is unusable
	Text    string    `json:"text,omitempty"`
	Wrong   string    `json:"wrong,omitempty"` // why the policy is unusable: nothing is written then
	Source  string    `json:"source"`          // its place: a file or a ConfigMap
	Since   time.Time `json:"since"`           // by the clock of the engine

	Declared []string `json:"declared,omitempty"` // IDs of the classes that it knows from declarations, which the text may name
}

const key = "policy."

// Put stores it in the bucket.
func (f InForce) Put(ctx context.Context, s *stream.Stream, cluster string) error {
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // otherwise a text could take six times its length
	err := e.Encode(f)
	if err == nil {
		err = s.Put(ctx, key+cluster, data.Bytes())
	}
	if err != nil {
		return fmt.Errorf("publish the policy in force: %w", err)
	}
	return nil
}

// Get returns what a cluster's engine has published last, or the zero value.
func Get(ctx context.Context, s *stream.Stream, cluster string) (InForce, error) {
	var f InForce
	data, err := s.Get(ctx, key+cluster)
	if errors.Is(err, stream.ErrNotFound) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return InForce{}, fmt.Errorf("read the policy in force: %w", err)
	}
	return f, nil
}
