package e2e

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const (
	ensuredNLB   = "Normal EnsuredLoadBalancer nlb-controller: Ensured load balancer [LB]"
	failedNLB    = "Warning SyncLoadBalancerFailed nlb-controller: Error syncing load balancer "
	uncleanedNLB = "Warning CleanLoadBalancerFailed nlb-controller: Error deleting load balancer "
	cleanedNLB   = "Normal CleanLoadBalancer nlb-controller: Clean load balancer"
	changedNLB   = "Normal AnnotationChanged nlb-controller: The service will be updated because the annotations has been changed."
	specNLB      = "Normal ServiceSpecChanged nlb-controller: The service will be updated because the spec has been changed."
	deletedNLB   = "Normal DeleteTimestampChanged nlb-controller: The service will be updated because the delete timestamp has been changed."
	unservedNLB  = "Normal UnAvailableLoadBalancer nlb-controller: There are no available nodes for NetworkLoadBalancer"
	preservedNLB = "Warning PreservedOnDelete nlb-controller: The lb [LB] will be preserved after the service is deleted."

	nameNLB    = "LB.cn-hangzhou.nlb.aliyuncs.com"
	mapsNLB    = "cn-hangzhou-h:vsw-1"
	groupLabel = "service.k8s.alibaba/security-group-id"
)

var (
	finalizedNLB = []string{"service.k8s.alibaba/nlb"}
	labelsNLB    = map[string]string{hashLabel: hashOfNow, idLabel: "LB"}
	tagsNLB      = map[string]string{"kubernetes.do.not.delete": "NAME", "ack.aliyun.com": clusterID}

	// nlbLooked are the calls that find no NLB; nlbTried also includes the creation that follows.
	nlbLooked = []string{"ListLoadBalancers", "ListLoadBalancers"}
	nlbTried  = append(nlbLooked[:2:2], "CreateLoadBalancer")
	nlbGroup  = []string{"CreateServerGroup", "AddServersToServerGroup"}
	nlbMade   = slices.Concat(nlbTried, []string{"GetLoadBalancerAttribute"}, nlbGroup, []string{"CreateListener"})
	nlbFound  = []string{"ListLoadBalancers", "ListTagResources", "ListServerGroups", "ListServerGroupServers", "ListListeners"}
)

func network(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass = new("alibabacloud.com/nlb")
		annotated(pairs...)(svc)
	}
}

func zoned(pairs ...string) func(*corev1.Service) {
	return network(append([]string{"zone-maps", mapsNLB}, pairs...)...)
}

func ranges(list ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = list }
}

func all(changes ...func(*corev1.Service)) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for _, change := range changes {
			change(svc)
		}
	}
}

func wish(name, value string) func(*run) { return func(p *run) { p.annotate(name, value) } }

func edit(change func(s *sim.State, id string)) func(*run) {
	return func(p *run) {
		id := p.synced("").Labels[idLabel]
		p.cloud.Edit(func(s *sim.State) { change(s, id) })
	}
}

func again(change ...func(*run)) func(*run) {
	return func(p *run) {
		was := p.synced("").Labels[hashLabel]
		both(change...)(p)
		p.synced(was)
	}
}

func nlbWorld() sim.World {
	return sim.World{
		VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}},
		VSwitches: []sim.VSwitch{
			{ID: "vsw-1"}, {ID: "vsw-2", Zone: "cn-hangzhou-i", CIDR: "10.2.0.0/20"}, {ID: "vsw-6", Zone: "cn-hangzhou-k", CIDR: "10.6.0.0/20", IPv6: "2001:db8:1::/64"},
		},
		EIPs:           []sim.EIP{{ID: "eip-1", IP: "198.51.100.200"}},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}},
		ENIs:           []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}, {ID: "eni-2", IPs: []string{"10.1.5.9"}, VPC: "vpc-1"}},
		NLBs:           []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"team": "a"}}, {ID: "nlb-2"}},
		ServerGroups:   []sim.ServerGroup{{ID: "sgp-1", Name: "mine"}, {ID: "sgp-own", Name: "k8s.30000.TCP.web.shop.c1"}},
	}
}

// nlbScenarios returns the scenarios of NLB, with outcomes of a real controller v2.14.0 unless a scenario says why it cannot run there.
func nlbScenarios() []scenario {
	scenarios := slices.Concat(nlbSynced(), nlbRefused(), nlbUnheard(), nlbWaits(), nlbChanges(), nlbLater(), nlbEnds(), nlbReleases())
	for i := range scenarios {
		scenarios[i].name = "NLB " + scenarios[i].name
	}
	return scenarios
}

func madeNLB(name string, service func(*corev1.Service), actions []string, s scenario) scenario {
	s.name, s.service, s.until = name, service, ensuredNLB
	if s.want.Labels == nil {
		s.want.Labels = labelsNLB
	}
	if s.want.Events == nil {
		s.want.Events = []string{ensuredNLB}
	}
	if s.want.Ingress == nil {
		s.want.Ingress = []string{nameNLB}
	}
	s.want.Finalizers, s.want.Actions = finalizedNLB, actions
	if len(s.world.VPCs) == 0 {
		s.world = nlbWorld()
	}
	return s
}

