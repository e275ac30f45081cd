package remedy

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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

// Peers are the cluster's Services with Events of syncs, as one case sees them. They share one read, and no method takes longer with more of them.
type Peers struct {
	own  Peer
	uid  string // of the case's own Service
	roll *roll
}

// Peers returns the cluster's Services with Events of syncs. Counts are those of Events; the controller drops some of many. If
// Services fail together, the result may be a moment old; see PeerCache.
func (c *Case) Peers(ctx context.Context) (Peers, error) {
	look, err := c.PeerCache.of(ctx, c)
	if err != nil {
		return Peers{}, err
	}
	return look.seenBy(c.Service.Namespace, c.Service.Name, string(c.Service.UID)), nil
}

// Alike returns the Services that fail alike, the case's own first, then by number of failures; and how many they are.
func (p Peers) Alike() (iter.Seq[Peer], int) {
	n := len(p.roll.alike) + 1
	if h := p.roll.by[p.uid]; h != nil && h.Same {
		n--
	}
	return func(yield func(Peer) bool) {
		if !yield(p.own) {
			return
		}
		for _, h := range p.roll.alike {
			if h.uid != p.uid && !yield(h.Peer) {
				return
			}
		}
	}, n
}

// Others returns the Services that fail for another reason, by number of failures, and how many they are.
func (p Peers) Others() (iter.Seq[Peer], int) {
	n := len(p.roll.others)
	if h := p.roll.by[p.uid]; h != nil && h.Fails && !h.Same {
		n--
	}
	return func(yield func(Peer) bool) {
		for _, h := range p.roll.others {
			if h.uid != p.uid && !yield(h.Peer) {
				return
			}
		}
	}, n
}

// Busiest returns the Services by number of syncs, with the case's own, and how many they are.
func (p Peers) Busiest() (iter.Seq[Peer], int) {
	return func(yield func(Peer) bool) {
		for _, h := range p.roll.busiest {
			shown := h.Peer
			if h.uid == p.uid {
				shown = p.own
			}
			if !yield(shown) {
				return
			}
		}
	}, len(p.roll.busiest)
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
	keep time.Duration

	mu    sync.Mutex
	reads map[string]*peerRead // by class

	releases sync.Mutex // one look reads it for the others
	release  ccm.Version
	until    time.Time // when release expires
}

// sameRelease is shorter than an upgrade.
const sameRelease = 30 * time.Second

// Release returns the version of the controller, at most half a minute old; zero if it cannot be determined. It needs ccm.ControllerReads.
func (w *PeerCache) Release(ctx context.Context, c *ccm.View) (ccm.Version, error) {
	if w == nil {
		ctl, err := c.Controller(ctx)
		return ctl.Version, err
	}
	w.releases.Lock()
	defer w.releases.Unlock()
	if time.Now().Before(w.until) {
		return w.release, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return ccm.Version{}, err
	}
	w.release, w.until = ctl.Version, time.Now().Add(sameRelease)
	return w.release, nil
}

type peerRead struct {
	until time.Time     // when it expires; zero while it runs
	done  chan struct{} // closed when the following fields are set
	roll  *roll
	reads []event.Read
	whole bool // the roll is valid for others, too
}

// dear is how many times its own duration a look is cached at least, which limits it to a tenth of a large cluster's time.
const dear = 10

// NewPeerCache returns a PeerCache that caches for this long, or longer if the read took long.
func NewPeerCache(keep time.Duration) *PeerCache {
	return &PeerCache{keep: keep, reads: map[string]*peerRead{}}
}

func (w *PeerCache) of(ctx context.Context, c *Case) (*roll, error) {
	if w == nil {
		r, _, err := c.readPeers(ctx)
		return r, err
	}
	w.mu.Lock()
	l := w.reads[c.Remedy.Class]
	mine := l == nil || !l.until.IsZero() && time.Now().After(l.until)
	if mine {
		l = &peerRead{done: make(chan struct{})}
		w.reads[c.Remedy.Class] = l
	}
	w.mu.Unlock()
	if mine {
		return w.read(ctx, c, l)
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("list the Events of Services: %w", ctx.Err())
	}
	if !l.whole {
		r, _, err := c.readPeers(ctx)
		return r, err
	}
	for _, r := range l.reads {
		event.TellAgain(ctx, r)
	}
	return l.roll, nil
}

