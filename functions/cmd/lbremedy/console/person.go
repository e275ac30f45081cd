package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/kube"
)

type person struct {
	kube *kube.Cluster // the cluster with this person's rights; nil: see why
	why  string

	mu   sync.Mutex
	user string                      // as the API server knows them; empty: not known yet
	may  map[string]right            // by namespace
	fell map[approval.Question]lapse // answers that could not be saved
}

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

type right struct {
	May bool
	Why string // why that is unknown
	at  time.Time
}

const (
	ruled  = time.Minute     // how long the API server's answer on a right is reused
	brief  = 2 * time.Second // timeout of that request
	unsaid = 10 * time.Minute
)

var errNoKind = errors.New("this cluster does not have the kind Approval: apply approvals.yaml of the release")

// right asks the API server if its last answer is older than a minute.
func (s *server) right(ctx context.Context, p *person, namespace string) right {
	if p.kube == nil {
		return right{Why: p.why}
	}
	p.mu.Lock()
	r, known := p.may[namespace]
	p.mu.Unlock()
	if known && s.p.Now().Sub(r.at) <= ruled {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, brief)
	defer cancel()
	may, err := p.kube.MayI(ctx, kube.Review{Namespace: namespace, Group: "lbremedy.io", Resource: "approvals", Verb: "create"})
	if err == nil && may { // the API server also allows kinds that it lacks
		if _, missing := p.kube.Approvals(ctx, namespace); errors.Is(missing, kube.ErrNotFound) {
			may, err = false, errNoKind
		}
	}
	if r = (right{May: may, at: s.p.Now()}); err != nil {
		r.Why = said(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.may[namespace] = r
	return r
}

// patience is the API server's timeout for a page.
const patience = 10 * time.Second

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

func personOf(r *http.Request) *person { return r.Context().Value(personKey{}).(*person) }
