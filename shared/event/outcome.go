package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Result says how a run ended.
type Result string

// The results. Fixed, synced, gone, superseded, failed, undone and ignored end a case; the others leave it open.
const (
	Gone       Result = "gone"       // the failure was over before anything was done
	Superseded Result = "superseded" // the newest failure of the Service is of another class
	Planned    Result = "planned"    // observe mode: the plan that would be applied
	Asked      Result = "asked"      // a person must act or approve
	Waiting    Result = "waiting"    // looked at again later
	Fixed      Result = "fixed"      // written, and proven to work: traffic can flow
	Synced     Result = "synced"     // written, and the failure is over; unproven that traffic can flow
	Unsettled  Result = "unsettled"  // written, and the failure came back or nothing proves success
	Failed     Result = "failed"     // an error that did not end with retries
	Undone     Result = "undone"     // an earlier run's writes were undone
	OutOfScope Result = "ignored"    // not a failed load-balancer sync of this cloud
)

// Worked reports whether the writes ended the failure.
func (r Result) Worked() bool { return r == Fixed || r == Synced }

// Settled reports whether the result ends the case for the event that led to it.
func (r Result) Settled() bool {
	switch r {
	case Waiting, Unsettled:
		return false
	}
	return true
}

// Final reports whether the result ends the case.
func (r Result) Final() bool {
	switch r {
	case Gone, Superseded, Fixed, Synced, OutOfScope, Undone:
		return true
	}
	return false
}

// A Hold is the reason that a plan allowed by the policy is held back.
type Hold string

const (
	HeldByPause  Hold = "pause"  // a person has stopped all writes
	HeldByFreeze Hold = "freeze" // the policy freezes this time
	HeldByBudget Hold = "budget" // the budget is spent
	TakenBack    Hold = "undo"   // the fix did not work and is about to be undone
)

// Holds are all holds.
var Holds = []Hold{HeldByPause, HeldByFreeze, HeldByBudget, TakenBack}

// A Reason says why a plan that is to be applied, or is being applied, ends as waiting. The next run depends on it; the record's rule
// says the same to people, in a sentence.
type Reason string

const (
	ForTarget   Reason = "target" // another case writes to the same target
	ForStep     Reason = "step"   // the step before the next one takes a while to act
	AfterOthers Reason = "others" // a moment to write is reserved, after others
	ForPolicy   Reason = "policy" // the policy, a pause or a freeze stops the rest of the plan
	ForSync     Reason = "sync"   // everything is written; the controller's sync has to follow
	ByCause     Reason = "cause"  // everything is written, but not to the Service; only the cause shows whether it worked
)

// An Approved says who answered a plan: approved or rejected it.
type Approved struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Identity string    `json:"identity,omitempty"` // user name in the cluster, if one could be asked
	Host     string    `json:"host,omitempty"`     // the machine on which they approved
	Object   string    `json:"object,omitempty"`   // UID of the Approval in the cluster, which proves the identity of By; empty: By has run the engine by hand
	Chat     string    `json:"chat,omitempty"`     // the chat of the answer, if the notifier created the Approval in their name
	Comment  string    `json:"comment,omitempty"`
}

// String returns Text in English.
func (a Approved) String() string { return a.Text().String() }

// Text returns the person, with the other known facts in parentheses.
func (a Approved) Text() say.Text {
	who := say.Literal(Person{Name: a.By, Identity: a.Identity, Host: a.Host}.String())
	if a.Chat != "" {
		who = say.F("%s (%s)", who, FromChat(a.Chat))
	}
	if a.Comment != "" {
		who = say.F("%s: %s", who, a.Comment)
	}
	return who
}

// inChat is how an Approval names a chat as its origin.
var inChat = regex.New(`^(\S+) user (\S+), at the sink (\S+), by the click (\S+)$`)

// FromChat returns an Approval's statement about the chat that it comes from.
func FromChat(chat string) say.Text {
	if m := inChat().FindStringSubmatch(chat); m != nil {
		return say.F("%s user %s, at the sink %s, by the click %s", m[1], m[2], m[3], m[4])
	}
	return say.Literal(chat)
}

// An Impact is what the users of a Service notice while its syncs fail, judged by its address and the listeners of its load balancer.
type Impact string

