package machine

import (
	"slices"
	"strconv"
)

// commit puts a document into the bucket, and checks what must hold of each write.
func (x *explorer) commit(w *world, doc int32, by int) {
	old, now := x.docs[w.doc], x.docs[doc]
	if by >= 0 && old.Holder != "" && old.Holder != x.name(w, by) && x.lives(w, by, old.Holder) {
		violated("engine %s writes over %s, which lives", x.name(w, by), old.Holder)
	}
	for _, c := range old.Cases {
		after := now.Cases[slices.IndexFunc(now.Cases, func(d Case) bool { return d.Class == c.Class })]
		if w.owed != 0 && c.Plan != nil && (after.Plan == nil || after.Attempt != c.Attempt) {
			violated("a plan is replaced while the outbox holds records")
		}
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
		if c := now.Cases[x.caseOf(now, classOf(o.Class))]; c.Plan == nil || c.Attempt != o.Attempt {
			violated("an order is in doubt, and its plan is dropped")
		}
	}
	if o := now.Order; o != nil && orderID(old) != o.ID {
		id, _ := strconv.Atoi(o.ID)
		w.intents[id] = intent{stored: true, bad: ^uint8(0), class: classOf(o.Class), attempt: uint8(o.Attempt), undo: o.Undo}
		if old.Order != nil && old.Order.Expires.Add(quiet).After(t0) {
			violated("an order is stored over one that may be out")
		}
		for _, c := range now.Cases {
			if c.Class != o.Class && (c.Plan != nil && c.Plan.Next > 0 || c.Undo != nil && c.Undo.Begun) {
				violated("class %s gets an order, and the plan of %s has begun", o.Class, c.Class)
			}
		}
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
		if c.rests() && c.Wait.Why != ForCrash && (c.State != was.State || c.Wait.Why != was.Wait.Why) {
			w.begun[class] = 0
		}
	}
	w.doc = doc
	x.refresh(w)
}

// entry returns the bit of an audit record.
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

// refresh takes from the stored intents what no longer speaks against them.
func (x *explorer) refresh(w *world) {
	for id := range w.intents {
		n := &w.intents[id]
		if !n.stored {
			continue
		}
		var bad uint8
		if w.paused {
			bad |= underPause
		}
		if approved := n.class == 0 && w.approval == n.attempt; !n.undo && (w.denied || w.back && n.class == 0) && !approved {
			bad |= notAllowed
		}
		if !n.undo && w.taken[n.class]&(1<<n.attempt) == 0 {
			bad |= overBudget
		}
		if w.owed != 0 {
			bad |= notAudited
		}
		n.bad &= bad
	}
}

// checkOrder checks what must hold when an order leaves that its hand would accept.
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
	if w.orders[0].id != 0 {
		violated("two orders are out")
	}
}

// check checks what must hold in every state.
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
				if made && !known(c, attempt, step) && !ordered(d, c, attempt, step) {
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

// known reports whether a document shows that a step is made.
func known(c Case, attempt, step int) bool {
	if c.Plan != nil && c.Attempt == attempt && step < c.Plan.Next {
		return true
	}
	return slices.ContainsFunc(c.Done, func(a Attempt) bool { return a.Number == attempt && step < a.Steps })
}

// ordered reports whether a document shows that a step may be made or undone, so that it will be checked.
func ordered(d Doc, c Case, attempt, step int) bool {
	o := d.Order
	return o != nil && o.Class == c.Class && o.Attempt == attempt && o.Step == step
}
