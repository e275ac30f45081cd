package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/status"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	kept   = 30 * 24 * time.Hour    // how far back the journal is read
	lately = 24 * time.Hour         // what Now tells of
	soon   = 250 * time.Millisecond // between two questions for what is new
	stands = 3 * time.Second        // between two looks at what is no journal: policy, pauses, breakers
	queued = 30 * time.Second       // between two looks at exporter and backlog
	again  = time.Second            // before another try to reach NATS
)

// A book is the journal as the pages need it: a line for each Service and class and for each case
// of the last 30 days. What else a page shows of one it reads from NATS.
type book struct {
	p   *cli.Program
	hub *hub

	mu     sync.Mutex
	stream *stream.Stream // nil: NATS is not reached
	away   away           // since when, and why
	*shelf                // nil: nothing has been read yet
	stands []standing     // by cluster

	classes map[string]*remedy.Remedy // by ID
}

// away says since when NATS is not reached.
type away struct {
	Since time.Time
	Why   string
}

// A shelf is what was read of the journal.
type shelf struct {
	sequence uint64
	latest   map[caseKey]*past // the newest case of each Service and class; their keys have no ID
	cases    map[caseKey]*past
	broken   map[uint64]bool // sequences of records that can't be read
}

func newShelf() *shelf {
	return &shelf{latest: map[caseKey]*past{}, cases: map[caseKey]*past{}, broken: map[uint64]bool{}}
}

type caseKey struct{ cluster, uid, class, id string }

// A past is a case as far as lists and counts need it. Nobody changes one.
type past struct {
	Cluster, Class, Case string
	Service              event.Service
	Status               event.Status
	At, First            time.Time    // of the newest record; of the failure
	Impact               event.Impact // while the case is open
	Finding              say.Text
	Message              string
	sequence             uint64 // of the newest record
	*ask                        // nil: it waits for nobody
}

// A standing is how a cluster stands beside its cases.
type standing struct {
	status.Status
	counted time.Time // when exporter and backlog were looked at
}

func newBook(p *cli.Program, h *hub) *book {
	b := &book{p: p, hub: h, classes: map[string]*remedy.Remedy{}}
	for _, r := range cli.Remedies() {
		b.classes[r.Class] = r
	}
	return b
}

// run keeps the book current until ctx ends.
func (b *book) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		b.lose(err)
		if !retry.Sleep(ctx, again) {
			return
		}
	}
}

// lose notes that NATS is not reached.
func (b *book) lose(err error) {
	b.mu.Lock()
	before := b.away
	b.stream = nil
	if b.away.Why = said(err); b.away.Since.IsZero() {
		b.away.Since = b.p.Now()
	}
	changed := before != b.away
	b.mu.Unlock()
	if changed {
		b.hub.change()
	}
}

// follow reads the journal and goes on with what is new. The error says why it can't.
func (b *book) follow(ctx context.Context) error {
	s, err := b.p.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	fresh := newShelf()
	subjects := event.CaseSubject(cmp.Or(b.p.Cluster, "*"), "*", "*")
	take := func(m stream.Message) error { fresh.add(m, b.incidentOf); return nil }
	if err := s.EachLast(ctx, stream.Cases, subjects, take); err != nil {
		return err
	}
	if err := s.Each(ctx, stream.Cases, subjects, b.p.Now().Add(-kept), take); err != nil {
		return err
	}
	list, err := b.look(ctx, s, fresh)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.stream, b.away, b.shelf, b.stands = s, away{}, fresh, list
	b.mu.Unlock()
	b.hub.change()
	defer func() {
		b.mu.Lock()
		b.stream = nil
		b.mu.Unlock()
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.news(ctx, s, subjects) })
	g.Go(func() error { return b.stay(ctx, s) })
	return g.Wait()
}

// news takes in what is new in the journal.
func (b *book) news(ctx context.Context, s *stream.Stream, subjects string) error {
	for h := b.shelf; ; {
		if !retry.Sleep(ctx, soon) {
			return ctx.Err()
		}
		var news []stream.Message
		err := s.EachAfter(ctx, stream.Cases, subjects, h.sequence, func(m stream.Message) error { news = append(news, m); return nil })
		if err != nil {
			return err
		}
		if len(news) == 0 {
			continue
		}
		b.mu.Lock()
		for _, m := range news {
			h.add(m, b.incidentOf)
		}
		b.mu.Unlock()
		b.hub.change()
	}
}

// stay keeps what is no journal current, and drops what is too old.
func (b *book) stay(ctx context.Context, s *stream.Stream) error {
	for retry.Sleep(ctx, stands) {
		list, err := b.look(ctx, s, b.shelf)
		if err != nil {
			return err
		}
		first, err := s.First(ctx, stream.Cases)
		if err != nil {
			return err
		}
		b.mu.Lock()
		changed := !slices.EqualFunc(b.stands, list, standing.same)
		b.stands = list
		changed = b.forget(b.p.Now().Add(-kept), first) || changed
		b.mu.Unlock()
		if changed {
			b.hub.change()
		}
	}
	return ctx.Err()
}

// same reports whether two looks at a cluster saw the same. That the exporter has given a sign
// of life once more is nothing new.
func (x standing) same(y standing) bool {
	if x.Exporter != nil && y.Exporter != nil {
		e := *y.Exporter
		e.At = x.Exporter.At
		y.Exporter = &e
	}
	x.Cases, y.Cases = nil, nil // the pages count them
	x.counted, y.counted = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}

