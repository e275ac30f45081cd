// Package engine decides what is done about failures, has it done, and remembers it.
//
// # The words
//
//   - An engine is a process that works on failures ([document.Holder]): it has a name, and a heartbeat in the bucket.
//   - A run answers one failure for one class ([Run]), within [Env.Bound].
//   - An object is what a failure is about: a Service, mostly.
//   - A document is what is known of an object (package document), in one key of the bucket, state.<cluster>.<uid>. Its holder is the engine
//     that works on the object.
//   - A case is what is known of the failures of one object and class: the newest record, the attempts that can be undone, and counts.
//   - A hand does what needs the rights of a class (package hand): it looks, or makes one step. It may be a function elsewhere.
//   - An order tells a hand to make one step. It has an ID and an expiry, after which no hand begins to write.
//   - The audit is the stream CASES. Records are appended to it, and nothing is decided from it.
//
// # How a run goes
//
// It reads the document, and tells the machine that a failure was delivered. The machine (package machine) is a pure
// function: it takes the document and a report, and returns the document as it is to be stored and the effects that follow. The run
// performs them in order, and reports what came of them (drive.go): it stores the document, flushes the audit, has the hand look
// (diagnose.go, decide.go, verify.go), reads what may hold an order back (apply.go, hold.go), takes places in budgets and claims, and
// sends orders. What the machine has decided is put into a record for people (record.go). So what is decided can be
// explored without a cluster, and what is read and said is here.
//
// A run that waits between two steps ends, and the next one goes on from the document. One that takes a plan over asks the class again
// as long as no step is made, and works out risk and approval anew: what a record says of them is for people.
//
// # The seven rules
//
//  1. No step made: look again. A step made, or possibly made: go on from the document, after the step was checked. An order of which
//     that is unknown stays in the document until a look has found it out, and keeps other classes from writing to the object.
//  2. An engine is dead when its heartbeat is 15 s older than the reader's own, by the clock of NATS, both from one answer. A run
//     that finds an object held by a dead engine counts a crash; three crashes in a row become a question. A run that takes longer
//     than its time loses its object. After an order without an answer nothing is sent for the object until the
//     order has expired and a minute has passed; then the step is checked.
//  3. Before each order the run has written the document within a second. Pause, breakers and the document itself are read in one answer,
//     and the document must have that revision: a node of NATS that is cut off answers old values for a while. Policy and
//     approvals come from the API server, and what can't be read pauses.
//  4. An order, its ID and its expiry are stored before it is sent, and its answer before the next one.
//  5. A case that waits has a time and a reason in its document, and the stream brings its failure back then.
//  6. A record is stored in the document, in its outbox, and then appended to CASES, in order and once. No order is sent
//     while the outbox holds anything, so that a full CASES stops all writes. A run that ends as the one before is counted in the
//     document and leaves no record; of runs that write nothing and end in another way each time, eight in a row leave one, and then
//     one an hour.
//  7. Budgets, claims, breakers and pauses are documents of package control.
//
// A document has a size limit. An attempt keeps what an undo needs of it, records are appended to CASES before they would crowd others out, and
// a plan that has no room is a question to a person.
//
// # Where the code differs from the design
//
//   - A document leaves the bucket 30 days after its last write, as its records leave CASES.
//   - Times are the engine's own, but for heartbeats and for how long an order has been out, which are those of NATS.
//   - A plan that began more than a quarter of an hour ago does not go on: what is made of it stays in the document, and the class is asked again.
//   - A run that only watches gives its place up where others wait for it ([Env.Crowded]). A plan that is parked until its moment to trigger
//     a resync keeps that moment, or with many waiting nobody's would ever come.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An Env is what runs share: the cluster, the hands, the stream and the policy.
// It is safe for any number of runs at once.
type Env struct {
	Cluster string                                              // ID of the cluster
	Stream  *stream.Stream                                      // documents, failures, the audit; nil: Look only
	Kube    *kube.Cluster                                       // what the engine itself reads: Services, namespaces, Events
	Hand    func(*remedy.Remedy) hand.Hand                      // does for a class what needs its rights
	Policy  func(context.Context) (remedy.Policy, error)        // read before each step; an error pauses
	Decode  func(kind string, data []byte) (remedy.Step, error) // makes a stored step again
	Engine  *document.Holder                                    // that the runs are of; nil: each run is one of its own
	Who     string                                              // worker, http, fc or cli, for the record
	Person  *event.Person                                       // who called the command, for the record; nil: nobody did
	Agreed  *approval.Agreement                                 // of that person to one plan; nil if absent
	Bound   time.Duration                                       // a run ends by then; zero: 2 min
	Watch   time.Duration                                       // how long a run watches for success; zero: 60 s
	Crowded func() bool                                         // others wait for the place of a run that only watches; nil: never
	Now     func() time.Time                                    // nil: time.Now
	Log     *slog.Logger                                        // nil: discarded
}

