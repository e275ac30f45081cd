package testbed

import (
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	tooMany      = "backend-quota"
	unsupported  = "eni-unsupported"
	noInterface  = "eni-not-found"
	namedPort    = "named-target-port"
	noNodes      = "no-available-nodes"
	unresolvable = "node-not-resolvable"
)

const (
	saysTooMany     = "The backend server number has reached to the quota limit of this load balancers"
	saysUnsupported = "The loadbalancer does not support backend servers of eni type"
	saysNoInterface = "can not find eniid for ip"
	saysNoNodes     = "There are no available nodes for LoadBalancer"
)

var limits = Config{Own: "low quotas"}

func shared(lb *sim.LoadBalancer) { lb.Spec, lb.ChargeType = "", "PayBySpec" }

func crowded(lb *sim.LoadBalancer) {
	g := sim.VGroup{Name: "the old shop"}
	for i := range 199 {
		g.Backends = append(g.Backends, sim.Backend{Server: workerInstance(0), Port: 1000 + i})
	}
	lb.VGroups = append(lb.VGroups, g)
}

func backendFixtures() []Fixture {
	terway := Config{Terway: true}
	oldest := Config{Version: "v1.9.3.376", Terway: true}
	return []Fixture{
		{
			Name: "quota-grown", Class: tooMany, Says: saysTooMany, Ends: event.Waiting, Config: limits,
			Story:   "It has two ports, and the cluster grows to more nodes than its load balancer may have backends for.",
			prepare: inOrder(account(func(st *sim.State) { limit(st, quotaBackends, 4) }), created(ports(2))),
			inject:  inOrder(grown(2), touched),
			repair:  account(func(st *sim.State) { limit(st, quotaBackends, 8) }),
		},
		{
			Name: "quota-grown-nlb", Class: tooMany, Says: "The quota of " + quotaNetworkServers + " is exceeded", Ends: event.Waiting, Config: limits,
			Story:   "It has an NLB, and the cluster grows to more nodes than that may have servers.",
			prepare: inOrder(account(func(st *sim.State) { limit(st, quotaNetworkServers, 3) }), created(network)),
			inject:  inOrder(grown(2), touched),
			repair:  account(func(st *sim.State) { limit(st, quotaNetworkServers, 8) }),
		},
		{
			Name: "quota-pods", Class: tooMany, Says: saysTooMany, Ends: event.Waiting, Config: terway,
			Story:   "It grows to 201 Pods, and a load balancer has room for 200 backends.",
			prepare: created(withPods(pods{n: 1})), // a Service created for all may be synced before its Pods are seen
			inject:  starts(pods{n: 200}),
		},
		{
			Name: "quota-shared", Class: tooMany, Says: saysTooMany, Ends: event.Waiting,
			Story:  "It is created to use its owner's load balancer, on which others have left room for one backend.",
			inject: inOrder(lent(crowded), lentAs("-new"), created(borrows)),
			repair: rebound("lb", "-new"),
		},
		{
			Name: "eni-lent", Class: unsupported, Says: saysUnsupported, Ends: event.Asked, Config: terway,
			Story:  "Its Pods are to be the backends of its owner's load balancer, which is a shared-resource one.",
			inject: inOrder(lent(shared), created(borrows)),
			repair: balancer(func(lb *sim.LoadBalancer) { lb.ChargeType = "PayByCLCU" }),
		},
		{
			Name: "eni-old", Class: unsupported, Says: saysUnsupported, Ends: event.Asked, Config: terway,
			Story:   "Its load balancer is a shared-resource one of old, whose backends are nodes; now the Pods are to be.",
			prepare: created(nodeBackends),
			inject:  inOrder(balancer(shared), byPods),
			repair:  balancer(func(lb *sim.LoadBalancer) { lb.ChargeType = "PayByCLCU" }),
		},
		{
			Name: "eni-flannel", Class: noInterface, Says: "whose ip is not in vpc cidrs", Ends: event.Fixed, Heals: true,
			Story:  "Its Pods are to be the backends, and they have addresses of Flannel.",
			inject: created(podBackends),
			repair: byNodes,
		},
		{
			Name: "eni-flannel-old", Class: noInterface, Says: saysNoInterface, Ends: event.Fixed, Heals: true, Config: Config{Version: "v2.6.0"},
			Story:  "Its Pods are to be the backends, they have addresses of Flannel, and the controller is an old one.",
			inject: created(podBackends),
			repair: byNodes,
		},
		{
			Name: "eni-missing", Class: noInterface, Says: saysNoInterface, Ends: event.Waiting, Config: terway,
			until:  "v2.13.0",
			Story:  "Its Pod runs, and has no network interface.",
			inject: created(withPods(pods{n: 1, real: true, astray: true})),
			repair: given,
		},
		{
			Name: "eni-missing-new", Class: noInterface, Says: "whose eni is invalid", Ends: event.Waiting, Config: lateConfig,
			Story:   "A Pod more runs, and has no network interface.",
			prepare: created(withPods(pods{n: 1, real: true})),
			inject:  starts(pods{n: 1, real: true, astray: true}),
			repair:  given,
		},
		{
			Name: "eni-missing-nlb", Class: noInterface, Says: "Not sync pods whose eni is invalid: ", Ends: event.Waiting, Config: lateConfig,
			Story:   "A Pod more of its NLB runs, and has no network interface.",
			prepare: created(network, withPods(pods{n: 1, real: true})),
			inject:  starts(pods{n: 1, real: true, astray: true}),
			repair:  given,
		},
		{
			Name: "port-named", Class: namedPort, Says: "The specified Port must be between 1 and 65535.", Ends: event.Asked, Config: oldest,
			Story:  "It names its Pods' port instead of giving the number, and the controller is one of 2021.",
			inject: created(with("spec", "slb.s1.small"), named, withPods(pods{n: 1, real: true})),
			repair: numbered,
		},
	}
}

