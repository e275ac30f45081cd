package step_test

import (
	"errors"
	"testing"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestTagNetwork(t *testing.T) {
	t.Parallel()
	r := build(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}},
		NLBs: []sim.NLB{{ID: "nlb-1", AddressType: "Intranet", Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}}}, nil)
	tag := step.TagLB{LB: "nlb-1", Key: "k", Value: "v", Network: true}
	if tag.Target() != "nlb/nlb-1" {
		t.Errorf("the target is %s", tag.Target())
	}
	r.is(tag, remedy.Todo)
	r.does(tag)
	r.is(tag, remedy.Done)
	back, _ := tag.Undo()
	r.does(back)
	r.is(tag, remedy.Todo)
	r.does(step.TagLB{LB: "nlb-1", Key: "k", Value: "other", Network: true})
	r.is(tag, remedy.Conflict)
	if err := back.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
		t.Errorf("after somebody else's change: %v", err)
	}
}

func TestMoveListener(t *testing.T) {
	t.Parallel()
	r := build(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{
		ID: "lb-1", VGroups: []sim.VGroup{{ID: "rsp-old"}, {ID: "rsp-new"}, {ID: "rsp-other"}},
		Listeners: []sim.Listener{{Port: 80, Protocol: "tcp", VGroup: "rsp-old"}},
	}}}, nil)
	move := step.MoveListener{LB: "lb-1", Port: 80, Protocol: "tcp", Group: "rsp-new", Was: "rsp-old"}
	r.is(move, remedy.Todo)
	r.does(move)
	r.is(move, remedy.Done)
	back, ok := move.Undo()
	if !ok {
		t.Fatal("it can't be undone")
	}
	r.does(back)
	r.is(move, remedy.Todo)
	r.cloud.Edit(func(s *sim.State) { s.LoadBalancers["lb-1"].Listeners[0].VGroup = "rsp-other" })
	r.is(move, remedy.Conflict)
	if err := move.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
		t.Errorf("after somebody else's change: %v", err)
	}
	r.is(step.MoveListener{LB: "lb-1", Port: 81, Protocol: "tcp", Group: "rsp-new", Was: "rsp-old"}, remedy.Conflict)
}

// A listener is deleted only if it is as in the plan, and created again as it was.
func TestDeleteListener(t *testing.T) {
	t.Parallel()
	r := build(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{
		ID: "lb-1", VGroups: []sim.VGroup{{ID: "rsp-1"}},
		Listeners: []sim.Listener{{Port: 80, Protocol: "http", VGroup: "rsp-1", Scheduler: "wlc", Config: map[string]string{"StickySession": "off"}}},
	}}}, nil)
	list, err := r.c.Cloud.SLB.Listeners(t.Context(), "lb-1")
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	drop := step.DeleteListener{LB: "lb-1", Listener: list[0]}
	back, ok := drop.Undo()
	if !ok {
		t.Fatal("it can't be undone")
	}
	r.is(drop, remedy.Todo)
	r.is(back, remedy.Done)
	other := drop
	other.Listener.Scheduler = "rr"
	r.is(other, remedy.Conflict)
	if err := other.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
		t.Errorf("a listener with other settings: %v", err)
	}
	r.does(drop)
	r.does(drop) // it is gone: nothing to do
	r.is(drop, remedy.Done)
	r.does(back)
	r.is(drop, remedy.Todo)
	now, err := r.c.Cloud.SLB.Listeners(t.Context(), "lb-1")
	if err != nil || len(now) != 1 || now[0].Status != "running" || now[0].Config["StickySession"] != "off" || now[0].Scheduler != "wlc" {
		t.Errorf("came back as %+v, %v", now, err)
	}
	if again, _ := back.Undo(); again.Kind() != drop.Kind() {
		t.Errorf("the undo of the undo is %s", again.Kind())
	}
	for protocol, want := range map[string]remedy.State{"tcp": remedy.Conflict, "udp": remedy.Todo} { // only UDP shares a port
		l := list[0]
		l.Protocol = protocol
		r.is(step.CreateListener{LB: "lb-1", Listener: l}, want)
	}
	r.is(step.DeleteListener{LB: "lb-1", Listener: cloud.Listener{Port: 81, Protocol: "tcp"}}, remedy.Done)
}