func nlbSynced() []scenario {
	first := slices.Concat(nlbTried, []string{"GetLoadBalancerAttribute"})
	then := append(nlbGroup[:2:2], "CreateListener")
	with := func(more ...string) []string { return slices.Concat(first, more, then) }
	reused := []string{"GetLoadBalancerAttribute", "ListTagResources", "ListServerGroups"}
	usersLabels := map[string]string{hashLabel: hashOfNow, idLabel: "nlb-1"}
	users := func(events ...string) outcome {
		return outcome{
			Events: append(events, "Normal EnsuredLoadBalancer nlb-controller: Ensured load balancer [nlb-1]"), Labels: usersLabels,
			Ingress: []string{"nlb-1.cn-hangzhou.nlb.aliyuncs.com"}, Tags: map[string]string{"team": "a"},
		}
	}
	usersNLB := func(name string, service func(*corev1.Service), actions []string, s scenario) scenario {
		s = madeNLB(name, service, actions, s)
		s.until = s.want.Events[len(s.want.Events)-1]
		slices.Sort(s.want.Events)
		return s
	}
	pods := func(ips ...string) func(*run) { return func(p *run) { p.pods(ips...) } }
	return []scenario{
		madeNLB("synced", zoned(), nlbMade, scenario{nodes: 1, want: outcome{Tags: tagsNLB, Annotations: map[string]string{lbPrefix + "zone-maps": mapsNLB}}}),
		madeNLB("no nodes", zoned(), slices.DeleteFunc(slices.Clone(nlbMade), func(a string) bool { return a == "AddServersToServerGroup" }),
			scenario{want: outcome{Events: []string{ensuredNLB, unservedNLB}}}),
		madeNLB("slow", zoned(), nil, scenario{nodes: 1, world: sim.World{VPCs: []sim.VPC{{ID: "vpc-1"}}, Lag: sim.Lag{Jobs: sim.Duration(30 * time.Millisecond)}}}),
		madeNLB("two ports", all(zoned(), func(svc *corev1.Service) {
			svc.Spec.Ports[0].Name = "a"
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "b", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)})
		}), nil, scenario{nodes: 1}),
		madeNLB("tags", zoned("additional-resource-tags", "team=a,stage=b"), nlbMade, scenario{
			nodes: 1, want: outcome{Tags: map[string]string{"kubernetes.do.not.delete": "NAME", "ack.aliyun.com": clusterID, "team": "a", "stage": "b"}}}),
		madeNLB("EIP and address in zones", network("zone-maps", "cn-hangzhou-h:vsw-1::eip-1,cn-hangzhou-i:vsw-2:10.2.0.9"), nlbMade, scenario{nodes: 1}),
		madeNLB("intranet", zoned("address-type", "intranet", "name", "shop", "resource-group-id", "rg-1", "bandwidth-package-id", "cbwp-1"), nlbMade,
			scenario{nodes: 1}),
		madeNLB("IPv6", network("zone-maps", "cn-hangzhou-k:vsw-6", "ip-version", "DualStack", "ipv6-address-type", "internet"),
			with("EnableLoadBalancerIpv6Internet", "EnableLoadBalancerIpv6Internet"), scenario{nodes: 1}),
		madeNLB("zones apart", zoned("cross-zone-enabled", "off"), with("UpdateLoadBalancerAttribute", "UpdateLoadBalancerAttribute"), scenario{nodes: 1}),
		madeNLB("TLS", zoned("protocol-port", "tcpssl:80", "cert-id", "cert-1", "cacert", "on", "cacert-id", "ca-1", "tls-cipher-policy", "tls_cipher_policy_1_2",
			"alpn", "on", "alpn-policy", "HTTP2Only",
			"additional-cert-ids", "cert-2"), append(nlbMade[:len(nlbMade):len(nlbMade)], "AssociateAdditionalCertificatesWithListener"), scenario{nodes: 1}),
		madeNLB("limits and health check", zoned("idle-timeout", "30", "cps", "100", "proxy-protocol", "on", "ppv2-pvl-vpc-id-enabled", "on", "scheduler", "rr",
			"connection-drain", "on",
			"connection-drain-timeout", "30", "preserve-client-ip", "on", "health-check-flag", "on", "health-check-type", "HTTP", "health-check-httpcode",
			"http_2xx"), nlbMade, scenario{nodes: 1}),
		madeNLB("range of ports", all(zoned("listener-port-range", "1000-2000:80"), eni), append([]string{"DescribeNetworkInterfaces"}, nlbMade...),
			scenario{nodes: 1, arrange: pods("10.1.5.8")}),
		madeNLB("pods by address", all(zoned("server-group-type", "ip"), eni), nlbMade, scenario{nodes: 1, arrange: pods("10.1.5.8")}),
		madeNLB("source ranges", all(zoned(), ranges("192.0.2.0/24")),
			append(with("LoadBalancerJoinSecurityGroup"), "DescribeSecurityGroups", "CreateSecurityGroup", "DescribeSecurityGroups",
				"DescribeSecurityGroupAttribute", "AuthorizeSecurityGroup"),
			scenario{nodes: 1, want: outcome{Labels: map[string]string{hashLabel: hashOfNow, idLabel: "LB", groupLabel: "LB"}}}),
		madeNLB("source ranges without a grant, which goes unnoticed", all(zoned(), ranges("192.0.2.0/24")), append(nlbMade[:len(nlbMade):len(nlbMade)],
			"DescribeSecurityGroups", "CreateSecurityGroup"),
			scenario{nodes: 1, arrange: fault("CreateSecurityGroup", "Forbidden.RAM",
				"User not authorized to operate on the specified resource, or this API doesn't support RAM.", 403)}),
		madeNLB("servers that fail, which goes unnoticed", zoned(), nlbMade, scenario{nodes: 1, arrange: func(p *run) {
			p.cloud.Fault(sim.Fault{Action: "AddServersToServerGroup", FailJob: true, Caller: "ccm"})
		}}),
		usersNLB("of the user, without its listeners", network("id", "nlb-1"), append(reused[:3:3], nlbGroup...), scenario{nodes: 1, want: users()}),
		usersNLB("of the user, with its listeners", network("id", "nlb-1", "force-override-listeners", "true"),
			slices.Concat(reused, nlbGroup, []string{"ListListeners", "CreateListener"}),
			scenario{nodes: 1, want: users()}),
		usersNLB("of the user, with the user's group", network("id", "nlb-1", "vgroup-port", "sgp-1:80", "weight", "60"),
			append(reused[:2:2], "ListServerGroups", "ListServerGroupServers", "ListServerGroups", "ListServerGroups", "ListServerGroupServers",
				"AddServersToServerGroup"), scenario{nodes: 1, want: users()}),
		usersNLB("of the user, without source ranges", all(network("id", "nlb-1"), ranges("192.0.2.0/24")), append(reused[:3:3], nlbGroup...), scenario{
			nodes: 1, want: users("Warning FeatureNotSupported nlb-controller: LoadBalancerSourceRanges is not supported for user-managed LB.")}),
	}
}

