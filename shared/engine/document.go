package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	kept       = 30 * 24 * time.Hour // how long a document outlives its last run; CASES keeps records as long
	documented = 768 << 10           // bytes of a document, at most
	spare      = 64 << 10            // bytes that no plan may take
	heard      = time.Second         // an engine that has written the document within this is not cut off from NATS
	soon       = 5 * time.Second     // until an object that another run holds is looked at again
)

// An object is the document of an object as a run knows it. One that the run holds may be written.
type object struct {
	env      *Env
	key      string
	class    string
	log      *slog.Logger
	doc      event.Document
	stored   time.Time // when NATS stored the document
	revision uint64
	nonce    string          // of the last write of this run
	written  time.Time       // when the last write that was acknowledged began, by the clock of this machine
	holding  *holding        // nil: the run does not hold the object
	yields   context.Context // ends when another run wants to hold it
	crossed  bool            // the document has changed under the run
	dry      bool            // nothing is written
}

// readObject reads the document of an object for a run of a class.
func readObject(ctx context.Context, env *Env, uid, class string, log *slog.Logger) (*object, error) {
	o := &object{env: env, key: event.StateKey(env.Cluster, uid), class: class, log: log, doc: event.Document{V: event.DocumentVersion}}
	if err := event.ValidUID(uid); err != nil {
		return o, err
	}
	e, err := env.Stream.Entry(ctx, o.key)
	o.revision, o.stored = e.Revision, e.Time
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return o, nil
	case err != nil:
		return o, err
	}
	if o.doc, err = event.ReadDocument(e.Value); err != nil {
		return o, fmt.Errorf("%s: %w", o.key, err)
	}
	o.doc.State.Revision = e.Revision
	for i := range o.doc.State.Cases { // a clock that jumped back makes nothing wait for longer than it was to wait
		c := &o.doc.State.Cases[i]
		if most := env.now().Add(o.doc.Case(c.Class).Wait); c.Wait.Until.After(most) {
			c.Wait.Until = most
		}
	}
	return o, o.date(ctx)
}

// mine returns the case of the run's class.
func (o *object) mine() *event.Case { return o.doc.Case(o.class) }

// state returns what is decided of the run's class.
func (o *object) state() machine.Case {
	if c := o.doc.State.Case(o.class); c != nil {
		return *c
	}
	return machine.Case{Class: o.class, State: machine.Idle}
}

// record returns the newest record of the run's class; the zero record if there is none.
func (o *object) record() event.Record {
	c := o.mine()
	if c.Record == nil {
		return event.Record{}
	}
	rec := *c.Record
	// An engine whose clock was ahead, or this one's being behind, must not make anything wait until this one has caught up.
	if rec.At.After(o.env.now()) && o.stored.Before(rec.At) {
		rec.At = o.stored
	}
	return rec
}

// date gives an order that is out an expiry by the clock of this machine: how long it has been out is measured by that of NATS.
// Without an engine, which asks for the time, the two clocks count as one.
func (o *object) date(ctx context.Context) (err error) {
	order, ahead := o.doc.State.Order, time.Duration(0)
	if order == nil || order.Expires.IsZero() {
		return nil
	}
	if o.env.Engine != nil {
		if ahead, err = o.env.Engine.ahead(ctx); err != nil {
			return fmt.Errorf("find out how long an order has been out: %w", err)
		}
	}
	order.Expires = o.stored.Add(o.doc.Rest - ahead)
	if most := o.env.now().Add(machine.Expiry); order.Expires.After(most) {
		order.Expires = most
	}
	return nil
}

// enter makes the run the only one of this engine that works on the object, and has the engine's heartbeat written. It returns how
// long to wait if another run does.
func (o *object) enter(ctx context.Context) (wait time.Duration, err error) {
	if o.dry || o.holding != nil {
		return 0, nil
	}
	engine := o.env.Engine
	h, yields, ok := engine.hold(ctx, o.key, o.env.bound()+soon)
	if !ok {
		return time.Second, nil
	}
	if err := engine.beatNow(ctx, beatEach); err != nil {
		engine.free(o.key, h)
		return 0, err
	}
	o.holding, o.yields = h, yields
	return 0, nil
}

