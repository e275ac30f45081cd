package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/test/sim"
)

// TestFirstGeneration: these releases set no finalizer, and before v1.9.3.276 an Event shows the whole error.
func TestFirstGeneration(t *testing.T) {
	const api = "Aliyun API Error: RequestId: ID Status Code: 400 Code: "
	reused := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}}
	arrears := sim.World{Account: sim.Account{Arrearage: true}}
	for _, c := range []struct {
		name, version string
		world         sim.World
		annotations   map[string]string
		breaks        func(*rig) // breaks a synced Service; nil: the first sync fails
		want          string     // NS is the namespace, ID a request ID
	}{
		{"arrears", "v1.9.3.101", arrears, nil, nil,
			"Warning CreatingLoadBalancerFailed Error creating load balancer (will retry): failed to ensure load balancer for service NS/web: " + api +
				"ORDER.ARREARAGE Message: The account is arrearage."},
		{"arrears", "v1.9.3.276", arrears, nil, nil, "Warning Failed Fail to ensure loadbalancer, error Message: The account is arrearage."},
		{"arrears", "v1.9.3.316", arrears, nil, nil, "Warning Failed Fail to ensure loadbalancer, error Message: The account is arrearage."},
		{"arrears", "v1.9.3.372", arrears, nil, nil, failed + "Error syncing load balancer: Message: The account is arrearage."},
		{"arrears", "v2.1.0", arrears, nil, nil, failed + "Error syncing load balancer: Message: The account is arrearage."},
		{"arrears", "v2.3.0", arrears, nil, nil, failed + "Error syncing load balancer []: Message: The account is arrearage."},
		{"reused", "v1.9.3.376", reused, map[string]string{"id": "lb-1"}, nil,
			failed + "Error syncing load balancer: alicloud: can not reuse loadbalancer created by kubernetes. lb-1"},
		{"address type", "v1.9.3.316", sim.World{}, nil, func(r *rig) { r.annotate("web", "address-type", "intranet") },
			"Warning Failed Fail to ensure loadbalancer, error alicloud: change loadbalancer address type after service has been created is not supported. " +
				"delete and retry"},
		{"address type", "v1.9.3.376", sim.World{}, nil, func(r *rig) { r.annotate("web", "address-type", "intranet") },
			failed + "Error syncing load balancer: alicloud: can not change LoadBalancer AddressType once created. delete and retry"},
		{"gone", "v1.9.3.316", sim.World{}, nil, drop, "Warning Failed Fail to ensure loadbalancer, error alicloud: not able to find loadbalancer named [web] " +
			"in openapi, " +
			"but it's defined in service.loaderbalancer.ingress. this may happen when you removed loadbalancerid annotation"},
		{"no nodes", "v1.9.3.101", sim.World{}, map[string]string{"backend-label": "gpu=yes"}, nil,
			"Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer service NS/web"},
		{"no nodes", "v1.9.3.239", sim.World{}, map[string]string{"backend-label": "gpu=yes"}, nil,
			"Warning UnAvailableLoadBalancer There are no available backend loadbalancer nodes for service NS/web"},
		{"shared instance", "v1.9.3.376", sim.World{Account: sim.Account{ShareInstanceHalt: true}}, nil, nil,
			failed + "Error syncing load balancer: Message: The share instance has been discontinued."},
	} {
		t.Run(c.name+", "+c.version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &c.world, 1, plays(c.version))
			r.service("web", c.annotations)
			if c.breaks != nil {
				r.synced("web", "")
				c.breaks(r)
			}
			want := strings.Replace(c.want, "NS", r.ns, 1)
			r.until(want, func() bool {
				for _, e := range r.all {
					got := line(e)
					if _, rest, ok := strings.Cut(got, "RequestId: "); ok {
						id, _, _ := strings.Cut(rest, " ")
						got = strings.Replace(got, id, "ID", 1)
					}
					if got == want {
						return true
					}
				}
				return false
			})
			if c.version < "v2" && len(r.get("web").Finalizers) > 0 {
				t.Error("there is a finalizer")
			}
		})
	}
}

// TestSilentRelease tests v1.9.3.239, which wrote no Event for a failed sync.
func TestSilentRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, plays("v1.9.3.239"), func(r *rig) {
		r.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", Code: "SystemBusy", Count: 1})
		r.opts.BackoffBase, r.opts.Speed = 0, 1000
	})
	r.service("web", nil)
	r.saw("web", "Normal EnsuredLoadBalancer Finished ensured loadbalancer, "+r.ns+"/web")
	if got := r.events("web"); len(got) != 1 {
		t.Errorf("events %v", got)
	}
}

