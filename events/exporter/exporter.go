// Package exporter turns a cluster's Events about failed load-balancer syncs into classified CloudEvents in the stream FAILED. It
// publishes each occurrence once; the recorder reports repeated failures as updates of one Event. Other reasons, such as
// EnsuredLoadBalancer, are not published. Begin with New and Exporter.Run, whose comment has the rules.
// The exporter holds no state, so any number may run without a leader.
//
// Failures that the check before an upgrade predicts ("DryRun:") are counted and logged with their redacted text, ten of each namespace
// and then one an hour. They report no failed Service and no fault, so they belong neither in FAILED nor in DEAD.
package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Grants are the cluster permissions of an exporter.
var Grants = []grant.Grant{grant.ListEvents, grant.WatchEvents, grant.GetServices, grant.ListServices, grant.WatchServices, grant.GetNodes}

var services = kube.Selection{Fields: "involvedObject.kind=Service"}

const (
	inFlight   = 64              // publishes at once: enough to keep a disk busy, few enough to stay small
	spell      = 5 * time.Minute // how long a watch lasts; the API server forgets versions after five minutes
	brief      = time.Second     // a watch that ends sooner without an Event was refused
	steady     = 10 * time.Second
	saveEvery  = time.Second
	countEvery = 5 * time.Minute
	stuck      = 30 * time.Second
	farewell   = 5 * time.Second // how long a publish in flight may take at shutdown
	firstWait  = 50 * time.Millisecond
	lastWait   = 5 * time.Second
)

// Config configures an exporter. All fields but Log are required.
type Config struct {
	Cluster    string // ID of the cluster, as event.ValidCluster has it
	Kube       *kube.Cluster
	Stream     *stream.Stream
	Classifier *event.Classifier
	Log        *slog.Logger // nil: nothing is logged

	// Budget of a namespace: failures published per second, and at once. Zero: DefaultRate and DefaultBurst.
	Rate  float64
	Burst int

	Now func() time.Time // the date for Events dated in the future; nil: time.Now

	Posts *Posts // receives Events from EventBridge instead of a watch; nil: Events are watched
}

// Stats counts events since the exporter was made.
type Stats struct {
	Events     atomic.Int64 // Events read, from watches and lists
	Ignored    atomic.Int64 // Events that report no failed sync of this cloud
	Published  atomic.Int64 // stored in FAILED
	Kept       atomic.Int64 // not stored, since FAILED held the same or a newer one, or DEAD this one
	Dead       atomic.Int64 // sent to DEAD
	Overtaken  atomic.Int64 // replaced by a newer one of the same Service and class, in the same list or while waiting
	Strange    atomic.Int64 // not published: about a Service that does not or cannot exist
	Released   atomic.Int64 // dropped while nothing got through or without room; listed again later
	Slowed     atomic.Int64 // over the budget of their namespace when they came; each is also counted by its outcome
	Reported   atomic.Int64 // failures predicted by a check before an upgrade
	Relists    atomic.Int64 // lists of all Events
	Incomplete atomic.Int64 // lists longer than the limit
	Retries    atomic.Int64 // publishes that were retried
	Unread     atomic.Int64 // failed reads of a Service, to be retried
	Saves      atomic.Int64 // how often progress was saved
	Posted     atomic.Int64 // accepted requests of EventBridge
	Refused    atomic.Int64 // refused requests of EventBridge
}

// An Exporter exports the Events of one cluster.
type Exporter struct {
	c     Config
	log   *slog.Logger
	stats Stats
	ready atomic.Bool
	stuck time.Duration // time without an acknowledgement after which everything is listed again
	began time.Time
	last  atomic.Int64 // when the last Event was seen, in nanoseconds

	registry registry
	logged   notice
	posted   chan kube.Selection // each selects one Event that a request names

	mu      sync.Mutex
	now     *entries
	present string // latest resource version known to exist
	done    string // resource version up to which everything was published, over all sessions
	news    chan struct{}
}

// New returns an exporter. It doesn't connect.
func New(c Config) (*Exporter, error) {
	if err := event.ValidCluster(c.Cluster); err != nil {
		return nil, fmt.Errorf("name the cluster: %w", err)
	}
	if c.Kube == nil || c.Stream == nil || c.Classifier == nil {
		return nil, errors.New("make an exporter: it needs a cluster, a stream and a classifier")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := c.Posts.check(); err != nil {
		return nil, err
	}
	log := cmp.Or(c.Log, slog.New(slog.DiscardHandler)).With("cluster", c.Cluster)
	return &Exporter{c: c, log: log, stuck: stuck, began: time.Now(), now: newEntries(), news: make(chan struct{}, 1), posted: make(chan kube.Selection, posted),
		registry: registry{read: c.Kube.ServiceUID}}, nil
}

// Stats returns the exporter's counters.
func (e *Exporter) Stats() *Stats { return &e.stats }

// Lag returns how long the oldest unpublished occurrence has been known; zero if none waits.
func (e *Exporter) Lag() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now.lag()
}

