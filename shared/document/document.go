// Package document keeps the engine's knowledge of an object, [event.Document], in one key of the bucket, and says which engine holds it.
// Package machine decides about an object. Begin with [Store] and [Object].
//
//   - Each write of a document is one compare-and-set on its revision. A writer that loses it stops.
//   - A record is stored in the document's outbox and then appended to CASES, in order and exactly once.
//   - The holder of a document is the engine that works on the object. It is dead when its heartbeat, engine.<cluster>.<name>, is 15 s older
//     than the reader's own; both times are those of NATS and come in one answer.
//   - A run that holds an object for longer than its time loses it.
package document

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	kept        = 30 * 24 * time.Hour // how long a document outlives its last run; CASES keeps records as long
	recentWrite = time.Second         // a write of the document this recent proves that NATS is reachable
	noted       = 2 * time.Minute     // longest time of a Note
	hungAfter   = 5 * time.Second     // beyond its time, until a run counts as hung
)

// A Store gives access to the documents of a cluster for a holder.
type Store struct {
	Stream  *stream.Stream // nil: all documents are empty
	Cluster string
	Holder  *Holder          // of the runs; nil: objects are read, and not held
	Now     func() time.Time // nil: time.Now
}

// An Object is a run's copy of an object's document, which the run may write while it holds the object.
type Object struct {
	event.Document
	Key      string
	Class    string          // of the run
	Revision uint64          // of the document
	Stored   time.Time       // when NATS stored the document
	Yields   context.Context // ends when another run wants to hold it
	Dry      bool            // nothing is written

	in      Store
	nonce   string    // of the last write of this run
	written time.Time // when the last acknowledged write began, by the local clock
	holding *holding  // nil: the run does not hold the object
}

// Read reads the document of an object for a run of a class.
func (s Store) Read(ctx context.Context, uid, class string) (*Object, error) {
	if s.Now == nil {
		s.Now = time.Now
	}
	o := &Object{in: s, Key: event.StateKey(s.Cluster, uid), Class: class, Document: event.Document{V: event.DocumentVersion}}
	if s.Stream == nil {
		return o, nil
	}
	if err := event.ValidUID(uid); err != nil {
		return o, err
	}
	e, err := s.Stream.Entry(ctx, o.Key)
	o.Revision, o.Stored = e.Revision, e.Time
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return o, nil
	case err != nil:
		return o, err
	}
	if o.Document, err = event.ReadDocument(e.Value); err != nil {
		return o, fmt.Errorf("%s: %w", o.Key, err)
	}
	o.State.Revision = e.Revision
	if s.Holder != nil { // others must not store times by their own clock
		o.limit(s.Now())
	}
	return o, o.date(ctx)
}

// limit makes a clock that was ahead or jumped back prolong no wait.
func (o *Object) limit(now time.Time) {
	for i := range o.State.Cases {
		c := &o.State.Cases[i]
		limit(&c.Wait.Until, now.Add(o.Case(c.Class).Wait))
		limit(&c.Since, now)
		limit(&c.Failing, now)
		if c.Plan != nil {
			limit(&c.Plan.Begun, now)
			limit(&c.Plan.Written, now)
		}
		for j := range c.Attempts { // an attempt is found by when it began
			limit(&c.Attempts[j], now)
		}
		for j := range c.Done {
			limit(&c.Done[j].Begun, now)
		}
	}
}

func limit(at *time.Time, most time.Time) {
	if at.After(most) {
		*at = most
	}
}

// Mine returns the case of the run's class.
func (o *Object) Mine() *event.Case { return o.Case(o.Class) }

// Decided returns the machine's case of the run's class.
func (o *Object) Decided() machine.Case {
	if c := o.State.Case(o.Class); c != nil {
		return *c
	}
	return machine.Case{Class: o.Class, State: machine.Idle}
}

// Last returns the newest record of the run's class; the zero record if none exists.
func (o *Object) Last() event.Record {
	rec := o.Record(o.Class)
	// If another engine's clock was ahead, or the local one is behind, nothing must wait until the local one has caught up.
	if rec.At.After(o.in.Now()) && o.Stored.Before(rec.At) {
		rec.At = o.Stored
	}
	return rec
}

