package doctor

import (
	"context"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Part is one part of a snapshot. It is read, and fails, as a whole unless stated otherwise.
type Part string

// Parts, by their names in sentences. Listeners, Groups and Backends may fail for a single load balancer.
var (
	Services   = part(say.F("services"))                // of type LoadBalancer and NodePort, and those the controller still holds
	Endpoints  = part(say.F("endpoints"))               // of the Services
	Nodes      = part(say.F("nodes"))                   //
	Events     = part(say.F("events"))                  // of Services, and the writers of those in the controller's name
	Writers    = part(say.F("admission policy"))        // for writers of Events in the controller's name
	Guard      = part(say.F("guard"))                   // the admission policy that stops irreversible edits
	Protection = part(say.F("ACK deletion protection")) // ACK's own, in the namespaces that the policy protects
	Detail     = part(say.F("cluster"))                 // of the ACK cluster
	Controller = part(say.F("controller"))              // its version, and how it signs
	CLBs       = part(say.F("CLBs"))                    // of the region, with all their tags
	NLBs       = part(say.F("NLBs"))                    // of the region
	Named      = part(say.F("named load balancers"))    // named by Services and missing from the lists, each read by its ID
	Private    = part(say.F("private CLBs"))            // of the cluster's VPC and unused by Services, with what they hold, and the default groups of all
	Listeners  = part(say.F("listeners"))               // of the load balancers in use
	Groups     = part(say.F("backend groups"))          // of the load balancers in use, with their number of backends
	Backends   = part(say.F("backends"))                // of these groups
	Guards     = part(say.F("security groups"))         // of the NLBs of Services with source ranges, with their rules
	VSwitches  = part(say.F("vSwitches"))               // of the cluster's VPC
	Routes     = part(say.F("routes"))                  // of the cluster's VPC
	Quotas     = part(say.F("quotas"))                  // of CLB, NLB and VPC
	Rights     = part(say.F("RAM permissions"))         // of the controller's role
	Policy     = part(say.F("policy"))                  // the operator's
	Failures   = part(say.F("failures"))                // of Services, from the stream; left out if none is configured
	Ingress    = part(say.F("ingress controller"))      // ACK's; runs as a Deployment or a DaemonSet
	Delays     = part(say.F("measured delays"))         // of syncs after lbremedy's changes, from the stream; left out like Failures
)

func part(words say.Text) Part { return Part(words.String()) }

func (p Part) words() say.Text { return say.Text{{Format: string(p)}} }

// parts says how to read each part, which returns the number of objects, and the permissions for that besides those of the parts it needs.
var parts = map[Part]struct {
	read  func(context.Context, *snapshotReader) (int, error)
	reads []grant.Grant
	needs []Part
}{
	Services:   {read: readServices, reads: []grant.Grant{grant.ListServices, grant.GetServices}},
	Endpoints:  {read: readEndpoints, reads: []grant.Grant{grant.ListEndpointSlices}, needs: []Part{Services}},
	Nodes:      {read: readNodes, reads: []grant.Grant{grant.ListNodes}},
	Events:     {read: readEvents, reads: []grant.Grant{grant.ListEvents}, needs: []Part{Services}},
	Writers:    {read: readWriters, reads: []grant.Grant{grant.GetAdmissionPolicies, grant.GetAdmissionBindings}},
	Guard:      {read: readGuard, reads: []grant.Grant{grant.GetAdmissionPolicies, grant.GetAdmissionBindings}},
	Protection: {read: readProtection, reads: []grant.Grant{grant.DescribeDeleteProtection}, needs: []Part{Services, Policy}},
	Detail:     {read: readDetail, reads: []grant.Grant{grant.DescribeClusterDetail}},
	Controller: {read: readController, reads: ccm.ControllerReads},
	CLBs:       {read: readCLBs, reads: []grant.Grant{grant.DescribeLoadBalancers, grant.ListSLBTags}},
	NLBs:       {read: readNLBs, reads: []grant.Grant{grant.ListNLBs}},
	Named:      {read: readNamed, reads: []grant.Grant{grant.DescribeLoadBalancerAttribute, grant.GetNLB}, needs: []Part{Services, CLBs, NLBs}},
	Private: {
		read:  readPrivate,
		reads: []grant.Grant{grant.DescribeLoadBalancerAttribute, grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute},
		needs: []Part{Services, CLBs, NLBs, Detail},
	},
	Listeners: {
		read:  readListeners,
		reads: []grant.Grant{grant.DescribeLoadBalancerListeners, grant.ListNLBListeners},
		needs: []Part{Services, CLBs, NLBs},
	},
	Groups:   {read: readGroups, reads: []grant.Grant{grant.DescribeVServerGroups, grant.ListServerGroups}, needs: []Part{Services, CLBs, NLBs}},
	Backends: {read: readBackends, reads: []grant.Grant{grant.DescribeVServerGroupAttribute, grant.ListServerGroupServers}, needs: []Part{Groups, Listeners}},
	Guards: {
		read:  readGuards,
		reads: []grant.Grant{grant.DescribeSecurityGroups, grant.DescribeSecurityGroup},
		needs: []Part{Services, NLBs},
	},
	VSwitches: {read: readVSwitches, reads: []grant.Grant{grant.DescribeVSwitches}, needs: []Part{Detail}},
	Routes:    {read: readRoutes, reads: []grant.Grant{grant.DescribeRouteTableList, grant.DescribeRouteEntryList}, needs: []Part{Detail}},
	Quotas:    {read: readQuotas, reads: []grant.Grant{grant.ListProductQuotas}},
	Rights:    {read: readRights, reads: ccm.RoleReads, needs: []Part{Detail}},
	Policy:    {read: readPolicy},                            // stored where the engine reads it
	Failures:  {read: readFailures, needs: []Part{Services}}, // for permissions of NATS see ScheduledRun
	Ingress:   {read: readIngress, reads: []grant.Grant{grant.GetDeployments, grant.ListDaemonSets}, needs: []Part{Services}},
	Delays:    {read: readDelays},
}

// closure returns the parts and all that they need, in a fixed order.
func closure(list []Part) []Part {
	var all []Part
	var add func(Part)
	add = func(p Part) {
		if slices.Contains(all, p) {
			return
		}
		all = append(all, p)
		for _, need := range parts[p].needs {
			add(need)
		}
	}
	for _, p := range list {
		add(p)
	}
	slices.Sort(all)
	return all
}

func reads(list []Part) []grant.Grant {
	var all []grant.Grant
	for _, p := range closure(list) {
		all = append(all, parts[p].reads...)
	}
	return grant.Set(all)
}
