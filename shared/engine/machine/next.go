package machine

import (
	"cmp"
	"slices"
	"time"
)

// Limits of time.
const (
	expiry    = 30 * time.Second // of an order; hands accept no later one
	quiet     = time.Minute      // after an order's expiry: hand and cloud may still be writing, and clocks differ
	stale     = 15 * time.Minute // a plan whose order was in doubt for longer is made anew
	lasting   = time.Hour        // without progress, until a person is asked
	day       = 24 * time.Hour   // over which attempts count
	busy      = 5 * time.Second  // until a document that another engine holds is looked at again
	later     = 10 * time.Second // until proof is looked for again
	afterStop = time.Minute      // until a pause or a missing place is looked at again
	firstAsk  = 5 * time.Minute  // until the object of a new question is looked at again: a person may have repaired it
	nextAsk   = time.Hour        // the same, of a question that stays

	maxCrashes = 3
	maxDone    = 3
	maxOutbox  = 4
)

// backOff is how long a case waits after so many runs in a row without progress.
var backOff = []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}

// Next returns the document after a report, and what the driver does then. It changes nothing that it is given. A report that
// the document does not wait for, such as a late answer, changes nothing and has no effects.
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

// mine returns the case of the class whose failure the run handles, and adds it if it is new.
func (r *run) mine() *Case {
	i, found := slices.BinarySearchFunc(r.d.Cases, r.in.Class, func(c Case, class string) int { return cmp.Compare(c.Class, class) })
	if !found {
		r.d.Cases = slices.Insert(r.d.Cases, i, Case{Class: r.in.Class, State: Idle})
	}
	return &r.d.Cases[i]
}

// working returns the case that the holder works on; nil: none.
func (r *run) working() *Case {
	i := slices.IndexFunc(r.d.Cases, func(c Case) bool { return !c.rests() })
	if i < 0 {
		return nil
	}
	return &r.d.Cases[i]
}

func (c *Case) rests() bool { return c.State == Idle || c.State == Asked || c.State == Waiting }

// due reports whether the case's wait is over.
func (r *run) due(c *Case) bool { return !r.in.Now.Before(c.Wait.Until) }

// mayHaveWritten reports whether a step of the case's plan is made, or possibly made.
func (r *run) mayHaveWritten(c *Case) bool {
	return c.Plan != nil && (c.Plan.Next > 0 || r.order(c) != nil)
}

// order returns the document's order if it is the case's.
func (r *run) order(c *Case) *Order {
	if o := r.d.Order; o != nil && o.Class == c.Class {
		return o
	}
	return nil
}

// delivered begins a run for a failure.
func (r *run) delivered(a Delivered) {
	if r.d.Holder != "" && a.Lives {
		r.do(Return{busy})
		return
	}
	c := r.mine()
	r.takeOver()
	switch {
	case c.State == Idle && a.Event <= c.Event, c.State == Waiting && !r.due(c):
		r.end()
	case c.State == Asked && !r.due(c) && !a.Again && (a.Event <= c.Event || c.Outcome == Crashed):
		r.end()
	default:
		c.Event = max(c.Event, a.Event)
		r.begin(c)
	}
}

// undoAsked begins a run for a person who wants an undo.
func (r *run) undoAsked(a UndoAsked) {
	if r.d.Holder != "" && a.Lives {
		r.do(Return{busy})
		return
	}
	c := r.mine()
	r.takeOver()
	known := a.Request <= c.Request
	switch {
	case known && (c.Undo == nil || !r.due(c)):
		r.end()
	case !known && len(c.Done) == 0 && !r.mayHaveWritten(c) && r.order(c) == nil:
		c.Request = a.Request // nothing is written
		r.store = true
		r.end()
	default:
		c.Request = a.Request
		c.Undo = &Undo{Person: true, Begun: c.Undo != nil && c.Undo.Begun}
		r.begin(c)
	}
}

// takeOver frees the document of a holder that is dead, and counts the run that never ended.
func (r *run) takeOver() {
	if r.d.Holder == "" {
		return
	}
	r.d.Holder, r.store = "", true
	c := r.working()
	if c == nil {
		return
	}
	if c.Crashes++; c.Crashes >= maxCrashes {
		r.question(c, Crashed)
		return
	}
	c.State, c.Wait = Waiting, Wait{r.in.Now, ForCrash}
}

