package machine

import (
	"slices"
	"strconv"
)

func (x *explorer) commit(w *world, doc int32, by int) {
	old, now := x.docs[w.doc], x.docs[doc]
	if by >= 0 && old.Holder != "" && old.Holder != x.name(w, by) && x.lives(w, by, old.Holder) {
		violated("engine %s writes over %s, which lives", x.name(w, by), old.Holder)
	}
	for _, e := range now.Outbox {
		if !slices.Contains(old.Outbox, e) {
			w.owed |= x.entry(e)
		}
	}
	var held uint64
	for _, e := range now.Outbox {
		held |= x.entry(e)
	}
	if w.owed&^held != 0 {
		violated("a record is lost")
	}
	if o := now.Order; o != nil && !o.Undo {
		if c := now.Cases[x.caseOf(now, classOf(o.Class))]; (c.Plan == nil || c.Attempt != o.Attempt) && !maybe(c, o.Attempt, o.Step) {
			violated("an order is in doubt, and its plan is dropped")
		}
	}
	if o := now.Order; o != nil && orderID(old) != o.ID {
		id, _ := strconv.Atoi(o.ID)
		own := now.Cases[x.caseOf(now, classOf(o.Class))]
		w.intents[id] = intent{
			stored: true, bad: ^uint8(0), class: classOf(o.Class), attempt: uint8(o.Attempt), undo: o.Undo, person: own.byPerson(),
		}
		answered := func(e Entry) bool {
			told := e.Code == "made" || e.Code == "unmade" || e.Code == "passed"
			return told && e.Class == old.Order.Class && e.Attempt == old.Order.Attempt && e.Step == old.Order.Step && !slices.Contains(old.Outbox, e)
		}
		if old.Order != nil && old.Order.Expires.Add(Quiet).After(t0) && !slices.ContainsFunc(now.Outbox, answered) {
			violated("an order is stored over one that may be out")
		}
		for _, c := range now.Cases {
			begun := c.Plan != nil && (c.Plan.Next > 0 || c.State == Waiting && c.Wait.Why == ForStep) || c.Undo != nil && c.Undo.Begun
			if c.Class != o.Class && begun {
				violated("class %s gets an order, and the plan of %s has begun", o.Class, c.Class)
			}
		}
	}
	if err := now.Valid(); err != nil {
		violated("a document that its reader refuses: %v", err)
	}
	for _, c := range now.Cases {
		class := classOf(c.Class)
		var was Case
		if i := x.caseOf(old, class); i >= 0 {
			was = old.Cases[i]
		}
		w.checked[class] = w.checked[class] && c.Undo != nil
		if !c.rests() && now.Holder != old.Holder {
			if w.begun[class]++; w.begun[class] > maxCrashes {
				violated("a run begins after %d that never ended", maxCrashes)
			}
		}
		asked := c.State == Asked && was.State != Asked
		if c.rests() && by >= 0 && old.Holder == x.name(w, by) || by < 0 && c.rests() && !was.rests() && c.Wait.Why != ForCrash || asked {
			w.begun[class] = 0
		}
		if was.State == Asked && was.Outcome == Crashed && was.Wait.Until.After(t0) && !c.rests() && c.Undo == nil && !w.failed[class].again {
			violated("a run begins after three crashes, and nobody has answered")
		}
		if was.State == Idle && !c.rests() && c.Undo == nil || was.State == "" {
			w.older[class] = uint8(was.Attempt)
			if w.failed[class].old {
				violated("a run begins for a failure that the end of its case has answered")
			}
		}
		for attempt := int(w.older[class]) + 1; !w.gone && c.State == Idle && c.Outcome == Undone && attempt <= int(x.scope.plans); attempt++ {
			if w.made[class]&(bit(attempt, 0)|bit(attempt, 1)) != 0 {
				violated("a case is undone, and steps of its attempt %d are made", attempt)
			}
		}
	}
	w.doc = doc
	x.refresh(w)
}

func (x *explorer) entry(e Entry) uint64 {
	b, ok := x.entries[e]
	if !ok {
		if len(x.entries) == 64 {
			panic("too many records for a scope")
		}
		b = 1 << len(x.entries)
		x.entries[e] = b
	}
	return b
}

