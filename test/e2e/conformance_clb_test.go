package e2e

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	failedCLB  = "Warning SyncLoadBalancerFailed service-controller: Error syncing load balancer "
	changedCLB = "Normal AnnotationChanged service-controller: The service will be updated because the annotations has been changed."
)

// finalizedCLB is on a Service as soon as the controller has seen it.
var finalizedCLB = []string{"service.k8s.alibaba/resources"}

// firstCLB is the outcome of a first sync that leaves nothing behind but the
// finalizer and these events.
func firstCLB(actions []string, events ...string) outcome {
	return outcome{Events: events, Labels: map[string]string{}, Finalizers: finalizedCLB, Actions: actions}
}

// laterCLB is the outcome of a sync that fails after one which succeeded: labels
// and status are as they were.
func laterCLB(id string, actions []string, events ...string) outcome {
	return outcome{
		Events: events, Finalizers: finalizedCLB, Actions: actions, Ingress: []string{"IP(" + id + ")"},
		Labels: map[string]string{hashLabel: "of another state", idLabel: id},
	}
}

// looked are the calls that find no load balancer.
var looked = []string{"DescribeLoadBalancers", "DescribeLoadBalancers"}

var tried = append(looked[:2:2], "CreateLoadBalancer")

var made = append(tried[:3:3], "DescribeLoadBalancerAttribute", "CreateVServerGroup", "AddVServerGroupBackendServers")

// found are the calls that read a load balancer of the controller's own.
var found = []string{"DescribeLoadBalancerListeners", "DescribeLoadBalancers", "DescribeVServerGroupAttribute", "DescribeVServerGroups", "ListTagResources"}