// TestNamedPort: for Pods behind a named target port, the first generation uses port 0, later ones resolve the name.
func TestNamedPort(t *testing.T) {
	world := sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}}}}
	named := func(s *corev1.Service) {
		eni(s)
		s.Spec.Ports[0].Name, s.Spec.Ports[0].TargetPort = "http", intstr.FromString("http")
	}
	for version, want := range map[string]string{
		"v1.9.3.316": "Warning Failed Fail to ensure loadbalancer, error Message: The specified Port must be between 1 and 65535.. k8s/0/web/NS/" + clusterID,
		"v1.9.3.376": failed + "Error syncing load balancer: Message: The specified Port must be between 1 and 65535.. k8s/0/web/NS/" + clusterID,
		"v2.14.0":    "Normal EnsuredLoadBalancer Ensured load balancer [LB]",
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &world, 0, plays(version))
			r.namedPods("web", "http", "10.1.5.8")
			r.service("web", nil, named)
			if version != "v2.14.0" {
				r.saw("web", strings.Replace(want, "NS", r.ns, 1))
				return
			}
			lb := r.lb(r.synced("web", "").Labels[labelID])
			r.saw("web", strings.Replace(want, "LB", lb.ID, 1))
			if got := lb.VGroups[0]; got.Name != fmt.Sprintf("k8s/http/web/%s/%s", r.ns, clusterID) || len(got.Backends) != 1 || got.Backends[0].Port != 8080 {
				t.Errorf("group %+v", got)
			}
		})
	}
	t.Run("unknown name", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 0)
		r.pods("web", "10.1.5.8")
		r.service("web", nil, named)
		r.saw("web", "Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer")
	})
	t.Run("unknown name, v2.9.1", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 0, plays("v2.9.1"))
		r.pods("web", "10.1.5.8")
		svc := r.service("web", nil, named)
		r.until("a word", func() bool { return len(r.all) > 0 })
		want := failed + "Error syncing load balancer [" + r.byName(ownName(svc)).ID + "]: Message: The specified Port must be between 1 and 65535."
		r.saw("web", want)
	})
}

// TestFirstLife checks that the load balancer is deleted last.
func TestFirstLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, plays("v1.9.3.376"))
	r.service("web", map[string]string{"additional-resource-tags": "team=shop"})
	svc := r.synced("web", "")
	r.ensured("web", 1)
	lb := r.byName(ownName(svc))
	if diff := cmp.Diff(map[string]string{"team": "shop", "kubernetes.do.not.delete": ownName(svc), "ack.aliyun.com": clusterID}, lb.Tags); diff != "" {
		t.Error(diff)
	}
	if lb.ChargeType == "PayByCLCU" && lb.Spec != "" || len(lb.VGroups) != 1 || len(lb.VGroups[0].Backends) != 1 || len(lb.Listeners) != 1 {
		t.Errorf("made %+v", lb)
	}
	want := []string{
		"DescribeLoadBalancers", "DescribeLoadBalancers", "CreateLoadBalancer", "AddTags", "DescribeLoadBalancerAttribute",
		"DescribeVServerGroups", "CreateVServerGroup", "DescribeVServerGroupAttribute",
		"DescribeLoadBalancerListeners", "CreateLoadBalancerTCPListener", "StartLoadBalancerListener", "DescribeVServerGroups",
	}
	// Endpoints that arrive after the Service cause one more sync of backends, which changes nothing.
	made := r.actions()
	if more := made[min(len(want), len(made)):]; !slices.ContainsFunc(more, func(a string) bool { return !strings.HasPrefix(a, "Describe") }) {
		made = made[:min(len(want), len(made))]
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Error(diff)
	}
	r.annotate("web", "name", "shop")
	r.synced("web", svc.Labels[labelHash])
	r.ensured("web", 2) // it knows the hash that it wrote
	r.cloud.ResetCalls()
	r.pods("web", "10.1.2.3")
	r.ensured("web", 3)
	if slices.ContainsFunc(r.actions(), func(a string) bool { return strings.Contains(a, "Listener") || a == "DescribeTags" }) {
		t.Errorf("a sync of backends called %v", r.actions())
	}
	r.delete("web")
	r.gone("web")
	r.saw("web", "Normal DeletedLoadBalancer LoadBalancer Deleted SUCCESS. "+r.ns+"/web")
	if r.lb(lb.ID) != nil {
		t.Error("the load balancer is still there")
	}
}

