package controller_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/test/sim"
)

func TestFirstSync(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	made := r.service("web", nil)
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	r.saw("web", "Normal EnsuredLoadBalancer Ensured load balancer ["+id+"]")

	lb := r.lb(id)
	name, port := ownName(made), made.Spec.Ports[0].NodePort
	group := fmt.Sprintf("k8s/%d/web/%s/%s", port, r.ns, clusterID)
	got := map[string]any{
		"name": lb.Name, "tags": lb.Tags, "type": lb.AddressType, "charge": lb.ChargeType, "spec": lb.Spec,
		"protected": lb.DeleteProtection, "modification": lb.ModificationProtection, "ingress": svc.Status.LoadBalancer.Ingress[0].IP,
		"finalizers": svc.Finalizers, "group": lb.VGroups[0].Name, "backend": lb.VGroups[0].Backends[0].Server,
		"backend port": lb.VGroups[0].Backends[0].Port, "backend description": lb.VGroups[0].Backends[0].Description,
		"listener": lb.Listeners[0].Description, "listener status": lb.Listeners[0].Status, "listener group": lb.Listeners[0].VGroup,
		"hash": len(svc.Labels[labelHash]),
	}
	want := map[string]any{
		"name": name, "tags": map[string]string{"kubernetes.do.not.delete": name, "ack.aliyun.com": clusterID},
		"type": "internet", "charge": "PayByCLCU", "spec": "", "protected": true,
		"modification": sim.Protection{Status: "ConsoleProtection", Reason: "managed.by.ack"}, "ingress": lb.Address,
		"finalizers": []string{"service.k8s.alibaba/resources"}, "group": group, "backend": "i-1",
		"backend port": int(port), "backend description": group,
		"listener": fmt.Sprintf("k8s/80/web/%s/%s", r.ns, clusterID), "listener status": "running", "listener group": lb.VGroups[0].ID,
		"hash": 56,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"DescribeLoadBalancers", "DescribeLoadBalancers", "CreateLoadBalancer", "DescribeLoadBalancerAttribute",
		"CreateVServerGroup", "AddVServerGroupBackendServers", "CreateLoadBalancerTCPListener", "StartLoadBalancerListener",
	}, r.actions()); diff != "" {
		t.Error(diff)
	}
	var subresources []string
	for _, m := range svc.ManagedFields {
		if m.Manager == "cloud-controller-manager" && strings.Contains(m.FieldsV1.GetRawString(), labelHash) {
			subresources = append(subresources, m.Subresource)
		}
	}
	if diff := cmp.Diff([]string{"status"}, subresources); diff != "" {
		t.Error("the label was not written through the status subresource", diff)
	}
}

func TestWhatWakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.opts.Workers = 1 })
	r.service("web", nil)
	svc := r.synced("web", "")
	r.ensured("web", 1)
	r.cloud.ResetCalls()

	r.patch("web", `{"metadata":{"labels":{"a":"b"}}}`)
	r.patch("web", `{"status":{"loadBalancer":{"ingress":null}}}`, "status")
	// With one worker, this Service is synced after everything that was queued before.
	r.service("marker", nil)
	r.synced("marker", "")
	for _, c := range r.cloud.CallsOf("ccm") {
		if strings.Contains(c.Params["Tags"], ownName(svc)) {
			t.Fatalf("a change of labels or status led to %s", c.Action)
		}
	}
	if now := r.get("web"); len(now.Status.LoadBalancer.Ingress) > 0 {
		t.Fatal("the status came back by itself")
	}

	r.touch("web", "1")
	now := r.synced("web", svc.Labels[labelHash])
	r.saw("web", "Normal AnnotationChanged The service will be updated because the annotations has been changed.")
	if now.Labels[labelID] != svc.Labels[labelID] {
		t.Error("a touch led to another load balancer")
	}
	r.patch("web", `{"spec":{"externalTrafficPolicy":"Local"}}`)
	r.saw("web", "Normal ServiceSpecChanged The service will be updated because the spec has been changed.")
	r.synced("web", now.Labels[labelHash])
}

