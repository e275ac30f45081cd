package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const (
	failedCLB  = "Warning SyncLoadBalancerFailed service-controller: Error syncing load balancer "
	changedCLB = "Normal AnnotationChanged service-controller: The service will be updated because the annotations has been changed."
)

var finalizedCLB = []string{"service.k8s.alibaba/resources"}

func firstCLB(actions []string, events ...string) outcome {
	return outcome{Events: events, Labels: map[string]string{}, Finalizers: finalizedCLB, Actions: actions}
}

func laterCLB(id string, actions []string, events ...string) outcome {
	return outcome{
		Events: events, Finalizers: finalizedCLB, Actions: actions, Ingress: []string{"IP(" + id + ")"},
		Labels: map[string]string{hashLabel: "of another state", idLabel: id},
	}
}

var looked = []string{"DescribeLoadBalancers", "DescribeLoadBalancers"}

var tried = append(looked[:2:2], "CreateLoadBalancer")

var made = append(tried[:3:3], "DescribeLoadBalancerAttribute", "CreateVServerGroup", "AddVServerGroupBackendServers")

var found = []string{"DescribeLoadBalancerListeners", "DescribeLoadBalancers", "DescribeVServerGroupAttribute", "DescribeVServerGroups", "ListTagResources"}

// clbScenarios returns the scenarios of CLB, with the Events that a real controller v2.14.0 wrote.
func clbScenarios() []scenario {
	reused := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}, {ID: "lb-2"}}}
	terway := sim.World{VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}}, ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}}}
	first := func(name, message string, s scenario) scenario {
		s.name, s.until, s.nodes = name, failedCLB+message, max(s.nodes, 1)
		return s
	}
	say := func(s scenario, actions []string) scenario {
		s.want = firstCLB(actions, s.until)
		return s
	}
	later := func(name, message string, actions []string, act func(*run)) scenario {
		until := failedCLB + message
		return scenario{name: name, nodes: 1, act: act, until: until, want: laterCLB("LB", actions, changedCLB, ensuredCLB, until)}
	}
	bind := func(p *run, ports ...int) {
		p.cloud.Edit(func(s *sim.State) {
			lb := s.LoadBalancers["lb-1"]
			for i, port := range ports {
				lb.Listeners = append(lb.Listeners, sim.Listener{Port: port, Protocol: "tcp", VGroup: lb.VGroups[i].ID, Status: "running"})
			}
		})
	}
	failures := []scenario{{
		name: "synced", nodes: 1, until: ensuredCLB,
		want: outcome{
			Events: []string{ensuredCLB}, Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"},
			Labels: map[string]string{hashLabel: hashOfNow, idLabel: "LB"}, Annotations: map[string]string{},
			Tags:    map[string]string{"kubernetes.do.not.delete": "NAME", "ack.aliyun.com": clusterID},
			Actions: append(made[:6:6], "CreateLoadBalancerTCPListener", "StartLoadBalancerListener"),
		},
	}, {
		name: "touched", nodes: 1, until: "Normal TypeChanged service-controller: type change LoadBalancer - NodePort",
		act: func(p *run) {
			was := p.synced("").Labels[hashLabel]
			p.touch()
			p.synced(was)
			p.patch(`{"spec":{"type":"NodePort","allocateLoadBalancerNodePorts":null}}`)
			p.saw("Normal CleanLoadBalancer service-controller: Clean load balancer")
		},
		want: outcome{
			Events: []string{
				changedCLB, "Normal CleanLoadBalancer service-controller: Clean load balancer", ensuredCLB,
				"Normal TypeChanged service-controller: type change LoadBalancer - NodePort",
			},
			Labels: map[string]string{}, Tags: map[string]string{},
			Actions: append(slices.Sorted(slices.Values(slices.Repeat(found, 2))), "SetLoadBalancerDeleteProtection", "DeleteLoadBalancer"),
		},
	},
		say(first("arrearage", "[]: Message: The account is arrearage.", scenario{world: sim.World{Account: sim.Account{Arrearage: true}}}), tried),
		say(first("balance", "[]: Message: Your account does not have enough balance.", scenario{world: sim.World{Account: sim.Account{Balance: "1.00"}}}), tried),
		say(first("throttled", "[]: Message: Request was denied due to user flow control.",
			scenario{arrange: fault("DescribeLoadBalancers", "Throttling.User", "", 0)}), looked[:1]),
		say(first("shared instance", "[]: Message: The share instance has been discontinued.",
			scenario{arrange: fault("CreateLoadBalancer", "ShareSlbHaltSales", "The share instance has been discontinued.", 0)}), tried),
		say(first("vSwitch full", "[]: Message: The specified VSwitch has no available ip.", scenario{
			world:   sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2"}}},
			service: annotated("address-type", "intranet", "vswitch-id", "vsw-1"),
		}), tried),
		say(first("vSwitch missing", "[]: Message: The specified VSwitch does not exist.",
			scenario{service: annotated("address-type", "intranet", "vswitch-id", "vsw-nope")}), tried),
		say(first("no permission to read", "[]: Message: User not authorized to operate on the specified resource, or this API doesn't support RAM.",
			scenario{arrange: fault("DescribeLoadBalancers", "Forbidden.RAM",
				"User not authorized to operate on the specified resource, or this API doesn't support RAM.", 403)}), looked[:1]),
		say(first("no permission to create", "[]: Message: You are not authorized to do this action. You should be authorized by RAM.",
			scenario{arrange: fault("CreateLoadBalancer", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)}), tried),
		say(first("backend quota", "[LB]: Message: The backend server number has reached to the quota limit of this load balancers, there are unprocessed "+
			"listeners in reconcile]",
			scenario{nodes: 2, world: sim.World{Quotas: []sim.Quota{{Name: "slb_quota_backendservers_num", Total: 1}}}}), made),
		say(first("port", "[LB]: Message: The specified Port must be between 1 and 65535., there are unprocessed listeners in reconcile]",
			scenario{nodes: 1, arrange: fault("AddVServerGroupBackendServers", "InvalidParameter", "The specified Port must be between 1 and 65535.", 0)}), made),
		say(first("network conflict", "[lb-other]: Message: there are network conflicts in specified parameter.", scenario{
			nodes: 1, service: annotated("id", "lb-other"), world: sim.World{
				VPCs:          []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
				VSwitches:     []sim.VSwitch{{ID: "vsw-1"}, {ID: "vsw-2", VPC: "vpc-2", CIDR: "10.9.0.0/20"}},
				LoadBalancers: []sim.LoadBalancer{{ID: "lb-other", VSwitch: "vsw-2"}},
			},
		}), nil),
		say(first("no such load balancer", "[lb-nope]: Message: The specified LoadBalancerId does not exist.",
			scenario{service: annotated("id", "lb-nope")}), []string{"DescribeLoadBalancerAttribute"}),
		say(first("of another Service", "[lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be reused, can not "+
			"reuse loadbalancer created by kubernetes.", scenario{
			service: annotated("id", "lb-1"), world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1",
				Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}},
		}), []string{"DescribeLoadBalancerAttribute", "DescribeVServerGroups", "ListTagResources"}),
		say(first("raw error", "[]: build lb local model error: build vserver groups error: call DescribeNetworkInterfaces: SDK.ServerError\nErrorCode: "+
			"NoPermission\nRecommend: …\nRequestId: …\n"+
			"Message: You are not authorized to do this action. You should be authorized by RAM.\nRespHeaders: map[…", scenario{
			service: eni, arrange: both(func(p *run) { p.pods("10.1.5.9") },
				fault("DescribeNetworkInterfaces", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)),
		}), []string{"DescribeNetworkInterfaces"}),
		{
			name: "vips", nodes: 1, world: reused, service: annotated("id", "lb-1"),
			act: func(p *run) {
				bind(p, 80)
				p.repoint()
			},
			until: failedCLB + "[lb-1]: Message: there are vips associating with this vServer group.",
			want: laterCLB("lb-1", []string{
				"DescribeLoadBalancerAttribute", "DescribeVServerGroupAttribute", "DescribeVServerGroups", "ListTagResources",
				"CreateVServerGroup", "AddVServerGroupBackendServers", "DeleteVServerGroup",
			},
				"Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]",
				"Normal ServiceSpecChanged service-controller: The service will be updated because the spec has been changed.",
				failedCLB+"[lb-1]: Message: there are vips associating with this vServer group.",
			),
		}, {
			name: "vips at the end", nodes: 1, world: reused,
			service: func(svc *corev1.Service) {
				annotated("id", "lb-1")(svc)
				svc.Spec.Ports[0].Name = "a"
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "b", Port: 81})
			},
			act: func(p *run) { bind(p, 80, 81); p.delete() },
			until: "Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [lb-1]: Message: there are vips associating with this " +
				"vServer group., ",
			want: laterCLB("lb-1", nil,
				"Normal DeleteTimestampChanged service-controller: The service will be updated because the delete timestamp has been changed.",
				"Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]",
				"Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [lb-1]: Message: there are vips associating with this vServer group., ",
			),
		}, {
			name: "protected from deletion", nodes: 1,
			arrange: fault("DeleteLoadBalancer", "OperationDenied.DeleteProtectionIsOn", "The loadbalancer can not be deleted due to DeleteProtection is enabled.", 0),
			act:     func(p *run) { p.delete() },
			until: "Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [LB]: Message: The loadbalancer can not be deleted due to " +
				"DeleteProtection is enabled.",
			want: laterCLB("LB", append(found[:5:5], "SetLoadBalancerDeleteProtection", "DeleteLoadBalancer"),
				"Normal DeleteTimestampChanged service-controller: The service will be updated because the delete timestamp has been changed.",
				ensuredCLB,
				"Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [LB]: Message: The loadbalancer can not be deleted due to "+
					"DeleteProtection is enabled.",
			),
		}, {
			name: "gone, endpoints changed", nodes: 1,
			act:   func(p *run) { p.lose(); p.pods("10.1.2.3") },
			until: failedCLB + "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:NAME]",
			want: outcome{
				Events:     []string{ensuredCLB, failedCLB + "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:NAME]"},
				Finalizers: finalizedCLB, Ingress: []string{"GONE"}, Actions: looked, Labels: map[string]string{hashLabel: hashOfNow, idLabel: "LB"},
			},
		}, {
			name: "gone, touched", nodes: 1,
			act: func(p *run) { p.lose(); p.touch() },
			until: failedCLB + "[]: apply model error: update lb attribute error: alicloud: can not find loadbalancer, but it's defined in service [GONE] this " +
				"may happen when you delete the loadbalancer",
			want: outcome{
				Events: []string{changedCLB, ensuredCLB, failedCLB + "[]: apply model error: update lb attribute error: alicloud: " +
					"can not find loadbalancer, but it's defined in service [GONE] this may happen when you delete the loadbalancer"},
				Finalizers: finalizedCLB, Ingress: []string{"GONE"}, Actions: looked, Labels: map[string]string{hashLabel: "of another state", idLabel: "LB"},
			},
		}, {
			name: "rebound", nodes: 1, world: reused, service: annotated("id", "lb-1"),
			act: func(p *run) { p.annotate("id", "lb-2") },
			until: failedCLB + "[lb-2]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-2 can not be reused, service has been " +
				"associated with ip [IP(lb-1)], cannot be bound to ip [IP(lb-2)]",
			want: laterCLB("lb-1", []string{"DescribeLoadBalancerAttribute", "DescribeVServerGroups", "ListTagResources"},
				changedCLB, "Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]",
				failedCLB+"[lb-2]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-2 can not be reused, service has been associated "+
					"with ip [IP(lb-1)], cannot be bound to ip [IP(lb-2)]",
			),
		},
		later("address type", "[LB]: apply model error: update lb attribute error: alicloud: can not change LoadBalancer AddressType once created. "+
			"delete and retry", found,
			func(p *run) { p.annotate("address-type", "intranet") }),
		later("resource group", "[LB]: apply model error: update lb attribute error: alicloud: can not change ResourceGroupId once created", found,
			func(p *run) { p.annotate("resource-group-id", "rg-other") }),
		later("charge type", "[LB]: Message: User does not have permission modify InstanceChargeType to spec.",
			append(found[:5:5], "ModifyLoadBalancerInstanceChargeType"),
			func(p *run) { p.annotate("instance-charge-type", "PayBySpec") }),
		later("charge type hides address type", "[LB]: Message: User does not have permission modify InstanceChargeType to spec.]",
			append(found[:5:5], "ModifyLoadBalancerInstanceChargeType"),
			func(p *run) {
				p.patch(`{"metadata":{"annotations":{%q:"PayBySpec",%q:"intranet"}}}`, lbPrefix+"instance-charge-type", lbPrefix+"address-type")
			}),
		{
			name: "no network interface", world: terway, service: eni, arrange: func(p *run) { p.pods("10.1.5.8", "10.1.5.9") },
			until: "Warning SkipSyncBackends service-controller: Not sync pods [10.1.5.9] whose eni is invalid",
			want: outcome{Events: []string{"Warning SkipSyncBackends service-controller: Not sync pods [10.1.5.9] whose eni is invalid"}, Finalizers: finalizedCLB,
				Ingress: []string{"IP(LB)"}},
		}, {
			name: "outside the VPC", world: terway, service: eni, arrange: func(p *run) { p.pods("172.20.0.5") },
			until: ensuredCLB,
			want: outcome{
				Events:     []string{ensuredCLB, "Normal SkipSyncBackends service-controller: Not sync pods [172.20.0.5] whose ip is not in vpc cidrs"},
				Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"}, Labels: map[string]string{hashLabel: hashOfNow, idLabel: "LB"},
			},
		}, {
			name: "no nodes", until: ensuredCLB,
			want: outcome{
				Events:     []string{ensuredCLB, "Normal UnAvailableLoadBalancer service-controller: There are no available nodes for LoadBalancer"},
				Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"}, Labels: map[string]string{hashLabel: hashOfNow, idLabel: "LB"},
			},
		},
	}
	return slices.Concat(
		failures, attributeScenarios(), reuseScenarios(), endScenarios(), backendScenarios(), eventScenarios(), healingScenarios(), releaseScenarios(),
	)
}

