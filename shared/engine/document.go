package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	kept       = 30 * 24 * time.Hour // how long a document outlives its last run; CASES keeps records as long
	documented = 768 << 10           // bytes of a document, at most
	spare      = 64 << 10            // bytes that no plan may take
	pendingMax = 4                   // records that may wait to be appended to CASES
	orderLife  = 30 * time.Second    // until an order expires; hands accept none that expires later
	quietAfter = time.Minute         // after an order's expiry: hand and cloud may still be writing, and clocks differ
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
	written  time.Time       // when the last write that was acknowledged began, by the clock of this machine
	holding  *holding        // nil: the run does not hold the object
	yields   context.Context // ends when another run wants to hold it
	sent     bool            // an order of this run may still be on its way
	crossed  bool            // the document has changed under the run
	released bool            // the run has given the object back
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
	return o, nil
}

// mine returns the case of the run's class.
func (o *object) mine() *event.Case { return o.doc.Case(o.class) }

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

// busy returns how long the object must not be written to because an order is out, or was not answered. The age of the order is
// measured by the clock of NATS; without an engine, which asks for the time, by that of this machine.
func (o *object) busy(ctx context.Context) (time.Duration, error) {
	if o.doc.Order == nil {
		return 0, nil
	}
	const most = orderLife + quietAfter
	if o.env.Engine == nil {
		return min(o.doc.Order.Expires.Add(quietAfter).Sub(o.env.now()), most), nil
	}
	ahead, err := o.env.Engine.ahead(ctx)
	if err != nil {
		return 0, fmt.Errorf("find out how long an order has been out: %w", err)
	}
	return min(most-o.env.now().Add(ahead).Sub(o.stored), most), nil
}

// enter makes the run the holder of the object. If another run holds it, or is faster, it returns how long to wait. An object that
// a dead engine still holds counts as a crash of its run.
func (o *object) enter(ctx context.Context) (wait time.Duration, err error) {
	engine := o.env.Engine
	h, yields, ok := engine.hold(ctx, o.key, o.env.bound()+soon)
	if !ok {
		return time.Second, nil
	}
	defer func() {
		if wait > 0 || err != nil {
			engine.free(o.key, h)
		}
	}()
	if err := engine.beatNow(ctx, beatEach); err != nil {
		return 0, err
	}
	d := &o.doc
	if d.Holder != "" && d.Holder != engine.name { // this engine's own run has ended, but failed to store that
		if lives, err := engine.lives(ctx, o.env.Cluster, d.Holder); err != nil {
			return 0, err
		} else if lives {
			return soon, nil
		}
		d.Case(d.Class).Crashes++
	}
	d.Over()
	d.Holder, d.Class = engine.name, o.class
	if err := o.flush(ctx); err != nil { // no order leaves before it succeeds
		o.log.Warn("CASES lacks a record of the object", "error", err)
	}
	if err := o.store(ctx); errors.Is(err, stream.ErrConflict) {
		return time.Second, nil
	} else if err != nil {
		return 0, err
	}
	o.holding, o.yields = h, yields
	return 0, nil
}

// store writes the document, if nobody else has since.
func (o *object) store(ctx context.Context) error {
	data, err := json.Marshal(o.doc)
	if err == nil && len(data) > documented {
		err = fmt.Errorf("it has %d bytes, and at most %d are stored", len(data), documented)
	}
	if err != nil {
		return fmt.Errorf("encode the document: %w", err)
	}
	began := time.Now()
	revision, err := o.env.Stream.Swap(ctx, o.key, data, o.revision, kept)
	if err != nil {
		o.crossed = o.crossed || errors.Is(err, stream.ErrConflict)
		return fmt.Errorf("write the document: %w", err)
	}
	o.revision, o.written = revision, began
	return nil
}