// begin makes the engine the holder and works on the case: from the document if a step was or may have been made,
// else by looking again.
func (r *run) begin(c *Case) {
	r.d.Holder, r.store = r.in.Engine, true
	switch {
	case c.Undo != nil:
		c.State = Undoing
	case r.mayHaveWritten(c):
		c.State = Applying
	default:
		c.State = Looking
	}
	if c.Crashes >= maxCrashes { // the question has been asked
		c.Crashes = 0
	}
	r.proceed(c)
}

// proceed goes on with the case that the run works on: first the audit, then an order in doubt, then the state's own work.
func (r *run) proceed(c *Case) {
	if len(r.d.Outbox) > 0 {
		r.do(Flush{})
		return
	}
	if o := r.order(c); o != nil {
		over := o.Expires.Add(quiet)
		if r.in.Now.Before(over) {
			r.wait(c, ForAnswer, over)
			return
		}
		r.do(Look{For: Check, Step: o.Step, Undo: o.Undo})
		return
	}
	if c.State == Applying && c.Plan.Next == c.Plan.Steps {
		c.State = Verifying
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
		case len(c.Done) == 0:
			r.finish(c, Undone)
		case !c.Undo.Begun:
			r.do(Look{For: Bars})
		default:
			r.intend(c)
		}
	}
}

// intend stores the next order and then reads the guards: they count only if they show the document with the order in it.
func (r *run) intend(c *Case) {
	if r.d.Active != "" && r.d.Active != c.Class {
		r.stuck(c, ForOther, later, 0)
		return
	}
	o := Order{ID: r.in.Nonce, Class: c.Class, Attempt: c.Attempt, Expires: r.in.Now.Add(expiry)}
	if c.State == Undoing {
		last := c.Done[len(c.Done)-1]
		o.Attempt, o.Step, o.Undo = last.Number, last.Steps-1, true
		c.Undo.Begun = true
	} else {
		o.Step = c.Plan.Next
	}
	r.d.Active, r.d.Order, r.store = c.Class, &o, true
	r.do(Guard{})
}

func (r *run) flushed(a Flushed) {
	c := r.working()
	switch {
	case a.OK:
		if r.d.Outbox = nil; c == nil {
			r.end()
			return
		}
		r.proceed(c)
	case c != nil:
		r.stuck(c, ForAudit, 0, 0)
	default:
		r.do(Return{backOff[0]})
	}
}

func (r *run) looked(c *Case, a Looked) {
	switch {
	case a.Answer == Failed:
		r.stuck(c, ForErrors, 0, 0)
	case a.Answer == Unknown:
		r.stuck(c, ForUnknown, 0, 0)
	case r.order(c) != nil:
		r.checked(c, a)
	case c.State == Looking:
		r.diagnosed(c, a)
	case c.State == Verifying:
		r.proved(c, a)
	case c.State == Undoing:
		r.barred(c, a)
	}
	if len(r.effects) == 0 { // no answer to this question: a hand may lie
		r.stuck(c, ForErrors, 0, 0)
	}
}

// checked goes on after an order without an answer, whose step was looked at.
func (r *run) checked(c *Case, a Looked) {
	o := *r.d.Order
	switch a.Answer {
	case Gone:
		r.d.Order = nil
		r.finish(c, GoneBy)
		return
	case Drifted:
		r.moved(c)
		return
	case Made:
		r.made(c)
	case Unmade:
		r.d.Order, r.store = nil, true
	default:
		return
	}
	if c.State == Applying && (c.Plan.Next == 0 || r.in.Now.Sub(o.Expires) > stale) {
		r.archive(c)
		c.State = Looking
	}
	r.proceed(c)
}

func (r *run) diagnosed(c *Case, a Looked) {
	switch a.Answer {
	case Gone:
		r.finish(c, GoneBy)
	case Superseded:
		r.finish(c, SupersededBy)
	case Person:
		r.ask(c, NeedsAction)
	case NotYet:
		r.stuck(c, ForCause, a.After, a.Patience)
	case Planned:
		c.Plan = &Plan{Steps: a.Plan.Steps, Resync: a.Plan.Resync, Proof: a.Plan.Proof}
		r.do(Guard{})
	}
}

func (r *run) proved(c *Case, a Looked) {
	switch a.Answer {
	case Gone:
		r.finish(c, GoneBy)
	case Proven:
		c.Back = false
		r.finish(c, Fixed)
	case Superseded:
		r.finish(c, SupersededBy)
	case Changed:
		r.archive(c)
		c.State = Looking
		r.proceed(c)
	case NotYet:
		if r.in.Now.Sub(c.Plan.Written) < c.Plan.Proof {
			r.wait(c, ForSync, r.in.Now.Add(cmp.Or(a.After, later)))
			return
		}
		fallthrough
	case StillFails:
		r.archive(c)
		r.wait(c, ForRetry, r.in.Now.Add(busy))
	}
}