// TestLostTag: with a custom name, syncs fail without the tag; a resync step succeeds once the tag is restored.
func TestLostTag(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", map[string]string{"name": "shop"})
	svc := r.synced("web", "")
	id, ip := svc.Labels[labelID], svc.Status.LoadBalancer.Ingress[0].IP
	r.cloud.LoseTag(id, "kubernetes.do.not.delete")

	r.pods("web", "10.1.2.3")
	r.saw("web", failed+"Error syncing load balancer []: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:"+
		ownName(svc)+"]")
	r.touch("web", "1")
	r.saw("web", failed+"Error syncing load balancer []: apply model error: update lb attribute error: alicloud: can not find loadbalancer, but it's "+
		"defined in service ["+ip+"] this may happen when you delete the loadbalancer")
	r.cloud.Edit(func(s *sim.State) { s.LoadBalancers[id].Tags["kubernetes.do.not.delete"] = ownName(svc) })
	r.touch("web", "2")
	if now := r.synced("web", svc.Labels[labelHash]); now.Labels[labelID] != id || now.Status.LoadBalancer.Ingress[0].IP != ip {
		t.Error("another load balancer took the place of the lost one")
	}
}

// TestTagPutBack: a load balancer found by name gets its tag back in a full sync, unless it has ten tags.
func TestTagPutBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", nil)
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	many := map[string]string{}
	for i := range 10 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	for i, tags := range []map[string]string{many, {"ack.aliyun.com": clusterID}} {
		r.cloud.Edit(func(s *sim.State) { s.LoadBalancers[id].Tags = maps.Clone(tags) })
		r.touch("web", fmt.Sprint(i))
		svc = r.synced("web", svc.Labels[labelHash])
		got := r.lb(id).Tags["kubernetes.do.not.delete"]
		if want := map[int]string{1: ownName(svc)}[i]; got != want {
			t.Errorf("with %d tags: tag value %q, want %q", len(tags), got, want)
		}
	}
}

// TestVanished: a load balancer deleted outside the controller is created again with the same client token, until a restart.
func TestVanished(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", nil)
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	r.cloud.DropLoadBalancer(id)
	r.patch("web", `{"status":{"loadBalancer":{"ingress":null}}}`, "status")
	r.touch("web", "1")
	r.saw("web", failed+"Error syncing load balancer ["+id+"]: Message: The specified LoadBalancerId does not exist.")
	r.stop()
	r.start()
	r.until("a new load balancer", func() bool {
		now := r.services["web"]
		return now.Labels[labelID] != id && len(now.Status.LoadBalancer.Ingress) > 0
	})
	var tokens []string
	for _, c := range r.cloud.CallsOf("ccm") {
		if c.Action == "CreateLoadBalancer" {
			tokens = append(tokens, c.Params["ClientToken"])
		}
	}
	if len(tokens) != 3 || tokens[0] != tokens[1] || tokens[1] == tokens[2] {
		t.Errorf("client tokens %v", tokens)
	}
}

func TestVSwitchChoice(t *testing.T) {
	world := sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2", Free: new(0)}, {ID: "vsw-3"}}}
	for _, c := range []struct {
		version, want string
	}{
		{"v2.14.0", ""},
		{"v2.12.4", failed + "Error syncing load balancer []: Message: The specified VSwitch has no available ip."},
	} {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &world, 1, func(r *rig) {
				r.opts.Version = c.version
				r.opts.VSwitches = []string{"cn-hangzhou-h:vsw-1", "cn-hangzhou-h:vsw-2", "cn-hangzhou-h:vsw-3"}
				r.opts.Pick = func(int) int { return 0 }
			})
			r.service("web", map[string]string{"address-type": "intranet"})
			if c.want != "" {
				r.saw("web", c.want)
				return
			}
			svc := r.synced("web", "")
			if lb := r.lb(svc.Labels[labelID]); lb.VSwitch != "vsw-3" || lb.Address != svc.Status.LoadBalancer.Ingress[0].IP {
				t.Errorf("vSwitch %s, address %s", lb.VSwitch, lb.Address)
			}
		})
	}
}

