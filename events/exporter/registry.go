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
	registered  = 16384            // Services remembered: four megabytes
	registerFor = 10 * time.Minute // how long each is remembered
)

// A registry knows which Service a UID belongs to. An Event may carry the UID of another namespace's Service, and would replace its
// stored failure: namespace, name and UID must be those of one Service.
//
// A UID is never reused, and its Service keeps its name, so entries stay true. A missing Service is not remembered: it may just have been created.
type registry struct {
	read func(ctx context.Context, namespace, name, expected string) (uid string, err error)

	mu    sync.Mutex
	known map[string]registration // by UID
}

type registration struct {
	namespace, name string
	at              time.Time
}

type noObject struct{ says string }

func (s *noObject) Error() string { return s.says }

// proves returns noObject if namespace, name and UID are not those of one Service, another error if that can't be read now.
func (r *registry) proves(ctx context.Context, of kube.Object) error {
	if known, ok := r.get(of.UID); ok {
		if known.namespace == of.Namespace && known.name == of.Name {
			return nil
		}
		return &noObject{fmt.Sprintf("its UID is that of the Service %s/%s", known.namespace, known.name)}
	}
	uid, err := r.read(ctx, of.Namespace, of.Name, of.UID)
	switch {
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrInvalid):
		return &noObject{"this Service does not exist"}
	case err != nil:
		return err
	}
	r.put(uid, registration{of.Namespace, of.Name, time.Now()})
	if uid != of.UID {
		return &noObject{"the Service has another UID"}
	}
	return nil
}

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
	for other := range r.known { // any of them: map order will do
		if len(r.known) < registered {
			break
		}
		delete(r.known, other)
	}
	r.known[uid] = of
}

// A notice limits a log line to once an hour per key. When it becomes large, it forgets and repeats itself.
type notice struct {
	mu     sync.Mutex
	logged map[string]time.Time
}

const (
	notices    = 256
	noticeEach = time.Hour
)

func (n *notice) first(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.logged[key]; ok && time.Since(at) < noticeEach {
		return false
	}
	if n.logged == nil || len(n.logged) >= notices {
		n.logged = map[string]time.Time{}
	}
	n.logged[key] = time.Now()
	return true
}
