package remedy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// PeerReads is what Peers reads; a class that calls it declares it.
var PeerReads = []grant.Grant{grant.ListEvents, grant.ListServices}

// A Peer is a Service by the Events of its syncs, which the API server keeps for an hour by default.
type Peer struct {
	Namespace, Name string
	Failed          int  // failed syncs
	Good            int  // successful syncs
	Fails           bool // its newest sync failed
	Same            bool // and for the class of the case
}

// String returns the peer's name with its namespace.
func (f Peer) String() string { return f.Namespace + "/" + f.Name }

// Peers are the cluster's Services with Events of syncs, as one case sees them. They share one read.
type Peers struct {
	own  Peer
	uid  string // of the case's own Service
	roll *roll
}

// Peers returns the cluster's Services with Events of syncs. Counts are those of Events; the controller drops some of many. If
// Services fail together, the result may be a moment old; see PeerCache.
func (c *Case) Peers(ctx context.Context) (Peers, error) {
	r, err := c.PeerCache.roll(ctx, c)
	if err != nil {
		return Peers{}, err
	}
	return r.seenBy(c.Service.Namespace, c.Service.Name, string(c.Service.UID)), nil
}

// Alike returns up to limit of the Services that fail alike, the case's own first, then by number of failures; and how many they are.
func (p Peers) Alike(limit int) ([]Peer, int) {
	others, n := p.without(p.roll.alike, limit-1)
	return append([]Peer{p.own}, others...), n + 1
}

// Others returns up to limit of the Services that fail for another reason, by number of failures, and how many they are.
func (p Peers) Others(limit int) ([]Peer, int) { return p.without(p.roll.others, limit) }

// Busiest returns up to limit of the Services by number of syncs, with the case's own, and how many they are.
func (p Peers) Busiest(limit int) ([]Peer, int) {
	var first []Peer
	for _, h := range p.roll.busiest[:min(limit, len(p.roll.busiest))] {
		shown := h.Peer
		if h.uid == p.uid {
			shown = p.own
		}
		first = append(first, shown)
	}
	return first, len(p.roll.busiest)
}

// without returns up to limit of the Services of a list without the case's own, and how many they are.
func (p Peers) without(list []*history, limit int) (first []Peer, n int) {
	n = len(list)
	if own := p.roll.by[p.uid]; slices.Contains(list, own) {
		n--
	}
	for _, h := range list {
		if len(first) == limit {
			break
		}
		if h.uid != p.uid {
			first = append(first, h.Peer)
		}
	}
	return first, n
}

// A roll is the immutable result of one read.
type roll struct {
	by                     map[string]*history // by UID
	alike, others, busiest []*history
}

func newRoll(all []*history) *roll {
	r := &roll{by: make(map[string]*history, len(all))}
	slices.SortFunc(all, func(a, b *history) int {
		return cmp.Or(-cmp.Compare(a.Failed, b.Failed), -cmp.Compare(a.Good, b.Good), cmp.Compare(a.String(), b.String()))
	})
	for _, h := range all {
		r.by[h.uid] = h
		switch {
		case h.Same:
			r.alike = append(r.alike, h)
		case h.Fails:
			r.others = append(r.others, h)
		}
		if h.syncs() > 0 {
			r.busiest = append(r.busiest, h)
		}
	}
	slices.SortStableFunc(r.busiest, func(a, b *history) int { return b.syncs() - a.syncs() })
	return r
}

func (r *roll) seenBy(namespace, name, uid string) Peers {
	p := Peers{own: Peer{Namespace: namespace, Name: name}, uid: uid, roll: r}
	if h := r.by[uid]; h != nil {
		p.own = h.Peer
	}
	p.own.Fails, p.own.Same = true, true
	return p
}

// A PeerCache briefly caches which Services have Events of syncs, and the controller's release: with an account-wide cause all
// Services ask for the same long answer. Its methods are safe for several goroutines; nil caches nothing.
type PeerCache struct {
	keep    time.Duration
	release cached[ccm.Version]

	mu    sync.Mutex
	rolls map[string]*cached[peerRead] // by class
}

type peerRead struct {
	roll  *roll
	reads []event.Read
}

// One caller reads a cached value for the others. A failed read is repeated.
type cached[T any] struct {
	turn  chan struct{} // holds the turn of one caller
	value T
	until time.Time // when it expires
}

// get returns the value, which it keeps for that long, and for at least dear times as long as its read took.
func (v *cached[T]) get(ctx context.Context, keep time.Duration, dear int, read func() (T, error)) (T, error) {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("wait for what another look reads: %w", ctx.Err())
	}
	began := time.Now()
	if began.Before(v.until) {
		return v.value, nil
	}
	value, err := read()
	if err == nil {
		v.value, v.until = value, time.Now().Add(max(keep, time.Duration(dear)*time.Since(began)))
	}
	return value, err
}