// add takes a message of the journal in. It may come twice.
func (h *shelf) add(m stream.Message, incident func(*event.Record) string) {
	h.sequence = max(h.sequence, m.Sequence)
	r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		h.broken[m.Sequence] = true
		return
	}
	k := caseKey{r.Cluster, r.Service.UID, r.Class, r.Case}
	if have := h.cases[k]; have != nil && r.At.Before(have.At) {
		return // the newest record was read first
	}
	c := past{
		Cluster: r.Cluster, Class: r.Class, Case: r.Case, Service: r.Service, Status: r.Status(), At: r.At, First: r.FirstFailure(),
		Finding: r.Finding, Message: r.Message, sequence: m.Sequence,
	}
	if c.Status.Open() {
		c.Impact = r.Impact
	}
	if c.asks() {
		c.ask = askOf(&r)
		c.ask.incident = incident(&r)
	}
	h.cases[k] = &c
	k.id = ""
	if have := h.latest[k]; have == nil || c.sequence > have.sequence {
		h.latest[k] = &c
	}
}

// forget drops the cases that were over before a time, and all that the journal does not hold any more, of which first is
// the oldest record. It reports whether a newest case was dropped.
func (h *shelf) forget(before time.Time, first uint64) bool {
	n := len(h.latest)
	maps.DeleteFunc(h.cases, func(_ caseKey, c *past) bool { return c.At.Before(before) || c.sequence < first })
	maps.DeleteFunc(h.latest, func(_ caseKey, c *past) bool { return c.sequence < first })
	maps.DeleteFunc(h.broken, func(sequence uint64, _ bool) bool { return sequence < first })
	return len(h.latest) < n
}

// look reads how the clusters stand. The error is one of NATS as a whole.
func (b *book) look(ctx context.Context, s *stream.Stream, h *shelf) ([]standing, error) {
	clusters := []string{b.p.Cluster}
	if b.p.Cluster == "" {
		var err error
		if clusters, err = ledger.Clusters(ctx, s); err != nil {
			return nil, err
		}
		b.mu.Lock()
		for _, l := range h.latest {
			clusters = append(clusters, l.Cluster)
		}
		b.mu.Unlock()
		slices.Sort(clusters)
		clusters = slices.Compact(clusters)
	}
	var list []standing
	for _, cluster := range clusters {
		if err := s.Ping(ctx); err != nil {
			return nil, err
		}
		st := standing{counted: b.p.Now()}
		var before *status.Status
		b.mu.Lock()
		if i := slices.IndexFunc(b.stands, func(s standing) bool { return s.Cluster == cluster }); i >= 0 && st.counted.Sub(b.stands[i].counted) < queued {
			before, st.counted = &b.stands[i].Status, b.stands[i].counted
		}
		b.mu.Unlock()
		st.Status = status.Of(ctx, b.p, s, cluster, b.tally(h, cluster), before)
		list = append(list, st)
	}
	return list, nil
}

// tally counts the cases of a cluster; of all with "". Without a shelf it counts those of the book.
func (b *book) tally(h *shelf, cluster string) journal.Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h = cmp.Or(h, b.shelf); h == nil {
		return journal.Tally{}
	}
	return h.tally(cluster, b.p.Now().Add(-lately))
}

func (h *shelf) tally(cluster string, since time.Time) journal.Tally {
	t := journal.Tally{Unread: len(h.broken)}
	for _, l := range h.latest {
		if cluster == "" || l.Cluster == cluster {
			t.Stands(l.Status)
		}
	}
	for _, c := range h.cases {
		if (cluster == "" || c.Cluster == cluster) && !c.At.Before(since) {
			t.Ended(c.Status)
		}
	}
	return t
}

// standing returns what is said on each page: whether NATS is away, whether nothing has been
// read yet, and how many questions wait.
func (b *book) standing() (*away, bool, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gone *away
	if !b.away.Since.IsZero() {
		gone = new(b.away)
	}
	if b.shelf == nil {
		return gone, gone == nil, 0
	}
	causes := map[string]bool{}
	for _, c := range b.latest {
		if c.asks() {
			causes[c.incident] = true
		}
	}
	return gone, false, len(causes)
}

// reached returns the connection to NATS. The error says why there is none.
func (b *book) reached() (*stream.Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream == nil {
		return nil, fmt.Errorf("NATS is not reached: %s", cmp.Or(strings.TrimSuffix(b.away.Why, "."), "the journal has not been read yet"))
	}
	return b.stream, nil
}

// newest returns the newest cases of each Service and class that are wanted, the one that changed
// last first.
func (b *book) newest(want func(*past) bool) []*past {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shelf == nil {
		return nil
	}
	var list []*past
	for _, c := range b.latest {
		if want(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, newer)
	return list
}

// each calls f with each case of the last 30 days, in any order. f must not call the book.
func (b *book) each(f func(*past)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shelf == nil {
		return
	}
	for _, c := range b.cases {
		f(c)
	}
}

// newer orders cases: the one that changed last comes first.
func newer(x, y *past) int {
	return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.Case, y.Case), cmp.Compare(x.Class, y.Class))
}

// clusters returns how each cluster stands, with its counts as of now.
func (b *book) clusters() []standing {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Clone(b.stands)
	for i := range list {
		list[i].Cases = new(b.shelf.tally(list[i].Cluster, b.p.Now().Add(-lately)))
	}
	return list
}

// cluster returns how a cluster stands; the only one where none is named. False if it is not known.
func (b *book) cluster(name string) (standing, bool) {
	list := b.clusters()
	if name == "" && len(list) > 0 {
		return list[0], true
	}
	i := slices.IndexFunc(list, func(s standing) bool { return s.Cluster == name })
	if i < 0 {
		return standing{}, false
	}
	return list[i], true
}

// alone reports whether there is but one cluster, so that its ID need not stand everywhere.
func (b *book) alone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stands) < 2
}