func failsNLB(name, message string, actions []string, s scenario) scenario {
	if s.service == nil {
		s.service = zoned()
	}
	s.name, s.nodes, s.until = name, max(s.nodes, 1), failedNLB+message
	s.want = outcome{Events: append(s.want.Events, s.until), Labels: map[string]string{}, Finalizers: finalizedNLB, Actions: actions}
	slices.Sort(s.want.Events)
	return s
}

func nlbRefused() []scenario {
	made := nlbTried[:3:3]
	first := append(made, "GetLoadBalancerAttribute")
	return []scenario{
		failsNLB("no zones", "[]: build lb local model error: build nlb attribute error: ParameterMissing, zone mappings are required", []string{},
			scenario{service: network()}),
		failsNLB("no permission to read", "[]: Message: code: 403, Authentication is failed for NoPermission. ", nlbLooked[:1],
			scenario{arrange: fault("ListLoadBalancers", "Forbidden.NoPermission", "Authentication is failed for NoPermission.", 403)}),
		failsNLB("no permission to create", "[]: Message: code: 403, You are not authorized to do this action. You should be authorized by RAM. ", nlbTried,
			scenario{arrange: fault("CreateLoadBalancer", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)}),
		failsNLB("vSwitch full", "[]: Message: code: 400, The specified resource of VSwitchIp is not enough. ", nlbTried,
			scenario{world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}}}}),
		failsNLB("unpaid bill", "[]: Message: code: 400, The operation failed because of UnpaidBill. ", nlbTried,
			scenario{world: sim.World{Account: sim.Account{Arrearage: true}}}),
		// A real controller takes nine seconds for its ten attempts.
		failsNLB("throttled", "[]: Message: code: 400, Request was denied due to api flow control. ", slices.Repeat(nlbLooked[:1], 10),
			scenario{arrange: fault("ListLoadBalancers", "Throttling.User", "", 0)}),
		failsNLB("no such load balancer", "[nlb-nope]: Message: code: 404, The specified resource of loadbalancer is not found. ",
			[]string{"GetLoadBalancerAttribute"},
			scenario{service: network("id", "nlb-nope")}),

		failsNLB("vSwitch missing", "[]: Message: code: 404, The specified resource of vSwitch is not found. ", nlbTried,
			scenario{service: network("zone-maps", "cn-hangzhou-h:vsw-nope")}),
		failsNLB("no role", "[]: Message: code: 400, The operation is not allowed because of ServiceLinkedRoleNotExist. ", nlbTried,
			scenario{world: sim.World{RAM: sim.RAM{NoServiceRoles: true}}}),
		failsNLB("no more NLBs", "[]: Message: code: 400, The quota of nlb_quota_loadbalancers_num is exceeded, usage 1/1. ", nlbTried,
			scenario{world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1"}}, Quotas: []sim.Quota{{Product: "nlb", Name: "nlb_quota_loadbalancers_num", Total: 1}}}}),
		failsNLB("no more servers", "[LB]: Message: code: 400, The quota of nlb_quota_loadbalancer_noeci_servers_num is exceeded, usage 0/1. ", nlbMade,
			scenario{nodes: 2, world: sim.World{Quotas: []sim.Quota{{Product: "nlb", Name: "nlb_quota_loadbalancer_noeci_servers_num", Total: 1}}}}),
		failsNLB("group without IPv6", "[LB]: Message: code: 400, The operation is not allowed because of ServerGroupNotSupportIpv6. ", nlbMade,
			scenario{arrange: fault("AddServersToServerGroup", "OperationDenied.ServerGroupNotSupportIpv6",
				"The operation is not allowed because of ServerGroupNotSupportIpv6.", 400)}),
		failsNLB("security groups, which are joined twice", "[LB]: Message: code: 400, The specified resource of sg-1 is already associated. ",
			slices.Concat(first, []string{"LoadBalancerJoinSecurityGroup", "LoadBalancerJoinSecurityGroup"}, nlbGroup, []string{"CreateListener"}),
			scenario{world: nlbWorld(), service: zoned("security-group-ids", "sg-1")}),
		failsNLB("listener that is locked", "[LB]: Message: code: 400, The Lock [nlb] is conflict. ", append(nlbMade[:len(nlbMade):len(nlbMade)],
			slices.Repeat([]string{"CreateListener"}, 4)...),
			scenario{arrange: fault("CreateListener", "Conflict.Lock", "The Lock [nlb] is conflict.", 400)}),
		failsNLB("listener that fails", "[LB]: apply model error: wait jobs error: job JOB for API EnsuredListenerChanged failed", nlbMade,
			scenario{arrange: func(p *run) { p.cloud.Fault(sim.Fault{Action: "CreateListener", FailJob: true, Caller: "ccm"}) }}),
		failsNLB("listener that takes too long", "[LB]: apply model error: wait jobs error: context deadline exceeded", nlbMade,
			scenario{arrange: func(p *run) {
				p.cloud.Fault(sim.Fault{Action: "ListAsynJobs", Body: `{"Jobs":[{"Id":"j-1","Status":"Processing"}]}`, Caller: "ccm"})
			}}),
		failsNLB("creation that fails", "[LB]: Message: code: 400, The status of loadbalancer [LB] is incorrect. ", nlbMade,
			scenario{arrange: func(p *run) { p.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", FailJob: true, Caller: "ccm"}) }}),
		func() scenario {
			s := failsNLB("creation that takes too long", "[LB]: apply model error: update nlb attribute error: update remote model for lbId LB, error: nlb LB "+
				"is in creating status",
				append(made, slices.Repeat([]string{"GetLoadBalancerAttribute"}, 7)...), scenario{world: sim.World{Lag: sim.Lag{Jobs: sim.Duration(time.Hour)}}})
			s.simulated = "a real controller waits two minutes for the NLB, which is longer than a run waits for its event"
			return s
		}(),
		failsNLB("of another Service", "[nlb-1]: apply model error: update nlb attribute error: the loadbalancer nlb-1 can not be reused, can not reuse "+
			"loadbalancer created by kubernetes.",
			[]string{"GetLoadBalancerAttribute", "ListTagResources", "ListServerGroups"},
			scenario{service: network("id", "nlb-1"), world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}}}),
		failsNLB("of the API server", "[nlb-1]: apply model error: update nlb attribute error: the loadbalancer nlb-1 can not be reused, can not reuse "+
			"loadbalancer created by kubernetes.",
			nil, scenario{service: network("id", "nlb-1"), world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"ack.aliyun.com": clusterID}}}}}),
	}
}

