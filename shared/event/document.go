package event

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/machine"
)

// A Document is what the engine knows of one object: one key in the bucket, changed only by compare-and-set. An engine that loses the comparison stops.
type Document struct {
	V      int              `json:"v"`                // version of this format
	State  machine.Doc      `json:"state"`            // what decisions use
	Rest   time.Duration    `json:"rest,omitempty"`   // nanoseconds that the pending order had left when this was written
	Cases  map[string]*Case `json:"cases,omitempty"`  // by class: what State does not decide on
	Outbox []Entry          `json:"outbox,omitempty"` // the record of each entry of State's outbox
}

// DocumentVersion is the version of the format of a Document.
const DocumentVersion = 1

// A Case is what people and hands see of the failures of one object and class.
type Case struct {
	Record    *Record  `json:"record,omitempty"`    // the newest one
	Done      []Record `json:"done,omitempty"`      // the attempts of State's Done: they may be undone
	Journaled uint64   `json:"journaled,omitempty"` // sequence in CASES of the newest record known to be there

	Errors  int           `json:"errors,omitempty"`  // runs in a row that ended with an error
	Repeats int           `json:"seen,omitempty"`    // runs in a row that ended as Record says, including the one that wrote it
	First   time.Time     `json:"first,omitzero"`    // when the first of them ended
	Last    time.Time     `json:"last,omitzero"`     // when the last of them ended
	Event   string        `json:"event,omitempty"`   // ID of the newest CloudEvent that was answered
	Version string        `json:"version,omitempty"` // resource version of that CloudEvent's Kubernetes Event
	Wait    time.Duration `json:"wait,omitempty"`    // nanoseconds until the case is looked at again
	Used    time.Time     `json:"used,omitzero"`     // until then its runs have used up the records that they may write without a plan
}

const (
	// MaxDone is how many attempts of a case can be undone.
	MaxDone = 3
	// MaxDocument is the largest size of a document in bytes.
	MaxDocument = 768 << 10

	spare = 64 << 10 // bytes of a document that no plan may take
)

// idleBurst runs in a row that write nothing may end differently from the one before; after that, one per idleEach.
const (
	idleBurst = 8
	idleEach  = time.Hour
	idleWait  = 10 * time.Minute // at most, until a run that was held back is repeated
)

// An Entry is a record that has to be appended to CASES.
type Entry struct {
	ID     string  `json:"id"` // of the message
	Class  string  `json:"class"`
	Record *Record `json:"record,omitempty"` // nil: the record of the class's case
}

// ReadDocument decodes a document. Another version, or an unknown field, is an error.
func ReadDocument(data []byte) (Document, error) {
	var d Document
	if err := DecodeStrict(data, &d); err != nil {
		return Document{}, fmt.Errorf("read the document: %w", err)
	}
	if d.V != DocumentVersion {
		return Document{}, fmt.Errorf("read the document: it has version %d, and this program reads version %d", d.V, DocumentVersion)
	}
	if err := d.State.Valid(); err != nil {
		return Document{}, fmt.Errorf("read the document: %w", err)
	}
	for class, c := range d.Cases {
		if c == nil || c.Record != nil && c.Record.Class != class {
			return Document{}, fmt.Errorf("read the document: its case of %q is of another class, or empty", class)
		}
	}
	for _, c := range d.State.Cases {
		if c.Class == "" || d.Cases[c.Class] == nil && c.State != machine.Idle {
			return Document{}, fmt.Errorf("read the document: it says nothing of its case of %q", c.Class)
		}
	}
	for _, e := range d.Outbox {
		if c := d.Cases[e.Class]; e.ID == "" || c == nil || e.Record == nil && c.Record == nil {
			return Document{}, fmt.Errorf("read the document: its outbox names a record of %q that it does not have", e.Class)
		}
	}
	return d, nil
}

