package step

import (
	"context"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Resync triggers a sync after a change outside the Service, by our resync annotation alone. If the Service was synced before, the
// full sync resets load balancer and listeners to the annotations; the plan's risk covers this.
type Resync struct {
	After time.Duration `json:"after,omitempty"` // nanoseconds since the previous step, whose change takes a while to act
}

// every is long because each resync causes a full sync, whose OpenAPI calls add up to throttling.
const every = 2 * time.Second

// Says describes the step.
func (t Resync) Says() say.Text {
	if t.After > 0 {
		return say.F("trigger a resync after %s", t.After)
	}
	return say.F("trigger a resync")
}

// Kind is "resync".
func (Resync) Kind() string { return "resync" }

// Target is the Service.
func (Resync) Target() string { return "" }

// Risk is low; see the type.
func (Resync) Risk() remedy.Risk { return remedy.Low }

// Grants are reading and patching Services.
func (Resync) Grants() []grant.Grant { return serviceWrite }

// Fields are our mark.
func (Resync) Fields() []remedy.Field { return []remedy.Field{remedy.MarkField} }

// Settle returns how long the step waits for the previous one.
func (t Resync) Settle() time.Duration { return t.After }

// Pace returns the least time between two resync steps in one cluster.
func (Resync) Pace() time.Duration { return every }

// Check reports whether this attempt has triggered a sync of the Service.
func (Resync) Check(_ context.Context, c *remedy.Case) (remedy.State, error) {
	if c.Service.Annotations[ccm.Resync] == c.Mark() {
		return remedy.Done, nil
	}
	return remedy.Todo, nil
}

// Apply writes the resync annotation on the version in the case.
func (Resync) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return annotate(ctx, c, w, nil, nil)
}

// Undo returns no step: the annotation means nothing to others, removing it would trigger another resync, and the sync's effects stay.
func (Resync) Undo() (remedy.Step, bool) { return nil, false }
