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
	kept          = 30 * 24 * time.Hour    // how far back the journal is read
	lately        = 24 * time.Hour         // period of the page Now
	newsInterval  = 250 * time.Millisecond // between two checks for news
	stateInterval = 3 * time.Second        // between two reads of what the journal lacks: policy, pauses, breakers
	queueInterval = 30 * time.Second       // between two reads of exporter and backlog
	again         = time.Second            // before a retry to reach NATS
)

// An index has a line for each Service and class and for each case of the last 30 days. Pages read other details from NATS.
type index struct {
	p   *cli.Program
	hub *hub

	mu     sync.Mutex
	stream *stream.Stream // nil: NATS is unreachable
	away   away           // since when, and why
	*records
	loaded bool           // the journal has been read
	states []clusterState // by cluster

	classes map[string]*remedy.Remedy // by ID
}

type away struct {
	Since time.Time
	Why   string
}

type records struct {
	sequence uint64
	latest   map[caseKey]*summary // newest case of each Service and class; the keys have no ID
	cases    map[caseKey]*summary
	broken   map[uint64]bool // sequences of unreadable records
}

func newRecords() *records {
	return &records{latest: map[caseKey]*summary{}, cases: map[caseKey]*summary{}, broken: map[uint64]bool{}}
}

type caseKey struct{ cluster, uid, class, id string }

// A summary is a case as far as lists and counts need it. It is immutable.
type summary struct {
	Cluster, Class, Case string
	Service              event.Service
	Status               event.Status
	At, First            time.Time    // time of the newest record; of the failure
	Impact               event.Impact // while the case is open
	Finding              say.Text
	Message              string
	sequence             uint64 // of the newest record
	*ask                        // nil: it waits for nobody
}

// summaryOf returns the summary of a record, without what it asks.
func summaryOf(r *event.Record) *summary {
	c := &summary{Cluster: r.Cluster, Class: r.Class, Case: r.Case, Service: r.Service, Status: r.Status(), At: r.At, First: r.FirstFailure(),
		Finding: r.Finding, Message: r.Message}
	if c.Status.Open() {
		c.Impact = r.Impact
	}
	return c
}

type clusterState struct {
	status.Status
	counted time.Time // when exporter and backlog were read
}

func newIndex(p *cli.Program, h *hub) *index {
	b := &index{p: p, hub: h, records: newRecords(), classes: map[string]*remedy.Remedy{}}
	for _, r := range p.Remedies() {
		b.classes[r.Class] = r
	}
	return b
}

