package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/kube"
)

const (
	registered  = 16384            // Services that are remembered: four megabytes
	registerFor = 10 * time.Minute // how long one is remembered
)

// A registry knows of which Service a UID is. Whoever may create Events in one namespace
// can write the UID of another namespace's Service into them, and a failure takes the
// place of the one that is kept for its UID: so namespace, name and UID must be of one
// Service before it is published.
//
// A UID is given once and its Service keeps namespace and name, so that what is known
// stays true. That there is no such Service is asked each time: it may have just been made.
type registry struct {
	read func(ctx context.Context, namespace, name, expected string) (uid string, err error)

	mu    sync.Mutex
	known map[string]registration // by UID
}

type registration struct {
	namespace, name string
	at              time.Time
}

// A stranger is the error of an Event that is about no object that there is.
type stranger struct{ says string }

func (s *stranger) Error() string { return s.says }

// proves returns nil if namespace, name and UID are of one Service, a stranger if they
// are not, and another error if that can't be read now.
func (r *registry) proves(ctx context.Context, of kube.Object) error {
	if known, ok := r.get(of.UID); ok {
		if known.namespace == of.Namespace && known.name == of.Name {
			return nil
		}
		return &stranger{fmt.Sprintf("its UID is that of the Service %s/%s", known.namespace, known.name)}
	}
	uid, err := r.read(ctx, of.Namespace, of.Name, of.UID)
	switch {
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrInvalid):
		return &stranger{"there is no such Service"}
	case err != nil:
		return err
	}
	r.put(uid, registration{of.Namespace, of.Name, time.Now()})
	if uid != of.UID {
		return &stranger{"the Service has another UID"}
	}
	return nil
}

// met takes in that there is a Service.
func (r *registry) met(o kube.Object) { r.put(o.UID, registration{o.Namespace, o.Name, time.Now()}) }

func (r *registry) get(uid string) (registration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[uid]
	if ok && time.Since(known.at) > registerFor {
		delete(r.known, uid)
		ok = false
	}
	return known, ok
}

func (r *registry) put(uid string, of registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]registration{}
	}
	for other := range r.known { // any of them: the map's order is as good as another
		if len(r.known) < registered {
			break
		}
		delete(r.known, other)
	}
	r.known[uid] = of
}

// A notice keeps what is told once from being told with each Event. It forgets when it
// has become large, and says it once more then.
type notice struct {
	mu   sync.Mutex
	told map[string]time.Time
}

const (
	notices    = 256
	noticeEach = time.Hour
)

// first reports whether the key was not told within the last hour.
func (n *notice) first(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.told[key]; ok && time.Since(at) < noticeEach {
		return false
	}
	if n.told == nil || len(n.told) >= notices {
		n.told = map[string]time.Time{}
	}
	n.told[key] = time.Now()
	return true
}
