package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

type nodeFault int

const (
	unset       nodeFault = iota // nodes without provider ID
	wrong                        // nodes whose provider ID does not lead to a server of this cloud
	unseen                       // nodes whose server lbremedy does not see
	stopped                      // nodes whose server is not running
	outside                      // nodes whose server the load balancer cannot reach
	hybrid                       // hybrid nodes that the release does not exclude
	homeless                     // Pods on nodes that do not exist
	misnamed                     // endpoints without Pod that name a node that does not exist
	nodeless                     // endpoints that name no node
	addressless                  // nodes without an internal address, where the address is the backend
	nodeFaults
)

// NodeFaults collects what is wrong with nodes and endpoints that the controller makes backends.
type NodeFaults struct {
	Region, VPC string // of the cluster
	ByAddress   bool   // a backend is the address of a node, not its server

	Findings []say.Text           // one clause each
	Names    []string             // of all nodes and endpoints with a fault
	by       [nodeFaults][]string // names by kind
	stopped  []string             // IDs of servers
}

func (f *NodeFaults) add(k nodeFault, name string, finding say.Text) {
	f.by[k] = append(f.by[k], name)
	f.Names = append(f.Names, name)
	f.Findings = append(f.Findings, finding)
}

// Add records what is wrong with a node; servers are those of the node's cluster.
func (f *NodeFaults) Add(n corev1.Node, servers []cloud.Instance) {
	id := n.Spec.ProviderID
	region, instance, ok := SplitProviderID(id)
	var server cloud.Instance
	at := slices.IndexFunc(servers, func(s cloud.Instance) bool { return s.ID == instance })
	if at >= 0 {
		server = servers[at]
	}
	switch {
	case f.ByAddress && HasInternalIP(&n): // its server is not needed
	case f.ByAddress:
		f.add(addressless, n.Name, say.F("the node %s has no internal IPv4 address in its status", n.Name))
	case !ok, IsHybrid(&n), IsLingJun(&n) && at < 0:
		f.unnamed(n)
	case region != f.Region:
		f.add(outside, n.Name, say.F("the node %s has the providerID %s, but the cluster is in the region %s", n.Name, Quote(id), f.Region))
	case at < 0:
		f.add(unseen, n.Name, say.F("the node %s has the providerID %s, which is not among the servers that ECS lists in %s", n.Name, Quote(id), f.Region))
	case server.VPC == "" && f.VPC != "":
		f.add(outside, n.Name, say.F("the server %s of the node %s is in the classic network, but the cluster is in the VPC %s", instance, n.Name, f.VPC))
	case server.VPC != f.VPC:
		f.add(outside, n.Name, say.F("the server %s of the node %s is in the VPC %s, but the cluster is in the VPC %s", instance, n.Name, server.VPC, f.VPC))
	case server.Status != "Running":
		f.stopped = append(f.stopped, instance)
		f.add(stopped, n.Name, say.F("the server %s of the node %s is %q", instance, n.Name, server.Status))
	case len(server.IPs) == 0:
		f.add(outside, n.Name, say.F("the server %s of the node %s has no private address", instance, n.Name))
	}
}

func (f *NodeFaults) unnamed(n corev1.Node) {
	switch {
	case IsLingJun(&n): // its server exists, but cannot register with another ID
		f.add(outside, n.Name, say.F("the node %s is a LingJun node with the providerID %s, which is not an ECS server", n.Name, Quote(n.Spec.ProviderID)))
		return
	case n.Spec.ProviderID == "":
		f.add(unset, n.Name, say.F("the node %s has no providerID", n.Name))
		return
	case IsHybrid(&n):
		f.add(hybrid, n.Name, say.F("the node %s is a hybrid node with the providerID %s", n.Name, Quote(n.Spec.ProviderID)))
		return
	}
	f.add(wrong, n.Name, say.F("the node %s has the providerID %s, which is not region.instance", n.Name, Quote(n.Spec.ProviderID)))
}

func (f *NodeFaults) nameless(e Endpoint) {
	f.add(nodeless, e.Name(), say.F("the endpoint %s of the Service names no node", e.Name()))
}