func TestFirstEnds(t *testing.T) {
	t.Run("deletion fails", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1, plays("v1.9.3.316"), func(r *rig) {
			r.cloud.Fault(sim.Fault{Action: "DeleteLoadBalancer", Code: "SystemBusy", Count: 1})
			r.opts.BackoffBase, r.opts.Speed = 0, 1000
		})
		svc := r.service("web", nil)
		id := r.byName(ownName(r.synced("web", ""))).ID
		r.delete("web")
		r.saw("web", "Warning Failed Fail to delete loadbalancer, error Message: The system is busy.")
		r.saw("web", "Normal DeletedLoadBalancer LoadBalancer Deleted SUCCESS. "+r.ns+"/"+svc.Name)
		if r.lb(id) != nil {
			t.Error("the load balancer is still there")
		}
	})
	t.Run("deleted while it is down", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1, plays("v1.9.3.376"))
		r.service("web", nil)
		id := r.byName(ownName(r.synced("web", ""))).ID
		r.stop()
		r.delete("web")
		r.gone("web")
		r.start()
		r.service("marker", nil)
		r.synced("marker", "")
		if r.lb(id) == nil {
			t.Error("the load balancer is gone although nobody was there to delete it")
		}
	})
	t.Run("another type, on a reused one", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}}, 1, plays("v1.9.3.380"))
		r.service("web", map[string]string{"id": "lb-1"})
		r.synced("web", "")
		if lb := r.lb("lb-1"); lb.Tags["kubernetes.reused.by.user"] != "true" || len(lb.VGroups) != 1 || len(lb.Listeners) != 0 {
			t.Errorf("reused %+v", lb)
		}
		r.patch("web", `{"spec":{"type":"NodePort","allocateLoadBalancerNodePorts":null}}`)
		r.until("the marks to go", func() bool {
			svc := r.services["web"]
			return svc.Labels[labelHash] == "" && len(svc.Status.LoadBalancer.Ingress) == 0
		})
		if lb := r.lb("lb-1"); len(lb.VGroups) != 0 {
			t.Errorf("left %+v", lb)
		}
	})
	t.Run("recreated", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1, plays("v1.9.3.376"))
		r.service("web", nil)
		id := r.byName(ownName(r.synced("web", ""))).ID
		r.delete("web")
		r.gone("web")
		r.service("web", nil)
		svc := r.synced("web", "")
		if got := r.byName(ownName(svc)).ID; got == id || r.lb(id) != nil {
			t.Errorf("the new Service has %s, the old one's %s is there: %v", got, id, r.lb(id) != nil)
		}
	})
}

func TestTagActions(t *testing.T) {
	for version, want := range map[string][]string{
		"v2.4.0":  {"CreateLoadBalancer", "AddTags", "DescribeTags", "AddTags"},
		"v2.9.1":  {"CreateLoadBalancer", "TagResources", "ListTagResources", "TagResources"},
		"v2.14.0": {"CreateLoadBalancer", "ListTagResources", "TagResources"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, 1, plays(version))
			r.service("web", map[string]string{"additional-resource-tags": "team="})
			svc := r.synced("web", "")
			id := svc.Labels[labelID]
			if diff := cmp.Diff(map[string]string{"team": "", "kubernetes.do.not.delete": ownName(svc), "ack.aliyun.com": clusterID}, r.lb(id).Tags); diff != "" {
				t.Error(diff)
			}
			first := r.actions()
			r.cloud.LoseTag(id, "kubernetes.do.not.delete") // found by name
			r.cloud.ResetCalls()
			r.touch("web", "1")
			r.synced("web", svc.Labels[labelHash])
			var got []string
			for i, a := range append(first, r.actions()...) {
				// On creation, v2.14.0 compares the tags once more.
				if (strings.Contains(a, "Tag") || a == "CreateLoadBalancer") && (version != "v2.14.0" || i >= len(first) || a != "TagResources") {
					got = append(got, a)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if r.lb(id).Tags["kubernetes.do.not.delete"] != ownName(svc) {
				t.Error("the tag was not put back")
			}
		})
	}
}