// room reports whether the document has room for a record with a plan, for what its steps leave to an undo, and for what may come beside it.
func (o *object) room(rec event.Record) bool {
	need := size(o.doc.Order) + spare
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

// append stores a record in the document, and then in CASES. It fails with stream.ErrConflict if another engine has
// written the document meanwhile.
func (o *object) append(ctx context.Context, rec event.Record) error {
	rec = rec.Clean()
	e, err := event.NewRecord(rec)
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	if n := len(o.doc.Outbox); n >= pendingMax || n > 0 && size(o.doc)+size(rec) > documented {
		if err := o.flush(ctx); err != nil {
			return err
		}
	}
	o.doc.Append(rec, e.ID()+"."+rand.Text())
	return o.store(ctx)
}

// flush appends to CASES what the outbox holds. What is there already counts as appended.
func (o *object) flush(ctx context.Context) error {
	for len(o.doc.Outbox) > 0 {
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
	o.doc.Outbox = nil
	return nil
}

// intend stores the order of a step before it is sent, unless that was done within a second. No order leaves while CASES lacks a
// record.
func (o *object) intend(ctx context.Context, attempt, step int, undo bool) error {
	if s := o.doc.Order; s != nil && s.Attempt == attempt && s.Step == step && s.Undo == undo && time.Since(o.written) < heard {
		return o.flush(ctx)
	}
	if err := o.flush(ctx); err != nil {
		return err
	}
	o.order(attempt, step, undo)
	return o.store(ctx)
}

// order puts an order into the document.
func (o *object) order(attempt, step int, undo bool) {
	o.doc.Order = &event.Sent{ID: rand.Text(), Class: o.class, Attempt: attempt, Step: step, Undo: undo, Expires: o.env.now().Add(orderLife)}
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

// shows returns stream.ErrConflict unless what was read of the bucket holds the document as the run has written it.
func (x *run) shows(view stream.View) error {
	if x.object == nil || x.object.holding == nil || view[x.object.key].Revision == x.object.revision {
		return nil
	}
	x.object.crossed = true
	return fmt.Errorf("%w: another engine has written the document", stream.ErrConflict)
}

// leave ends the holding, whatever ends the run.
func (o *object) leave() {
	if o != nil && o.holding != nil {
		o.env.Engine.free(o.key, o.holding)
	}
}

// release gives the object back after a run that ended with this record and error.
func (x *run) release(ctx context.Context, rec event.Record, ended error) (event.Record, error) {
	o := x.object
	if o == nil || o.holding == nil || o.released {
		return rec, ended
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if o.crossed {
		o.withdraw(ctx)
		return rec, ended
	}
	o.free(x)
	err := o.store(ctx)
	if errors.Is(err, stream.ErrConflict) {
		o.withdraw(ctx)
	}
	if err != nil && x.repeated {
		// Only the document shows that the event was answered. It was not stored, so the event must be delivered again.
		rec.Result, rec.Wait = event.Waiting, max(rec.Wait, time.Second)
		return rec, errors.Join(ended, fmt.Errorf("note that the run ended as the one before: %w", err))
	}
	if err != nil && !errors.Is(err, stream.ErrConflict) {
		x.log.Warn("the object is held until the engine ends", "key", o.key, "error", err)
	}
	return rec, ended
}

// withdraw gives an object back whose document has changed under the run: by the run itself, if an acknowledgement was lost, by a
// command, or by another engine, which holds it now.
func (o *object) withdraw(ctx context.Context) {
	now, err := readObject(ctx, o.env, o.key[strings.LastIndexByte(o.key, '.')+1:], o.class, o.log)
	if err != nil || now.doc.Holder != o.env.Engine.name || !o.env.Engine.holds(o.key, o.holding) {
		return
	}
	now.doc.Holder = ""
	if err := now.store(ctx); err != nil {
		o.log.Warn("the object is held until the engine ends", "key", o.key, "error", err)
	}
}

// free makes the document that of an object which nobody holds, as the run leaves it.
func (o *object) free(x *run) {
	o.doc.Holder = ""
	if !o.sent {
		o.doc.Order = nil
	}
	c := o.mine()
	c.Crashes = 0
	if now := o.env.now(); x.settled || x.repeated {
		if c.Seen++; x.settled {
			c.Seen, c.First = 1, now
		}
		c.Answered(x.ev.ID, x.ev.Failure.Event.ResourceVersion, now)
		c.Last, c.Errors, c.Wait = now, x.rec.Errors, x.rec.Wait
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
	left, err := o.busy(ctx)
	if left == 0 && err == nil {
		left, err = o.enter(ctx)
	}
	if left > 0 || err != nil {
		return false, err
	}
	defer o.leave()
	c := o.mine()
	var last event.Record
	if c.Record != nil {
		last = *c.Record
	}
	rec, failed := next(last)
	if o.doc.Holder = ""; failed == nil {
		c.Replace()
		c.Crashes, c.Seen, c.First, c.Last, c.Event, c.Errors, c.Wait = 0, 1, rec.At, rec.At, rec.Event, rec.Errors, rec.Wait
		err = o.append(ctx, rec)
	} else {
		err = o.store(ctx)
	}
	if err == nil && failed == nil {
		err = o.flush(ctx)
	}
	return failed == nil && err == nil, errors.Join(failed, err)
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
