// Package engine decides what to do about failures, has it done, and remembers it. Begin with [Run], and with README.md, which explains
// the terms, a run, and the seven rules that the code keeps.
//
// Package machine holds the decisions, as a pure function. This package performs their effects (drive.go): it stores the document, flushes
// the journal, has the hand look (diagnose.go, decide.go, verify.go), reads what may hold an order back (apply.go, hold.go), takes places in
// budgets and claims, and sends orders. It records each decision for people (record.go).
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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

// An Env is what runs share: the cluster, the hands, the stream and the policy. It is safe for concurrent use by any number of runs.
type Env struct {
	Cluster string                                              // ID of the cluster
	Stream  *stream.Stream                                      // documents, failures, the journal; nil: Look only
	Kube    *kube.Cluster                                       // what the engine itself reads: Services, namespaces, Events
	Hand    func(*remedy.Remedy) hand.Hand                      // acts with the rights of a class
	Policy  func(context.Context) (remedy.Policy, error)        // read before each step; an error pauses
	Decode  func(kind string, data []byte) (remedy.Step, error) // decodes a stored step
	Engine  *document.Holder                                    // the engine of the runs; nil: each run starts its own
	Who     string                                              // worker, http, fc or cli, for the record
	Person  *event.Person                                       // who called the command, for the record; nil: not a person
	Agreed  *approval.Agreement                                 // of that person to one plan; nil if absent
	Bound   time.Duration                                       // a run ends by then; zero: 2 min
	Watch   time.Duration                                       // how long a run watches for success; zero: 60 s
	Busy    func() bool                                         // others wait for the place of a run that only watches; nil: never
	Now     func() time.Time                                    // nil: time.Now
	Log     *slog.Logger                                        // nil: discarded
}

// Documents returns the store of the cluster's documents.
func (e *Env) Documents() document.Store {
	return document.Store{Stream: e.Stream, Cluster: e.Cluster, Holder: e.Engine, Now: e.Time}
}

// started returns the Env with an engine; stop ends the engine if started created it.
func (e *Env) started(ctx context.Context) (env *Env, stop func()) {
	if e.Engine != nil || e.Stream == nil {
		return e, func() {}
	}
	own := *e
	own.Engine = document.Start(ctx, e.Stream, e.Cluster, e.Log)
	return &own, own.Engine.Stop
}

// The time limits of runs.
const (
	defaultBound = 2 * time.Minute
	defaultWatch = time.Minute
	busyWatch    = 200 * time.Millisecond // wait for a moment to write, where others wait: the stream brings the case back
	fresh        = 5 * time.Second        // older reads are repeated before a write
	stale        = 15 * time.Minute       // work that waited longer is diagnosed afresh
	attemptsFor  = 24 * time.Hour         // attempts to write are counted over this window
	claimFor     = 10 * time.Minute       // how long a claim is held
	byCause      = 30 * time.Second       // until the class looks for its cause again after a plan that wrote nothing to the Service
	proofCLB     = ccm.Retry + grace      // without a sign of success by then, a write did not work
	proofNLB     = 2 * ccm.Retry          //
	grace        = 2 * time.Minute        // duration of a sync, including its time in the queue
	staleEvent   = 30 * time.Second       // a failure this soon after a write may be from before it
	heldRecheck  = 5 * time.Minute        // a case held by a pause or freeze is diagnosed again after this, and counts as looked at until then
)

// Time returns the current time by the Env's clock.
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
	if e.busy() {
		return min(watch, busyWatch)
	}
	return watch
}

func (e *Env) busy() bool { return e.Busy != nil && e.Busy() }

// Logger returns the logger of the Env.
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
	Again   bool // a person asks: answer even if the event is settled
}

// Run answers one event for one class and returns the stored record. After an error, deliver the event again, after the record's Wait if it has one.
func Run(ctx context.Context, env *Env, r *remedy.Remedy, ev Event) (event.Record, error) {
	env, stop := env.started(ctx)
	defer stop()
	return answer(ctx, env, r, ev, func(ctx context.Context, x *run) (event.Record, error) { return x.phases(ctx) })
}