const (
	cleanCLB   = "Normal CleanLoadBalancer service-controller: Clean load balancer"
	deletedCLB = "Normal DeleteTimestampChanged service-controller: The service will be updated because the delete timestamp has been changed."
	specCLB    = "Normal ServiceSpecChanged service-controller: The service will be updated because the spec has been changed."
	mergedCLB  = failedCLB + "[LB]: apply model error: update lb attribute error: "
)

func doneCLB(actions []string, events ...string) outcome {
	slices.Sort(events)
	return outcome{
		Events: events, Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"}, Actions: actions,
		Labels: map[string]string{hashLabel: hashOfNow, idLabel: "LB"},
	}
}

func and(actions []string, more ...string) []string {
	return append(slices.Clip(slices.Clone(actions)), more...)
}

func attributeScenarios() []scenario {
	change := func(name string, actions []string, first func(*corev1.Service), act func(*run)) scenario {
		return scenario{
			name: name, nodes: 1, service: first, act: func(p *run) { act(p); p.count(3) }, until: ensuredCLB,
			want: doneCLB(actions, changedCLB, ensuredCLB),
		}
	}
	fails := func(name, message string, act func(*run)) scenario {
		until := mergedCLB + message
		return scenario{name: name, nodes: 1, act: act, until: until, want: laterCLB("LB", found, changedCLB, ensuredCLB, until)}
	}
	set := func(pairs ...string) func(*run) {
		return func(p *run) {
			var list []string
			for i := 0; i < len(pairs); i += 2 {
				list = append(list, fmt.Sprintf("%q:%q", lbPrefix+pairs[i], pairs[i+1]))
			}
			p.patch(`{"metadata":{"annotations":{%s}}}`, strings.Join(list, ","))
		}
	}
	return []scenario{
		// The controller ignores a spec if the load balancer is billed by use.
		change("spec, paid by use", found, nil, set("spec", "slb.s1.small")),
		change("spec", and(found, "ModifyLoadBalancerInstanceSpec"), annotated("instance-charge-type", "PayBySpec"), set("spec", "slb.s2.small")),
		change("spec, paid by use from the first", found, annotated("spec", "slb.s1.small"), set("spec", "slb.s2.small")),
		change("to use", and(found, "ModifyLoadBalancerInstanceChargeType"), annotated("instance-charge-type", "PayBySpec"),
			set("instance-charge-type", "PayByCLCU")),
		change("to use, which it is", found, annotated("spec", "slb.s1.small"), set("instance-charge-type", "PayByCLCU")),
		change("bandwidth", and(found, "ModifyLoadBalancerInternetSpec"), nil, set("charge-type", "paybybandwidth", "bandwidth", "7")),
		change("name", and(found, "SetLoadBalancerName"), nil, set("name", "shop")),
		change("protections", and(found, "SetLoadBalancerDeleteProtection", "SetLoadBalancerModificationProtection"), nil,
			set("delete-protection", "off", "modification-protection", "NonProtection")),
		change("listener", and(found, "SetLoadBalancerTCPListenerAttribute"), nil, set("persistence-timeout", "60")),
		fails("IP version", "alicloud: can not change LoadBalancer AddressIPVersion once created", set("ip-version", "ipv6")),
		fails("network type", "alicloud: can not change LoadBalancer network type once created", set("network-type", "vpc")),
		fails("address", "alicloud: can not change LoadBalancer address once created", set("ip", "10.9.9.9")),
		fails("zones", "[alicloud: can not change LoadBalancer master zone id once created, alicloud: can not change LoadBalancer slave zone id once created]",
			set("master-zoneid", "cn-hangzhou-z", "slave-zoneid", "cn-hangzhou-y")),
		{
			name: "resource group put back", nodes: 1, until: ensuredCLB,
			act: func(p *run) {
				p.annotate("resource-group-id", "rg-other")
				p.saw(mergedCLB + "alicloud: can not change ResourceGroupId once created")
				p.patch(`{"metadata":{"annotations":{%q:null}}}`, lbPrefix+"resource-group-id")
				p.count(5)
			},
			// The hash is again that of the last success, so only backends are checked.
			want: doneCLB(and(found, found[1:]...), changedCLB, ensuredCLB, mergedCLB+"alicloud: can not change ResourceGroupId once created"),
		}, {
			// After an error, the protection is still set, but the old group is not deleted.
			name: "no cleaning up after an error", nodes: 1, until: mergedCLB + "alicloud: can not change LoadBalancer address once created",
			act: func(p *run) {
				p.annotate("ip", "10.9.9.9")
				p.saw(mergedCLB + "alicloud: can not change LoadBalancer address once created")
				p.cloud.ResetCalls()
				p.repoint()
				p.saw(specCLB)
				p.wait("a listener of the new group", func() bool {
					return slices.ContainsFunc(p.cloud.CallsOf("ccm"), func(c sim.Call) bool { return c.Action == "SetLoadBalancerTCPListenerAttribute" })
				})
				p.count(5)
			},
			want: laterCLB("LB", and(found, "CreateVServerGroup", "AddVServerGroupBackendServers", "SetLoadBalancerTCPListenerAttribute"),
				changedCLB, ensuredCLB, specCLB, mergedCLB+"alicloud: can not change LoadBalancer address once created"),
		}, {
			name: "the vSwitch full", nodes: 1, service: annotated("address-type", "intranet"), // it belongs to nobody else
			world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2"}}},
			until: failedCLB + "[]: apply model error: update lb attribute error: create lb error: get available vswitch id error: no available vsw found",
			want: firstCLB(tried,
				failedCLB+"[]: apply model error: update lb attribute error: create lb error: get available vswitch id error: no available vsw found"),
		}, {
			name: "all vSwitches full", nodes: 1, service: annotated("address-type", "intranet"),
			options: func(o *controller.Options) { o.VSwitches = []string{"cn-hangzhou-h:vsw-1", "cn-hangzhou-h:vsw-2"} },
			world:   sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2", Free: new(0)}}},
			until:   failedCLB + "[]: apply model error: update lb attribute error: create lb error: get available vswitch id error: no available vsw found",
			want: firstCLB(and(tried, "DescribeVSwitches"),
				failedCLB+"[]: apply model error: update lb attribute error: create lb error: get available vswitch id error: no available vsw found"),
		}, {
			name: "another vSwitch", nodes: 1, service: annotated("address-type", "intranet"), until: ensuredCLB,
			world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2"}}},
			options: func(o *controller.Options) {
				o.VSwitches, o.Pick = []string{"cn-hangzhou-h:vsw-1", "cn-hangzhou-h:vsw-2"}, func(int) int { return 0 }
			},
			simulated: "a real controller begins with a vSwitch at random",
			want: doneCLB(and(tried, "DescribeVSwitches", "CreateLoadBalancer", "DescribeLoadBalancerAttribute", "CreateVServerGroup", "AddVServerGroupBackendServers",
				"CreateLoadBalancerTCPListener", "StartLoadBalancerListener"), ensuredCLB),
		}, {
			name: "public refused", nodes: 1, until: "Warning SyncLoadBalancerFailed service-controller: create public address slb is not allowed",
			options: func(o *controller.Options) { o.NoPublic = true },
			want: outcome{Events: []string{"Warning SyncLoadBalancerFailed service-controller: create public address slb is not allowed"},
				Labels: map[string]string{}},
		},
	}
}

