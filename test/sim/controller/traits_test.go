package controller_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/test/sim"
)

// Effects on the controller of a cloud that is late or hides objects. The package sim tests these traits themselves.

// TestFilteredList: if RAM hides load balancers, the controller's own seems to be deleted, although no call was refused.
func TestFilteredList(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{RAM: sim.RAM{FilterLists: true}}, 1)
	r.service("web", nil)
	svc := r.synced("web", "")
	r.cloud.Revoke("ccm", "slb:DescribeLoadBalancers")
	r.cloud.ResetCalls()
	r.touch("web", "1")
	r.saw("web", failed+"Error syncing load balancer []: apply model error: update lb attribute error: alicloud: can not find loadbalancer, but it's "+
		"defined in service ["+
		svc.Status.LoadBalancer.Ingress[0].IP+"] this may happen when you delete the loadbalancer")
	for _, c := range r.cloud.CallsOf("ccm") {
		if c.Code != "" {
			t.Errorf("%s was answered with %s", c.Action, c.Code)
		}
	}
	if r.lb(svc.Labels[labelID]) == nil {
		t.Error("the load balancer is gone")
	}
}

// TestLatePermission: after a late grant, the next sync fails and the one after the delay succeeds.
func TestLatePermission(t *testing.T) {
	t.Parallel()
	const allow = `{"Version":"1","Statement":[{"Effect":"Allow","Action":%s,"Resource":"*"}]}`
	some, all := fmt.Sprintf(allow, `["slb:Describe*","slb:List*"]`), fmt.Sprintf(allow, `"*"`)
	r := newRig(t, &sim.World{
		RAM:      sim.RAM{Delay: sim.Duration(time.Minute)},
		Roles:    []sim.Role{{Name: "ccm", Policies: []string{"ccm"}}},
		Policies: []sim.Policy{{Name: "ccm", Versions: []sim.PolicyVersion{{Document: some, Default: true}, {Document: all}}}},
		Callers:  []sim.Caller{{Name: "master", AccessKeyID: "LTAI-master", Secret: "s", Role: "ccm"}},
	}, 1, func(r *rig) { r.opts.Credentials = sim.Credentials{AccessKeyID: "LTAI-master", Secret: "s"} })
	r.service("web", nil)
	const refused = failed + "Error syncing load balancer []: Message: User not authorized to operate on the specified resource, or this API doesn't support RAM."
	first := r.saw("web", refused)
	admin := r.cloud.Admin()
	client, err := ram.NewClientWithOptions("cn-hangzhou", sdk.NewConfig().WithScheme("HTTP"), credentials.NewAccessKeyCredential(admin.AccessKeyID, admin.Secret))
	if err != nil {
		t.Fatal(err)
	}
	client.Domain = r.cloud.Addr()
	req := ram.CreateSetDefaultPolicyVersionRequest()
	req.PolicyName, req.VersionId = "ccm", "v2"
	if _, err := client.SetDefaultPolicyVersion(req); err != nil {
		t.Fatal(err)
	}
	r.touch("web", "1")
	r.until("a second refusal", func() bool { return r.all[first.Name].Count == 2 })
	r.ahead.Store(int64(time.Minute))
	r.touch("web", "2")
	r.synced("web", "")
}

// TestLateTags: a controller starts while the tags of its load balancer are late, and finds it by name.
func TestLateTags(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{Lag: sim.Lag{Tags: sim.Duration(time.Hour)}}, 1, func(r *rig) {
		r.cloud.Fault(sim.Fault{Action: "CreateVServerGroup", Code: "SystemBusy", Count: 1})
	})
	svc := r.service("web", nil)
	r.until("a failure", func() bool { return hasReason(r, "SyncLoadBalancerFailed") })
	r.stop()
	r.start()
	if got := r.synced("web", "").Labels[labelID]; got != r.byName(ownName(svc)).ID {
		t.Errorf("synced with %s", got)
	}
	if n := len(r.cloud.Snapshot().LoadBalancers); n != 1 {
		t.Errorf("%d load balancers", n)
	}
}

// TestLateTagsOfNamed: with a custom name it is not found by name either, and a second one is created.
func TestLateTagsOfNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{Lag: sim.Lag{Tags: sim.Duration(time.Hour)}}, 1, func(r *rig) {
		r.cloud.Fault(sim.Fault{Action: "CreateVServerGroup", Code: "SystemBusy", Count: 1})
	})
	r.service("web", map[string]string{"name": "shop"})
	r.until("a failure", func() bool { return hasReason(r, "SyncLoadBalancerFailed") })
	r.stop() // and lose the client token
	r.start()
	r.synced("web", "")
	if n := len(r.cloud.Snapshot().LoadBalancers); n != 2 {
		t.Errorf("%d load balancers", n)
	}
}

