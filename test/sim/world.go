package sim

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// A World is the initial content of a simulated account. The zero value of every field is useful: without a VPC there is one VPC, without a
// vSwitch one with room, and so on. [Cloud.Snapshot] returns the current state in this form, sorted, with all defaults set.
type World struct {
	Region            string             `json:"region,omitempty"`    // cn-hangzhou if empty
	AccountID         string             `json:"accountId,omitempty"` // 16 digits
	Account           Account            `json:"account,omitzero"`
	Cluster           Cluster            `json:"cluster,omitzero"`
	VPCs              []VPC              `json:"vpcs,omitempty"`
	VSwitches         []VSwitch          `json:"vswitches,omitempty"`
	Zones             []Zone             `json:"zones,omitempty"`       // nil: h and i; zones of vSwitches and load balancers are added
	RouteTables       []RouteTable       `json:"routeTables,omitempty"` // besides each VPC's system table
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
	// a client token expires with its resource; otherwise it returns the old answer even after a deletion
	ForgetTokens bool `json:"forgetTokens,omitempty"`
	KnownServers bool `json:"knownServers,omitempty"` // only Instances and ENIs can be backends of CLB; otherwise anything can
}

// ParseWorld parses a World from YAML or JSON. Unknown fields are errors.
func ParseWorld(b []byte) (*World, error) {
	var w World
	if err := yaml.UnmarshalStrict(b, &w); err != nil {
		return nil, fmt.Errorf("parse world: %w", err)
	}
	return &w, nil
}