// Look returns what Run would do and writes nothing: not in the cluster, the cloud or NATS.
func Look(ctx context.Context, env *Env, r *remedy.Remedy, ev Event) (event.Record, error) {
	return answer(ctx, env, r, ev, func(ctx context.Context, x *run) (event.Record, error) { return x.look(ctx) })
}

func answer(ctx context.Context, env *Env, r *remedy.Remedy, ev Event, do func(context.Context, *run) (event.Record, error)) (rec event.Record, err error) {
	defer func() {
		if p := recover(); p != nil { // one object must not stop the others; three such runs that hold it become a question
			env.Logger().Error("run panicked", "class", r.Class, "event", ev.ID, "panic", event.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
			rec, err = unread, fmt.Errorf("the run panicked: %v", p)
		}
		err = event.Safe(err)
	}()
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	x, err := newRun(env, r, ev)
	if err != nil {
		return event.Record{}, err
	}
	defer x.leave()
	return do(ctx, x)
}

// look finds out what run would do. For a person with a stream it meets the same guards. A case that is not stored has no ID yet.
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
	if mine := x.object.Decided(); mine.Plan != nil {
		return x.under(), nil
	}
	rec, err := x.drive(ctx, machine.Delivered{Event: x.ev.ID, Again: true, Lives: x.object.State.Holder != ""})
	if rec.Case != x.prev.Case {
		rec.Case = ""
	}
	return rec, err
}

func (x *run) under() event.Record {
	x.rec.Phase, x.rec.Result = "", event.Waiting
	x.rec.Note = x.rec.Note.Then(say.F("A plan is under way for this failure. No other one is made, and this one goes on."))
	return x.rec
}

type run struct {
	env      *Env
	r        *remedy.Remedy
	ev       Event
	failed   time.Time    // of the failure in hand, by the clock that dated it: compare it only with times of that clock
	c        *remedy.Case // what is known of the case; only a hand reads more
	hand     hand.Hand
	object   *document.Object  // its document
	dry      bool              // it only looks
	person   bool              // it undoes for a person
	rec      event.Record      // the content of the next append
	prev     event.Record      // the last record of the class
	stored   bool              // the document has what the look has read
	plan     remedy.Plan       // made by the class in this run
	steps    []remedy.Step     // of the plan, or of the undo
	risk     remedy.Risk       // of the plan, computed in this run
	claimed  int               // how often the class chose a taken place
	taken    bool              // an earlier run's plan, which must be judged
	resumed  bool              // an earlier run's plan goes on, and CASES does not say so yet
	refusal  error             // why the plan in the document can't be taken over
	checked  bool              // a look has found the step made
	reserved bool              // this plan has the moment to trigger a sync
	undoer   *undoer           // of an undo; nil: not begun
	around   map[string]string // labels of the namespace; nil: unknown
	known    guards            // as last read
	unlock   func()            // nil: the targets are not locked
	log      *slog.Logger
	clock    time.Time      // when the present phase began
	at       time.Time      // when the machine last decided
	into     *time.Duration // takes the time of the present phase if the run ends in it; nil: no phase is being timed

	// How the run ends.
	cause     error          // nil: without an error
	unclear   bool           // it is unknown what is allowed
	held      *hold          // what holds the plan back
	want      remedy.Consent // that the plan needs
	unsettled say.Text       // why the attempt counts as one that did not work
	dropped   bool           // its plan is over, and the case is diagnosed again
	intended  bool           // the document has had the plan
	tried     bool           // this case has had an attempt before
	rested    bool           // the document says how the run has ended
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

// ErrForeign means that an event is for another host; it must not be delivered again.
var ErrForeign = errors.New("not for this host")

// An unreadable is an error that leaves open what is allowed.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

func (e *Env) policy(ctx context.Context) (remedy.Policy, error) {
	p, err := e.Policy(ctx)
	if err != nil {
		return remedy.Policy{}, unreadable{fmt.Errorf("read the policy: %w", err)}
	}
	return p, nil
}

// unclear reports whether an error leaves open what is allowed, which counts as a pause however long it lasts.
func unclear(err error) bool {
	return errors.As(err, new(unreadable)) || errors.Is(err, control.ErrUnreadable)
}