// Ready reports whether Events are read and reach NATS.
func (e *Exporter) Ready() bool { return e.ready.Load() }

// Run exports until ctx ends, and returns nil. It fails only if the first contact with NATS or the cluster fails; it waits out later outages.
//
//   - Order: the higher resource version wins, by compare-and-set on the subject. A stored version later than the cluster's
//     own, as after a restore of etcd, is replaced.
//   - Progress: a resource version in NATS, saved once everything up to it is acknowledged. A start continues from there, or lists all
//     Events. A list yields the newest Event of each Service and class, which is all that the stream keeps.
//   - Bounds: of a list beyond the limit (package kube) the part that was read is published; the rest is logged, and the watch delivers
//     it when the controller reports it again. If nothing reaches NATS for 30 s, everything waiting is dropped and listed again later.
//     The API server keeps Events for an hour, so shorter outages lose nothing.
//   - Trust: an Event is published if its namespace, name and UID are those of one Service (registry.go), within its namespace's budget
//     (queue.go), and dated neither in the future nor long before the Event.
//   - Nodes and the cluster (others.go): their Events are few and listed before each watch, outside progress. A Node's UID is read from
//     the cluster, since the controller writes the name in its place.
//   - EventBridge may replace the watch (posts.go). Its requests are hints: each Event is read from the API server.
//   - DEAD takes Events that can't become messages, with the reason, and progress moves on: ten of each namespace, then one an hour.
func (e *Exporter) Run(ctx context.Context) error {
	from, err := e.start(ctx)
	if err != nil {
		return err
	}
	defer e.ready.Store(false)
	// Progress is saved until the last publish has finished, after ctx ends.
	saving, saved := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	side.Go(func() { e.save(saving) })
	side.Go(func() { e.tell(saving) })
	side.Go(func() { e.count(ctx) })
	for {
		e.session(ctx, from)
		if ctx.Err() != nil {
			break
		}
		e.awaitNATS(ctx)
		from = "" // everything is listed
	}
	saved()
	side.Wait()
	return nil
}

// count periodically lists and registers the LoadBalancer Services, and stores their number for the cluster's budget. It only logs refusals.
func (e *Exporter) count(ctx context.Context) {
	for ctx.Err() == nil {
		n, next := 0, time.Now().Add(countEvery)
		version, err := e.c.Kube.EachLoadBalancer(ctx, func(o kube.Object) {
			e.registry.met(o)
			n++
		})
		if err != nil {
			if ctx.Err() == nil {
				e.log.Warn("the LoadBalancer Services can't be counted; trying again", "error", err)
			}
			retry.Sleep(ctx, steady)
			continue
		}
		current, over := context.WithDeadline(ctx, next)
		var storing sync.WaitGroup
		storing.Go(func() { e.counted(current, n) })
		e.meet(ctx, version, next)
		retry.Sleep(ctx, time.Until(next))
		over()
		storing.Wait()
	}
}

func (e *Exporter) counted(ctx context.Context, n int) {
	for {
		err := e.c.Stream.Put(ctx, event.CountKey(e.c.Cluster), []byte(strconv.Itoa(n)))
		if err == nil || ctx.Err() != nil {
			return
		}
		e.log.Warn("the number of LoadBalancer Services can't be stored; trying again", "error", err)
		e.c.Stream.Rest(ctx, steady)
	}
}

// meet registers newer LoadBalancer Services until the next count, or until the API server refuses the watch or forgets the version.
func (e *Exporter) meet(ctx context.Context, version string, until time.Time) {
	for left := time.Until(until); ctx.Err() == nil && left > 0; left = time.Until(until) {
		var err error
		if version, err = e.c.Kube.WatchLoadBalancers(ctx, version, left, e.registry.met); err != nil && ctx.Err() == nil {
			e.log.Debug("the LoadBalancer Services can't be watched; each that is new is read", "error", err)
		}
		if errors.Is(err, kube.ErrDenied) || errors.Is(err, kube.ErrGone) {
			return
		}
		retry.Sleep(ctx, retry.Spread(time.Second))
	}
}

