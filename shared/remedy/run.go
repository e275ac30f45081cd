package remedy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An Env is what runs share: the cluster, the cloud, the stream and the policy.
// It is safe for any number of runs at once.
type Env struct {
	Cluster     string         // ID of the cluster
	Stream      *stream.Stream // the journal, the locks; nil: Look only
	Kube        *kube.Cluster
	KubeWriter  *kube.Writer
	Cloud       *cloud.Reader
	CloudWriter *cloud.Writer
	Policy      func(context.Context) (Policy, error)        // read before each step; an error pauses
	Decode      func(kind string, data []byte) (Step, error) // makes a journalled step again
	Who         string                                       // worker, http, fc or cli, for the journal
	Bound       time.Duration                                // a run ends by then; zero: 2 min
	Watch       time.Duration                                // how long a run watches for success; zero: 60 s
	Now         func() time.Time                             // nil: time.Now
	Log         *slog.Logger                                 // nil: discarded
}

// Limits of time.
const (
	defaultBound = 2 * time.Minute
	defaultWatch = time.Minute
	fresh        = 5 * time.Second   // reads older than this are made again before a write
	stale        = 15 * time.Minute  // work that waited longer is diagnosed afresh
	attemptsFor  = 24 * time.Hour    // attempts to write are counted over this
	patience     = time.Hour         // errors that last longer become a question to a person
	claimFor     = 10 * time.Minute  // how long a claim is held
	proofCLB     = ccm.Retry + grace // without a sign of success by then a write did not work
	proofNLB     = 2 * ccm.Retry     //
	grace        = 2 * time.Minute   // that a sync takes, with what it queues for
	echo         = 30 * time.Second  // a failure this soon after a write may be from before it
	maxCrashes   = 3                 // runs that never ended, in a row
	soon         = 5 * time.Second   // another class is asked again after this for the Service
)

func (e *Env) now() time.Time {
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
	if e.Watch > 0 {
		return e.Watch
	}
	return defaultWatch
}

