// Package hand does for one class what needs the class's rights: it reads the cluster and the cloud, runs the class's code, and makes one step.
// The engine decides: when to look, whether a plan is applied, which step is next.
//
// A Local hand is in the engine's own process. A Remote hand is a function: its calls are signed (call.go), a Served hand on the other side
// answers them, and every answer is checked before anything of it is used (check.go). A hand keeps nothing between two calls, and takes the
// time of a case from the call. Package route posts calls; package serve is the program of a function.
//
// A call carries the Service as the engine has read it last. A write holds only for the version in the call. Steps cross as the class has
// declared them, also to be undone: the hand works out their way back, and refuses what its class does not declare.
//
// Begin with Hand and the types below it.
package hand

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Hand does for one class what needs rights. Its errors are of type [*Error]; what else its answer says holds beside one, too.
type Hand interface {
	// Look reads and asks the class; it writes nothing.
	Look(context.Context, LookRequest) (LookAnswer, error)
	// Apply checks one step and makes it, unless it is made already or its target has moved.
	Apply(context.Context, Order) (ApplyAnswer, error)
}

// About says which case a call is about, and what the engine knows of it.
type About struct {
	Class    string          `json:"class"`
	Case     string          `json:"case"`
	Attempt  int             `json:"attempt"` // number that an attempt to write has, or would have; from 1
	Failure  event.Failure   `json:"failure"`
	Service  *corev1.Service `json:"service"` // as the engine has read it; of a case about the cluster an empty one
	Now      time.Time       `json:"now"`
	Settings remedy.Settings `json:"settings,omitzero"`
	Doctor   remedy.Doctor   `json:"doctor,omitzero"` // the policy's settings of the doctor's checks
}

// A Purpose is what a look is for.
type Purpose string

// The purposes of a look, each with what its answer holds.
const (
	Diagnose Purpose = "diagnose" // Verdict; if it is Yes, Plan
	Check    Purpose = "check"    // State and Differs of the first of the steps
	Compare  Purpose = "compare"  // Plan: what the sync after the steps changes beside them, and the risk of that
	Backup   Purpose = "backup"   // Backup of the load balancers that the steps may change
	Bars     Purpose = "bars"     // Bars: what keeps the Service from being as the undo of the steps would leave it
	Cause    Purpose = "cause"    // Verdict: whether the class still finds its cause
	Prove    Purpose = "prove"    // Verdict: as Cause, of a Service that shows a sync: its address must be its load balancer's
	Flow     Purpose = "flow"     // Flow: whether traffic can
	Nothing  Purpose = "nothing"  // nothing: it shows that the hand accepts calls
)

// Words returns the purposes.
func (Purpose) Words() []string {
	var all []string
	for _, p := range []Purpose{Diagnose, Check, Compare, Backup, Bars, Cause, Prove, Flow, Nothing} {
		all = append(all, string(p))
	}
	return all
}

// A LookRequest asks a hand to read.
type LookRequest struct {
	About
	For   Purpose       `json:"for"`
	Idle  time.Duration `json:"idle,omitempty"`  // for how long the case has waited with nothing to write
	Held  []string      `json:"held,omitempty"`  // keys of claims that have no place left
	Steps []Step        `json:"steps,omitempty"` // of the plan, as they were declared
	Undo  bool          `json:"undo,omitempty"`  // their way back is meant
	Made  int           `json:"made,omitempty"`  // so many of the steps are made: those after them bring the next sync
}

// A LookAnswer is what a hand has found out.
type LookAnswer struct {
	Verdict remedy.Verdict `json:"verdict,omitempty"`
	Plan    *Plan          `json:"plan,omitempty"`
	State   State          `json:"state,omitempty"`
	Differs string         `json:"differs,omitempty"` // of a step that has moved: what its target is now, as sentences
	Backup  *Snapshot      `json:"backup,omitempty"`
	Bars    string         `json:"bars,omitempty"` // empty: nothing does
	Flow    ccm.Flow       `json:"flow,omitzero"`
	Reads   []event.Read   `json:"reads,omitempty"` // by which the hand has found it out, also if it has not
}

// A Snapshot is how the load balancers of a case stood before a plan of medium or
// high risk was applied. It is for people: nothing is put back from it by itself.
type Snapshot struct {
	Case      string         `json:"case"`
	Cluster   string         `json:"cluster"`
	Class     string         `json:"class"`
	Service   event.Service  `json:"service"`
	Attempt   int            `json:"attempt"`   // that was about to write
	At        time.Time      `json:"at"`        // which the engine says
	Balancers []ccm.Standing `json:"balancers"` // none: the Service has no load balancer that can be found
}

// A Step is a step as data.
type Step struct {
	Kind string          `json:"kind"`
	Step json.RawMessage `json:"step"`
}

// A Plan is a remedy.Plan as data.
type Plan struct {
	remedy.Plan        // without its steps
	Steps       []Step `json:"steps,omitempty"`
}

// A State says where a step stands.
type State string

// The states. An answer without one has found out nothing.
const (
	Todo  State = "todo"  // it is to be made; beside an error: it was begun, and the calls say how far it got
	Done  State = "done"  // this order has made it; of one that is dry: it would be made
	Found State = "found" // it was made before
	Moved State = "moved" // its target is neither as the plan found it nor as the step would leave it
	Lost  State = "lost"  // the order was sent, and no answer came: it may have been made
)

// Words returns the states that a hand answers.
func (State) Words() []string {
	return []string{string(Todo), string(Done), string(Found), string(Moved)}
}

// An Order asks a hand to make one step.
type Order struct {
	About
	Step  Step `json:"step"`            // as it was declared
	Undo  bool `json:"undo,omitempty"`  // its way back is meant
	Fresh bool `json:"fresh,omitempty"` // what it rests on was read just now, and no step is made: it need not be checked
	Dry   bool `json:"dry,omitempty"`   // it is only tried, as far as that can be: what can't be tried is an ErrUnsure

	ID      string    `json:"-"` // under which the engine's document has it, and of the call
	Expires time.Time `json:"-"` // nothing is written later; zero: the call's own life
}

// An ApplyAnswer is what became of an order.
type ApplyAnswer struct {
	State   State           `json:"state,omitempty"`
	Differs string          `json:"differs,omitempty"` // of a step that has moved: what its target is now, as sentences
	Calls   []event.Call    `json:"calls,omitempty"`   // by which it wrote
	Service *corev1.Service `json:"service,omitempty"` // as the hand's own write left it, or would have; nil: it wrote none
}
