// Package ledger reconciles what exporters have met with the documents of the engine, and finds lost failures. Begin with [Draw].
package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	pageLife = time.Hour       // how long the last page of an ended exporter is kept
	pageLate = 3 * time.Minute // an exporter whose page is older does not run
	pageHeld = time.Minute     // how long an occurrence may be seen and not published
)

// Late is after how long past its due time an unsettled failure counts as lost, by default.
const Late = 15 * time.Minute

// A Page counts what an exporter has met since it started. The counts balance: each Event seen has come to exactly one end, or waits.
type Page struct {
	Exporter  string        `json:"exporter"`  // one process
	Since     time.Time     `json:"since"`     // its start
	At        time.Time     `json:"at"`        // time of this page
	Last      time.Time     `json:"last"`      // when it last saw an Event; zero: never
	Events    int64         `json:"seen"`      // Events
	Ignored   int64         `json:"ignored"`   // about no failed sync of this cloud
	Reported  int64         `json:"reported"`  // of the controller's check before an upgrade
	Overtaken int64         `json:"overtaken"` // a newer one of the same Service and class was listed with it, or came while it waited
	Published int64         `json:"published"` // stored in FAILED
	Kept      int64         `json:"kept"`      // not stored: FAILED held the same or a newer one, or DEAD this one
	Dead      int64         `json:"dead"`      // sent to DEAD
	Strange   int64         `json:"strange"`   // not published: no such Service exists or can exist
	Released  int64         `json:"released"`  // read again later, for want of room
	Lag       time.Duration `json:"lag"`       // nanoseconds that the oldest one has waited
}

// Waiting returns how many Events have no end yet.
func (p Page) Waiting() int64 {
	return p.Events - p.Ignored - p.Reported - p.Overtaken - p.Published - p.Kept - p.Dead - p.Strange - p.Released
}

// Save stores an exporter's page for an hour.
func (p Page) Save(ctx context.Context, s *stream.Stream, cluster string) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("save the page of cluster %s: %w", cluster, err)
	}
	return s.PutFor(ctx, event.PageKey(cluster, p.Exporter), data, pageLife)
}