const (
	Unchecked Impact = "unknown"         // whether traffic flows could not be determined
	Frozen    Impact = "backends frozen" // each port has a running listener, with the backends of the last sync
	Partly    Impact = "partly down"     // some ports take no traffic
	Down      Impact = "down"            // the load balancer is gone, or no port takes traffic
	NeverUp   Impact = "no address"      // the Service has no address
)

// Impacts are all impacts, the worst last.
var Impacts = []Impact{Unchecked, Frozen, Partly, Down, NeverUp}

// Text returns the impact as a sentence; empty for no impact.
func (i Impact) Text() say.Text {
	switch i {
	case Unchecked:
		return say.F("Unknown: it could not be checked whether traffic flows.")
	case Frozen:
		return say.F("Each port has a running listener, with the backends of the last sync. Changes since then have no effect.")
	case Partly:
		return say.F("Some ports of the Service take no traffic.")
	case Down:
		return say.F("No traffic arrives: the load balancer is gone, or no port takes traffic.")
	case NeverUp:
		return say.F("No traffic arrives: the Service has no address.")
	}
	return nil
}

// A Phase is the stage of a record in its run.
type Phase string

const (
	Intent  Phase = "intent"  // the plan is decided and about to be applied
	Step    Phase = "step"    // step Next-1 has been applied; the plan goes on with step Next
	Settled Phase = "settled" // the run has ended with Result
)

// A Record is one entry of CASES, and the data of TypeIntent and TypeSettled events.
//
// A record is complete: the last one of a Service and class holds everything that a later run needs, without those before it.
type Record struct {
	// In JSON all fields are at one level, in this order.
	Origin
	Run
	Decision
	Plan
	Progress
	Outcome
	Reads []Read  `json:"reads,omitempty"` // on which the finding is based; in the first record that a run writes after them
	Found []Found `json:"found,omitempty"` // by a scheduled run, for comparison with its next one
}

// An Origin says which case a record is of, and which failure its run answers.
type Origin struct {
	Case      string    `json:"case"` // first 8 digits of the UID, "-", time of the first event
	Cluster   string    `json:"cluster"`
	Class     string    `json:"class"`
	Service   Service   `json:"service"`
	Event     string    `json:"event"`   // id of the CloudEvent that this run answers
	Message   string    `json:"message"` // of that event
	EventTime time.Time `json:"eventTime"`
	Recorded  time.Time `json:"recorded,omitzero"` // when the exporter made the event
	Trace     string    `json:"trace,omitempty"`   // W3C trace context of the event
	Opened    string    `json:"opened,omitempty"`  // that of the event that opened the case, if it is of another trace
}

// A Run says when a run began, its state or result, and what the case has seen before it.
type Run struct {
	Prior    time.Time   `json:"prior,omitzero"` // when the run before this one on the same event ended
	Began    time.Time   `json:"began,omitzero"` // when this run began
	Phase    Phase       `json:"phase"`
	Result   Result      `json:"result,omitempty"` // of a settled run
	At       time.Time   `json:"at"`
	Who      string      `json:"who"`              // host that ran: worker, http, fc, cli
	Person   *Person     `json:"person,omitempty"` // the caller of the command, of a run by cli
	Attempt  int         `json:"attempt"`          // number of the last attempt to write, from 1; 0: no attempt yet
	Attempts []time.Time `json:"attempts"`         // start of each attempt in the last 24 h
	First    time.Time   `json:"first"`            // when the first run of this case began
	Since    time.Time   `json:"since,omitzero"`   // when a case that waits with nothing to write began to wait
	Impact   Impact      `json:"impact,omitempty"` // what users notice, of a case that asks a person or is held back
}

// A Decision says whether the plan is applied, and what decided that.
type Decision struct {
	Mode     string    `json:"mode,omitempty"`
	Rule     say.Text  `json:"rule,omitempty"`     // the rule that decided, as a sentence; of a plan that waits half done, what it waits for
	Decided  say.Text  `json:"decided,omitempty"`  // the rule by which the plan is applied, whatever it waits for in between
	Reason   Reason    `json:"reason,omitempty"`   // what a plan waits for that is to be applied or is being applied
	Held     Hold      `json:"held,omitempty"`     // what holds back a plan that would be applied; nothing of it is written
	Approved *Approved `json:"approved,omitempty"` // who approved the plan
	Undoing  bool      `json:"undoing,omitempty"`  // the steps undo what was written
	Muted    bool      `json:"muted,omitempty"`    // a label says to ask nobody
	Back     time.Time `json:"back,omitzero"`      // when the fix of this failure was undone; from then on a plan needs a person's approval

	Seconded []Approved `json:"seconded,omitempty"` // who else approved, if the policy requires several
	Rejected *Approved  `json:"rejected,omitempty"` // who rejected the plan: nobody is asked about it again
}