// start returns the resource version to continue from; empty: list everything.
func (e *Exporter) start(ctx context.Context) (string, error) {
	text, err := e.c.Stream.Get(ctx, event.ProgressKey(e.c.Cluster))
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		return "", err
	}
	saved := string(text)
	// A watch from a future version would wait for it silently.
	present, err := e.c.Kube.EventsVersion(ctx)
	if err != nil {
		return "", err
	}
	e.exists(present)
	switch {
	case saved == "":
		e.log.Info("no progress was saved; all Events are listed")
		return "", nil
	case kube.Later(saved, present):
		e.log.Warn("the saved progress is ahead of the cluster, which was restored or is another one; all Events are listed", "saved", saved, "present", present)
		if err := e.c.Stream.Delete(ctx, event.ProgressKey(e.c.Cluster)); err != nil {
			return "", err
		}
		return "", nil
	}
	e.log.Info("going on from the saved progress", "version", saved)
	e.finished(saved)
	return saved, nil
}

type session struct {
	*Exporter
	entries *entries
	queues  *queues
	unread  outage
	ctx     context.Context // of the publishes; it ends a moment after the reading
}

func (e *Exporter) session(ctx context.Context, from string) {
	publishing, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, abandon) })()

	s := &session{Exporter: e, entries: newEntries(), queues: newQueues(e.c.Rate, e.c.Burst), ctx: publishing}
	e.mu.Lock()
	e.now = s.entries
	e.mu.Unlock()

	var guard sync.WaitGroup
	guard.Go(func() {
		if e.guard(reading) {
			stop()
			abandon()
		}
	})
	var out sync.WaitGroup
	out.Go(func() { s.drain(reading) })
	if e.c.Posts != nil {
		for range postReaders {
			out.Go(func() { s.readPosted(reading) })
		}
		s.lists(reading)
	} else {
		for _, which := range others() {
			out.Go(func() { s.other(reading, which) })
		}
		s.read(reading, from)
	}
	stop()
	guard.Wait()
	out.Wait()
	e.stats.Released.Add(int64(s.entries.unclosed()))
}

// guard returns true once nothing has got through for too long; false if ctx ended before.
func (e *Exporter) guard(ctx context.Context) bool {
	tick := time.NewTicker(e.stuck / 30)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		e.mu.Lock()
		silence := e.now.silence()
		e.mu.Unlock()
		if silence > e.stuck {
			e.log.Warn("nothing gets through to NATS; the watch is closed, and everything is listed again when NATS answers", "silence", silence.Round(time.Millisecond))
			return true
		}
	}
}

func (e *Exporter) awaitNATS(ctx context.Context) {
	e.ready.Store(false)
	backoff := retry.Backoff(firstWait, lastWait)
	for {
		err := e.c.Stream.Ping(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		e.log.Debug("NATS is still away", "error", err)
		e.c.Stream.Rest(ctx, retry.Spread(backoff.Step()))
	}
}

func (s *session) read(ctx context.Context, from string) {
	backoff := retry.Backoff(firstWait, lastWait)
	silent := false  // the last watch delivered nothing, or broke
	refused := false // the API server doesn't continue from the version
	for ctx.Err() == nil {
		if from != "" && silent {
			var err error
			if from, err = s.known(ctx, from); err != nil {
				s.complain(ctx, err)
				retry.Sleep(ctx, retry.Spread(backoff.Step()))
				continue
			}
			s.reads()
		}
		if from == "" || refused {
			version, err := s.list(ctx)
			if err != nil {
				s.complain(ctx, err)
				retry.Sleep(ctx, retry.Spread(backoff.Step()))
				continue
			}
			from, refused = version, false
			s.reads()
		}
		s.ready.Store(true)
		opened, seen := time.Now(), false
		err := s.c.Kube.WatchEvents(ctx, services, from, spell, func(ch kube.Change) error {
			from, seen = ch.Event.ResourceVersion, true
			s.reads()
			s.exists(from)
			s.take(ch)
			return nil
		})
		lasted := time.Since(opened)
		silent = err != nil || !seen
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kube.ErrGone):
			s.log.Info("the API server has forgotten the version to go on from; all Events are listed", "version", from)
			refused = true
		case err != nil:
			s.complain(ctx, err)
		case !seen && lasted < brief:
			s.log.Info("the API server closed the watch at once; all Events are listed")
			refused = true
		}
		if seen || lasted > steady {
			backoff = retry.Backoff(firstWait, lastWait)
			continue
		}
		retry.Sleep(ctx, retry.Spread(backoff.Step()))
	}
}