func reuseScenarios() []scenario {
	const ensured = "Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]"
	world := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", VSwitch: "vsw-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1"}}}
	withEIP := world
	withEIP.EIPs = []sim.EIP{{ID: "eip-1", IP: "198.51.100.7", Instance: "lb-1", InstanceType: "SlbInstance"}}
	reads := []string{"DescribeLoadBalancerAttribute", "DescribeVServerGroups", "ListTagResources"}
	groups := []string{"CreateVServerGroup", "AddVServerGroupBackendServers"}
	reuse := func(name string, w sim.World, ingress string, actions []string, event string, pairs ...string) scenario {
		s := scenario{name: name, nodes: 1, world: w, service: annotated(append(pairs, "id", "lb-1")...), until: ensured}
		s.want = doneCLB(actions, ensured)
		s.want.Ingress, s.want.Labels = []string{ingress}, map[string]string{hashLabel: hashOfNow, idLabel: "lb-1"}
		s.want.Tags = map[string]string{"kubernetes.reused.by.user": "true"}
		if event != "" {
			s.want.Events = append(s.want.Events, event)
		}
		return s
	}
	return []scenario{
		reuse("reused", world, "IP(lb-1)", and(reads, and(groups, "TagResources")...), ""),
		reuse("reused with listeners", world, "IP(lb-1)", and(reads, and(groups, "TagResources", "DescribeLoadBalancerListeners", "CreateLoadBalancerTCPListener",
			"StartLoadBalancerListener")...), "",
			"force-override-listeners", "true"),
		reuse("EIP", withEIP, "198.51.100.7", and(reads, and(groups, "TagResources", "DescribeEipAddresses")...), "", "external-ip-type", "eip"),
		reuse("no EIP", world, "IP(lb-1)", and(reads, and(groups, "TagResources", "DescribeEipAddresses")...),
			"Warning FailedSetEIPAddress service-controller: get eip error, set external ip to slb ip", "external-ip-type", "eip"),
		reuse("host name", world, "shop.example.com", and(reads, and(groups, "TagResources")...), "", "hostname", "shop.example.com"),
		reuse("host name and EIP", withEIP, "shop.example.com", and(reads, and(groups, "TagResources", "DescribeEipAddresses")...), "", "hostname",
			"shop.example.com", "external-ip-type", "eip"),
		{
			name: "EIP, touched", nodes: 1, world: withEIP, service: annotated("id", "lb-1", "external-ip-type", "eip"), until: ensured,
			act: func(p *run) { p.touch(); p.count(3) },
			want: outcome{
				Events: []string{changedCLB, ensured}, Finalizers: finalizedCLB, Ingress: []string{"198.51.100.7"},
				Labels:  map[string]string{hashLabel: hashOfNow, idLabel: "lb-1"},
				Actions: []string{"DescribeEipAddresses", "DescribeLoadBalancerAttribute", "DescribeVServerGroupAttribute", "DescribeVServerGroups", "ListTagResources"},
			},
		},
		{
			name: "of the API server", nodes: 1, service: annotated("id", "lb-1"),
			world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"ack.aliyun.com": clusterID}}}},
			until: failedCLB + "[lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be reused, can not reuse " +
				"loadbalancer created by kubernetes.",
			want: func() outcome {
				o := firstCLB(reads, failedCLB+"[lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be reused, can not "+
					"reuse loadbalancer created by kubernetes.")
				o.Tags = map[string]string{"ack.aliyun.com": clusterID} // the tag of a reused load balancer is set after the check
				return o
			}(),
		},
		{
			name: "two with the tag", nodes: 1,
			act: func(p *run) {
				p.cloud.Edit(func(s *sim.State) {
					for _, lb := range s.LoadBalancers {
						twin := *lb
						twin.ID, twin.Address, twin.Tags = "lb-twin", "203.0.113.250", maps.Clone(lb.Tags)
						s.LoadBalancers[twin.ID] = &twin
						return
					}
				})
				p.touch()
			},
			until: failedCLB + "[]: apply model error: get load balancer attribute from cloud, error: [NS/web] find multiple loadbalances by tag, lbIds[LB,lb-twin]",
			want: laterCLB("LB", looked[:1], changedCLB, ensuredCLB,
				failedCLB+"[]: apply model error: get load balancer attribute from cloud, error: [NS/web] find multiple loadbalances by tag, lbIds[LB,lb-twin]"),
		},
	}
}

