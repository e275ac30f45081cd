package event

import (
	"fmt"
	"slices"
	"time"
)

// A Document is what the engine knows of one object. It lies in the bucket, in one key, and every change of it is one
// compare-and-set: the engine that loses the comparison stops.
type Document struct {
	V      int              `json:"v"`                // version of this format
	Holder string           `json:"holder,omitempty"` // engine that works on the object; empty: none
	Class  string           `json:"class,omitempty"`  // whose case the holder works on, or the last one has
	Order  *Sent            `json:"order,omitempty"`  // the order that is out, or that no answer came to
	Cases  map[string]*Case `json:"cases,omitempty"`  // by class
	Outbox []Entry          `json:"outbox,omitempty"` // records that are not known to be in CASES, the oldest first
}

// DocumentVersion is the version of the format of a Document.
const DocumentVersion = 1

// A Sent is an order to a hand. It is stored before the order is signed.
type Sent struct {
	ID      string    `json:"id"`
	Class   string    `json:"class"`
	Attempt int       `json:"attempt"`
	Step    int       `json:"step"`
	Undo    bool      `json:"undo,omitempty"`
	Expires time.Time `json:"expires"`
}

// A Case is what is known of the failures of one object and class.
type Case struct {
	Record  *Record  `json:"record,omitempty"`  // the newest one
	Done    []Record `json:"done,omitempty"`    // attempts that wrote something, at most MaxDone, the oldest first: they may be undone
	Doubt   bool     `json:"doubt,omitempty"`   // the next step of Record's plan may have been made, and nothing is on its way any more
	Audited uint64   `json:"audited,omitempty"` // sequence in CASES of the newest record that is known to be there

	Crashes int           `json:"crashes,omitempty"` // runs in a row that never ended
	Errors  int           `json:"errors,omitempty"`  // runs in a row that ended with an error
	Seen    int           `json:"seen,omitempty"`    // runs in a row that ended as Record says, the one that wrote it among them
	First   time.Time     `json:"first,omitzero"`    // when the first of them ended
	Last    time.Time     `json:"last,omitzero"`     // when the last of them ended
	Event   string        `json:"event,omitempty"`   // ID of the newest CloudEvent that was answered
	Version string        `json:"version,omitempty"` // resource version of the Event that this was made of
	Wait    time.Duration `json:"wait,omitempty"`    // nanoseconds until the case is looked at again
	Used    time.Time     `json:"used,omitzero"`     // until then its runs have used up the records that they may write without a plan
}

// MaxDone is how many attempts of a case can be undone.
const MaxDone = 3

// An Entry is a record that has to be appended to CASES.
type Entry struct {
	ID     string  `json:"id"` // of the message
	Class  string  `json:"class"`
	Record *Record `json:"record,omitempty"` // nil: that of the class's case
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
	for class, c := range d.Cases {
		if c == nil || c.Record != nil && c.Record.Class != class {
			return Document{}, fmt.Errorf("read the document: its case of %q is of another class, or empty", class)
		}
	}
	for _, e := range d.Outbox {
		if c := d.Cases[e.Class]; e.ID == "" || c == nil || e.Record == nil && c.Record == nil {
			return Document{}, fmt.Errorf("read the document: its outbox names a record of %q that it does not have", e.Class)
		}
	}
	return d, nil
}

// StateKey returns the key in the bucket of an object's document. Each part may be "*" in a filter.
func StateKey(cluster, uid string) string { return "state." + cluster + "." + uid }

// Case returns the case of a class, and adds it if there is none.
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

// Since returns a record of the case as it stands since the last run that ended as it says.
func (c *Case) Since(rec Record) Record {
	if c != nil && rec.Phase == Settled && c.Last.After(rec.At) {
		rec.At, rec.Event, rec.Wait = c.Last, c.Event, c.Wait
	}
	return rec
}

