package main

import (
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The parts of an in-toto statement with SLSA's provenance that we write
// (https://in-toto.io/Statement/v1, https://slsa.dev/spec/v1.0/provenance).
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []subject  `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     provenance `json:"predicate"`
	}
	subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	provenance struct {
		Definition definition `json:"buildDefinition"`
		Run        runDetails `json:"runDetails"`
	}
	definition struct {
		Type     string            `json:"buildType"`
		External map[string]string `json:"externalParameters"`
		Resolved []dependency      `json:"resolvedDependencies"`
	}
	dependency struct {
		URI    string            `json:"uri"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	runDetails struct {
		Builder builder `json:"builder"`
	}
	builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	}
)

const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
	statementKind  = "application/vnd.in-toto+json"
)

// An origin is what a release is made from.
type origin struct {
	version string // and tag
	commit  string
	toolset string // the version of Go
	sums    string // SHA-256 of go.sum, which names all modules
}

// about returns the statement that the subjects are made from the origin. It tells no time
// and no machine: whoever builds the tag makes the same, and who signs it vouches for it.
func (o origin) about(subjects ...subject) ([]byte, error) {
	return indent(statement{
		Type: statementType, Subject: subjects, PredicateType: provenanceType,
		Predicate: provenance{
			Definition: definition{
				Type:     source + "/blob/" + o.version + "/infra/README.md#releases",
				External: map[string]string{"repository": source, "version": o.version},
				Resolved: []dependency{
					{URI: "git+" + source + "@refs/tags/" + o.version, Digest: map[string]string{"gitCommit": o.commit}},
					{URI: source + "/blob/" + o.commit + "/go.sum", Digest: map[string]string{"sha256": o.sums}},
					{URI: "pkg:golang/stdlib@" + strings.TrimPrefix(o.toolset, "go")},
				},
			},
			Run: runDetails{builder{ID: source + "/tree/" + o.version + "/infra/release", Version: map[string]string{"go": o.toolset}}},
		},
	})
}

// known returns a digest as a subject.
func known(name string, digest v1.Hash) subject {
	return subject{name, map[string]string{digest.Algorithm: digest.Hex}}
}