func nlbUnheard() []scenario {
	const (
		local    = "[]: build lb local model error: "
		listener = local + "build nlb listener error: build listener from servicePort 80 error: "
		groups   = local + "builid nlb server group error: "
		port     = groups + "set ServerGroup for port 80 error: "
	)
	says := func(name, message string, service func(*corev1.Service)) scenario {
		s := failsNLB(name, message, nil, scenario{world: nlbWorld(), service: service})
		s.name = name
		return s
	}
	return []scenario{
		says("zones that say no vSwitch", local+"build nlb attribute error: ZoneMapping format error, expect [zone-a:vsw-id-1,zone-b:vsw-id-2], got "+
			"cn-hangzhou-h", network("zone-maps", "cn-hangzhou-h")),
		says("protocol without a port", listener+"port and protocol format must be like 'https:443' with colon separated. got=[[tcpssl]]",
			zoned("protocol-port", "tcpssl")),
		says("unknown protocol", listener+"port protocol format must be either [TCP|UDP|TCPSSL], protocol not supported with [http]\n",
			zoned("protocol-port", "http:80")),
		says("timeout that is not a number", listener+`parse IdleTimeout error: strconv.Atoi: parsing "x": invalid syntax`, zoned("idle-timeout", "x")),
		says("connections that are no number", listener+`parse Mss error: strconv.Atoi: parsing "x": invalid syntax`, zoned("cps", "x")),
		says("range of ports for nodes", listener+"listener port range can only be used for eni backend type service", zoned("listener-port-range", "1000-2000:80")),
		says("range of ports without a port", listener+"listener port range must be like 1000-2000:80 with colon separated. got [1000-2000]",
			all(zoned("listener-port-range", "1000-2000"), eni)),
		says("range of ports backwards", listener+"start port should be smaller than end port for port range [2000-1000:80]",
			all(zoned("listener-port-range", "2000-1000:80"), eni)),
		says("group without a port", listener+"server group id and protocol format must be like 'sg-xxx:443' with colon separated. got=[[sgp-1]]",
			network("id", "nlb-1", "vgroup-port", "sgp-1")),
		says("group that is not there", port+"cannot find server group id sgp-nope for nlb nlb-1", network("id", "nlb-1", "vgroup-port", "sgp-nope:80")),
		says("group of a controller", port+"cannot reuse a ccm created server group sgp-own for nlb nlb-1", network("id", "nlb-1", "vgroup-port", "sgp-own:80")),
		says("weight beyond 100", port+"weight must be integer in range [0, 100], got [101]", network("id", "nlb-1", "vgroup-port", "sgp-1:80", "weight", "101")),
		says("default weight that is not a number", groups+`default weight parse error: [strconv.Atoi: parsing "x": invalid syntax]`, zoned("default-weight", "x")),
		says("unknown type of group", groups+"unsupport server ServerGroupType []", zoned("server-group-type", "other")),
	}
}

func nlbWaits() []scenario {
	lost := "Warning SkipSyncBackends nlb-controller: Not sync pods whose eni is invalid: 10.1.5.7"
	return []scenario{{
		name: "pod without an interface", world: nlbWorld(), arrange: func(p *run) { p.pods("10.1.5.8", "10.1.5.7") }, service: all(zoned(), eni), until: lost,
		want: outcome{Events: []string{lost}, Finalizers: finalizedNLB, Labels: labelsNLB, Ingress: []string{nameNLB}},
	}, {
		name: "pod whose interface went away", world: nlbWorld(), arrange: func(p *run) { p.pods("10.1.5.8", "10.1.5.9") }, service: all(zoned(), eni),
		act: again(edit(func(s *sim.State, _ string) { delete(s.ENIs, "eni-2") }), wish("default-weight", "50")),
		until: "Warning SkipSyncBackends nlb-controller: Skip delete and update servers to servergroup k8s.8080.TCP.web.NS." + clusterID +
			" due to invalid servers: 10.1.5.9",
		want: outcome{
			Events: []string{
				changedNLB, ensuredNLB, "Warning SkipSyncBackends nlb-controller: Not sync pods whose eni is invalid: 10.1.5.9",
				"Warning SkipSyncBackends nlb-controller: Skip delete and update servers to servergroup k8s.8080.TCP.web.NS." + clusterID +
					" due to invalid servers: 10.1.5.9",
			},
			Finalizers: finalizedNLB, Labels: labelsNLB, Ingress: []string{nameNLB}, Actions: append([]string{"DescribeNetworkInterfaces"}, nlbFound...),
		},
	}}
}

