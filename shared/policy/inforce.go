// Package policy is what a policy file says beside what may be written, how two of them differ, and what the engine tells
// commands of the one that it uses. Package policyfile reads the file, or the ConfigMap that holds it.
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

// A Version is what the text of a policy says.
type Version struct {
	Digest string // of Text, short
	Text   string
	Policy remedy.Policy
	Sinks  []Sink
	People []Person
}

// An InForce is what the engine tells of the policy that it uses in a cluster. It is for commands, which have no way to
// the policy itself. The engine decides nothing by it: before each order it reads the policy where that lies.
type InForce struct {
	Version string    `json:"version,omitempty"` // digest of the text; empty: no policy can be used
	Text    string    `json:"text,omitempty"`
	Wrong   string    `json:"wrong,omitempty"` // why no policy can be used: nothing is written then
	Source  string    `json:"source"`          // where it lies: a file or a ConfigMap
	Since   time.Time `json:"since"`           // by the clock of the engine
}

// key is where it lies in the bucket, behind it the cluster's ID.
const key = "policy."

// Put tells it.
func (f InForce) Put(ctx context.Context, s *stream.Stream, cluster string) error {
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // else a text could take six times its length
	err := e.Encode(f)
	if err == nil {
		err = s.Put(ctx, key+cluster, data.Bytes())
	}
	if err != nil {
		return fmt.Errorf("tell the policy in force: %w", err)
	}
	return nil
}

// Get returns what the engine of a cluster has told last; the zero value if none has told anything.
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
