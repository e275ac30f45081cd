package remedy

import (
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

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/cloud"
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
	fresh        = 5 * time.Second  // reads older than this are made again before a write
	stale        = 15 * time.Minute // work that waited longer is diagnosed afresh
	attemptsFor  = 24 * time.Hour   // attempts to write are counted over this
	patience     = time.Hour        // errors that last longer become a question to a person
	claimFor     = 10 * time.Minute // how long a claim is held
	proofCLB     = 5 * time.Minute  // without a sign of success by then a write did not work
	proofNLB     = 10 * time.Minute //
	echo         = 30 * time.Second // a failure this soon after a write may be from before it
	maxCrashes   = 3                // runs that never ended, in a row
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
	Failure events.Failure
	Again   bool // a person asks: answer also if the event is settled
}

// Run answers one event for one class and returns how it ended. The record it
// returns is in the journal. An error means that the run could not find out or
// could not write; the record, if it has a Wait, says when to come back, and the
// event must be delivered again.
func Run(ctx context.Context, env *Env, r *Remedy, ev Event) (rec events.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	x, err := newRun(env, r, ev)
	if err != nil {
		return events.Record{}, err
	}
	defer func() {
		// A class that panics must not take the other classes down. The stack goes
		// to the log; the journal keeps the sentence.
		if p := recover(); p != nil {
			x.log.Error("class panicked", "panic", events.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
			rec, err = x.fail(ctx, fmt.Errorf("class %s panicked: %v", r.Class, p))
		}
	}()
	return x.run(ctx)
}

// Look answers what Run would do, and writes nothing, neither in the cluster nor
// in the cloud nor in the journal.
func Look(ctx context.Context, env *Env, r *Remedy, ev Event) (events.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	x, err := newRun(env, r, ev)
	if err != nil {
		return events.Record{}, err
	}
	x.begin(events.Record{})
	plan, ended, err := x.diagnose(ctx)
	if err != nil || ended {
		return x.rec, err
	}
	if _, err := x.decide(ctx, plan); err != nil {
		return x.rec, err
	}
	if x.rec.Result == "" {
		x.rec.Result = events.Planned
	}
	return x.rec, nil
}

// A run is the state of one Run.
type run struct {
	env     *Env
	r       *Remedy
	ev      Event
	c       *Case
	w       *Writers
	journal *stream.Journal
	rec     events.Record // what the next append says
	steps   []Step        // of the plan
	intent  bool          // the journal holds the plan as one to apply
	log     *slog.Logger
	clock   time.Time // when the present phase began
}

func newRun(env *Env, r *Remedy, ev Event) (*run, error) {
	f := ev.Failure
	if f.Cluster != env.Cluster {
		return nil, fmt.Errorf("%w: the event is of cluster %q, and this is %q", ErrForeign, f.Cluster, env.Cluster)
	}
	log := env.log().With("class", r.Class, "cluster", f.Cluster, "namespace", f.Service.Namespace, "service", f.Service.Name, "event", ev.ID)
	return &run{
		env: env, r: r, ev: ev, log: log, clock: env.now(),
		c: &Case{Event: f, Cloud: env.Cloud, Kube: env.Kube, Now: env.now(), Log: log, full: map[string]bool{}},
		w: &Writers{Cloud: env.CloudWriter, Kube: env.KubeWriter},
	}, nil
}

// ErrForeign says that an event is not for this host: it must not come back.
var ErrForeign = errors.New("not for this host")

// run is the phases in order.
func (x *run) run(ctx context.Context) (events.Record, error) {
	x.journal = x.env.Stream.Journal(x.env.Cluster, x.ev.Failure.Service.UID, x.r.Class)
	prev, err := x.load(ctx)
	if err != nil {
		return events.Record{}, err
	}
	next, rec := x.resume(prev)
	x.lap(&x.rec.Timings.Resume)
	switch next {
	case answered:
		return rec, nil
	case goOn:
		return x.goOn(ctx)
	case prove:
		if x.c.Policy, err = x.env.Policy(ctx); err != nil {
			return x.fail(ctx, fmt.Errorf("read the policy: %w", err))
		}
		return x.verify(ctx)
	}
	if x.rec.Crashes >= maxCrashes {
		x.rec.Finding = fmt.Sprintf("%d runs on this event in a row never ended.", x.rec.Crashes)
		x.rec.Ask = "Look at the log of the function for why it stops, then replay the event."
		return x.settle(ctx, events.Failed)
	}
	if err := x.append(ctx, events.Started); err != nil {
		return x.lost(err)
	}
	plan, ended, err := x.diagnose(ctx)
	if err != nil {
		return x.fail(ctx, err)
	}
	if ended {
		return x.settle(ctx, x.rec.Result)
	}
	ok, err := x.decide(ctx, plan)
	if err != nil {
		return x.fail(ctx, err)
	}
	if !ok {
		return x.settle(ctx, x.rec.Result)
	}
	return x.write(ctx, plan)
}

// load reads the last record of this Service and class.
func (x *run) load(ctx context.Context) (events.Record, error) {
	last, err := x.journal.Load(ctx)
	if err != nil {
		return events.Record{}, fmt.Errorf("read the journal: %w", err)
	}
	if last == nil {
		return events.Record{}, nil
	}
	e, err := events.DecodeNATS(last.Header, last.Data)
	if err != nil {
		return events.Record{}, fmt.Errorf("read the journal: %w", err)
	}
	rec, err := events.ReadRecord(e)
	if err != nil {
		return events.Record{}, fmt.Errorf("read the journal: %w", err)
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
)

// resume decides from the last record how to go on, and begins the new one.
func (x *run) resume(prev events.Record) (next, events.Record) {
	now := x.env.now()
	x.begin(prev)
	if prev.Phase == "" {
		return afresh, events.Record{}
	}
	later := func(d time.Duration) (next, events.Record) {
		prev.Result, prev.Wait = events.Waiting, max(d, time.Second)
		return answered, prev
	}
	open := prev.Phase == events.Intent || prev.Phase == events.Step
	parked := prev.Phase == events.Settled && prev.Result == events.Waiting && len(prev.Steps) > 0
	switch {
	case prev.Phase == events.Started:
		x.rec.Crashes = prev.Crashes + 1
		return afresh, events.Record{}
	case open && !prev.Done():
		if left := x.env.bound() - now.Sub(prev.At); left > 0 {
			return later(left)
		}
		return x.take(prev, goOn)
	case open:
		return x.take(prev, prove)
	case parked && prev.Done():
		return x.take(prev, prove)
	case parked:
		if left := prev.Wait - now.Sub(prev.At); left > 0 {
			return later(left)
		}
		if len(prev.Attempts) > 0 && now.Sub(prev.Attempts[len(prev.Attempts)-1]) > stale {
			return afresh, events.Record{}
		}
		return x.take(prev, goOn)
	case x.ev.Again:
		return afresh, events.Record{}
	case prev.Event == x.ev.ID && prev.Result.Settled():
		return answered, prev
	case prev.Result == events.Fixed && !x.ev.Failure.Last.After(prev.At):
		return answered, prev
	}
	return afresh, events.Record{}
}

// begin starts the record of this run. An open case goes on under its ID; after
// one that ended, another begins.
func (x *run) begin(prev events.Record) {
	f := x.ev.Failure
	x.rec = events.Record{
		Case: caseID(f), Cluster: f.Cluster, Class: x.r.Class, Service: f.Service,
		Event: x.ev.ID, Message: events.Redact(f.Message), EventTime: f.Last,
		Who: x.env.Who, First: x.env.now(),
	}
	for _, at := range prev.Attempts {
		if x.env.now().Sub(at) < attemptsFor {
			x.rec.Attempts = append(x.rec.Attempts, at)
		}
	}
	ended := prev.Phase == "" || prev.Phase == events.Settled && final(prev.Result)
	if !ended {
		x.rec.Case, x.rec.First, x.rec.Errors = prev.Case, prev.First, prev.Errors
	}
	if !f.Last.IsZero() {
		x.rec.Timings.Queue = max(0, x.env.now().Sub(f.Last))
	}
	x.c.ID, x.c.Attempt = x.rec.Case, len(x.rec.Attempts)+1
}

func final(r events.Result) bool {
	switch r {
	case events.Gone, events.Superseded, events.Fixed, events.Foreign, events.Failed, events.Undone:
		return true
	}
	return false
}

// take takes a plan over from the record that it stands in.
func (x *run) take(prev events.Record, n next) (next, events.Record) {
	steps := make([]Step, len(prev.Steps))
	for i, s := range prev.Steps {
		step, err := x.env.Decode(s.Kind, s.Step)
		if err != nil {
			x.log.Error("journalled step can't be read", "step", s.Kind, "error", err)
			return afresh, events.Record{}
		}
		steps[i] = step
	}
	crashes := 0
	if prev.Phase != events.Settled {
		crashes = prev.Crashes + 1
	}
	rec := prev
	rec.Event, rec.Message, rec.EventTime, rec.Who = x.rec.Event, x.rec.Message, x.rec.EventTime, x.env.Who
	rec.Timings, rec.Error, rec.Wait, rec.Result, rec.Crashes = x.rec.Timings, "", 0, "", crashes
	x.rec, x.steps, x.intent = rec, steps, true
	x.c.ID, x.c.Attempt = rec.Case, rec.Attempt
	return n, events.Record{}
}

// diagnose finds out whether the failure still stands, and asks the class what
// to do. ended means that the record's result says it all.
func (x *run) diagnose(ctx context.Context) (plan Plan, ended bool, err error) {
	defer x.lap(&x.rec.Timings.Diagnose)
	end := func(r events.Result, finding string) (Plan, bool, error) {
		x.rec.Result, x.rec.Finding = r, finding
		return Plan{}, true, nil
	}
	if x.c.Policy, err = x.env.Policy(ctx); err != nil {
		return Plan{}, false, fmt.Errorf("read the policy: %w", err)
	}
	x.rec.Mode = string(x.c.Policy.mode(x.r.Class))
	for range 3 {
		began := x.env.now()
		err := x.readService(ctx)
		if errors.Is(err, kube.ErrNotFound) {
			return end(events.Gone, "The Service does not exist any more.")
		}
		if err != nil {
			return Plan{}, false, err
		}
		svc := x.c.Service
		x.rec.Impact = impact(svc)
		switch {
		case string(svc.UID) != x.ev.Failure.Service.UID:
			return end(events.Gone, "The Service was deleted; another one has its name now.")
		case !managed(svc):
			return end(events.Gone, fmt.Sprintf("The Service is of type %s now and the controller has let go of it.", svc.Spec.Type))
		case svc.DeletionTimestamp != nil && !x.r.Deleting:
			return end(events.Gone, "The Service is being deleted; there is nothing to set right for it.")
		}
		newer, err := x.newer(ctx)
		if err != nil {
			return Plan{}, false, err
		}
		if newer != "" {
			return end(events.Superseded, fmt.Sprintf("The newest failure of the Service is of another class: %s.", newer))
		}
		if proof, err := x.succeeded(ctx); err != nil || proof != "" {
			if err != nil {
				return Plan{}, false, err
			}
			return end(events.Gone, proof)
		}
		if x.r.Holds != nil {
			v, err := x.r.Holds(ctx, x.c)
			if err != nil {
				return Plan{}, false, fmt.Errorf("ask whether the failure holds: %w", err)
			}
			switch v {
			case No:
				return end(events.Gone, "The cause of the failure is gone; the controller tries again by itself.")
			case Unknown:
				x.rec.Wait = 30 * time.Second
				return end(events.Waiting, "Whether the failure still holds can't be told.")
			}
		}
		plan, err = x.r.Diagnose(ctx, x.c)
		if err != nil {
			return Plan{}, false, fmt.Errorf("diagnose: %w", err)
		}
		if err := x.r.validate(plan); err != nil {
			return Plan{}, false, err
		}
		if len(plan.Steps) == 0 || x.env.now().Sub(began) <= fresh {
			return plan, false, nil
		}
	}
	return Plan{}, false, errors.New("the reads before the plan took more than 5 s three times: what they say may be stale")
}

// readService reads the Service as it is now.
func (x *run) readService(ctx context.Context) error {
	ref := x.ev.Failure.Service
	svc, err := x.env.Kube.Service(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("read Service %s: %w", ref, err)
	}
	x.c.Service = svc
	return nil
}

// succeeded returns positive evidence that the Service has been synced since the failure.
func (x *run) succeeded(ctx context.Context) (string, error) {
	svc, failure := x.c.Service, x.ev.Failure.Last
	if !Synced(svc) && svc.Labels[HashLabel] == "" {
		return "", nil // no sync has ever succeeded
	}
	happened, err := x.env.Kube.Events(ctx, svc.Namespace, string(svc.UID))
	if err != nil {
		return "", fmt.Errorf("list the Service's events: %w", err)
	}
	return succeeded(svc, happened, failure), nil
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
func (x *run) newest(ctx context.Context, class string) (events.Failure, bool, error) {
	subject := fmt.Sprintf("lbremedy.failed.%s.%s.%s", x.env.Cluster, class, x.ev.Failure.Service.UID)
	msg, err := x.env.Stream.Last(ctx, stream.Failed, subject)
	if errors.Is(err, stream.ErrNotFound) {
		return events.Failure{}, false, nil
	}
	if err != nil {
		return events.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	e, err := events.DecodeNATS(msg.Header, msg.Data)
	if err != nil {
		return events.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	f, err := events.ReadFailed(e)
	if err != nil {
		return events.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	return f, true, nil
}

// decide says whether the plan is applied. If not, the record's result says what happens instead.
func (x *run) decide(ctx context.Context, plan Plan) (bool, error) {
	defer x.lap(&x.rec.Timings.Decide)
	risk := plan.Highest()
	steps, err := records(plan.Steps)
	if err != nil {
		return false, err
	}
	x.steps = plan.Steps
	x.rec.Finding, x.rec.Cause, x.rec.Ask, x.rec.Note, x.rec.Wait = plan.Finding, plan.Cause, plan.Ask, plan.Note, plan.Wait
	x.rec.Steps, x.rec.Risk = steps, ""
	if len(plan.Steps) == 0 {
		x.rec.Result = events.Asked
		if plan.Wait > 0 {
			x.rec.Result = events.Waiting
		}
		return false, nil
	}
	x.rec.Risk, x.rec.Digest = risk.String(), plan.Digest(x.r.Class, string(x.c.Service.UID))
	x.rec.Attempt = x.c.Attempt

	own := x.owner(plan)
	x.rec.Note = join(x.rec.Note, own.note)
	if own.manager != "" {
		x.rec.Result, x.rec.Rule = events.Asked, fmt.Sprintf("%s owns what the plan would write and would put it back.", own.manager)
		x.rec.Ask = join(x.rec.Ask, "Commit this patch where the Service is kept: "+x.patches(plan))
		return false, nil
	}
	allowed, rule := x.c.Policy.Allows(x.r, risk)
	x.rec.Rule = rule
	switch {
	case !allowed && x.c.Policy.mode(x.r.Class) != Fix:
		x.rec.Result = events.Planned
		return false, nil
	case !allowed:
		x.rec.Result = events.Asked
		x.rec.Ask = join(x.rec.Ask, "Agree to the plan, or allow its risk in the policy file, or do it by hand.")
		return false, nil
	case len(x.rec.Attempts) >= x.c.Policy.attempts():
		x.rec.Result = events.Failed
		x.rec.Rule = fmt.Sprintf("%d attempts to write on this Service for this class in 24 h are the limit.", x.c.Policy.attempts())
		x.rec.Ask = join(x.rec.Ask, "Find out why the writes so far did not end the failure; lbremedy stops here.")
		return false, nil
	}
	return true, nil
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
			all = join(all, string(k.Patch(x.c)))
		}
	}
	return all
}

// later ends a run that must come back soon, without a word in the journal: it
// holds nothing and has found out nothing.
func (x *run) later(d time.Duration) (events.Record, error) {
	x.rec.Result, x.rec.Wait = events.Waiting, d
	return x.rec, nil
}

// lost ends a run whose append failed: another run on the Service was first, or
// the journal is away.
func (x *run) lost(err error) (events.Record, error) {
	if errors.Is(err, stream.ErrConflict) {
		return x.later(time.Second)
	}
	return events.Record{}, err
}

// fail ends a run with an error. Errors come back, less often each time; after an
// hour they become a question to a person.
func (x *run) fail(ctx context.Context, cause error) (events.Record, error) {
	if ctx.Err() != nil {
		// The run's time is up, not the journal's.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
	}
	if !x.intent {
		x.rec.Steps = nil
	}
	x.rec.Errors++
	x.rec.Error = events.Redact(cause.Error())
	x.rec.Wait = min(time.Second<<min(x.rec.Errors, 6), time.Minute)
	result := events.Waiting
	if x.env.now().Sub(x.rec.First) > patience {
		result = events.Failed
		x.rec.Ask = "Look at the error, set it right, and replay the event."
	}
	rec, err := x.settle(ctx, result)
	if err != nil {
		return rec, errors.Join(cause, err)
	}
	return rec, cause
}

// settle journals how the run ended.
func (x *run) settle(ctx context.Context, r events.Result) (events.Record, error) {
	x.rec.Result = r
	if err := x.append(ctx, events.Settled); err != nil {
		return x.lost(err)
	}
	return x.rec, nil
}

// append journals the record as it stands. It fails with stream.ErrConflict if
// another run on the Service has appended since this one read the journal.
func (x *run) append(ctx context.Context, phase events.Phase) error {
	x.rec.Phase, x.rec.At = phase, x.env.now()
	if phase == events.Settled {
		x.rec.Crashes = 0
		if x.rec.Error == "" {
			x.rec.Errors = 0
		}
	}
	e, err := events.NewRecord(x.rec)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	header, data, err := events.EncodeNATS(e)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := x.journal.Append(ctx, e.ID(), header, data); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// lap stores how long the present phase took, and begins the next one.
func (x *run) lap(into *time.Duration) {
	now := x.env.now()
	*into += now.Sub(x.clock)
	x.clock = now
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
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
