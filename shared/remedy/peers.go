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

// PeerReads is what Peers reads. A class that calls it declares it.
var PeerReads = []grant.Grant{grant.ListEvents, grant.ListServices}

// A Peer is a Service of the cluster as the Events of its syncs show it. The
// API server keeps Events for an hour, if nobody has told it otherwise.
type Peer struct {
	Namespace, Name string
	Failed          int  // syncs that failed
	Good            int  // syncs that succeeded
	Fails           bool // its newest sync has failed
	Same            bool // and for the class of the case
}

// String returns the peer's name with its namespace.
func (f Peer) String() string { return f.Namespace + "/" + f.Name }

// Peers are the Services of the cluster that have Events of syncs, as one case sees them. Where many fail together
// they share what one look read: no method takes longer because there are more of them.
type Peers struct {
	own  Peer
	uid  string // of the own one
	look *roll
}

// Peers returns the Services of the cluster that have Events of syncs. Their counts are those of
// the controller's Events, of which it drops some where there are many. What it reads
// is a moment old where Services fail together, see Crowd.
func (c *Case) Peers(ctx context.Context) (Peers, error) {
	look, err := c.Crowd.of(ctx, c)
	if err != nil {
		return Peers{}, err
	}
	return look.seenBy(c.Service.Namespace, c.Service.Name, string(c.Service.UID)), nil
}

// Alike returns the Services that fail like the case's own, which comes first; the others come by how often they
// fail. The number is how many they are.
func (p Peers) Alike() (iter.Seq[Peer], int) {
	n := len(p.look.alike) + 1
	if h := p.look.by[p.uid]; h != nil && h.Same {
		n--
	}
	return func(yield func(Peer) bool) {
		if !yield(p.own) {
			return
		}
		for _, h := range p.look.alike {
			if h.uid != p.uid && !yield(h.Peer) {
				return
			}
		}
	}, n
}

// Others returns the Services that fail for another reason, those first that fail most often, and how many they are.
func (p Peers) Others() (iter.Seq[Peer], int) {
	n := len(p.look.others)
	if h := p.look.by[p.uid]; h != nil && h.Fails && !h.Same {
		n--
	}
	return func(yield func(Peer) bool) {
		for _, h := range p.look.others {
			if h.uid != p.uid && !yield(h.Peer) {
				return
			}
		}
	}, n
}

// Busiest returns the Services whose syncs the Events count, the case's own among them, those first that have most,
// and how many they are.
func (p Peers) Busiest() (iter.Seq[Peer], int) {
	return func(yield func(Peer) bool) {
		for _, h := range p.look.busiest {
			shown := h.Peer
			if h.uid == p.uid {
				shown = p.own
			}
			if !yield(shown) {
				return
			}
		}
	}, len(p.look.busiest)
}

// A roll is what one look has read, in the orders in which it is asked for. It is not changed any more.
type roll struct {
	by                     map[string]*history // by UID
	alike, others, busiest []*history
}

// newRoll sorts what was read.
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

// seenBy returns the peers of a Service that fails.
func (r *roll) seenBy(namespace, name, uid string) Peers {
	p := Peers{own: Peer{Namespace: namespace, Name: name}, uid: uid, look: r}
	if h := r.by[uid]; h != nil {
		p.own = h.Peer
	}
	p.own.Fails, p.own.Same = true, true
	return p
}

// A Crowd keeps for a moment which Services have Events of syncs, and which release the controller is: an account-wide cause has all
// of them ask the same, and each answer is as long as they are many. Its methods may be called side by side. Nil
// keeps nothing.
type Crowd struct {
	keep time.Duration

	mu    sync.Mutex
	looks map[string]*crowdLook // by class

	releases sync.Mutex // one look reads it for the others
	release  ccm.Version
	until    time.Time // for how long release is given again
}

// sameRelease is for how long the version of the controller is taken for what it was: an upgrade takes longer.
const sameRelease = 30 * time.Second

