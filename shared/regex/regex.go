// Package regex compiles regular expressions on first use. A pattern that few runs need costs the others neither time nor memory; one with
// a count such as {1,253} takes 100 kB. Begin with New.
package regex

import (
	"regexp"
	"sync"
)

// New returns a function that compiles text on its first call, and panics if it is invalid; a rule of the tree compiles all of them.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