func endScenarios() []scenario {
	gone := func(actions []string, events ...string) outcome {
		slices.Sort(events)
		return outcome{Events: events, Labels: map[string]string{}, Tags: map[string]string{}, Actions: actions, Gone: true}
	}
	preserved := "Warning PreservedOnDelete service-controller: The lb [LB] will be preserved after the service is deleted."
	reads := []string{"DescribeLoadBalancerAttribute", "DescribeVServerGroupAttribute", "DescribeVServerGroups", "ListTagResources"}
	return []scenario{
		{
			name: "deleted", nodes: 1, act: func(p *run) { p.delete() }, until: cleanCLB,
			want: gone(and(found, "SetLoadBalancerDeleteProtection", "DeleteLoadBalancer"), cleanCLB, deletedCLB, ensuredCLB),
		}, {
			name: "deleted, reused", nodes: 1, world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}}, service: annotated("id", "lb-1"),
			act: func(p *run) { p.delete() }, until: cleanCLB,
			want: func() outcome {
				o := gone(and(reads, "DeleteVServerGroup"), cleanCLB, deletedCLB, "Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]")
				o.Tags = map[string]string{"kubernetes.reused.by.user": "true"}
				return o
			}(),
		}, {
			name: "deleted, vanished before", nodes: 1, act: func(p *run) { p.lose(); p.delete() }, until: cleanCLB,
			want: gone(looked, cleanCLB, deletedCLB, ensuredCLB),
		}, {
			// It keeps its name, loses its groups and listeners, and no longer belongs to a Service.
			name: "preserved", nodes: 1, service: annotated("preserve-lb-on-delete", "on"), act: func(p *run) { p.delete() }, until: cleanCLB,
			want: gone(and(found, "SetLoadBalancerDeleteProtection", "SetLoadBalancerModificationProtection", "UntagResources",
				"DeleteVServerGroup", "DeleteLoadBalancerListener"), cleanCLB, deletedCLB, ensuredCLB, preserved),
		}, {
			name: "preserved, announced", nodes: 1, service: annotated("preserve-lb-on-delete", "on"), counts: true,
			act: func(p *run) { p.touch(); p.count(4) }, until: preserved + " (x1)",
			want: doneCLB(found, changedCLB+" (x1)", ensuredCLB+" (x2)", preserved+" (x1)"),
		},
	}
}

