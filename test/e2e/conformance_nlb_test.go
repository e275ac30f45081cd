package e2e

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	ensuredNLB = "Normal EnsuredLoadBalancer nlb-controller: Ensured load balancer [LB]"
	failedNLB  = "Warning SyncLoadBalancerFailed nlb-controller: Error syncing load balancer "
)

var finalizedNLB = []string{"service.k8s.alibaba/nlb"}

// network makes a Service ask for an NLB, with annotations whose names lack the
// prefix.
func network(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass = new("alibabacloud.com/nlb")
		annotated(pairs...)(svc)
	}
}

// nlbScenes returns the scenes of NLB, with the events that a real controller
// v2.14.0 wrote of them.
func nlbScenes() []scene {
	zoned := network("zone-maps", "cn-hangzhou-h:vsw-1")
	nlbLooked := []string{"ListLoadBalancers", "ListLoadBalancers"}
	nlbTried := append(nlbLooked[:2:2], "CreateLoadBalancer")
	fails := func(name, message string, actions []string, s scene) scene {
		if s.service == nil {
			s.service = zoned
		}
		s.name, s.nodes, s.until = "NLB "+name, 1, failedNLB+message
		s.want = outcome{Events: []string{s.until}, Labels: map[string]string{}, Finalizers: finalizedNLB, Actions: actions}
		return s
	}
	return []scene{
		{
			name: "NLB synced", nodes: 1, service: zoned, until: ensuredNLB,
			want: outcome{
				Events: []string{ensuredNLB}, Finalizers: finalizedNLB, Ingress: []string{"LB.cn-hangzhou.nlb.aliyuncs.com"},
				Labels: map[string]string{hashLabel: "of now", idLabel: "LB"}, Annotations: map[string]string{lbPrefix + "zone-maps": "cn-hangzhou-h:vsw-1"},
				Tags: map[string]string{"kubernetes.do.not.delete": "NAME", "ack.aliyun.com": clusterID},
				Actions: append(nlbTried[:3:3], "GetLoadBalancerAttribute",
					"CreateServerGroup", "ListServerGroups", "AddServersToServerGroup", "CreateListener"),
			},
		},
		{
			name: "NLB no nodes", service: zoned, until: ensuredNLB,
			want: outcome{
				Events:     []string{ensuredNLB, "Normal UnAvailableLoadBalancer nlb-controller: There are no available nodes for NetworkLoadBalancer"},
				Finalizers: finalizedNLB, Ingress: []string{"LB.cn-hangzhou.nlb.aliyuncs.com"}, Labels: map[string]string{hashLabel: "of now", idLabel: "LB"},
			},
		},
		fails("no zones", "[]: build lb local model error: build nlb attribute error: ParameterMissing, zone mappings are required", nil, scene{service: network()}),
		fails("no permission to read", "[]: Message: code: 403, Authentication is failed for NoPermission. ", nlbLooked[:1],
			scene{arrange: fault("ListLoadBalancers", "Forbidden.NoPermission", "Authentication is failed for NoPermission.", 403)}),
		fails("no permission to create", "[]: Message: code: 403, You are not authorized to do this action. You should be authorized by RAM. ", nlbTried,
			scene{arrange: fault("CreateLoadBalancer", "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.", 403)}),
		fails("vSwitch full", "[]: Message: code: 400, The specified resource of VSwitchIp is not enough. ", nlbTried,
			scene{world: sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(0)}}}}),
		fails("unpaid bill", "[]: Message: code: 400, The operation failed because of UnpaidBill. ", nlbTried,
			scene{world: sim.World{Account: sim.Account{Arrearage: true}}}),
		// The calls end when the retries do; a real controller takes ten seconds.
		fails("throttled", "[]: Message: code: 400, Request was denied due to api flow control. ", nil,
			scene{arrange: fault("ListLoadBalancers", "Throttling.User", "", 0)}),
		fails("no such load balancer", "[nlb-nope]: Message: code: 404, The specified resource of loadbalancer is not found. ", []string{"GetLoadBalancerAttribute"},
			scene{service: network("id", "nlb-nope")}),
	}
}