// Release returns the version of the cluster's controller, half a minute old at the most; zero if it cannot be determined. It needs
// ccm.ControllerReads.
func (w *Crowd) Release(ctx context.Context, c *ccm.View) (ccm.Version, error) {
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

// A crowdLook is one look for a class.
type crowdLook struct {
	until time.Time     // for how long it is given again; zero: it goes on
	done  chan struct{} // closed when what follows holds
	roll  *roll
	reads []event.Read // that it took
	whole bool         // the roll is for others, too
}

// dear is how many times as long as it took a look is kept at the least: of a large cluster's time, a tenth
// goes into it at most.
const dear = 10

// NewCrowd returns a Crowd that keeps what it has read for so long, and longer where that took long.
func NewCrowd(keep time.Duration) *Crowd { return &Crowd{keep: keep, looks: map[string]*crowdLook{}} }

// of returns who has Events of syncs.
func (w *Crowd) of(ctx context.Context, c *Case) (*roll, error) {
	if w == nil {
		r, _, err := c.crowd(ctx)
		return r, err
	}
	w.mu.Lock()
	l := w.looks[c.Remedy.Class]
	mine := l == nil || !l.until.IsZero() && time.Now().After(l.until)
	if mine {
		l = &crowdLook{done: make(chan struct{})}
		w.looks[c.Remedy.Class] = l
	}
	w.mu.Unlock()
	if mine {
		return w.look(ctx, c, l)
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("list the Events of Services: %w", ctx.Err())
	}
	if !l.whole {
		r, _, err := c.crowd(ctx)
		return r, err
	}
	for _, r := range l.reads {
		event.TellAgain(ctx, r)
	}
	return l.roll, nil
}

// look reads for the case in hand and for those that wait.
func (w *Crowd) look(ctx context.Context, c *Case, l *crowdLook) (r *roll, err error) {
	began := time.Now()
	defer func() {
		w.mu.Lock()
		if l.until = time.Now().Add(max(w.keep, dear*time.Since(began))); !l.whole && w.looks[c.Remedy.Class] == l {
			delete(w.looks, c.Remedy.Class)
		}
		w.mu.Unlock()
		close(l.done)
	}()
	var told sync.Mutex
	reading := event.WithReads(ctx, func(r event.Read) {
		told.Lock()
		defer told.Unlock()
		l.reads = append(l.reads, r)
		event.TellAgain(ctx, r)
	})
	l.roll, l.whole, err = c.crowd(reading)
	return l.roll, err
}

// crowd reads who has Events of syncs. whole says that those which have gone or have been synced since are
// sorted out: not where the case's own Service is the only one, which needs no other list.
func (c *Case) crowd(ctx context.Context) (_ *roll, whole bool, err error) {
	seen := map[string]*history{}
	row := event.NewClassifier([]event.Row{{Class: c.Remedy.Class, Codes: c.Remedy.Codes, Texts: c.Remedy.Texts}})
	var known map[string]bool // the UIDs of the Services; nil: they are not read yet
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
	// Events outlive what they are about, and some are dropped. Of many Services, whole ones would take much memory.
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

// mostUnknown is how many Services Events may name before it is asked which of these there are: whoever may create Events
// makes up as many as he likes.
const mostUnknown = 10_000

// existing returns the UIDs of the Services.
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

// What an Event says about a sync.
type sign int

const (
	noSign sign = iota // it is about something else
	failed
	good
	cleaned // the Service is the controller's no more
)

// signOf returns what the Event says about a sync. class is what the classifier
// makes of it.
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

// ended reports whether Events with this reason, those that are watched, tell of a sync that
// has ended early: SyncLoadBalancerFailed, FailedAddHash.
func ended(reason string) bool {
	return strings.HasSuffix(reason, "Failed") || strings.HasPrefix(reason, "Failed")
}

// A history is a peer while its Events are read.
type history struct {
	Peer
	uid     string
	last    time.Time // of its newest Event
	version string
}

// syncs returns how many syncs its Events count.
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

// named is how many Services a sentence names.
const named = 5

// Together says which of the peers fail like the case's own Service.
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

// List returns the words with commas between, no more than limit of them, and how
// many more there are.
func List(words []string, limit int) string { return say.List(words, limit).String() }