// Clusters returns the clusters with an exporter's page from the last hour, sorted.
func Clusters(ctx context.Context, s *stream.Stream) ([]string, error) {
	pages, err := s.Entries(ctx, event.PageKey("*", "*"))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range pages {
		all = append(all, strings.Split(e.Key, ".")[1])
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// A Ledger accounts for the newest failure of each Service and class in FAILED, each in one column of its class. Lost and Problems do not balance.
type Ledger struct {
	Cluster   string    `json:"cluster"`
	At        time.Time `json:"at"`
	Exporters []Page    `json:"exporters"` // with a page from the last hour
	Classes   []Account `json:"classes"`   // by class
	Lost      []Loss    `json:"lost"`      // oldest first
	Problems  []string  `json:"problems"`  // other imbalances, one sentence each
}

// Alive returns the newest exporter's page, and whether it still runs; the zero Page if none is from the last hour.
func (l Ledger) Alive() (Page, bool) {
	if len(l.Exporters) == 0 {
		return Page{}, false
	}
	return l.Exporters[0], l.At.Sub(l.Exporters[0].At) <= pageLate
}

// An Account is a class in the ledger: Published = Queued + Waiting + Settled + Dead + Lost.
type Account struct {
	Class     string `json:"class"`
	Published int    `json:"published"` // failures that FAILED keeps
	Queued    int    `json:"queued"`    // not looked at yet, and not late
	Waiting   int    `json:"waiting"`   // looked at, and due again later
	Settled   int    `json:"settled"`
	Dead      int    `json:"dead"`
	Lost      int    `json:"lost"`

	Undelivered int `json:"undelivered"` // messages not yet given to a worker
	InHand      int `json:"inHand"`      // messages that a worker has or that will be delivered again
}

// A Loss is a published failure that was not settled in time.
type Loss struct {
	Class     string        `json:"class"`
	Service   event.Service `json:"service"`
	Event     string        `json:"event"`          // ID of the CloudEvent; empty: unreadable
	Published time.Time     `json:"published"`      // when FAILED stored it
	Case      string        `json:"case,omitempty"` // the open case, if any
	Since     time.Time     `json:"since"`          // when it was due
	Why       string        `json:"why"`
}

// Draw reconciles the failures of a cluster. A failure is lost if, for longer than late after it was due, it was neither settled nor looked at.
func Draw(ctx context.Context, s *stream.Stream, cluster string, now time.Time, late time.Duration) (Ledger, error) {
	const doing = "reconcile the ledger"
	if err := event.ValidCluster(cluster); err != nil {
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	b := &balance{
		Ledger: Ledger{Cluster: cluster, At: now, Exporters: []Page{}, Classes: []Account{}, Lost: []Loss{}, Problems: []string{}},
		late:   late, accounts: map[string]*Account{}, dead: map[string]time.Time{}, ends: map[string]end{},
	}
	// FAILED is read first: what is settled afterwards is then in the others.
	filter := event.FailedSubject(cluster, "*", "*")
	err := s.Each(ctx, stream.Failed, filter, time.Time{}, b.failure)
	if err == nil {
		err = s.Each(ctx, stream.Dead, strings.TrimSuffix(stream.DeadSubjects, ">")+strings.TrimPrefix(filter, "lbremedy."), time.Time{}, b.died)
	}
	if err == nil {
		err = s.EachEntry(ctx, event.StateKey(cluster, "*"), b.document)
	}
	if err != nil {
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	for _, f := range b.failed {
		b.enter(f)
	}
	if err := b.pages(ctx, s); err != nil {
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	for class, a := range b.accounts {
		q, err := s.Queue(ctx, cluster, class)
		switch {
		case errors.Is(err, stream.ErrNotFound):
			b.Problems = append(b.Problems, fmt.Sprintf("The class %s has %d failures and no consumer: nobody is given them.", class, a.Published))
		case err != nil:
			return Ledger{}, fmt.Errorf("%s: %w", doing, err)
		}
		a.Undelivered, a.InHand = int(q.Undelivered), int(q.InHand)
		b.Classes = append(b.Classes, *a)
	}
	slices.SortFunc(b.Classes, func(x, y Account) int { return cmp.Compare(x.Class, y.Class) })
	slices.SortFunc(b.Lost, func(x, y Loss) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Event, y.Event)) })
	slices.Sort(b.Problems)
	return b.Ledger, nil
}

type balance struct {
	Ledger
	late     time.Duration
	accounts map[string]*Account
	failed   []failed
	dead     map[string]time.Time // by origin: time of its newest dead letter
	ends     map[string]end       // by UID and class
}

type failed struct {
	origin, of string // its subject, and the UID and class in it
	Loss
	last time.Time // when it was last seen
}

type end struct {
	phase     event.Phase
	result    event.Result
	event, id string
	again     string    // the event that the last run answered, with or without a record
	at        time.Time // by the writer's clock
	stored    time.Time // by the clock of NATS
	begun     time.Time // last write of the run that holds the object; zero: not held
	wait      time.Duration
}

func (b *balance) failure(m stream.Message) error {
	_, class, uid, err := event.ParseFailedSubject(m.Subject)
	if err != nil {
		b.Problems = append(b.Problems, fmt.Sprintf("FAILED holds a message that nobody is given, as message %d: %s.", m.Sequence, err))
		return nil
	}
	f := failed{origin: m.Subject, of: uid + " " + class, Loss: Loss{Class: class, Service: event.Service{UID: uid}, Published: m.Time}}
	if e, err := event.DecodeNATS(m.Header, m.Data); err == nil {
		if read, err := event.ReadFailed(e); err == nil {
			f.Event, f.Service, f.last = e.ID(), read.Service, read.Last
		}
	}
	b.failed = append(b.failed, f)
	return nil
}

func (b *balance) died(m stream.Message) error {
	origin, _, _ := m.Origin()
	b.dead[origin] = m.Time
	return nil
}

func (b *balance) document(of stream.Entry) {
	d, err := event.ReadDocument(of.Value)
	if err != nil {
		b.Problems = append(b.Problems, fmt.Sprintf("The key %s can't be read: %v.", of.Key, err))
		return
	}
	uid := of.Key[strings.LastIndexByte(of.Key, '.')+1:]
	for class, c := range d.Cases {
		r := d.Record(class)
		e := end{event: r.Event, again: c.Event, stored: of.Time}
		r = c.Since(r)
		e.phase, e.result, e.id, e.at, e.wait = r.Phase, r.Result, r.Case, r.At, r.Wait
		if d.State.Holder != "" && d.State.Works(class) {
			e.begun = of.Time
		}
		b.ends[uid+" "+class] = e
	}
}

func (b *balance) enter(f failed) {
	a := b.accounts[f.Class]
	if a == nil {
		a = &Account{Class: f.Class}
		b.accounts[f.Class] = a
	}
	a.Published++
	r := b.ends[f.of]
	died, isDead := b.dead[f.origin]
	switch {
	case f.Event != "" && r.settles(f):
		a.Settled++
		return
	case isDead && !died.Before(f.Published):
		a.Dead++
		return
	}
	loss := f.Loss
	// An open record covers later failures too.
	loss.Since, loss.Why = f.Published, "Nobody has looked at it."
	open := r.phase != "" && !(r.phase == event.Settled && r.result.Settled())
	if open {
		loss.Case = r.id
		at := r.at
		if at.After(b.At) { // by a clock that is ahead
			at = r.stored
		}
		if due := at.Add(r.wait); due.After(loss.Since) {
			loss.Since, loss.Why = due, "A run on it began and never ended."
			if r.phase == event.Settled {
				loss.Why = "It was to be looked at again, and nobody has."
			}
		}
	}
	if r.begun.After(loss.Since) {
		open, loss.Since, loss.Why = true, r.begun, "A run on it began and never ended."
	}
	switch {
	case b.At.Sub(loss.Since) > b.late:
		a.Lost++
		b.Lost = append(b.Lost, loss)
	case open:
		a.Waiting++
	default:
		a.Queued++
	}
}

func (e end) settles(f failed) bool {
	if e.phase != event.Settled || !e.result.Settled() {
		return false
	}
	// A failure from before a fix was proven, or undone, needs no record of its own. Its run's clock may be wrong: only the event's ID counts.
	return e.event == f.Event || e.again == f.Event || (e.result.Worked() || e.result == event.Undone) && !f.last.After(e.at) && !f.last.After(e.stored)
}

func (b *balance) pages(ctx context.Context, s *stream.Stream) error {
	var live int
	err := s.EachEntry(ctx, event.PageKey(b.Cluster, "*"), func(e stream.Entry) {
		var p Page
		if err := json.Unmarshal(e.Value, &p); err != nil {
			b.Problems = append(b.Problems, fmt.Sprintf("The key %s can't be read: %s.", e.Key, err))
			return
		}
		b.Exporters = append(b.Exporters, p)
		if b.At.Sub(p.At) > pageLate {
			return
		}
		live++
		if n := p.Waiting(); n != 0 && (p.Lag > pageHeld || p.At.Sub(p.Last) > pageHeld) {
			b.Problems = append(b.Problems, fmt.Sprintf("The exporter %s has seen %d Events, and %d of them are not accounted for.", p.Exporter, p.Events, n))
		}
	})
	if err != nil {
		return err
	}
	if live == 0 {
		b.Problems = append(b.Problems, fmt.Sprintf("No exporter has reported for %s: new failures are not seen.", pageLate))
	}
	slices.SortFunc(b.Exporters, func(x, y Page) int { return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.Exporter, y.Exporter)) })
	return nil
}

// ExporterSeen returns an exporter's last sign of life in a cluster: its page, written each minute and kept for an hour, or its last
// stored position; stream.ErrNotFound if it never ran.
func ExporterSeen(ctx context.Context, s *stream.Stream, cluster string) (time.Time, error) {
	view, err := s.View(ctx, event.ProgressKey(cluster), event.PageKey(cluster, "*"))
	var last time.Time
	for _, e := range view {
		if e.Time.After(last) {
			last = e.Time
		}
	}
	if err == nil && last.IsZero() {
		err = stream.ErrNotFound
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read the last sign of life of the exporter of cluster %s: %w", cluster, err)
	}
	return last, nil
}
