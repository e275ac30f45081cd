package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/test/sim"
)

var zones = map[string]string{"zone-maps": "cn-hangzhou-h:vsw-1"}

func network(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("alibabacloud.com/nlb") }

func (r *rig) nlb(id string) *sim.NLB {
	w := r.cloud.Snapshot()
	if i := slices.IndexFunc(w.NLBs, func(n sim.NLB) bool { return n.ID == id }); i >= 0 {
		return &w.NLBs[i]
	}
	return nil
}

func TestNLBFirstSync(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{Lag: sim.Lag{Jobs: sim.Duration(20 * time.Millisecond)}}, 1, func(r *rig) { r.opts.Speed = 200 })
	made := r.service("web", zones, network)
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	e := r.saw("web", "Normal EnsuredLoadBalancer Ensured load balancer ["+id+"]")
	lb, groups := r.nlb(id), r.cloud.Snapshot().ServerGroups
	name, port := ownName(made), made.Spec.Ports[0].NodePort
	group := fmt.Sprintf("k8s.%d.TCP.web.%s.%s", port, r.ns, clusterID)
	tags := map[string]string{"kubernetes.do.not.delete": name, "ack.aliyun.com": clusterID}
	got := map[string]any{
		"component": e.Source.Component, "name": lb.Name, "tags": lb.Tags, "type": lb.AddressType, "protected": lb.DeletionProtection, "zone": lb.Zones[0].VSwitch,
		"modification": lb.ModificationProtection.Reason, "ingress": svc.Status.LoadBalancer.Ingress[0], "finalizers": svc.Finalizers,
		"group": groups[0].Name, "group tags": groups[0].Tags, "server": groups[0].Servers[0].ID, "server type": groups[0].Servers[0].Type,
		"server port": groups[0].Servers[0].Port, "server description": groups[0].Servers[0].Description,
		"listener": lb.Listeners[0].Description, "listener group": lb.Listeners[0].ServerGroup, "listener status": lb.Listeners[0].Status,
	}
	want := map[string]any{
		"component": "nlb-controller", "name": name, "tags": tags, "type": "Internet", "protected": true, "zone": "vsw-1",
		"modification": "managed.by.ack", "ingress": corev1.LoadBalancerIngress{Hostname: lb.DNSName}, "finalizers": []string{"service.k8s.alibaba/nlb"},
		"group": group, "group tags": tags, "server": "i-1", "server type": "Ecs",
		"server port": int(port), "server description": group,
		"listener": fmt.Sprintf("k8s.80.TCP.web.%s.%s", r.ns, clusterID), "listener group": groups[0].ID, "listener status": "Running",
	}
	ingress := cmp.Comparer(func(a, b corev1.LoadBalancerIngress) bool { return a.Hostname == b.Hostname && a.IP == b.IP })
	if diff := cmp.Diff(want, got, ingress); diff != "" {
		t.Error(diff)
	}

	r.cloud.ResetCalls()
	r.node(r.ns+"-2", "i-2")
	r.ensured("web", 2)
	if groups := r.cloud.Snapshot().ServerGroups; len(groups[0].Servers) != 2 {
		t.Errorf("servers %+v", groups[0].Servers)
	}
	for _, a := range r.actions() {
		if strings.Contains(a, "Listener") || strings.HasPrefix(a, "Update") {
			t.Errorf("a change of backends led to %s", a)
		}
	}
}