func nodeFixtures() []Fixture {
	outOfOrder := Config{Own: "nodes not ready"}
	unknown := Config{Own: "node of another cloud"}
	only := func(name string, on kind, story string, options ...option) Fixture {
		return Fixture{
			Name: "nodes-" + name, Class: noNodes, Says: saysNoNodes, Ends: event.Waiting,
			Story:  "Only nodes with its Pods serve it, and " + story,
			inject: created(append(options, local, withPods(pods{n: 1, real: true, on: on}))...),
			repair: starts(pods{n: 1, real: true}),
		}
	}
	return []Fixture{
		{
			Name: "nodes-no-pods", Class: noNodes, Says: saysNoNodes, Ends: event.Waiting,
			Story:  "Only nodes with its Pods serve it, and its selector fits no Pod.",
			inject: created(local, withPods(pods{})),
			repair: starts(pods{n: 1, real: true}),
		},
		{
			Name: "nodes-idle", Class: noNodes, Says: saysNoNodes, Ends: event.Waiting,
			Story:  "Only nodes with its Pods serve it, and its Pods are not ready.",
			inject: created(local, withPods(pods{n: 2, real: true, idle: true})),
			repair: turnsReady,
		},
		only("master", master, "they run on a master."),
		only("excluded", excluded, "they run on a node that a label keeps out of load balancers."),
		only("leaving", leaving, "they run on a node that the autoscaler is about to delete."),
		only("broken", broken, "they run on a node that is not ready."),
		only("cordoned", cordoned, "they run on a node that takes no new Pods, which it wants out.", with("remove-unscheduled-backend", "on")),
		{
			Name: "nodes-label", Class: noNodes, Says: saysNoNodes, Ends: event.Asked,
			Story:  "It wants nodes with a label that none has.",
			inject: created(with("backend-label", "pool=frontend")),
			repair: annotated("backend-label", ""),
		},
		{
			Name: "nodes-label-nlb", Class: noNodes, Says: "There are no available nodes for NetworkLoadBalancer", Ends: event.Asked,
			Story:  "Its NLB wants nodes with a label that none has.",
			inject: created(with("backend-label", "pool=frontend"), network),
			repair: annotated("backend-label", ""),
		},
		{
			Name: "nodes-idle-pods", Class: noNodes, Says: saysNoNodes, Ends: event.Waiting, Config: Config{Terway: true},
			Story:  "Its Pods are the backends, and none is ready.",
			inject: created(withPods(pods{n: 2, real: true, idle: true})),
			repair: turnsReady,
		},
		{
			Name: "nodes-outage", Class: noNodes, Says: saysNoNodes, Ends: event.Waiting, Config: outOfOrder,
			Story:  "It is created while no node of the cluster is ready.",
			inject: inOrder(outage(false), created()),
			repair: outage(true),
		},
		{
			Name: "node-unknown", Class: unresolvable, Says: "unable to split instanceid and region from providerID", Ends: event.Asked, Config: unknown,
			until:  "v2.12.4",
			Story:  "It is created, and a node has joined the cluster whose provider ID is none of this cloud.",
			inject: inOrder(joins(unnamed), created()),
			repair: leaves(unnamed),
		},
		{
			Name: "node-unknown-nlb", Class: unresolvable, Says: "unable to split instanceid and region from providerID", Ends: event.Asked, Config: unknown,
			Story:  "It is created with an NLB, and a node has joined the cluster whose provider ID is none of this cloud.",
			inject: inOrder(joins(unnamed), created(network)),
			repair: leaves(unnamed),
		},
	}
}