func nlbChanges() []scenario {
	changes := func(name string, service func(*corev1.Service), change func(*run), s scenario, calls ...string) scenario {
		s.name, s.service, s.act, s.nodes, s.world = name, service, again(change), 1, nlbWorld()
		if s.want.Events == nil {
			s.want.Events = []string{changedNLB, ensuredNLB}
		}
		// The Events of the first sync exist already, so the last of the others may end the scenario.
		s.until = slices.DeleteFunc(slices.Clone(s.want.Events), func(e string) bool { return e == ensuredNLB })[0]
		if slices.Contains(s.want.Events, preservedNLB) {
			s.until = preservedNLB
		}
		if s.want.Labels == nil {
			s.want.Labels = labelsNLB
		}
		s.want.Finalizers, s.want.Ingress, s.want.Actions = finalizedNLB, []string{nameNLB}, append(nlbFound[:len(nlbFound):len(nlbFound)], calls...)
		return s
	}
	spec := func(list string) func(*run) {
		return func(p *run) { p.patch(`{"spec":{"loadBalancerSourceRanges":%s}}`, list) }
	}
	grouped := map[string]string{hashLabel: hashOfNow, idLabel: "LB", groupLabel: "LB"}
	sources := []string{"DescribeSecurityGroups", "DescribeSecurityGroupAttribute"}
	respec := func(labels map[string]string) scenario {
		return scenario{want: outcome{Events: []string{ensuredNLB, specNLB}, Labels: labels}}
	}
	tls := []string{"protocol-port", "tcpssl:80", "cert-id", "cert-1"}
	read := []string{"ListListenerCertificates", "ListListenerCertificates"}
	// Another protocol needs another group. If the new listener comes before the old one's deletion, the controller tries again; see differ.
	protocol := func(name string, change func(*run)) scenario {
		retried := scenario{options: func(o *controller.Options) { o.BackoffBase, o.BackoffMax = 0, 0 }}
		s := changes(name, zoned("cert-id", "cert-1"), change, retried, "DeleteListener", "CreateListener")
		s.want.Actions = append(s.want.Actions, append(nlbGroup[:2:2], "DeleteServerGroup")...)
		return s
	}
	return []scenario{
		changes("address type", zoned(), wish("address-type", "intranet"), scenario{}, "UpdateLoadBalancerAddressTypeConfig"),
		changes("zone", zoned(), wish("zone-maps", "cn-hangzhou-h:vsw-1,cn-hangzhou-i:vsw-2"), scenario{}, "UpdateLoadBalancerZones"),
		changes("EIP", zoned(), wish("zone-maps", "cn-hangzhou-h:vsw-1::eip-1"), scenario{}, "UpdateLoadBalancerZones"),
		changes("name", zoned(), wish("name", "shop"), scenario{}, "UpdateLoadBalancerAttribute"),
		changes("cross zone", zoned(), wish("cross-zone-enabled", "off"), scenario{}, "UpdateLoadBalancerAttribute"),
		changes("IPv6 internet", network("zone-maps", "cn-hangzhou-k:vsw-6", "ip-version", "DualStack"), wish("ipv6-address-type", "internet"), scenario{},
			"EnableLoadBalancerIpv6Internet"),
		changes("IPv6 intranet", network("zone-maps", "cn-hangzhou-k:vsw-6", "ip-version", "DualStack", "ipv6-address-type", "internet"),
			wish("ipv6-address-type", "intranet"), scenario{}, "DisableLoadBalancerIpv6Internet"),
		changes("bandwidth", zoned("bandwidth-package-id", "cbwp-1"), wish("bandwidth-package-id", "cbwp-2"), scenario{},
			"DetachCommonBandwidthPackageFromLoadBalancer", "AttachCommonBandwidthPackageToLoadBalancer"),
		changes("no bandwidth", zoned("bandwidth-package-id", "cbwp-1"), wish("bandwidth-package-id", ""), scenario{},
			"DetachCommonBandwidthPackageFromLoadBalancer"),
		changes("tags that are listed", zoned("additional-resource-tags", "team=a,stage=b"), wish("additional-resource-tags", "team=c"), scenario{
			want: outcome{Tags: map[string]string{"kubernetes.do.not.delete": "NAME", "ack.aliyun.com": clusterID, "team": "c"}}}, "TagResources", "UntagResources"),
		changes("security group", zoned(), wish("security-group-ids", "sg-1"), scenario{}, "LoadBalancerJoinSecurityGroup"),
		func() scenario {
			s := changes("other security group", zoned(), nil, scenario{}, "LoadBalancerJoinSecurityGroup", "LoadBalancerLeaveSecurityGroup", "DescribeSecurityGroups")
			reset := func(p *run) { p.cloud.ResetCalls() }
			s.act = both(again(wish("security-group-ids", "sg-1")), reset, again(wish("security-group-ids", "sg-2")))
			return s
		}(),
		changes("source ranges", zoned(), spec(`["192.0.2.0/24"]`), respec(grouped), "LoadBalancerJoinSecurityGroup",
			"DescribeSecurityGroups", "CreateSecurityGroup", "DescribeSecurityGroups", "DescribeSecurityGroupAttribute", "AuthorizeSecurityGroup"),
		changes("other source ranges", all(zoned(), ranges("192.0.2.0/24")), spec(`["198.51.100.0/24"]`), respec(grouped),
			append(sources[:2:2], "AuthorizeSecurityGroup", "RevokeSecurityGroup")...),
		changes("no source ranges", all(zoned(), ranges("192.0.2.0/24")), spec(`null`), respec(labelsNLB), append([]string{"LoadBalancerLeaveSecurityGroup"},
			append(sources[:2:2], "DeleteSecurityGroup")...)...),
		changes("listener", zoned(), wish("idle-timeout", "30"), scenario{}, "UpdateListenerAttribute"),
		changes("proxy protocol", zoned("proxy-protocol", "on"), wish("ppv2-pvl-ep-id-enabled", "on"), scenario{}, "UpdateListenerAttribute"),
		protocol("protocol", wish("protocol-port", "tcpssl:80")),
		protocol("protocol, and the old listener goes late", both(func(p *run) {
			p.cloud.Fault(sim.Fault{Action: "DeleteListener", Delay: 500 * time.Millisecond, Count: 1})
		}, wish("protocol-port", "tcpssl:80"))),
		changes("certificate", zoned(tls...), wish("cert-id", "cert-2"), scenario{}, "UpdateListenerAttribute"),
		changes("ALPN", zoned(append(tls, "alpn-policy", "HTTP2Only")...), wish("alpn", "on"), scenario{}, "UpdateListenerAttribute"),
		changes("further certificates", zoned(append(tls, "additional-cert-ids", "cert-2")...), wish("additional-cert-ids", "cert-3"), scenario{},
			append(read[:2:2], "AssociateAdditionalCertificatesWithListener", "DisassociateAdditionalCertificatesWithListener")...),
		changes("group", zoned(), wish("scheduler", "rr"), scenario{}, "UpdateServerGroupAttribute"),
		changes("connection drain", zoned(), wish("connection-drain", "on"), scenario{}, "UpdateServerGroupAttribute"),
		changes("weight", zoned(), wish("default-weight", "50"), scenario{}, "UpdateServerGroupServersAttribute"),
		changes("weight that is left alone", zoned("ignore-weight-update", "on"), wish("default-weight", "50"), scenario{}),
		changes("stopped listener", zoned(), both(edit(func(s *sim.State, id string) { s.NLBs[id].Listeners[0].Status = "Stopped" }), (*run).touch), scenario{},
			"StartListener"),
		changes("preserve", zoned(), wish("preserve-lb-on-delete", "true"), scenario{want: outcome{Events: []string{changedNLB, ensuredNLB, preservedNLB}}}),
		// No annotation sets the protection of an NLB.
		changes("deletion protection", zoned(), wish("delete-protection", "off"), scenario{}),
		changes("modification protection", zoned(), wish("modification-protection", "NonProtection"), scenario{}),
		changes("touch", zoned(), (*run).touch, scenario{}),
		{
			name: "another node", nodes: 1, service: zoned(), world: nlbWorld(), until: ensuredNLB,
			act: func(p *run) {
				p.ends = append(p.ends, p.node(2))
				p.wait("a second server", func() bool {
					groups := p.cloud.Snapshot().ServerGroups
					return len(groups[len(groups)-1].Servers) == 2
				})
			},
			want: outcome{Events: []string{ensuredNLB}, Finalizers: finalizedNLB, Labels: labelsNLB, Ingress: []string{nameNLB}},
		},
	}
}