// date converts the expiry of a pending order to the local clock, by its age in NATS's. Without an engine the two clocks count as one.
func (o *Object) date(ctx context.Context) (err error) {
	order, ahead := o.State.Order, time.Duration(0)
	if order == nil || order.Expires.IsZero() {
		return nil
	}
	if o.in.Holder != nil {
		if ahead, err = o.in.Holder.ahead(ctx); err != nil {
			return fmt.Errorf("find out how long an order has been out: %w", err)
		}
	}
	order.Expires = o.Stored.Add(o.Rest - ahead)
	if most := o.in.Now().Add(machine.Expiry); order.Expires.After(most) {
		order.Expires = most
	}
	return nil
}

// Enter makes the run, which takes at most most, this engine's only one on the object, with a heartbeat; or returns how long to wait for another run.
func (o *Object) Enter(ctx context.Context, most time.Duration) (wait time.Duration, err error) {
	if o.Dry || o.holding != nil {
		return 0, nil
	}
	engine := o.in.Holder
	h, yields, ok := engine.hold(ctx, o.Key, most+hungAfter)
	if !ok {
		return time.Second, nil
	}
	if err := engine.beatNow(ctx, beatEach); err != nil {
		engine.free(o.Key, h)
		return 0, err
	}
	o.holding, o.Yields = h, yields
	return 0, nil
}

// Lives reports whether the engine that holds the object lives and, if it is this one, has a run for it.
func (o *Object) Lives(ctx context.Context) (bool, error) {
	switch holder := o.State.Holder; {
	case holder == "" || o.in.Holder == nil:
		return holder != "", nil
	case holder == o.in.Holder.name:
		return o.in.Holder.busy(o.Key), nil
	default:
		return o.in.Holder.lives(ctx, holder)
	}
}

// Store writes the document if it has not been written since.
func (o *Object) Store(ctx context.Context) error {
	if o.Dry {
		return nil
	}
	if order := o.State.Order; order == nil || order.Expires.IsZero() {
		o.Rest = 0
	} else if o.in.Holder != nil { // otherwise the local clock says nothing of it, and its rest stays as it was stored
		o.Rest = order.Expires.Sub(o.in.Now())
	}
	data, err := o.Encode()
	if err != nil {
		return err
	}
	began := time.Now()
	revision, err := o.in.Stream.Swap(ctx, o.Key, data, o.Revision, kept)
	if errors.Is(err, stream.ErrConflict) {
		revision, err = o.overwritten(ctx, data, err)
	}
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	o.Revision, o.State.Revision, o.nonce, o.written = revision, revision, o.State.Nonce, began
	return nil
}

// overwritten returns the document's revision if it is that of a write with a lost acknowledgement. It overwrites a command's change.
func (o *Object) overwritten(ctx context.Context, data []byte, lost error) (uint64, error) {
	e, err := o.in.Stream.Entry(ctx, o.Key)
	if err != nil {
		return 0, lost
	}
	if bytes.Equal(e.Value, data) {
		return e.Revision, nil
	}
	d, err := event.ReadDocument(e.Value)
	if err != nil || o.nonce == "" || d.State.Nonce != o.nonce || d.State.Holder != o.in.Holder.name {
		return 0, lost
	}
	for class, c := range d.Cases {
		if c.Repeats == 0 {
			o.Case(class).Repeats = 0
		}
	}
	if data, err = o.Encode(); err != nil {
		return 0, lost
	}
	return o.in.Stream.Swap(ctx, o.Key, data, e.Revision, kept)
}

// Flush appends the outbox to CASES. A record that CASES already has counts as appended.
func (o *Object) Flush(ctx context.Context) error {
	for !o.Dry && len(o.Outbox) > 0 {
		p := o.Outbox[0]
		rec, c := o.Pending(p), o.Case(p.Class)
		_, header, data, err := event.EncodeRecord(rec)
		if err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
		c.Journaled, err = o.in.Stream.AppendRecord(ctx, rec.Cluster, rec.Service.UID, rec.Class, p.ID, header, data, c.Journaled)
		if err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
		o.Outbox = o.Outbox[1:]
	}
	o.Outbox, o.State.Outbox = nil, nil
	return nil
}