func (x *explorer) refresh(w *world) {
	for id := range w.intents {
		n := &w.intents[id]
		if !n.stored {
			continue
		}
		var bad uint8
		if w.paused && !n.person {
			bad |= underPause
		}
		approved := n.class == 0 && (w.approval == n.attempt || w.agreed == n.attempt && w.made[0]&(bit(int(n.attempt), 0)|bit(int(n.attempt), 1)) != 0)
		if !n.undo && (w.denied || w.back && n.class == 0) && !approved || !n.person && w.observed || n.undo && !n.person && w.denied {
			bad |= notAllowed
		}
		if !n.undo && w.taken[n.class]&(1<<n.attempt) == 0 && !approved {
			bad |= overBudget
		}
		if w.owed != 0 {
			bad |= notJournaled
		}
		n.bad &= bad
	}
}

func (x *explorer) checkOrder(w *world, id int, o Order) {
	n := w.intents[id]
	if !n.stored {
		violated("an order without its intent, ID and expiry stored")
	}
	for i, name := range badNames {
		if n.bad&(1<<i) != 0 {
			violated("%s", name)
		}
	}
	if o.Undo && !w.checked[classOf(o.Class)] {
		violated("an undo begins, and not all targets were checked")
	}
	if o.Undo && o.Attempt <= int(w.older[classOf(o.Class)]) {
		violated("an undo of an attempt of another case")
	}
	if w.orders[0].id != 0 {
		violated("two orders are out")
	}
}

func (x *explorer) decided(before, after Doc, in Input, effects []Effect) {
	i := x.caseOf(after, classOf(in.Class))
	if i < 0 {
		return
	}
	c, was := after.Cases[i], Case{State: Idle}
	if i := x.caseOf(before, classOf(in.Class)); i >= 0 {
		was = before.Cases[i]
	}
	has := func(is func(Effect) bool) bool { return slices.ContainsFunc(effects, is) }
	returned := has(func(e Effect) bool { _, ok := e.(Return); return ok })
	full := in.Report == Flushed{}
	if o := after.Order; o != nil && !o.Undo && o.Class == c.Class && (before.Order == nil || before.Order.ID != o.ID) && t0.Sub(c.Plan.Begun) > stale {
		violated("a plan that began too long ago goes on")
	}
	switch {
	case c.State == Waiting && (c.Wait.Why == "" || c.Wait.Until.IsZero()):
		violated("a case waits, and nobody knows for what: %+v", c.Wait)
	case c.State == Waiting && c.Wait.Why == ForStep && c.Plan == nil:
		violated("a plan that is not due yet is dropped")
	case c.State == Asked && c.Outcome == "", c.State == Idle && was.State != Idle && c.Outcome == "":
		violated("a case ends, and nobody knows how")
	case c.State == Asked && before.Holder == "" && returned && !full:
		violated("a question holds a delivery")
	case c.State == Asked && c.byPerson():
		violated("a person's undo is a question, and goes on")
	case c.State == Asked && c.Outcome == Stopped && c.Plan != nil && c.Plan.Next > 0:
		violated("a person's undo has stopped, and the plan would go on")
	case was.byPerson() && !was.rests() && c.State == Waiting && c.Wait.Why != ForOther && c.Wait.Why != ForAnswer:
		violated("a person's undo waits: %s", c.Wait.Why)
	}
	switch a := in.Report.(type) {
	case Delivered:
		if was.State == Waiting && was.Wait.Until.Before(t0.Add(-stale)) && !c.rests() && c.Failing.Before(t0) && !c.Failing.IsZero() {
			violated("time counts as without progress in which no engine has tried")
		}
		if was.State == Waiting && was.Wait.Why == ForStep && was.Plan.Next == 0 && before.Order == nil {
			old := was.Plan.Begun.Before(t0.Add(-stale))
			if on := c.State == Applying; !c.rests() && c.State != Undoing && on == old {
				violated("a plan of which nothing is made goes on: %t, and it is old: %t", on, old)
			}
		}
		if was.State == Asked && was.Outcome != Crashed && a.Event != was.Event && before.Holder == "" && c.Event != a.Event {
			violated("a newer failure is not looked at, for a question")
		}
	case Guarded:
		seen := a.Readable && (a.Revision == before.Revision || before.Order == nil)
		switch {
		case !seen && c.State == Asked && !was.byPerson():
			violated("guards that can't be read become a question")
		case c.State == Idle:
			violated("guards end a case")
		case seen && before.Order == nil && a.Outcome != "" && c.Outcome != a.Outcome:
			violated("a plan that is kept back is no question")
		case !a.Readable && c.State == Waiting && c.Wait.Why != ForGuards:
			violated("guards that can't be read are a wait for something else")
		case seen && a.Approved && a.Outcome == "" && has(func(e Effect) bool { t, ok := e.(Take); return ok && !t.Approved }):
			violated("an approved plan is held by a budget")
		case seen && was.byPerson() && !has(func(e Effect) bool { _, ok := e.(Send); return ok }):
			violated("a person's undo is held by a pause or the policy")
		}
	case Applied:
		o := before.Order
		switch passes := o.Undo && maybe(was, o.Attempt, o.Step); {
		case o.ID == a.ID && a.Result == NoAnswer && c.State == Waiting && c.Since.IsZero():
			violated("an order without an answer counts as progress")
		case o.ID != a.ID || a.Result == Done || a.Result == Found || !o.Undo:
		case passes && a.Result == Moved && c.State == Asked:
			violated("an undo stops at a step that may not be made")
		case was.byPerson() && !(passes && a.Result == Moved) && c.State != Asked:
			violated("a person's undo goes on after %s", a.Result)
		}
	}
}