func (b *index) run(ctx context.Context) {
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

func (b *index) lose(err error) {
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

// follow reads the journal and continues with news. The error says why it stopped.
func (b *index) follow(ctx context.Context) error {
	s, err := b.p.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	fresh := newRecords()
	subjects := event.CaseSubject(cmp.Or(b.p.Cluster, "*"), "*", "*")
	take := func(m stream.Message) error { fresh.add(m, b.incidentOf); return nil }
	if err := s.EachLast(ctx, stream.Cases, subjects, take); err != nil {
		return err
	}
	if err := s.Each(ctx, stream.Cases, subjects, b.p.Now().Add(-kept), take); err != nil {
		return err
	}
	list, err := b.readStates(ctx, s, fresh)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.stream, b.away, b.records, b.states, b.loaded = s, away{}, fresh, list, true
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

func (b *index) news(ctx context.Context, s *stream.Stream, subjects string) error {
	for h := b.records; ; {
		if !retry.Sleep(ctx, newsInterval) {
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

// stay refreshes what the journal lacks, and drops what is too old.
func (b *index) stay(ctx context.Context, s *stream.Stream) error {
	for retry.Sleep(ctx, stateInterval) {
		list, err := b.readStates(ctx, s, b.records)
		if err != nil {
			return err
		}
		first, err := s.First(ctx, stream.Cases)
		if err != nil {
			return err
		}
		b.mu.Lock()
		changed := !slices.EqualFunc(b.states, list, clusterState.same)
		b.states = list
		changed = b.drop(b.p.Now().Add(-kept), first) || changed
		b.mu.Unlock()
		if changed {
			b.hub.change()
		}
	}
	return ctx.Err()
}

// same ignores the exporter's later sign of life.
func (x clusterState) same(y clusterState) bool {
	if x.Exporter != nil && y.Exporter != nil {
		e := *y.Exporter
		e.At = x.Exporter.At
		y.Exporter = &e
	}
	x.Cases, y.Cases = nil, nil // the pages count them
	x.counted, y.counted = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}

// add accepts repeated messages.
func (h *records) add(m stream.Message, incident func(*event.Record) string) {
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
	c := summaryOf(&r)
	c.sequence = m.Sequence
	if c.asks() {
		c.ask = askOf(&r)
		c.ask.incident = incident(&r)
	}
	h.cases[k] = c
	k.id = ""
	if have := h.latest[k]; have == nil || c.sequence > have.sequence {
		h.latest[k] = c
	}
}

// drop drops cases that ended before a time or left the journal, whose oldest record is first. It reports whether a newest case was among them.
func (h *records) drop(before time.Time, first uint64) bool {
	n := len(h.latest)
	maps.DeleteFunc(h.cases, func(_ caseKey, c *summary) bool { return c.At.Before(before) || c.sequence < first })
	maps.DeleteFunc(h.latest, func(_ caseKey, c *summary) bool { return c.sequence < first })
	maps.DeleteFunc(h.broken, func(sequence uint64, _ bool) bool { return sequence < first })
	return len(h.latest) < n
}

// readStates returns an error only for NATS as a whole.
func (b *index) readStates(ctx context.Context, s *stream.Stream, h *records) ([]clusterState, error) {
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
	var list []clusterState
	for _, cluster := range clusters {
		if err := s.Ping(ctx); err != nil {
			return nil, err
		}
		st := clusterState{counted: b.p.Now()}
		var before *status.Status
		b.mu.Lock()
		if i := slices.IndexFunc(b.states, func(s clusterState) bool { return s.Cluster == cluster }); i >= 0 && st.counted.Sub(b.states[i].counted) < queueInterval {
			before, st.counted = &b.states[i].Status, b.states[i].counted
		}
		b.mu.Unlock()
		st.Status = status.Of(ctx, b.p, s, cluster, b.tally(h, cluster), before)
		list = append(list, st)
	}
	return list, nil
}

// tally counts the cases of a cluster; "" means all. Without records it counts the index's.
func (b *index) tally(h *records, cluster string) journal.Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cmp.Or(h, b.records).tally(cluster, b.p.Now().Add(-lately))
}

func (h *records) tally(cluster string, since time.Time) journal.Tally {
	t := journal.Tally{Unread: len(h.broken)}
	for _, l := range h.latest {
		if cluster == "" || l.Cluster == cluster {
			t.CountOpen(l.Status)
		}
	}
	for _, c := range h.cases {
		if (cluster == "" || c.Cluster == cluster) && !c.At.Before(since) {
			t.Ended(c.Status)
		}
	}
	return t
}

// banner returns whether NATS is unreachable, whether nothing has been read yet, and the number of questions.
func (b *index) banner() (*away, bool, int) {
	questions := len(b.incidents())
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.away.Since.IsZero() {
		return new(b.away), false, questions
	}
	return nil, !b.loaded, questions
}

func (b *index) reached() (*stream.Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream == nil {
		return nil, fmt.Errorf("NATS is not reached: %s", cmp.Or(strings.TrimSuffix(b.away.Why, "."), "the journal has not been read yet"))
	}
	return b.stream, nil
}

// newest returns the wanted newest cases of each Service and class, the most recently changed first.
func (b *index) newest(want func(*summary) bool) []*summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*summary
	for _, c := range b.latest {
		if want(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, newer)
	return list
}

// each calls f with each case of the last 30 days, in any order. f must not call the index.
func (b *index) each(f func(*summary)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.cases {
		f(c)
	}
}

func newer(x, y *summary) int {
	return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.Case, y.Case), cmp.Compare(x.Class, y.Class))
}

func (b *index) clusters() []clusterState {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Clone(b.states)
	for i := range list {
		list[i].Cases = new(b.records.tally(list[i].Cluster, b.p.Now().Add(-lately)))
	}
	return list
}

// cluster returns the named cluster's state; without a name, the only one's.
func (b *index) cluster(name string) (clusterState, bool) {
	list := b.clusters()
	if name == "" && len(list) > 0 {
		return list[0], true
	}
	i := slices.IndexFunc(list, func(s clusterState) bool { return s.Cluster == name })
	if i < 0 {
		return clusterState{}, false
	}
	return list[i], true
}

func (b *index) alone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.states) < 2
}