// A listener that was created and not started is started, not created twice.
func TestStartListener(t *testing.T) {
	t.Parallel()
	r := build(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{
		ID: "lb-1", VGroups: []sim.VGroup{{ID: "rsp-1"}}, Listeners: []sim.Listener{{Port: 80, Protocol: "tcp", VGroup: "rsp-1"}},
	}}}, nil)
	list, err := r.c.Cloud.SLB.Listeners(t.Context(), "lb-1")
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	drop := step.DeleteListener{LB: "lb-1", Listener: list[0]}
	back, _ := drop.Undo()
	r.does(drop)
	r.cloud.Fault(sim.Fault{Product: "slb", Action: "StartLoadBalancerListener", Status: 500, Code: "InternalError", Count: 1})
	if err := back.Apply(t.Context(), r.c, r.w); err == nil {
		t.Fatal("that it was not started is no error")
	}
	r.is(back, remedy.Todo)
	r.does(back)
	r.is(back, remedy.Done)
	if now, err := r.c.Cloud.SLB.Listeners(t.Context(), "lb-1"); err != nil || len(now) != 1 || now[0].Status != "running" {
		t.Errorf("came back as %+v, %v", now, err)
	}
	stopped := list[0]
	stopped.Status = "stopped" // as in the plan: it stays so
	r.cloud.Edit(func(s *sim.State) { s.LoadBalancers["lb-1"].Listeners[0].Status = "stopped" })
	r.is(step.CreateListener{LB: "lb-1", Listener: stopped}, remedy.Done)
}

// Protection is turned off for good; a deleted load balancer needs nothing.
func TestUnprotect(t *testing.T) {
	t.Parallel()
	r := build(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}}, LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", DeleteProtection: true}},
		NLBs: []sim.NLB{{ID: "nlb-1", AddressType: "Intranet", DeletionProtection: true, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}}}, nil)
	for _, free := range []step.Unprotect{{LB: "lb-1"}, {LB: "nlb-1", Network: true}} {
		r.is(free, remedy.Todo)
		r.does(free)
		r.is(free, remedy.Done)
		r.does(free)
		if back, ok := free.Undo(); ok {
			t.Errorf("%s has the way back %v", free.LB, back)
		}
		r.is(step.Unprotect{LB: free.LB + "-gone", Network: free.Network}, remedy.Done)
	}
}

func TestProtect(t *testing.T) {
	t.Parallel()
	r := build(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}}, NLBs: []sim.NLB{{ID: "nlb-1", AddressType: "Intranet",
		ModificationProtection: sim.Protection{Status: "ConsoleProtection", Reason: "managed.by.ack"}, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}}}, nil)
	before := r.cloud.Snapshot().NLBs
	keep := step.Protect{LB: "nlb-1"}
	back := r.undo(keep)
	r.is(keep, remedy.Todo)
	r.is(back, remedy.Done)
	for range 2 {
		r.does(keep)
		r.is(keep, remedy.Done)
		r.is(back, remedy.Todo)
	}
	n := 0
	for _, call := range r.cloud.CallsOf("step") {
		if call.Action == "UpdateLoadBalancerProtection" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("it was turned on %d times", n)
	}
	r.does(back)
	r.is(keep, remedy.Todo)
	equal(t, r.cloud.Snapshot().NLBs, before)
	gone := step.Protect{LB: "nlb-gone"}
	if _, err := gone.Check(t.Context(), r.c); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("of one that is gone: %v", err)
	}
	if err := gone.Apply(t.Context(), r.c, r.w); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("of one that is gone: %v", err)
	}
}

func TestRestorable(t *testing.T) {
	for _, tt := range []struct {
		l    cloud.Listener
		want bool
	}{
		{cloud.Listener{Protocol: "tcp", Status: "running"}, true},
		{cloud.Listener{Protocol: "udp", Status: "stopped"}, true},
		{cloud.Listener{Protocol: "tcp", Status: "starting"}, false},
		{cloud.Listener{Protocol: "tcp", Status: "running", Partial: true}, false},
		{cloud.Listener{Protocol: "https", Status: "running"}, false},
	} {
		if got := step.Restorable(tt.l); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.l, got, tt.want)
		}
	}
}
