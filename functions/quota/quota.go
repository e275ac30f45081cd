// Package quota remedies Services whose sync fails with quota.
package quota

import (
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks: nothing that lbremedy may write is known to end this failure.
var Remedy = &remedy.Remedy{
	Class: "quota",
	Doc:   doc,
	Codes: []string{"OverQuota", "ORDER.QUANTITY_INVALID", "ListenerNumberOverLimit", "QuotaLimitExceeds.*", "QuotaExceeded.*"},
	Texts: []string{
		"Instance num exceeded Quota",
		"Total is over the quota",
		"order quota exceeded",
		"maximum number of listeners is exceeded",
		"The quota of * is exceeded",
	},
	Diagnose: remedy.Always(remedy.Plan{
		Finding: "The sync failed with quota.",
		Ask:     "Find the cause in the controller's log and end it.",
	}),
}
