// Package backendquota remedies Services whose sync fails with backend quota.
package backendquota

import (
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks: nothing that lbremedy may write is known to end this failure.
var Remedy = &remedy.Remedy{
	Class: "backend-quota",
	Doc:   doc,
	Codes: []string{"InstanceBackendServerNumberOverLimit"},
	Texts: []string{
		"backend server number has reached to the quota limit of this load balancer",
		"backend server number has reached the quota limit of this load balancer",
	},
	Diagnose: remedy.Always(remedy.Plan{
		Finding: "The sync failed with backend quota.",
		Ask:     "Find the cause in the controller's log and end it.",
	}),
}
