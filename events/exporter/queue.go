package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
)

// Default budget of a namespace. A failing controller retries each Service after 5 s at first and after 5 min in the end.
const (
	DefaultRate  = 20
	DefaultBurst = 100
)

const (
	queueFlights = 16        // of one namespace at once: a quarter of all
	queueBytes   = 512 << 10 // waiting, of one namespace
	allBytes     = 8 << 20   // waiting, in all
	queueSamples = 10        // of one namespace at once: unpublishable Events that go to DEAD, and predicted failures that are logged
	sampleEach   = time.Hour // interval of one more after those
	idleQueues   = 1024      // beyond this number, unused queues are swept
)

type waiting struct {
	occurrence
	entry *entry
	size  int
}

// A queue holds a namespace's waiting occurrences. Beyond its budget only the newest of each Service and class wait. Overflow is spilled
// and read again later.
type queue struct {
	namespace string
	arrivals  *rate.Limiter // detects a flood
	budget    *rate.Limiter // for publishing
	samples   *rate.Limiter // for unpublishable Events that go to DEAD
	foreseen  *rate.Limiter // for logging failures that a check before an upgrade predicts
	waiting   []*waiting
	byKey     map[string]*waiting // the queue by key
	flying    map[string]bool     // keys of those being published
	bytes     int
	top       string    // latest version accepted
	again     time.Time // nothing leaves before: the namespace's Services can't be read
	failed    uint64    // consecutive failures
	spill     *spill
}

// A spill represents Events without room in a queue. Progress does not pass the first of them until all are published.
type spill struct {
	entry *entry
	after string // everything up to this version was accepted
	last  string // latest version without room
	busy  bool   // being read
}

type queues struct {
	mu      sync.Mutex
	rate    rate.Limit
	burst   int
	all     map[string]*queue
	ring    []*queue // in round-robin order
	turn    int
	bytes   int
	flying  int
	refills int // queues whose spills are being read
	ready   chan struct{}
}

func newQueues(perSecond float64, burst int) *queues {
	return &queues{
		rate: rate.Limit(cmp.Or(perSecond, DefaultRate)), burst: cmp.Or(burst, DefaultBurst),
		all: map[string]*queue{}, ready: make(chan struct{}, 1),
	}
}

// of returns a namespace's queue; the caller holds the lock.
func (ls *queues) of(namespace string) *queue {
	l := ls.all[namespace]
	if l == nil {
		if len(ls.ring) >= idleQueues {
			ls.sweep()
		}
		l = &queue{
			namespace: namespace, byKey: map[string]*waiting{}, flying: map[string]bool{},
			arrivals: rate.NewLimiter(ls.rate, ls.burst), budget: rate.NewLimiter(ls.rate, ls.burst),
			samples: rate.NewLimiter(rate.Every(sampleEach), queueSamples), foreseen: rate.NewLimiter(rate.Every(sampleEach), queueSamples),
		}
		ls.all[namespace] = l
		ls.ring = append(ls.ring, l)
	}
	return l
}

// sweep removes empty queues with a full budget: a new one would be the same. The caller holds the lock.
func (ls *queues) sweep() {
	now := time.Now()
	ls.ring = slices.DeleteFunc(ls.ring, func(l *queue) bool {
		idle := len(l.waiting)+len(l.flying) == 0 && l.spill == nil && min(l.arrivals.TokensAt(now), l.budget.TokensAt(now)) >= float64(ls.burst) &&
			min(l.samples.TokensAt(now), l.foreseen.TokensAt(now)) >= queueSamples
		if idle {
			delete(ls.all, l.namespace)
		}
		return idle
	})
	ls.turn = 0
}

type admitted struct {
	over  bool     // its namespace exceeds its budget
	was   *waiting // the older one that it replaced
	spill *spill   // it was spilled
	fresh bool     // the spill begins with it
}

// add puts an occurrence into its namespace's queue. A list delivers long-past Events at once, so the arrivals budget doesn't apply.
func (ls *queues) add(w *waiting, listed bool) admitted {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of(w.Namespace)
	var a admitted
	if !listed {
		a.over = !l.arrivals.Allow()
	}
	w.size = w.occurrence.size()
	if was := l.byKey[w.key()]; was != nil {
		a.was = ls.replace(l, was, w)
		return a
	}
	if l.spill != nil || len(l.waiting) > 0 && (l.bytes+w.size > queueBytes || ls.bytes+w.size > allBytes) {
		if l.spill == nil {
			l.spill, a.fresh = &spill{entry: w.entry}, true
			if !listed {
				l.spill.after = l.top // lists are unordered
			}
		}
		if kube.Later(w.ResourceVersion, l.spill.last) {
			l.spill.last = w.ResourceVersion
		}
		a.spill = l.spill
		return a
	}
	ls.push(l, w)
	return a
}

// replace keeps the newer of two occurrences in the queue, and returns the other.
func (ls *queues) replace(l *queue, was, w *waiting) (other *waiting) {
	if !kube.Later(w.ResourceVersion, was.ResourceVersion) {
		return w
	}
	old := *was
	*was = *w
	l.bytes += w.size - old.size
	ls.bytes += w.size - old.size
	return &old
}

