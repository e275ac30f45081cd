package remedy

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Cause is a reason in the controller's message, with a class's texts about it.
type Cause struct {
	Name         string   // the Cause of the plan; may be empty
	Texts        []string // parts of the message or its code, in lower case; empty: every message matches
	Finding, Ask say.Text
}

// CauseOf returns the first cause with a text in the message. The last one has no texts and matches every message.
func CauseOf(causes []Cause, message string) Cause {
	message = strings.ToLower(message)
	in := func(text string) bool { return strings.Contains(message, text) }
	i := slices.IndexFunc(causes, func(why Cause) bool { return len(why.Texts) == 0 || slices.ContainsFunc(why.Texts, in) })
	if i < 0 {
		return Cause{}
	}
	return causes[i]
}

// Afterwards says what follows after a person has done what a class asks, and which peers fail alike.
func Afterwards(peers Peers) say.Text { return ccm.ThenRetries().Then(Together(peers)) }