// Since returns a context in which the bucket answers no older than the last write of the document. A NATS node that lags or is cut off
// answers with old values, without newer pauses, policies or rejections.
func (o *Object) Since(ctx context.Context) context.Context {
	if o == nil || o.holding == nil {
		return ctx // it writes nothing
	}
	return stream.Since(ctx, o.Key, o.Revision)
}

// Confirm writes the document unchanged unless the run wrote it within the last second: the write proves that NATS is reachable.
func (o *Object) Confirm(ctx context.Context) error {
	if time.Since(o.written) < recentWrite {
		return nil
	}
	return o.Store(ctx)
}

// Leave ends the holding, however the run ends.
func (o *Object) Leave() {
	if o != nil && o.holding != nil {
		o.in.Holder.free(o.Key, o.holding)
	}
}

// Note stores a record without a run, such as a finding of the doctor. next makes it from the newest record, or from the zero record. Note
// reports false and stores nothing while a run holds the object or an order may be on its way.
func (s Store) Note(ctx context.Context, uid, class string, next func(last event.Record) (event.Record, error)) (done bool, err error) {
	o, err := s.Read(ctx, uid, class)
	if err != nil {
		return false, err
	}
	if lives, err := o.Lives(ctx); lives || err != nil {
		return false, err
	}
	if order := o.State.Order; order != nil && o.in.Now().Before(order.Expires.Add(machine.Quiet)) {
		return false, nil
	}
	if wait, err := o.Enter(ctx, noted); wait > 0 || err != nil {
		return false, err
	}
	defer o.Leave()
	last := o.Record(class)
	rec, err := next(last)
	if err != nil {
		return false, err
	}
	decide := func(report machine.Report) {
		o.State, _ = machine.Next(o.State, machine.Input{Now: o.in.Now(), Engine: s.Holder.name, Nonce: rand.Text(), Class: class, Report: report})
	}
	decide(machine.Delivered{Event: rec.Event, Again: true})
	if len(o.State.Outbox) > len(o.Outbox) { // a question about crashes, which the next run asks
		return false, nil
	}
	if len(o.Outbox) > 0 {
		if err := o.Flush(ctx); err != nil {
			return false, err
		}
		decide(machine.Flushed{OK: true})
	}
	asks := rec.Result == event.Asked || rec.Result == event.Failed || rec.Result == event.Planned
	found := machine.Looked{Answer: machine.Gone, Outcome: machine.Outcome(rec.Result)}
	if asks {
		found.Answer = machine.Person
	}
	if o.Decided().State != machine.Looking || o.State.Order != nil {
		if found.Answer = machine.Changed; !asks { // of a plan that has begun
			return false, nil
		}
	}
	decide(found)
	if o.State.Holder != "" {
		return false, nil
	}
	o.Keep(class, last)
	o.Mine().Ended(rec, "", o.in.Now())
	if len(o.State.Outbox) == 0 {
		o.State.Outbox = []machine.Entry{{Class: class, Code: "noted"}}
	}
	if err := o.Append(rec); err != nil {
		return false, err
	}
	if err := o.Store(ctx); err != nil {
		return false, err
	}
	return true, o.Flush(ctx)
}

// Recount makes the next run on an object and class leave a record, even if it ends as the one before.
func (s Store) Recount(ctx context.Context, uid, class string) error {
	for {
		o, err := s.Read(ctx, uid, class)
		if err != nil || o.Cases[class] == nil || o.Mine().Repeats == 0 {
			return err
		}
		o.Mine().Repeats = 0
		if err = o.Store(ctx); !errors.Is(err, stream.ErrConflict) {
			return err
		}
	}
}

// Applied returns what can be undone of a record's case: the most complete record of each attempt that may have written something, the
// newest first. back is when the case was undone; zero if it was not.
func (s Store) Applied(ctx context.Context, of event.Record) (applied []event.Record, back time.Time, err error) {
	o, err := s.Read(ctx, of.Service.UID, of.Class)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read what was written: %w", err)
	}
	applied = o.Attempts(of.Class, of.Case)
	if rec := o.Record(of.Class); len(applied) == 0 && rec.Case == of.Case && rec.Result == event.Undone {
		back = rec.At
	}
	return applied, back, nil
}
