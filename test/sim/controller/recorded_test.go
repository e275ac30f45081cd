package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/test/sim"
)

const failed = "Warning SyncLoadBalancerFailed "

// TestFirstSyncFails tests failures of a first sync against the recorded Events of a real v2.14.0.
func TestFirstSyncFails(t *testing.T) {
	none := func(r *rig) {}
	for _, c := range []struct {
		name        string
		world       sim.World
		nodes       int
		arrange     func(*rig)
		annotations map[string]string
		want        string // LB is the ID of the load balancer
	}{{
		name: "arrearage", world: sim.World{Account: sim.Account{Arrearage: true}},
		want: failed + "Error syncing load balancer []: Message: The account is arrearage.",
	}, {
		name: "balance", world: sim.World{Account: sim.Account{Balance: "1.00"}},
		want: failed + "Error syncing load balancer []: Message: Your account does not have enough balance.",
	}, {
		name:    "throttled",
		arrange: func(r *rig) { r.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Code: "Throttling.User"}) },
		want:    failed + "Error syncing load balancer []: Message: Request was denied due to user flow control.",
	}, {
		name: "shared instance",
		arrange: func(r *rig) {
			r.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", Code: "ShareSlbHaltSales", Message: "The share instance has been discontinued."})
		},
		want: failed + "Error syncing load balancer []: Message: The share instance has been discontinued.",
	}, {
		name: "vSwitch full", world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2"}}},
		annotations: map[string]string{"address-type": "intranet", "vswitch-id": "vsw-1"},
		want:        failed + "Error syncing load balancer []: Message: The specified VSwitch has no available ip.",
	}, {
		name:        "vSwitch missing",
		annotations: map[string]string{"address-type": "intranet", "vswitch-id": "vsw-nope"},
		want:        failed + "Error syncing load balancer []: Message: The specified VSwitch does not exist.",
	}, {
		name:    "no permission to read",
		arrange: func(r *rig) { r.cloud.Revoke("ccm", "slb:DescribeLoadBalancers") },
		want:    failed + "Error syncing load balancer []: Message: User not authorized to operate on the specified resource, or this API doesn't support RAM.",
	}, {
		name: "no permission to create",
		arrange: func(r *rig) {
			r.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", Code: "NoPermission", Status: 403,
				Message: "You are not authorized to do this action. You should be authorized by RAM."})
		},
		want: failed + "Error syncing load balancer []: Message: You are not authorized to do this action. You should be authorized by RAM.",
	}, {
		name: "backend quota", world: sim.World{Quotas: []sim.Quota{{Name: "slb_quota_backendservers_num", Total: 1}}}, nodes: 2,
		want: failed + "Error syncing load balancer [LB]: Message: The backend server number has reached to the quota limit of this load balancers, there are " +
			"unprocessed listeners in reconcile]",
	}, {
		name: "port", nodes: 1,
		arrange: func(r *rig) {
			r.cloud.Fault(sim.Fault{Action: "AddVServerGroupBackendServers", Code: "InvalidParameter", Message: "The specified Port must be between 1 and 65535."})
		},
		want: failed + "Error syncing load balancer [LB]: Message: The specified Port must be between 1 and 65535., there are unprocessed listeners in reconcile]",
	}, {
		name: "network conflict", nodes: 1, world: sim.World{
			VPCs:          []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
			VSwitches:     []sim.VSwitch{{ID: "vsw-1"}, {ID: "vsw-2", VPC: "vpc-2", CIDR: "10.9.0.0/20"}},
			LoadBalancers: []sim.LoadBalancer{{ID: "lb-other", VSwitch: "vsw-2"}},
		},
		annotations: map[string]string{"id": "lb-other"},
		want:        failed + "Error syncing load balancer [lb-other]: Message: there are network conflicts in specified parameter.",
	}, {
		name:        "no such load balancer",
		annotations: map[string]string{"id": "lb-nope"},
		want:        failed + "Error syncing load balancer [lb-nope]: Message: The specified LoadBalancerId does not exist.",
	}, {
		name: "of another Service", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}},
		annotations: map[string]string{"id": "lb-1"},
		want: failed + "Error syncing load balancer [lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be " +
			"reused, can not reuse loadbalancer created by kubernetes.",
	}, {
		name: "of the API server", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"ack.aliyun.com": "c1"}}}},
		annotations: map[string]string{"id": "lb-1"},
		want: failed + "Error syncing load balancer [lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be " +
			"reused, can not reuse loadbalancer created by kubernetes.",
	}, {
		name: "public refused", arrange: func(r *rig) { r.opts.NoPublic = true },
		want: failed + "create public address slb is not allowed",
	}, {
		name: "all vSwitches full", world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2", Free: new(0)}}},
		annotations: map[string]string{"address-type": "intranet"},
		want: failed + "Error syncing load balancer []: apply model error: update lb attribute error: create lb error: get available vswitch id error: " +
			"no available vsw found",
	}, {
		name: "no vSwitches known", arrange: func(r *rig) { r.opts.VSwitches = nil },
		annotations: map[string]string{"address-type": "intranet"},
		want: failed + "Error syncing load balancer []: apply model error: update lb attribute error: create lb error: set model default value error: " +
			"get vsw id from metadata error: no vswitches found",
	}, {
		name:        "bandwidth",
		annotations: map[string]string{"bandwidth": "much"},
		want: failed + `Error syncing load balancer []: build lb local model error: build lb attribute error: bandwidth must be integer, got [much], ` +
			`error: strconv.Atoi: parsing "much": invalid syntax`,
	}, {
		name:        "listener annotation",
		annotations: map[string]string{"idle-timeout": "long"},
		want: failed + `Error syncing load balancer []: build lb local model error: builid lb listener error: build listener from servicePort 80 ` +
			`error: Annotation IdleTimeout must be integer, but got [long]. message=[strconv.Atoi: parsing "long": invalid syntax] `,
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			arrange := c.arrange
			if arrange == nil {
				arrange = none
			}
			r := newRig(t, &c.world, c.nodes, arrange)
			svc := r.service("web", c.annotations)
			want := c.want
			if strings.Contains(want, "LB") {
				// The load balancer exists before the Event that names it.
				r.until("a failure", func() bool { return len(r.all) > 0 && hasReason(r, "SyncLoadBalancerFailed") })
				want = strings.Replace(want, "LB", r.byName(ownName(svc)).ID, 1)
			}
			e := r.saw("web", want)
			if e.Source.Component != "service-controller" || e.ReportingController != "service-controller" || e.Source.Host != "" {
				t.Errorf("source %+v, reporting controller %q", e.Source, e.ReportingController)
			}
			now := r.get("web")
			if len(now.Labels) > 0 || len(now.Status.LoadBalancer.Ingress) > 0 {
				t.Errorf("a failed sync left labels %v and addresses %v", now.Labels, now.Status.LoadBalancer.Ingress)
			}
			var finalizers []string
			if c.name != "public refused" {
				finalizers = []string{"service.k8s.alibaba/resources"}
			}
			if diff := cmp.Diff(finalizers, now.Finalizers); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func hasReason(r *rig, reason string) bool {
	for _, e := range r.all {
		if e.Reason == reason {
			return true
		}
	}
	return false
}

func (r *rig) byName(name string) sim.LoadBalancer {
	r.Helper()
	for _, lb := range r.cloud.Snapshot().LoadBalancers {
		if lb.Name == name {
			return lb
		}
	}
	r.Fatalf("there is no load balancer named %s", name)
	return sim.LoadBalancer{}
}

// TestLaterSyncFails tests failures of a synced Service against recorded Events.
func TestLaterSyncFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		before map[string]string // annotations of the first sync
		world  sim.World
		breaks func(*rig)
		want   string // LB, IP and TAG are the load balancer's ID, address and tag
	}{{
		name:   "rebound",
		world:  sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}, {ID: "lb-2"}}},
		before: map[string]string{"id": "lb-1"},
		breaks: func(r *rig) { r.annotate("web", "id", "lb-2") },
		want: "Error syncing load balancer [lb-2]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-2 can not be reused, service " +
			"has been associated with ip [IP], cannot be bound to ip [IP2]",
	}, {
		name:   "address type",
		breaks: func(r *rig) { r.annotate("web", "address-type", "intranet") },
		want: "Error syncing load balancer [LB]: apply model error: update lb attribute error: alicloud: can not change LoadBalancer AddressType once " +
			"created. delete and retry",
	}, {
		name:   "resource group",
		breaks: func(r *rig) { r.annotate("web", "resource-group-id", "rg-other") },
		want:   "Error syncing load balancer [LB]: apply model error: update lb attribute error: alicloud: can not change ResourceGroupId once created",
	}, {
		name:   "charge type",
		breaks: func(r *rig) { r.annotate("web", "instance-charge-type", "PayBySpec") },
		want:   "Error syncing load balancer [LB]: Message: User does not have permission modify InstanceChargeType to spec.",
	}, {
		name: "charge type hides address type",
		breaks: func(r *rig) {
			r.patch("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:"PayBySpec",%q:"intranet"}}}`, prefix+"instance-charge-type", prefix+"address-type"))
		},
		want: "Error syncing load balancer [LB]: Message: User does not have permission modify InstanceChargeType to spec.]",
	}, {
		name:   "gone, after a touch",
		breaks: func(r *rig) { r.cloud.DropLoadBalancer(r.get("web").Labels[labelID]); r.touch("web", "1") },
		want: "Error syncing load balancer []: apply model error: update lb attribute error: alicloud: can not find loadbalancer, but it's defined in " +
			"service [IP] this may happen when you delete the loadbalancer",
	}, {
		name:   "gone, after a change of endpoints",
		breaks: func(r *rig) { r.cloud.DropLoadBalancer(r.get("web").Labels[labelID]); r.pods("web", "10.1.2.3") },
		want:   "Error syncing load balancer []: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:TAG]",
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &c.world, 1)
			r.service("web", c.before)
			svc := r.synced("web", "")
			r.saw("web", "Normal EnsuredLoadBalancer Ensured load balancer ["+svc.Labels[labelID]+"]")
			want := strings.NewReplacer("LB", svc.Labels[labelID], "IP2", r.address("lb-2"), "IP", svc.Status.LoadBalancer.Ingress[0].IP, "TAG", ownName(svc))
			c.breaks(r)
			r.saw("web", failed+strings.ReplaceAll(want.Replace(strings.ReplaceAll(c.want, "LoadBalancer", "\x00")), "\x00", "LoadBalancer"))
			now := r.get("web")
			if diff := cmp.Diff(svc.Labels, now.Labels); diff != "" {
				t.Error("a failed sync changed labels", diff)
			}
			if diff := cmp.Diff(svc.Status, now.Status); diff != "" {
				t.Error("a failed sync changed the status", diff)
			}
		})
	}
}

