package engine_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/sim"
)

// The impact on users follows from the present address, listeners and backends, and is unknown if these can't be read.
func TestImpact(t *testing.T) {
	t.Parallel()
	two := func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}
	}
	bound := func(r *rig) { r.sync("h0", "192.168.0.9") }
	running := func(r *rig) {
		r.cloud.Edit(func(s *sim.State) { s.LoadBalancers[r.lb].Listeners[0].Status = "running" })
	}
	for name, tt := range map[string]struct {
		edit []func(*corev1.Service)
		set  []func(*rig)
		want event.Impact
	}{
		"no address":       {want: event.NeverUp},
		"a listener runs":  {set: []func(*rig){bound, running}, want: event.Frozen},
		"one of two ports": {edit: []func(*corev1.Service){two}, set: []func(*rig){bound, running}, want: event.Partly},
		"the listener is stopped": {set: []func(*rig){bound, func(r *rig) {
			r.cloud.Edit(func(s *sim.State) { s.LoadBalancers[r.lb].Listeners[0].Status = "stopped" })
		}}, want: event.Down},
		"the load balancer is gone": {set: []func(*rig){bound, func(r *rig) { r.cloud.Edit(func(s *sim.State) { delete(s.LoadBalancers, r.lb) }) }},
			want: event.Down},
		"the cloud does not answer": {set: []func(*rig){bound, running, func(r *rig) {
			r.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Status: http.StatusForbidden, Code: "Forbidden.RAM"})
		}}, want: event.Unchecked},
		"no label names the load balancer": {set: []func(*rig){bound, running, func(r *rig) {
			r.patch("", `{"metadata":{"labels":{"service.k8s.alibaba/loadbalancer-id":null}}}`)
		}}, want: event.Unchecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t, tt.edit...)
			for _, set := range tt.set {
				set(r)
			}
			r.event = r.failure(class, r.now().Add(30*time.Second))
			r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
				return remedy.Plan{Finding: say.F("It is old."), Ask: say.F("Do it.")}, nil
			}
			if rec, err := engine.Look(t.Context(), r.env, r.class, r.event); err != nil || rec.Impact != tt.want {
				t.Errorf("a look says %q, %v", rec.Impact, err)
			}
			if rec := r.ends(event.Asked); rec.Impact != tt.want {
				t.Errorf("the record says %q", rec.Impact)
			}
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.No, nil }
			r.event = r.failure(class, r.now().Add(time.Minute))
			if rec := r.ends(event.Gone); rec.Impact != "" {
				t.Errorf("of a failure that is over, the record says %q", rec.Impact)
			}
		})
	}
}
