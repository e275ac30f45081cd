package remedy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
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

// Peers returns the Services of the cluster that have Events of syncs, the
// case's own first, then those that fail most often. The counts are those of the
// controller's Events, of which it drops some where there are many.
func (c *Case) Peers(ctx context.Context) ([]Peer, error) {
	own := string(c.Service.UID)
	seen := map[string]*history{own: {Peer: Peer{Namespace: c.Service.Namespace, Name: c.Service.Name}}}
	row := event.NewClassifier([]event.Row{{Class: c.Remedy.Class, Codes: c.Remedy.Codes, Texts: c.Remedy.Texts}})
	_, err := c.Kube.ListEvents(ctx, kube.Selection{Fields: "involvedObject.kind=Service"}, func(e kube.Event) error {
		match := row.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message})
		kind := signOf(e, match.Class)
		if kind == noSign || e.Object.UID == "" {
			return nil
		}
		h := seen[e.Object.UID]
		if h == nil {
			h = &history{Peer: Peer{Namespace: e.Object.Namespace, Name: e.Object.Name}}
			seen[e.Object.UID] = h
		}
		h.add(e, kind, match.Class == c.Remedy.Class)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the Events of Services: %w", err)
	}
	seen[own].Fails, seen[own].Same = true, true
	if len(seen) == 1 {
		return []Peer{seen[own].Peer}, nil
	}
	// Events outlive what they are about, and some are dropped.
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	out := []Peer{seen[own].Peer}
	for i := range services {
		h := seen[string(services[i].UID)]
		if h == nil || string(services[i].UID) == own {
			continue
		}
		if ccm.HashWritten(&services[i]).After(h.last) {
			h.Fails, h.Same = false, false
		}
		out = append(out, h.Peer)
	}
	slices.SortFunc(out[1:], func(a, b Peer) int {
		return cmp.Or(-cmp.Compare(a.Failed, b.Failed), -cmp.Compare(a.Good, b.Good), cmp.Compare(a.String(), b.String()))
	})
	return out, nil
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
	case e.Reason == "EnsuredLoadBalancer":
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
	last    time.Time // of its newest Event
	version string
}

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

// Together says which of the peers fail like the first of them.
func Together(peers []Peer) say.Text {
	var same []string
	for _, f := range peers {
		if f.Same {
			same = append(same, f.String())
		}
	}
	if len(same) < 2 {
		return say.F("According to the Events, no other Service of the cluster has this failure.")
	}
	return say.F("According to the Events, %d Services of the cluster have this failure: %s.", len(same), say.List(same, named))
}

// List returns the words with commas between, no more than limit of them, and how
// many more there are.
func List(words []string, limit int) string { return say.List(words, limit).String() }