func backendScenarios() []scenario {
	terway := sim.World{VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}}, ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}}}
	backends := []string{"DescribeLoadBalancers", "DescribeVServerGroupAttribute", "DescribeVServerGroups", "ListTagResources"}
	none := "Normal UnAvailableLoadBalancer service-controller: There are no available nodes for LoadBalancer"
	listened := []string{"CreateLoadBalancerTCPListener", "StartLoadBalancerListener"}
	pods := and(tried, and([]string{"DescribeLoadBalancerAttribute", "CreateVServerGroup", "AddVServerGroupBackendServers"}, listened...)...)
	return []scenario{
		{
			name: "named port", world: terway, arrange: func(p *run) { p.namedPods("http", "10.1.5.8") }, until: ensuredCLB,
			service: func(svc *corev1.Service) {
				eni(svc)
				svc.Spec.Ports[0].Name, svc.Spec.Ports[0].TargetPort = "http", intstr.FromString("http")
			},
			want: doneCLB(append([]string{"DescribeNetworkInterfaces"}, pods...), ensuredCLB),
		}, {
			name: "named port that no pod has", world: terway, arrange: func(p *run) { p.pods("10.1.5.8") }, until: ensuredCLB,
			service: func(svc *corev1.Service) {
				eni(svc)
				svc.Spec.Ports[0].Name, svc.Spec.Ports[0].TargetPort = "http", intstr.FromString("http")
			},
			want: doneCLB(nil, ensuredCLB, none),
		}, {
			name: "local, without pods", nodes: 1, until: ensuredCLB,
			service: func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			want:    doneCLB(nil, ensuredCLB, none),
		}, {
			// With an unchanged hash, only backends are checked.
			name: "pods come", world: terway, service: eni, arrange: func(p *run) { p.pods("172.20.0.5") },
			act: func(p *run) { p.pods("10.1.5.8"); p.count(4) }, until: ensuredCLB,
			want: doneCLB(append([]string{"DescribeNetworkInterfaces", "DescribeVpcAttribute"}, and(backends, "AddVServerGroupBackendServers")...),
				ensuredCLB, "Normal SkipSyncBackends service-controller: Not sync pods [172.20.0.5] whose ip is not in vpc cidrs"),
		}, {
			name: "network interface lost", world: terway, service: eni, arrange: func(p *run) { p.pods("10.1.5.8") },
			act: func(p *run) {
				p.cloud.Edit(func(s *sim.State) { s.ENIs["eni-1"].Status = "Deleting" })
				p.touch()
				p.saw(changedCLB) // a sync from before the resync step may write the last event, too
			},
			until: "Warning SkipSyncBackends service-controller: Skip delete and update backends to vgroup k8s/8080/web/NS/" + clusterID +
				" due to invalid backends: 10.1.5.8",
			want: doneCLB(nil, changedCLB, ensuredCLB, "Warning SkipSyncBackends service-controller: Not sync pods [10.1.5.8] whose eni is invalid",
				"Warning SkipSyncBackends service-controller: Skip delete and update backends to vgroup k8s/8080/web/NS/"+clusterID+" due to invalid backends: 10.1.5.8"),
		},
	}
}