// TestNLBFails tests failures of a first sync against the recorded Events of a real v2.14.0.
func TestNLBFails(t *testing.T) {
	for _, c := range []struct {
		name, version string
		world         sim.World
		annotations   map[string]string
		arrange       func(*rig)
		want          string
	}{{
		name: "no zones",
		want: "[]: build lb local model error: build nlb attribute error: ParameterMissing, zone mappings are required",
	}, {
		name: "bad zones", annotations: map[string]string{"zone-maps": "cn-hangzhou-h"},
		want: "[]: build lb local model error: build nlb attribute error: ZoneMapping format error, expect [zone-a:vsw-id-1,zone-b:vsw-id-2], got cn-hangzhou-h",
	}, {
		name: "no permission to read", annotations: zones, arrange: func(r *rig) { r.cloud.Revoke("ccm", "nlb:ListLoadBalancers") },
		want: "[]: Message: code: 403, Authentication is failed for NoPermission. ",
	}, {
		name: "no permission to create", annotations: zones, arrange: func(r *rig) {
			r.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", Code: "NoPermission", Status: 403,
				Message: "You are not authorized to do this action. You should be authorized by RAM."})
		},
		want: "[]: Message: code: 403, You are not authorized to do this action. You should be authorized by RAM. ",
	}, {
		name: "vSwitch full", annotations: zones, world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}}},
		want: "[]: Message: code: 400, The specified resource of VSwitchIp is not enough. ",
	}, {
		name: "vSwitch missing", annotations: map[string]string{"zone-maps": "cn-hangzhou-h:vsw-nope"},
		want: "[]: Message: code: 404, The specified resource of vSwitch is not found. ",
	}, {
		name: "unpaid bill", annotations: zones, world: sim.World{Account: sim.Account{Arrearage: true}},
		want: "[]: Message: code: 400, The operation failed because of UnpaidBill. ",
	}, {
		name: "too little money", annotations: zones, world: sim.World{Account: sim.Account{Balance: "99.99"}},
		want: "[]: Message: code: 400, Operation failed because CreateOrderError. ",
	}, {
		name: "access key deleted", annotations: zones, arrange: func(r *rig) {
			r.cloud.Edit(func(s *sim.State) { clear(s.Callers) })
		},
		want: "[]: Message: code: 404, Specified access key is not found. ",
	}, {
		name: "port taken", annotations: map[string]string{"id": "nlb-1", "force-override-listeners": "true"},
		world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Listeners: []sim.NLBListener{{Port: 80, Protocol: "TCPSSL"}}}}},
		want:  "[nlb-1]: Message: code: 400, The Port [80] is conflict. ",
	}, {
		name: "throttled", annotations: zones, arrange: func(r *rig) { r.cloud.Fault(sim.Fault{Action: "ListLoadBalancers", Code: "Throttling.User"}) },
		want: "[]: Message: code: 400, Request was denied due to api flow control. ",
	}, {
		name: "no such load balancer", annotations: map[string]string{"id": "nlb-nope"},
		want: "[nlb-nope]: Message: code: 404, The specified resource of loadbalancer is not found. ",
	}, {
		name: "no role", annotations: zones, world: sim.World{RAM: sim.RAM{NoServiceRoles: true}},
		want: "[]: Message: code: 400, The operation is not allowed because of ServiceLinkedRoleNotExist. ",
	}, {
		name: "quota", annotations: zones, world: sim.World{Quotas: []sim.Quota{{Product: "nlb", Name: "nlb_quota_loadbalancers_num", Total: 1}},
			NLBs: []sim.NLB{{ID: "nlb-1"}}},
		want: "[]: Message: code: 400, The quota of nlb_quota_loadbalancers_num is exceeded, usage 1/1. ",
	}, {
		name: "of another Service", annotations: map[string]string{"id": "nlb-1"},
		world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}},
		want:  "[nlb-1]: apply model error: update nlb attribute error: the loadbalancer nlb-1 can not be reused, can not reuse loadbalancer created by kubernetes.",
	}, {
		name: "of another Service, v2.9", version: "v2.9.1", annotations: map[string]string{"id": "nlb-1"},
		world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}},
		want:  "[]: apply model error: update nlb attribute error: the loadbalancer nlb-1 can not be reused, can not reuse loadbalancer created by kubernetes.",
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &c.world, 1, func(r *rig) {
				r.opts.Version, r.opts.Speed = c.version, 200
				if c.arrange != nil {
					c.arrange(r)
				}
			})
			r.service("web", c.annotations, network)
			if e := r.saw("web", failed+"Error syncing load balancer "+c.want); e.Source.Component != "nlb-controller" {
				t.Errorf("component %s", e.Source.Component)
			}
			if svc := r.get("web"); len(svc.Labels) > 0 || len(svc.Status.LoadBalancer.Ingress) > 0 ||
				!slices.Equal(svc.Finalizers, []string{"service.k8s.alibaba/nlb"}) {
				t.Errorf("left labels %v, finalizers %v", svc.Labels, svc.Finalizers)
			}
			if c.name == "throttled" {
				if n := len(r.actions()); n != 10 {
					t.Errorf("%d calls, want one and nine retries", n)
				}
			}
		})
	}
}

