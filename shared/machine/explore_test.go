package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An explorer visits all states of a scope, breadth first, and stores each document, list of effects and call of Next once.
type explorer struct {
	scope   scope
	docs    []Doc
	ids     []uint16 // by document: the order IDs and nonces in it
	docByID map[string]int32
	lists   [][]Effect
	listBy  map[string]int32
	nexts   map[call]result
	shifts  map[shift]int32
	entries map[Entry]uint64
	states  []world
	index   map[world]int32
	parent  []int32
	by      []action
	from    []int32
	to      []int32
	kinds   []kind
	now     int32 // state whose successors are being made
	moves   map[[2]State]bool
}

type call struct {
	doc int32
	rev uint8
	in  Input
}

type result struct{ doc, list int32 }

type shift struct {
	doc  int32
	by   time.Duration
	away bool
}

const most = 3_000_000

type violation struct{ what string }

func violated(format string, args ...any) { panic(violation{fmt.Sprintf(format, args...)}) }

// Engines have a new name after each start, reused once no document contains it.
var names = [2][4]string{{"a", "a1", "a2", "a3"}, {"b", "b1", "b2", "b3"}}

var classes = [2]string{"one", "two"}

func classOf(name string) uint8 {
	if name == classes[1] {
		return 1
	}
	return 0
}

func explore(s scope) (x *explorer, err error) {
	x = &explorer{
		scope: s, docByID: map[string]int32{}, listBy: map[string]int32{}, nexts: map[call]result{}, shifts: map[shift]int32{},
		entries: map[Entry]uint64{}, index: map[world]int32{}, moves: map[[2]State]bool{},
	}
	defer func() {
		if v := recover(); v != nil {
			broken, ok := v.(violation)
			if !ok {
				panic(v)
			}
			err = fmt.Errorf("violated: %s\n%s", broken.what, x.trace(x.now))
		}
	}()
	x.intern(Doc{})
	x.list(nil)
	w := world{left: s.budget, places: s.places}
	w.denied = s.denied
	for i := range s.classes {
		w.failed[i].event = 1
	}
	x.add(w, -1, action{})
	for i := 0; i < len(x.states); i++ {
		if x.now = int32(i); i == most {
			return x, fmt.Errorf("more than %d states: %s", most, x.trace(x.now))
		}
		x.successors(x.states[i], func(to world, a action) {
			x.check(&to)
			x.canonical(&to)
			j := x.add(to, x.now, a)
			x.from, x.to, x.kinds = append(x.from, x.now), append(x.to, j), append(x.kinds, a.kind)
		})
	}
	for _, m := range s.modes {
		x.live(m)
	}
	return x, nil
}

func (x *explorer) add(w world, parent int32, a action) int32 {
	if i, ok := x.index[w]; ok {
		return i
	}
	i := int32(len(x.states))
	x.index[w] = i
	x.states, x.parent, x.by = append(x.states, w), append(x.parent, parent), append(x.by, a)
	return i
}

