package step

import (
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Convert sets annotations by which the controller changes the load balancer for good: restoring them does not change it back.
type Convert struct {
	Annotate
	LB string `json:"lb"` // ID
}

// Says describes the step.
func (s Convert) Says() say.Text {
	return say.F("%s, by which the controller changes %s for good", s.Annotate.Says(), s.LB)
}

// Kind is "convert".
func (Convert) Kind() string { return "convert" }

// Target is the load balancer.
func (s Convert) Target() string { return "slb/" + s.LB }

// Risk is medium: it changes the cost. With traffic over the load balancer, the plan's risk is high.
func (Convert) Risk() remedy.Risk { return remedy.Medium }

// Undo returns no step: no annotation changes the load balancer back.
func (Convert) Undo() (remedy.Step, bool) { return nil, false }