// TestMoved tests the remedy of a full vSwitch: an annotation names another one.
func TestMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2"}}}, 1)
	r.service("web", map[string]string{"address-type": "intranet", "vswitch-id": "vsw-1"})
	r.saw("web", failed+"Error syncing load balancer []: Message: The specified VSwitch has no available ip.")
	r.annotate("web", "vswitch-id", "vsw-2")
	if got := r.lb(r.synced("web", "").Labels[labelID]).VSwitch; got != "vsw-2" {
		t.Errorf("in vSwitch %s", got)
	}
}

func TestPermission(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.cloud.Revoke("ccm", "slb:CreateLoadBalancer") })
	r.service("web", nil)
	r.saw("web", failed+"Error syncing load balancer []: Message: User not authorized to operate on the specified resource, or this API doesn't support RAM.")
	r.cloud.Grant("ccm", "slb:CreateLoadBalancer")
	r.touch("web", "1")
	r.synced("web", "")
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	const base = 40 * time.Millisecond
	r := newRig(t, nil, 1, func(r *rig) {
		r.opts.BackoffBase, r.opts.BackoffMax = base, 4*base
		r.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Code: "Throttling.User", Count: 5})
	})
	r.service("web", nil)
	r.synced("web", "")
	var times []time.Time
	for _, c := range r.cloud.CallsOf("ccm") {
		if c.Action == "DescribeLoadBalancers" {
			times = append(times, c.At)
		}
	}
	for i, want := range []time.Duration{base, 2 * base, 4 * base, 4 * base, 4 * base} {
		if got := times[i+1].Sub(times[i]); got < want {
			t.Errorf("retry %d came after %v, before %v had passed", i+1, got, want)
		}
	}
}

// TestHalfMade: a sync continues with the load balancer that a failed first sync created.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) {
		r.cloud.Fault(sim.Fault{Action: "AddVServerGroupBackendServers", Code: "SystemBusy", Count: 2})
	})
	svc := r.service("web", nil)
	r.until("a failure", func() bool { return hasReason(r, "SyncLoadBalancerFailed") })
	lb := r.byName(ownName(svc))
	if len(lb.VGroups) != 1 || len(lb.Listeners) != 0 {
		t.Fatalf("%d groups and %d listeners after the first sync", len(lb.VGroups), len(lb.Listeners))
	}
	r.saw("web", failed+"Error syncing load balancer ["+lb.ID+"]: Message: The system is busy., there are unprocessed listeners in reconcile]")
	// The group is known now, so the listener does not wait for it.
	r.touch("web", "1")
	r.saw("web", failed+"Error syncing load balancer ["+lb.ID+"]: Message: The system is busy.")
	if lb := r.lb(lb.ID); len(lb.Listeners) != 1 {
		t.Errorf("%d listeners after the second sync", len(lb.Listeners))
	}
	r.touch("web", "2")
	if got := r.synced("web", "").Labels[labelID]; got != lb.ID {
		t.Errorf("synced with %s, made was %s", got, lb.ID)
	}
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		world       sim.World
		end         func(*rig)
		deleted     bool // the Service is
		stays       bool // the load balancer does
	}{
		{name: "deleted", end: func(r *rig) { r.delete("web") }, deleted: true},
		{name: "another type", end: func(r *rig) {
			r.patch("web", `{"spec":{"type":"ClusterIP","externalTrafficPolicy":null,"ports":[{"port":80,"targetPort":8080,"protocol":"TCP","nodePort":0}],`+
				`"allocateLoadBalancerNodePorts":null}}`)
		}},
		{name: "preserved", annotations: map[string]string{"preserve-lb-on-delete": "on"}, end: func(r *rig) { r.delete("web") }, deleted: true, stays: true},
		{name: "reused", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}}, annotations: map[string]string{"id": "lb-1"},
			end: func(r *rig) { r.delete("web") }, deleted: true, stays: true},
		{name: "vanished before", end: func(r *rig) { r.cloud.DropLoadBalancer(r.get("web").Labels[labelID]); r.delete("web") }, deleted: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &c.world, 1)
			r.service("web", c.annotations)
			id := r.synced("web", "").Labels[labelID]
			c.end(r)
			if c.annotations["preserve-lb-on-delete"] != "" {
				r.saw("web", "Warning PreservedOnDelete The lb ["+id+"] will be preserved after the service is deleted.")
			}
			r.saw("web", "Normal CleanLoadBalancer Clean load balancer")
			if c.deleted {
				r.gone("web")
				r.saw("web", "Normal DeleteTimestampChanged The service will be updated because the delete timestamp has been changed.")
			} else {
				r.saw("web", "Normal TypeChanged type change LoadBalancer - ClusterIP")
				svc := r.get("web")
				if len(svc.Labels) > 0 || len(svc.Finalizers) > 0 || len(svc.Status.LoadBalancer.Ingress) > 0 {
					t.Errorf("labels %v, finalizers %v, addresses %v are left", svc.Labels, svc.Finalizers, svc.Status.LoadBalancer.Ingress)
				}
			}
			lb := r.lb(id)
			if (lb != nil) != c.stays {
				t.Fatalf("the load balancer is there: %v", lb != nil)
			}
			if lb == nil {
				return
			}
			_, own := lb.Tags["kubernetes.do.not.delete"]
			if own || lb.DeleteProtection || lb.ModificationProtection.Status != "NonProtection" || len(lb.VGroups)+len(lb.Listeners) > 0 {
				t.Errorf("left: %+v", lb)
			}
		})
	}
}

