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
var Grants = []grant.Grant{grant.ListEvents, grant.WatchEvents, grant.GetServices, grant.ListServices, grant.GetNodes}

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
	Released   atomic.Int64 // without room in a queue; read again later
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
	ready atomic.Bool   // Events are read
	mute  atomic.Int64  // when a write to NATS first failed since the last success, in nanoseconds; 0: none did
	muted atomic.Bool   // the log says so
	anew  chan struct{} // all Events are to be listed
	stuck time.Duration // after so long the exporter isn't ready
	began time.Time
	last  atomic.Int64 // when the last Event was seen, in nanoseconds

	registry registry
	logged   notice
	posted   chan kube.Selection // each selects one Event that a request names
	entries  entries
	queues   *queues
	unread   outage
	ctx      context.Context // of the publishes; it ends a moment after the reading

	mu      sync.Mutex
	present string // latest resource version known to exist
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
	return &Exporter{c: c, log: log, stuck: stuck, began: time.Now(), posted: make(chan kube.Selection, posted),
		anew: make(chan struct{}, 1), registry: registry{read: c.Kube.ServiceUID}, queues: newQueues(c.Rate, c.Burst)}, nil
}

// Stats returns the exporter's counters.
func (e *Exporter) Stats() *Stats { return &e.stats }

// Lag returns how long the oldest unpublished occurrence has been known; zero if none waits.
func (e *Exporter) Lag() time.Duration { return e.entries.lag() }

// Ready reports whether Events are read and reach NATS.
func (e *Exporter) Ready() bool { return e.ready.Load() && e.silence() < e.stuck }

// silence returns how long NATS has accepted nothing that it was sent.
func (e *Exporter) silence() time.Duration {
	if since := e.mute.Load(); since != 0 {
		return time.Since(time.Unix(0, since))
	}
	return 0
}

// Run exports until ctx ends, and returns nil. It fails only if the first contact with NATS or the cluster fails; it waits out later outages.
//
//   - Order: the higher resource version wins, by compare-and-set on the subject. A stored version later than the cluster's
//     own, as after a restore of etcd, is replaced. The exporter notices a restore when its watch breaks, or before its next list.
//   - Progress: a resource version in NATS, saved once everything up to it is acknowledged. A start continues from there, or lists all
//     Events. A list yields the newest Event of each Service and class, which is all that the stream keeps.
//   - Bounds: of a list beyond the limit (package kube) the part that was read is published, or what a full queue has room for; the rest
//     is logged, and the watch delivers it when the controller reports it again. While nothing reaches NATS, the queues keep what they
//     have room for, and read the rest again later. If NATS comes back with less than was saved, all Events are listed. The API server
//     keeps Events for an hour, so shorter outages lose nothing.
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
	e.export(ctx, from)
	saved()
	side.Wait()
	return nil
}

// count periodically lists and registers the LoadBalancer Services, and stores their number for the cluster's budget. It only logs refusals.
func (e *Exporter) count(ctx context.Context) {
	for ctx.Err() == nil {
		n, next := 0, time.Now().Add(countEvery)
		err := e.c.Kube.EachLoadBalancer(ctx, func(o kube.Object) {
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
		store := func() error { return e.c.Stream.Put(ctx, event.CountKey(e.c.Cluster), []byte(strconv.Itoa(n))) }
		for err := store(); err != nil && ctx.Err() == nil && time.Now().Before(next); err = store() {
			e.log.Warn("the number of LoadBalancer Services can't be stored; trying again", "error", err)
			e.c.Stream.Rest(ctx, steady)
		}
		retry.Sleep(ctx, time.Until(next))
	}
}

// start returns the resource version to continue from; empty: list everything.
func (e *Exporter) start(ctx context.Context) (string, error) {
	text, err := e.c.Stream.Get(ctx, event.ProgressKey(e.c.Cluster))
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		return "", err
	}
	e.entries.skip(string(text))
	from, err := e.known(ctx, string(text))
	if err == nil {
		e.log.Info("going on from the saved progress; without one, all Events are listed", "version", from)
	}
	return from, err
}

// export reads and publishes until ctx ends. The publishes in flight may take a moment longer.
func (e *Exporter) export(ctx context.Context, from string) {
	publishing, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, abandon) })()
	e.ctx = publishing
	var out sync.WaitGroup
	out.Go(func() { e.drain(ctx) })
	if e.c.Posts != nil {
		for range postReaders {
			out.Go(func() { e.readPosted(ctx) })
		}
		e.lists(ctx)
	} else {
		for _, which := range others() {
			out.Go(func() { e.other(ctx, which) })
		}
		e.read(ctx, from)
	}
	out.Wait()
	e.stats.Released.Add(int64(e.entries.count()))
}

