package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	Expiry    = 30 * time.Second // of an order; hands accept no later one
	Quiet     = time.Minute      // after an order's expiry: hand and cloud may still be writing, and clocks differ
	stale     = 15 * time.Minute // a plan in doubt or not due for longer is made anew; an engine was away if its case is this late
	lasting   = time.Hour        // without progress, until a person is asked
	day       = 24 * time.Hour   // over which attempts count
	busy      = 5 * time.Second  // until a document held by another engine is looked at again
	afterPlan = time.Second      // until the case of a finished plan is looked at again
	later     = 10 * time.Second // until a pause is looked at again, or proof is looked for
	afterStop = time.Minute      // until the policy or a missing place is looked at again
	firstAsk  = 5 * time.Minute  // until a newer failure is looked at after three crashes
	nextAsk   = time.Hour        // the same after a further question

	maxCrashes = 3
	maxDone    = 3
	maxOutbox  = 4
)

// backOff is how long a case waits after this many runs in a row without progress.
var backOff = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute}

// Next returns the document after a report, and the next effects. It does not modify its arguments; an unexpected report, such as a
// late one, does nothing.
//
// A driver performs the effects. The machine relies on these rules of the driver:
//
//   - It performs effects in order, and ends the run if a Store loses its comparison. The nonce resolves a lost acknowledgement.
//   - It begins a run with a Delivered or an UndoAsked on a document that it has just read, and has one run per object.
//   - It gives each answer to the run that asked, with the document that Next returned last, even without a Store.
//   - It signs an order with the ID and the expiry in Send. All times are the server's.
//   - It reports an UndoAsked only for the case that is open or ended last.
//   - It keeps the steps of the attempts in Done: they are checked and undone.
//   - It reports an undo with nothing to restore as Found, without a hand.
//   - For Bars it ignores a drifted step that is only possibly made.
//   - It repeats a run with Again, or of a person, until Ack: no stream delivers these again.
//   - It limits how often Taken says Again in one run, and reserves a moment to write once per step.
func Next(d Doc, in Input) (Doc, []Effect) {
	r := run{d: clone(d), in: in}
	switch a := in.Report.(type) {
	case Delivered:
		r.delivered(a)
	case UndoAsked:
		r.undoAsked(a)
	case Flushed:
		r.flushed(a)
	default:
		c := r.working()
		if c == nil || r.d.Holder != in.Engine {
			return d, nil
		}
		switch a := a.(type) {
		case Looked:
			r.looked(c, a)
		case Guarded:
			r.guarded(c, a)
		case Taken:
			r.taken(c, a)
		case Applied:
			r.applied(c, a)
		}
	}
	if r.store {
		r.d.Nonce = in.Nonce
		r.effects = slices.Insert(r.effects, 0, Effect(Store{}))
	}
	return r.d, r.effects
}

// Case returns the case of a class; nil if absent.
func (d *Doc) Case(class string) *Case {
	if i := slices.IndexFunc(d.Cases, func(c Case) bool { return c.Class == class }); i >= 0 {
		return &d.Cases[i]
	}
	return nil
}

// Valid reports why a stored document is not one that Next has returned: numbers out of range, or an order without its plan.
func (d *Doc) Valid() error {
	for _, c := range d.Cases {
		if p := c.Plan; p != nil && (p.Next < 0 || p.Next > p.Steps) {
			return fmt.Errorf("%d of %d steps of class %s are made", p.Next, p.Steps, c.Class)
		}
		for _, a := range c.Done {
			if a.Steps < 0 {
				return fmt.Errorf("%d steps of attempt %d of class %s are made", a.Steps, a.Number, c.Class)
			}
		}
	}
	if o := d.Order; o != nil {
		if c := d.Case(o.Class); o.Step < 0 || c == nil || c.Plan == nil && len(c.Done) == 0 {
			return fmt.Errorf("the order of step %d of class %s has no plan", o.Step, o.Class)
		}
	}
	return nil
}