func TestReuse(t *testing.T) {
	for _, c := range []struct {
		name, override string
		listeners      []string
	}{
		{"as it is", "", []string{"the user's"}},
		{"with listeners", "true", []string{"k8s", "the user's"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Listeners: []sim.Listener{{Port: 8443, Description: "the user's"}}}}}, 1)
			r.service("web", map[string]string{"id": "lb-1", "force-override-listeners": c.override})
			r.synced("web", "")
			lb := r.lb("lb-1")
			if lb.Tags["kubernetes.reused.by.user"] != "true" || len(lb.VGroups) != 1 {
				t.Errorf("tags %v, %d groups", lb.Tags, len(lb.VGroups))
			}
			var got []string
			for _, l := range lb.Listeners {
				who, _, _ := strings.Cut(l.Description, "/")
				got = append(got, who)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.listeners, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		eip         bool
		want        corev1.LoadBalancerIngress
		event       string
	}{
		{name: "hostname", annotations: map[string]string{"hostname": "shop.example.com"}, want: corev1.LoadBalancerIngress{Hostname: "shop.example.com"}},
		{name: "EIP", annotations: map[string]string{"external-ip-type": "eip"}, eip: true, want: corev1.LoadBalancerIngress{IP: "198.51.100.7"}},
		{name: "no EIP", annotations: map[string]string{"external-ip-type": "eip"}, event: "Warning FailedSetEIPAddress get eip error, set external ip to slb ip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			world := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", VSwitch: "vsw-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1"}}}
			if c.eip {
				world.EIPs = []sim.EIP{{ID: "eip-1", IP: "198.51.100.7", Instance: "lb-1"}}
			}
			r := newRig(t, &world, 1)
			annotations := map[string]string{"id": "lb-1"}
			maps.Copy(annotations, c.annotations)
			r.service("web", annotations)
			got := r.synced("web", "").Status.LoadBalancer.Ingress[0]
			want := c.want
			if c.event != "" {
				r.saw("web", c.event)
				want.IP = r.address("lb-1")
			}
			if got.IP != want.IP || got.Hostname != want.Hostname {
				t.Errorf("ingress %+v, want %+v", got, want)
			}
		})
	}
}