// eventScenarios are about how client-go aggregates and limits Events, and about syncs that write none.
func eventScenarios() []scenario {
	raw := failedCLB + "[]: build lb local model error: build vserver groups error: call DescribeNetworkInterfaces: SDK.ServerError\nErrorCode: " +
		"NoPermission\nRecommend: …\nRequestId: …\n" +
		"Message: You are not authorized to do this action. You should be authorized by RAM.\nRespHeaders: map[…"
	busy := failedCLB + "[]: Message: The system is busy."
	real := func(o *controller.Options) { o.Speed = 1 } // the recorder's budget refills by the clock
	return []scenario{
		{
			// The twenty-sixth Event of a Service is dropped.
			name: "event budget", nodes: 1, counts: true, options: real, until: ensuredCLB + " (x13)",
			act: func(p *run) {
				was := p.synced("").Labels[hashLabel]
				for i := range 16 {
					p.touch()
					was = p.synced(was).Labels[hashLabel]
					p.count(int32(min(25, 3+2*i)))
				}
			},
			want: doneCLB(nil, changedCLB+" (x12)", ensuredCLB+" (x13)"),
		}, {
			name: "combined events", service: eni, counts: true, options: real,
			arrange: both(func(p *run) { p.pods("10.1.5.9") },
				fault("DescribeNetworkInterfaces", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)),
			amid: func(p *run) {
				for i := range 12 {
					p.count(int32(1 + 2*i))
					if i < 11 {
						p.touch()
					}
				}
			},
			until: strings.Replace(raw, ": Error", ": (combined from similar events): Error", 1) + " (x3)",
			want:  firstCLB(nil, changedCLB+" (x11)", strings.Replace(raw, ": Error", ": (combined from similar events): Error", 1)+" (x3)", raw+" (x1)"),
		}, {
			// An error that returns after a different one continues the count of its Event.
			name: "revived event", nodes: 1, counts: true, arrange: fault("CreateLoadBalancer", "SystemBusy", "", 0),
			amid: func(p *run) {
				p.saw(busy + " (x1)")
				p.annotate("bandwidth", "much")
				p.count(3)
				p.annotate("bandwidth", "5")
			},
			until: busy + " (x2)",
			want: firstCLB(nil, changedCLB+" (x2)", busy+" (x2)",
				failedCLB+`[]: build lb local model error: build lb attribute error: bandwidth must be integer, got [much], error: strconv.Atoi: parsing "much": `+
					`invalid syntax (x1)`),
		}, {
			// Labels and status do not trigger a sync. Only the resync step does, and it restores the address.
			name: "labels and status", nodes: 1, counts: true, until: ensuredCLB + " (x2)",
			act: func(p *run) {
				p.patch(`{"metadata":{"labels":{"team":"shop"}}}`)
				p.clear()
				p.touch()
			},
			want: func() outcome {
				o := doneCLB(found, changedCLB+" (x1)", ensuredCLB+" (x2)")
				o.Labels["team"] = "shop"
				return o
			}(),
		}, {
			name: "back-off", nodes: 1, until: ensuredCLB, retries: "DescribeLoadBalancers",
			arrange: func(p *run) {
				p.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Code: "Throttling.User", Caller: "ccm", Count: 3})
			},
			options: func(o *controller.Options) { o.BackoffBase, o.BackoffMax, o.Speed = 0, 0, 5 },
			want: func() outcome {
				o := doneCLB(nil, ensuredCLB, failedCLB+"[]: Message: Request was denied due to user flow control.")
				o.Pauses = []string{"5s", "10s", "20s"}
				return o
			}(),
		},
	}
}

