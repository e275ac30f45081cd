// Package remedy is the contract between the classes and the engine: what a class declares, what it gets, and what it returns. Begin
// with Remedy, Case and Plan.
//
// A class folder declares a Remedy. Its code reads a Case, cannot write, and returns a Plan: plain data that can be shown, compared,
// approved, applied and undone. Only the steps of a plan write: shared/engine decides which step is next, and only shared/hand makes
// it.
//
// A plan may hold a Claim, one of a limited number of places, such as the addresses left in a vSwitch. When none is left, the class is
// called again with that knowledge: a hundred Services must not choose the same last address.
//
// Classes do not consider what else the controller's sync changes: Compare determines it for every plan, and it affects the risk.
package remedy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Remedy describes one class of failed load-balancer sync and its fix. RAM policy, RBAC role, consumer, manifests and catalogue page follow from it.
type Remedy struct {
	Class        string        // ID: function name, subject token, metric label
	Doc          string        // Markdown; its first line is the title
	Codes        []string      // error codes of this class, for messages that still carry one
	Texts        []string      // texts searched in the message; the longest match wins
	Reads        []grant.Grant // what Diagnose and StillFails read beyond the Service
	Steps        []Step        // zero values: the kinds of write that a plan may hold; their grants follow
	Kinds        []string      // of its objects; nil: only Services
	Scope        Scope         // what one open ticket covers
	OptIn        bool          // applied only if the policy file names the class
	Deleting     bool          // also handles Services that are being deleted
	Backends     bool          // about backends, which must also prove a fix
	Risks        []Risk        // that its plans can have; nil: those of PlanRisks
	Creates      bool          // its steps decide how a CLB is created: values that the existing one rules out are not restored
	IgnoresEvent bool          // StillFails answers Yes only on what it has read, whatever the Event says: all its plans are Proven

	Formats []string // of the sentences of a class whose code is not in Go; nil: the program's own

	// Annotations are what its steps may set or remove: names in the controller's documentation, without prefix, or whole keys.
	Annotations []string

	// Diagnose finds the cause and returns a plan; it only reads.
	Diagnose func(context.Context, *Case) (Plan, error)
	// StillFails reports whether the failure's own cause still exists, before and after the plan. A class with steps must have one.
	StillFails func(context.Context, *Case) (Verdict, error)
}

