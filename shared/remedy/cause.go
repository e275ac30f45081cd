package remedy

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Cause is a reason for a failure that the controller's message tells, with what a class says about it.
type Cause struct {
	Name         string   // the Cause of the plan; may be empty
	Texts        []string // parts of the message, in lower case: of its text or its code; none: every message fits
	Finding, Ask say.Text
}

// CauseOf returns the first of the causes of which the message has a text. The last one has no texts: it
// is that of a message that tells no other.
func CauseOf(causes []Cause, message string) Cause {
	message = strings.ToLower(message)
	in := func(text string) bool { return strings.Contains(message, text) }
	i := slices.IndexFunc(causes, func(why Cause) bool { return len(why.Texts) == 0 || slices.ContainsFunc(why.Texts, in) })
	if i < 0 {
		return Cause{}
	}
	return causes[i]
}

// Afterwards says what follows once a person has done what a class asks for, and which of the peers fail
// like the case's own Service.
func Afterwards(peers Peers) say.Text { return ccm.ThenRetries().Then(Together(peers)) }