// NewPeerCache returns a PeerCache that caches for this long, or longer if the read took long.
func NewPeerCache(keep time.Duration) *PeerCache {
	return &PeerCache{keep: keep, release: cached[ccm.Version]{turn: make(chan struct{}, 1)}, rolls: map[string]*cached[peerRead]{}}
}

// sameRelease is shorter than an upgrade.
const sameRelease = 30 * time.Second

// Release returns the version of the controller, at most half a minute old; zero if it cannot be determined. It needs
// ccm.ControllerReads.
func (w *PeerCache) Release(ctx context.Context, c *ccm.View) (ccm.Version, error) {
	read := func() (ccm.Version, error) {
		ctl, err := c.Controller(ctx)
		return ctl.Version, err
	}
	if w == nil {
		return read()
	}
	return w.release.get(ctx, sameRelease, 0, read)
}

// tenth limits the reads to a tenth of a large cluster's time.
const tenth = 10

func (w *PeerCache) roll(ctx context.Context, c *Case) (*roll, error) {
	if w == nil {
		return c.readPeers(ctx)
	}
	w.mu.Lock()
	v := w.rolls[c.Remedy.Class]
	if v == nil {
		v = &cached[peerRead]{turn: make(chan struct{}, 1)}
		w.rolls[c.Remedy.Class] = v
	}
	w.mu.Unlock()
	seen, err := v.get(ctx, w.keep, tenth, func() (peerRead, error) {
		var told event.ReadList
		r, err := c.readPeers(event.WithReads(ctx, told.Tell))
		return peerRead{r, told.End()}, err
	})
	for _, r := range seen.reads {
		event.TellAgain(ctx, r)
	}
	return seen.roll, err
}

// readPeers reads the Services before the Events, which outlive their objects and may name any number of others.
func (c *Case) readPeers(ctx context.Context) (*roll, error) {
	seen := map[string]*history{} // by UID; whole Services would take too much memory
	err := c.Kube.EachService(ctx, func(svc *corev1.Service) error {
		seen[string(svc.UID)] = &history{Peer: Peer{Namespace: svc.Namespace, Name: svc.Name}, uid: string(svc.UID), written: ccm.HashWritten(svc)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	row := event.NewClassifier([]event.Row{{Class: c.Remedy.Class, Codes: c.Remedy.Codes, Texts: c.Remedy.Texts}})
	err = c.Kube.Evidence(ctx, kube.Selection{Fields: "involvedObject.kind=Service"}, func(e kube.Event) error {
		match := row.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message})
		if kind, h := signOf(e, match.Class), seen[e.Object.UID]; kind != noSign && h != nil {
			h.add(e, kind, match.Class == c.Remedy.Class)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the Events of Services: %w", err)
	}
	maps.DeleteFunc(seen, func(_ string, h *history) bool { return h.last.IsZero() })
	for _, h := range seen {
		if h.written.After(h.last) { // it has been synced since; some Events are dropped
			h.Fails, h.Same = false, false
		}
	}
	return newRoll(slices.Collect(maps.Values(seen))), nil
}

type sign int

const (
	noSign sign = iota // about something else
	failed
	good
	cleaned // the Service is no longer the controller's
)

func signOf(e kube.Event, class string) sign {
	switch {
	case e.Reason == event.Ensured:
		return good
	case e.Reason == "CleanLoadBalancer":
		return cleaned
	case class != event.Ignored && e.Type == corev1.EventTypeWarning && ended(e.Reason) && !event.DryRun(e.Message):
		return failed
	}
	return noSign
}

// ended reports whether the reason is that of a sync that ended early: SyncLoadBalancerFailed, FailedAddHash.
func ended(reason string) bool {
	return strings.HasSuffix(reason, "Failed") || strings.HasPrefix(reason, "Failed")
}

type history struct {
	Peer
	uid     string
	written time.Time // when a sync last wrote its hash
	last    time.Time // of its newest Event
	version string
}

func (h *history) syncs() int { return h.Failed + h.Good }

func (h *history) add(e kube.Event, kind sign, same bool) {
	switch kind {
	case failed:
		h.Failed += e.Count
	case good:
		h.Good += e.Count
	}
	if e.Last.Before(h.last) || e.Last.Equal(h.last) && !kube.Later(e.ResourceVersion, h.version) {
		return
	}
	h.last, h.version = e.Last, e.ResourceVersion
	h.Fails, h.Same = kind == failed, kind == failed && same
}

const named = 5

// Together says which peers fail like the case's own Service.
func Together(peers Peers) say.Text {
	same, n := peers.Alike(named)
	if n < 2 {
		return say.F("According to the Events, no other Service of the cluster has this failure.")
	}
	return say.F("According to the Events, %d Services of the cluster have this failure: %s.", n, say.First(Names(same), n))
}

// Names returns the names of peers.
func Names(peers []Peer) []string {
	names := make([]string, len(peers))
	for i, p := range peers {
		names[i] = p.String()
	}
	return names
}

// List returns up to limit words separated by commas, and how many more there are.
func List(words []string, limit int) string { return say.List(words, limit).String() }