// nlbLater are syncs that fail after one that succeeded: labels and status are unchanged.
func nlbLater() []scenario {
	fails := func(name, message string, service func(*corev1.Service), act func(*run), s scenario) scenario {
		s.name, s.service, s.act, s.nodes, s.until = name, service, act, 1, failedNLB+message
		if len(s.world.VPCs) == 0 {
			s.world = nlbWorld()
		}
		if s.want.Events == nil {
			s.want.Events = []string{changedNLB, ensuredNLB}
		}
		s.want.Events = append(s.want.Events, s.until)
		slices.Sort(s.want.Events)
		s.want.Finalizers, s.want.Ingress = finalizedNLB, []string{nameNLB}
		if s.want.Labels == nil {
			s.want.Labels = map[string]string{hashLabel: "of another state", idLabel: "LB"}
		}
		return s
	}
	gone := edit(func(s *sim.State, id string) { delete(s.NLBs, id) })
	calls := func(actions ...string) scenario { return scenario{want: outcome{Actions: actions}} }
	rebound := fails("rebound", "[nlb-2]: apply model error: update nlb attribute error: the loadbalancer nlb-2 can not be reused, service has been "+
		"associated with "+
		"dnsname [nlb-1.cn-hangzhou.nlb.aliyuncs.com], cannot be bound to dnsname [nlb-2.cn-hangzhou.nlb.aliyuncs.com]", network("id", "nlb-1"), wish("id", "nlb-2"),
		scenario{want: outcome{
			Events: []string{changedNLB, "Normal EnsuredLoadBalancer nlb-controller: Ensured load balancer [nlb-1]"},
			Labels: map[string]string{hashLabel: "of another state", idLabel: "nlb-1"},
		}})
	rebound.want.Ingress = []string{"nlb-1.cn-hangzhou.nlb.aliyuncs.com"}
	untouched := func(s scenario) scenario { // the annotations did not change
		s.want.Labels = labelsNLB
		s.want.Events = slices.DeleteFunc(s.want.Events, func(e string) bool { return e == changedNLB })
		return s
	}
	return []scenario{
		fails("resource group", "[LB]: apply model error: update nlb attribute error: ResourceGroupId cannot be changed, service: rg-2, nlb: rg-1",
			zoned("resource-group-id", "rg-1"), wish("resource-group-id", "rg-2"),
			calls(nlbFound...)),
		fails("IP version", "[LB]: apply model error: update nlb attribute error: AddressIpVersion cannot be changed, service: DualStack, nlb: ipv4", zoned(),
			wish("ip-version", "DualStack"), calls(nlbFound...)),
		fails("gone, touched", "[]: apply model error: update nlb attribute error: alicloud: can not find loadbalancer, but it's defined in service [] this "+
			"may happen when you delete the loadbalancer",
			zoned(), both(gone, (*run).touch), calls(nlbLooked...)),
		untouched(fails("gone, endpoints changed", "[]: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:NAME]", zoned(),
			both(gone, func(p *run) { p.pods("10.1.5.8") }), calls(nlbLooked...))),
		rebound,
		fails("two with its tag", "[]: apply model error: get nlb attribute from cloud error: [NS/web] find multiple loadbalances by tag, lbIds[nlb-1,LB]", zoned(),
			both(edit(func(s *sim.State, id string) {
				s.NLBs["nlb-1"].Tags["kubernetes.do.not.delete"] = s.NLBs[id].Tags["kubernetes.do.not.delete"]
			}), (*run).touch), calls("ListLoadBalancers")),
		fails("two with its name", "[]: apply model error: get nlb attribute from cloud error: [NS/web] find multiple loadbalances by name, lbIds[nlb-1,LB]", zoned(),
			both(edit(func(s *sim.State, id string) {
				s.NLBs["nlb-1"].Name = s.NLBs[id].Name
				delete(s.NLBs[id].Tags, "kubernetes.do.not.delete")
			}), (*run).touch), calls(nlbLooked...)),
		fails("vSwitch of a zone", "[LB]: Message: code: 400, The operation is not allowed because of ZoneVSwitchChanged. ", zoned(), func(p *run) {
			p.cloud.Edit(func(s *sim.State) {
				s.VSwitches["vsw-3"] = &sim.VSwitch{VPC: "vpc-1", Zone: "cn-hangzhou-h", CIDR: "10.9.0.0/20", Free: new(9)}
			})
			p.annotate("zone-maps", "cn-hangzhou-h:vsw-3")
		}, scenario{}),
		fails("NLB that is being changed", "[LB]: Message: code: 400, The specified resource of loadbalancer is being configured, please try again later. ", zoned(),
			both(edit(func(s *sim.State, id string) { s.NLBs[id].Status = "Configuring" }), wish("name", "shop")), scenario{}),
		fails("no more security groups", "[LB]: Message: code: 400, The quota of nlb_quota_loadbalancer_securitygroups_num is exceeded, usage 0/1. ", zoned(),
			func(p *run) {
				p.cloud.Edit(func(s *sim.State) {
					s.Quotas = append(s.Quotas, sim.Quota{Product: "nlb", Name: "nlb_quota_loadbalancer_securitygroups_num", Total: 1})
				})
				p.annotate("security-group-ids", "sg-1,sg-2")
			}, scenario{}),
		fails("group of another type, whose old one is in use", "[LB]: Message: code: 400, The specified resource of ServerGroup is in use. ", all(zoned(), eni),
			wish("server-group-type", "ip"),
			scenario{want: outcome{
				Events:  []string{changedNLB, ensuredNLB, unservedNLB},
				Actions: []string{"ListLoadBalancers", "ListTagResources", "ListServerGroups", "ListListeners", "CreateServerGroup", "DeleteServerGroup"},
			}}),
		fails("group that another NLB uses", "[LB]: Message: code: 400, The specified resource of ServerGroup is in use. ", zoned(),
			both(edit(func(s *sim.State, id string) {
				s.NLBs["nlb-1"].Listeners = []sim.NLBListener{{ID: "lsn-1", Port: 81, ServerGroup: s.NLBs[id].Listeners[0].ServerGroup}}
			}), (*run).repoint), scenario{want: outcome{Events: []string{ensuredNLB, specNLB}}}),
		fails("bandwidth that is not there to leave", "[LB]: Message: code: 400, The specified resource of cbwp-1 is not associated. ",
			zoned("bandwidth-package-id", "cbwp-1"),
			both(fault("DetachCommonBandwidthPackageFromLoadBalancer", "ResourceNotAssociated.BandwidthPackageId",
				"The specified resource of cbwp-1 is not associated.", 400), wish("bandwidth-package-id", "")), scenario{}),
	}
}