func TestNLBLater(t *testing.T) {
	for _, c := range []struct {
		name   string
		world  sim.World
		before map[string]string
		breaks func(*rig, *corev1.Service)
		want   string // failure, with LB for the ID; empty: none
		calls  []string
	}{
		{name: "address type changes in place", breaks: func(r *rig, _ *corev1.Service) { r.annotate("web", "address-type", "intranet") },
			calls: []string{"UpdateLoadBalancerAddressTypeConfig"}},
		{name: "name", breaks: func(r *rig, _ *corev1.Service) { r.annotate("web", "name", "shop") }, calls: []string{"UpdateLoadBalancerAttribute"}},
		{name: "touched", breaks: func(r *rig, _ *corev1.Service) { r.touch("web", "1") }},
		{name: "listener", breaks: func(r *rig, _ *corev1.Service) { r.annotate("web", "idle-timeout", "30") }, calls: []string{"UpdateListenerAttribute"}},
		{name: "group", breaks: func(r *rig, _ *corev1.Service) { r.annotate("web", "scheduler", "Rr") }, calls: []string{"UpdateServerGroupAttribute"}},
		{name: "resource group", breaks: func(r *rig, _ *corev1.Service) { r.annotate("web", "resource-group-id", "rg-other") },
			want: "[LB]: apply model error: update nlb attribute error: ResourceGroupId cannot be changed, service: rg-other, nlb: RG"},
		{name: "gone, touched", breaks: func(r *rig, svc *corev1.Service) {
			r.cloud.Edit(func(s *sim.State) { delete(s.NLBs, svc.Labels[labelID]) })
			r.touch("web", "1")
		}, want: "[]: apply model error: update nlb attribute error: alicloud: can not find loadbalancer, but it's defined in service [] this may happen when " +
			"you delete the loadbalancer"},
		{name: "gone, endpoints changed", breaks: func(r *rig, svc *corev1.Service) {
			r.cloud.Edit(func(s *sim.State) { delete(s.NLBs, svc.Labels[labelID]) })
			r.pods("web", "10.1.2.3")
		}, want: "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:TAG]"},
		{name: "rebound", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1"}, {ID: "nlb-2"}}}, before: map[string]string{"id": "nlb-1"},
			breaks: func(r *rig, _ *corev1.Service) { r.annotate("web", "id", "nlb-2") },
			want: "[nlb-2]: apply model error: update nlb attribute error: the loadbalancer nlb-2 can not be reused, service has been associated with " +
				"dnsname [nlb-1.cn-hangzhou.nlb.aliyuncs.com], cannot be bound to dnsname [nlb-2.cn-hangzhou.nlb.aliyuncs.com]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &c.world, 1, func(r *rig) { r.opts.Speed = 200 })
			before := c.before
			if before == nil {
				before = zones
			}
			r.service("web", before, network)
			svc := r.synced("web", "")
			r.ensured("web", 1)
			id := svc.Labels[labelID]
			rg := r.nlb(id).ResourceGroup
			r.cloud.ResetCalls()
			c.breaks(r, svc)
			if c.want != "" {
				r.saw("web", failed+"Error syncing load balancer "+strings.NewReplacer("LB", id, "RG", rg, "TAG", ownName(svc)).Replace(c.want))
				if diff := cmp.Diff(svc.Labels, r.get("web").Labels); diff != "" {
					t.Error("a failed sync changed labels", diff)
				}
				return
			}
			r.synced("web", svc.Labels[labelHash])
			writes := slices.DeleteFunc(r.actions(), func(a string) bool { return strings.HasPrefix(a, "List") || strings.HasPrefix(a, "Get") })
			if diff := cmp.Diff(c.calls, writes); diff != "" && len(c.calls)+len(writes) > 0 {
				t.Error(diff)
			}
		})
	}
}

