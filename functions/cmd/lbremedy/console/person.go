package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// A person looks at the pages, and answers in their own name.
type person struct {
	kube *kube.Cluster // the cluster as this person may use it; nil: why says why there is none
	why  string

	mu   sync.Mutex
	user string                      // as the API server knows them; empty: it has not said yet
	may  map[string]right            // by namespace
	fell map[approval.Question]lapse // answers that did not come about
}

// A lapse is why an answer did not come about.
type lapse struct {
	at  time.Time
	why error
}

func newPerson(c *kube.Cluster, user string, err error) *person {
	p := &person{kube: c, user: user, may: map[string]right{}, fell: map[approval.Question]lapse{}}
	if err != nil {
		p.kube, p.why = nil, said(err)
	}
	return p
}

// A right is whether a person may answer what is asked about the Services of a namespace.
type right struct {
	Known, May bool
	Why        string // it can't be found out
	at         time.Time
	asked      bool // the API server is being asked
}

const (
	ruled  = time.Minute // for how long the API server's word on a right is taken
	unsaid = 10 * time.Minute
)

// A wish is a right that has to be found out.
type wish struct {
	person    *person
	namespace string
}

// right returns what is known of a person's right in a namespace, and has it asked for where
// that is nothing, or old. Pages don't wait for it.
func (s *server) right(p *person, namespace string) right {
	if p.kube == nil {
		return right{Known: true, Why: p.why}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.may[namespace]
	if !r.asked && s.p.Now().Sub(r.at) > ruled {
		select {
		case s.wishes <- wish{p, namespace}:
			r.asked = true
			p.may[namespace] = r
		default: // it is asked for with the next page
		}
	}
	return r
}

// find asks the API server for rights until ctx ends.
func (s *server) find(ctx context.Context) {
	for {
		var w wish
		select {
		case <-ctx.Done():
			return
		case w = <-s.wishes:
		}
		inner, cancel := context.WithTimeout(ctx, patience)
		may, err := w.person.kube.MayI(inner, kube.Review{Namespace: w.namespace, Group: "lbremedy.io", Resource: "approvals", Verb: "create"})
		cancel()
		now := right{Known: true, May: may, at: s.p.Now()}
		if err != nil {
			now.Why = said(err)
		}
		w.person.mu.Lock()
		was := w.person.may[w.namespace]
		w.person.may[w.namespace] = now
		w.person.mu.Unlock()
		if was.Known != now.Known || was.May != now.May || was.Why != now.Why {
			s.hub.change()
		}
	}
}

// patience is how long the API server may take for a page.
const patience = 10 * time.Second

// name returns by which name the API server knows the person; empty if it can't say.
func (p *person) name(ctx context.Context) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.user == "" && p.kube != nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if me, err := p.kube.Me(ctx); err == nil {
			p.user = me.Name
		}
	}
	return p.user
}

// miss keeps why an answer did not come about, until somebody gives another one.
func (p *person) miss(about approval.Question, why error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one, d := range p.fell {
		if now.Sub(d.at) > unsaid {
			delete(p.fell, one)
		}
	}
	if p.fell[about] = (lapse{now, why}); why == nil {
		delete(p.fell, about)
	}
}

func (p *person) missed(about approval.Question) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fell[about].why
}

type personKey struct{}

// personOf returns who asks.
func personOf(r *http.Request) *person { return r.Context().Value(personKey{}).(*person) }