// lives reports whether the engine that holds the object lives, and has a run for it if it is this one.
func (o *object) lives(ctx context.Context) (bool, error) {
	switch holder := o.doc.State.Holder; {
	case holder == "" || o.env.Engine == nil:
		return holder != "", nil
	case holder == o.env.Engine.name:
		return o.env.Engine.busy(o.key), nil
	default:
		return o.env.Engine.lives(ctx, o.env.Cluster, holder)
	}
}

// store writes the document, if nobody else has since.
func (o *object) store(ctx context.Context) error {
	if o.dry {
		return nil
	}
	o.doc.Rest = 0
	if order := o.doc.State.Order; order != nil && !order.Expires.IsZero() {
		o.doc.Rest = order.Expires.Sub(o.env.now())
	}
	data, err := json.Marshal(o.doc)
	if err == nil && len(data) > documented {
		err = fmt.Errorf("it has %d bytes, and at most %d are stored", len(data), documented)
	}
	if err != nil {
		return fmt.Errorf("encode the document: %w", err)
	}
	began := time.Now()
	revision, err := o.env.Stream.Swap(ctx, o.key, data, o.revision, kept)
	if errors.Is(err, stream.ErrConflict) {
		revision, err = o.overwritten(ctx, data, err)
	}
	if err != nil {
		o.crossed = o.crossed || errors.Is(err, stream.ErrConflict)
		return fmt.Errorf("write the document: %w", err)
	}
	o.revision, o.doc.State.Revision, o.nonce, o.written = revision, revision, o.doc.State.Nonce, began
	return nil
}

// overwritten returns the revision of the document if it is the one that a write with a lost acknowledgement has left. What a
// command has changed in a document that this run still holds is written over.
func (o *object) overwritten(ctx context.Context, data []byte, lost error) (uint64, error) {
	e, err := o.env.Stream.Entry(ctx, o.key)
	if err != nil {
		return 0, lost
	}
	if bytes.Equal(e.Value, data) {
		return e.Revision, nil
	}
	d, err := event.ReadDocument(e.Value)
	if err != nil || o.nonce == "" || d.State.Nonce != o.nonce || d.State.Holder != o.env.Engine.name {
		return 0, lost
	}
	for class, c := range d.Cases {
		if c.Seen == 0 {
			o.doc.Case(class).Seen = 0
		}
	}
	if data, err = json.Marshal(o.doc); err != nil {
		return 0, lost
	}
	return o.env.Stream.Swap(ctx, o.key, data, e.Revision, kept)
}

// room reports whether the document has room for a record with a plan, for what its steps leave to an undo, and for what may come beside it.
func (o *object) room(rec event.Record) bool {
	need := size(o.doc.State) + spare
	for class, c := range o.doc.Cases {
		need += size(c.Done)
		switch {
		case class == o.class:
			steps := size(rec.Undoable().Steps)
			need += steps + max(size(rec), steps+size(c.Done)) // the record of an undo takes the place of this one
		case c.Record != nil:
			need += size(c.Record) + size(c.Record.Undoable().Steps)
		}
	}
	return need <= documented
}

// size returns how many bytes a part of a document has.
func size(part any) int {
	data, err := json.Marshal(part)
	if err != nil {
		return documented + 1 // store says why
	}
	return len(data)
}

// append puts a record into the document, beside the newest entry of the machine's outbox, which belongs to it.
func (o *object) append(rec event.Record) error {
	rec = rec.Clean()
	e, err := event.NewRecord(rec)
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	o.doc.Append(rec, e.ID()+"."+rand.Text())
	return nil
}

// flush appends to CASES what the outbox holds. What is there already counts as appended.
func (o *object) flush(ctx context.Context) error {
	for !o.dry && len(o.doc.Outbox) > 0 {
		p := o.doc.Outbox[0]
		rec, c := o.doc.Pending(p), o.doc.Case(p.Class)
		e, err := event.NewRecord(rec)
		if err != nil {
			return fmt.Errorf("write the audit: %w", err)
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			return fmt.Errorf("write the audit: %w", err)
		}
		c.Audited, err = o.env.Stream.Audit(ctx, rec.Cluster, rec.Service.UID, rec.Class, p.ID, header, data, c.Audited)
		if err != nil {
			return fmt.Errorf("write the audit: %w", err)
		}
		o.doc.Outbox = o.doc.Outbox[1:]
	}
	o.doc.Outbox, o.doc.State.Outbox = nil, nil
	return nil
}