func nlbEnds() []scenario {
	ends := func(name string, service func(*corev1.Service), act func(*run), actions []string, s scenario) scenario {
		s.name, s.service, s.act, s.nodes, s.until = name, service, act, 1, cleanedNLB
		s.world = nlbWorld()
		if s.want.Events == nil {
			s.want.Events = []string{ensuredNLB}
		}
		s.want.Events = append(s.want.Events, cleanedNLB, deletedNLB)
		slices.Sort(s.want.Events)
		s.want.Gone, s.want.Labels, s.want.Actions = true, map[string]string{}, actions
		return s
	}
	found := append(nlbFound[:len(nlbFound):len(nlbFound)], "ListServerGroups", "ListServerGroupServers")
	removed := append(found[:len(found):len(found)], "UpdateLoadBalancerProtection", "DeleteLoadBalancer", "DeleteServerGroup")
	sources := []string{"DescribeSecurityGroups", "DescribeSecurityGroupAttribute"}
	fails := func(name, message string, act func(*run), repair func(*run)) scenario {
		until := uncleanedNLB + message
		s := ends(name, zoned(), both(act, (*run).delete, func(p *run) { p.saw(until) }, repair, (*run).touch), nil,
			scenario{want: outcome{Events: []string{changedNLB, ensuredNLB, until}}})
		return s
	}
	return []scenario{
		ends("deleted", zoned(), (*run).delete, removed, scenario{}),
		ends("deleted with its source ranges", all(zoned(), ranges("192.0.2.0/24")), (*run).delete, append(removed[:len(removed):len(removed)],
			append(sources[:2:2], "DeleteSecurityGroup")...), scenario{}),
		ends("preserved", zoned("preserve-lb-on-delete", "true"), (*run).delete, append(found[:len(found):len(found)], "UpdateLoadBalancerProtection",
			"UntagResources", "UntagResources", "DeleteListener"), scenario{
			want: outcome{Events: []string{ensuredNLB, preservedNLB}, Tags: map[string]string{}}}),
		ends("preserved with its source ranges", all(zoned("preserve-lb-on-delete", "true"), ranges("192.0.2.0/24")), (*run).delete,
			append(append(found[:len(found):len(found)], "UpdateLoadBalancerProtection", "UntagResources", "UntagResources", "DeleteListener"), sources...),
			scenario{want: outcome{Events: []string{ensuredNLB, preservedNLB}}}),
		ends("gone before it is deleted", zoned(), both(edit(func(s *sim.State, id string) { delete(s.NLBs, id) }), (*run).delete),
			append(nlbLooked[:2:2], "ListServerGroups", "ListServerGroupServers", "DeleteServerGroup"), scenario{}),
		ends("of the user", network("id", "nlb-1"), (*run).delete, []string{"GetLoadBalancerAttribute", "ListTagResources", "ListServerGroups",
			"ListServerGroupServers", "DeleteServerGroup"}, scenario{
			want: outcome{Events: []string{"Normal EnsuredLoadBalancer nlb-controller: Ensured load balancer [nlb-1]"}, Tags: map[string]string{"team": "a"}}}),
		ends("of the user, with the user's group", network("id", "nlb-1", "vgroup-port", "sgp-1:80"), (*run).delete,
			[]string{"GetLoadBalancerAttribute", "ListTagResources", "ListServerGroups", "ListServerGroups", "ListServerGroupServers",
				"RemoveServersFromServerGroup"}, scenario{
				want: outcome{Events: []string{"Normal EnsuredLoadBalancer nlb-controller: Ensured load balancer [nlb-1]"}, Tags: map[string]string{"team": "a"}}}),
		fails("may not be deleted", "[LB]: Message: code: 403, Authentication is failed for NoPermission. ",
			func(p *run) { p.cloud.Revoke("ccm", "nlb:DeleteLoadBalancer") }, func(p *run) { p.cloud.Grant("ccm", "nlb:DeleteLoadBalancer") }),
		fails("group that another NLB uses stays", "[]: Message: code: 400, The specified resource of ServerGroup is in use. ",
			edit(func(s *sim.State, id string) {
				s.NLBs["nlb-1"].Listeners = []sim.NLBListener{{ID: "lsn-1", Port: 81, ServerGroup: s.NLBs[id].Listeners[0].ServerGroup}}
			}), func(p *run) { p.cloud.Edit(func(s *sim.State) { s.NLBs["nlb-1"].Listeners = nil }) }),
	}
}