func TestListeners(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{Certificates: []sim.Certificate{{ID: "cert-1"}}}, 1)
	made := r.service("web", map[string]string{
		"protocol-port": "http:80,https:443", "forward-port": "80:443", "cert-id": "cert-1", "idle-timeout": "20",
	}, func(s *corev1.Service) {
		s.Spec.Ports[0].Name = "http"
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443})
	})
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	show := func() []string {
		var all []string
		for _, l := range r.lb(id).Listeners {
			all = append(all, fmt.Sprintf("%s %d %s to %s, idle %s, %s", l.Protocol, l.Port, l.Status, l.Config["ForwardPort"], l.Config["IdleTimeout"], l.Scheduler))
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff([]string{"http 80 running to 443, idle 20, rr", "https 443 running to , idle 20, rr"}, show()); diff != "" {
		t.Error(diff)
	}
	r.annotate("web", "idle-timeout", "30")
	svc = r.synced("web", svc.Labels[labelHash])
	if diff := cmp.Diff([]string{"http 80 running to 443, idle 20, rr", "https 443 running to , idle 30, rr"}, show()); diff != "" {
		t.Error(diff)
	}
	r.patch("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:"https:443",%q:null}},"spec":{"ports":[{"name":"https","port":443,"targetPort":443,`+
		`"protocol":"TCP","nodePort":%d}]}}`,
		prefix+"protocol-port", prefix+"forward-port", made.Spec.Ports[1].NodePort))
	svc = r.synced("web", svc.Labels[labelHash])
	if diff := cmp.Diff([]string{"https 443 running to , idle 30, rr"}, show()); diff != "" {
		t.Error(diff)
	}
	r.annotate("web", "protocol-port", "tcp:443")
	svc = r.synced("web", svc.Labels[labelHash])
	if diff := cmp.Diff([]string{"tcp 443 running to , idle , rr"}, show()); diff != "" {
		t.Error(diff)
	}
	if n := len(r.lb(id).VGroups); n != 1 {
		t.Errorf("%d groups are left for one port", n)
	}
	r.cloud.ResetCalls()
	r.touch("web", "1")
	r.synced("web", svc.Labels[labelHash])
	for _, a := range r.actions() {
		if !strings.HasPrefix(a, "Describe") && !strings.HasPrefix(a, "List") {
			t.Errorf("a full sync without a difference called %s", a)
		}
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("all", nil)
	r.service("local", nil, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	all, local := r.synced("all", "").Labels[labelID], r.synced("local", "").Labels[labelID]
	r.ensured("all", 1)
	r.ensured("local", 1)
	show := func(id string) string {
		var s []string
		for _, b := range r.lb(id).VGroups[0].Backends {
			s = append(s, fmt.Sprintf("%s x%d", b.Server, *b.Weight))
		}
		slices.Sort(s)
		return strings.Join(s, ", ")
	}
	if got := show(all) + "; " + show(local); got != "i-1 x100; " {
		t.Error(got)
	}
	r.pods("local", "10.1.2.3", "10.1.2.4")
	r.ensured("local", 2)
	if got := show(local); got != "i-1 x2" {
		t.Error(got)
	}
	r.cloud.ResetCalls()
	second := r.ns + "-2"
	r.node(second, "i-2")
	r.ensured("all", 2)
	if got := show(all); got != "i-1 x100, i-2 x100" {
		t.Error(got)
	}
	for _, a := range r.actions() {
		if strings.Contains(a, "Listener") || a == "TagResources" {
			t.Errorf("a sync of backends called %s", a)
		}
	}
	if _, err := r.kube.CoreV1().Nodes().Patch(t.Context(), second, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.ensured("all", 3)
	if got := show(all); got != "i-1 x100" {
		t.Error(got)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("a", nil)
	r.service("b", nil)
	r.synced("a", "")
	r.synced("b", "")
	r.ensured("a", 1)
	r.ensured("b", 1)
	r.stop()
	r.cloud.ResetCalls()
	r.start()
	r.ensured("a", 2)
	r.ensured("b", 2)
	if slices.Contains(r.actions(), "DescribeLoadBalancerListeners") {
		t.Error("a sync with an unchanged hash read listeners")
	}
}

func TestAdditionalTags(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", map[string]string{"additional-resource-tags": "team=shop,stage=prod"})
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	r.annotate("web", "additional-resource-tags", "team=till")
	r.synced("web", svc.Labels[labelHash])
	if diff := cmp.Diff(map[string]string{"team": "till", "kubernetes.do.not.delete": ownName(svc), "ack.aliyun.com": clusterID}, r.lb(id).Tags); diff != "" {
		t.Error(diff)
	}
}

func TestEventBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", nil)
	hash := ""
	for i := range 17 {
		if i > 0 {
			r.touch("web", fmt.Sprint(i))
		}
		hash = r.synced("web", hash).Labels[labelHash]
	}
	total := func() (n int32) {
		for _, e := range r.all {
			n += e.Count
		}
		return n
	}
	r.until("25 events", func() bool { return total() >= 25 })
	// The Events of another Service arrive after all of this one's.
	r.service("marker", nil)
	r.ensured("marker", 1)
	r.until("both Services' events", func() bool { return total() >= 26 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := total(); n != 26 {
		t.Errorf("%d events, want 25 and 1", n)
	}
}

// As in reality, the Event of a cut connection shows the whole URL of the request.
func TestConnectionCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", CutBefore: true}) })
	r.service("web", nil)
	begin := "Error syncing load balancer []: apply model error: get load balancer attribute from cloud, error: [" + r.ns +
		`/web] find loadbalancer by tag error: Post "http://127.0.0.1:`
	r.until("an error of the connection", func() bool {
		for _, e := range r.all {
			if strings.HasPrefix(e.Message, begin) && strings.Contains(e.Message, "Signature=") {
				return true
			}
		}
		return false
	})
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", nil)
	svc := r.synced("web", "")
	r.cloud.Edit(func(s *sim.State) {
		twin := *s.LoadBalancers[svc.Labels[labelID]]
		twin.ID, twin.Tags = "lb-twin", maps.Clone(twin.Tags)
		s.LoadBalancers["lb-twin"] = &twin
	})
	r.touch("web", "1")
	ids := []string{svc.Labels[labelID], "lb-twin"}
	slices.Sort(ids)
	r.saw("web", failed+"Error syncing load balancer []: apply model error: get load balancer attribute from cloud, error: ["+r.ns+
		"/web] find multiple loadbalances by tag, lbIds["+strings.Join(ids, ",")+"]")
}

func TestAdopt(t *testing.T) {
	world := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", VGroups: []sim.VGroup{
		{ID: "rsp-1", Name: "mine", Backends: []sim.Backend{{Server: "i-9", Port: 1}}},
	}}}}
	annotations := func(ports string) map[string]string {
		return map[string]string{"id": "lb-1", "vgroup-port": ports, "weight": "60", "force-override-listeners": "true"}
	}
	t.Run("taken", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 1)
		svc := r.service("web", annotations("rsp-1:80"))
		hash := r.synced("web", "").Labels[labelHash]
		show := func() []string {
			var all []string
			for _, b := range r.lb("lb-1").VGroups[0].Backends {
				all = append(all, fmt.Sprintf("%s:%d x%d", b.Server, b.Port, *b.Weight))
			}
			slices.Sort(all)
			return all
		}
		port := svc.Spec.Ports[0].NodePort
		if diff := cmp.Diff([]string{fmt.Sprintf("i-1:%d x60", port), "i-9:1 x100"}, show()); diff != "" {
			t.Error(diff)
		}
		if got := r.lb("lb-1").Listeners[0].VGroup; got != "rsp-1" {
			t.Errorf("the listener is bound to %s", got)
		}
		r.annotate("web", "weight", "40")
		r.synced("web", hash)
		if diff := cmp.Diff([]string{fmt.Sprintf("i-1:%d x40", port), "i-9:1 x100"}, show()); diff != "" {
			t.Error(diff)
		}
		r.delete("web")
		r.gone("web")
		if got := r.lb("lb-1").VGroups[0].Backends; len(got) != 1 || got[0].Server != "i-9" {
			t.Errorf("left after the Service: %+v", got)
		}
	})
	for _, c := range []struct{ name, ports, want string }{
		{"none there", "rsp-nope:80", "Error syncing load balancer [lb-1]: Message: The specified VServerGroupId does not exist."},
		{"malformed", "rsp-1", "Error syncing load balancer []: build lb local model error: builid lb listener error: build listener from servicePort 80 error: " +
			"vgroupid and protocol format must be like 'vsp-xxx:443' with colon separated. got=[[rsp-1]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &world, 1)
			r.service("web", annotations(c.ports))
			r.saw("web", failed+c.want)
		})
	}
}