func (r *rig) address(id string) string {
	if lb := r.lb(id); lb != nil {
		return lb.Address
	}
	return ""
}

func TestGroupInUse(t *testing.T) {
	const text = "Message: there are vips associating with this vServer group."
	bind := func(r *rig, listeners ...int) {
		r.cloud.Edit(func(s *sim.State) {
			lb := s.LoadBalancers["lb-1"]
			for i, port := range listeners {
				lb.Listeners = append(lb.Listeners, sim.Listener{Port: port, Protocol: "tcp", VGroup: lb.VGroups[i].ID, Status: "running"})
			}
		})
	}
	world := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}}

	t.Run("port changed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 1)
		r.service("web", map[string]string{"id": "lb-1"})
		r.synced("web", "")
		bind(r, 80)
		r.patch("web", fmt.Sprintf(`{"spec":%s}`, onOtherPort(80)))
		r.saw("web", failed+"Error syncing load balancer [lb-1]: "+text)
	})
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 1)
		r.service("web", map[string]string{"id": "lb-1"}, func(s *corev1.Service) {
			s.Spec.Ports[0].Name = "a"
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "b", Port: 81})
		})
		r.synced("web", "")
		bind(r, 80, 81)
		r.delete("web")
		r.saw("web", "Warning CleanLoadBalancerFailed Error deleting load balancer [lb-1]: "+text+", ")
		if len(r.get("web").Finalizers) == 0 {
			t.Error("the finalizer does not hold the Service")
		}
	})
}

