// Package hand acts for one class with the class's rights: it reads the cluster and the cloud, runs the class's code, and makes one
// step. The engine decides when to look, whether to apply a plan, and which step is next. Begin with Hand and the types below it.
//
// A Local hand is in the engine's process. A Remote hand is a function: its calls are signed (call.go), a Served hand on the other
// side answers them, and every answer is checked before use (check.go). A hand keeps no state between two calls and takes a case's
// time from the call. Package route posts calls; package serve is the program of a function.
//
// A call carries the Service as the engine last read it, and a write only succeeds on that version. Steps cross the wire as the class
// declares them, even for an undo, which the hand works out. It refuses steps that its class does not declare.
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

// A Hand acts for one class with its rights. Its errors are of type [*Error]; the rest of an answer is valid beside an error, too.
type Hand interface {
	// Look writes nothing.
	Look(context.Context, LookRequest) (LookAnswer, error)
	// Apply makes one step, unless it is already made or its target has moved.
	Apply(context.Context, Order) (ApplyAnswer, error)
}

// About says which case a call is about, and what the engine knows of it.
type About struct {
	Class    string          `json:"class"`
	Case     string          `json:"case"`
	Attempt  int             `json:"attempt"` // number of the present or next attempt to write; from 1
	Failure  event.Failure   `json:"failure"`
	Service  *corev1.Service `json:"service"` // as last read by the engine; empty for a case about the cluster
	Now      time.Time       `json:"now"`
	Settings remedy.Settings `json:"settings,omitzero"`
	Doctor   remedy.Doctor   `json:"doctor,omitzero"` // the policy's settings of the doctor's checks
}

// A Purpose is what a look is for.
type Purpose string

// The purposes of a look, each with the content of its answer.
const (
	Diagnose Purpose = "diagnose" // Verdict; if it is Yes, Plan
	Check    Purpose = "check"    // State and Differs of the first of the steps
	Compare  Purpose = "compare"  // Plan: what the sync after the steps also changes, and the risk of that
	Backup   Purpose = "backup"   // Backup of the load balancers that the steps may change
	Bars     Purpose = "bars"     // Bars: what keeps the Service from reaching the state that the undo of the steps would leave
	Cause    Purpose = "cause"    // Verdict: whether the class still finds its cause
	Prove    Purpose = "prove"    // Verdict: as Cause, for a Service that shows a sync: its address must be its load balancer's
	Flow     Purpose = "flow"     // Flow: whether traffic can flow
	Nothing  Purpose = "nothing"  // empty: it shows that the hand accepts calls
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
	Held  []string      `json:"held,omitempty"`  // keys of claims that are full
	Steps []Step        `json:"steps,omitempty"` // of the plan, as declared
	Undo  bool          `json:"undo,omitempty"`  // the steps' undo is meant
	Made  int           `json:"made,omitempty"`  // number of steps made: those after them bring the next sync
}

// A LookAnswer is the result of a look.
type LookAnswer struct {
	Verdict remedy.Verdict `json:"verdict,omitempty"`
	Plan    *Plan          `json:"plan,omitempty"`
	State   State          `json:"state,omitempty"`
	Differs string         `json:"differs,omitempty"` // of a step that has moved: the present state of its target, as sentences
	Backup  *Snapshot      `json:"backup,omitempty"`
	Bars    string         `json:"bars,omitempty"` // empty: no bar
	Flow    ccm.Flow       `json:"flow,omitzero"`
	Reads   []event.Read   `json:"reads,omitempty"` // on which the result is based, or the failed attempt at one
}

// A Snapshot is the state of the load balancers of a case before a plan of medium or high risk. It is for people: nothing is restored
// from it automatically.
type Snapshot struct {
	Case      string              `json:"case"`
	Cluster   string              `json:"cluster"`
	Class     string              `json:"class"`
	Service   event.Service       `json:"service"`
	Attempt   int                 `json:"attempt"`   // about to write
	At        time.Time           `json:"at"`        // by the engine's clock
	Balancers []ccm.BalancerState `json:"balancers"` // empty: the Service has no load balancer that can be found
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

// A State is the state of a step.
type State string

// The states. An answer without a state has found out nothing.
const (
	Todo  State = "todo"  // it has to be made; beside an error: it was begun, and the calls say how far it got
	Done  State = "done"  // this order has made it; of a dry run: it would be made
	Found State = "found" // it was made before
	Moved State = "moved" // its target is neither as the plan found it nor as the step would leave it
	Lost  State = "lost"  // the order was sent and no answer came: it may have been made
)

// Words returns the states that a hand answers.
func (State) Words() []string {
	return []string{string(Todo), string(Done), string(Found), string(Moved)}
}

// An Order asks a hand to make one step.
type Order struct {
	About
	Step  Step `json:"step"`            // as declared
	Undo  bool `json:"undo,omitempty"`  // the step's undo is meant
	Fresh bool `json:"fresh,omitempty"` // its basis was just read, and no step is made: it need not be checked
	Dry   bool `json:"dry,omitempty"`   // a dry run, as far as possible; if impossible, the error is ErrUnsure

	ID      string    `json:"-"` // of the call, and of the order in the engine's document
	Expires time.Time `json:"-"` // end of writing; zero: the call's own life
}

// An ApplyAnswer is the result of an order.
type ApplyAnswer struct {
	State   State           `json:"state,omitempty"`
	Differs string          `json:"differs,omitempty"` // of a step that has moved: the present state of its target, as sentences
	Calls   []event.Call    `json:"calls,omitempty"`   // its writes
	Service *corev1.Service `json:"service,omitempty"` // as the hand's own write left it, or would have; nil: the hand did not write it
}
