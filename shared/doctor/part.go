package doctor

import (
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// A Part is one part of a snapshot: it is read as a whole, and fails as a whole unless
// it says otherwise.
type Part string

// The parts. Of Listeners, Groups and Backends each load balancer may fail by itself.
const (
	Services   Part = "services"             // of type LoadBalancer and NodePort, and those that the controller has not let go of
	Endpoints  Part = "endpoints"            // of the Services
	Nodes      Part = "nodes"                //
	Events     Part = "events"               // of Services, and by whom those in the controller's name were written
	Guard      Part = "admission policy"     // of who may write Events in the controller's name
	Detail     Part = "cluster"              // of the ACK cluster
	Controller Part = "controller"           // its version, and how it signs
	CLBs       Part = "CLBs"                 // of the region, with all their tags
	NLBs       Part = "NLBs"                 // of the region
	Named      Part = "named load balancers" // that Services name and no list has, each asked for by its ID
	Private    Part = "private CLBs"         // of the cluster's VPC that no Service uses, with what stands on them, and the default groups of all
	Listeners  Part = "listeners"            // of the load balancers in use
	Groups     Part = "backend groups"       // of the load balancers in use, with how many backends they have
	Backends   Part = "backends"             // of these groups
	VSwitches  Part = "vSwitches"            // of the cluster's VPC
	Routes     Part = "routes"               // of the cluster's VPC
	Quotas     Part = "quotas"               // of CLB, NLB and VPC
	Rights     Part = "RAM permissions"      // of the masters' role
	Policy     Part = "policy"               // of the operator
	Failures   Part = "failures"             // of Services, that the stream keeps; left out where none is named
)

// parts says what reading a part takes, beside what the parts that it needs take.
var parts = map[Part]struct {
	reads []grant.Grant
	needs []Part
}{
	Services:   {reads: []grant.Grant{grant.ListServices, grant.GetServices}},
	Endpoints:  {reads: []grant.Grant{grant.ListEndpointSlices}, needs: []Part{Services}},
	Nodes:      {reads: []grant.Grant{grant.ListNodes}},
	Events:     {reads: []grant.Grant{grant.ListEvents}, needs: []Part{Services}},
	Guard:      {reads: []grant.Grant{grant.GetAdmissionPolicies, grant.GetAdmissionBindings}},
	Detail:     {reads: []grant.Grant{grant.DescribeClusterDetail}},
	Controller: {reads: ccm.ControllerReads},
	CLBs:       {reads: []grant.Grant{grant.DescribeLoadBalancers, grant.ListSLBTags}},
	NLBs:       {reads: []grant.Grant{grant.ListNLBs}},
	Named:      {reads: []grant.Grant{grant.DescribeLoadBalancerAttribute, grant.GetNLB}, needs: []Part{Services, CLBs, NLBs}},
	Private:    {reads: []grant.Grant{grant.DescribeLoadBalancerAttribute, grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute}, needs: []Part{Services, CLBs, NLBs, Detail}},
	Listeners:  {reads: []grant.Grant{grant.DescribeLoadBalancerListeners, grant.ListNLBListeners}, needs: []Part{Services, CLBs, NLBs}},
	Groups:     {reads: []grant.Grant{grant.DescribeVServerGroups, grant.ListServerGroups}, needs: []Part{Services, CLBs, NLBs}},
	Backends:   {reads: []grant.Grant{grant.DescribeVServerGroupAttribute, grant.ListServerGroupServers}, needs: []Part{Groups}},
	VSwitches:  {reads: []grant.Grant{grant.DescribeVSwitches}, needs: []Part{Detail}},
	Routes:     {reads: []grant.Grant{grant.DescribeRouteTableList, grant.DescribeRouteEntryList}, needs: []Part{Detail}},
	Quotas:     {reads: []grant.Grant{grant.ListProductQuotas}},
	Rights:     {reads: ccm.RoleReads, needs: []Part{Detail}},
	Policy:     {},                        // it lies in the stream or in a file
	Failures:   {needs: []Part{Services}}, // permissions of NATS: see ScheduledRun
}

// closure returns the parts with all that these need, each once, in a fixed order.
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

// reads returns what reading the parts takes.
func reads(list []Part) []grant.Grant {
	var all []grant.Grant
	for _, p := range closure(list) {
		all = append(all, parts[p].reads...)
	}
	return grant.Set(all)
}

// AllParts returns all parts, in a fixed order.
func AllParts() []Part { return closure(slices.Collect(maps.Keys(parts))) }