// Title returns the first line of the class's page, without its Markdown mark.
func (r *Remedy) Title() string {
	line, _, _ := strings.Cut(strings.TrimSpace(r.Doc), "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "# "))
}

// Grants returns all that the class needs: the engine's own reads, including comparisons and snapshots, and the class's and its steps' reads and writes.
func (r *Remedy) Grants() []grant.Grant {
	lists := [][]grant.Grant{r.Reads}
	if r.Answers("") {
		lists = append(lists, engineGrants, r.Compares(), r.Snapshots(), r.Proves())
	}
	if len(r.Fields()) > 0 {
		lists = append(lists, proofGrants)
	}
	if r.Answers(event.KindNode) {
		lists = append(lists, []grant.Grant{grant.GetNodes})
	}
	if len(r.Steps) > 0 {
		lists = append(lists, ccm.ControllerReads) // a plan is riskier under an unknown release
	}
	for _, s := range r.Steps {
		lists = append(lists, s.Grants())
	}
	return grant.Set(lists...)
}

// Kinds of objects that a class may handle.
const (
	KindService = ""
	KindNode    = event.KindNode
	KindCluster = event.KindCluster
)

// Answers reports whether the class handles objects of this kind; "" is a Service.
func (r *Remedy) Answers(kind string) bool {
	return len(r.Kinds) == 0 && kind == "" || slices.Contains(r.Kinds, kind)
}

// engineGrants is what Run reads for every class of Services. Of other objects it only reads a Node.
var engineGrants = []grant.Grant{grant.GetServices, grant.ListEvents, grant.GetNamespaces}

// proofGrants is what Run reads to prove that a write to the Service worked.
var proofGrants = []grant.Grant{grant.WatchServices, grant.DescribeLoadBalancerAttribute}

// Proves returns what the engine reads to check whether traffic can flow, after a plan and for the impact of a failure: listeners of
// both kinds of load balancers, and backends if the class is about these.
func (r *Remedy) Proves() []grant.Grant {
	out := slices.Concat(ccm.FlowReads, ccm.NetworkFlowReads)
	if r.Backends {
		out = slices.Concat(out, ccm.BackedReads, ccm.NetworkBackedReads)
	}
	return grant.Set(out)
}

// PlanRisks returns the risks of the class's plans, ascending: the declared ones or its steps', and high if Compare reads a load balancer.
func (r *Remedy) PlanRisks() []Risk {
	risks := slices.Clone(r.Risks)
	if len(risks) == 0 {
		for _, s := range r.Steps {
			risks = append(risks, s.Risk())
		}
		if len(r.Compares()) > 0 && (r.reads(grant.DescribeLoadBalancerAttribute) || r.reads(grant.GetNLB)) {
			risks = append(risks, High)
		}
	}
	slices.Sort(risks)
	return slices.Compact(risks)
}

// RiskRange returns the lowest and highest risk of the class's plans, such as "low to high"; empty for a class that only asks.
func (r *Remedy) RiskRange() string {
	risks := r.PlanRisks()
	switch n := len(risks); n {
	case 0:
		return ""
	case 1:
		return risks[0].String()
	default:
		return fmt.Sprintf("%s to %s", risks[0], risks[n-1])
	}
}

// Validate returns what is wrong with the remedy's declaration, or nil.
func (r *Remedy) Validate() error {
	var errs []error
	if r.Class == "" {
		errs = append(errs, errors.New("no class ID"))
	}
	if r.Title() == "" {
		errs = append(errs, errors.New("no page: Doc is empty"))
	}
	if r.Diagnose == nil {
		errs = append(errs, errors.New("no Diagnose"))
	}
	if len(r.Steps) > 0 && r.StillFails == nil {
		errs = append(errs, errors.New("it has steps and no StillFails"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("class %q: %w", r.Class, err)
	}
	return nil
}

// Always returns a Diagnose that answers every case with the same plan.
func Always(p Plan) func(context.Context, *Case) (Plan, error) {
	return func(context.Context, *Case) (Plan, error) { return p, nil }
}

// A Verdict answers whether a Service still fails.
type Verdict int

// The verdicts. Unknown leads to a later look, never to a plan.
const (
	Unknown Verdict = iota
	Yes
	No
)

// Is returns Yes if failing is true, else No.
func Is(failing bool) Verdict {
	if failing {
		return Yes
	}
	return No
}

var verdicts = []string{"unknown", "yes", "no"}

// String returns the verdict as a word.
func (v Verdict) String() string {
	if v != Yes && v != No {
		v = Unknown
	}
	return verdicts[v]
}

// Words returns the verdicts as words.
func (Verdict) Words() []string { return slices.Clone(verdicts) }

// MarshalText writes the verdict as a word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads such a word.
func (v *Verdict) UnmarshalText(word []byte) error {
	i := slices.Index(verdicts, string(word))
	if i < 0 {
		return fmt.Errorf("the verdict is %.40q, not yes, no or unknown", word)
	}
	*v = Verdict(i)
	return nil
}

// Risk says what a step or plan can do to the users of the Service.
type Risk int

const (
	Low    Risk = iota // only metadata of the one Service, undone by restoring the old value; no traffic moves
	Medium             // changes a cloud resource, an account setting or cost; can be undone
	High               // may interrupt traffic or change an address, or cannot be undone
)

var risks = [...]string{"low", "medium", "high"}

// Raised returns the risk one step above, or High.
func (r Risk) Raised() Risk { return min(r+1, High) }

// String returns "low", "medium" or "high".
func (r Risk) String() string {
	if r < Low || r > High {
		return fmt.Sprintf("risk(%d)", int(r))
	}
	return risks[r]
}

// Word returns the risk for people.
func (r Risk) Word() say.Text {
	switch r {
	case Low:
		return say.F("low")
	case Medium:
		return say.F("medium")
	case High:
		return say.F("high")
	}
	return say.Literal(r.String())
}

// MarshalText writes the risk as a word, or returns an error for any other value.
func (r Risk) MarshalText() ([]byte, error) {
	if r < Low || r > High {
		return nil, fmt.Errorf("%s is not a risk", r)
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads the risk from a word.
func (r *Risk) UnmarshalText(text []byte) error { return r.ReadText(string(text)) }

// Words returns the risks, as a file names them.
func (r Risk) Words() []string { return slices.Clone(risks[:]) }

// ReadText reads the risk from a word of a file.
func (r *Risk) ReadText(text string) error {
	i := slices.Index(risks[:], text)
	if i < 0 {
		return fmt.Errorf("%q is not a risk: want low, medium or high", text)
	}
	*r = Risk(i)
	return nil
}

// Scope says what one open ticket of a class covers.
type Scope string

// The scopes. The zero value is one Service.
const (
	OneService Scope = ""
	Cluster    Scope = "cluster"
	Account    Scope = "account"
)

// State says whether a step is done.
type State int

// The states. Conflict: the object is neither as found nor as the step would leave it.
const (
	Todo State = iota
	Done
	Conflict
)

// String returns the state as a word.
func (s State) String() string {
	switch s {
	case Todo:
		return "todo"
	case Done:
		return "done"
	}
	return "conflict"
}

// ErrMoved says that a step's object has changed since the plan. Nothing was written; the case is diagnosed again.
var ErrMoved = errors.New("it has changed since it was read")

// A Step is one write, as a plain struct. Diagnose fills its Was fields with the present values.
type Step interface {
	Says() say.Text                               // what it does, in the imperative
	Kind() string                                 // step.Decode(kind, json) makes it again, for records and undo
	Target() string                               // one writer at a time: "service/<uid>", "slb/<id>", "ram/<policy>"; empty: the Service
	Risk() Risk                                   //
	Grants() []grant.Grant                        // the same for all values of a kind
	Check(context.Context, *Case) (State, error)  // Todo, Done or Conflict, read now
	Apply(context.Context, *Case, *Writers) error // conditional on the version that Check read
	Undo() (Step, bool)                           // from Was only; false if it cannot be undone
}

// A Settler is a step that must not follow the previous one too closely.
type Settler interface {
	Settle() time.Duration // least time after the previous step, or after the intent for the first one
}

// A ResyncStep is a step that only triggers a resync. A cluster allows only so many. It is left out if the controller has synced the
// Service since the previous step: another full sync would only be a risk.
type ResyncStep interface {
	Pace() time.Duration // the least time between two such steps in one cluster
}

// A Keyed step writes metadata of the Service, which GitOps managers may own.
type Keyed interface {
	Keys() []string     // the annotations that it sets or removes, and PortsKey if it changes the ports
	Patch(*Case) []byte // the merge patch that it would apply, for a person to commit
}

// Check returns what is wrong with a plan of this class, or nil.
func (r *Remedy) Check(p Plan) error {
	switch {
	case len(p.Finding) == 0 && len(p.Steps) == 0 && len(p.Ask) == 0 && p.Wait == 0:
		return fmt.Errorf("class %s: Diagnose returned an empty plan", r.Class)
	case len(p.Finding) == 0:
		return fmt.Errorf("class %s: the plan has no finding", r.Class)
	case len(p.Steps) == 0 && len(p.Ask) == 0 && p.Wait == 0:
		return fmt.Errorf("class %s: the plan does nothing: no steps, no ask, no wait", r.Class)
	case p.Wait < 0:
		return fmt.Errorf("class %s: the plan has a negative wait", r.Class)
	case len(p.Steps) > 0 && p.Wait > 0:
		return fmt.Errorf("class %s: the plan both writes and waits", r.Class)
	}
	for _, s := range p.Steps {
		if err := r.allows(s); err != nil {
			return err
		}
	}
	return nil
}

// ErrUndeclared says that the class does not declare a step, or what it writes.
var ErrUndeclared = errors.New("which the class does not declare")

func (r *Remedy) allows(s Step) error {
	if !r.declares(s.Kind()) {
		return fmt.Errorf("class %s: there is a step %q, %w", r.Class, s.Kind(), ErrUndeclared)
	}
	if k, ok := s.(Keyed); ok {
		for _, key := range k.Keys() {
			if !r.mayWrite(key) {
				return fmt.Errorf("class %s: a step writes %s, %w", r.Class, key, ErrUndeclared)
			}
		}
	}
	return nil
}

func (r *Remedy) declares(kind string) bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Kind() == kind })
}

// IsResync reports whether the step only triggers a resync.
func IsResync(s Step) bool {
	_, ok := s.(ResyncStep)
	return ok
}