// A Plan is what the class found and the steps that it proposes.
type Plan struct {
	Finding say.Text     `json:"finding,omitempty"`
	Cause   string       `json:"cause,omitempty"`
	Risk    string       `json:"risk,omitempty"`
	Steps   []StepRecord `json:"steps,omitempty"`
	Changes []Change     `json:"changes,omitempty"` // what the sync after the steps will also change in the cloud, the most important first
}

// A Progress says how far the plan is applied, and how it left the Service.
type Progress struct {
	Next    int       `json:"next,omitempty"` // index of the first step that isn't applied
	Written time.Time `json:"written,omitzero"`
	Answers time.Time `json:"answers,omitzero"` // time of the answered failure, by the clock that dates failures
	Hash    string    `json:"hash,omitempty"`   // the controller's hash label before the first write
	Left    string    `json:"left,omitempty"`   // digest of the Service's annotations and spec at the intent and after the last write
}

// An Outcome is what a run leaves to others, beside its Result: questions and notes to people; to the next run, when it is due and how
// many runs before it failed.
type Outcome struct {
	Ask     say.Text      `json:"ask,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`   // nanoseconds until the case is looked at again
	Digest  string        `json:"digest,omitempty"` // of the plan: 32 hex digits
	Source  *Source       `json:"source,omitempty"` // the plan as a change for a person to commit, if a GitOps tool owns what it writes
	Note    say.Text      `json:"note,omitempty"`   // what else a person should know
	Error   string        `json:"error,omitempty"`
	Ticket  string        `json:"ticket,omitempty"`
	Errors  int           `json:"errors,omitempty"`  // runs in a row that ended with an error
	Crashes int           `json:"crashes,omitempty"` // runs in a row that never ended
	Timings Timings       `json:"timings,omitzero"`
	Repeats bool          `json:"-"` // the run ended as the last record says: it is counted and leaves no record
}

// A Source is a plan as a change to the source of the Service, which a GitOps tool applies to the cluster. Kind, Name and Object come from labels
// and annotations: strangers write these, so they help a person to find the source, and never decide where anything is sent.
type Source struct {
	Manager string          `json:"manager"`          // the field manager that owns what the plan writes, or the mark of its tool
	Kind    string          `json:"kind,omitempty"`   // Application (Argo CD), Kustomization or HelmRelease (Flux), or Release (Helm)
	Name    string          `json:"name,omitempty"`   // of that; all but an Application with the namespace: flux-system/shop
	Object  string          `json:"object,omitempty"` // the Service as Argo CD tracks it: group/kind:namespace/name
	Patch   json.RawMessage `json:"patch"`            // merge patch of the Service
	Digest  string          `json:"digest"`           // of the plan, which cannot be approved
}

// A Found is one finding of a doctor's check about one object, as CASES keeps it.
type Found struct {
	Key      string   `json:"key,omitempty"`  // distinguishes the check's findings about the object
	Severity string   `json:"severity"`       // warning or critical
	Text     say.Text `json:"text,omitempty"` // empty if there are so many that they are only counted
	Do       say.Text `json:"do,omitempty"`
}

// A Change is one thing that a full sync of the Service will change in the cloud.
type Change struct {
	Balancer string   `json:"balancer,omitempty"` // ID of the load balancer; empty: not created yet, or not found
	What     string   `json:"what"`               // such as "listener tcp:80", "group k8s/30080/web/shop/c1", "tag team", "spec" or "load balancer"
	How      say.Text `json:"how"`                // a clause
	Down     bool     `json:"down,omitempty"`     // traffic is interrupted, permanently or for a while
	Sets     bool     `json:"sets,omitempty"`     // overwrites a value that somebody has set
	Unknown  bool     `json:"unknown,omitempty"`  // whether it will change could not be determined
}