// TestBadProviderID: the error of a node that is not an ECS instance appears only when the listener looks for its group.
func TestBadProviderID(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	svc := r.service("web", nil)
	r.synced("web", "")
	bad := r.ns + "-worse"
	if _, err := r.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: bad, Labels: map[string]string{"rig": r.ns}},
		Spec:       corev1.NodeSpec{ProviderID: "elsewhere"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.kube.CoreV1().Nodes().Delete(context.Background(), bad, metav1.DeleteOptions{}) })
	r.ensured("web", 2)
	r.touch("web", "1")
	id := r.get("web").Labels[labelID]
	r.saw("web", failed+fmt.Sprintf("Error syncing load balancer [%s]: apply model error: merge listener: find vservergroup error: can not find vgroup by "+
		"name k8s/%d/web/%s/%s",
		id, svc.Spec.Ports[0].NodePort, r.ns, clusterID))
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", map[string]string{"instance-charge-type": "PayBySpec"})
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	changes := map[string]string{
		"spec": "slb.s2.small", "name": "shop", "delete-protection": "off", "modification-protection": "NonProtection",
		"charge-type": "paybybandwidth", "bandwidth": "7",
	}
	var list []string
	for k, v := range changes {
		list = append(list, fmt.Sprintf("%q:%q", prefix+k, v))
	}
	r.patch("web", `{"metadata":{"annotations":{`+strings.Join(list, ",")+`}}}`)
	r.synced("web", svc.Labels[labelHash])
	lb := r.lb(id)
	got := map[string]string{
		"spec": lb.Spec, "name": lb.Name, "delete-protection": map[bool]string{true: "on", false: "off"}[lb.DeleteProtection],
		"modification-protection": lb.ModificationProtection.Status, "charge-type": lb.InternetChargeType, "bandwidth": fmt.Sprint(lb.Bandwidth),
	}
	if diff := cmp.Diff(changes, got); diff != "" {
		t.Error(diff)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{Callers: []sim.Caller{{Name: "lent", AccessKeyID: "STS.1", Secret: "s", Token: "t", Allow: []string{"*"}}}}, 1, func(r *rig) {
		r.opts.Credentials = sim.Credentials{AccessKeyID: "STS.1", Secret: "s", Token: "t"}
	})
	r.service("web", nil)
	r.synced("web", "")
}

// TestPodsSkipped: the backend of a Pod without a network interface is kept, and so are those of deleted Pods.
func TestPodsSkipped(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}}, {ID: "eni-2", IPs: []string{"10.1.5.9"}}}}, 0)
	r.pods("web", "10.1.5.8", "10.1.5.9")
	svc := r.service("web", nil, eni)
	id := r.synced("web", "").Labels[labelID]
	r.ensured("web", 1)
	r.cloud.Edit(func(s *sim.State) { s.ENIs["eni-2"].Status = "Deleting" })
	r.touch("web", "1")
	r.saw("web", fmt.Sprintf("Warning SkipSyncBackends Skip delete and update backends to vgroup k8s/8080/%s/%s/%s due to invalid backends: 10.1.5.9",
		svc.Name, r.ns, clusterID))
	if n := len(r.lb(id).VGroups[0].Backends); n != 2 {
		t.Errorf("%d backends are left of 2", n)
	}
}
