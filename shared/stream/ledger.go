package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

const (
	pageLife = time.Hour       // how long the last word of an exporter that ended is kept
	pageLate = 3 * time.Minute // an exporter that has said nothing for longer does not run
	pageHeld = time.Minute     // how long an occurrence may be seen and not published
)

// Late is for how long a failure may lie after it is due before it counts as lost,
// where nobody says otherwise.
const Late = 15 * time.Minute

// A Page is what an exporter has met since it started. The counts balance: what it
// has seen has come to exactly one of the ends, or waits.
type Page struct {
	Exporter  string        `json:"exporter"`  // one process
	Since     time.Time     `json:"since"`     // its start
	At        time.Time     `json:"at"`        // when it said this
	Last      time.Time     `json:"last"`      // when it last saw an Event; zero: never
	Seen      int64         `json:"seen"`      // Events
	Ignored   int64         `json:"ignored"`   // that tell of no failed sync of this cloud
	Reported  int64         `json:"reported"`  // of the controller's check before an upgrade
	Overtaken int64         `json:"overtaken"` // a newer one of the same Service and class was listed with it, or came while it waited
	Published int64         `json:"published"` // stored in FAILED
	Kept      int64         `json:"kept"`      // not stored: FAILED held the same or a newer one, or DEAD this one
	Dead      int64         `json:"dead"`      // sent to DEAD
	Strange   int64         `json:"strange"`   // not published: they are about no Service that there is or can be
	Released  int64         `json:"released"`  // let go while NATS was away or there was no room, and listed again
	Lag       time.Duration `json:"lag"`       // nanoseconds that the oldest one waits
}

// Waiting returns how many Events have been seen and are not accounted for yet.
func (p Page) Waiting() int64 {
	return p.Seen - p.Ignored - p.Reported - p.Overtaken - p.Published - p.Kept - p.Dead - p.Strange - p.Released
}

// SavePage keeps an exporter's page for an hour.
func (s *Stream) SavePage(ctx context.Context, cluster string, p Page) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("save the page of cluster %s: %w", cluster, err)
	}
	return s.PutFor(ctx, event.PageKey(cluster, p.Exporter), data, pageLife)
}

