// Package machine decides what an engine does for one object. Next takes the object's document and a report of an event; it returns
// the new document and the effects that follow. It has no I/O, no clock and no goroutine. Begin with Next in next.go, then read
// proceed.
//
// With two engines, and crashes and late or lost answers at any point, it guarantees:
//
//   - At most one order is out for an object.
//   - An order is stored before it is sent, and is sent only under current guards.
//   - Every case ends or becomes a question.
//   - Every step that was made can be undone.
//
// The tests explore all reachable states of small scopes and show that they detect the loss of each rule.
package machine

import "time"

// A State is the state of a case.
type State string

// In the first three states a case rests; in the others a run works on it, and the document has a holder.
const (
	Idle      State = "idle"      // nothing is open
	Asked     State = "asked"     // a person has to decide or do something
	Waiting   State = "waiting"   // it comes back after its wait
	Looking   State = "looking"   // no step is made; the class diagnoses
	Applying  State = "applying"  // a plan has begun
	Verifying State = "verifying" // all steps are made; the proof is pending
	Undoing   State = "undoing"   // made steps are being undone
)

// A Why is the code of a wait.
type Why string

const (
	ForErrors  Why = "errors"  // a call failed
	ForGuards  Why = "guards"  // the guards could not be read, or showed another document
	ForUnknown Why = "unknown" // the class could not decide
	ForJournal Why = "journal" // the journal takes no record
	ForCause   Why = "cause"   // the class expects the failure to end without a write
	ForMoved   Why = "moved"   // the target changed under the plan
	ForPause   Why = "pause"   // a pause or a freeze
	ForPolicy  Why = "policy"  // policy, breaker or a person hold back the rest of the plan
	ForStep    Why = "step"    // the next step is not due yet
	ForPlace   Why = "place"   // a budget or a claim has no place left
	ForOther   Why = "other"   // the plan of another class has begun
	ForAnswer  Why = "answer"  // an unanswered order may still write
	ForSync    Why = "sync"    // the controller has not synced yet
	ForRetry   Why = "retry"   // the plan is over without proof, and the class is asked again
	ForCrash   Why = "crash"   // the holder died; the wait is over at once
)

// A Wait is the only form of "later". For a question, Why says what has lasted or stopped an undo.
type Wait struct {
	Until time.Time `json:"until,omitzero"`
	Why   Why       `json:"why,omitempty"`
}

// An Outcome is the code of a case's end or question. Looked and Guarded bring others: fixed, gone, needs-action, observed.
type Outcome string

// The outcomes that the machine itself decides.
const (
	Undone        Outcome = "undone"
	NeedsApproval Outcome = "needs-approval"
	Spent         Outcome = "spent"   // no attempt is left
	Lasts         Outcome = "lasts"   // no progress for an hour
	Crashed       Outcome = "crashed" // three runs in a row never ended
	Stopped       Outcome = "stopped" // a person's undo could not go on
	Drift         Outcome = "drift"   // of the policy's undo: somebody else has changed a target
	Denied        Outcome = "denied"  // of the policy's undo: the policy does not permit the rest
)

// A Doc is the part of an object's document that decisions use.
type Doc struct {
	Revision uint64  `json:"-"`                // of the document in the bucket; kept by the driver, not stored
	Nonce    string  `json:"nonce"`            // of the last write
	Holder   string  `json:"holder,omitempty"` // engine that works on it; empty: no engine does
	Active   string  `json:"active,omitempty"` // class whose plan or undo has begun; other classes get no order
	Order    *Order  `json:"order,omitempty"`  // the order that is out or has no known result; stored before it is signed
	Cases    []Case  `json:"cases,omitempty"`  // sorted by class
	Outbox   []Entry `json:"outbox,omitempty"`
}