// NextAttempt returns the number of the next attempt to write.
func (r Record) NextAttempt() int { return max(r.Attempt, len(r.Attempts)) + 1 }

// Done reports whether all steps of the plan have been applied.
func (r Record) Done() bool { return len(r.Steps) > 0 && r.Next == len(r.Steps) }

// Idle reports whether the record is of a case that waits and writes nothing.
func (r Record) Idle() bool {
	return r.Phase == Settled && r.Result == Waiting && (len(r.Steps) == 0 || r.Held != "")
}

// Lasting reports whether the case has asked after waiting in vain. It need not wait again while its failure comes back.
func (r Record) Lasting() bool {
	return r.Phase == Settled && r.Result == Asked && !r.Since.IsZero()
}

// digits may differ between sentences with the same meaning.
var digits = regex.New(`[0-9]+`)

// SameEnd reports whether two records of a Service and class say the same of how their runs ended, numbers aside.
func (r Record) SameEnd(other Record) bool { return r.end() == other.end() }

func (r Record) end() string {
	var all strings.Builder
	steps := 0
	for _, s := range r.Steps {
		steps += len(s.Text.String())
	}
	fmt.Fprintln(&all, r.Result, r.Reason, r.Held, r.Digest, r.Cause, r.Risk, r.Mode, r.Muted, r.Impact, r.Attempt, r.Next, steps, r.Undoing,
		r.Written.UnixNano(), r.Since.UnixNano(), r.Approved != nil)
	if s := r.Source; s != nil {
		fmt.Fprintln(&all, s.Kind, s.Name, s.Object, s.Digest)
	}
	for _, t := range []say.Text{r.Finding, r.Ask, r.Note, r.Rule, say.Literal(r.Error)} {
		fmt.Fprintf(&all, "%q\n", digits().ReplaceAllString(t.String(), "#"))
	}
	return all.String()
}

// Made returns the applied steps, and the next one if it may have been applied.
func (r Record) Made() []StepRecord {
	n := max(0, min(r.Next, len(r.Steps))) // anybody with access to NATS can forge a record
	if n < len(r.Steps) && r.Steps[n].Unknown {
		n++
	}
	return r.Steps[:n]
}

// Wrote reports whether a step was made, or may have been, that did more than trigger a resync.
func (r Record) Wrote() bool {
	return slices.ContainsFunc(r.Made(), func(s StepRecord) bool { return !s.ResyncOnly && !s.Found })
}

// A StepRecord is one step of a plan as CASES keeps it.
type StepRecord struct {
	Kind       string          `json:"kind"`
	Text       say.Text        `json:"text"` // what it does, in the imperative
	Target     string          `json:"target"`
	Risk       string          `json:"risk"`
	Step       json.RawMessage `json:"step"`
	Undo       *Undo           `json:"undo,omitempty"`       // absent: it can't be undone
	ResyncOnly bool            `json:"resyncOnly,omitempty"` // it only triggers a resync: nothing to undo
	Began      time.Time       `json:"began,omitzero"`       // when it was about to be applied
	Ended      time.Time       `json:"ended,omitzero"`       // when it was found to be applied
	Found      bool            `json:"found,omitempty"`      // somebody else had applied it already: nothing was written
	Calls      []Call          `json:"calls,omitempty"`      // what was written
	// Unknown means that a run which died, or got no answer, may have applied it, and that no look has settled this since.
	Unknown bool `json:"unknown,omitempty"`
}

// An Undo describes how a step is undone. The undo itself is worked out from the step.
type Undo struct {
	Kind string   `json:"kind"`
	Text say.Text `json:"text"`
}

// Timings say how long each phase of a run took, and the controller, in nanoseconds.
type Timings struct {
	Queue    time.Duration `json:"queue,omitempty"` // from the event's time to the start of the run
	Resume   time.Duration `json:"resume,omitempty"`
	Diagnose time.Duration `json:"diagnose,omitempty"`
	Decide   time.Duration `json:"decide,omitempty"`
	Apply    time.Duration `json:"apply,omitempty"`
	Verify   time.Duration `json:"verify,omitempty"`
	// Sync is from the write to the controller's full sync, by the API server's clock.
	Sync time.Duration `json:"sync,omitempty"`
}
