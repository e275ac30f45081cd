package remedy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/grant"
)

// A Declaration is a remedy as data, without its code: everything the engine needs to know of a class whose code runs elsewhere.
type Declaration struct {
	Class       string        `json:"class"`
	Doc         string        `json:"doc"`
	Codes       []string      `json:"codes,omitempty"`
	Texts       []string      `json:"texts,omitempty"`
	Reads       []grant.Grant `json:"reads,omitempty"`
	Steps       []string      `json:"steps,omitempty"`    // kinds
	Sections    []string      `json:"sections,omitempty"` // names
	Annotations []string      `json:"annotations,omitempty"`
	Risks       []Risk        `json:"risks,omitempty"`
	Scope       Scope         `json:"scope,omitempty"`
	OptIn       bool          `json:"optIn,omitempty"`
	Deleting    bool          `json:"deleting,omitempty"`
	Backends    bool          `json:"backends,omitempty"`
	Creates     bool          `json:"creates,omitempty"`
	Sees        bool          `json:"sees,omitempty"`
	Formats     []string      `json:"formats,omitempty"` // of its sentences, in package fmt's verbs; a class in Go uses those of the program
}

// Declaration returns the remedy as data.
func (r *Remedy) Declaration() Declaration {
	d := Declaration{
		Class: r.Class, Doc: r.Doc, Codes: r.Codes, Texts: r.Texts, Reads: r.Reads, Annotations: r.Annotations, Risks: r.Risks, Scope: r.Scope,
		OptIn: r.OptIn, Deleting: r.Deleting, Backends: r.Backends, Creates: r.Creates, Sees: r.Sees, Formats: r.Formats,
	}
	for _, s := range r.Steps {
		d.Steps = append(d.Steps, s.Kind())
	}
	for _, s := range r.Sections {
		d.Sections = append(d.Sections, s.Name())
	}
	return d
}

// Digest returns 32 hex digits over everything but the class's page. Engine and hand must have the same.
func (d Declaration) Digest() string {
	d.Doc = ""
	data, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("remedy: a declaration does not encode: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Remedy returns the remedy of a class whose code runs elsewhere. Its steps are of kinds in all. It has no Diagnose and no
// StillFails, and no sections of the policy.
func (d Declaration) Remedy(all []Step) (*Remedy, error) {
	if d.Class == "" || d.Doc == "" {
		return nil, errors.New("the declaration has no class or no doc")
	}
	if len(d.Sections) > 0 {
		return nil, fmt.Errorf("the declaration of %s has sections of the policy, which only classes in Go can have", d.Class)
	}
	r := &Remedy{
		Class: d.Class, Doc: d.Doc, Codes: d.Codes, Texts: d.Texts, Reads: d.Reads, Annotations: d.Annotations, Risks: d.Risks, Scope: d.Scope,
		OptIn: d.OptIn, Deleting: d.Deleting, Backends: d.Backends, Creates: d.Creates, Sees: d.Sees, Formats: d.Formats,
	}
	for _, kind := range d.Steps {
		found := false
		for _, s := range all {
			if s.Kind() == kind {
				r.Steps, found = append(r.Steps, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("the declaration of %s names the step %q, which does not exist", d.Class, kind)
		}
	}
	return r, nil
}