// restart forgets all versions: they are not the cluster's any more. Spills are read from the beginning.
func (ls *queues) restart() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.ring {
		if l.top = ""; l.spill != nil {
			l.spill = &spill{entry: l.spill.entry, busy: l.spill.busy}
		}
	}
}

// push appends to a queue; the caller holds the lock.
func (ls *queues) push(l *queue, w *waiting) {
	l.waiting = append(l.waiting, w)
	l.byKey[w.key()] = w
	l.bytes += w.size
	ls.bytes += w.size
	if kube.Later(w.ResourceVersion, l.top) {
		l.top = w.ResourceVersion
	}
	ls.stir()
}

func (ls *queues) stir() {
	select {
	case ls.ready <- struct{}{}:
	default:
	}
}

// next waits for an occurrence to publish, or for a queue whose spill is to be read; neither if ctx has ended.
func (ls *queues) next(ctx context.Context) (*queue, *waiting) {
	for ctx.Err() == nil {
		l, w, in := ls.pick(time.Now())
		if l != nil {
			return l, w
		}
		timer := time.NewTimer(in)
		select {
		case <-ctx.Done():
		case <-ls.ready:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil, nil
}

// pick is next without waiting; in is when to ask again at the latest.
func (ls *queues) pick(now time.Time) (l *queue, w *waiting, in time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	in = time.Minute
	if ls.flying >= inFlight {
		return nil, nil, in
	}
	for range ls.ring {
		ls.turn = (ls.turn + 1) % len(ls.ring)
		l := ls.ring[ls.turn]
		empty, most := len(l.waiting) == 0, queueFlights
		if l.failed > 0 {
			most = 1 // until reads succeed again
		}
		switch {
		case empty && (l.spill == nil || l.spill.busy), len(l.flying) >= most:
			continue
		case now.Before(l.again):
			in = min(in, l.again.Sub(now))
			continue
		case empty && ls.bytes+(ls.refills+1)*queueBytes > allBytes:
			continue
		case empty:
			l.spill.busy = true
			ls.refills++
			return l, nil, 0
		}
		i := slices.IndexFunc(l.waiting, func(w *waiting) bool { return !l.flying[w.key()] })
		if i < 0 {
			continue
		}
		if !l.budget.AllowN(now, 1) {
			in = min(in, time.Duration(float64(time.Second)*(1-l.budget.TokensAt(now))/float64(ls.rate))+time.Millisecond)
			continue
		}
		w := l.waiting[i]
		l.waiting = slices.Delete(l.waiting, i, i+1)
		delete(l.byKey, w.key())
		l.flying[w.key()] = true
		l.bytes -= w.size
		ls.bytes -= w.size
		ls.flying++
		return l, w, 0
	}
	return nil, nil, in
}

func (ls *queues) maySample(namespace string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.of(namespace).samples.Allow()
}

func (ls *queues) mayReport(namespace string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.of(namespace).foreseen.Allow()
}

// pause counts one more failure, and returns how long the queue rests.
func (l *queue) pause() time.Duration {
	l.failed++
	return retry.Spread(retry.Pause(firstWait, lastWait, l.failed))
}

func (ls *queues) landed(l *queue, w *waiting) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(l.flying, w.key())
	ls.flying--
	l.failed = 0
	ls.stir()
}

// back returns an occurrence whose Service can't be read now to its queue, which then rests. It returns the older if a newer one came.
func (ls *queues) back(l *queue, w *waiting) (was *waiting) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(l.flying, w.key())
	ls.flying--
	if at := time.Now(); at.After(l.again) {
		l.again = at.Add(l.pause())
	}
	ls.stir()
	if newer := l.byKey[w.key()]; newer != nil {
		return ls.replace(l, newer, w)
	}
	ls.push(l, w)
	return nil
}

func (o occurrence) size() int {
	n := 1024
	for _, s := range []string{o.Namespace, o.Name, o.UID, o.ResourceVersion, o.Reason, o.Type, o.Message, o.Component, o.Object.Kind, o.Object.Namespace,
		o.Object.Name, o.Object.UID} {
		n += len(s)
	}
	return n
}

func (e *Exporter) enter(o occurrence, listed bool) {
	version := o.ResourceVersion
	if listed {
		version = "" // a list is progress only when all of it is published
	}
	w := &waiting{occurrence: o, entry: e.entries.open(version)}
	a := e.queues.add(w, listed)
	if a.over {
		e.stats.Slowed.Add(1)
	}
	if a.over && e.logged.first("flood "+o.Namespace) {
		e.log.Warn("a namespace makes more Events of failed syncs than its budget; they wait, and of each Service and class the newest is published",
			"namespace", o.Namespace, "reason", fmt.Sprintf("The budget is %g a second.", float64(e.queues.rate)))
	}
	switch {
	case a.was != nil:
		e.stats.Overtaken.Add(1)
		e.entries.close(a.was.entry)
	case a.fresh: // its entry stays open for the spill
		e.log.Info("the queue of a namespace is full; its Events are read again later", "namespace", o.Namespace)
	case a.spill != nil:
		e.stats.Released.Add(1)
		e.entries.close(w.entry)
	}
}