// Encode returns the document in its stored form. A document that is too large is an error.
func (d *Document) Encode() ([]byte, error) {
	data, err := json.Marshal(d)
	if err == nil && len(data) > MaxDocument {
		err = fmt.Errorf("it has %d bytes, and at most %d are stored", len(data), MaxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the document: %w", err)
	}
	return data, nil
}

// Room reports whether the document has room for a record with a plan, for undoing its steps, and for what may be added beside it.
func (d *Document) Room(rec Record) bool {
	need := size(d.State) + spare
	for class, c := range d.Cases {
		need += size(c.Done)
		switch {
		case class == rec.Class:
			steps := size(rec.Undoable().Steps)
			need += steps + max(size(rec), steps+size(c.Done)) // the record of an undo replaces this one
		case c.Record != nil:
			need += size(c.Record) + size(c.Record.Undoable().Steps)
		}
	}
	return need <= MaxDocument
}

func size(part any) int {
	data, err := json.Marshal(part)
	if err != nil {
		return MaxDocument + 1 // Encode reports the error
	}
	return len(data)
}

// StateKey returns the key in the bucket of an object's document. Each part may be "*" in a filter.
func StateKey(cluster, uid string) string { return "state." + cluster + "." + uid }

// Case returns the case of a class, and adds it if none exists.
func (d *Document) Case(class string) *Case {
	if d.Cases == nil {
		d.Cases = map[string]*Case{}
	}
	c := d.Cases[class]
	if c == nil {
		c = &Case{}
		d.Cases[class] = c
	}
	return c
}

// Record returns the newest record of a class, or the zero record.
func (d *Document) Record(class string) Record {
	if c := d.Cases[class]; c != nil && c.Record != nil {
		return *c.Record
	}
	return Record{}
}

// Ended counts a run that ended as a record says and answered an Event of this resource version.
func (c *Case) Ended(rec Record, version string, now time.Time) {
	c.Answered(rec.Event, version, now)
	if c.Repeats++; !rec.Repeats {
		c.Repeats, c.First = 1, now
	}
	c.Last, c.Wait, c.Errors = now, rec.Wait, rec.Errors
}

// Uses returns how long a run that has written nothing must wait before it leaves a record, and the new Used. Without a limit, an
// author of Events could make a failure end in two ways in turn and fill CASES, which all clusters share.
func (c *Case) Uses(now time.Time) (used time.Time, wait time.Duration) {
	if used = c.Used; used.Before(now) || used.Sub(now) > idleBurst*idleEach { // by a clock that was ahead
		used = now
	}
	if left := used.Sub(now) - (idleBurst-1)*idleEach; left > 0 {
		return time.Time{}, min(left, idleWait)
	}
	return used.Add(idleEach), 0
}

// Since returns a record of the case with the times of the last run that ended as it says.
func (c *Case) Since(rec Record) Record {
	if c != nil && rec.Phase == Settled && c.Last.After(rec.At) {
		rec.At, rec.Event, rec.Wait = c.Last, c.Event, c.Wait
	}
	return rec
}

// Answered notes that an event, made of an Event of this resource version, was answered. A delayed event after later ones is ignored.
func (c *Case) Answered(id, version string, now time.Time) {
	older := version != "" && (len(version) < len(c.Version) || len(version) == len(c.Version) && version < c.Version)
	if older && now.Sub(c.Last) < time.Hour { // a restored cluster begins again with old versions
		return
	}
	c.Event, c.Version = id, version
}

// Undoable returns the record with only what an undo needs, its steps.
func (r Record) Undoable() Record {
	r.Reads, r.Changes, r.Found, r.Timings = nil, nil, nil, Timings{}
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Undo, s.Calls = nil, nil
	}
	return r
}

// Plan returns the plan of a class if a step is made or may be, with the parts that an undo needs.
func (d *Document) Plan(class string) (rec Record, ok bool) {
	mine, c := d.State.Case(class), d.Cases[class]
	if mine == nil || mine.Plan == nil || c == nil || c.Record == nil || c.Record.Attempt != mine.Attempt || c.Record.Undoing {
		return Record{}, false
	}
	o := d.State.Order
	return made(*c.Record, mine.Plan.Next, o != nil && o.Class == class && !o.Undo)
}

func made(rec Record, steps int, maybe bool) (Record, bool) {
	if steps > len(rec.Steps) || steps == 0 && !maybe {
		return Record{}, false
	}
	rec = rec.Undoable()
	if rec.Next = steps; maybe && steps < len(rec.Steps) {
		rec.Steps[steps].Unknown = true
	}
	return rec, true
}

// Keep stores the records of the attempts of a class that State can undo. plan is the plan that was given up last.
func (d *Document) Keep(class string, plan Record) {
	mine, c := d.State.Case(class), d.Case(class)
	if mine == nil {
		return
	}
	var done []Record
	for _, a := range mine.Done {
		i := slices.IndexFunc(c.Done, func(r Record) bool { return r.Attempt == a.Number })
		rec := plan
		if i >= 0 {
			rec = c.Done[i]
		} else if plan.Attempt != a.Number {
			continue
		}
		if rec, ok := made(rec, a.Steps, a.Maybe); ok {
			done = append(done, rec)
		}
	}
	c.Done = done
}

// Attempts returns the undoable attempts of a case of a class, by its ID, the newest first.
func (d *Document) Attempts(class, id string) []Record {
	var all []Record
	if rec, ok := d.Plan(class); ok && rec.Case == id {
		all = append(all, rec)
	}
	for _, r := range slices.Backward(d.Case(class).Done) {
		if r.Case == id {
			all = append(all, r)
		}
	}
	return all
}

// Attempts returns, from the history of one case, oldest record first, the attempts that are not undone, the newest first.
func Attempts(history []Record) []Record {
	var done []Record
	for _, r := range history {
		of := func(d Record) bool { return d.Case == r.Case && d.Attempt == r.Attempt }
		switch i := slices.IndexFunc(done, of); {
		case r.Phase == Settled && r.Result == Undone:
			done = slices.DeleteFunc(done, func(d Record) bool { return d.Case == r.Case })
		case len(r.Made()) == 0 || r.Undoing:
		case i < 0:
			done = append(done, r.Undoable())
		case len(r.Made()) >= len(done[i].Made()):
			done[i] = r.Undoable()
		}
	}
	if len(history) == 0 {
		return nil
	}
	id := history[len(history)-1].Case
	done = slices.DeleteFunc(done, func(d Record) bool { return d.Case != id })
	slices.Reverse(done)
	return done[:min(len(done), MaxDone)]
}

// Append cleans a record, stores it as the newest one of its case, and puts it into the outbox.
func (d *Document) Append(rec Record) error {
	rec = rec.Clean()
	e, err := NewRecord(rec)
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	c := d.Case(rec.Class)
	for i, e := range d.Outbox {
		if e.Class == rec.Class && e.Record == nil {
			d.Outbox[i].Record = c.Record
		}
	}
	c.Record = &rec
	d.Outbox = append(d.Outbox, Entry{ID: e.ID() + "." + rand.Text(), Class: rec.Class})
	return nil
}

// Pending returns the record of an entry of the outbox.
func (d *Document) Pending(e Entry) Record {
	if e.Record != nil {
		return *e.Record
	}
	return d.Record(e.Class)
}