// TestLateFreeAddresses: the controller tries a vSwitch whose listed free addresses are already used, and fails.
func TestLateFreeAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{
		VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2", Free: new(1)}}, Lag: sim.Lag{FreeIP: sim.Duration(time.Hour)},
	}, 1, func(r *rig) {
		r.opts.VSwitches, r.opts.Pick = []string{"cn-hangzhou-h:vsw-1", "cn-hangzhou-h:vsw-2"}, func(int) int { return 0 }
	})
	r.service("web", map[string]string{"address-type": "intranet"})
	if got := r.lb(r.synced("web", "").Labels[labelID]).VSwitch; got != "vsw-2" {
		t.Fatalf("in vSwitch %s", got)
	}
	r.service("more", map[string]string{"address-type": "intranet"})
	r.saw("more", failed+"Error syncing load balancer []: Message: The specified VSwitch has no available ip.")
}

func TestRandomVSwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2", Free: new(0)}}}, 1, func(r *rig) {
		r.opts.VSwitches, r.opts.Version = []string{"cn-hangzhou-h:vsw-1", "cn-hangzhou-h:vsw-2"}, "v2.12.4"
		r.opts.BackoffBase, r.opts.BackoffMax = time.Millisecond, time.Millisecond
	})
	r.service("web", map[string]string{"address-type": "intranet"})
	tried := map[string]bool{}
	r.until("both vSwitches", func() bool {
		for _, c := range r.called("CreateLoadBalancer") {
			tried[c["VSwitchId"]] = true
		}
		return len(tried) == 2
	})
}

// TestAPIServersBalancer tests a Service that names the load balancer of the API server, which has the cluster's tag.
func TestAPIServersBalancer(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{
		ID: "lb-api", VSwitch: "vsw-1", Tags: map[string]string{"ack.aliyun.com": clusterID}, Listeners: []sim.Listener{{Port: 6443}},
	}}}, 1)
	before := r.lb("lb-api")
	r.service("web", map[string]string{"id": "lb-api", "force-override-listeners": "true"})
	r.saw("web", failed+"Error syncing load balancer [lb-api]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-api can not be "+
		"reused, can not reuse loadbalancer created by kubernetes.")
	r.delete("web")
	r.gone("web")
	before.Tags["kubernetes.reused.by.user"] = "true" // on deletion the controller tags it all the same
	if diff := cmp.Diff(before, r.lb("lb-api")); diff != "" {
		t.Error(diff)
	}
}

// TestSameAddressElsewhere: a network interface with the Pod's address in another VPC does not count.
func TestSameAddressElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{
		VPCs:      []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
		VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}, {ID: "vsw-2", VPC: "vpc-2"}},
		ENIs:      []sim.ENI{{ID: "eni-elsewhere", VPC: "vpc-2", IPs: []string{"10.0.0.8"}}, {ID: "eni-here", VPC: "vpc-1", IPs: []string{"10.0.0.8"}}},
	}, 0)
	r.pods("web", "10.0.0.8")
	r.service("web", nil, eni)
	if got := r.lb(r.synced("web", "").Labels[labelID]).VGroups[0].Backends; len(got) != 1 || got[0].Server != "eni-here" {
		t.Errorf("backends %+v", got)
	}
}

// TestIPv6Backends checks that IPv6 backends need both annotations and the feature gate.
func TestIPv6Backends(t *testing.T) {
	world := sim.World{
		VSwitches: []sim.VSwitch{{ID: "vsw-1", IPv6: "2001:db8:0:1::/64"}},
		ENIs:      []sim.ENI{{ID: "eni-1", IPs: []string{"10.0.0.8", "2001:db8:0:1::8"}}},
	}
	for _, c := range []struct {
		name        string
		gate        bool
		annotations map[string]string
		pods        []string // of IPv6
		want        []string
		events      []string
	}{
		{"IPv6", true, map[string]string{"ip-version": "ipv6", "backend-ip-version": "ipv6"}, []string{"2001:db8:0:1::8"}, []string{"2001:db8:0:1::8"}, nil},
		{"without the gate", false, map[string]string{"ip-version": "ipv6", "backend-ip-version": "ipv6"}, []string{"2001:db8:0:1::8"}, []string{"10.0.0.8"}, nil},
		{"in front alone", true, map[string]string{"ip-version": "ipv6"}, []string{"2001:db8:0:1::8"}, []string{"10.0.0.8"}, nil},
		{"unknown and outside", true, map[string]string{"ip-version": "ipv6", "backend-ip-version": "ipv6"}, []string{"2001:db8:0:1::9", "fd00::9"}, nil, []string{
			"Normal SkipSyncBackends Not sync pods [fd00::9] whose ip is not in vpc cidrs",
			"Warning SkipSyncBackends Not sync pods [2001:db8:0:1::9] whose eni is invalid",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &world, 0, func(r *rig) { r.opts.DualStack = c.gate })
			r.pods("web", "10.0.0.8")
			r.namedPods("web", "http", c.pods...)
			r.service("web", c.annotations, eni)
			lb := r.lb(r.synced("web", "").Labels[labelID])
			var got []string
			for _, b := range lb.VGroups[0].Backends {
				got = append(got, b.IP)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			for _, e := range c.events {
				r.saw("web", e)
			}
		})
	}
}