func (e *Exporter) read(ctx context.Context, from string) {
	backoff := retry.Backoff(firstWait, lastWait)
	silent := false  // the last watch delivered nothing, or broke
	refused := false // the API server doesn't continue from the version
	for ctx.Err() == nil {
		if from != "" && silent {
			var err error
			if from, err = e.known(ctx, from); err != nil {
				e.complain(ctx, err)
				retry.Sleep(ctx, retry.Spread(backoff.Step()))
				continue
			}
			e.reads()
		}
		select {
		case <-e.anew:
			refused = true
		default:
		}
		if from == "" || refused {
			version, err := e.list(ctx)
			if err != nil {
				e.complain(ctx, err)
				retry.Sleep(ctx, retry.Spread(backoff.Step()))
				continue
			}
			from, refused = version, false
			e.reads()
		}
		e.ready.Store(true)
		opened, seen := time.Now(), false
		err := e.c.Kube.WatchEvents(ctx, services, from, spell, func(ch kube.Change) error {
			from, seen = ch.Event.ResourceVersion, true
			e.reads()
			e.exists(from)
			e.take(ch)
			return nil
		})
		lasted := time.Since(opened)
		silent = err != nil || !seen
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kube.ErrGone):
			e.log.Info("the API server has forgotten the version to go on from; all Events are listed", "version", from)
			refused = true
		case err != nil:
			e.complain(ctx, err)
		case !seen && lasted < brief:
			e.log.Info("the API server closed the watch at once; all Events are listed")
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
func (e *Exporter) known(ctx context.Context, version string) (string, error) {
	present, err := e.c.Kube.EventsVersion(ctx)
	if err != nil {
		return version, err
	}
	if !kube.Later(version, present) {
		e.exists(present)
		return version, nil
	}
	e.log.Warn("the cluster was restored to an earlier state; all Events are listed", "version", version, "present", present)
	if err := e.c.Stream.Delete(ctx, event.ProgressKey(e.c.Cluster)); err != nil {
		return version, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.present = present
	e.entries.restart()
	e.queues.restart()
	return "", nil
}

type outage struct {
	began  time.Time // zero: no outage
	denied bool      // the API server refuses, which retrying won't change
}

// complain logs once per outage, and again if unreachable turns into refused or the other way round.
func (e *Exporter) complain(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	e.ready.Store(false)
	denied := errors.Is(err, kube.ErrDenied)
	if e.unread.began.IsZero() || e.unread.denied != denied {
		e.log.Warn("Events can't be read; trying again until they can", "error", err)
	} else {
		e.log.Debug("Events can't be read yet", "error", err)
	}
	if e.unread.denied = denied; e.unread.began.IsZero() {
		e.unread.began = time.Now()
	}
}

func (e *Exporter) reads() {
	if !e.unread.began.IsZero() {
		e.log.Info("Events can be read again", "silence", time.Since(e.unread.began).Round(time.Millisecond))
		e.unread = outage{}
	}
}

// list publishes the newest Event of each Service and class, and returns the resource version to watch from.
func (e *Exporter) list(ctx context.Context) (string, error) {
	e.stats.Relists.Add(1)
	newest := map[string]occurrence{}
	bytes, all := map[string]int{}, 0 // of these, by namespace
	over := map[string]bool{}         // namespaces without room
	version, err := e.accept(e.c.Kube.ListEvents(ctx, services, func(ev kube.Event) error {
		o, ok := e.classify(ev)
		if !ok {
			return nil
		}
		key, size := o.Namespace+" "+o.key(), o.size()
		was, ok := newest[key]
		switch {
		case ok:
			e.stats.Overtaken.Add(1)
			if !kube.Later(o.ResourceVersion, was.ResourceVersion) {
				return ctx.Err()
			}
			size -= was.size()
		case bytes[o.Namespace] > 0 && (bytes[o.Namespace]+size > queueBytes || all+size > allBytes):
			if over[o.Namespace] {
				e.stats.Released.Add(1) // the first one counts when the queue has read it again
			}
			over[o.Namespace] = true
			return ctx.Err()
		}
		newest[key] = o
		bytes[o.Namespace] += size
		all += size
		return ctx.Err()
	}))
	if err != nil {
		e.stats.Released.Add(int64(len(newest) + len(over)))
		return "", err
	}
	e.exists(version)
	for _, o := range slices.SortedFunc(maps.Values(newest), inOrder) {
		e.enter(o, true)
	}
	for namespace := range over {
		if held := e.entries.open(""); !e.queues.overflow(namespace, version, held) {
			e.stats.Released.Add(1)
			e.entries.close(held)
		}
	}
	e.entries.skip(version)
	return version, nil
}

// accept takes a list beyond its bounds as one that was read to its end, since somebody may keep writing. A failure that lasts is
// reported again within five minutes, and the watch delivers that.
func (e *Exporter) accept(version string, err error) (string, error) {
	if version == "" || !errors.Is(err, kube.ErrIncomplete) {
		return version, err
	}
	e.stats.Incomplete.Add(1)
	if e.logged.first("incomplete") {
		e.log.Warn("there are more Events than are read at once; the others are met when the controller reports them again", "error", err)
	}
	return version, nil
}

func (e *Exporter) take(ch kube.Change) {
	if ch.Kind == kube.Added || ch.Kind == kube.Modified {
		if o, ok := e.classify(ch.Event); ok {
			e.enter(o, false)
			return
		}
	}
	// Deletions are ignored: Events are deleted when they are an hour old.
	e.entries.skip(ch.Event.ResourceVersion)
}

// put leaves the entry open if e.ctx ends first.
func (e *Exporter) put(w *waiting) {
	m, err := w.message(e.c.Cluster)
	if err != nil {
		e.refuse(w, err)
		return
	}
	var stored bool
	var refused error
	if !e.insist(func() error {
		var unsure, err error
		_, stored, err = e.c.Stream.PublishNewer(e.ctx, m.subject, m.id, m.header, m.data, func(have stream.Message) (newer bool) {
			newer, unsure = e.replaces(w.ResourceVersion, versionOf(have))
			return newer
		})
		if err != nil && !passes(err) {
			refused = err
			return nil
		}
		return cmp.Or(err, unsure)
	}) {
		return
	}
	switch {
	case refused != nil: // NATS will never accept it, and it must not block what follows
		e.bury(w, refused)
		return
	case stored:
		e.stats.Published.Add(1)
	default:
		e.stats.Kept.Add(1)
	}
	e.entries.close(w.entry)
}

// insist repeats a write to NATS until it succeeds. It reports false if ctx has ended before.
func (e *Exporter) insist(write func() error) bool {
	backoff := retry.Backoff(firstWait, lastWait)
	for {
		err := write()
		if err == nil {
			if e.mute.Store(0); e.muted.Swap(false) {
				e.log.Info("NATS accepts failures again")
			}
			return true
		}
		e.stats.Retries.Add(1)
		e.mute.CompareAndSwap(0, time.Now().UnixNano())
		if silence := e.silence(); silence > e.stuck && !e.muted.Swap(true) {
			e.log.Warn("nothing gets through to NATS; trying again until it does", "silence", silence.Round(time.Millisecond), "error", err)
		}
		e.log.Debug("a failure isn't published yet", "error", err)
		if !e.c.Stream.Rest(e.ctx, retry.Spread(backoff.Step())) {
			return false
		}
	}
}

// passes reports whether a retry of a failed publish may succeed.
func passes(err error) bool {
	return errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrFull) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// refuse limits burials: a tenant can write any number of these. Those beyond the limit are counted as strange.
func (e *Exporter) refuse(w *waiting, reason error) {
	if e.buried(w.ResourceVersion) || e.queues.maySample(w.Namespace) {
		e.bury(w, reason)
		return
	}
	e.stats.Strange.Add(1)
	if e.logged.first("malformed " + w.Namespace) {
		e.log.Warn("a namespace makes Events that can't be published, and some of them are in DEAD; more are only counted for an hour",
			"kubeevent", w.Namespace+"/"+w.Name, "error", reason)
	}
	e.entries.close(w.entry)
}

func (e *Exporter) bury(w *waiting, reason error) {
	if e.buried(w.ResourceVersion) {
		e.stats.Kept.Add(1)
	} else {
		header, data := w.remains()
		if !e.insist(func() error { return e.c.Stream.Dead(e.ctx, reason.Error(), "exporter."+e.c.Cluster, header, data) }) {
			return
		}
		e.stats.Dead.Add(1)
		e.log.Warn("an Event can't be published and is in DEAD", "kubeevent", w.Namespace+"/"+w.Name, "error", reason)
	}
	e.entries.close(w.entry)
}

func (e *Exporter) buried(version string) bool {
	return version != "" && !kube.Later(version, e.entries.progress())
}

func (e *Exporter) exists(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kube.Later(version, e.present) {
		e.present = version
	}
}

// replaces reports whether a version replaces a stored one: it is later, or the stored one is later than the cluster's present one, and so
// comes from another cluster, or from before a restore.
func (e *Exporter) replaces(version, stored string) (bool, error) {
	alien := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return kube.Later(stored, e.present)
	}
	if kube.Later(version, stored) || !alien() {
		return kube.Later(version, stored), nil
	}
	present, err := e.c.Kube.EventsVersion(e.ctx)
	if err != nil {
		return false, err
	}
	e.exists(present)
	return alien(), nil
}

// save saves progress at most once a second, and once more when ctx ends. It notices if NATS has lost some.
func (e *Exporter) save(ctx context.Context) {
	saved := ""
	each(ctx, saveEvery, func(ctx context.Context) {
		version := e.entries.progress()
		// With EventBridge only lists move progress, and NATS may lose it between them.
		if version == "" || version == saved && e.c.Posts == nil {
			return
		}
		found, err := e.keep(ctx, version)
		if err != nil {
			e.log.Debug("progress isn't saved yet", "error", err)
			return
		}
		if kube.Later(saved, found) {
			e.log.Warn("NATS has lost progress that was saved, and perhaps failures; all Events are listed")
			select {
			case e.anew <- struct{}{}:
			default: // a list is due already
			}
		}
		if version != saved {
			saved = version
			e.stats.Saves.Add(1)
		}
	})
}

// each calls do at an interval until ctx ends, and once more then.
func each(ctx context.Context, interval time.Duration, do func(context.Context)) {
	for do(ctx); retry.Sleep(ctx, interval); {
		do(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	do(last)
}

// keep only moves progress forward, whichever exporter saves it. It returns what NATS had; empty for none.
func (e *Exporter) keep(ctx context.Context, version string) (found string, err error) {
	for {
		saved, err := e.c.Stream.Entry(ctx, event.ProgressKey(e.c.Cluster))
		if err == nil && !kube.Later(version, string(saved.Value)) {
			return string(saved.Value), nil
		}
		if err != nil && !errors.Is(err, stream.ErrNotFound) {
			return "", err
		}
		if _, err = e.c.Stream.Swap(ctx, saved.Key, []byte(version), saved.Revision, 0); !errors.Is(err, stream.ErrConflict) {
			return string(saved.Value), err
		}
	}
}

func (e *Exporter) report(ev kube.Event, what string) {
	e.log.Info(what, "kubeevent", ev.Namespace+"/"+ev.Name, "about", ev.Object.Kind+" "+ev.Object.Namespace+"/"+ev.Object.Name,
		"message", event.Abridge(ev.Message))
}
