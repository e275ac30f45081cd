package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/sim"
)

// snapshots returns the kept snapshots of the rig's Service, each with whether the journal held an intent by then.
func (r *rig) snapshots() (kept []hand.Snapshot, intents []bool) {
	r.Helper()
	subject := event.KeptSubject(r.env.Cluster, string(r.svc.UID), class)
	r.must(r.env.Stream.Each(r.Context(), stream.Cases, subject, time.Time{}, func(m stream.Message) error {
		s, err := hand.ReadSnapshot(m.Data)
		kept = append(kept, s)
		intent := false
		r.must(r.env.Stream.Each(r.Context(), stream.Cases, event.CaseFilter(r.env.Cluster, string(r.svc.UID)), time.Time{}, func(at stream.Message) error {
			if at.Sequence < m.Sequence && strings.Contains(string(at.Data), `"phase":"intent"`) {
				intent = true
			}
			return nil
		}))
		intents = append(intents, intent)
		return err
	}))
	return kept, intents
}

// Before a medium or high step the journal keeps the load balancer, its listeners, and its groups with backends.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	for risk, want := range map[remedy.Risk]int{remedy.Low: 0, remedy.Medium: 1, remedy.High: 1} {
		r := build(t)
		r.cloud.Edit(func(s *sim.State) {
			lb := s.LoadBalancers[r.lb]
			lb.VGroups = []sim.VGroup{{ID: "rsp-1", Name: "g", Backends: []sim.Backend{{Server: "i-1", Type: "ecs", Port: 30080, Weight: new(int)}}}}
			lb.Listeners = []sim.Listener{{Port: 80, Protocol: "tcp", VGroup: "rsp-1", Status: "running"}}
		})
		r.steps = []remedy.Step{act{Name: "1", How: risk, At: "slb/" + r.lb, Annotate: set(key, "new", "old")}}
		r.on("after 1", r.syncs)
		rec := r.run()
		kept, intents := r.snapshots()
		if len(kept) != want {
			t.Fatalf("%s risk: %d snapshots, want %d", risk, len(kept), want)
		}
		if want == 0 {
			continue
		}
		got := kept[0]
		if got.Case != rec.Case || got.Attempt != 1 || got.Service != rec.Service || got.At.IsZero() || intents[0] {
			t.Errorf("%s risk: %+v, after the intent: %t", risk, got, intents[0])
		}
		if len(got.Balancers) != 1 || got.Balancers[0].CLB == nil {
			t.Fatalf("%s risk: %+v", risk, got.Balancers)
		}
		lb := got.Balancers[0]
		if lb.ID != r.lb || lb.CLB.Address != "192.168.0.9" || len(lb.Listeners) != 1 || lb.Listeners[0].VServerGroup != "rsp-1" {
			t.Errorf("%s risk: %+v", risk, lb)
		}
		want := []cloud.Backend{{ID: "i-1", Type: "ecs", Port: 30080, VPC: "vpc-1"}}
		if len(lb.Groups) != 1 || len(lb.Groups[0].Listeners) != 1 || cmp.Diff(want, lb.Groups[0].Backends) != "" {
			t.Errorf("%s risk: the groups are %+v", risk, lb.Groups)
		}
	}
}

func TestSnapshotOfNLB(t *testing.T) {
	t.Parallel()
	nlb := "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id"
	class := ccm.NLBClass
	r := build(t, func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass = &class
		svc.Annotations[nlb] = "nlb-1"
	})
	r.cloud.Edit(func(s *sim.State) {
		s.NLBs["nlb-1"] = &sim.NLB{ID: "nlb-1", DNSName: "nlb-1.cn-hangzhou.nlb.aliyuncs.com", AddressType: "Intranet", Status: "Active",
			Listeners: []sim.NLBListener{{ID: "lsn-1", Port: 80, Protocol: "TCP", ServerGroup: "sgp-1", Status: "Running"}}}
		s.ServerGroups["sgp-1"] = &sim.ServerGroup{ID: "sgp-1", Name: "g", Protocol: "TCP", Status: "Available",
			Servers: []sim.Server{{ID: "i-1", Port: 30080}}}
	})
	r.steps = []remedy.Step{act{Name: "1", How: remedy.High, Annotate: set(key, "new", "old")}}
	r.on("after 1", r.syncs)
	r.run()
	kept, _ := r.snapshots()
	if len(kept) != 1 || len(kept[0].Balancers) != 1 || kept[0].Balancers[0].NLB == nil {
		t.Fatalf("kept %+v", kept)
	}
	if lb := kept[0].Balancers[0]; len(lb.NetworkListeners) != 1 || len(lb.Servers["sgp-1"]) != 1 || lb.Servers["sgp-1"][0].ID != "i-1" {
		t.Errorf("kept %+v", lb)
	}
}