// since returns a context in which the bucket answers with what held when the document was last written, or with what is newer.
// A node of NATS that is behind the others, or cut off from them, goes on answering with what it has: a pause, a
// policy or a rejection that is newer than that is not in it.
func (x *run) since(ctx context.Context) context.Context {
	if x.object == nil || x.object.holding == nil {
		return ctx // it writes nothing
	}
	return stream.Since(ctx, x.object.key, x.object.revision)
}

// leave ends the holding, whatever ends the run.
func (o *object) leave() {
	if o != nil && o.holding != nil {
		o.env.Engine.free(o.key, o.holding)
	}
}

// Note stores a record without a run, such as a finding of the doctor. next makes it from the newest record of the object and
// class, or from the zero record. Note reports false and stores nothing while a run holds the object or an order may be on its way.
func Note(ctx context.Context, env *Env, uid, class string, next func(last event.Record) (event.Record, error)) (noted bool, err error) {
	env, stop := env.started(ctx)
	defer stop()
	o, err := readObject(ctx, env, uid, class, env.log())
	if err != nil {
		return false, err
	}
	if lives, err := o.lives(ctx); lives || err != nil {
		return false, err
	}
	if order := o.doc.State.Order; order != nil && env.now().Before(order.Expires.Add(machine.Quiet)) {
		return false, nil
	}
	if wait, err := o.enter(ctx); wait > 0 || err != nil {
		return false, err
	}
	defer o.leave()
	var last event.Record
	if c := o.mine(); c.Record != nil {
		last = *c.Record
	}
	rec, err := next(last)
	if err != nil {
		return false, err
	}
	decide := func(report machine.Report) {
		o.doc.State, _ = machine.Next(o.doc.State, machine.Input{Now: env.now(), Engine: env.Engine.name, Nonce: rand.Text(), Class: class, Report: report})
	}
	decide(machine.Delivered{Event: rec.Event, Again: true})
	if len(o.doc.Outbox) > 0 {
		if err := o.flush(ctx); err != nil {
			return false, err
		}
		decide(machine.Flushed{OK: true})
	}
	asks := rec.Result == event.Asked || rec.Result == event.Failed || rec.Result == event.Planned
	found := machine.Looked{Answer: machine.Gone, Outcome: machine.Outcome(rec.Result)}
	if asks {
		found.Answer = machine.Person
	}
	if o.state().State != machine.Looking || o.doc.State.Order != nil {
		if found.Answer = machine.Changed; !asks { // of a plan that has begun
			return false, nil
		}
	}
	decide(found)
	if o.doc.State.Holder != "" {
		return false, nil
	}
	o.doc.Keep(class, last)
	o.seen(rec, rec.Event, "", env.now())
	if len(o.doc.State.Outbox) == 0 {
		o.doc.State.Outbox = []machine.Entry{{Class: class, Code: "noted"}}
	}
	if err := o.append(rec); err != nil {
		return false, err
	}
	if err := o.store(ctx); err != nil {
		return false, err
	}
	return true, o.flush(ctx)
}

// seen counts a run that ended as this record says, which is new.
func (o *object) seen(rec event.Record, id, version string, now time.Time) {
	c := o.mine()
	c.Answered(id, version, now)
	c.Seen, c.First, c.Last, c.Wait, c.Errors = 1, now, now, rec.Wait, rec.Errors
}

// Recount has the next run on an object and class leave a record, also if it ends as the one before.
func Recount(ctx context.Context, s *stream.Stream, cluster, uid, class string) error {
	o, err := readObject(ctx, &Env{Cluster: cluster, Stream: s}, uid, class, slog.New(slog.DiscardHandler))
	for err == nil && o.doc.Cases[class] != nil && o.mine().Seen > 0 {
		o.mine().Seen = 0
		if err = o.store(ctx); !errors.Is(err, stream.ErrConflict) {
			break
		}
		o, err = readObject(ctx, o.env, uid, class, o.log)
	}
	return err
}