// Answered notes that an event was answered, made of an Event of this resource version. One that was held up may be answered
// after those that came later: then it is not noted.
func (c *Case) Answered(id, version string, now time.Time) {
	older := version != "" && (len(version) < len(c.Version) || len(version) == len(c.Version) && version < c.Version)
	if older && now.Sub(c.Last) < time.Hour { // a cluster that was restored begins again with old versions
		return
	}
	c.Event, c.Version = id, version
}

// keep stores a record as the case's newest one, and as an attempt to undo if it has written something.
func (c *Case) keep(rec Record) {
	c.Record = &rec
	switch {
	case rec.Phase == Settled && rec.Result == Undone:
		c.Done = slices.DeleteFunc(c.Done, func(d Record) bool { return d.Case == rec.Case })
	case len(rec.Made()) == 0 || rec.Undoing:
	case rec.Next < len(rec.Made()) && rec.Phase == Settled && rec.Result == Waiting: // the next run looks whether the step was made
	default:
		done := rec.Undoable()
		i := slices.IndexFunc(c.Done, func(d Record) bool { return d.Case == rec.Case && d.Attempt == rec.Attempt })
		switch {
		case i < 0:
			c.Done = append(c.Done, done)
			c.Done = c.Done[max(0, len(c.Done)-MaxDone):]
		case len(rec.Made()) >= len(c.Done[i].Made()):
			c.Done[i] = done
		}
	}
}

// Undoable returns as much of a record as an undo needs: its steps, whose way back follows from them.
func (r Record) Undoable() Record {
	r.Reads, r.Changes, r.Found, r.Timings = nil, nil, nil, Timings{}
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Undo, s.Said, s.Calls = nil, nil, nil
	}
	return r
}

// unsure returns the plan of which the next step may have been made.
func (c *Case) unsure() (rec Record, ok bool) {
	if !c.Doubt || c.Record == nil || c.Record.Undoing || c.Record.Next >= len(c.Record.Steps) {
		return Record{}, false
	}
	rec = c.Record.Undoable()
	rec.Steps[rec.Next].Unknown = true
	return rec, true
}

// Replace ends the plan of the case, which no run goes on with. A step of it that may have been made can be undone.
func (c *Case) Replace() {
	if rec, ok := c.unsure(); ok {
		c.keep(rec)
	}
	c.Doubt = false
}

// Attempts returns what can be undone of a case, by its ID, the newest attempt first.
func (c *Case) Attempts(id string) []Record {
	var all []Record
	if rec, ok := c.unsure(); ok && rec.Case == id {
		all = append(all, rec)
	}
	for _, d := range slices.Backward(c.Done) {
		if d.Case == id && (len(all) == 0 || all[0].Attempt != d.Attempt) {
			all = append(all, d)
		}
	}
	return all
}

// Attempts returns what the history of one case, the oldest record first, says of its attempts that are not undone, the newest first.
func Attempts(history []Record) []Record {
	var c Case
	for _, r := range history {
		c.keep(r)
	}
	if c.Record == nil {
		return nil
	}
	return c.Attempts(c.Record.Case)
}

// Append stores a record as the newest one of its case, and puts it into the outbox under the ID of its message.
func (d *Document) Append(rec Record, id string) {
	c := d.Case(rec.Class)
	for i, e := range d.Outbox {
		if e.Class == rec.Class && e.Record == nil {
			d.Outbox[i].Record = c.Record
		}
	}
	c.keep(rec)
	d.Outbox = append(d.Outbox, Entry{ID: id, Class: rec.Class})
}

// Over ends an order that can no longer be on its way. The next run of its class checks whether its step was made.
func (d *Document) Over() {
	s := d.Order
	if d.Order = nil; s == nil || s.Undo {
		return
	}
	if c := d.Cases[s.Class]; c != nil && c.Record != nil && c.Record.Attempt == s.Attempt && c.Record.Next == s.Step {
		c.Doubt = true
	}
}

// Pending returns the record of an entry of the outbox.
func (d *Document) Pending(e Entry) Record {
	if e.Record != nil {
		return *e.Record
	}
	return *d.Case(e.Class).Record
}