// resumable checks that a person can request the undo of what a stopped undo has left.
func (x *explorer) resumable(d Doc) {
	for _, c := range d.Cases {
		if c.State != Asked || c.Outcome != Stopped {
			continue
		}
		after, _ := Next(d, Input{Now: t0, Engine: "a", Nonce: "1", Class: c.Class, Person: true, Report: UndoAsked{Request: c.Request + 1}})
		if got := after.Cases[x.caseOf(after, classOf(c.Class))]; c.Own > 0 && !got.byPerson() {
			violated("what a stopped undo has left can't be undone: %+v", c)
		}
	}
}

func (x *explorer) check(w *world) {
	d := x.docs[w.doc]
	if len(d.Outbox) > maxOutbox {
		violated("%d records in the outbox", len(d.Outbox))
	}
	working := 0
	for _, c := range d.Cases {
		if !c.rests() {
			working++
		}
		class := classOf(c.Class)
		if len(c.Done) > maxDone {
			violated("%d attempts kept for undo", len(c.Done))
		}
		for attempt := 1; !w.gone && attempt <= int(x.scope.plans); attempt++ {
			for step := range x.scope.steps {
				made := w.made[class]&bit(attempt, step) != 0
				if made && !known(c, attempt, step) && !maybe(c, attempt, step) && !ordered(d, c, attempt, step) {
					violated("step %d of attempt %d is made and forgotten", step+1, attempt)
				}
				if !made && known(c, attempt, step) && !ordered(d, c, attempt, step) {
					violated("step %d of attempt %d is in the document and not made", step+1, attempt)
				}
			}
		}
		begun := len(c.Done)
		if c.Plan != nil {
			begun++
		}
		if !x.scope.undoes && len(c.Attempts) > begun {
			violated("%d attempts are counted, and %d were begun and not undone", len(c.Attempts), begun)
		}
	}
	if working > 1 || working == 1 != (d.Holder != "") {
		violated("%d cases are worked on, and the holder is %q", working, d.Holder)
	}
}

func known(c Case, attempt, step int) bool {
	if c.Plan != nil && c.Attempt == attempt && step < c.Plan.Next {
		return true
	}
	return slices.ContainsFunc(c.Done, func(a Attempt) bool { return a.Number == attempt && step < a.Steps })
}

func maybe(c Case, attempt, step int) bool {
	return slices.ContainsFunc(c.Done, func(a Attempt) bool { return a.Number == attempt && a.Steps == step && a.Maybe })
}

func ordered(d Doc, c Case, attempt, step int) bool {
	o := d.Order
	return o != nil && o.Class == c.Class && o.Attempt == attempt && o.Step == step
}