func healingScenarios() []scenario {
	refused := failedCLB + "[]: Message: You are not authorized to do this action. You should be authorized by RAM."
	lost := failedCLB + "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:NAME]"
	many := map[string]string{}
	for i := range 10 {
		many[fmt.Sprint("k", i)] = "v"
	}
	untagged := func(name string, tags, want map[string]string, actions []string) scenario {
		return scenario{
			name: name, nodes: 1, until: ensuredCLB,
			act: func(p *run) {
				p.cloud.Edit(func(s *sim.State) {
					for _, lb := range s.LoadBalancers {
						lb.Tags = maps.Clone(tags)
					}
				})
				p.touch()
				p.count(3)
			},
			want: func() outcome {
				o := doneCLB(actions, changedCLB, ensuredCLB)
				o.Tags = want
				return o
			}(),
		}
	}
	byName := append([]string{"DescribeLoadBalancers"}, found...)
	return []scenario{
		{
			// A resync step is synced without waiting for the back-off.
			name: "granted, touched", nodes: 1, counts: true, until: ensuredCLB + " (x1)",
			arrange: fault("CreateLoadBalancer", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403),
			amid: func(p *run) {
				p.saw(refused + " (x1)")
				p.repair()
				p.touch()
			},
			want: doneCLB(nil, changedCLB+" (x1)", ensuredCLB+" (x1)", refused+" (x1)"),
		}, {
			name: "half made", nodes: 1, counts: true, until: ensuredCLB + " (x1)",
			arrange: fault("CreateVServerGroup", "SystemBusy", "", 0),
			amid: func(p *run) {
				p.saw(failedCLB + "[LB]: Message: The system is busy., there are unprocessed listeners in reconcile] (x1)")
				p.repair()
				p.cloud.ResetCalls()
				p.touch()
			},
			want: doneCLB([]string{
				"DescribeLoadBalancerListeners", "DescribeLoadBalancers", "DescribeVServerGroups", "ListTagResources",
				"CreateVServerGroup", "AddVServerGroupBackendServers", "CreateLoadBalancerTCPListener", "StartLoadBalancerListener",
			}, changedCLB+" (x1)", ensuredCLB+" (x1)", failedCLB+"[LB]: Message: The system is busy., there are unprocessed listeners in reconcile] (x1)"),
		},
		untagged("tag put back", map[string]string{"ack.aliyun.com": clusterID}, map[string]string{"ack.aliyun.com": clusterID,
			"kubernetes.do.not.delete": "NAME"}, and(byName, "TagResources")),
		untagged("ten tags", many, many, byName),
		{
			// Clearing the status is not enough, because the hash is unchanged. An annotation changes it and triggers a sync.
			name: "gone, cleared, touched", nodes: 1, world: sim.World{ForgetTokens: true}, counts: true, until: ensuredCLB + " (x1)",
			act: func(p *run) {
				p.lose()
				p.pods("10.1.2.3")
				p.saw(lost + " (x1)")
				p.clear()
				p.pods("10.1.2.4")
				p.saw(lost + " (x2)")
				p.touch()
				p.count(5)
			},
			want: doneCLB(and(looked, and(looked, and(made, "CreateLoadBalancerTCPListener", "StartLoadBalancerListener")...)...),
				changedCLB+" (x1)", ensuredCLB+" (x1)", lost+" (x2)"),
		}, {
			// Without the hash, the next retry is enough.
			name: "gone, cleared, hash removed", nodes: 1, world: sim.World{ForgetTokens: true}, until: ensuredCLB,
			options: func(o *controller.Options) { o.BackoffBase, o.BackoffMax = 0, 0 },
			act: func(p *run) {
				was := p.synced("").Status.LoadBalancer.Ingress
				p.lose()
				p.pods("10.1.2.3")
				p.saw(lost)
				p.clear()
				p.patch(`{"metadata":{"labels":{%q:null}}}`, hashLabel)
				p.wait("another load balancer", func() bool {
					now := p.svc.Status.LoadBalancer.Ingress
					return len(now) > 0 && now[0].IP != was[0].IP
				})
			},
			want: doneCLB(nil, ensuredCLB, lost),
		},
	}
}