// known returns "" for a future version: after a restore of etcd a watch would wait for it silently.
func (s *session) known(ctx context.Context, version string) (string, error) {
	present, err := s.c.Kube.EventsVersion(ctx)
	if err != nil {
		return version, err
	}
	if !kube.Later(version, present) {
		return version, nil
	}
	s.log.Warn("the cluster was restored to an earlier state; all Events are listed", "version", version, "present", present)
	if err := s.c.Stream.Delete(ctx, event.ProgressKey(s.c.Cluster)); err != nil {
		return version, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present, s.done = present, ""
	return "", nil
}

type outage struct {
	began  time.Time // zero: no outage
	denied bool      // the API server refuses, which retrying won't change
}

// complain logs once per outage, and again if unreachable turns into refused or the other way round.
func (s *session) complain(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.ready.Store(false)
	denied := errors.Is(err, kube.ErrDenied)
	if s.unread.began.IsZero() || s.unread.denied != denied {
		s.log.Warn("Events can't be read; trying again until they can", "error", err)
	} else {
		s.log.Debug("Events can't be read yet", "error", err)
	}
	if s.unread.denied = denied; s.unread.began.IsZero() {
		s.unread.began = time.Now()
	}
}

func (s *session) reads() {
	if !s.unread.began.IsZero() {
		s.log.Info("Events can be read again", "silence", time.Since(s.unread.began).Round(time.Millisecond))
		s.unread = outage{}
	}
}

// list publishes the newest Event of each Service and class, and returns the resource version to watch from.
func (s *session) list(ctx context.Context) (string, error) {
	s.stats.Relists.Add(1)
	newest := map[string]occurrence{}
	bytes, all := map[string]int{}, 0 // of these, by namespace
	over := map[string]bool{}         // namespaces without room
	version, err := s.c.Kube.ListEvents(ctx, services, func(ev kube.Event) error {
		o, ok := s.classify(ev)
		if !ok {
			return nil
		}
		key, size := o.Namespace+" "+o.key(), o.size()
		was, ok := newest[key]
		switch {
		case ok:
			s.stats.Overtaken.Add(1)
			if !kube.Later(o.ResourceVersion, was.ResourceVersion) {
				return ctx.Err()
			}
			size -= was.size()
		case bytes[o.Namespace] > 0 && (bytes[o.Namespace]+size > queueBytes || all+size > allBytes):
			s.stats.Released.Add(1)
			over[o.Namespace] = true
			return ctx.Err()
		}
		newest[key] = o
		bytes[o.Namespace] += size
		all += size
		return ctx.Err()
	})
	if errors.Is(err, kube.ErrIncomplete) && version != "" {
		// Somebody may keep writing. A failure that lasts is reported again within five minutes, and the watch delivers that.
		s.stats.Incomplete.Add(1)
		s.log.Warn("there are more Events about Services than are read at once; the others are met when the controller reports them again", "error", err)
		err = nil
	}
	if err != nil {
		s.stats.Released.Add(int64(len(newest)))
		return "", err
	}
	s.exists(version)
	for _, o := range slices.SortedFunc(maps.Values(newest), inOrder) {
		s.enter(o, true)
	}
	for namespace := range over {
		if e := s.entries.open(""); s.queues.overflow(namespace, version, e) {
			s.entries.hold(e)
		} else {
			s.passed(s.entries.close(e))
		}
	}
	s.passed(s.entries.skip(version))
	return version, nil
}

func (s *session) take(ch kube.Change) {
	if ch.Kind == kube.Added || ch.Kind == kube.Modified {
		if o, ok := s.classify(ch.Event); ok {
			s.enter(o, false)
			return
		}
	}
	// Deletions are ignored: Events are deleted when they are an hour old.
	s.passed(s.entries.skip(ch.Event.ResourceVersion))
}

// put leaves the entry open if the session ends first.
func (s *session) put(w *waiting) {
	m, err := w.message(s.c.Cluster)
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.entries.send(w.entry)
	newer, unsure := s.newerThan(w.occurrence)
	backoff := retry.Backoff(firstWait, lastWait)
	for {
		_, stored, err := s.c.Stream.PublishNewer(s.ctx, m.subject, m.id, m.header, m.data, newer)
		doubt := unsure()
		switch {
		case err == nil && doubt == nil:
			s.entries.acked()
			if stored {
				s.stats.Published.Add(1)
			} else {
				s.stats.Kept.Add(1)
			}
			s.through(w)
			return
		case err != nil && !passes(err):
			s.bury(w, err) // NATS will never accept it, and it must not block what follows
			return
		}
		s.stats.Retries.Add(1)
		s.log.Debug("a failure isn't published yet", "namespace", w.Object.Namespace, "service", w.Object.Name, "error", cmp.Or(err, doubt))
		if !s.c.Stream.Rest(s.ctx, retry.Spread(backoff.Step())) {
			return
		}
	}
}

// passes reports whether a retry of a failed publish may succeed.
func passes(err error) bool {
	return errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrFull) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// refuse limits burials: a tenant can write any number of these. Those beyond the limit are counted as strange.
func (s *session) refuse(w *waiting, reason error) {
	if s.buried(w.ResourceVersion) || s.queues.maySample(w.Namespace) {
		s.bury(w, reason)
		return
	}
	s.stats.Strange.Add(1)
	if s.logged.first("malformed " + w.Namespace) {
		s.log.Warn("a namespace makes Events that can't be published, and some of them are in DEAD; more are only counted for an hour",
			"kubeevent", w.Namespace+"/"+w.Name, "error", reason)
	}
	s.through(w)
}

func (s *session) bury(w *waiting, reason error) {
	if s.buried(w.ResourceVersion) {
		s.stats.Kept.Add(1)
	} else {
		s.entries.send(w.entry)
		header, data := w.remains()
		backoff := retry.Backoff(firstWait, lastWait)
		for {
			err := s.c.Stream.Dead(s.ctx, reason.Error(), "exporter."+s.c.Cluster, header, data)
			if err == nil {
				break
			}
			s.stats.Retries.Add(1)
			if !s.c.Stream.Rest(s.ctx, retry.Spread(backoff.Step())) {
				return
			}
		}
		s.entries.acked()
		s.stats.Dead.Add(1)
		s.log.Warn("an Event can't be published and is in DEAD", "kubeevent", w.Namespace+"/"+w.Name, "error", reason)
	}
	s.through(w)
}

func (e *Exporter) buried(version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return version != "" && !kube.Later(version, e.done)
}

func (e *Exporter) exists(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kube.Later(version, e.present) {
		e.present = version
	}
}

// newerThan returns newer, and unsure, which returns why newer could not be decided, or nil.
func (s *session) newerThan(o occurrence) (newer func(stream.Message) bool, unsure func() error) {
	var err error
	newer = func(stored stream.Message) bool {
		version := versionOf(stored)
		if kube.Later(o.ResourceVersion, version) {
			return true
		}
		var alien bool
		alien, err = s.otherCluster(version)
		return alien
	}
	return newer, func() error {
		defer func() { err = nil }()
		return err
	}
}

// otherCluster reports whether a version is later than the cluster's present one: it comes from another cluster, or from before a restore.
func (s *session) otherCluster(version string) (bool, error) {
	known := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !kube.Later(version, s.present)
	}
	if known() {
		return false, nil
	}
	present, err := s.c.Kube.EventsVersion(s.ctx)
	if err != nil {
		return false, err
	}
	s.exists(present)
	return !known(), nil
}