func TestNoSnapshotNoWrite(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"DescribeLoadBalancers", "DescribeLoadBalancerAttribute", "DescribeLoadBalancerListeners", "DescribeVServerGroups",
		"DescribeVServerGroupAttribute", "ListTagResources"} {
		r := build(t)
		r.cloud.Edit(func(s *sim.State) { s.LoadBalancers[r.lb].VGroups = []sim.VGroup{{ID: "rsp-1", Name: "g"}} })
		r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, At: "slb/" + r.lb, Annotate: set(key, "new", "old")}}
		heal := r.cloud.Fault(sim.Fault{Product: "slb", Action: action, Status: 403, Code: "NoPermission"})
		r.fails("take a snapshot before the write: ")
		r.wrote(0)
		for _, rec := range r.journal() {
			if rec.Phase == event.Intent {
				t.Errorf("with %s failing there is an intent", action)
			}
		}
		heal()
		r.on("after 1", r.syncs)
		r.advance(time.Minute)
		r.env.Watch = long
		r.ends(event.Fixed)
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, At: "slb/lb-none", Annotate: set(key, "new", "old")}}
	r.run()
	kept, _ := r.snapshots()
	if len(kept) != 1 || cmp.Diff([]ccm.BalancerState{{ID: "lb-none", Gone: true}}, kept[0].Balancers) != "" {
		t.Errorf("kept %+v", kept)
	}
	if _, err := hand.ReadSnapshot([]byte("no snapshot")); err == nil || !strings.Contains(err.Error(), "read a snapshot") {
		t.Errorf("got %v", err)
	}
	if err := r.env.Stream.Snapshot(r.Context(), "c.1", "u", "x", nil, nil); err == nil || errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	clb, nlb := []grant.Grant{grant.DescribeLoadBalancerAttribute}, []grant.Grant{grant.GetNLB}
	low, high := []remedy.Step{step.Annotate{}}, []remedy.Step{step.Convert{}}
	for name, tt := range map[string]struct {
		remedy           remedy.Remedy
		classic, network bool
	}{
		"it asks only":                     {remedy.Remedy{Reads: ccm.DriftReads}, false, false},
		"it reads no load balancer":        {remedy.Remedy{Steps: low}, true, true},
		"a sync may raise its plans":       {remedy.Remedy{Steps: low, Reads: clb}, true, false},
		"a sync of NLBs may":               {remedy.Remedy{Steps: low, Reads: ccm.NetworkReads}, false, true},
		"a step is high, on CLBs":          {remedy.Remedy{Steps: high, Reads: clb}, true, false},
		"a step is high, on NLBs":          {remedy.Remedy{Steps: high, Reads: nlb}, false, true},
		"a step is high, on both":          {remedy.Remedy{Steps: high, Reads: append(clb, nlb...)}, true, true},
		"a step is high, and it reads nil": {remedy.Remedy{Steps: high}, true, true},
	} {
		var classic, network bool
		for _, g := range tt.remedy.Snapshots() {
			classic = classic || g == grant.DescribeVServerGroupAttribute
			network = network || g == grant.ListServerGroupServers
		}
		if classic != tt.classic || network != tt.network {
			t.Errorf("%s: of CLBs %t, of NLBs %t", name, classic, network)
		}
	}
}
