package remedy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/grant"
)

// A Declaration is a remedy as data, without its code: everything that the engine must know of a class whose code runs elsewhere.
type Declaration struct {
	Class        string   `json:"class"`
	Doc          string   `json:"doc,omitempty"`
	Codes        []string `json:"codes,omitempty"`
	Texts        []string `json:"texts,omitempty"`
	Reads        []string `json:"reads,omitempty"`       // grants, such as "vpc:DescribeVSwitches" and "list endpointslices.discovery.k8s.io"
	Steps        []string `json:"steps,omitempty"`       // kinds
	Annotations  []string `json:"annotations,omitempty"` // as in Remedy
	Risks        []Risk   `json:"risks,omitempty"`
	Scope        Scope    `json:"scope,omitempty"`
	OptIn        bool     `json:"optIn,omitempty"`
	Deleting     bool     `json:"deleting,omitempty"`
	Backends     bool     `json:"backends,omitempty"`
	Creates      bool     `json:"creates,omitempty"`
	IgnoresEvent bool     `json:"ignoresEvent,omitempty"`
	Formats      []string `json:"formats,omitempty"` // of its sentences, with the verbs of Go's fmt; a class in Go uses the program's own
}

// Declaration returns the remedy as data.
func (r *Remedy) Declaration() Declaration {
	d := Declaration{
		Class: r.Class, Doc: r.Doc, Codes: r.Codes, Texts: r.Texts, Annotations: r.Annotations, Risks: r.Risks, Scope: r.Scope,
		OptIn: r.OptIn, Deleting: r.Deleting, Backends: r.Backends, Creates: r.Creates, IgnoresEvent: r.IgnoresEvent, Formats: r.Formats,
	}
	for _, g := range r.Reads {
		d.Reads = append(d.Reads, g.String())
	}
	for _, s := range r.Steps {
		d.Steps = append(d.Steps, s.Kind())
	}
	return d
}

// Digest returns the SHA-256, in hex, of the declaration as JSON without doc, spaces and empty fields, keys sorted. Engine and hand must agree.
func (d Declaration) Digest() string {
	d.Doc = ""
	var sorted map[string]any
	var text bytes.Buffer
	data, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(data, &sorted)
	}
	if err == nil {
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		err = e.Encode(sorted)
	}
	if err != nil {
		panic(fmt.Sprintf("remedy: a declaration does not encode: %v", err))
	}
	sum := sha256.Sum256(bytes.TrimSpace(text.Bytes()))
	return hex.EncodeToString(sum[:])
}

// Remedy returns the remedy of a class whose code runs elsewhere, with steps in all and without Diagnose and StillFails.
func (d Declaration) Remedy(all []Step) (*Remedy, error) {
	if d.Class == "" || d.Doc == "" {
		return nil, errors.New("the declaration has no class or no doc")
	}
	r := &Remedy{
		Class: d.Class, Doc: d.Doc, Codes: d.Codes, Texts: d.Texts, Annotations: d.Annotations, Risks: d.Risks, Scope: d.Scope,
		OptIn: d.OptIn, Deleting: d.Deleting, Backends: d.Backends, Creates: d.Creates, IgnoresEvent: d.IgnoresEvent, Formats: d.Formats,
	}
	for _, text := range d.Reads {
		g, err := grant.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("the declaration of %s: %w", d.Class, err)
		}
		r.Reads = append(r.Reads, g)
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
