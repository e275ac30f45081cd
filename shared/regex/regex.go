// Package regex compiles regular expressions on first use, which spares runs that never use them time and memory: a pattern with a
// count such as {1,253} takes 100 kB. Begin with New.
package regex

import (
	"regexp"
	"sync"
)

// New returns a function that compiles text on its first call. It panics on invalid text; a rule of the tree compiles all.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