// A Case is a failure of one object and class.
type Case struct {
	Class    string      `json:"class"`
	State    State       `json:"state"`
	Event    string      `json:"event,omitempty"`   // ID of the newest failure taken up
	Request  uint64      `json:"request,omitempty"` // newest request of a person to undo that was taken up
	Wait     Wait        `json:"wait,omitzero"`
	Outcome  Outcome     `json:"outcome,omitempty"` // of the newest end or question
	Attempt  int         `json:"attempt,omitempty"` // number of the newest plan that began; reused only if nothing of it was made
	Attempts []time.Time `json:"attempts,omitempty"`
	Since    time.Time   `json:"since,omitzero"`    // start of the time without progress; zero: there is progress
	Failing  time.Time   `json:"failing,omitzero"`  // since when each run has ended with an error; zero: the last one has not
	Errors   int         `json:"errors,omitempty"`  // in a row, up to the longest back-off
	Crashes  int         `json:"crashes,omitempty"` // runs in a row that never ended
	Plan     *Plan       `json:"plan,omitempty"`
	Undo     *Undo       `json:"undo,omitempty"`
	Done     []Attempt   `json:"done,omitempty"` // at most 3, oldest first
	Own      int         `json:"own,omitempty"`  // how many of Done, the newest, belong to the case that is open or ended last; an undo covers only these
	Back     bool        `json:"back,omitempty"` // a person has begun to undo a fix of this failure: the policy alone permits no other
}

// A Plan is what was planned, and its progress.
type Plan struct {
	Steps    int           `json:"steps"`
	Proof    time.Duration `json:"proof"`              // how long to wait for proof after the last step
	Next     int           `json:"next,omitempty"`     // first step not known to be made
	Approved bool          `json:"approved,omitempty"` // approved by a person: it takes no place of a budget
	Begun    time.Time     `json:"begun,omitzero"`
	Written  time.Time     `json:"written,omitzero"` // of the last made step
}

// An Undo is a requested undo. Neither a pause nor the policy holds back a person's. If it can't go on, it ends as a question.
type Undo struct {
	Person bool `json:"person,omitempty"` // requested by a person, not by the policy
	Begun  bool `json:"begun,omitempty"`  // all targets were checked, and an order was stored
}

// An Attempt is a plan that is over and may be undone.
type Attempt struct {
	Number int       `json:"number"`
	Steps  int       `json:"steps"`           // number of its first steps that are made
	Maybe  bool      `json:"maybe,omitempty"` // the next step may be made
	Begun  time.Time `json:"begun"`
}