// Release says why hybrid nodes, if any, are a fault with the running release, which may be unknown.
func (f *NodeFaults) Release(runs Version) say.Text {
	switch {
	case len(f.by[hybrid]) == 0:
		return nil
	case runs == Version{}:
		return say.F("The version of CCM is unknown, and only %s or newer excludes hybrid nodes.", FirstHybrid())
	}
	return say.F("CCM %s is running, and only %s or newer excludes hybrid nodes.", runs, FirstHybrid())
}

// Lost records the endpoints whose node does not exist or is not named.
func (f *NodeFaults) Lost(pods []Endpoint, nodes []corev1.Node) {
	for _, e := range pods {
		k := homeless
		switch {
		case slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == e.Node }):
			continue
		case e.Node == "":
			f.nameless(e)
			continue
		case e.Pod == "":
			k = misnamed
		}
		f.add(k, e.Name(), say.F("the endpoint %s of the Service is on the node %s, which does not exist", e.Name(), e.Node))
	}
}

// Ask returns what a person does about each kind of fault.
func (f *NodeFaults) Ask(svc *corev1.Service) (ask say.Text) {
	named := func(list []string) say.Text { return say.List(list, 5) }
	words := func(list []string) string { return strings.Join(list[:min(len(list), 5)], " ") } // for a command
	if list := f.by[unset]; len(list) > 0 {
		ask = ask.And(`Set the providerID of the node %[1]s: kubectl patch node %[1]s -p '{"spec":{"providerID":"REGION.INSTANCE"}}'.`, list[0])
	}
	if list := f.by[wrong]; len(list) > 0 {
		ask = ask.And("A providerID cannot be changed. Delete each node that belongs to this region and VPC (%s): kubectl delete node %s.", named(list), words(list)).
			And("Then let its kubelet register it again with --provider-id=REGION.INSTANCE.")
	}
	if list := f.by[unseen]; len(list) > 0 { // a node that is not ready cannot be a backend
		ask = ask.And("Check in the ECS console whether the server of %s exists.", named(list)).
			And("The node reports Ready, so its server runs, and lbremedy may not be allowed to see it.")
	}
	if list := f.by[stopped]; len(list) > 0 {
		ask = ask.And("Start the server of %s, for example: aliyun ecs StartInstance --RegionId %s --InstanceId %s.", named(list), f.Region, f.stopped[0]).
			And("If it will not run again, delete the node.")
	}
	if list := slices.Concat(f.by[wrong], f.by[outside], f.by[hybrid]); len(list) > 0 {
		ask = ask.And("Exclude each node that belongs elsewhere (%s) from all load balancers: kubectl label node %s service.alibabacloud.com/exclude-node=true.",
			named(list), words(list)).
			And("Its Pods are then reached through other nodes, or not at all if externalTrafficPolicy is Local.")
	}
	if len(f.by[hybrid]) > 0 {
		ask = ask.And("Or upgrade the add-on cloud-controller-manager to %s or newer, which excludes hybrid nodes by itself.", FirstHybrid())
	}
	if list := f.by[homeless]; len(list) > 0 {
		ask = ask.And("Bring back the node of %s, or recreate the Pods on another node: %s.", named(list), DeletePodsCommand(svc, list[:min(len(list), 5)]))
	}
	if list := f.by[misnamed]; len(list) > 0 {
		ask = ask.And("Bring back the node of %s, or correct the nodeName in its EndpointSlice. To find the EndpointSlice: %s.", named(list), SlicesCommand(svc))
	}
	if list := f.by[nodeless]; len(list) > 0 {
		ask = ask.And("Add the nodeName of %s to its EndpointSlice. To find the EndpointSlice: %s.", named(list), SlicesCommand(svc))
	}
	if list := f.by[addressless]; len(list) > 0 {
		ask = ask.And("Find out why the kubelet of %s reports no internal address: kubectl describe node %s.", named(list), words(list)).
			And("A new node gets one once the controller has initialized it. Delete a node that has no server any more.")
	}
	return ask
}