// TestDeletionProtected tests deletion protection that is enabled again during the deletion.
func TestDeletionProtected(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", nil)
	id := r.synced("web", "").Labels[labelID]
	r.cloud.Fault(sim.Fault{
		Action: "DeleteLoadBalancer", Code: "OperationDenied.DeleteProtectionIsOn", Count: 1,
		Message: "The loadbalancer can not be deleted due to DeleteProtection is enabled.",
	})
	r.delete("web")
	r.saw("web", "Warning CleanLoadBalancerFailed Error deleting load balancer ["+id+
		"]: Message: The loadbalancer can not be deleted due to DeleteProtection is enabled.")
	r.touch("web", "again")
	r.gone("web")
	if r.lb(id) != nil {
		t.Error("the load balancer is still there")
	}
}

func TestBackendsLeftOut(t *testing.T) {
	world := sim.World{VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}}, ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}}}

	for _, c := range []struct {
		name, version string
		nodes         int
		eni           bool
		pods          []string
		annotations   map[string]string
		want          []string
		fails         bool
	}{{
		name: "no nodes",
		want: []string{"Normal EnsuredLoadBalancer Ensured load balancer [LB]", "Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer"},
	}, {
		name: "no node with the label", nodes: 1, annotations: map[string]string{"backend-label": "gpu=yes"},
		want: []string{"Normal EnsuredLoadBalancer Ensured load balancer [LB]", "Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer"},
	}, {
		name: "outside the VPC", eni: true, pods: []string{"172.20.0.5"},
		want: []string{"Normal EnsuredLoadBalancer Ensured load balancer [LB]", "Normal SkipSyncBackends Not sync pods [172.20.0.5] whose ip is not in vpc cidrs"},
	}, {
		name: "no network interface", eni: true, pods: []string{"10.1.5.8", "10.1.5.9"},
		want: []string{"Warning SkipSyncBackends Not sync pods [10.1.5.9] whose eni is invalid"}, // and no EnsuredLoadBalancer
	}, {
		name: "no network interface, v2.12.3", version: "v2.12.3", eni: true, pods: []string{"10.1.5.9"}, fails: true,
		want: []string{failed + "Error syncing load balancer []: build lb local model error: build vserver groups error: can not find eniid for ip 10.1.5.9 " +
			"in vpc vpc-1, target: NS/pod-10-1-5-9, node: NS-1"},
	}, {
		name: "no network interface, v2.9", version: "v2.9.1", eni: true, pods: []string{"10.1.5.9"}, fails: true,
		want: []string{failed + "Error syncing load balancer []: build lb local model error: build vserver groups error: build vgroup for port 80 error: " +
			"build eni backends error: can not find eniid for ip 10.1.5.9 in vpc vpc-1"},
	}, {
		name: "outside the VPC, v2.1", version: "v2.1.0", eni: true, pods: []string{"172.20.0.5"}, fails: true,
		want: []string{failed + "Error syncing load balancer: build lb local model error: build vserver groups error: build vgroup for port 80 error: " +
			"build eni backends error: can not find eniid for ip 172.20.0.5 in vpc vpc-1"},
	}, {
		name: "no nodes, v1.9.3.376", version: "v1.9.3.376",
		want: []string{"Normal EnsuredLoadBalancer Ensured load balancer", "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer"},
	}, {
		name: "no nodes, v1.9.3.316", version: "v1.9.3.316",
		want: []string{"Normal EnsuredLoadBalancer Ensured load balancer", "Warning NoBackend There are no available nodes for loadbalancer"},
	}} {

		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &world, c.nodes, func(r *rig) { r.opts.Version = c.version })
			var how []func(*corev1.Service)
			if c.eni {
				how = append(how, eni)
				r.pods("web", c.pods...)
			}
			r.service("web", c.annotations, how...)
			lb := ""
			if !c.fails {
				lb = r.byName(ownName(r.synced("web", ""))).ID
			}
			var want []string
			for _, w := range c.want {
				w = strings.NewReplacer("[LB]", "["+lb+"]", "NS", r.ns).Replace(w)
				r.saw("web", w)
				want = append(want, w)
			}
			if diff := cmp.Diff(want, r.events("web")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRawError tests an ECS error, which an Event shows whole, with line breaks, code and request ID.
func TestRawError(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 0, func(r *rig) { r.cloud.Revoke("ccm", "ecs:DescribeNetworkInterfaces") })
	r.pods("web", "10.1.5.9")
	r.service("web", nil, eni)
	const begin = "Error syncing load balancer []: build lb local model error: build vserver groups error: call DescribeNetworkInterfaces: " +
		"SDK.ServerError\nErrorCode: "
	var message string
	r.until("a raw error", func() bool {
		for _, e := range r.all {
			if strings.HasPrefix(e.Message, begin) {
				message = e.Message
			}
		}
		return message != ""
	})
	for _, want := range []string{"\nRecommend: ", "\nRequestId: ", "\nMessage: You are not authorized to do this action. You should be authorized by RAM.",
		"\nRespHeaders: map[", "AuthAction:ecs:DescribeNetworkInterfaces"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in %q", want, message)
		}
	}
}