// nlbReleases are scenarios of releases before v2.14.0, which a real v2.14.0 cannot reproduce.
func nlbReleases() []scenario {
	older := func(version, name string, s scenario) scenario {
		s.name, s.nodes = name+", "+version, max(s.nodes, 1)
		s.options = func(o *controller.Options) { o.Version = version }
		s.simulated = "it is what " + version + " did, and a real controller of that release is another program"
		return s
	}
	tried := func(more ...string) []string { // until v2.11.2 the controller polled for the group in place of its job
		return slices.Concat(nlbTried, more, []string{"GetLoadBalancerAttribute"},
			[]string{"CreateServerGroup", "ListServerGroups", "AddServersToServerGroup", "CreateListener"})
	}
	synced := func(actions []string) scenario {
		return scenario{service: zoned(), until: ensuredNLB, want: outcome{Events: []string{ensuredNLB}, Finalizers: finalizedNLB, Ingress: []string{nameNLB},
			Tags: tagsNLB, Actions: actions}}
	}
	fails := func(message string, s scenario) scenario {
		s.until = failedNLB + message
		s.want = outcome{Events: append(s.want.Events, s.until), Labels: map[string]string{}, Finalizers: finalizedNLB}
		return s
	}
	return []scenario{
		older("v2.12.0", "synced", synced(nlbMade)),
		older("v2.10.0", "tags after the creation", synced(tried("TagResources"))),
		older("v2.5.0", "tags after the creation", synced(tried("TagResources"))),
		older("v2.13.0", "no source ranges", func() scenario {
			s := synced(nlbMade)
			s.service = all(zoned(), ranges("192.0.2.0/24"))
			return s
		}()),
		older("v2.12.4", "pod without an interface", fails("[]: build lb local model error: builid nlb server group error: "+
			"can not find eniid for ip 10.1.5.7 in vpc vpc-1, target: <nil>, node: NS-1", scenario{service: all(zoned(), eni), world: nlbWorld(),
			arrange: func(p *run) { p.pods("10.1.5.7") }})),
		older("v2.11.1", "throttled", fails("[]: Message: code: 400, Request was denied due to api flow control. ",
			scenario{service: zoned(), arrange: fault("ListLoadBalancers", "Throttling.User", "", 0)})),
		older("v2.9.1", "of another Service", fails("[]: apply model error: update nlb attribute error: the loadbalancer nlb-1 can not be reused, can not "+
			"reuse loadbalancer created by kubernetes.",
			scenario{service: network("id", "nlb-1"), world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}}})),
	}
}