func TestNLBEnd(t *testing.T) {
	for _, c := range []struct {
		name, keep string
		version    string
		id         string
		ranges     []string
		breaks     func(r *rig, id string)
		fails      string // Event, with LB for the ID
		repair     func(*rig)
		stays      bool
	}{
		{name: "deleted", ranges: []string{"192.0.2.0/24"}},
		{name: "preserved", keep: "on", ranges: []string{"192.0.2.0/24"}, stays: true},
		{name: "reused", id: "nlb-1", stays: true},
		{name: "gone already", breaks: func(r *rig, id string) { r.cloud.Edit(func(s *sim.State) { delete(s.NLBs, id) }) }},
		{name: "deletion protected by a rule of RAM", fails: "[LB]: Message: code: 403, Authentication is failed for NoPermission. ",
			breaks: func(r *rig, _ string) { r.cloud.Revoke("ccm", "nlb:UpdateLoadBalancerProtection") },
			repair: func(r *rig) { r.cloud.Grant("ccm", "nlb:UpdateLoadBalancerProtection") }},
		{name: "deletion refused", fails: "[LB]: Message: code: 400, The operation is not allowed because of DeletionProtectionEnabled. ",
			breaks: func(r *rig, _ string) {
				r.cloud.Fault(sim.Fault{Action: "DeleteLoadBalancer", Code: "OperationDenied.DeletionProtectionEnabled",
					Message: "The operation is not allowed because of DeletionProtectionEnabled.", Count: 1})
			}, repair: func(*rig) {}},
		{name: "deletion protected by hand, v2.6", version: "v2.6.0",
			fails: "[]: Message: code: 400, The operation is not allowed because of DeletionProtectionEnabled. ",
			breaks: func(r *rig, id string) {
				r.cloud.Edit(func(s *sim.State) { s.NLBs[id].DeletionProtection = true })
			}, repair: func(r *rig) {
				r.cloud.Edit(func(s *sim.State) {
					for _, n := range s.NLBs {
						n.DeletionProtection = false
					}
				})
			}},
		{name: "deletion protected by hand", breaks: func(r *rig, id string) {
			r.cloud.Edit(func(s *sim.State) { s.NLBs[id].DeletionProtection = true })
		}},
		{name: "group in use elsewhere", fails: "[]: Message: code: 400, The specified resource of ServerGroup is in use. ",
			breaks: func(r *rig, id string) {
				r.cloud.Edit(func(s *sim.State) {
					s.NLBs["nlb-1"].Listeners = []sim.NLBListener{{ID: "lsn-1", Port: 81, ServerGroup: s.NLBs[id].Listeners[0].ServerGroup}}
				})
			}, repair: func(r *rig) { r.cloud.Edit(func(s *sim.State) { s.NLBs["nlb-1"].Listeners = nil }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			world := sim.World{NLBs: []sim.NLB{{ID: "nlb-1"}}, Lag: sim.Lag{Jobs: sim.Duration(20 * time.Millisecond)}}
			r := newRig(t, &world, 1, func(r *rig) { r.opts.Version, r.opts.Speed = c.version, 200 })
			annotations := map[string]string{"zone-maps": "cn-hangzhou-h:vsw-1"}
			if c.keep != "" {
				annotations["preserve-lb-on-delete"] = c.keep
			}
			if c.id != "" {
				annotations["id"] = c.id
			}
			r.service("web", annotations, network, func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = c.ranges })
			id := r.synced("web", "").Labels[labelID]
			r.ensured("web", 1)
			if c.breaks != nil {
				c.breaks(r, id)
			}
			r.delete("web")
			if c.fails != "" {
				r.saw("web", "Warning CleanLoadBalancerFailed Error deleting load balancer "+strings.ReplaceAll(c.fails, "LB", id))
				c.repair(r)
				r.touch("web", "1")
			}
			r.gone("web")
			r.saw("web", "Normal CleanLoadBalancer Clean load balancer")
			lb := r.nlb(id)
			if (lb != nil) != c.stays {
				t.Fatalf("the NLB is there: %v", lb != nil)
			}
			if lb != nil && (lb.Tags["kubernetes.do.not.delete"] != "" || lb.DeletionProtection || len(lb.Listeners) > 0) {
				t.Errorf("left: %+v", lb)
			}
			w := r.cloud.Snapshot()
			for _, g := range w.ServerGroups {
				if g.Tags["kubernetes.do.not.delete"] != "" && g.Status == "Available" {
					t.Errorf("left: %+v", g)
				}
			}
			if (len(w.SecurityGroups) > 0) != (c.ranges != nil && c.stays) {
				t.Errorf("left: %+v", w.SecurityGroups)
			}
		})
	}
}

func TestNLBBackendsExcluded(t *testing.T) {
	t.Parallel()
	world := sim.World{VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}}, ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}}}
	r := newRig(t, &world, 0, func(r *rig) { r.opts.Speed = 200 })
	r.pods("web", "10.1.5.8", "10.1.5.9")
	r.service("web", zones, network, eni)
	r.synced("web", "")
	r.saw("web", "Warning SkipSyncBackends Not sync pods whose eni is invalid: 10.1.5.9")
	r.service("none", zones, network)
	id := r.synced("none", "").Labels[labelID]
	r.saw("none", "Normal UnAvailableLoadBalancer There are no available nodes for NetworkLoadBalancer")
	r.saw("none", "Normal EnsuredLoadBalancer Ensured load balancer ["+id+"]")
	if hasReason(r, "SyncLoadBalancerFailed") {
		t.Error("a sync that only lacks backends has failed")
	}
}
