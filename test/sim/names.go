package sim

import (
	"github.com/lbremedy/lbremedy/test/sim/billing"
	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/cs"
	"github.com/lbremedy/lbremedy/test/sim/ecs"
	"github.com/lbremedy/lbremedy/test/sim/nlb"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
	"github.com/lbremedy/lbremedy/test/sim/ram"
	"github.com/lbremedy/lbremedy/test/sim/slb"
	"github.com/lbremedy/lbremedy/test/sim/support"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

// Aliases of the products' types, so a test that builds a World needs one import.
type (
	// Lag is [core.Lag].
	Lag = core.Lag
	// Duration is [core.Duration].
	Duration = core.Duration
	// Caller is [core.Caller].
	Caller = core.Caller
	// Credentials is [core.Credentials].
	Credentials = core.Credentials

	// Account is [billing.Account].
	Account = billing.Account

	// Quota is [quotas.Quota].
	Quota = quotas.Quota
	// QuotaApplication is [quotas.QuotaApplication].
	QuotaApplication = quotas.QuotaApplication

	// RAM is [ram.Settings].
	RAM = ram.Settings
	// Role is [ram.Role].
	Role = ram.Role
	// Policy is [ram.Policy].
	Policy = ram.Policy
	// PolicyVersion is [ram.PolicyVersion].
	PolicyVersion = ram.PolicyVersion
	// OIDCProvider is [ram.OIDCProvider].
	OIDCProvider = ram.OIDCProvider
	// OIDCTrust is [ram.OIDCTrust].
	OIDCTrust = ram.OIDCTrust

	// VPC is [vpc.VPC].
	VPC = vpc.VPC
	// VSwitch is [vpc.VSwitch].
	VSwitch = vpc.VSwitch
	// Zone is [vpc.Zone].
	Zone = vpc.Zone
	// RouteTable is [vpc.RouteTable].
	RouteTable = vpc.RouteTable
	// Route is [vpc.Route].
	Route = vpc.Route
	// EIP is [vpc.EIP].
	EIP = vpc.EIP

	// Instance is [ecs.Instance].
	Instance = ecs.Instance
	// ENI is [ecs.ENI].
	ENI = ecs.ENI
	// SecurityGroup is [ecs.SecurityGroup].
	SecurityGroup = ecs.SecurityGroup
	// SecurityRule is [ecs.SecurityRule].
	SecurityRule = ecs.SecurityRule

	// LoadBalancer is [slb.LoadBalancer].
	LoadBalancer = slb.LoadBalancer
	// Protection is [slb.Protection].
	Protection = slb.Protection
	// Listener is [slb.Listener].
	Listener = slb.Listener
	// Rule is [slb.Rule].
	Rule = slb.Rule
	// Domain is [slb.Domain].
	Domain = slb.Domain
	// VGroup is [slb.VGroup].
	VGroup = slb.VGroup
	// Backend is [slb.Backend].
	Backend = slb.Backend
	// ACL is [slb.ACL].
	ACL = slb.ACL
	// ACLEntry is [slb.ACLEntry].
	ACLEntry = slb.ACLEntry
	// Certificate is [slb.Certificate].
	Certificate = slb.Certificate

	// NLB is [nlb.NLB].
	NLB = nlb.NLB
	// NLBZone is [nlb.NLBZone].
	NLBZone = nlb.NLBZone
	// NLBListener is [nlb.NLBListener].
	NLBListener = nlb.NLBListener
	// ServerGroup is [nlb.ServerGroup].
	ServerGroup = nlb.ServerGroup
	// Server is [nlb.Server].
	Server = nlb.Server

	// Cluster is [cs.Cluster].
	Cluster = cs.Cluster
	// NodePool is [cs.NodePool].
	NodePool = cs.NodePool

	// Ticket is [support.Ticket].
	Ticket = support.Ticket
)
