// Package policy reads the operator's policy file, which says what lbremedy may
// do, and keeps the one in force in the stream, where every function reads it
// before each step.
//
// Without a policy lbremedy observes: it plans and never writes. A policy that
// can't be read stops every write, because nobody knows what it would say.
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A File is the policy file, as a person writes it.
type File struct {
	Mode      string           `json:"mode,omitempty"`     // observe (default) or fix
	Risk      string           `json:"risk,omitempty"`     // fix applies plans up to this risk: low (default), medium or high
	Classes   map[string]Class `json:"classes,omitempty"`  // what differs for a class
	Attempts  int              `json:"attempts,omitempty"` // tries to write on one Service and class in 24 h; default 3
	RAMDelay  string           `json:"ramDelay,omitempty"` // how long RAM takes to act on a new policy version; default 1m
	VSwitches VSwitches        `json:"vswitches,omitzero"`
	PayBySpec bool             `json:"payBySpec,omitempty"` // CLBs that pay by spec are still sold to this account; default false, which is so for most since June 2025
}

// A Class is what the policy file says of one class.
type Class struct {
	Mode string `json:"mode,omitempty"`
	Risk string `json:"risk,omitempty"`
}

// VSwitches are the rules for choosing a vSwitch.
type VSwitches struct {
	Allow          []string `json:"allow,omitempty"`          // besides the cluster's own
	Reserve        *int64   `json:"reserve,omitempty"`        // free addresses that stay untouched; default 8
	ReplaceMissing bool     `json:"replaceMissing,omitempty"` // a vSwitch that a person named and that doesn't exist may be replaced
}

// Load reads the policy file at path. The classes are the IDs that it may name.
func Load(path string, classes []string) (remedy.Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return remedy.Policy{}, fmt.Errorf("read policy file: %w", err)
	}
	p, err := Parse(data, classes)
	if err != nil {
		return remedy.Policy{}, fmt.Errorf("policy file %s: %w", path, err)
	}
	return p, nil
}

// Parse reads a policy from YAML. It refuses fields, classes and words that it
// does not know, and names them: a typo must not loosen a rule. An empty file observes.
func Parse(data []byte, classes []string) (remedy.Policy, error) {
	var f File
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return remedy.Policy{}, explain(err)
	}
	var errs []error
	p := remedy.Policy{
		Mode:      mode("mode", f.Mode, &errs),
		Attempts:  f.Attempts,
		VSwitches: remedy.VSwitches(f.VSwitches),
		PayBySpec: f.PayBySpec,
	}
	if p.Mode == "" {
		p.Mode = remedy.Observe
	}
	if r := risk("risk", f.Risk, &errs); r != nil {
		p.Risk = *r
	}
	for _, id := range slices.Sorted(maps.Keys(f.Classes)) {
		if !slices.Contains(classes, id) {
			errs = append(errs, fmt.Errorf("classes.%s: there is no such class; there are %s", id, strings.Join(classes, ", ")))
			continue
		}
		if p.Classes == nil {
			p.Classes = map[string]remedy.Class{}
		}
		c := f.Classes[id]
		p.Classes[id] = remedy.Class{Mode: mode("classes."+id+".mode", c.Mode, &errs), Risk: risk("classes."+id+".risk", c.Risk, &errs)}
	}
	if f.Attempts < 0 {
		errs = append(errs, fmt.Errorf("attempts: %d is negative", f.Attempts))
	}
	if f.VSwitches.Reserve != nil && *f.VSwitches.Reserve < 0 {
		errs = append(errs, fmt.Errorf("vswitches.reserve: %d is negative", *f.VSwitches.Reserve))
	}
	if f.RAMDelay != "" {
		d, err := time.ParseDuration(f.RAMDelay)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("ramDelay: %q is no duration such as 60s", f.RAMDelay))
		}
		p.RAMDelay = d
	}
	if err := errors.Join(errs...); err != nil {
		return remedy.Policy{}, err
	}
	return p, nil
}

func mode(field, value string, errs *[]error) remedy.Mode {
	switch m := remedy.Mode(value); m {
	case "", remedy.Observe, remedy.Fix:
		return m
	}
	*errs = append(*errs, fmt.Errorf("%s: %q is no mode: want observe or fix", field, value))
	return ""
}

func risk(field, value string, errs *[]error) *remedy.Risk {
	if value == "" {
		return nil
	}
	var r remedy.Risk
	if err := r.UnmarshalText([]byte(value)); err != nil {
		*errs = append(*errs, fmt.Errorf("%s: %w", field, err))
		return nil
	}
	return &r
}

// explain turns the decoder's errors into a sentence that names the culprit.
func explain(err error) error {
	text := err.Error()
	for _, noise := range []string{"error unmarshaling JSON: ", "error converting YAML to JSON: ", "while decoding JSON: ", "json: ", "yaml: "} {
		text = strings.ReplaceAll(text, noise, "")
	}
	if _, field, ok := strings.Cut(text, "unknown field "); ok {
		return fmt.Errorf("the field %s is not known; known are mode, risk, classes, attempts, ramDelay, vswitches (allow, reserve, replaceMissing), payBySpec", field)
	}
	return errors.New(text)
}

// key is where the policy in force lies in the stream's bucket.
const key = "policy"

// Publish makes the policy the one in force.
func Publish(ctx context.Context, s *stream.Stream, p remedy.Policy) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the policy: %w", err)
	}
	if err := s.Put(ctx, key, data); err != nil {
		return fmt.Errorf("publish the policy: %w", err)
	}
	return nil
}

// InForce returns the policy that is in force; without one, lbremedy observes.
func InForce(ctx context.Context, s *stream.Stream) (remedy.Policy, error) {
	data, err := s.Get(ctx, key)
	if errors.Is(err, stream.ErrNotFound) {
		return remedy.Policy{Mode: remedy.Observe}, nil
	}
	if err != nil {
		return remedy.Policy{}, fmt.Errorf("read the policy in force: %w", err)
	}
	var p remedy.Policy
	if err := json.Unmarshal(data, &p); err != nil {
		return remedy.Policy{}, fmt.Errorf("read the policy in force: %w", err)
	}
	return p, nil
}