// TestAttributeError: before v2.6.0 a sync ends at an attribute that cannot be changed; later releases still sync the ports.
func TestAttributeError(t *testing.T) {
	for version, goesOn := range map[string]bool{"v2.3.0": false, "v2.4.0": false, "v2.4.4": true, "v2.5.1": false, "v2.6.0": true, "v2.14.0": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, 1, plays(version))
			r.service("web", nil)
			svc := r.synced("web", "")
			lb := r.byName(ownName(svc))
			r.patch("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:"intranet"}},"spec":%s}`, prefix+"address-type", onOtherPort(81)))
			r.saw("web", failed+"Error syncing load balancer ["+lb.ID+
				"]: apply model error: update lb attribute error: alicloud: can not change LoadBalancer AddressType once created. delete and retry")
			listeners := r.lb(lb.ID).Listeners
			if got := len(listeners) == 1 && listeners[0].Port == 81; got != goesOn {
				t.Errorf("listeners %+v", listeners)
			}
			// Releases that work in parallel clean up nothing after an error.
			if groups := len(r.lb(lb.ID).VGroups); version == "v2.14.0" && groups != 2 {
				t.Errorf("%d groups, want the new and the old one", groups)
			}
		})
	}
}

// onOtherPort returns a patch with another port and a node port that the API server chooses: other Services may have taken any
// given one, and it keeps the old one for a port of the same name.
func onOtherPort(port int) string {
	return fmt.Sprintf(`{"ports":[{"name":"other","port":%d,"targetPort":8080,"protocol":"TCP"}]}`, port)
}

func TestAnnotationsOfOld(t *testing.T) {
	for _, c := range []struct {
		annotation, value, before, since string
		seen                             func(*rig, sim.LoadBalancer) bool
	}{
		{"idle-timeout", "20", "v2.0.1", "v2.1.0", func(_ *rig, lb sim.LoadBalancer) bool { return lb.Listeners[0].Config["IdleTimeout"] != "" }},
		{"hostname", "shop.example.com", "v2.1.0", "v2.3.0", func(r *rig, _ sim.LoadBalancer) bool {
			return r.get("web").Status.LoadBalancer.Ingress[0].Hostname != ""
		}},
		{"xforwardedfor-slbport", "on", "v2.8.1", "v2.9.1", func(_ *rig, lb sim.LoadBalancer) bool { return lb.Listeners[0].Config["XForwardedFor_SLBPORT"] != "" }},
	} {
		for version, want := range map[string]bool{c.before: false, c.since: true} {
			t.Run(c.annotation+", "+version, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nil, 1, plays(version))
				r.service("web", map[string]string{"protocol-port": "http:80", c.annotation: c.value})
				svc := r.synced("web", "")
				if got := c.seen(r, r.byName(ownName(svc))); got != want {
					t.Errorf("it counts: %v", got)
				}
			})
		}
	}
}

func TestOutsideTheVPC(t *testing.T) {
	for version, want := range map[string][]string{
		"v2.7.0": {failed + "Error syncing load balancer []: build lb local model error: build vserver groups error: build vgroup for port 80 error: " +
			"build eni backends error: can not find eniid for ip 172.20.0.5 in vpc vpc-1"},
		"v2.8.1": {"Normal EnsuredLoadBalancer Ensured load balancer [LB]", "Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer"},
		"v2.9.1": {"Normal SkipSyncBackends Not sync pods [172.20.0.5] whose ip is not in vpc cidrs",
			failed + `Error syncing load balancer [LB]: Message: The specified parameter "BackendServers" is not valid.`},
		"v2.11.2": {"Normal EnsuredLoadBalancer Ensured load balancer [LB]", "Normal SkipSyncBackends Not sync pods [172.20.0.5] whose ip is not in vpc cidrs"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, 0, plays(version))
			r.pods("web", "172.20.0.5")
			svc := r.service("web", nil, eni)
			r.until("a word", func() bool { return len(r.all) >= len(want) })
			for _, lb := range r.cloud.Snapshot().LoadBalancers {
				if lb.Name == ownName(svc) {
					for i := range want {
						want[i] = strings.Replace(want[i], "[LB]", "["+lb.ID+"]", 1)
					}
				}
			}
			if diff := cmp.Diff(want, r.events("web")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReportingComponent: before v2.8.0 Events have no reporting component, as in that release's library.
func TestReportingComponent(t *testing.T) {
	for version, want := range map[string]string{"v2.7.0": "", "v2.8.0": "service-controller"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, 1, plays(version))
			r.service("web", nil)
			id := r.synced("web", "").Labels[labelID]
			if e := r.saw("web", "Normal EnsuredLoadBalancer Ensured load balancer ["+id+"]"); e.ReportingController != want ||
				e.Source.Component != "service-controller" {
				t.Errorf("source %+v, reporting component %q", e.Source, e.ReportingController)
			}
		})
	}
}