// Documents returns where the documents of the cluster are.
func (e *Env) Documents() document.Store {
	return document.Store{Stream: e.Stream, Cluster: e.Cluster, Holder: e.Engine, Now: e.Time}
}

// started returns the Env with an engine, which stop ends if it is one of its own.
func (e *Env) started(ctx context.Context) (env *Env, stop func()) {
	if e.Engine != nil || e.Stream == nil {
		return e, func() {}
	}
	own := *e
	own.Engine = document.Start(ctx, e.Stream, e.Cluster, e.Log)
	return &own, own.Engine.Stop
}

// Limits of time.
const (
	defaultBound = 2 * time.Minute
	defaultWatch = time.Minute
	glance       = 200 * time.Millisecond // for its moment to write, where others wait: the stream brings the case back
	fresh        = 5 * time.Second        // reads older than this are made again before a write
	stale        = 15 * time.Minute       // work that waited longer is diagnosed afresh
	attemptsFor  = 24 * time.Hour         // attempts to write are counted over this
	claimFor     = 10 * time.Minute       // how long a claim is held
	byCause      = 30 * time.Second       // until the class looks for its cause again where nothing was written to the Service
	proofCLB     = ccm.Retry + grace      // without a sign of success by then a write did not work
	proofNLB     = 2 * ccm.Retry          //
	grace        = 2 * time.Minute        // that a sync takes, with what it queues for
	echo         = 30 * time.Second       // a failure this soon after a write may be from before it
	glimpsed     = 5 * time.Minute        // what a pause or freeze holds is diagnosed again after this, and counts as looked at
)

// Time returns the time by the clock of the Env.
func (e *Env) Time() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

func (e *Env) bound() time.Duration {
	if e.Bound > 0 {
		return e.Bound
	}
	return defaultBound
}

func (e *Env) watch() time.Duration {
	watch := cmp.Or(e.Watch, defaultWatch)
	if e.crowded() {
		return min(watch, glance)
	}
	return watch
}

// crowded reports whether others wait for the place of a run that only waits.
func (e *Env) crowded() bool { return e.Crowded != nil && e.Crowded() }

// Logger returns where the Env logs to.
func (e *Env) Logger() *slog.Logger {
	if e.Log != nil {
		return e.Log
	}
	return slog.New(slog.DiscardHandler)
}

// An Event is what a run answers.
type Event struct {
	ID      string // of the CloudEvent
	Failure event.Failure
	Again   bool // a person asks: answer also if the event is settled
}

// Run answers one event for one class and returns how it ended. The record it
// returns is in the document. An error means that the run could not find out or
// could not write; the record, if it has a Wait, says when to come back, and the
// event must be delivered again.
func Run(ctx context.Context, env *Env, r *remedy.Remedy, ev Event) (event.Record, error) {
	env, stop := env.started(ctx)
	defer stop()
	return answer(ctx, env, r, ev, func(ctx context.Context, x *run) (event.Record, error) { return x.phases(ctx) })
}

// Look answers what Run would do, and writes nothing, neither in the cluster nor
// in the cloud nor in NATS.
func Look(ctx context.Context, env *Env, r *remedy.Remedy, ev Event) (event.Record, error) {
	return answer(ctx, env, r, ev, func(ctx context.Context, x *run) (event.Record, error) { return x.look(ctx) })
}

// answer has a run do what it is for, within its time.
func answer(ctx context.Context, env *Env, r *remedy.Remedy, ev Event, do func(context.Context, *run) (event.Record, error)) (rec event.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	x, err := newRun(env, r, ev)
	if err != nil {
		return event.Record{}, err
	}
	defer func() { err = event.Safe(err) }()
	defer x.leave()
	return do(ctx, x)
}

// look finds out what run would do. Where a person asks and a stream is at hand it meets the
// same guards. A case that the document does not hold has no ID yet.
func (x *run) look(ctx context.Context) (event.Record, error) {
	x.dry = true
	if err := x.load(ctx); err != nil {
		return x.rec, err
	}
	if !x.ev.Again {
		x.object.State = machine.Doc{}
	}
	x.begin()
	x.sign()
	rec, err := x.drive(ctx, machine.Delivered{Event: x.ev.ID, Again: true, Lives: x.object.State.Holder != ""})
	if rec.Case != x.prev.Case {
		rec.Case = ""
	}
	return rec, err
}