func (r *run) barred(c *Case, a Looked) {
	switch {
	case a.Answer == Gone:
		r.finish(c, GoneBy)
	case a.Answer == Drifted:
		r.ask(c, Drift)
	case a.Answer == Works && !c.Undo.Person:
		r.finish(c, Fixed)
	case a.Answer == Works, a.Answer == Clear:
		r.intend(c)
	}
}

func (r *run) guarded(c *Case, g Guarded) {
	permitted := g.Permits && !c.Back
	switch o := r.order(c); {
	case o != nil:
		r.permit(c, g, permitted)
	case c.State == Looking && c.Plan != nil:
		r.admit(c, g, permitted)
	}
}

// admit decides about a plan that was just made. Until it has its place it is not in the document.
func (r *run) admit(c *Case, g Guarded, permitted bool) {
	plan := c.Plan
	c.Plan = nil
	c.Attempts = slices.DeleteFunc(c.Attempts, func(at time.Time) bool { return r.in.Now.Sub(at) > day })
	switch {
	case !g.Readable:
		r.stuck(c, ForErrors, 0, 0)
	case g.Paused:
		r.wait(c, ForPause, r.in.Now.Add(afterStop))
	case r.d.Active != "" && r.d.Active != c.Class:
		r.stuck(c, ForOther, later, 0)
	case len(c.Attempts) >= g.Attempts && g.Undoes && len(c.Done) > 0:
		c.Undo, c.State, r.store = &Undo{}, Undoing, true
		r.proceed(c)
	case len(c.Attempts) >= g.Attempts:
		r.ask(c, Spent)
	case !permitted && !g.Approved:
		r.ask(c, NeedsApproval)
	default:
		plan.Approved = !permitted
		c.Plan = plan
		r.do(Take{c.Attempt + 1})
	}
}

// permit lets the order that was just stored leave, or takes it back: it was not signed yet.
func (r *run) permit(c *Case, g Guarded, permitted bool) {
	o := *r.d.Order
	r.d.Order = nil
	switch {
	case !g.Readable, g.Revision != r.d.Revision:
		r.stuck(c, ForErrors, 0, 0)
	case g.Paused:
		r.wait(c, ForPause, r.in.Now.Add(afterStop))
	case o.Undo && !c.Undo.Person && !g.Undoes:
		r.ask(c, Drift)
	case !o.Undo && !permitted && !g.Approved && !(c.Plan.Approved && c.Plan.Next > 0): // an approval may be withdrawn before the first step
		r.stuck(c, ForPolicy, afterStop, 0)
	case !o.Undo && !g.Place: // it has lapsed
		r.store = true
		r.do(Take{c.Attempt})
	case !o.Undo && g.Synced && c.Plan.Resync && c.Plan.Next > 0 && c.Plan.Next == c.Plan.Steps-1:
		c.Plan.Steps, r.store = c.Plan.Next, true
		r.proceed(c)
	default:
		r.d.Order = &o
		r.do(Send{o})
	}
}

func (r *run) taken(c *Case, a Taken) {
	switch {
	case c.Plan == nil || r.order(c) != nil:
	case !a.OK:
		r.wait(c, ForPlace, r.in.Now.Add(afterStop))
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
		r.moved(c)
	case Blocked, Refused:
		r.d.Order = nil
		r.stuck(c, ForErrors, 0, 0)
	case Unsure, NoAnswer:
		r.wait(c, ForAnswer, o.Expires.Add(quiet))
	}
}

// made puts into the document that the step of the order is made, or undone.
func (r *run) made(c *Case) {
	o := *r.d.Order
	r.d.Order, r.store = nil, true
	c.Since, c.Errors = time.Time{}, 0
	if !o.Undo {
		c.Plan.Next, c.Plan.Written = o.Step+1, r.in.Now
		r.record(c, o.Attempt, "made", o.Step)
		return
	}
	r.record(c, o.Attempt, "unmade", o.Step)
	c.Back = c.Back || c.Undo.Person
	last := &c.Done[len(c.Done)-1]
	if last.Steps--; last.Steps > 0 {
		return
	}
	if c.Undo.Person { // an attempt that a person has undone does not count
		c.uncount(last.Begun)
	}
	c.Done = c.Done[:len(c.Done)-1]
}

