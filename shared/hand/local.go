package hand

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Clients are the clients with which a process's local hands read and write. They are safe for concurrent use.
type Clients struct {
	Kube        *kube.Cluster
	KubeWriter  *kube.Writer
	Cloud       *cloud.Reader
	CloudWriter *cloud.Writer
	Decode      func(kind string, data []byte) (remedy.Step, error)
	Peers       *remedy.PeerCache // shared list of the Services that fail together; nil: not shared
	Log         *slog.Logger      // nil: discarded
}

// Hand returns the hand of a class, with the rights of the clients.
func (c *Clients) Hand(r *remedy.Remedy) Hand { return Local{remedy: r, with: c} }

// A Local is a hand in the engine's own process.
type Local struct {
	remedy *remedy.Remedy
	with   *Clients
}

// Look reads and asks the class.
func (l Local) Look(ctx context.Context, q LookRequest) (a LookAnswer, err error) {
	var asked event.ReadList
	ctx, cancel := context.WithCancel(event.WithReads(ctx, asked.Tell))
	defer cancel()
	err = l.caught(func() error { return l.look(ctx, q, &a) })
	a.Reads = asked.End()
	return a, problem(err)
}

// Apply makes a step.
func (l Local) Apply(ctx context.Context, o Order) (a ApplyAnswer, err error) {
	err = l.caught(func() error { return l.apply(ctx, o, &a) })
	return a, problem(err)
}

func (l Local) caught(do func() error) error {
	return Caught(l.remedy.Class, cmp.Or(l.with.Log, slog.New(slog.DiscardHandler)), do)
}

// begin returns the case of a call, as the class sees it, and the call's steps or their undo.
func (l Local) begin(of About, list []Step, undo bool) (*remedy.Case, []remedy.Step, error) {
	if of.Class != l.remedy.Class || of.Service == nil {
		return nil, nil, fmt.Errorf("this is the hand of class %s, and the call is for %q, or holds no Service: %w", l.remedy.Class, of.Class, ErrInvalid)
	}
	steps, err := made(l.remedy, l.with.Decode, list, undo)
	return &remedy.Case{
		View: ccm.View{Cluster: of.Failure.Cluster, Service: of.Service, Cloud: l.with.Cloud, Kube: l.with.Kube},
		ID:   of.Case, Attempt: of.Attempt, Event: of.Failure, Policy: remedy.Policy{Settings: of.Settings, Doctor: of.Doctor}, Now: of.Now,
		Remedy: l.remedy, PeerCache: l.with.Peers,
	}, steps, err
}

