package sim

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// A World is what a simulated account starts with, as a value.
//
// Every field has a zero value that makes sense, so that a test states only
// what matters to it: no VPC means one VPC, no vSwitch one vSwitch with room,
// and so on. [Cloud.Snapshot] gives the present state in the same form, with
// all defaults filled in and all lists sorted.
type World struct {
	Region            string             `json:"region,omitempty"`    // cn-hangzhou if empty
	AccountID         string             `json:"accountId,omitempty"` // 16 digits
	Account           Account            `json:"account,omitzero"`
	Cluster           Cluster            `json:"cluster,omitzero"`
	VPCs              []VPC              `json:"vpcs,omitempty"`
	VSwitches         []VSwitch          `json:"vswitches,omitempty"`
	Zones             []Zone             `json:"zones,omitempty"`       // nil: h and i; those of vSwitches and load balancers are added
	RouteTables       []RouteTable       `json:"routeTables,omitempty"` // each VPC has one of the system besides
	LoadBalancers     []LoadBalancer     `json:"loadBalancers,omitempty"`
	NLBs              []NLB              `json:"nlbs,omitempty"`
	ServerGroups      []ServerGroup      `json:"serverGroups,omitempty"` // of NLBs
	SecurityGroups    []SecurityGroup    `json:"securityGroups,omitempty"`
	EIPs              []EIP              `json:"eips,omitempty"`
	ENIs              []ENI              `json:"enis,omitempty"`
	Instances         []Instance         `json:"instances,omitempty"`
	ACLs              []ACL              `json:"acls,omitempty"` // access control lists of CLB
	Certificates      []Certificate      `json:"certificates,omitempty"`
	RAM               RAM                `json:"ram,omitzero"`
	Roles             []Role             `json:"roles,omitempty"`
	Policies          []Policy           `json:"policies,omitempty"`
	OIDCProviders     []OIDCProvider     `json:"oidcProviders,omitempty"`
	Callers           []Caller           `json:"callers,omitempty"`
	Quotas            []Quota            `json:"quotas,omitempty"` // nil: the usual ones of CLB, NLB and VPC
	QuotaApplications []QuotaApplication `json:"quotaApplications,omitempty"`
	Tickets           []Ticket           `json:"tickets,omitempty"` // of the work order system
	Lag               Lag                `json:"lag,omitzero"`
	// a client token ends with what it made; else it brings the answer of then even when that is gone
	ForgetTokens bool `json:"forgetTokens,omitempty"`
	KnownServers bool `json:"knownServers,omitempty"` // only what Instances and ENIs state can be a backend of CLB, else anything can
}

// ParseWorld reads a World from YAML or JSON. A field that it does not know is
// an error.
func ParseWorld(b []byte) (*World, error) {
	var w World
	if err := yaml.UnmarshalStrict(b, &w); err != nil {
		return nil, fmt.Errorf("parse world: %w", err)
	}
	return &w, nil
}