// read also serves the cases that wait.
func (w *PeerCache) read(ctx context.Context, c *Case, l *peerRead) (r *roll, err error) {
	began := time.Now()
	defer func() {
		w.mu.Lock()
		if l.until = time.Now().Add(max(w.keep, dear*time.Since(began))); !l.whole && w.reads[c.Remedy.Class] == l {
			delete(w.reads, c.Remedy.Class)
		}
		w.mu.Unlock()
		close(l.done)
	}()
	var mu sync.Mutex
	reading := event.WithReads(ctx, func(r event.Read) {
		mu.Lock()
		defer mu.Unlock()
		l.reads = append(l.reads, r)
		event.TellAgain(ctx, r)
	})
	l.roll, l.whole, err = c.readPeers(reading)
	return l.roll, err
}

// readPeers returns whole if deleted and since synced Services were removed, which it skips if the case's own Service is the only one.
func (c *Case) readPeers(ctx context.Context) (_ *roll, whole bool, err error) {
	seen := map[string]*history{}
	row := event.NewClassifier([]event.Row{{Class: c.Remedy.Class, Codes: c.Remedy.Codes, Texts: c.Remedy.Texts}})
	var known map[string]bool // the UIDs of the Services; nil before they are read
	err = c.Kube.Evidence(ctx, kube.Selection{Fields: "involvedObject.kind=Service"}, func(e kube.Event) error {
		match := row.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message})
		kind := signOf(e, match.Class)
		if kind == noSign || e.Object.UID == "" {
			return nil
		}
		h := seen[e.Object.UID]
		if h == nil {
			if len(seen) == mostUnknown && known == nil {
				if known, err = c.existing(ctx); err != nil {
					return err
				}
				maps.DeleteFunc(seen, func(uid string, _ *history) bool { return !known[uid] })
			}
			if known != nil && !known[e.Object.UID] || !kube.ValidName(e.Object.Namespace) || !kube.ValidName(e.Object.Name) {
				return nil
			}
			h = &history{Peer: Peer{Namespace: e.Object.Namespace, Name: e.Object.Name}, uid: e.Object.UID}
			seen[e.Object.UID] = h
		}
		h.add(e, kind, match.Class == c.Remedy.Class)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list the Events of Services: %w", err)
	}
	own := string(c.Service.UID)
	if h := seen[own]; len(seen) == 0 || len(seen) == 1 && h != nil {
		return newRoll(slices.Collect(maps.Values(seen))), false, nil
	}
	// Events outlive their objects, and some are dropped. Whole Services would take too much memory.
	var all []*history
	err = c.Kube.EachService(ctx, func(svc *corev1.Service) error {
		h := seen[string(svc.UID)]
		if h == nil {
			return nil
		}
		if ccm.HashWritten(svc).After(h.last) {
			h.Fails, h.Same = false, false
		}
		all = append(all, h)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list Services: %w", err)
	}
	return newRoll(all), true, nil
}

// mostUnknown is how many Services Events may name before existing ones are read: an author of Events can invent any number.
const mostUnknown = 10_000

func (c *Case) existing(ctx context.Context) (map[string]bool, error) {
	known := map[string]bool{}
	err := c.Kube.EachService(ctx, func(svc *corev1.Service) error {
		known[string(svc.UID)] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	return known, nil
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
	same, n := peers.Alike()
	if n < 2 {
		return say.F("According to the Events, no other Service of the cluster has this failure.")
	}
	return say.F("According to the Events, %d Services of the cluster have this failure: %s.", n, say.First(Names(same, named), n))
}

// Names returns the names of the first of some peers.
func Names(peers iter.Seq[Peer], limit int) []string {
	var names []string
	for p := range peers {
		if len(names) == limit {
			break
		}
		names = append(names, p.String())
	}
	return names
}

// List returns up to limit words separated by commas, and how many more there are.
func List(words []string, limit int) string { return say.List(words, limit).String() }
