package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// again limits how many runs of this process repeat slow reads: if many runs made them slow, repeating all would make them slower still.
var again = make(chan struct{}, 8)

// diagnose finds out whether the failure still exists and asks the class what to do. ended means that the record's result is final.
func (x *run) diagnose(ctx context.Context) (plan remedy.Plan, ended bool, err error) {
	defer x.lap(&x.rec.Timings.Diagnose)
	end := func(r event.Result, finding say.Text) (remedy.Plan, bool, error) {
		x.rec.Result = r
		x.rec.Finding = finding
		return remedy.Plan{}, true, nil
	}
	asked := new(event.ReadList)
	defer func() { x.rec.Reads, x.stored = asked.End(), false }()
	for n := range 3 {
		if n == 1 {
			select {
			case again <- struct{}{}:
				defer func() { <-again }()
			case <-ctx.Done():
				return remedy.Plan{}, false, fmt.Errorf("wait to read again what took more than %g s: %w", fresh.Seconds(), context.Cause(ctx))
			}
		}
		asked.End()
		asked = new(event.ReadList)
		began, reading := x.env.Time(), event.WithReads(ctx, asked.Tell)
		l, err := x.gather(reading)
		if err != nil {
			return remedy.Plan{}, false, err
		}
		if len(l.over) > 0 {
			return end(event.Gone, l.over)
		}
		superseded := say.F("The newest failure of the Service belongs to another class: %s.", l.newer)
		if l.newer != "" && !x.r.IgnoresEvent {
			return end(event.Superseded, superseded)
		}
		if l.proven(x) {
			return end(x.over(reading), l.proof)
		}
		switch v := l.answer.Verdict; {
		case l.newer != "" && v != remedy.Yes:
			return end(event.Superseded, superseded)
		case v == remedy.No:
			proof, leaves := l.proof, ccm.Leaving(x.c.Service)
			switch {
			case len(proof) > 0:
			case len(leaves) > 0 && x.ev.Failure.Service.Kind == "":
				proof = say.F("The Service %s, and nothing of this failure is left to fix.", leaves)
			case x.ev.Failure.Reason == event.Precheck:
				proof = say.F("The cause of the failure is gone.")
			default:
				proof = say.F("The cause of the failure is gone. The controller retries automatically.")
			}
			return end(x.over(reading), proof)
		case v == remedy.Unknown:
			x.rec.Wait = 30 * time.Second
			return end(event.Waiting, say.F("It could not be determined whether the failure still exists."))
		}
		if plan, err = l.answer.Plan.Made(x.r, x.env.Decode); err != nil {
			return remedy.Plan{}, false, err
		}
		if len(plan.Steps) == 0 || x.env.Time().Sub(began) <= fresh {
			return plan, false, nil
		}
	}
	return remedy.Plan{}, false, errors.New("the reads before the plan took more than 5 s three times: what they say may be stale")
}

// over returns how a case ends whose failure is over: fixed after a write, or synced if it is unproven that traffic can flow.
func (x *run) over(ctx context.Context) event.Result {
	if !x.tried {
		return event.Gone
	}
	r, why, _ := x.traffic(ctx)
	x.rec.Note = x.rec.Note.Then(why)
	return r
}

// readService reads the Service, which has only its name and UID in a case about another object. over says why nothing is left to do for it.
func (x *run) readService(ctx context.Context) (over say.Text, err error) {
	ref := x.ev.Failure.Service
	if ref.Kind != "" {
		if over, err := x.readNode(ctx, ref); err != nil || len(over) > 0 {
			return over, err
		}
		x.c.Service = &corev1.Service{}
		x.c.Service.Name, x.c.Service.UID = ref.Name, types.UID(ref.UID)
		return nil, nil
	}
	svc, err := x.env.Kube.Service(ctx, ref.Namespace, ref.Name)
	if errors.Is(err, kube.ErrNotFound) {
		return say.F("The Service no longer exists."), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Service %s: %w", ref, err)
	}
	x.c.Service = svc
	if x.ev.Failure.Probe() {
		return say.F("This is a probe: it came through, nothing has failed, and nothing is done."), nil // for any kind of object
	}
	return x.c.Over(svc), nil
}

func (x *run) readNode(ctx context.Context, ref event.Service) (over say.Text, err error) {
	if ref.Kind != event.KindNode {
		return nil, nil
	}
	node, err := x.env.Kube.Node(ctx, ref.Name)
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return say.F("The node no longer exists."), nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", ref.Name, err)
	case string(node.UID) != ref.UID:
		return say.F("The node was deleted. Another one has its name now."), nil
	}
	return nil, nil
}

// readPlace reads the Service as readService does, and the labels of its namespace.
func (x *run) readPlace(ctx context.Context) (over say.Text, around map[string]string, err error) {
	if over, err = x.readService(ctx); err == nil {
		around, err = x.readNamespace(ctx)
	}
	return over, around, err
}

func (x *run) readNamespace(ctx context.Context) (map[string]string, error) {
	in := x.ev.Failure.Service.Namespace
	if in == "" {
		return nil, nil
	}
	ns, err := x.env.Kube.Namespace(ctx, in)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespace: %w", err)
	}
	return ns.Labels, nil
}

func (x *run) stand(around map[string]string) {
	x.around = around
	may := x.permission(x.c.Policy)
	x.rec.Mode, x.rec.Muted = string(may.Mode), may.Muted
}

func (x *run) permission(p remedy.Policy) remedy.Permission {
	return p.At(x.r.Class, remedy.Place{
		Cluster: x.env.Cluster, Namespace: x.c.Service.Namespace, Labels: x.c.Service.Labels, Around: x.around,
	})
}

// synced returns evidence that the Service has been synced since then. byEvent means that the evidence is an Event.
func (e *Env) synced(ctx context.Context, c *remedy.Case, since time.Time) (proof say.Text, byEvent bool, err error) {
	svc := c.Service
	if ccm.Quiet(c.Event.Reason) || !ccm.Synced(svc) && svc.Labels[ccm.HashLabel] == "" {
		return nil, false, nil // a successful sync proves nothing here, or none ever happened
	}
	// An Event carries its author's time, and the local clock may be behind. No failure can follow a success dated in the future.
	until := e.Time().Add(event.Skew)
	happened, err := e.Kube.Successes(ctx, svc.Namespace, string(svc.UID))
	if err != nil {
		return nil, false, fmt.Errorf("list the Service's events: %w", err)
	}
	if proof = ccm.SyncedBetween(svc, nil, since, until); len(proof) > 0 {
		return proof, false, nil
	}
	return ccm.SyncedBetween(svc, happened, since, until), true, nil
}

func (x *run) impact(ctx context.Context) event.Impact {
	switch {
	case x.c.Service == nil || x.ev.Failure.Service.Kind != "" || len(ccm.Leaving(x.c.Service)) > 0:
		return ""
	case !ccm.Synced(x.c.Service):
		return event.NeverUp
	}
	a, err := x.ask(ctx, hand.Flow, false)
	switch {
	case errors.Is(err, hand.ErrNotFound), err == nil && a.Flow.Ports == ccm.NoPorts:
		return event.Down
	case err == nil && a.Flow.Ports == ccm.SomePorts:
		return event.Partly
	case err == nil && a.Flow.Ports == ccm.AllPorts:
		return event.Frozen
	case err != nil:
		x.rec.Note = x.rec.Note.Then(say.F("Whether traffic can flow could not be checked: %s.", event.Redact(err.Error())))
	}
	return event.Unchecked
}