// moved gives up the rest of a plan or of an undo whose target somebody else has changed.
func (r *run) moved(c *Case) {
	undo := r.d.Order.Undo
	r.d.Order = nil
	if undo {
		r.ask(c, Drift)
		return
	}
	r.archive(c)
	r.stuck(c, ForMoved, 0, 0)
}

// drop forgets a plan of which nothing is made. An attempt that has written nothing does not count.
func (r *run) drop(c *Case) {
	if c.Plan == nil {
		return
	}
	c.uncount(c.Plan.Begun)
	c.Plan = nil
	r.release(c)
}

// abandon drops a plan of which nothing is made before its case rests: it would be made anew, and keeps other classes from writing.
func (r *run) abandon(c *Case) {
	if !r.mayHaveWritten(c) && len(r.d.Outbox) == 0 {
		r.drop(c)
	}
}

// release lets other classes write.
func (r *run) release(c *Case) {
	if r.d.Active == c.Class {
		r.d.Active = ""
	}
}

// archive ends a plan and keeps what is made of it, so that it can be undone.
func (r *run) archive(c *Case) {
	switch {
	case c.Plan == nil:
		return
	case c.Plan.Next == 0:
		r.drop(c)
		return
	}
	c.Done = append(c.Done, Attempt{Number: c.Attempt, Steps: c.Plan.Next, Begun: c.Plan.Begun})
	c.Done = c.Done[max(0, len(c.Done)-maxDone):]
	c.Plan = nil
	r.release(c)
}

func (c *Case) uncount(begun time.Time) {
	if i := slices.IndexFunc(c.Attempts, begun.Equal); i >= 0 {
		c.Attempts = slices.Delete(c.Attempts, i, i+1)
	}
}

// stuck lets a case wait without progress, and asks a person when that has lasted for an hour.
func (r *run) stuck(c *Case, why Why, after, patience time.Duration) {
	if c.Since.IsZero() {
		c.Since = r.in.Now
	}
	if r.in.Now.Sub(c.Since) >= max(lasting, patience) {
		r.ask(c, Lasts)
		return
	}
	c.Errors = min(c.Errors+1, len(backOff))
	r.wait(c, why, r.in.Now.Add(cmp.Or(after, backOff[c.Errors-1])))
}

// wait ends the run; the case comes back.
func (r *run) wait(c *Case, why Why, until time.Time) {
	r.abandon(c)
	c.State, c.Wait = Waiting, Wait{until, why}
	r.rest(c)
}

// ask ends the run with a question.
func (r *run) ask(c *Case, o Outcome) {
	r.abandon(c)
	if o == Drift {
		r.stopUndo(c)
	}
	r.question(c, o)
	r.rest(c)
}

func (r *run) question(c *Case, o Outcome) {
	again := firstAsk
	if c.Outcome == o {
		again = nextAsk
	}
	c.State, c.Wait = Asked, Wait{Until: r.in.Now.Add(again)}
	r.close(c, o)
}

// finish ends the run and the case.
func (r *run) finish(c *Case, o Outcome) {
	r.archive(c)
	r.stopUndo(c)
	c.State, c.Wait = Idle, Wait{}
	r.close(c, o)
	r.rest(c)
}

// close records how a case ended, but a question that repeats only once. Where the audit takes no record, the document
// alone says so once the outbox is full.
func (r *run) close(c *Case, o Outcome) {
	c.Since, c.Errors = time.Time{}, 0
	if (c.Outcome != o || c.State == Idle) && len(r.d.Outbox) < maxOutbox {
		r.record(c, c.Attempt, string(o), 0)
	}
	c.Outcome = o
}

func (r *run) stopUndo(c *Case) {
	if c.Undo != nil {
		c.Undo = nil
		r.release(c)
	}
}

func (r *run) record(c *Case, attempt int, code string, step int) {
	r.d.Outbox = append(r.d.Outbox, Entry{Class: c.Class, Attempt: attempt, Code: code, Step: step})
}

// rest frees the document, and ends the run once the audit has what the document says.
func (r *run) rest(c *Case) {
	c.Crashes = 0
	r.d.Holder, r.store = "", true
	r.end()
}

// end ends the run: its failure or request is answered, or comes back.
func (r *run) end() {
	c := r.mine()
	back := max(busy, c.Wait.Until.Sub(r.in.Now))
	switch {
	case len(r.d.Outbox) > 0:
		r.do(Flush{})
	case r.in.Person && c.Undo != nil, !r.in.Person && (c.State == Waiting || c.State == Asked):
		r.do(Return{back})
	default:
		r.do(Ack{})
	}
}