func (s *session) passed(version string) {
	if version != "" {
		s.finished(version)
	}
}

func (e *Exporter) finished(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !kube.Later(version, e.done) {
		return
	}
	e.done = version
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// save saves progress at most once a second, and once more when ctx ends.
func (e *Exporter) save(ctx context.Context) {
	saved := ""
	now := func(ctx context.Context) bool {
		e.mu.Lock()
		version := e.done
		e.mu.Unlock()
		if version == "" || version == saved {
			return true
		}
		if err := e.keep(ctx, version); err != nil {
			e.log.Debug("progress isn't saved yet", "error", err)
			return false
		}
		saved = version
		e.stats.Saves.Add(1)
		return true
	}
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			now(last)
			return
		case <-e.news:
		}
		for !now(ctx) && retry.Sleep(ctx, saveEvery) {
		}
		retry.Sleep(ctx, saveEvery)
	}
}

// keep only moves progress forward, whichever exporter saves it.
func (e *Exporter) keep(ctx context.Context, version string) error {
	for {
		saved, err := e.c.Stream.Entry(ctx, event.ProgressKey(e.c.Cluster))
		if err == nil && !kube.Later(version, string(saved.Value)) {
			return nil
		}
		if err != nil && !errors.Is(err, stream.ErrNotFound) {
			return err
		}
		if _, err = e.c.Stream.Swap(ctx, saved.Key, []byte(version), saved.Revision, 0); !errors.Is(err, stream.ErrConflict) {
			return err
		}
	}
}

func (e *Exporter) report(ev kube.Event, what string) {
	e.log.Info(what, "kubeevent", ev.Namespace+"/"+ev.Name, "about", ev.Object.Kind+" "+ev.Object.Namespace+"/"+ev.Object.Name,
		"message", event.Abridge(ev.Message))
}
