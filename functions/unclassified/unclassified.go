// Package unclassified asks about failed syncs that no other class covers.
package unclassified

import (
	"context"
	_ "embed"
	"strings"
	"unicode"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks and quotes the message. Such tickets lead to new classes.
var Remedy = &remedy.Remedy{
	Class:    "unclassified",
	Doc:      doc,
	Kinds:    []string{remedy.KindService, remedy.KindNode, remedy.KindCluster},
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
	return remedy.Plan{
		Finding: say.F("No class covers this failure of %s: %q", c.Event.Service, c.Event.Message),
		Cause:   shape(c.Event.Message),
		Ask: say.F("Find the cause by hand. The Event does not contain the error code.").
			And("Check the controller's log for the code, the API and the request ID: %s.", c.LogQuery()),
	}, nil
}

// longest is the number of bytes of a message that distinguish it from others.
const longest = 160

// shape replaces words that name something: those with a digit, slash, bracket or quotation mark. Messages of one shape are one incident.
func shape(message string) string {
	var words []string
	for word := range strings.FieldsSeq(message) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsDigit(r) || strings.ContainsRune("/[]{}\"", r) }) {
			word = "…"
		}
		if len(words) == 0 || word != "…" || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	text := strings.Join(words, " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