func releaseScenarios() []scenario {
	arrears := scenario{nodes: 1, world: sim.World{Account: sim.Account{Arrearage: true}}}
	terway := sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}}}}
	const api = "Message: The specified Port must be between 1 and 65535."
	of := func(name, version, event string, finalized bool, s scenario) scenario {
		s.name, s.until, s.simulated = name+", "+version, event, "it is about "+version
		s.options = func(o *controller.Options) { o.Version = version }
		s.want = outcome{Events: []string{event}, Labels: map[string]string{}}
		if finalized {
			s.want.Finalizers = finalizedCLB
		}
		return s
	}
	named := scenario{world: terway, arrange: func(p *run) { p.namedPods("http", "10.1.5.8") }, service: func(svc *corev1.Service) {
		eni(svc)
		svc.Spec.Ports[0].Name, svc.Spec.Ports[0].TargetPort = "http", intstr.FromString("http")
	}}
	missing := scenario{world: terway, service: eni, arrange: func(p *run) { p.pods("10.1.5.9") }}
	const build, lost = "build lb local model error: build vserver groups error: ", "can not find eniid for ip 10.1.5.9 in vpc vpc-1"
	return []scenario{
		of("arrears", "v1.9.3.316", "Warning Failed service-controller: Fail to ensure loadbalancer, error Message: The account is arrearage.", false, arrears),
		of("arrears", "v1.9.3.376", "Warning SyncLoadBalancerFailed service-controller: Error syncing load balancer: Message: The account is arrearage.",
			false, arrears),
		of("arrears", "v2.1.0", "Warning SyncLoadBalancerFailed service-controller: Error syncing load balancer: Message: The account is arrearage.", true, arrears),
		of("arrears", "v2.9.1", failedCLB+"[]: Message: The account is arrearage.", true, arrears),
		of("named port", "v1.9.3.316", "Warning Failed service-controller: Fail to ensure loadbalancer, error "+api+". k8s/0/web/NS/"+clusterID, false, named),
		of("no network interface", "v2.9.1", failedCLB+"[]: "+build+"build vgroup for port 80 error: build eni backends error: "+lost, true, missing),
		of("no network interface", "v2.12.3", failedCLB+"[]: "+build+lost+", target: <nil>, node: NS-1", true, missing),
	}
}