// An Order is a write that an engine asks a hand to make.
type Order struct {
	ID      string    `json:"id"`
	Class   string    `json:"class"`
	Attempt int       `json:"attempt"`
	Step    int       `json:"step"`
	Undo    bool      `json:"undo,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero: its answer came
}

// An Entry is a journal record that is not known to be appended.
type Entry struct {
	Class   string `json:"class"`
	Attempt int    `json:"attempt,omitempty"`
	Code    string `json:"code"` // an outcome, or planned, made, unmade or passed
	Step    int    `json:"step,omitempty"`
}

// An Input is one report and its circumstances.
type Input struct {
	Now    time.Time // the server's
	Engine string    // that asks; every start of an engine has a new name
	Nonce  string    // never used before
	Class  string    // whose failure the run handles
	Person bool      // the run handles a person's request to undo, not a failure
	Report Report
}

// A Report says what has happened: a Delivered, UndoAsked, Looked, Guarded, Taken, Flushed or Applied.
type Report any

// Delivered begins a run: the stream has delivered a failure, for the first time or again.
type Delivered struct {
	Event string
	Lives bool // the document's holder has a fresh heartbeat, and, if it is this engine, a run
	Again bool // a person has answered: the case is looked at now, unless an order is out
	Old   bool // the failure is from before the case's end as fixed or undone, which answers it
}

// UndoAsked begins a run: a person asks to undo the writes of the case that is open or ended last.
type UndoAsked struct {
	Request uint64
	Lives   bool // as in Delivered
	Own     int  // how many of the newest attempts belong to the case, if another case has begun since without a write
}

// Looked is the answer of a look; the document says what it was for.
type Looked struct {
	Answer   Answer
	Outcome  Outcome       // of Gone, Superseded, Proven and Works: how the case ends; of Person, and of Changed if a person has to know of it: the question
	Plan     Plan          // of Planned
	After    time.Duration // of NotYet and Unknown: when to look again; zero: the machine chooses
	Patience time.Duration // of NotYet: how long that may last; zero: an hour
	Spent    bool          // of StillFails, and of NotYet when the proof is overdue: the policy permits no further attempt on this day
	Undoes   bool          // beside Spent: the policy undoes fixes that did not work
}

// An Answer is the result of a look.
type Answer string

// The answers, by the purpose of the look.
const (
	Failed  Answer = "error"
	Unread  Answer = "unread" // it is unknown what is allowed
	Unknown Answer = "unknown"
	Gone    Answer = "gone" // of the object or its failure

	Superseded Answer = "superseded"  // Diagnose, Prove: another class is newer, and this cause is gone
	Planned    Answer = "plan"        // Diagnose
	Person     Answer = "person"      // Diagnose: only a person can end it
	NotYet     Answer = "not yet"     // Diagnose, Prove
	Proven     Answer = "proven"      // Prove
	Changed    Answer = "changed"     // Prove: somebody changed the object after the last step
	StillFails Answer = "still fails" // Prove: the same failure came again

	Made    Answer = "made"    // Check
	Unmade  Answer = "unmade"  // Check
	Clear   Answer = "clear"   // Bars: all targets are as the steps left them
	Works   Answer = "works"   // Bars: the fix works by now
	Drifted Answer = "drifted" // Check, Bars: a target is neither as found nor as left
)

// Guarded holds control, budgets, approvals, the policy and the object before an order, read in one request with the document.
type Guarded struct {
	Revision  uint64        // of the document in the answer
	Readable  bool          // all was read
	Journaled bool          // all of the outbox is in the journal
	Failed    bool          // something else could not be read or kept
	Moved     bool          // the class would now make another plan, or its target has changed; with an Outcome, which becomes the question
	Over      Outcome       // how the case ends if the object or its failure is gone
	Outcome   Outcome       // holds back a plan whoever approves it: observe mode, or a rejection before the first step
	Paused    bool          // by a pause or a freeze
	Hold      time.Duration // how long the pause lasts; zero: the machine chooses
	Permits   bool          // policy and breaker permit the plan
	Approved  bool          // a person has approved the plan for the next attempt, or for the one that has begun
	Place     bool          // budgets and claims show the place taken for the attempt
	Due       time.Duration // until the next step is due: the one before it takes a while to act, or its moment is reserved
	Undoes    bool          // the policy undoes fixes that did not work
	Attempts  int           // that the policy permits in a day
}

// Taken says whether budgets and claims had a place for the attempt.
type Taken struct {
	OK    bool
	After time.Duration // until a place may be free; zero: the machine chooses
	Again bool          // a claim is full: the class is asked for a plan without it, in the same run
}

// Flushed says whether the journal has the whole outbox.
type Flushed struct{ OK bool }

// Applied is the answer of an order.
type Applied struct {
	ID     string
	Result Result
}

// A Result is the result of an order.
type Result string

// The results. Partly, Unsure and NoAnswer leave open whether the step was made.
const (
	Done     Result = "done"
	Found    Result = "found"    // it was made before
	Moved    Result = "moved"    // its target is not as planned; nothing was written
	Blocked  Result = "blocked"  // nothing was written
	Refused  Result = "refused"  // an error before any write
	Partly   Result = "partly"   // an error after a write; nothing is on its way any more
	Unsure   Result = "unsure"   // the hand has sent a write and got no answer
	NoAnswer Result = "noanswer" // the call failed or timed out
)

// An Effect is the driver's next action: a Store, Flush, Look, Guard, Take, Send, Return or Ack.
type Effect any

// Store compares the document's revision and stores the document that Next returned.
type Store struct{}

// Flush appends the outbox to the journal, each entry once.
type Flush struct{}

// Look asks the hand to read.
type Look struct {
	For  Purpose
	Step int  // of Check
	Undo bool // of Check: look at the step's undo
}

// A Purpose is what a look is for.
type Purpose string

// The purposes.
const (
	Diagnose Purpose = "diagnose"
	Check    Purpose = "check" // was this step made?
	Bars     Purpose = "bars"  // may all made steps be undone?
	Prove    Purpose = "prove"
)

// Guard appends the outbox to the journal and then reads the contents of Guarded.
type Guard struct{}

// Take takes places in the budgets and claims; the attempt keeps its own.
type Take struct {
	Attempt  int
	Approved bool // places of claims only
}

// Send signs the order and gives it to the hand, once.
type Send struct{ Order Order }

// Return ends the run; its failure or request is delivered again.
type Return struct{ After time.Duration }

// Ack ends the run; its failure or request is answered.
type Ack struct{}
