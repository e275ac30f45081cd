// Package unclassified asks about failed syncs that no other class covers.
package unclassified

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks, quoting the message: the next class begins as that ticket.
var Remedy = &remedy.Remedy{
	Class:    "unclassified",
	Doc:      doc,
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
	return remedy.Plan{
		Finding: fmt.Sprintf("No class covers this failure of %s: %q", c.Event.Service, c.Event.Message),
		Cause:   c.Event.Reason,
		Ask:     "Find the cause by hand. The event drops the error code; the controller's log has it, with the API and the request ID: " + c.LogQuery() + ".",
	}, nil
}
