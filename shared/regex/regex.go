// Package regex has regular expressions that are compiled when they are first used. What one
// run in a thousand needs costs the others neither time nor memory: a pattern with a count such
// as {1,253} takes 100 kB.
package regex

import (
	"regexp"
	"sync"
)

// New returns the regular expression of a text. It panics, when it is first called, if the text
// is none; a rule of the tree compiles all that stand in it.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