// TestEIP: a reused load balancer with an EIP in the status passes the check of the address, except before v2.7.0.
func TestEIP(t *testing.T) {
	world := sim.World{
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", VSwitch: "vsw-1"}},
		EIPs:          []sim.EIP{{ID: "eip-1", IP: "198.51.100.7", Instance: "lb-1", InstanceType: "SlbInstance"}},
	}
	for version, want := range map[string]string{
		"v2.14.0": "",
		"v2.6.0": failed + "Error syncing load balancer []: apply model error: alicloud: the loadbalancer lb-1 can not be reused, " +
			"service has been associated with ip [198.51.100.7], cannot be bound to ip [IP]",
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &world, 1, plays(version))
			r.service("web", map[string]string{"id": "lb-1", "external-ip-type": "eip"})
			svc := r.synced("web", "")
			if got := svc.Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != "198.51.100.7" {
				t.Errorf("ingress %+v", got)
			}
			r.touch("web", "1")
			if want == "" {
				r.synced("web", svc.Labels[labelHash])
				return
			}
			r.saw("web", strings.Replace(want, "[IP]", "["+r.address("lb-1")+"]", 1))
		})
	}
	t.Run("with a host name", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &sim.World{LoadBalancers: world.LoadBalancers}, 1)
		r.service("web", map[string]string{"id": "lb-1", "external-ip-type": "eip", "hostname": "shop.example.com"})
		if got := r.synced("web", "").Status.LoadBalancer.Ingress; len(got) != 1 || got[0].Hostname != "shop.example.com" || got[0].IP != "" {
			t.Errorf("ingress %+v", got)
		}
		r.saw("web", "Warning FailedSetEIPAddress get eip error, set external ip to slb ip")
	})
}

// TestOtherPorts tests a server that is in a user's group also with another port: each sync sets its weight.
func TestOtherPorts(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", VGroups: []sim.VGroup{
		{ID: "rsp-1", Name: "mine", Backends: []sim.Backend{{Server: "i-1", Port: 1}}},
	}}}}, 1)
	r.service("web", map[string]string{"id": "lb-1", "vgroup-port": "rsp-1:80"})
	hash := r.synced("web", "").Labels[labelHash]
	for i := range 2 {
		r.cloud.ResetCalls()
		r.touch("web", fmt.Sprint(i))
		hash = r.synced("web", hash).Labels[labelHash]
		if !slices.Contains(r.actions(), "SetVServerGroupAttribute") {
			t.Errorf("called %v", r.actions())
		}
	}
	if n := len(r.lb("lb-1").VGroups[0].Backends); n != 2 {
		t.Errorf("%d backends", n)
	}
}

// TestNodeFilters: each change that makes a node a backend or not triggers a sync, except on masters.
func TestNodeFilters(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", map[string]string{"remove-unscheduled-backend": "on"})
	id := r.synced("web", "").Labels[labelID]
	r.ensured("web", 1)
	node, syncs := r.ns+"-2", int32(1)
	next := func(what string, want int, change func()) {
		t.Helper()
		change()
		syncs++
		r.ensured("web", syncs)
		if got := len(r.lb(id).VGroups[0].Backends); got != want {
			t.Errorf("%s: %d backends, want %d", what, got, want)
		}
	}
	next("new", 2, func() { r.node(node, "i-2") })
	next("cordoned", 1, func() { r.changeNode(node, `{"spec":{"unschedulable":true}}`) })
	next("uncordoned", 2, func() { r.changeNode(node, `{"spec":{"unschedulable":null}}`) })
	next("not ready", 1, func() { r.changeNode(node, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "status") })
	next("ready", 2, func() { r.changeNode(node, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status") })
	next("excluded", 1, func() { r.label(node, "node.kubernetes.io/exclude-from-external-load-balancers", "") })
	next("left out", 1, func() { r.label(node, "service.alibabacloud.com/exclude-node", "") })
	next("both back", 2, func() {
		r.changeNode(node, `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null,"service.alibabacloud.com/exclude-node":null}}}`)
	})
	// A taint alone triggers nothing; the next sync sees it.
	r.changeNode(node, `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	// Nodes and Services arrive by two watches: a resync step may precede the taint.
	for i := 1; len(r.lb(id).VGroups[0].Backends) != 1; i++ {
		if i > 50 {
			t.Fatal("about to go: it is still a backend after 50 syncs")
		}
		r.touch("web", strconv.Itoa(i))
		syncs++
		r.ensured("web", syncs)
	}
	next("master", 1, func() { r.label(node, "node-role.kubernetes.io/master", "") })
}

// TestLocalPods tests the local traffic policy with Pods on a node that cannot be a backend.
func TestLocalPods(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.label(r.ns+"-1", "node-role.kubernetes.io/master", "") })
	r.pods("web", "10.1.2.3")
	r.service("web", nil, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	lb := r.lb(r.synced("web", "").Labels[labelID])
	r.saw("web", "Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer")
	if n := len(lb.VGroups[0].Backends); n != 0 {
		t.Errorf("%d backends", n)
	}
}