func (e *Env) log() *slog.Logger {
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
// returns is in the journal. An error means that the run could not find out or
// could not write; the record, if it has a Wait, says when to come back, and the
// event must be delivered again.
func Run(ctx context.Context, env *Env, r *Remedy, ev Event) (event.Record, error) {
	return answer(ctx, env, r, ev,
		func(ctx context.Context, x *run) (event.Record, error) {
			defer x.still()
			rec, err := x.run(ctx)
			x.release(ctx)
			return rec, err
		},
		func(ctx context.Context, x *run, err error) (event.Record, error) {
			rec, err := x.fail(ctx, err)
			x.release(ctx)
			return rec, err
		})
}

// Look answers what Run would do, and writes nothing, neither in the cluster nor
// in the cloud nor in the journal.
func Look(ctx context.Context, env *Env, r *Remedy, ev Event) (event.Record, error) {
	return answer(ctx, env, r, ev,
		func(ctx context.Context, x *run) (event.Record, error) { return x.look(ctx) },
		func(_ context.Context, x *run, err error) (event.Record, error) { return x.rec, err })
}

// answer has a run do what it is for, within its time. A panic of the class is an
// error that ends as broken says.
func answer(ctx context.Context, env *Env, r *Remedy, ev Event, do func(context.Context, *run) (event.Record, error),
	broken func(context.Context, *run, error) (event.Record, error)) (rec event.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	x, err := newRun(env, r, ev)
	if err != nil {
		return event.Record{}, err
	}
	defer func() { err = safe(err) }()
	defer func() {
		if p := recover(); p != nil {
			rec, err = broken(ctx, x, x.panicked(p))
		}
	}()
	return do(ctx, x)
}

// look finds out what run would do.
func (x *run) look(ctx context.Context) (event.Record, error) {
	x.begin(event.Record{})
	x.sign()
	if x.env.Stream != nil {
		x.journal = x.env.Stream.Journal(x.env.Cluster, x.ev.Failure.Service.UID, x.r.Class)
		prev, err := x.load(ctx)
		if err != nil {
			return x.rec, err
		}
		x.rec.Since = x.waitsSince(prev) // it decides whether the run would ask
	}
	_, ok, err := x.plan(ctx)
	if ok && x.rec.Result == "" {
		x.rec.Result = event.Planned
	}
	return x.rec, err
}

// panicked returns a class's panic as an error: it must not take the other
// classes down. The stack goes to the log.
func (x *run) panicked(p any) error {
	x.log.Error("class panicked", "panic", event.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
	return fmt.Errorf("class %s panicked: %v", x.r.Class, p)
}

// safe returns an error whose text holds no secret, whoever shows it.
func safe(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := event.Redact(text); clean != text {
		return &redacted{err, clean}
	}
	return err
}

// A redacted error is another one without the secrets in its text.
type redacted struct {
	error
	text string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.error }

// A run is the state of one Run.
type run struct {
	env     *Env
	r       *Remedy
	ev      Event
	c       *Case
	w       *Writers
	journal *stream.Journal
	rec     event.Record // what the next append says
	steps   []Step       // of the plan
	risk    Risk         // of the plan, worked out in this run
	taken   bool         // the plan was taken over from the journal, and must be judged
	intent  bool         // the journal holds the plan as one to apply
	log     *slog.Logger
	clock   time.Time         // when the present phase began
	into    *time.Duration    // where its time is told if the run ends in it; nil: it is over
	around  map[string]string // labels of the namespace

	prev       event.Record // the last record of the class
	lease      *lease
	journalled bool         // this run has appended to the journal,
	settled    bool         // also how it ended,
	repeated   bool         // or it ended as the last record says
	other      event.Record // the last record of the Service, if it is another class's
	tried      bool         // this case has had an attempt before
	reserved   bool         // the plan was parked until a moment that is its own
}

func newRun(env *Env, r *Remedy, ev Event) (*run, error) {
	ev.Failure.Message = event.Redact(ev.Failure.Message)
	ev.Failure = dated(ev.Failure, env.now())
	f := ev.Failure
	if f.Cluster != env.Cluster {
		return nil, fmt.Errorf("%w: the event is of cluster %q, and this is %q", ErrForeign, f.Cluster, env.Cluster)
	}
	log := env.log().With("class", r.Class, "cluster", f.Cluster, "namespace", f.Service.Namespace, "service", f.Service.Name, "event", ev.ID)
	return &run{
		env: env, r: r, ev: ev, log: log, clock: env.now(),
		c: &Case{View: ccm.View{Cluster: f.Cluster, Cloud: env.Cloud, Kube: env.Kube}, Event: f, Now: env.now(), Log: log, Taken: map[string]bool{}, Remedy: r},
		w: &Writers{Cloud: env.CloudWriter, Kube: env.KubeWriter},
	}, nil
}

// ErrForeign says that an event is not for this host: it must not come back.
var ErrForeign = errors.New("not for this host")

// run is the phases in order.
func (x *run) run(ctx context.Context) (event.Record, error) {
	x.journal = x.env.Stream.Journal(x.env.Cluster, x.ev.Failure.Service.UID, x.r.Class)
	prev, err := x.load(ctx)
	if err != nil {
		return unread, err
	}
	if x.other, err = x.others(ctx); err != nil {
		return unread, err
	}
	agreed, err := x.agreed(ctx, prev)
	if err != nil {
		return unread, err
	}
	x.prev = prev
	next, rec := x.resume(prev, agreed)
	x.lap(&x.rec.Timings.Resume)
	if next == answered {
		return rec, nil
	}
	if left := x.writing(x.other); left > 0 {
		return x.later(min(left, soon))
	}
	if h := x.stands(ctx, prev); h != nil && (next == afresh || next == takeBack) && !x.ev.Again {
		x.keep(h) // the journal says so already
		x.rec.Undoing = next == takeBack
		return x.rec, nil
	}
	if wait, err := x.enter(ctx, prev); err != nil {
		return unread, err
	} else if wait > 0 {
		return x.later(wait)
	}
	if x.rec.Crashes >= maxCrashes {
		x.rec.Finding = fmt.Sprintf("%d runs on this event in a row never ended.", x.rec.Crashes)
		x.rec.Ask = "Look at the log of the function for why it stops, then replay the event."
		return x.settle(ctx, event.Failed)
	}
	switch next {
	case refuse:
		return x.settle(ctx, event.Failed)
	case takeBack:
		return x.takeBack(ctx)
	case goOn:
		return x.goOn(ctx)
	case prove:
		return x.prove(ctx, prev)
	}
	plan, ok, err := x.plan(ctx)
	if err != nil {
		return x.fail(ctx, err)
	}
	if !ok {
		return x.settle(ctx, x.rec.Result)
	}
	return x.write(ctx, plan)
}

// unread ends a run that can't read the journal: a record that no version of
// this program can read blocks the Service, and asking each second won't help.
var unread = event.Record{Result: event.Waiting, Wait: time.Minute}

// load reads the last record of this Service and class, and what is known of the runs.
func (x *run) load(ctx context.Context) (event.Record, error) {
	if err := x.remember(ctx); err != nil {
		return event.Record{}, err
	}
	last, err := x.journal.Load(ctx)
	if err != nil {
		return event.Record{}, fmt.Errorf("read the journal: %w", err)
	}
	if last == nil {
		return event.Record{}, nil
	}
	return decode(*last)
}

// others returns the last record of the Service if it is another class's; the
// zero record if it is this one's. It is read after this class's own: a record
// that came in between makes the next append fail.
func (x *run) others(ctx context.Context) (event.Record, error) {
	uid := x.ev.Failure.Service.UID
	last, err := x.env.Stream.Last(ctx, stream.Cases, event.CaseFilter(x.env.Cluster, uid))
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return event.Record{}, nil
	case err != nil:
		return event.Record{}, fmt.Errorf("read the journal: %w", err)
	case last.Subject == event.CaseSubject(x.env.Cluster, uid, x.r.Class):
		return event.Record{}, nil
	}
	return decode(last)
}

// writing returns for how long the run that wrote the record may still be writing.
func (x *run) writing(rec event.Record) time.Duration {
	if rec.Phase != event.Intent && rec.Phase != event.Step || rec.Done() {
		return 0
	}
	return x.env.bound() - x.since(rec.At)
}

func decode(m stream.Message) (event.Record, error) {
	rec, err := event.DecodeRecord(m.Header, m.Data)
	if err != nil {
		return event.Record{}, fmt.Errorf("read the journal: %w", err)
	}
	return rec, nil
}

// What a run does after it has read the journal.
type next int

const (
	afresh   next = iota // diagnose
	answered             // nothing: the journal has the answer
	goOn                 // apply the rest of the steps
	prove                // all is written; look whether it worked
	takeBack             // it did not work, and the policy wants it undone
	refuse               // nothing: the journal holds what is no plan of the class
)

// resume decides from the last record how to go on, and begins the new one. agreed
// says that a person has approved the plan that the last record asks about.
func (x *run) resume(prev event.Record, agreed bool) (next, event.Record) {
	x.begin(prev)
	x.sign()
	if prev.Phase == "" {
		return afresh, event.Record{}
	}
	later := func(d time.Duration) (next, event.Record) {
		prev.Result, prev.Wait = event.Waiting, max(d, time.Second)
		return answered, prev
	}
	open := prev.Phase == event.Intent || prev.Phase == event.Step
	held := prev.Phase == event.Settled && prev.Held != ""
	parked := prev.Phase == event.Settled && prev.Result == event.Waiting && len(prev.Steps) > 0 && !held
	var left time.Duration // until the run that wrote prev, or what it waits for, is over
	switch {
	case open && !prev.Done():
		left = x.writing(prev)
	case parked && !prev.Done(), held && prev.Event == x.ev.ID && !x.ev.Again:
		left = prev.Wait - x.since(prev.At)
	}
	if left > 0 {
		return later(left)
	}
	switch {
	case prev.Held == event.TakenBack, prev.Undoing && !final(prev.Result):
		return takeBack, event.Record{}
	case held || agreed:
		return afresh, event.Record{}
	case parked && prev.Done() && prev.Reason == event.ByCause:
		return afresh, event.Record{}
	case (open || parked) && prev.Done():
		return x.take(prev, prove)
	case (open || parked) && len(prev.Attempts) > 0 && x.since(prev.Attempts[len(prev.Attempts)-1]) > stale:
		return afresh, event.Record{}
	case open || parked:
		return x.take(prev, goOn)
	case prev.Phase == event.Started:
		return afresh, event.Record{}
	case x.ev.Again:
		return afresh, event.Record{}
	case (prev.Event == x.ev.ID || x.lease.state.Event == x.ev.ID) && prev.Result.Settled():
		return answered, prev
	case prev.Result == event.Fixed && !x.ev.Failure.Last.After(prev.At) && !x.ev.Failure.Last.IsZero():
		return answered, prev
	}
	return afresh, event.Record{}
}

// since returns how long ago a time was. A clock that jumped back must not make
// anything wait for longer than it was to wait: it is never negative.
func (x *run) since(at time.Time) time.Duration { return max(0, x.env.now().Sub(at)) }

// begin starts the record of this run. An open case goes on under its ID; after
// one that ended, another begins.
func (x *run) begin(prev event.Record) {
	f := x.ev.Failure
	x.rec = event.Record{
		Case: caseID(f), Cluster: f.Cluster, Class: x.r.Class, Service: f.Service,
		Event: x.ev.ID, Message: f.Message, EventTime: f.Last,
		Recorded: f.Recorded, Trace: cmp.Or(f.Trace, event.TraceOf(f.Cluster, x.ev.ID)),
		Who: x.env.Who, First: x.env.now(), Began: x.clock,
	}
	if prev.Event == x.ev.ID && prev.Phase == event.Settled {
		x.rec.Prior = prev.At
	}
	for _, at := range prev.Attempts {
		if x.since(at) < attemptsFor {
			x.rec.Attempts = append(x.rec.Attempts, at)
		}
	}
	ended := prev.Phase == "" || prev.Phase == event.Settled && final(prev.Result)
	if !ended {
		x.rec.Case, x.rec.First = prev.Case, prev.First
		if opened := cmp.Or(prev.Opened, prev.Trace); event.TraceID(opened) != event.TraceID(x.rec.Trace) {
			x.rec.Opened = opened
		}
		x.tried = slices.ContainsFunc(x.rec.Attempts, func(at time.Time) bool { return !at.Before(prev.First) })
	}
	x.rec.Errors = x.errors(prev)
	switch {
	case prev.Phase == event.Settled && prev.Result == event.Undone:
		x.rec.Back = prev.At
	case !ended:
		x.rec.Back = prev.Back
	}
	x.rec.Since = x.waitsSince(prev)
	if !f.Last.IsZero() {
		x.rec.Timings.Queue = x.since(f.Last)
	}
	// Numbers go on where attempts are forgotten: a mark that the Service bears
	// already would wake nobody.
	x.rec.Attempt = prev.Attempt
	x.c.ID, x.c.Attempt = x.rec.Case, max(prev.Attempt, len(x.rec.Attempts))+1
}

// sign lets all further lines of the log bear the case.
func (x *run) sign() {
	x.log = x.log.With("case", x.rec.Case)
	x.c.Log = x.log
}

func final(r event.Result) bool {
	switch r {
	case event.Gone, event.Superseded, event.Fixed, event.Foreign, event.Failed, event.Undone:
		return true
	}
	return false
}

// take takes a plan over from the record that it stands in. What stands there is data:
// what is no plan of the class is refused.
func (x *run) take(prev event.Record, n next) (next, event.Record) {
	steps, err := x.r.Planned(x.env.Decode, prev)
	switch {
	case errors.Is(err, ErrUndeclared):
		x.log.Error("journalled plan refused", "error", err)
		x.rec.Finding = fmt.Sprintf("The journal holds what is no plan of the class, and nothing of it was applied: %s.", err)
		x.rec.Ask = "Find out who has written it there. The next failure of the Service is diagnosed afresh."
		return refuse, event.Record{}
	case err != nil:
		x.log.Error("journalled step can't be read", "error", err)
		return afresh, event.Record{}
	}
	crashes := x.rec.Crashes
	x.reserved = prev.Phase == event.Settled && prev.Reason == event.AfterOthers
	rec := prev
	rec.Event, rec.Message, rec.EventTime, rec.Who = x.rec.Event, x.rec.Message, x.rec.EventTime, x.env.Who
	rec.Recorded, rec.Trace, rec.Opened, rec.Prior, rec.Began = x.rec.Recorded, x.rec.Trace, x.rec.Opened, x.rec.Prior, x.rec.Began
	rec.Timings, rec.Error, rec.Wait, rec.Result, rec.Reason, rec.Crashes = x.rec.Timings, "", 0, "", "", crashes
	x.rec, x.steps, x.intent = rec, steps, true
	x.c.ID, x.c.Attempt = rec.Case, rec.Attempt
	return n, event.Record{}
}

// diagnose finds out whether the failure still stands, and asks the class what
// to do. ended means that the record's result says it all.
func (x *run) diagnose(ctx context.Context) (plan Plan, ended bool, err error) {
	defer x.lap(&x.rec.Timings.Diagnose)
	end := func(r event.Result, finding string) (Plan, bool, error) {
		x.rec.Result, x.rec.Finding = r, finding
		return Plan{}, true, nil
	}
	if x.c.Policy, err = x.policy(ctx); err != nil {
		return Plan{}, false, err
	}
	x.c.Idle = x.waited()
	defer func() { x.c.Cloud = x.env.Cloud }() // steps and proof read anew
	for range 3 {
		began := x.env.now()
		// Holds and Diagnose are one look: what both ask is read once.
		if x.env.Cloud != nil {
			x.c.Cloud = x.env.Cloud.Once()
		}
		over, err := x.readService(ctx)
		if err != nil {
			return Plan{}, false, err
		}
		if over != "" {
			return end(event.Gone, over)
		}
		if x.ev.Failure.Service.Kind == "" {
			x.rec.Impact = impact(x.c.Service)
		}
		if err := x.locate(ctx); err != nil {
			return Plan{}, false, err
		}
		newer, err := x.newer(ctx)
		if err != nil {
			return Plan{}, false, err
		}
		superseded := fmt.Sprintf("The newest failure of the Service is of another class: %s.", newer)
		if newer != "" && !x.r.Sees {
			return end(event.Superseded, superseded)
		}
		proof, told, err := x.succeeded(ctx, x.ev.Failure.Last)
		if err != nil {
			return Plan{}, false, err
		}
		// Whoever may create Events can write one of success, or of another failure, too:
		// neither ends a case whose cause is seen.
		if proof != "" && !(told && x.r.Sees) {
			return end(x.ended(), proof)
		}
		if x.r.Holds != nil {
			v, err := x.r.Holds(ctx, x.c)
			if err != nil {
				return Plan{}, false, fmt.Errorf("ask whether the failure holds: %w", err)
			}
			switch {
			case newer != "" && v != Yes:
				return end(event.Superseded, superseded)
			case v == No:
				return end(x.ended(), cmp.Or(proof, "The cause of the failure is gone; the controller tries again by itself."))
			case v == Unknown:
				const finding = "Whether the failure still holds can't be told."
				if x.waited() > patience {
					x.rec.Ask = "Look at the Service and its load balancer by hand."
					return end(event.Asked, finding)
				}
				x.rec.Wait = 30 * time.Second
				return end(event.Waiting, finding)
			}
		}
		plan, err = x.r.Diagnose(ctx, x.c)
		if err != nil {
			return Plan{}, false, fmt.Errorf("diagnose: %w", err)
		}
		if err := x.r.Check(plan); err != nil {
			return Plan{}, false, err
		}
		plan = x.hearsay(plan)
		if plan, err = x.c.Compare(ctx, plan); err != nil {
			return Plan{}, false, fmt.Errorf("compare what the sync would change: %w", err)
		}
		if len(plan.Steps) == 0 || x.env.now().Sub(began) <= fresh {
			return plan, false, nil
		}
	}
	return Plan{}, false, errors.New("the reads before the plan took more than 5 s three times: what they say may be stale")
}

// idle reports whether the record is one of a case that waits and writes nothing.
func idle(rec event.Record) bool {
	return rec.Phase == event.Settled && rec.Result == event.Waiting && (len(rec.Steps) == 0 || rec.Held != "")
}

// lasting reports whether the record is one of a case that has asked because it
// waited in vain. It need not wait again as long as its failure comes back.
func lasting(rec event.Record) bool {
	return rec.Phase == event.Settled && rec.Result == event.Asked && !rec.Since.IsZero()
}

// waitsSince returns since when the case waits whose last record this is; zero if
// it doesn't.
func (x *run) waitsSince(prev event.Record) time.Time {
	if idle(prev) || lasting(prev) && x.since(x.last(prev)) < stale {
		return prev.Since
	}
	return time.Time{}
}

// waited returns for how long the case has waited with nothing to write.
func (x *run) waited() time.Duration {
	if x.rec.Since.IsZero() {
		return 0
	}
	return x.since(x.rec.Since)
}

// ended returns how a failure has ended that is over: one that is over after we
// have written was fixed.
func (x *run) ended() event.Result {
	if x.tried {
		return event.Fixed
	}
	return event.Gone
}

// readService reads the Service as it is now. over says, as a sentence, why there
// is nothing to do for it any more. Of a case that is about the cluster, which only a
// person begins, the Service is one that bears its name and UID alone.
func (x *run) readService(ctx context.Context) (over string, err error) {
	ref := x.ev.Failure.Service
	if ref.Kind != "" {
		x.c.Service = &corev1.Service{}
		x.c.Service.Name, x.c.Service.UID = ref.Name, types.UID(ref.UID)
		return "", nil
	}
	svc, err := x.env.Kube.Service(ctx, ref.Namespace, ref.Name)
	if errors.Is(err, kube.ErrNotFound) {
		return "The Service does not exist any more.", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Service %s: %w", ref, err)
	}
	x.c.Service = svc
	return x.over(svc), nil
}

// locate reads what the namespace says, and notes the mode that holds here.
func (x *run) locate(ctx context.Context) error {
	x.around = nil
	if in := x.ev.Failure.Service.Namespace; in != "" {
		ns, err := x.env.Kube.Namespace(ctx, in)
		if err != nil && !errors.Is(err, kube.ErrNotFound) {
			return fmt.Errorf("read the namespace: %w", err)
		}
		if err == nil {
			x.around = ns.Labels
		}
	}
	leave := x.leave(x.c.Policy)
	x.rec.Mode, x.rec.Muted = string(leave.Mode), leave.Muted
	return nil
}

// leave returns what a policy allows the class for the Service as it was read last.
func (x *run) leave(p Policy) Leave {
	return p.At(x.r.Class, Place{
		Cluster: x.env.Cluster, Namespace: x.c.Service.Namespace, Labels: x.c.Service.Labels, Around: x.around,
	})
}

// over returns why there is nothing to do for a Service, as a sentence; empty if there is.
func (x *run) over(svc *corev1.Service) string {
	leaves := ccm.Leaving(svc)
	switch {
	case string(svc.UID) != x.ev.Failure.Service.UID:
		return "The Service was deleted; another one has its name now."
	case leaves != "" && released(svc):
		return "The Service " + leaves + " and the controller has let go of it."
	case leaves != "" && !x.r.Deleting:
		return "The Service " + leaves + "; there is nothing to set right for it."
	}
	return ""
}

// succeeded returns positive evidence that the Service has been synced since then; told
// says that it is an Event's.
func (x *run) succeeded(ctx context.Context, since time.Time) (proof string, told bool, err error) {
	svc := x.c.Service
	if quiet(x.ev.Failure.Reason) || !ccm.Synced(svc) && svc.Labels[ccm.HashLabel] == "" {
		return "", false, nil // a sync that succeeded proves nothing, or none ever has
	}
	happened, err := x.env.Kube.Events(ctx, svc.Namespace, string(svc.UID))
	if err != nil {
		return "", false, fmt.Errorf("list the Service's events: %w", err)
	}
	if proof = succeeded(svc, nil, since); proof != "" {
		return proof, false, nil
	}
	// Whoever may create Events dates them: one of a day to come would be a success that
	// no failure comes after.
	happened = slices.DeleteFunc(happened, func(e corev1.Event) bool { return lastSeen(e).After(x.env.now().Add(skew)) })
	return succeeded(svc, happened, since), true, nil
}

// newer returns the class of a failed sync of the Service that is newer than the
// event in hand, if it is another one.
func (x *run) newer(ctx context.Context) (string, error) {
	if x.env.Stream == nil {
		return "", nil
	}
	f, ok, err := x.newest(ctx, "*")
	if err != nil || !ok {
		return "", err
	}
	if f.Class != x.r.Class && f.Type == corev1.EventTypeWarning && f.Last.After(x.ev.Failure.Last) {
		return f.Class, nil
	}
	return "", nil
}

// newest returns the newest failure of the Service in the stream, of one class or of any ("*").
func (x *run) newest(ctx context.Context, class string) (event.Failure, bool, error) {
	subject := fmt.Sprintf("lbremedy.failed.%s.%s.%s", x.env.Cluster, class, x.ev.Failure.Service.UID)
	msg, err := x.env.Stream.Last(ctx, stream.Failed, subject)
	if errors.Is(err, stream.ErrNotFound) {
		return event.Failure{}, false, nil
	}
	if err != nil {
		return event.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	f, mine, err := x.kept(msg)
	if err != nil {
		return event.Failure{}, false, err
	}
	if !mine || f.Last.IsZero() {
		return x.newestOfOurs(ctx, subject)
	}
	return f, true, nil
}

// plan asks the class and decides about its plan; ok says that it is applied. If not,
// the record's result says how the run ends instead.
func (x *run) plan(ctx context.Context) (plan Plan, ok bool, err error) {
	plan, ended, err := x.diagnose(ctx)
	if err != nil || ended {
		return plan, false, err
	}
	ok, err = x.decide(ctx, plan)
	return plan, ok, err
}

// decide says whether the plan is applied. If not, the record's result says what happens instead.
func (x *run) decide(ctx context.Context, plan Plan) (bool, error) {
	defer x.lap(&x.rec.Timings.Decide)
	steps, err := Records(plan.Steps)
	if err != nil {
		return false, err
	}
	x.steps, x.risk = plan.Steps, plan.Highest()
	x.rec.Finding, x.rec.Cause, x.rec.Wait = event.Redact(plan.Finding), event.Redact(plan.Cause), plan.Wait
	x.rec.Ask, x.rec.Note = event.Redact(plan.Ask), event.Redact(plan.Note)
	x.rec.Steps, x.rec.Changes, x.rec.Risk = steps, plan.Changes, ""
	x.rec.Held, x.rec.Approved, x.rec.Digest, x.rec.Decided = "", nil, "", ""
	leave := x.leave(x.c.Policy)
	if len(plan.Steps) == 0 {
		x.rec.Result = event.Asked
		switch lasted := x.waited(); {
		case plan.Wait == 0:
		case lasted <= max(Lasting, plan.Patience):
			x.rec.Result = event.Waiting
		default:
			x.rec.Wait = 0
			x.rec.Rule = fmt.Sprintf("It was to pass by itself, and has lasted %s.", lasted.Round(time.Minute))
			x.rec.Ask = ccm.Join(x.rec.Ask, "Look why it lasts.")
		}
		if leave.Muted && x.rec.Result == event.Asked {
			x.rec.Result, x.rec.Rule = event.Planned, ccm.Join(leave.Why, "Nobody is asked.")
		}
		return false, nil
	}
	x.rec.Risk = x.risk.String()

	own := x.owner(plan)
	x.rec.Note = ccm.Join(x.rec.Note, own.note)
	if own.manager != "" && !leave.Muted {
		// Without a digest: to agree would not help.
		x.rec.Result, x.rec.Rule = event.Asked, fmt.Sprintf("%s owns what the plan would write and would put it back.", own.manager)
		x.rec.Ask = ccm.Join(x.rec.Ask, "Commit this patch where the Service is kept: "+x.patches(plan))
		return false, nil
	}
	x.rec.Digest = plan.Digest(x.r.Class, string(x.c.Service.UID))
	return x.permit(ctx, leave, x.risk, oneWay(plan.Steps))
}

// permit says whether a plan with these properties is applied: by the policy, or
// by a person's word for it.
func (x *run) permit(ctx context.Context, leave Leave, risk Risk, oneWay string) (bool, error) {
	allowed, rule := leave.Allows(x.r, risk, oneWay)
	if leave.Mode != Fix {
		x.rec.Result, x.rec.Rule = event.Planned, rule
		return false, nil
	}
	if allowed && !x.rec.Back.IsZero() {
		allowed, rule = false, fmt.Sprintf("What was done for this failure was taken back at %s.", x.rec.Back.Format(time.RFC3339))
	}
	if allowed {
		b, err := x.broken(ctx)
		if err != nil {
			return false, err
		}
		if b != nil {
			allowed, rule = false, fmt.Sprintf("The breaker of the class %s is open since %s. %s", b.Class, b.At.Format(time.RFC3339), b.Why)
		}
	}
	x.rec.Rule = rule
	if !allowed {
		agreed, err := x.approved(ctx)
		if err != nil {
			return false, err
		}
		if !agreed {
			x.rec.Result = event.Asked
			x.rec.Ask = ccm.Join(x.rec.Ask, fmt.Sprintf("Agree to the plan: lbremedy approve %s. Or allow it in the policy file, or do it by hand.", x.rec.Case))
			return false, nil
		}
	}
	if most := x.c.Policy.Budgets.attempts(); len(x.rec.Attempts) >= most {
		x.rec.Result = event.Failed
		x.rec.Rule = fmt.Sprintf("%d attempts to write on this Service for this class in 24 h are the limit.", most)
		x.rec.Ask = ccm.Join(x.rec.Ask, "Find out why the writes so far did not end the failure; lbremedy stops here.")
		return false, nil
	}
	h, err := x.hold(ctx, x.c.Policy)
	if err != nil || h == nil {
		return err == nil, err
	}
	x.keep(h)
	return false, nil
}

// oneWay returns the first step that can't be taken back, as text. To wake the
// controller is no such step: there is nothing to take back.
func oneWay(steps []Step) string {
	for _, s := range steps {
		if _, ok := s.Undo(); !ok && !Wakes(s) {
			return s.String()
		}
	}
	return ""
}

func (x *run) owner(plan Plan) ownership {
	var keys []string
	for _, s := range plan.Steps {
		if k, ok := s.(Keyed); ok {
			keys = append(keys, k.Keys()...)
		}
	}
	return owner(x.c.Service, keys)
}

func (x *run) patches(plan Plan) string {
	var all string
	for _, s := range plan.Steps {
		if k, ok := s.(Keyed); ok {
			all = ccm.Join(all, string(k.Patch(x.c)))
		}
	}
	return all
}

// later ends a run that must come back soon, without a word in the journal: it
// holds nothing and has found out nothing.
func (x *run) later(d time.Duration) (event.Record, error) {
	x.rec.Result, x.rec.Wait = event.Waiting, d
	return x.rec, nil
}

// An unreadable is an error that leaves open what is allowed.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// policy reads the policy in force.
func (x *run) policy(ctx context.Context) (Policy, error) {
	p, err := x.env.Policy(ctx)
	if err != nil {
		return Policy{}, unreadable{fmt.Errorf("read the policy: %w", err)}
	}
	return p, nil
}

// lost ends a run whose append failed: another run on the Service was first, or
// the journal is away.
func (x *run) lost(err error) (event.Record, error) {
	if errors.Is(err, stream.ErrConflict) {
		return x.later(time.Second)
	}
	return event.Record{}, err
}

// fail ends a run with an error. Errors come back, less often each time; after an
// hour they become a question to a person.
func (x *run) fail(ctx context.Context, cause error) (event.Record, error) {
	if !x.intent {
		x.rec.Steps = nil
	}
	result := event.Waiting
	if errors.As(cause, new(unreadable)) {
		// Nobody knows what is allowed: that is a pause, however long it lasts.
		x.rec.Error, x.rec.Wait = event.Redact(cause.Error()), pausedWait
	} else {
		result = x.backOff(cause)
	}
	rec, err := x.settle(ctx, result)
	if err != nil {
		return rec, errors.Join(cause, err)
	}
	return rec, cause
}

// backOff notes an error and says when to come back, or that a person must look.
//
// How long errors have lasted is the sum of the pauses between them, not the time
// since the case began: a case that was open for days must outlive one bad minute.
func (x *run) backOff(cause error) event.Result {
	x.rec.Errors++
	x.rec.Error = event.Redact(cause.Error())
	var lasted time.Duration
	for n := 1; n <= x.rec.Errors && lasted <= patience; n++ {
		x.rec.Wait = min(time.Second<<min(n, 6), time.Minute)
		lasted += x.rec.Wait
	}
	if lasted <= patience {
		return event.Waiting
	}
	x.rec.Ask = "Look at the error, set it right, and replay the event."
	return event.Failed
}

// settle journals how the run ended.
func (x *run) settle(ctx context.Context, r event.Result) (event.Record, error) {
	if x.into != nil {
		x.lap(x.into)
	}
	x.rec.Result = r
	if r != event.Waiting && x.rec.Decided != "" {
		x.rec.Rule = x.rec.Decided // it waits for nothing any more
	}
	if x.repeats(r) {
		x.repeated = true
		if x.rec.Error == "" {
			x.rec.Errors = 0
		}
		x.rec.Case, x.rec.First, x.rec.Phase, x.rec.At, x.rec.Repeats = x.prev.Case, x.prev.First, event.Settled, x.env.now(), true
		return x.rec, nil
	}
	if err := x.append(ctx, event.Settled); err != nil {
		return x.lost(err)
	}
	x.settled = true
	return x.rec, nil
}

// append journals the record as it stands. It fails with stream.ErrConflict if
// another run on the Service has appended since this one read the journal.
func (x *run) append(ctx context.Context, phase event.Phase) error {
	x.rec.Phase, x.rec.At = phase, x.env.now()
	switch {
	case !idle(x.rec) && !lasting(x.rec) && phase == event.Settled:
		x.rec.Since = time.Time{}
	case idle(x.rec) && x.rec.Since.IsZero() && x.rec.Error == "":
		x.rec.Since = x.rec.At
	}
	if phase == event.Settled {
		x.rec.Crashes = 0
		if x.rec.Error == "" {
			x.rec.Errors = 0
		}
	}
	e, err := event.NewRecord(x.rec)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if phase != event.Intent && ctx.Err() != nil {
		// The run's time is up; what it has done is told all the same.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
	}
	if err := x.journal.Append(ctx, e.ID(), header, data); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	x.journalled = true
	return nil
}

// lap stores how long the present phase took, and begins the next one.
func (x *run) lap(into *time.Duration) {
	now := x.env.now()
	*into += now.Sub(x.clock)
	x.clock, x.into = now, nil
}

// left digests what a full sync depends on, as we left it: annotations and spec.
func left(svc *corev1.Service) string {
	data, err := json.Marshal(struct {
		Keys   []string
		Values map[string]string
		Spec   corev1.ServiceSpec
	}{slices.Sorted(maps.Keys(svc.Annotations)), svc.Annotations, svc.Spec})
	if err != nil {
		panic(fmt.Sprintf("remedy: a Service does not encode: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// caseID returns the ID of the case that begins with this failure.
func caseID(f event.Failure) string {
	uid := f.Service.UID
	if len(uid) > 8 {
		uid = uid[:8]
	}
	return fmt.Sprintf("%s-%s", uid, f.Last.UTC().Format("20060102T150405"))
}