// clbScenes returns the scenes of CLB, with the events that a real controller
// v2.14.0 wrote of them.
func clbScenes() []scene {
	reused := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}, {ID: "lb-2"}}}
	terway := sim.World{VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}}, ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}}}
	first := func(name, message string, s scene) scene {
		s.name, s.until, s.nodes = name, failedCLB+message, max(s.nodes, 1)
		return s
	}
	say := func(s scene, actions []string) scene {
		s.want = firstCLB(actions, s.until)
		return s
	}
	later := func(name, message string, actions []string, act func(*play)) scene {
		until := failedCLB + message
		return scene{name: name, nodes: 1, act: act, until: until, want: laterCLB("LB", actions, changedCLB, ensuredCLB, until)}
	}
	bind := func(p *play, ports ...int) {
		p.cloud.Edit(func(s *sim.State) {
			lb := s.LoadBalancers["lb-1"]
			for i, port := range ports {
				lb.Listeners = append(lb.Listeners, sim.Listener{Port: port, Protocol: "tcp", VGroup: lb.VGroups[i].ID, Status: "running"})
			}
		})
	}
	return []scene{{
		name: "synced", nodes: 1, until: ensuredCLB,
		want: outcome{
			Events: []string{ensuredCLB}, Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"},
			Labels: map[string]string{hashLabel: "of now", idLabel: "LB"}, Annotations: map[string]string{},
			Tags:    map[string]string{"kubernetes.do.not.delete": "NAME", "ack.aliyun.com": clusterID},
			Actions: append(made[:6:6], "CreateLoadBalancerTCPListener", "StartLoadBalancerListener"),
		},
	}, {
		name: "touched", nodes: 1, until: "Normal TypeChanged service-controller: type change LoadBalancer - NodePort",
		act: func(p *play) {
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
		say(first("arrearage", "[]: Message: The account is arrearage.", scene{world: sim.World{Account: sim.Account{Arrearage: true}}}), tried),
		say(first("balance", "[]: Message: Your account does not have enough balance.", scene{world: sim.World{Account: sim.Account{Balance: "1.00"}}}), tried),
		say(first("throttled", "[]: Message: Request was denied due to user flow control.",
			scene{arrange: fault("DescribeLoadBalancers", "Throttling.User", "", 0)}), looked[:1]),
		say(first("shared instance", "[]: Message: The share instance has been discontinued.",
			scene{arrange: fault("CreateLoadBalancer", "ShareSlbHaltSales", "The share instance has been discontinued.", 0)}), tried),
		say(first("vSwitch full", "[]: Message: The specified VSwitch has no available ip.", scene{
			world:   sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}, {ID: "vsw-2"}}},
			service: annotated("address-type", "intranet", "vswitch-id", "vsw-1"),
		}), tried),
		say(first("vSwitch missing", "[]: Message: The specified VSwitch does not exist.",
			scene{service: annotated("address-type", "intranet", "vswitch-id", "vsw-nope")}), tried),
		say(first("no permission to read", "[]: Message: User not authorized to operate on the specified resource, or this API doesn't support RAM.",
			scene{arrange: fault("DescribeLoadBalancers", "Forbidden.RAM", "User not authorized to operate on the specified resource, or this API doesn't support RAM.", 403)}), looked[:1]),
		say(first("no permission to create", "[]: Message: You are not authorized to do this action. You should be authorized by RAM.",
			scene{arrange: fault("CreateLoadBalancer", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)}), tried),
		say(first("backend quota", "[LB]: Message: The backend server number has reached to the quota limit of this load balancers, there are unprocessed listeners in reconcile]",
			scene{nodes: 2, world: sim.World{Quotas: []sim.Quota{{Name: "slb_quota_backendservers_num", Total: 1}}}}), made),
		say(first("port", "[LB]: Message: The specified Port must be between 1 and 65535., there are unprocessed listeners in reconcile]",
			scene{nodes: 1, arrange: fault("AddVServerGroupBackendServers", "InvalidParameter", "The specified Port must be between 1 and 65535.", 0)}), made),
		say(first("network conflict", "[lb-other]: Message: there are network conflicts in specified parameter.", scene{
			nodes: 1, service: annotated("id", "lb-other"), world: sim.World{
				VPCs:          []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
				VSwitches:     []sim.VSwitch{{ID: "vsw-1"}, {ID: "vsw-2", VPC: "vpc-2", CIDR: "10.9.0.0/20"}},
				LoadBalancers: []sim.LoadBalancer{{ID: "lb-other", VSwitch: "vsw-2"}},
			},
		}), nil),
		say(first("no such load balancer", "[lb-nope]: Message: The specified LoadBalancerId does not exist.",
			scene{service: annotated("id", "lb-nope")}), []string{"DescribeLoadBalancerAttribute"}),
		say(first("of another Service", "[lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be reused, can not reuse loadbalancer created by kubernetes.", scene{
			service: annotated("id", "lb-1"), world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}},
		}), []string{"DescribeLoadBalancerAttribute", "DescribeVServerGroups", "ListTagResources"}),
		say(first("raw error", "[]: build lb local model error: build vserver groups error: call DescribeNetworkInterfaces: SDK.ServerError\nErrorCode: NoPermission\nRecommend: …\nRequestId: …\n"+
			"Message: You are not authorized to do this action. You should be authorized by RAM.\nRespHeaders: map[…", scene{
			service: eni, arrange: both(func(p *play) { p.pods("10.1.5.9") },
				fault("DescribeNetworkInterfaces", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)),
		}), []string{"DescribeNetworkInterfaces"}),
		{
			name: "vips", nodes: 1, world: reused, service: annotated("id", "lb-1"),
			act: func(p *play) {
				port := p.synced("").Spec.Ports[0]
				bind(p, 80)
				p.patch(`{"spec":{"ports":[{"port":80,"targetPort":8080,"protocol":"TCP","nodePort":%d}]}}`, 30000+(port.NodePort-30000+1)%2768)
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
			act:   func(p *play) { bind(p, 80, 81); p.delete() },
			until: "Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [lb-1]: Message: there are vips associating with this vServer group., ",
			want: laterCLB("lb-1", nil,
				"Normal DeleteTimestampChanged service-controller: The service will be updated because the delete timestamp has been changed.",
				"Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]",
				"Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [lb-1]: Message: there are vips associating with this vServer group., ",
			),
		}, {
			name: "protected from deletion", nodes: 1,
			arrange: fault("DeleteLoadBalancer", "OperationDenied.DeleteProtectionIsOn", "The loadbalancer can not be deleted due to DeleteProtection is enabled.", 0),
			act:     func(p *play) { p.delete() },
			until:   "Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [LB]: Message: The loadbalancer can not be deleted due to DeleteProtection is enabled.",
			want: laterCLB("LB", append(found[:5:5], "SetLoadBalancerDeleteProtection", "DeleteLoadBalancer"),
				"Normal DeleteTimestampChanged service-controller: The service will be updated because the delete timestamp has been changed.",
				ensuredCLB,
				"Warning CleanLoadBalancerFailed service-controller: Error deleting load balancer [LB]: Message: The loadbalancer can not be deleted due to DeleteProtection is enabled.",
			),
		}, {
			name: "gone, endpoints changed", nodes: 1,
			act:   func(p *play) { p.lose(); p.pods("10.1.2.3") },
			until: failedCLB + "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:NAME]",
			want: outcome{
				Events:     []string{ensuredCLB, failedCLB + "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:NAME]"},
				Finalizers: finalizedCLB, Ingress: []string{"GONE"}, Actions: looked, Labels: map[string]string{hashLabel: "of now", idLabel: "LB"},
			},
		}, {
			name: "gone, touched", nodes: 1,
			act:   func(p *play) { p.lose(); p.touch() },
			until: failedCLB + "[]: apply model error: update lb attribute error: alicloud: can not find loadbalancer, but it's defined in service [GONE] this may happen when you delete the loadbalancer",
			want: outcome{
				Events: []string{changedCLB, ensuredCLB, failedCLB + "[]: apply model error: update lb attribute error: alicloud: " +
					"can not find loadbalancer, but it's defined in service [GONE] this may happen when you delete the loadbalancer"},
				Finalizers: finalizedCLB, Ingress: []string{"GONE"}, Actions: looked, Labels: map[string]string{hashLabel: "of another state", idLabel: "LB"},
			},
		}, {
			name: "rebound", nodes: 1, world: reused, service: annotated("id", "lb-1"),
			act:   func(p *play) { p.annotate("id", "lb-2") },
			until: failedCLB + "[lb-2]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-2 can not be reused, service has been associated with ip [IP(lb-1)], cannot be bound to ip [IP(lb-2)]",
			want: laterCLB("lb-1", []string{"DescribeLoadBalancerAttribute", "DescribeVServerGroups", "ListTagResources"},
				changedCLB, "Normal EnsuredLoadBalancer service-controller: Ensured load balancer [lb-1]",
				failedCLB+"[lb-2]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-2 can not be reused, service has been associated with ip [IP(lb-1)], cannot be bound to ip [IP(lb-2)]",
			),
		},
		later("address type", "[LB]: apply model error: update lb attribute error: alicloud: can not change LoadBalancer AddressType once created. delete and retry", found,
			func(p *play) { p.annotate("address-type", "intranet") }),
		later("resource group", "[LB]: apply model error: update lb attribute error: alicloud: can not change ResourceGroupId once created", found,
			func(p *play) { p.annotate("resource-group-id", "rg-other") }),
		later("charge type", "[LB]: Message: User does not have permission modify InstanceChargeType to spec.", append(found[:5:5], "ModifyLoadBalancerInstanceChargeType"),
			func(p *play) { p.annotate("instance-charge-type", "PayBySpec") }),
		later("charge type hides address type", "[LB]: Message: User does not have permission modify InstanceChargeType to spec.]", append(found[:5:5], "ModifyLoadBalancerInstanceChargeType"),
			func(p *play) {
				p.patch(`{"metadata":{"annotations":{%q:"PayBySpec",%q:"intranet"}}}`, lbPrefix+"instance-charge-type", lbPrefix+"address-type")
			}),
		{
			name: "no network interface", world: terway, service: eni, arrange: func(p *play) { p.pods("10.1.5.8", "10.1.5.9") },
			until: "Warning SkipSyncBackends service-controller: Not sync pods [10.1.5.9] whose eni is invalid",
			want:  outcome{Events: []string{"Warning SkipSyncBackends service-controller: Not sync pods [10.1.5.9] whose eni is invalid"}, Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"}},
		}, {
			name: "outside the VPC", world: terway, service: eni, arrange: func(p *play) { p.pods("172.20.0.5") },
			until: ensuredCLB,
			want: outcome{
				Events:     []string{ensuredCLB, "Normal SkipSyncBackends service-controller: Not sync pods [172.20.0.5] whose ip is not in vpc cidrs"},
				Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"}, Labels: map[string]string{hashLabel: "of now", idLabel: "LB"},
			},
		}, {
			name: "no nodes", until: ensuredCLB,
			want: outcome{
				Events:     []string{ensuredCLB, "Normal UnAvailableLoadBalancer service-controller: There are no available nodes for LoadBalancer"},
				Finalizers: finalizedCLB, Ingress: []string{"IP(LB)"}, Labels: map[string]string{hashLabel: "of now", idLabel: "LB"},
			},
		},
	}
}