func (x *explorer) trace(i int32) string {
	var lines []string
	for ; i >= 0; i = x.parent[i] {
		a, w := x.by[i], x.states[i]
		doc, _ := json.Marshal(x.docs[w.doc])
		lines = append(lines, fmt.Sprintf("%d %s %s | %s", a.engine, a.what, a.detail, doc))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// intern returns the number of a document, without when attempts began and waits of cases that do not wait.
func (x *explorer) intern(d Doc) int32 {
	d = clone(d)
	d.Revision = 0
	if x.scope.budget.lostAck == 0 {
		d.Nonce = ""
	}
	for i := range d.Cases {
		c := &d.Cases[i]
		for j := range c.Attempts {
			c.Attempts[j] = t0
		}
		for j := range c.Done {
			c.Done[j].Begun = t0
		}
		c.Errors = min(c.Errors, 1) // they only make waits longer
		switch {
		case c.Plan == nil || c.Plan.Begun.IsZero():
		case c.Plan.Next < c.Plan.Steps && c.Plan.Begun.Before(t0.Add(-stale)):
			if c.Plan.Begun = longAgo; len(c.Attempts) > 0 {
				c.Attempts[len(c.Attempts)-1] = longAgo
			}
		default:
			c.Plan.Begun = t0
		}
		switch long := !c.Failing.IsZero() && c.Wait.Until.Before(t0.Add(-stale)); {
		case c.State == Idle:
			c.Wait = Wait{}
		case long && c.State != Asked:
			c.Wait.Until = longAgo
		case !c.rests():
			c.Wait.Until = t0
		case c.State == Waiting:
			c.Wait.Until = latest(c.Wait.Until, t0)
		}
		if !c.rests() {
			c.Wait.Why = ""
		}
		if len(c.Attempts) == 0 {
			c.Attempts = nil
		}
		if len(c.Done) == 0 {
			c.Done = nil
		}
	}
	if len(d.Outbox) == 0 {
		d.Outbox = nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	id, ok := x.docByID[string(text)]
	if ok {
		return id
	}
	id = int32(len(x.docs))
	x.docByID[string(text)] = id
	used := uint16(0)
	for _, name := range []string{d.Nonce, orderID(d)} {
		if n, err := strconv.Atoi(name); err == nil {
			used |= 1 << n
		}
	}
	x.docs, x.ids = append(x.docs, d), append(x.ids, used)
	x.resumable(d)
	return id
}

func orderID(d Doc) string {
	if d.Order == nil {
		return ""
	}
	return d.Order.ID
}

// list returns the number of a list of effects. The order is in the document, and a return's duration does not matter: the model delivers early and late.
func (x *explorer) list(effects []Effect) int32 {
	effects = slices.Clone(effects)
	for i, e := range effects {
		switch e := e.(type) {
		case Send:
			effects[i] = Send{}
		case Return:
			if e.After <= 0 {
				violated("a delivery is returned, and nobody says for how long")
			}
			effects[i] = Return{}
		}
	}
	key := fmt.Sprintf("%#v", effects)
	id, ok := x.listBy[key]
	if !ok {
		id = int32(len(x.lists))
		x.listBy[key] = id
		x.lists = append(x.lists, effects)
	}
	return id
}

// shifted returns a document after a jump in time. Only a jump of an hour ages what is counted in minutes. In an hour engines have
// tried again and again, unless they were away.
func (x *explorer) shifted(doc int32, by time.Duration, away bool) int32 {
	key := shift{doc, by, away}
	if id, ok := x.shifts[key]; ok {
		return id
	}
	d := clone(x.docs[doc])
	if o := d.Order; o != nil {
		o.Expires = latest(o.Expires.Add(-by), t0.Add(-stale-time.Minute))
	}
	for i := range d.Cases {
		c := &d.Cases[i]
		if c.State == Waiting || c.State == Asked && by >= time.Hour {
			c.Wait.Until = latest(c.Wait.Until.Add(-by), t0)
		}
		if !c.Since.IsZero() && by >= time.Hour {
			c.Since = t0.Add(-lasting)
		}
		if !c.Failing.IsZero() && by >= time.Hour {
			c.Failing = t0.Add(-lasting)
		}
		if c.Plan != nil && !c.Plan.Written.IsZero() && by >= time.Hour {
			c.Plan.Written = t0.Add(-proof)
		}
		if c.Plan != nil && by >= time.Hour && !c.Plan.Begun.IsZero() {
			c.Plan.Begun = longAgo
		}
		if away {
			c.Wait.Until = longAgo
		}
	}
	id := x.intern(d)
	x.shifts[key] = id
	return id
}

// longAgo is when engines left that have been away for too long.
var longAgo = t0.Add(-2 * stale)

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (x *explorer) fresh(w *world) int {
	used := x.used(w)
	for n := 1; ; n++ {
		if used&(1<<n) == 0 {
			return n
		}
	}
}

func (x *explorer) used(w *world) uint16 {
	used := x.ids[w.doc]
	for _, e := range w.eng {
		if e.running {
			used |= x.ids[e.doc]
		}
	}
	if w.late.on {
		used |= x.ids[w.late.doc]
	}
	for _, o := range w.orders {
		used |= 1 << o.id
	}
	return used | 1<<w.stray.id
}

// canonical makes states equal that behave alike: revisions are only compared, and a finished run leaves nothing.
func (x *explorer) canonical(w *world) {
	for i, e := range w.eng {
		if !e.running {
			w.eng[i] = engine{start: e.start, stalled: e.stalled}
		}
	}
	var seen []uint8
	rename := func(rev *uint8) {
		i := slices.Index(seen, *rev)
		if i < 0 {
			i = len(seen)
			seen = append(seen, *rev)
		}
		*rev = uint8(i + 1)
	}
	rename(&w.rev)
	for i := range w.eng {
		if w.eng[i].running {
			rename(&w.eng[i].rev)
		}
	}
	if w.cut.on {
		rename(&w.cut.rev)
	}
	if w.late.on {
		rename(&w.late.rev)
	}
	used := x.used(w)
	for n := range w.intents {
		if used&(1<<n) == 0 {
			w.intents[n] = intent{}
		}
	}
}

func (x *explorer) revision(w *world) uint8 {
	top := w.rev
	for _, e := range w.eng {
		top = max(top, e.rev)
	}
	return max(top, w.cut.rev, w.late.rev) + 1
}

func (x *explorer) report(w *world, i int, rep Report) {
	e := &w.eng[i]
	in := Input{
		Now: t0, Engine: x.name(w, i), Nonce: strconv.Itoa(x.fresh(w)), Class: classes[e.class], Person: e.person, Report: rep,
	}
	key := call{e.doc, e.rev, in}
	got, ok := x.nexts[key]
	if !ok {
		before := x.docs[e.doc]
		before.Revision = uint64(e.rev)
		whole, _ := json.Marshal(before)
		d, effects := Next(before, in)
		if after, _ := json.Marshal(before); string(after) != string(whole) {
			violated("Next changes what it was given: %s is now %s", whole, after)
		}
		for n, f := range effects {
			switch f := f.(type) {
			case Store:
				if n > 0 {
					violated("a Store is not the first effect")
				}
			case Send:
				if d.Order == nil || *d.Order != f.Order {
					violated("an order leaves that is not in the document: %v", f.Order)
				}
			}
		}
		for _, c := range d.Cases {
			was := Idle
			for _, b := range before.Cases {
				if b.Class == c.Class {
					was = b.State
				}
			}
			if was != c.State {
				x.moves[[2]State{was, c.State}] = true
			}
		}
		x.decided(before, d, in, effects)
		got = result{x.intern(d), x.list(effects)}
		x.nexts[key] = got
	}
	if len(x.lists[got.list]) == 0 {
		if a, ok := rep.(Applied); ok && a.ID != orderID(x.docs[e.doc]) {
			return // it still waits for its own answer
		}
		violated("a run of engine %s hangs: %T %+v has no effects", x.name(w, i), rep, rep)
	}
	e.doc, e.list, e.at, e.sent = got.doc, got.list, 0, false
	x.settle(w, i)
}

// settle performs effects whose moment does not matter: Return, and Store unless the scope wants it separate.
func (x *explorer) settle(w *world, i int) {
	e := &w.eng[i]
	if _, ok := x.lists[e.list][e.at].(Store); ok && !x.scope.apart {
		if e.rev != w.rev {
			*e = engine{start: e.start}
			return
		}
		x.commit(w, e.doc, i)
		w.rev = x.revision(w)
		e.rev = w.rev
		e.at++
	}
	if _, ok := x.lists[e.list][e.at].(Return); ok {
		*e = engine{start: e.start}
	}
}

func (x *explorer) name(w *world, i int) string {
	return names[i][w.eng[i].start]
}

func (x *explorer) restart(w *world, i int) {
	holders := []string{x.docs[w.doc].Holder}
	for j, e := range w.eng {
		if j != i && e.running {
			holders = append(holders, x.docs[e.doc].Holder)
		}
	}
	if w.late.on {
		holders = append(holders, x.docs[w.late.doc].Holder)
	}
	start := slices.IndexFunc(names[i][:], func(name string) bool { return !slices.Contains(holders, name) })
	w.eng[i] = engine{start: uint8(start)}
}

// lives reports whether a document's holder has a fresh heartbeat. An engine that asks about itself begins a run and has none.
func (x *explorer) lives(w *world, asks int, holder string) bool {
	for i, e := range w.eng {
		if x.name(w, i) == holder {
			return i != asks && !e.stalled
		}
	}
	return false
}

func (x *explorer) successors(w world, emit func(world, action)) {
	for i := range x.scope.engines {
		if w.eng[i].running {
			x.step(w, i, emit)
			if w.left.crash > 0 {
				to := w
				to.left.crash--
				x.restart(&to, i)
				emit(to, action{faults, int8(i), "crash", ""})
			}
			if w.left.stall > 0 && !w.eng[i].stalled {
				to := w
				to.left.stall--
				to.eng[i].stalled = true
				emit(to, action{faults, int8(i), "stall", ""})
			}
		} else if i == 0 || w.eng[0].running || x.docs[w.doc].Holder == x.name(&w, i) { // otherwise the engines are alike
			x.deliver(w, i, emit)
		}
	}
	x.hand(w, emit)
	x.people(w, emit)
	x.time(w, emit)
	if w.late.on {
		to := w
		to.late.on, to.late.rev, to.late.doc = false, 0, 0
		if w.late.rev == w.rev {
			x.commit(&to, w.late.doc, -1)
			to.rev = x.revision(&to)
		}
		emit(to, action{plain, -1, "the late write arrives", ""})
	}
}

func (x *explorer) deliver(w world, i int, emit func(world, action)) {
	d := x.docs[w.doc]
	begin := func(class uint8, event uint8, person, again bool, rep Report, what string) {
		to := w
		to.eng[i] = engine{
			start: w.eng[i].start, running: true, class: class, event: event, person: person, rev: w.rev, doc: w.doc,
			again: again,
		}
		x.report(&to, i, rep)
		emit(to, action{plain, int8(i), what, classes[class]})
	}
	lives := x.lives(&w, i, d.Holder)
	for class := range x.scope.classes {
		f := w.failed[class]
		if f.event == 0 {
			continue
		}
		rep := Delivered{Event: strconv.Itoa(int(f.event)), Lives: lives, Old: f.old}
		if !f.acked {
			begin(uint8(class), f.event, false, false, rep, "delivered")
		}
		if f.again && !slices.ContainsFunc(w.eng[:], func(e engine) bool { return e.running && e.again }) { // one engine has it in hand
			rep.Again = true
			begin(uint8(class), f.event, false, true, rep, "delivered again")
		}
	}
	if w.request.event > 0 && !w.request.acked {
		begin(0, w.request.event, true, false, UndoAsked{Request: uint64(w.request.event), Lives: lives}, "undo asked")
	}
}

func (x *explorer) step(w world, i int, emit func(world, action)) {
	e := w.eng[i]
	if e.sent {
		x.answers(w, i, emit)
		return
	}
	d := x.docs[e.doc]
	done := func(to world, k kind, what, detail string) {
		to.eng[i].at++
		x.settle(&to, i)
		emit(to, action{k, int8(i), what, detail})
	}
	reported := func(to world, rep Report, k kind, what, detail string) {
		x.report(&to, i, rep)
		emit(to, action{k, int8(i), what, detail})
	}
	over := func(to world, what, detail string) {
		to.eng[i] = engine{start: e.start}
		emit(to, action{plain, int8(i), what, detail})
	}
	switch f := x.lists[e.list][e.at].(type) {
	case Store:
		x.store(w, i, done, over, emit)
	case Flush:
		x.appends(w, i)
		if w.full {
			reported(w, Flushed{}, plain, "flush", "the journal is full")
			return
		}
		to := w
		for _, entry := range d.Outbox {
			to.owed &^= x.entry(entry)
		}
		x.refresh(&to)
		reported(to, Flushed{OK: true}, plain, "flush", "")
	case Look:
		if f.For == Prove { // people who follow the journal see the step before it is proven
			x.appends(w, i)
		}
		x.looks(w, f, d, e, reported)
	case Guard:
		x.appends(w, i)
		var owed uint64
		for _, entry := range d.Outbox {
			owed |= w.owed & x.entry(entry)
		}
		if owed != 0 && !w.full {
			to := w
			to.owed &^= owed
			x.refresh(&to)
			emit(to, action{plain, int8(i), "flush", ""})
			return
		}
		shown := func(c control, rev uint8, detail string) {
			attempt := d.Cases[x.caseOf(d, e.class)].Attempt
			asked := attempt
			if d.Order == nil {
				asked++
			}
			g := Guarded{
				Revision: uint64(rev), Readable: true, Journaled: owed == 0, Paused: c.paused, Permits: !c.denied, Attempts: x.scope.attempts,
				Approved: e.class == 0 && c.approval > 0 && int(c.approval) == asked,
				Place:    c.taken[e.class]&(1<<attempt) != 0,
				Undoes:   x.scope.undoes && !c.denied && !c.observed,
			}
			if c.observed {
				g.Outcome = "observed"
			}
			reported(w, g, plain, "guard", detail)
			if x.scope.due {
				g.Due = time.Minute
				reported(w, g, delays, "guard", "not due")
				g.Due = 0
			}
		}
		shown(w.control, w.rev, "")
		if w.cut.on {
			shown(w.cut.control, w.cut.rev, "by a leader that is cut off")
		}
		if slices.Contains(x.scope.diagnose, Failed) {
			reported(w, Guarded{Revision: uint64(w.rev)}, fails, "guard", "unreadable")
		}
	case Take:
		to := w
		bit := uint8(1) << f.Attempt
		switch {
		case w.taken[e.class]&bit != 0, f.Approved:
		case w.places > 0:
			to.places--
			to.taken[e.class] |= bit
		default:
			reported(w, Taken{}, plain, "take", "no place")
			if x.scope.claims {
				reported(w, Taken{Again: true}, delays, "take", "no place in a claim")
			}
			return
		}
		if d.Cases[x.caseOf(d, e.class)].State == Looking {
			to.planned[e.class]++
		}
		x.refresh(&to)
		reported(to, Taken{OK: true}, plain, "take", "")
	case Send:
		x.send(w, i, d, emit)
	case Ack:
		to := w
		if e.person {
			to.request.acked = to.request.event == e.event
		} else if f := &to.failed[e.class]; f.event == e.event {
			f.acked, f.again, f.old = f.acked || !e.again, f.again && !e.again, false
		}
		over(to, "ack", "")
		if w.left.lostAck > 0 {
			to := w
			to.left.lostAck--
			over(to, "ack", "lost")
		}
	}
}

// appends checks that the document holds what an engine appends to the journal, unless another engine has written it.
func (x *explorer) appends(w world, i int) {
	e := w.eng[i]
	for _, entry := range x.docs[e.doc].Outbox {
		if e.rev == w.rev && !slices.Contains(x.docs[w.doc].Outbox, entry) {
			violated("a record is appended and not stored")
		}
	}
}

func (x *explorer) caseOf(d Doc, class uint8) int {
	return slices.IndexFunc(d.Cases, func(c Case) bool { return c.Class == classes[class] })
}

func (x *explorer) store(w world, i int, done func(world, kind, string, string), over func(world, string, string), emit func(world, action)) {
	e := w.eng[i]
	if e.lost { // it reads the document again
		if x.docs[w.doc].Nonce != x.docs[e.doc].Nonce {
			over(w, "store", "the nonce shows: lost")
			return
		}
		to := w
		to.eng[i].lost, to.eng[i].rev = false, w.rev
		done(to, plain, "store", "the nonce shows: stored")
		return
	}
	if e.rev != w.rev {
		over(w, "store", "conflict")
		return
	}
	to := w
	x.commit(&to, e.doc, i)
	to.rev = x.revision(&w)
	to.eng[i].rev = to.rev
	done(to, plain, "store", "")
	if w.left.lostAck == 0 {
		return
	}
	to.left.lostAck--
	to.eng[i].rev, to.eng[i].lost = e.rev, true
	emit(to, action{faults, int8(i), "store", "the acknowledgement is lost"})
	to = w
	to.left.lostAck--
	to.eng[i].lost = true
	emit(to, action{faults, int8(i), "store", "lost"})
	to.late.on, to.late.rev, to.late.doc = true, e.rev, e.doc
	emit(to, action{faults, int8(i), "store", "late"})
}

// looks answers truthfully whether a step is made, and otherwise in every way of the scope.
func (x *explorer) looks(w world, f Look, d Doc, e engine, reported func(world, Report, kind, string, string)) {
	outcomes := map[Answer]Outcome{Gone: "gone", Superseded: "superseded", Proven: "fixed", Works: "synced", Person: "needs-action"}
	reported = func(report func(world, Report, kind, string, string)) func(world, Report, kind, string, string) {
		return func(to world, rep Report, k kind, what, detail string) {
			a := rep.(Looked)
			a.Outcome = outcomes[a.Answer]
			report(to, a, k, what, detail)
		}
	}(reported)
	answer := func(a Looked, k kind) { reported(w, a, k, "look", string(a.Answer)) }
	answers := x.scope.diagnose
	switch f.For {
	case Check:
		made := w.made[e.class]&bit(d.Order.Attempt, d.Order.Step) != 0
		if made != d.Order.Undo {
			answer(Looked{Answer: Made}, plain)
		} else {
			answer(Looked{Answer: Unmade}, plain)
		}
		if slices.Contains(x.scope.bars, Gone) {
			to := w
			to.gone = true
			reported(to, Looked{Answer: Gone}, ends, "look", "gone")
		}
		switch o := d.Order; {
		case o.Undo && maybe(d.Cases[x.caseOf(d, e.class)], o.Attempt, o.Step):
			to := w
			to.made[e.class] &^= bit(o.Attempt, o.Step)
			reported(to, Looked{Answer: Drifted}, faults, "look", "drifted, as before")
		case w.left.drift > 0 && (made || !o.Undo):
			to := w
			to.left.drift--
			reported(to, Looked{Answer: Drifted}, faults, "look", "drifted")
		}
	case Prove:
		answers = x.scope.prove
	case Bars:
		answers = x.scope.bars
	}
	for _, a := range answers {
		switch a {
		case Failed, nonsense:
			answer(Looked{Answer: a}, fails)
		case Unknown:
			answer(Looked{Answer: a}, puzzles)
		}
		if f.For == Check {
			continue
		}
		switch a {
		case Gone:
			to := w
			to.gone = f.For != Diagnose
			reported(to, Looked{Answer: a}, ends, "look", string(a))
		case Superseded, Person:
			answer(Looked{Answer: a}, ends)
		case NotYet:
			answer(Looked{Answer: a}, delays)
		case Planned:
			if w.planned[e.class] >= x.scope.plans {
				answer(Looked{Answer: Person}, plans)
			} else {
				answer(Looked{Answer: a, Plan: Plan{Steps: x.scope.steps, Proof: proof}}, plans)
			}
		case Proven:
			to := w
			if e.class == 0 {
				to.back = false
				x.refresh(&to)
			}
			reported(to, Looked{Answer: a}, proves, "look", string(a))
		case Changed:
			answer(Looked{Answer: a}, changes)
		case StillFails:
			answer(Looked{Answer: a}, repeats)
		case Clear, Works:
			to := w
			to.checked[e.class] = true
			k := clears
			if a == Works {
				k = ends
			}
			reported(to, Looked{Answer: a}, k, "look", string(a))
		case Drifted:
			if w.left.drift > 0 {
				to := w
				to.left.drift--
				reported(to, Looked{Answer: a}, faults, "look", string(a))
			}
		}
	}
}

func bit(attempt, step int) uint16 { return 1 << (attempt*2 + step) }

func (x *explorer) send(w world, i int, d Doc, emit func(world, action)) {
	o := d.Order
	left := int16(o.Expires.Sub(t0) / time.Second)
	to := w
	if left <= 0 {
		to.eng[i].sent = true
		x.report(&to, i, Applied{o.ID, Refused})
		emit(to, action{plain, int8(i), "send", "expired"})
		return
	}
	id, _ := strconv.Atoi(o.ID)
	x.checkOrder(&w, id, *o)
	to.eng[i].sent = true
	n := slices.IndexFunc(to.orders[:], func(o out) bool { return o.id == 0 })
	to.orders[n] = out{uint8(id), classOf(o.Class), uint8(o.Attempt), uint8(o.Step), o.Undo, left}
	emit(to, action{plain, int8(i), "send", ""})
}

func (x *explorer) answers(w world, i int, emit func(world, action)) {
	d := x.docs[w.eng[i].doc]
	n := slices.IndexFunc(w.orders[:], func(o out) bool { return o.id != 0 && strconv.Itoa(int(o.id)) == d.Order.ID })
	reported := func(to world, r Result, k kind, what string) {
		x.report(&to, i, Applied{d.Order.ID, r})
		emit(to, action{k, int8(i), what, string(r)})
		if id, _ := strconv.Atoi(d.Order.ID); w.left.stray > 0 && w.stray.id == 0 && r != NoAnswer {
			to.left.stray--
			to.stray.id, to.stray.done = uint8(id), r == Done || r == Found
			emit(to, action{faults, int8(i), what, string(r) + ", and again later"})
		}
	}
	if w.stray.id != 0 {
		r := Refused
		if w.stray.done {
			r = Done
		}
		to := w
		to.stray.id, to.stray.done = 0, false
		x.report(&to, i, Applied{strconv.Itoa(int(w.stray.id)), r})
		emit(to, action{faults, int8(i), "stray answer", string(r)})
	}
	if n < 0 { // it is over, or was written without an answer
		reported(w, NoAnswer, plain, "answer")
		return
	}
	o := w.orders[n]
	to := w
	remove(&to, n)
	if o.left > 0 {
		before := to.made[o.class]
		x.write(&to, o)
		r := Done
		if to.made[o.class] == before {
			r = Found
		}
		reported(to, r, writes, "answer")
	}
	passes := o.undo && maybe(d.Cases[x.caseOf(d, o.class)], int(o.attempt), int(o.step))
	if passes {
		to := w
		remove(&to, n)
		to.made[o.class] &^= bit(int(o.attempt), int(o.step)) // it belongs to somebody else now
		reported(to, Moved, moves, "answer")
	}
	for _, r := range x.scope.results {
		switch r {
		case Refused, Blocked:
			to := w
			remove(&to, n)
			reported(to, r, refuses, "answer")
		case Moved:
			if w.left.drift > 0 && !passes {
				to := w
				remove(&to, n)
				to.left.drift--
				reported(to, r, moves, "answer")
			}
		}
	}
	if w.left.silence > 0 {
		to := w
		to.left.silence--
		reported(to, NoAnswer, faults, "answer") // it stays out, and may write later
	}
}

func remove(w *world, n int) {
	copy(w.orders[n:], w.orders[n+1:])
	w.orders[len(w.orders)-1] = out{}
}

func (x *explorer) write(w *world, o out) {
	at := bit(int(o.attempt), int(o.step))
	if !o.undo {
		w.made[o.class] |= at
		return
	}
	w.made[o.class] &^= at
	if o.class == 0 && w.request.event > 0 {
		w.back = true
	}
}

func (x *explorer) hand(w world, emit func(world, action)) {
	for n, o := range w.orders {
		if o.id == 0 || x.awaited(&w, o) {
			continue
		}
		to := w
		remove(&to, n)
		x.write(&to, o)
		if w.left.stray > 0 && w.stray.id == 0 {
			to := to
			to.left.stray--
			to.stray.id, to.stray.done = o.id, true
			emit(to, action{faults, -1, "the hand writes", "its answer is late"})
		}
		emit(to, action{plain, -1, "the hand writes", "nobody hears"})
	}
}

func (x *explorer) awaited(w *world, o out) bool {
	return slices.ContainsFunc(w.eng[:], func(e engine) bool {
		return e.running && e.sent && x.docs[e.doc].Order.ID == strconv.Itoa(int(o.id))
	})
}

func (x *explorer) people(w world, emit func(world, action)) {
	act := func(k kind, what string, change func(*world)) {
		to := w
		change(&to)
		x.refresh(&to)
		emit(to, action{k, -1, what, ""})
	}
	if w.left.pause > 0 && !w.paused {
		act(person, "pause", func(to *world) { to.left.pause--; to.paused = true })
	}
	if w.paused {
		act(releases, "the pause ends", func(to *world) { to.paused = false })
	}
	if w.left.full > 0 && !w.full {
		act(faults, "the journal is full", func(to *world) { to.left.full--; to.full = true })
	}
	if w.full {
		act(releases, "the journal has room", func(to *world) { to.full = false })
	}
	if w.left.deny > 0 && !w.denied {
		act(person, "the policy permits nothing", func(to *world) { to.left.deny--; to.denied = true })
	}
	if w.left.lapse > 0 && w.taken != [2]uint8{} {
		act(person, "the places lapse", func(to *world) { to.left.lapse--; to.taken = [2]uint8{} })
	}
	if w.places == 0 {
		act(releases, "a place is free", func(to *world) { to.places = 1 })
	}
	if w.left.cut > 0 {
		act(faults, "the leader is cut off", func(to *world) {
			to.left.cut--
			to.cut.on, to.cut.rev, to.cut.control = true, w.rev, w.control
		})
	}
	if w.left.newer > 0 {
		act(person, "a newer failure", func(to *world) { to.left.newer--; to.failed[0] = failure{event: w.failed[0].event + 1} })
	}
	if i := x.caseOf(x.docs[w.doc], 0); w.left.old > 0 && w.failed[0].acked && i >= 0 && x.docs[w.doc].Cases[i].State == Idle {
		act(person, "a failure from before the case's end", func(to *world) {
			to.left.old--
			to.failed[0] = failure{event: w.failed[0].event + 1, old: true}
		})
	}
	if w.left.undo > 0 {
		act(person, "a person wants an undo", func(to *world) {
			to.left.undo--
			to.request = failure{event: w.request.event + 1}
			to.begun[0] = 0
		})
	}
	if w.left.withdraw > 0 && w.approval > 0 {
		act(person, "the approval is withdrawn", func(to *world) { to.left.withdraw--; to.approval = 0 })
	}
	if w.left.observe > 0 && !w.observed {
		act(person, "the policy only observes", func(to *world) { to.left.observe--; to.observed = true })
	}
	if i := x.caseOf(x.docs[w.doc], 0); w.left.approve > 0 && i >= 0 {
		approve := func(attempt int) {
			act(person, "a person approves", func(to *world) {
				to.left.approve--
				to.approval, to.agreed = uint8(attempt), uint8(attempt)
				to.failed[0].again = true
			})
		}
		switch c := x.docs[w.doc].Cases[i]; {
		case c.State == Asked && c.Outcome == NeedsApproval, c.Plan == nil && c.State == Waiting && c.Wait.Why == ForPlace:
			approve(c.Attempt + 1)
		case c.State == Asked && c.Outcome == Lasts && c.Plan != nil:
			approve(c.Attempt)
		}
	}
}

// time jumps to the next moment at which anything changes, or by an hour.
func (x *explorer) time(w world, emit func(world, action)) {
	for _, e := range w.eng {
		if e.running && !e.sent && !e.stalled {
			return // it is faster than the resolution here
		}
	}
	var moments []time.Duration
	add := func(at time.Time) {
		if d := at.Sub(t0); d > 0 {
			moments = append(moments, d)
		}
	}
	d := x.docs[w.doc]
	hour, away := x.scope.relook, false
	if o := d.Order; o != nil {
		add(o.Expires)
		add(o.Expires.Add(Quiet))
		hour = true
	}
	for _, c := range d.Cases {
		if c.State == Waiting {
			add(c.Wait.Until)
		}
		hour = hour || !c.Since.IsZero() || c.Plan != nil && (c.Plan.Next == c.Plan.Steps || c.State == Waiting && c.Wait.Why == ForStep)
		away = away || !c.Since.IsZero()
	}
	for _, o := range w.orders {
		if o.id != 0 {
			add(t0.Add(time.Duration(o.left) * time.Second))
			add(t0.Add(time.Duration(o.left)*time.Second + Quiet))
		}
	}
	if len(moments) > 0 {
		x.jump(w, slices.Min(moments), false, emit)
	}
	if hour {
		x.jump(w, time.Hour, false, emit)
	}
	if away && w.left.away > 0 {
		to := w
		to.left.away--
		x.jump(to, time.Hour, true, emit)
	}
}

func (x *explorer) jump(w world, by time.Duration, away bool, emit func(world, action)) {
	to := w
	to.doc = x.shifted(w.doc, by, away)
	for i := range to.eng {
		if to.eng[i].running {
			to.eng[i].doc = x.shifted(w.eng[i].doc, by, away)
		}
	}
	if w.late.on {
		to.late.doc = x.shifted(w.late.doc, by, away)
	}
	to.orders = [3]out{}
	n := 0
	for _, o := range w.orders {
		o.left -= int16(by / time.Second)
		if o.id != 0 && time.Duration(o.left)*time.Second+time.Minute > 0 {
			to.orders[n] = o
			n++
		}
	}
	what := "time passes:"
	if away {
		what = "time passes without an engine:"
	}
	emit(to, action{plain, -1, what, by.String()})
}

func (x *explorer) live(m mode) {
	var may [32]bool
	for _, k := range m.may {
		may[k] = true
	}
	// The predecessors of state i are preds[first[i]:first[i+1]].
	first := make([]int32, len(x.states)+1)
	for n, to := range x.to {
		if may[x.kinds[n]] {
			first[to+1]++
		}
	}
	for i := range x.states {
		first[i+1] += first[i]
	}
	preds, next := make([]int32, first[len(x.states)]), slices.Clone(first)
	for n, to := range x.to {
		if may[x.kinds[n]] {
			preds[next[to]] = x.from[n]
			next[to]++
		}
	}
	reached := make([]bool, len(x.states))
	var queue []int32
	for i, w := range x.states {
		if x.ended(w) {
			reached[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, p := range preds[first[i]:first[i+1]] {
			if !reached[p] {
				reached[p] = true
				queue = append(queue, p)
			}
		}
	}
	if i := slices.Index(reached, false); i >= 0 {
		x.now = int32(i)
		violated("a failure that never ends while %s", m.name)
	}
}

func (x *explorer) ended(w world) bool {
	d := x.docs[w.doc]
	if w.eng[0].running || w.eng[1].running || d.Holder != "" || w.request.event > 0 && !w.request.acked {
		return false
	}
	for class := range x.scope.classes {
		if f := w.failed[class]; !f.acked || f.again {
			return false
		}
	}
	return !slices.ContainsFunc(d.Cases, func(c Case) bool { return c.State != Idle && c.State != Asked })
}

// TestExplore explores all scopes, and compares cases' transitions with the table in CONTRIBUTING.md.
func TestExplore(t *testing.T) {
	moves := map[[2]State]bool{}
	whole := true
	for _, s := range scopes {
		began := time.Now()
		ran := false
		t.Run(s.name, func(t *testing.T) {
			ran = true
			x, err := explore(s)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(moves, x.moves)
			t.Logf("%s: %d states, %d transitions, %d documents, %.1f s", s.name, len(x.states), len(x.to), len(x.docs), time.Since(began).Seconds())
		})
		whole = whole && ran
	}
	if !whole || t.Failed() {
		return // some scopes were left out
	}
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []State{Idle, Looking, Asked, Waiting, Applying, Verifying, Undoing} {
		var to []string
		for move := range moves {
			if move[0] == from {
				to = append(to, string(move[1]))
			}
		}
		slices.Sort(to)
		if line := "| " + string(from) + " | " + strings.Join(to, ", ") + " |"; !strings.Contains(string(page), "\n"+line) {
			t.Errorf("CONTRIBUTING.md: the table of states has no line that begins with\n%s", line)
		}
	}
}