// under returns what there is to say where a look does not diagnose: a plan is under way.
func (x *run) under() event.Record {
	x.rec.Phase, x.rec.Result = "", event.Waiting
	x.rec.Note = x.rec.Note.Then(say.F("A plan is under way for this failure. No other one is made, and this one goes on."))
	return x.rec
}

// A run is what the phases of one Run share.
type run struct {
	env      *Env
	r        *remedy.Remedy
	ev       Event
	failed   time.Time    // of the failure in hand, as who dated it says: compared with such times alone
	c        *remedy.Case // what is known of the case; only a hand reads more
	hand     hand.Hand
	object   *document.Object  // its document
	dry      bool              // it only looks
	person   bool              // it undoes for a person
	rec      event.Record      // what the next append says
	prev     event.Record      // the last record of the class
	told     bool              // the document has what the look has read
	plan     remedy.Plan       // that the class has made in this run
	steps    []remedy.Step     // of the plan, or of the undo
	risk     remedy.Risk       // of the plan, worked out in this run
	claimed  int               // how often the class chose a place that was taken
	taken    bool              // the plan is of an earlier run, and must be judged
	resumed  bool              // it is, and CASES does not say that it goes on
	refusal  error             // the plan in the document can't be taken over
	checked  bool              // a look has found the step made
	reserved bool              // the moment to make the controller sync is this plan's
	reversal *reversal         // of an undo; nil: it has not begun
	around   map[string]string // labels of the namespace; nil: they are not known
	known    guards            // as they were read last
	unlock   func()            // nil: the targets are not locked
	log      *slog.Logger
	clock    time.Time      // when the present phase began
	at       time.Time      // when the machine decided last
	into     *time.Duration // takes the time of the present phase if the run ends in it; nil: no phase is being timed

	// How the run ends.
	cause     error          // nil: without an error
	unclear   bool           // nobody knows what is allowed
	held      *hold          // what holds the plan back
	want      remedy.Consent // that the plan needs
	unsettled say.Text       // why the attempt counts as one that did not work
	dropped   bool           // its plan is over, and the case is diagnosed again
	intended  bool           // the document has had the plan
	tried     bool           // this case has had an attempt before
	rested    bool           // the document says how it has ended
	acked     bool           // the failure or the request is answered
	lives     bool           // another run has the object
	began     bool           // the run has worked on the case
	recorded  bool           // it has stored a record
}

func newRun(env *Env, r *remedy.Remedy, ev Event) (*run, error) {
	ev.Failure.Message = event.Redact(ev.Failure.Message)
	failed := ev.Failure.Last
	ev.Failure = ev.Failure.Dated(env.Time())
	f := ev.Failure
	if f.Cluster != env.Cluster {
		return nil, fmt.Errorf("%w: the event is of cluster %q, and this is %q", ErrForeign, f.Cluster, env.Cluster)
	}
	if !r.Answers(f.Service.Kind) && !f.Probe() { // a probe ends before the class is asked
		return nil, fmt.Errorf("%w: class %s does not answer for a %s", ErrForeign, r.Class, f.Service.Kind)
	}
	log := env.Logger().With("class", r.Class, "cluster", f.Cluster, "namespace", f.Service.Namespace, "service", f.Service.Name, "event", ev.ID)
	x := &run{
		env: env, r: r, ev: ev, failed: failed, log: log, clock: env.Time(),
		c: &remedy.Case{View: ccm.View{Cluster: f.Cluster}, Event: f, Now: env.Time(), Taken: map[string]bool{}, Remedy: r},
	}
	if env.Hand != nil {
		x.hand = env.Hand(r)
	}
	return x, nil
}

// ErrForeign says that an event is not for this host: it must not come back.
var ErrForeign = errors.New("not for this host")

// An unreadable is an error that leaves open what is allowed.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// policy reads the policy in force.
func (e *Env) policy(ctx context.Context) (remedy.Policy, error) {
	p, err := e.Policy(ctx)
	if err != nil {
		return remedy.Policy{}, unreadable{fmt.Errorf("read the policy: %w", err)}
	}
	return p, nil
}

// unclear reports whether an error leaves open what is allowed: that is a pause, however long it lasts.
func unclear(err error) bool {
	return errors.As(err, new(unreadable)) || errors.Is(err, control.ErrUnreadable)
}