// overflow makes a queue read all Events of its namespace. It reports whether the entry now holds progress.
func (ls *queues) overflow(namespace, version string, e *entry) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of(namespace)
	if l.spill != nil {
		return false // that one reads them
	}
	l.spill = &spill{entry: e, last: version}
	ls.stir()
	return true
}

func (e *Exporter) drain(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		l, w := e.queues.next(ctx)
		switch {
		case l == nil:
			return
		case w == nil:
			all.Go(func() { e.refill(ctx, l) })
		default:
			all.Go(func() { e.deal(l, w) })
		}
	}
}

// refill reads the earliest spilled Events for which there is room, and continues from there later.
func (e *Exporter) refill(ctx context.Context, l *queue) {
	e.queues.mu.Lock()
	sp := l.spill
	after := sp.after
	e.queues.mu.Unlock()
	var picked []occurrence // in order
	bytes, least := 0, ""   // least: the earliest without room; none later than that gets any
	see := func(ev kube.Event) error {
		o, ok := e.classify(ev)
		switch {
		case !ok:
			return ctx.Err()
		case !kube.Later(o.ResourceVersion, after):
			e.stats.Kept.Add(1) // it was accepted before
			return ctx.Err()
		case least != "" && kube.Later(o.ResourceVersion, least):
			e.stats.Released.Add(1)
			return ctx.Err()
		}
		i, _ := slices.BinarySearchFunc(picked, o, inOrder)
		picked = slices.Insert(picked, i, o)
		bytes += o.size()
		for len(picked) > 1 && bytes > queueBytes {
			n := len(picked) - 1
			bytes, least, picked = bytes-picked[n].size(), picked[n].ResourceVersion, picked[:n]
			e.stats.Released.Add(1)
		}
		return ctx.Err()
	}
	version, err := e.c.Kube.ListEvents(ctx, kube.Selection{Namespace: l.namespace, Fields: services.Fields}, see)
	for _, which := range others() { // later versions are read again
		if err == nil && which.Namespace == l.namespace {
			_, err = e.c.Kube.ListEvents(ctx, which, see)
		}
	}
	if errors.Is(err, kube.ErrIncomplete) {
		least = "" // every further try would be as long, so the spill ends
	}
	version, err = e.accept(version, err)
	var older []*waiting
	e.queues.mu.Lock()
	l.spill.busy = false
	e.queues.refills--
	e.queues.stir()
	if err != nil || l.spill != sp { // the latter after a restart
		l.again = time.Now().Add(l.pause())
		e.queues.mu.Unlock()
		e.stats.Released.Add(int64(len(picked)))
		e.log.Debug("the Events that there was no room for can't be read yet", "namespace", l.namespace, "error", err)
		return
	}
	for _, o := range picked {
		w := &waiting{occurrence: o, entry: e.entries.beside(sp.entry), size: o.size()}
		if was := l.byKey[w.key()]; was != nil {
			older = append(older, e.queues.replace(l, was, w))
			continue
		}
		e.queues.push(l, w)
	}
	switch {
	case least != "":
		sp.after = picked[len(picked)-1].ResourceVersion
	case kube.Later(sp.last, version):
		sp.after = version // more was spilled since
	default:
		l.spill = nil
	}
	over := l.spill == nil
	e.queues.mu.Unlock()
	for _, w := range older {
		e.stats.Overtaken.Add(1)
		e.entries.close(w.entry)
	}
	if over {
		e.stats.Released.Add(1)
		e.entries.close(sp.entry)
	}
}

// deal publishes an occurrence if it names an existing Service. If that can't be read now, it goes back to its queue.
func (e *Exporter) deal(l *queue, w *waiting) {
	if err := w.invalid(); err != nil {
		e.refuse(w, err)
		e.queues.landed(l, w)
		return
	}
	err := e.proves(w)
	if no := (*noObject)(nil); errors.As(err, &no) {
		e.stats.Strange.Add(1)
		if e.logged.first(w.Namespace) {
			e.log.Warn("an Event is about an object that does not exist, and is not published; more of this namespace are only counted for an hour",
				"kubeevent", w.Namespace+"/"+w.Name, "about", w.Object.Namespace+"/"+w.Object.Name+" "+w.Object.UID, "reason", no.says)
		}
		e.entries.close(w.entry)
		e.queues.landed(l, w)
		return
	}
	if err != nil {
		if e.ctx.Err() != nil {
			return // stays open in the ledger
		}
		e.stats.Unread.Add(1)
		if e.logged.first("unread " + w.Namespace) {
			e.log.Warn("an object can't be read, and the failures of its namespace wait until it can", "namespace", w.Object.Namespace, "service", w.Object.Name,
				"error", err)
		}
		if was := e.queues.back(l, w); was != nil {
			e.stats.Overtaken.Add(1)
			e.entries.close(was.entry)
		}
		return
	}
	e.put(w)
	e.queues.landed(l, w)
}