// LedgerClusters returns the clusters of which an exporter has said something in the last
// hour, sorted.
func (s *Stream) LedgerClusters(ctx context.Context) ([]string, error) {
	keys, err := s.Keys(ctx, event.PageKey("*", "*"))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, k := range keys {
		all = append(all, strings.Split(k, ".")[1])
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// A Ledger says what became of the failures that FAILED keeps, the newest of each
// Service and class. Each stands in one column of its class; what stands in Lost, or in
// Problems, does not balance.
type Ledger struct {
	Cluster   string    `json:"cluster"`
	At        time.Time `json:"at"`
	Exporters []Page    `json:"exporters"` // the ones that have said something in the last hour
	Classes   []Account `json:"classes"`   // by class
	Lost      []Loss    `json:"lost"`      // the oldest first
	Problems  []string  `json:"problems"`  // what else does not balance, one sentence each
}

// Balanced reports whether nothing is missing.
func (l Ledger) Balanced() bool { return len(l.Lost)+len(l.Problems) == 0 }

// Alive returns the exporter that said something last, and whether it still runs; the zero
// Page if none has said anything for an hour.
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
	Queued    int    `json:"queued"`    // nobody has looked at them yet, and it is not late
	Waiting   int    `json:"waiting"`   // looked at, and looked at again later
	Settled   int    `json:"settled"`
	Dead      int    `json:"dead"`
	Lost      int    `json:"lost"`

	Undelivered int `json:"undelivered"` // messages that no worker has been given
	InHand      int `json:"inHand"`      // that a worker has or that are to be delivered again
}

// A Loss is a failure that was published and that nobody has settled in time.
type Loss struct {
	Class     string        `json:"class"`
	Service   event.Service `json:"service"`
	Event     string        `json:"event"`          // id of the CloudEvent; empty: it can't be read
	Published time.Time     `json:"published"`      // when FAILED stored it
	Case      string        `json:"case,omitempty"` // the open case, if there is one
	Since     time.Time     `json:"since"`          // when somebody should have looked at it
	Why       string        `json:"why"`
}

// Ledger reconciles the failures of a cluster. A failure is lost if nobody has settled it or
// looked at it for longer than late after the moment at which somebody should have.
func (s *Stream) Ledger(ctx context.Context, cluster string, now time.Time, late time.Duration) (Ledger, error) {
	return s.Books(cluster).Ledger(ctx, now, late)
}

// Books are the ledgers of one cluster, one after the other: each reads what the streams have taken in since the one before.
// They keep some hundred bytes of each failure, and of each class in a document. They are for one goroutine.
type Books struct {
	stream  *Stream
	cluster string
	whole   time.Time                 // when all was read last
	read    map[string]uint64         // by stream: the sequence that was read last
	failed  map[string]failed         // by subject in FAILED
	dead    map[string]time.Time      // by origin: when its newest dead letter died
	ends    map[string]map[string]end // by UID and class
	bad     map[string]string         // by subject: why what it holds can't be read
}

// allAgain is how long books rely on what they have read: that a message in the midst of a stream was removed, nobody says.
const allAgain = time.Hour

// Books returns the books of a cluster, with nothing in them.
func (s *Stream) Books(cluster string) *Books { return &Books{stream: s, cluster: cluster} }

// Ledger is Stream.Ledger.
func (k *Books) Ledger(ctx context.Context, now time.Time, late time.Duration) (Ledger, error) {
	const doing = "reconcile the ledger"
	if err := event.ValidCluster(k.cluster); err != nil {
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	if err := k.catchUp(ctx); err != nil {
		k.whole = time.Time{} // of what broke off nobody knows how far it got
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	b := &balance{
		Ledger: Ledger{Cluster: k.cluster, At: now, Exporters: []Page{}, Classes: []Account{}, Lost: []Loss{}, Problems: []string{}},
		books:  k, late: late, accounts: map[string]*Account{},
	}
	b.Problems = slices.AppendSeq(b.Problems, maps.Values(k.bad))
	for _, f := range k.failed {
		b.enter(f)
	}
	if err := k.stream.pages(ctx, b); err != nil {
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	queues, err := k.stream.Queues(ctx, k.cluster)
	if err != nil {
		return Ledger{}, fmt.Errorf("%s: %w", doing, err)
	}
	for class, a := range b.accounts {
		i := slices.IndexFunc(queues, func(q Queue) bool { return q.Class == class })
		if i < 0 {
			b.Problems = append(b.Problems, fmt.Sprintf("The class %s has %d failures and no consumer: nobody is given them.", class, a.Published))
		} else {
			a.Undelivered, a.InHand = int(queues[i].Undelivered), int(queues[i].InHand)
		}
		b.Classes = append(b.Classes, *a)
	}
	slices.SortFunc(b.Classes, func(x, y Account) int { return cmp.Compare(x.Class, y.Class) })
	slices.SortFunc(b.Lost, func(x, y Loss) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Event, y.Event)) })
	slices.Sort(b.Problems)
	return b.Ledger, nil
}

// catchUp reads what is new, or all. DEAD is read whole, since its letters are dropped by hand.
func (k *Books) catchUp(ctx context.Context) error {
	again := time.Since(k.whole) > allAgain
	began := time.Now()
	// Where each stream ends is asked first: what is stored meanwhile is read again the next time.
	oldest := uint64(0)
	for _, name := range []string{Failed, bucketStream} {
		info, err := k.stream.info(ctx, name)
		if err != nil {
			return err
		}
		again = again || info.State.LastSeq < k.read[name] // it is another one, or an older copy
		if name == Failed {
			oldest = info.State.FirstSeq
		}
	}
	if again {
		k.read, k.failed, k.ends, k.bad = map[string]uint64{}, map[string]failed{}, map[string]map[string]end{}, map[string]string{}
		k.whole = began
	}
	k.dead = map[string]time.Time{}
	// FAILED first: what is settled afterwards may be missing in none of the others.
	for _, of := range []struct {
		stream, filter string
		take           func(Message) error
	}{
		{Failed, event.FailedSubject(k.cluster, "*", "*"), k.failure},
		{Dead, deadOf(strings.TrimSuffix(event.FailedSubject(k.cluster, "", ""), "..")), k.died},
		{bucketStream, bucketPrefix + event.StateKey(k.cluster, "*"), k.document},
	} {
		// A node that is behind the others may answer: what it has not got yet is read the next time.
		err := k.stream.EachAfter(ctx, of.stream, of.filter, k.read[of.stream], func(m Message) error {
			if of.stream != Dead {
				k.read[of.stream] = max(k.read[of.stream], m.Sequence)
			}
			return of.take(m)
		})
		if err != nil {
			return err
		}
	}
	for subject, f := range k.failed {
		if f.sequence < oldest { // FAILED has dropped it
			delete(k.failed, subject)
			delete(k.bad, subject)
		}
	}
	return nil
}

// failure takes a failure in.
func (k *Books) failure(m Message) error {
	delete(k.bad, m.Subject)
	_, class, uid, err := event.ParseFailedSubject(m.Subject)
	if err != nil {
		k.bad[m.Subject] = fmt.Sprintf("FAILED holds a message that nobody is given, as message %d: %s.", m.Sequence, err)
		return nil
	}
	f := failed{origin: m.Subject, uid: uid, sequence: m.Sequence, Loss: Loss{Class: class, Service: event.Service{UID: uid}, Published: m.Time}}
	if e, err := event.DecodeNATS(m.Header, m.Data); err == nil {
		if read, err := event.ReadFailed(e); err == nil {
			f.Event, f.Service, f.last = e.ID(), read.Service, read.Last
		}
	}
	k.failed[m.Subject] = f
	return nil
}

// died takes a dead letter in.
func (k *Books) died(m Message) error {
	origin, _, _ := m.Origin()
	k.dead[origin] = m.Time
	return nil
}

// document takes in how the document of an object leaves each of its classes.
func (k *Books) document(m Message) error {
	key := keyOf(m.Subject)
	delete(k.bad, m.Subject)
	uid := key[strings.LastIndexByte(key, '.')+1:]
	delete(k.ends, uid)
	if !live(m) {
		return nil
	}
	d, err := event.ReadDocument(m.Data)
	if err != nil {
		k.bad[m.Subject] = fmt.Sprintf("The key %s can't be read: %v.", key, err)
		return nil
	}
	k.ends[uid] = map[string]end{}
	for class, c := range d.Cases {
		var r event.Record
		if c.Record != nil {
			r = *c.Record
		}
		e := end{event: r.Event, again: c.Event, stored: m.Time}
		r = c.Since(r)
		e.phase, e.result, e.id, e.at, e.wait = r.Phase, r.Result, r.Case, r.At, r.Wait
		if d.State.Holder != "" && d.State.Works(class) {
			e.begun = m.Time
		}
		k.ends[uid][class] = e
	}
	return nil
}

// A balance is a ledger in the making.
type balance struct {
	Ledger
	books    *Books
	late     time.Duration
	accounts map[string]*Account
}

// A failed is a message of FAILED as far as the ledger needs it: of many there is much else.
type failed struct {
	origin   string // the subject in FAILED
	uid      string // of its Service, as origin has it
	sequence uint64
	Loss
	last time.Time // when it was last seen
}

// An end is how the document of an object leaves a class.
type end struct {
	phase     event.Phase
	result    event.Result
	event, id string
	again     string    // the event that the last run answered, whether it left a record or not
	at        time.Time // by the clock of who wrote it
	stored    time.Time // by that of NATS
	begun     time.Time // when the run that holds the object has last written; zero: none does
	wait      time.Duration
}

// enter puts a failure into its column.
func (b *balance) enter(f failed) {
	a := b.accounts[f.Class]
	if a == nil {
		a = &Account{Class: f.Class}
		b.accounts[f.Class] = a
	}
	a.Published++
	r := b.books.ends[f.uid][f.Class]
	died, isDead := b.books.dead[f.origin]
	switch {
	case f.Event != "" && r.settles(f):
		a.Settled++
		return
	case isDead && !died.Before(f.Published):
		a.Dead++
		return
	}
	loss := f.Loss
	// A record that is open stands for later failures too: they wait with it.
	loss.Since, loss.Why = f.Published, "Nobody has looked at it."
	open := r.phase != "" && !(r.phase == event.Settled && r.result.Settled())
	if open {
		loss.Case = r.id
		if due := r.at.Add(r.wait); due.After(loss.Since) {
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

// settles reports whether it is the end of a failure.
func (e end) settles(f failed) bool {
	if e.phase != event.Settled || !e.result.Settled() {
		return false
	}
	// What failed before a fix was proven, or taken back, needs no record of its own. That a run answered the event says
	// its ID alone: the clock of who did may be wrong.
	return e.event == f.Event || e.again == f.Event || (e.result.Worked() || e.result == event.Undone) && !f.last.After(e.at) && !f.last.After(e.stored)
}

// pages takes in what the exporters say.
func (s *Stream) pages(ctx context.Context, b *balance) error {
	var live int
	err := s.EachEntry(ctx, event.PageKey(b.Cluster, "*"), func(e Entry) {
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
			b.Problems = append(b.Problems, fmt.Sprintf("The exporter %s has seen %d Events, and %d of them are not accounted for.", p.Exporter, p.Seen, n))
		}
	})
	if err != nil {
		return err
	}
	if live == 0 {
		b.Problems = append(b.Problems, fmt.Sprintf("No exporter of cluster %s has said anything for %s: what fails now is not seen.", b.Cluster, pageLate))
	}
	slices.SortFunc(b.Exporters, func(x, y Page) int { return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.Exporter, y.Exporter)) })
	return nil
}

// deadOf returns the filter for the dead letters that come from subjects which begin with these parts.
func deadOf(prefix string) string {
	return deadPrefix + strings.TrimPrefix(prefix, "lbremedy.") + ".>"
}