func made(r *remedy.Remedy, decode func(kind string, data []byte) (remedy.Step, error), list []Step, undo bool) ([]remedy.Step, error) {
	var steps []remedy.Step
	for _, data := range list {
		s, err := r.Step(decode, data.Kind, data.Step)
		if ok := true; err == nil && undo {
			if s, ok = s.Undo(); !ok {
				err = fmt.Errorf("the step %s can't be undone: %w", data.Kind, ErrInvalid)
			}
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func (l Local) look(ctx context.Context, q LookRequest, a *LookAnswer) error {
	c, steps, err := l.begin(q.About, q.Steps, q.Undo)
	if err != nil {
		return err
	}
	c.Idle, c.Taken = q.Idle, map[string]bool{}
	for _, key := range q.Held {
		c.Taken[key] = true
	}
	switch q.For {
	case Diagnose:
		return l.diagnose(ctx, c, q, a)
	case Check:
		if len(steps) == 0 {
			return fmt.Errorf("the look checks no step: %w", ErrInvalid)
		}
		a.State, a.Differs, err = stateOf(ctx, c, steps[0])
		return err
	case Compare:
		plan, err := c.Weigh(ctx, remedy.Plan{Steps: steps}, q.Made)
		if err == nil {
			a.Plan, err = planOf(plan)
		}
		return err
	case Backup:
		var targets []string
		for _, s := range steps {
			targets = append(targets, s.Target())
		}
		balancers, err := c.BalancerStates(ctx, targets)
		if err == nil {
			f := q.Failure
			a.Backup = &Snapshot{Case: q.Case, Cluster: f.Cluster, Class: q.Class, Service: f.Service, Attempt: q.Attempt, Balancers: balancers}
		}
		return err
	case Bars:
		a.Bars, err = c.Bars(ctx, steps)
		return err
	case Cause:
		a.Verdict, err = cause(ctx, c)
		return err
	case Prove:
		a.Verdict, err = prove(ctx, c)
		return err
	case Flow:
		a.Flow, err = flow(ctx, c)
		return err
	case Nothing:
		return nil
	}
	return fmt.Errorf("a look for %q is not known: %w", q.For, ErrInvalid)
}

func (l Local) diagnose(ctx context.Context, c *remedy.Case, q LookRequest, a *LookAnswer) error {
	if c.Cloud != nil {
		c.Cloud = c.Cloud.Session() // repeated reads of the look are made once
	}
	a.Verdict = remedy.Yes
	if l.remedy.StillFails != nil {
		var err error
		if a.Verdict, err = cause(ctx, c); err != nil {
			return err
		}
	}
	if a.Verdict != remedy.Yes {
		return nil
	}
	plan, err := l.remedy.Diagnose(ctx, c)
	if err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	if err := l.remedy.Check(plan); err != nil {
		return err
	}
	if plan, err = c.Weigh(ctx, c.RequireEvidence(plan), 0); err != nil {
		return err
	}
	a.Plan, err = planOf(plan)
	return err
}

func planOf(p remedy.Plan) (*Plan, error) {
	steps, err := Steps(p.Steps)
	p.Steps, p.Proven = nil, false // only the class's own hand uses Proven
	return &Plan{p, steps}, err
}

// Made returns the plan as one of a class, for any kind of hand.
func (p *Plan) Made(r *remedy.Remedy, decode func(kind string, data []byte) (remedy.Step, error)) (plan remedy.Plan, err error) {
	if p == nil {
		return plan, errors.New("the hand has made no plan")
	}
	plan = p.Plan
	if plan.Steps, err = made(r, decode, p.Steps, false); err != nil {
		return remedy.Plan{}, err
	}
	return plan, r.Check(plan)
}

// Steps returns steps as data.
func Steps(steps []remedy.Step) ([]Step, error) {
	var out []Step
	for _, s := range steps {
		data, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encode step %s: %w", s.Kind(), err)
		}
		out = append(out, Step{Kind: s.Kind(), Step: data})
	}
	return out, nil
}

// A Differ is a step that can describe its target when the target is neither as found nor as the step would leave it.
type Differ interface {
	Differs(*remedy.Case) string // as a sentence
}

func stateOf(ctx context.Context, c *remedy.Case, s remedy.Step) (State, string, error) {
	state, err := s.Check(ctx, c)
	switch {
	case err != nil:
		return "", "", err
	case state == remedy.Done:
		return Found, "", nil
	case state == remedy.Todo:
		return Todo, "", nil
	}
	if d, ok := s.(Differ); ok {
		return Moved, d.Differs(c), nil
	}
	return Moved, "", nil
}

func (l Local) apply(ctx context.Context, o Order, a *ApplyAnswer) error {
	began := time.Now()
	if !o.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Expires.Sub(o.Now))
		defer cancel()
	}
	c, steps, err := l.begin(o.About, []Step{o.Step}, o.Undo)
	if err != nil {
		return err
	}
	a.State = Todo
	if !o.Fresh {
		if a.State, a.Differs, err = stateOf(ctx, c, steps[0]); err != nil || a.State != Todo {
			return err
		}
	}
	var w remedy.Writers
	if o.Dry {
		w = remedy.Writers{Cloud: l.with.CloudWriter.Dry(), Kube: l.with.KubeWriter.Dry()}
	} else {
		onWrite := func(call event.Call) {
			call.At = o.Now.Add(time.Since(began))
			a.Calls = append(a.Calls, call)
		}
		w = remedy.Writers{Cloud: l.with.CloudWriter.OnWrite(onWrite), Kube: l.with.KubeWriter.OnWrite(onWrite)}
	}
	err = steps[0].Apply(ctx, c, &w)
	if c.Service != o.Service {
		a.Service = c.Service
	}
	if err == nil {
		a.State = Done
	}
	return err
}

// prove answers No if the address is the load balancer's and the class no longer finds its cause: marks alone can't show that.
func prove(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	svc := c.Service
	if id := svc.Labels[ccm.BalancerLabel]; id != "" && !ccm.NLB(svc) && ccm.OwnAddress(svc) {
		lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
		if errors.Is(err, cloud.ErrNotFound) {
			return remedy.Unknown, nil
		}
		if err != nil {
			return remedy.Unknown, fmt.Errorf("describe load balancer %s: %w", id, err)
		}
		if lb.Address != ccm.Address(svc) {
			return remedy.Unknown, nil
		}
	}
	return cause(ctx, c)
}

func cause(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	v, err := c.Remedy.StillFails(ctx, c)
	if err != nil {
		return remedy.Unknown, fmt.Errorf("ask whether it still fails: %w", err)
	}
	return v, nil
}

func flow(ctx context.Context, c *remedy.Case) (ccm.Flow, error) {
	flow, err := c.Flow(ctx)
	if err == nil && len(flow.Why) == 0 && c.Remedy.Backends {
		return c.Backed(ctx)
	}
	return flow, err
}