// Works reports whether the holder works on the case of a class.
func (d *Doc) Works(class string) bool {
	c := d.Case(class)
	return c != nil && !c.rests()
}

// A run is one call of Next.
type run struct {
	d       Doc
	in      Input
	store   bool
	effects []Effect
}

func clone(d Doc) Doc {
	d.Order = copied(d.Order)
	d.Cases, d.Outbox = slices.Clone(d.Cases), slices.Clone(d.Outbox)
	for i := range d.Cases {
		c := &d.Cases[i]
		c.Attempts, c.Done = slices.Clone(c.Attempts), slices.Clone(c.Done)
		c.Plan, c.Undo = copied(c.Plan), copied(c.Undo)
	}
	return d
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func (r *run) do(e Effect) { r.effects = append(r.effects, e) }

// mine returns the case of the run's class, and adds it if it is new.
func (r *run) mine() *Case {
	i, found := slices.BinarySearchFunc(r.d.Cases, r.in.Class, func(c Case, class string) int { return cmp.Compare(c.Class, class) })
	if !found {
		r.d.Cases = slices.Insert(r.d.Cases, i, Case{Class: r.in.Class, State: Idle})
	}
	return &r.d.Cases[i]
}

// working returns the case that the holder works on, or nil.
func (r *run) working() *Case {
	i := slices.IndexFunc(r.d.Cases, func(c Case) bool { return !c.rests() })
	if i < 0 {
		return nil
	}
	return &r.d.Cases[i]
}

func (c *Case) rests() bool { return c.State == Idle || c.State == Asked || c.State == Waiting }

func (r *run) due(c *Case) bool { return !r.in.Now.Before(c.Wait.Until) }

// mayHaveWritten reports whether a step of the case's plan is made, or may be.
func (r *run) mayHaveWritten(c *Case) bool {
	return c.Plan != nil && (c.Plan.Next > 0 || r.order(c) != nil)
}

// old reports whether the plan began so long ago that the class is asked again.
func (r *run) old(c *Case) bool { return r.in.Now.Sub(c.Plan.Begun) > stale }

func (r *run) order(c *Case) *Order {
	if o := r.d.Order; o != nil && o.Class == c.Class {
		return o
	}
	return nil
}

func (r *run) delivered(a Delivered) {
	if r.d.Holder != "" && a.Lives {
		r.do(Return{busy})
		return
	}
	c := r.mine()
	crashed := r.takeOver()
	known := a.Event == c.Event
	answered := c.State == Idle && (known || a.Old) || c.State == Waiting && !r.due(c) && c.holds(known) ||
		c.State == Asked && (known || c.Outcome == Crashed && !r.due(c))
	if crashed == c || answered && (!a.Again || c.State == Waiting && c.holds(false)) {
		r.end()
		return
	}
	if c.State == Idle {
		c.Own = 0 // another case begins
	}
	c.Event = a.Event
	r.begin(c)
}

// holds reports whether the case comes back only after its wait, whatever fails meanwhile. Other cases look again when the stream
// delivers a failure: a hold on a plan without a made step says nothing about a newer failure.
func (c *Case) holds(known bool) bool {
	switch {
	case c.Wait.Why == ForAnswer, c.Plan != nil && c.Plan.Next < c.Plan.Steps:
		return true
	case c.Wait.Why == ForPause, c.Wait.Why == ForPlace, c.Wait.Why == ForOther:
		return known
	}
	return false
}

func (r *run) undoAsked(a UndoAsked) {
	if r.d.Holder != "" && a.Lives {
		r.do(Return{busy})
		return
	}
	c := r.mine()
	crashed := r.takeOver()
	known := a.Request <= c.Request
	c.Own = min(max(c.Own, a.Own), len(c.Done))
	switch {
	case crashed == c, known && (!c.byPerson() || !r.due(c)):
		r.end()
	case c.Undo == nil && c.Own == 0 && !r.mayHaveWritten(c): // nothing is written
		c.Request, r.store = a.Request, true // otherwise the repeated request could find more
		r.end()
	default:
		c.Request = a.Request
		c.Undo = &Undo{Person: true, Begun: c.Undo != nil && c.Undo.Begun}
		r.begin(c)
	}
}

// takeOver frees the document of a dead holder and counts the run that never ended. It returns the case if that makes it a question.
func (r *run) takeOver() *Case {
	if r.d.Holder == "" {
		return nil
	}
	r.d.Holder, r.store = "", true
	c := r.working()
	if c == nil {
		return nil
	}
	if c.Crashes++; c.Crashes >= maxCrashes {
		r.abandon(c)
		r.question(c, Crashed, "")
		r.release(c)
		return c
	}
	c.State, c.Wait.Why = Waiting, ForCrash
	if o := r.order(c); o != nil { // an earlier begin would end as waiting, and such a run counts as ended
		c.Wait = Wait{o.Expires.Add(Quiet), ForAnswer}
	}
	r.release(c)
	return nil
}

// begin makes the engine the holder. It goes on from the document if a step was or may have been made, or waits for its due time;
// otherwise it looks again.
func (r *run) begin(c *Case) {
	r.d.Holder, r.store = r.in.Engine, true
	if r.in.Now.Sub(c.Wait.Until) > stale { // no engine has tried for that time
		c.Failing, c.Errors = time.Time{}, 0
	}
	c.Wait.Until = r.in.Now
	switch {
	case c.Undo != nil:
		c.State = Undoing
		if r.mayHaveWritten(c) {
			r.archive(c) // what is made of it stays known even if the undo stops
		}
	case r.mayHaveWritten(c), c.Plan != nil && c.Wait.Why == ForStep:
		c.State = Applying
	default:
		c.State = Looking
	}
	if c.Crashes >= maxCrashes { // the question has been asked
		c.Crashes = 0
	}
	r.proceed(c)
}

// proceed first settles an order in doubt, then does the state's own work.
func (r *run) proceed(c *Case) {
	if o := r.order(c); o != nil {
		over := o.Expires.Add(Quiet)
		if r.in.Now.Before(over) {
			r.comeBack(c, ForAnswer, over.Sub(r.in.Now))
			return
		}
		r.do(Look{For: Check, Step: o.Step, Undo: o.Undo})
		return
	}
	switch {
	case c.State != Applying:
	case c.Plan.Next == c.Plan.Steps:
		c.State = Verifying
	case r.old(c): // the class finds what is made
		r.archive(c)
		c.State, r.store = Looking, true
	}
	switch c.State {
	case Looking:
		r.drop(c)
		r.do(Look{For: Diagnose})
	case Applying:
		r.intend(c)
	case Verifying:
		r.do(Look{For: Prove})
	case Undoing:
		r.archive(c)
		switch {
		case c.Own == 0:
			r.finish(c, Undone)
		case !c.Undo.Begun:
			r.do(Look{For: Bars})
		default:
			r.intend(c)
		}
	}
}

// intend stores the next order and then reads the guards, which count only if they show the document with it.
func (r *run) intend(c *Case) {
	if r.d.Active != "" && r.d.Active != c.Class {
		r.stuck(c, ForOther, later, 0)
		return
	}
	o := Order{ID: r.in.Nonce, Class: c.Class, Attempt: c.Attempt, Expires: r.in.Now.Add(Expiry)}
	if c.State == Undoing {
		last := c.newest()
		if o.Attempt, o.Step, o.Undo = last.Number, last.Steps-1, true; last.Maybe {
			o.Step++
		}
		c.Back = c.Back || c.Undo.Person
		c.Undo.Begun = true
	} else {
		o.Step = c.Plan.Next
	}
	r.d.Active, r.d.Order, r.store = c.Class, &o, true
	r.do(Guard{})
}

func (r *run) flushed(a Flushed) {
	if !a.OK {
		r.do(Return{backOff[0]})
		return
	}
	r.d.Outbox = nil
	r.end()
}

func (r *run) looked(c *Case, a Looked) {
	switch {
	case a.Answer == Failed:
		r.stuck(c, ForErrors, 0, 0)
	case a.Answer == Unread && c.byPerson():
		r.ask(c, Stopped, ForGuards)
	case a.Answer == Unread:
		r.wait(c, ForGuards, later)
	case a.Answer == Unknown:
		r.stuck(c, ForUnknown, a.After, 0)
	case r.order(c) != nil:
		r.checked(c, a)
	case c.State == Looking:
		r.diagnosed(c, a)
	case c.State == Verifying:
		r.proved(c, a)
	case c.State == Undoing:
		r.barred(c, a)
	}
	if len(r.effects) == 0 { // this is not an answer to the question: a hand may lie
		r.stuck(c, ForErrors, 0, 0)
	}
}

// checked goes on after a look at an unanswered order's step.
func (r *run) checked(c *Case, a Looked) {
	o := *r.d.Order
	switch a.Answer {
	case Gone:
		r.d.Order = nil
		r.finish(c, a.Outcome)
		return
	case Drifted:
		r.moved(c, o)
		return
	case Changed:
		if a.Outcome != "" {
			r.archive(c)
			r.d.Order = nil
			r.ask(c, a.Outcome, "")
		}
		return
	case Made:
		r.made(c)
	case Unmade:
		if r.d.Order, r.store = nil, true; !o.Undo && c.Plan == nil {
			r.shorten(c, true)
		}
	default:
		return
	}
	if c.State == Applying && c.Plan.Next == 0 {
		c.State = Looking
	}
	r.proceed(c)
}

func (r *run) diagnosed(c *Case, a Looked) {
	switch a.Answer {
	case Gone, Superseded:
		r.finish(c, a.Outcome)
	case Person:
		r.ask(c, a.Outcome, "")
	case NotYet:
		r.stuck(c, ForCause, a.After, a.Patience)
	case Planned:
		c.Plan = &Plan{Steps: a.Plan.Steps, Proof: a.Plan.Proof}
		r.do(Guard{})
	}
}

func (r *run) proved(c *Case, a Looked) {
	switch a.Answer {
	case Gone, Superseded, Proven:
		c.Back = c.Back && a.Answer != Proven
		r.finish(c, a.Outcome)
	case Changed:
		if r.archive(c); a.Outcome != "" {
			r.ask(c, a.Outcome, "")
			return
		}
		r.wait(c, ForRetry, afterPlan)
	case NotYet:
		if r.in.Now.Sub(c.Plan.Written) < c.Plan.Proof {
			r.wait(c, ForSync, cmp.Or(a.After, later))
			return
		}
		fallthrough
	case StillFails:
		r.archive(c)
		switch {
		case a.Spent && a.Undoes && c.Own > 0:
			c.Undo = &Undo{}
			r.wait(c, ForRetry, afterPlan)
		case a.Spent:
			r.ask(c, Spent, "")
		default:
			r.wait(c, ForRetry, busy)
		}
	}
}

func (r *run) barred(c *Case, a Looked) {
	switch {
	case a.Answer == Gone, a.Answer == Works && !c.byPerson():
		r.finish(c, a.Outcome)
	case a.Answer == Drifted:
		r.ask(c, Drift, ForMoved)
	case a.Answer == Works, a.Answer == Clear:
		r.intend(c)
	}
}

func (r *run) guarded(c *Case, g Guarded) {
	if g.Journaled {
		r.d.Outbox = nil
	}
	permitted := g.Permits && !c.Back
	switch o := r.order(c); {
	case o != nil:
		r.permit(c, g, permitted)
	case c.State == Looking && c.Plan != nil:
		r.admit(c, g, permitted)
	}
}

// admit decides on a new plan, which enters the document only when it has its place.
func (r *run) admit(c *Case, g Guarded, permitted bool) {
	plan := c.Plan
	c.Plan = nil
	c.Attempts = slices.DeleteFunc(c.Attempts, func(at time.Time) bool { return r.in.Now.Sub(at) > day })
	switch {
	case g.Failed:
		r.stuck(c, ForErrors, 0, 0)
	case !g.Readable:
		r.wait(c, ForGuards, later)
	case len(r.d.Outbox) > 0:
		r.stuck(c, ForJournal, 0, 0)
	case g.Outcome != "":
		r.ask(c, g.Outcome, "")
	case r.d.Active != "" && r.d.Active != c.Class:
		r.stuck(c, ForOther, later, 0)
	case len(c.Attempts) >= g.Attempts && g.Undoes && c.Own > 0:
		c.Undo, c.State, r.store = &Undo{}, Undoing, true
		r.proceed(c)
	case !permitted && !g.Approved:
		r.ask(c, NeedsApproval, "")
	case len(c.Attempts) >= g.Attempts:
		r.ask(c, Spent, "")
	case g.Paused: // a person can answer meanwhile
		r.wait(c, ForPause, cmp.Or(g.Hold, later))
	default:
		plan.Approved = g.Approved
		c.Plan = plan
		r.do(Take{c.Attempt + 1, plan.Approved})
	}
}

// permit sends the order that was just stored, or withdraws it unsigned.
func (r *run) permit(c *Case, g Guarded, permitted bool) {
	o := *r.d.Order
	r.d.Order = nil
	approved := g.Approved
	switch {
	case g.Failed:
		r.stuck(c, ForErrors, 0, 0)
	case g.Over != "":
		r.finish(c, g.Over)
	case (!g.Readable || g.Revision != r.d.Revision) && c.byPerson():
		r.ask(c, Stopped, ForGuards)
	case !g.Readable, g.Revision != r.d.Revision:
		r.wait(c, ForGuards, later)
	case g.Moved && g.Outcome != "":
		r.archive(c)
		r.ask(c, g.Outcome, "")
	case g.Moved:
		r.moved(c, o)
	case g.Paused && !c.byPerson():
		r.wait(c, ForPause, cmp.Or(g.Hold, later))
	case o.Undo && !g.Undoes && !c.byPerson():
		r.ask(c, Denied, ForPolicy)
	case !o.Undo && (g.Outcome != "" || !approved && (!permitted || c.Plan.Approved)):
		r.stuck(c, ForPolicy, afterStop, 0)
	case !o.Undo && !approved && !g.Place: // it has lapsed
		r.store = true
		r.do(Take{Attempt: c.Attempt})
	case !o.Undo && g.Due > 0:
		r.wait(c, ForStep, g.Due)
	case !g.Journaled:
		r.stuck(c, ForJournal, 0, 0)
	default:
		r.d.Order = &o
		r.do(Send{o})
	}
}

func (r *run) taken(c *Case, a Taken) {
	switch {
	case c.Plan == nil || r.order(c) != nil:
	case !a.OK && a.Again && !r.mayHaveWritten(c):
		c.State = Looking
		r.proceed(c)
	case !a.OK:
		r.stuck(c, ForPlace, cmp.Or(a.After, afterStop), 0)
	case c.State == Applying:
		r.proceed(c)
	case c.State == Looking:
		c.Attempt++
		c.Attempts = append(c.Attempts, r.in.Now)
		c.Plan.Begun = r.in.Now
		c.State, r.d.Active, r.store = Applying, c.Class, true
		r.record(c, c.Attempt, "planned", 0)
		r.proceed(c)
	}
}

func (r *run) applied(c *Case, a Applied) {
	o := r.order(c)
	if o == nil || o.ID != a.ID {
		return
	}
	switch a.Result {
	case Done, Found:
		r.made(c)
		r.proceed(c)
	case Moved:
		r.d.Order = nil
		r.moved(c, *o)
	case Blocked, Refused:
		r.d.Order = nil
		r.stuck(c, ForErrors, 0, 0)
	case Partly:
		o.Expires = time.Time{} // nothing is on its way
		r.stuck(c, ForErrors, 0, 0)
	case Unsure, NoAnswer:
		r.stuck(c, ForAnswer, o.Expires.Add(Quiet).Sub(r.in.Now), 0)
	}
}

// made records that the order's step is made, or undone.
func (r *run) made(c *Case) {
	o := *r.d.Order
	r.d.Order, r.store = nil, true
	c.progress()
	switch {
	case o.Undo:
		r.record(c, o.Attempt, "unmade", o.Step)
		r.shorten(c, c.Undo == nil || c.Undo.Person) // a stopped undo was a person's
	case c.Plan == nil: // the plan was given up while this was in doubt
		c.newest().Steps, c.newest().Maybe = o.Step+1, false
		r.record(c, o.Attempt, "made", o.Step)
	default:
		c.Plan.Next, c.Plan.Written = o.Step+1, r.in.Now
		r.record(c, o.Attempt, "made", o.Step)
	}
}

// shorten removes the last step from what may be undone. An attempt that a person has undone, or that wrote nothing, does not count.
func (r *run) shorten(c *Case, uncount bool) {
	last := c.newest()
	if last.Maybe {
		last.Maybe = false
	} else {
		last.Steps--
	}
	if last.Steps > 0 {
		return
	}
	if uncount {
		c.uncount(last.Begun)
	}
	c.Done, c.Own = c.Done[:len(c.Done)-1], c.Own-1
}

func (c *Case) newest() *Attempt { return &c.Done[len(c.Done)-1] }

// moved gives up the rest of a plan or undo whose target somebody else has changed. While the document has the order, its step may be made.
func (r *run) moved(c *Case, o Order) {
	if !o.Undo && c.Plan != nil {
		r.archive(c)
		r.d.Order = nil
		r.stuck(c, ForMoved, 0, 0)
		return
	}
	r.d.Order, r.store = nil, true
	switch {
	case !o.Undo, c.Undo == nil: // it was given up before
	case !c.newest().Maybe:
		r.ask(c, Drift, ForMoved)
		return
	default: // it is left as it is
		r.record(c, o.Attempt, "passed", o.Step)
		r.shorten(c, c.Undo.Person)
	}
	r.proceed(c)
}

// drop removes a plan without a made step; an attempt without a write does not count.
func (r *run) drop(c *Case) {
	if c.Plan == nil {
		return
	}
	c.uncount(c.Plan.Begun)
	if !c.Plan.Begun.IsZero() {
		c.Attempt-- // an approval of it is valid for the next one
	}
	c.Plan = nil
}

// abandon drops a plan without a made step before its case rests: it would keep other classes from writing.
func (r *run) abandon(c *Case) {
	if !r.mayHaveWritten(c) {
		r.drop(c)
	}
}

// release lets other classes write, unless a step of the case is made, may be made, or waits for its due time.
func (r *run) release(c *Case) {
	begun := r.mayHaveWritten(c) || r.order(c) != nil || c.Plan != nil && c.Wait.Why == ForStep || c.Undo != nil && c.Undo.Begun
	if r.d.Active == c.Class && !begun {
		r.d.Active = ""
	}
}

// archive ends a plan and keeps what is made, or may be, for an undo.
func (r *run) archive(c *Case) {
	maybe := r.order(c) != nil
	switch {
	case c.Plan == nil:
		return
	case c.Plan.Next == 0 && !maybe:
		r.drop(c)
		return
	}
	c.Done = append(c.Done, Attempt{Number: c.Attempt, Steps: c.Plan.Next, Maybe: maybe, Begun: c.Plan.Begun})
	c.Done = c.Done[max(0, len(c.Done)-maxDone):]
	c.Own = min(c.Own+1, maxDone)
	c.Plan = nil
}

func (c *Case) uncount(begun time.Time) {
	if i := slices.IndexFunc(c.Attempts, begun.Equal); i >= 0 {
		c.Attempts = slices.Delete(c.Attempts, i, i+1)
	}
}

func (c *Case) byPerson() bool { return c.Undo != nil && c.Undo.Person }

// stuck makes a case wait without progress, and asks a person after an hour of it. One error does not end a long wait for what the
// class expects. A person's undo waits only for another class: nothing continues it automatically.
func (r *run) stuck(c *Case, why Why, after, patience time.Duration) {
	if c.Since.IsZero() {
		c.Since = r.in.Now
	}
	since := c.Since
	switch why {
	case ForCause, ForUnknown, ForPlace:
		c.Failing, c.Errors = time.Time{}, 0
	default:
		if c.Failing.IsZero() {
			c.Failing = r.in.Now
		}
		since = c.Failing
		c.Errors = min(c.Errors+1, len(backOff))
	}
	if r.in.Now.Sub(since) >= cmp.Or(patience, lasting) || c.byPerson() && why != ForOther {
		r.ask(c, Lasts, why)
		return
	}
	r.comeBack(c, why, cmp.Or(after, backOff[max(0, c.Errors-1)]))
}

func (c *Case) progress() { c.Since, c.Failing, c.Errors = time.Time{}, time.Time{}, 0 }

// wait makes a case wait that makes progress, or is held by something that may last.
func (r *run) wait(c *Case, why Why, after time.Duration) {
	c.progress()
	r.comeBack(c, why, after)
}

func (r *run) comeBack(c *Case, why Why, after time.Duration) {
	if why != ForStep {
		r.abandon(c)
	}
	c.State, c.Wait = Waiting, Wait{r.in.Now.Add(after), why}
	r.rest(c)
}

// ask ends the run with a question, which keeps why it waited for an hour, or why an undo has stopped.
func (r *run) ask(c *Case, o Outcome, why Why) {
	if c.byPerson() {
		o = Stopped
	}
	r.abandon(c)
	r.question(c, o, why)
	r.rest(c)
}

func (r *run) question(c *Case, o Outcome, why Why) {
	if c.byPerson() || o == Drift || o == Denied {
		c.Undo = nil
	}
	c.State, c.Wait = Asked, Wait{Why: why}
	switch {
	case o != Crashed:
	case c.Outcome == o:
		c.Wait.Until = r.in.Now.Add(nextAsk)
	default:
		c.Wait.Until = r.in.Now.Add(firstAsk)
	}
	r.close(c, o)
}

func (r *run) finish(c *Case, o Outcome) {
	r.archive(c)
	c.Undo = nil
	c.State, c.Wait = Idle, Wait{}
	r.close(c, o)
	r.rest(c)
}

// close records how a case ended; a repeated question once. While the journal takes no record and the outbox is full, only the document says so.
func (r *run) close(c *Case, o Outcome) {
	c.progress()
	if (c.Outcome != o || c.State == Idle) && len(r.d.Outbox) < maxOutbox {
		r.record(c, c.Attempt, string(o), 0)
	}
	c.Outcome = o
}

func (r *run) record(c *Case, attempt int, code string, step int) {
	r.d.Outbox = append(r.d.Outbox, Entry{Class: c.Class, Attempt: attempt, Code: code, Step: step})
}

// rest frees the document, and ends the run once the journal has what the document says.
func (r *run) rest(c *Case) {
	c.Crashes = 0
	r.d.Holder, r.store = "", true
	r.release(c)
	r.end()
}

// end answers the run's failure or request, possibly by a question, or lets it come back.
func (r *run) end() {
	c := r.mine()
	switch {
	case len(r.d.Outbox) > 0:
		r.do(Flush{})
	case r.in.Person && c.byPerson(), !r.in.Person && c.State == Waiting:
		r.do(Return{max(afterPlan, c.Wait.Until.Sub(r.in.Now))})
	default:
		r.do(Ack{})
	}
}
