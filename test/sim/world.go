package sim

import (
	"encoding/json"
	"fmt"
	"time"

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
	ForgetTokens      bool               `json:"forgetTokens,omitempty"` // a client token ends with what it made; else it brings the answer of then even when that is gone
	KnownServers      bool               `json:"knownServers,omitempty"` // only what Instances and ENIs state can be a backend of CLB, else anything can
}

// An Account says what an account may buy.
type Account struct {
	Balance           string `json:"balance,omitempty"`           // available amount, as "1,234.56"; below 100 nothing can be created
	Currency          string `json:"currency,omitempty"`          // CNY if empty
	Arrearage         bool   `json:"arrearage,omitempty"`         // there are unpaid bills
	ShareInstanceHalt bool   `json:"shareInstanceHalt,omitempty"` // shared-resource CLBs are no longer sold
	Gate              string `json:"gate,omitempty"`              // documented code that CLB refuses to sell with, such as RISK.RISK_CONTROL_REJECTION
}

// A RAM says how the access control of the account behaves.
type RAM struct {
	Delay          Duration `json:"delay,omitempty"`          // after which a change of policies takes effect
	NoServiceRoles bool     `json:"noServiceRoles,omitempty"` // nobody made the service-linked roles, without which no NLB can be created
	FilterLists    bool     `json:"filterLists,omitempty"`    // lists of load balancers leave out what the caller may not see, instead of answering 403
}

// A Cluster is an ACK cluster.
type Cluster struct {
	ID                string            `json:"id,omitempty"`
	Name              string            `json:"name,omitempty"`
	VPC               string            `json:"vpc,omitempty"`          // the first VPC if empty
	Type              string            `json:"type,omitempty"`         // ManagedKubernetes (the zero value) or Kubernetes, a dedicated one
	Version           string            `json:"version,omitempty"`      // of Kubernetes
	VSwitches         []string          `json:"vswitches,omitempty"`    // nil: all of the VPC that are not for pods
	PodVSwitches      []string          `json:"podVSwitches,omitempty"` // of Terway
	NodePools         []NodePool        `json:"nodePools,omitempty"`    // nil: default-nodepool in the cluster's vSwitches
	Addons            map[string]string `json:"addons,omitempty"`       // name to version; cloud-controller-manager is always there
	AddonLatest       map[string]string `json:"addonLatest,omitempty"`  // newer versions that add-ons can be upgraded to
	AddonConfig       map[string]string `json:"addonConfig,omitempty"`
	Kubeconfig        string            `json:"kubeconfig,omitempty"`        // that DescribeClusterUserKubeconfig hands out
	PrivateKubeconfig string            `json:"privateKubeconfig,omitempty"` // the one for inside the VPC; Kubeconfig if empty
	APIServer         string            `json:"apiServer,omitempty"`         // ID of the load balancer of its API server; it is made if it is not there; empty: none
	MasterRole        string            `json:"masterRole,omitempty"`        // of a dedicated cluster
	NoMasterRole      bool              `json:"noMasterRole,omitempty"`      // a dedicated cluster whose stack made no role for its masters
	WorkerRole        string            `json:"workerRole,omitempty"`
	Network           string            `json:"network,omitempty"` // flannel (the zero value) or terway-eniip
	PodCIDR           string            `json:"podCidr,omitempty"`
	ServiceCIDR       string            `json:"serviceCidr,omitempty"`
	Metadata          map[string]any    `json:"metadata,omitempty"` // merged into meta_data of the cluster's detail
}

// A NodePool is a group of nodes of the cluster.
type NodePool struct {
	ID        string   `json:"id,omitempty"`
	Name      string   `json:"name,omitempty"`
	Default   bool     `json:"default,omitempty"`
	VSwitches []string `json:"vswitches,omitempty"`
}

// A VPC is a private network.
type VPC struct {
	ID             string   `json:"id,omitempty"`
	Name           string   `json:"name,omitempty"`
	CIDR           string   `json:"cidr,omitempty"`
	SecondaryCIDRs []string `json:"secondaryCidrs,omitempty"`
}

// A VSwitch is a subnet of a VPC in one zone.
type VSwitch struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	VPC    string `json:"vpc,omitempty"`  // the cluster's if empty
	Zone   string `json:"zone,omitempty"` // zone h of the region if empty
	CIDR   string `json:"cidr,omitempty"` // a /20 of its own if empty
	Free   *int   `json:"free,omitempty"` // free addresses; nil: as many as the CIDR block has
	Status string `json:"status,omitempty"`
	IPv6   string `json:"ipv6,omitempty"` // IPv6 CIDR block; empty: none
}

// A LoadBalancer is a CLB instance.
type LoadBalancer struct {
	ID                     string            `json:"id,omitempty"`
	Name                   string            `json:"name,omitempty"`
	Address                string            `json:"address,omitempty"`     // the next free one if empty
	AddressType            string            `json:"addressType,omitempty"` // intranet if a vSwitch is named, else internet
	IPVersion              string            `json:"ipVersion,omitempty"`   // ipv4 if empty
	VPC                    string            `json:"vpc,omitempty"`         // the vSwitch's if empty
	VSwitch                string            `json:"vswitch,omitempty"`
	MasterZone             string            `json:"masterZone,omitempty"`
	SlaveZone              string            `json:"slaveZone,omitempty"`
	Spec                   string            `json:"spec,omitempty"`               // empty with PayBySpec: a shared-resource instance
	ChargeType             string            `json:"chargeType,omitempty"`         // PayByCLCU if there is no spec, else PayBySpec
	InternetChargeType     string            `json:"internetChargeType,omitempty"` // paybytraffic if empty
	Bandwidth              int               `json:"bandwidth,omitempty"`
	PayType                string            `json:"payType,omitempty"` // PayOnDemand if empty; PrePay is a subscription
	Tags                   map[string]string `json:"tags,omitempty"`
	ModificationProtection Protection        `json:"modificationProtection,omitzero"`
	DeleteProtection       bool              `json:"deleteProtection,omitempty"`
	ResourceGroup          string            `json:"resourceGroup,omitempty"`
	Status                 string            `json:"status,omitempty"` // active if empty
	Created                time.Time         `json:"created,omitzero"`
	Listeners              []Listener        `json:"listeners,omitempty"`
	VGroups                []VGroup          `json:"vgroups,omitempty"`
}

// A Protection keeps a load balancer from being changed in the console.
type Protection struct {
	Status string `json:"status,omitempty"` // NonProtection if empty, or ConsoleProtection
	Reason string `json:"reason,omitempty"`
}

// A Listener is a port that a load balancer forwards.
type Listener struct {
	Port        int               `json:"port"`
	Protocol    string            `json:"protocol,omitempty"` // tcp if empty
	VGroup      string            `json:"vgroup,omitempty"`   // ID
	Description string            `json:"description,omitempty"`
	Status      string            `json:"status,omitempty"` // running in a World if empty; a created one is stopped
	Scheduler   string            `json:"scheduler,omitempty"`
	Bandwidth   int               `json:"bandwidth,omitempty"`
	Config      map[string]string `json:"config,omitempty"` // the other parameters, by their names in the API
	Rules       []Rule            `json:"rules,omitempty"`
	Domains     []Domain          `json:"domains,omitempty"` // further ones of an HTTPS listener
}

// A Rule forwards some of the requests of an HTTP listener to another group.
type Rule struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	Domain string `json:"domain,omitempty"`
	URL    string `json:"url,omitempty"`
	VGroup string `json:"vgroup,omitempty"`
}

// A Domain is a further domain of an HTTPS listener, with its certificate.
type Domain struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name,omitempty"`
	Certificate string `json:"certificate,omitempty"`
}

// A VGroup is a group of backends, a vServer group.
type VGroup struct {
	ID       string    `json:"id,omitempty"`
	Name     string    `json:"name,omitempty"`
	Backends []Backend `json:"backends,omitempty"`
}

// A Backend is a server behind a load balancer.
type Backend struct {
	Server      string `json:"server,omitempty"` // ID of an instance or an ENI
	IP          string `json:"ip,omitempty"`
	Type        string `json:"type,omitempty"` // ecs if empty, or eni
	Port        int    `json:"port,omitempty"`
	Weight      *int   `json:"weight,omitempty"` // 100 if nil
	Description string `json:"description,omitempty"`
}

// An EIP is an elastic public address.
type EIP struct {
	ID           string `json:"id,omitempty"`
	IP           string `json:"ip,omitempty"`
	Instance     string `json:"instance,omitempty"`
	InstanceType string `json:"instanceType,omitempty"` // such as SlbInstance
}

// An ENI is a network interface.
type ENI struct {
	Name            string   `json:"name,omitempty"`
	Description     string   `json:"description,omitempty"`
	SecurityGroups  []string `json:"securityGroups,omitempty"`
	SourceDestCheck bool     `json:"sourceDestCheck,omitempty"`
	ID              string   `json:"id,omitempty"`
	IPs             []string `json:"ips,omitempty"` // the first is the primary one
	VPC             string   `json:"vpc,omitempty"`
	VSwitch         string   `json:"vswitch,omitempty"`
	Instance        string   `json:"instance,omitempty"`
	Status          string   `json:"status,omitempty"` // InUse if empty
	Type            string   `json:"type,omitempty"`   // Secondary if empty
}

// An Instance is an ECS server.
type Instance struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	IP      string `json:"ip,omitempty"`
	VPC     string `json:"vpc,omitempty"`
	VSwitch string `json:"vswitch,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Status  string `json:"status,omitempty"` // Running if empty
}

// A Certificate is a server certificate that HTTPS listeners use.
type Certificate struct {
	ID      string            `json:"id,omitempty"`
	Name    string            `json:"name,omitempty"`
	Domain  string            `json:"domain,omitempty"` // its common name
	Names   []string          `json:"names,omitempty"`  // further ones
	Expires time.Time         `json:"expires,omitzero"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// A Role is a RAM role. The policies are names of World.Policies or of the
// system policies that the simulator knows: AdministratorAccess and
// Aliyun<Product>FullAccess.
type Role struct {
	Name     string      `json:"name,omitempty"`
	Policies []string    `json:"policies,omitempty"`
	OIDC     []OIDCTrust `json:"oidc,omitempty"` // who may assume it with a token of an issuer
}

// A Policy is a RAM policy with its versions.
type Policy struct {
	Name     string          `json:"name,omitempty"`
	Type     string          `json:"type,omitempty"` // Custom if empty, or System
	Versions []PolicyVersion `json:"versions,omitempty"`
	Roles    []string        `json:"roles,omitempty"` // attached to these, besides the ones that name it
	Users    []string        `json:"users,omitempty"`
}

// A PolicyVersion is a version of a policy's document.
type PolicyVersion struct {
	ID       string    `json:"id,omitempty"` // v1, v2, … by its place if empty
	Document string    `json:"document,omitempty"`
	Default  bool      `json:"default,omitempty"` // the last one if none is
	Created  time.Time `json:"created,omitzero"`
}

// A Caller is an access key. It may do what its Allow list says and what the
// policies of its role or user say, and nothing else.
type Caller struct {
	Name        string    `json:"name,omitempty"` // the access key ID if empty
	AccessKeyID string    `json:"accessKeyId,omitempty"`
	Secret      string    `json:"secret,omitempty"`
	Token       string    `json:"token,omitempty"` // of STS; empty: a permanent key
	Expires     time.Time `json:"expires,omitzero"`
	Role        string    `json:"role,omitempty"`
	User        string    `json:"user,omitempty"`
	Policy      string    `json:"policy,omitempty"` // document that leaves a session less than its role has
	Allow       []string  `json:"allow,omitempty"`  // RAM actions, such as slb:Describe*
	Deny        []string  `json:"deny,omitempty"`
}

// Credentials are what a client signs with. Token is empty for a permanent key.
type Credentials struct {
	AccessKeyID string
	Secret      string
	Token       string
}

// A Ticket is a work order.
type Ticket struct {
	ID          string    `json:"id,omitempty"`
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Category    string    `json:"category,omitempty"`
	Severity    int       `json:"severity,omitempty"`
	Status      string    `json:"status,omitempty"` // in_progress if empty; assigned, wait_feedback, feedback, wait_confirm or completed
	Notes       []string  `json:"notes,omitempty"`
	Score       int       `json:"score,omitempty"` // 1 to 5, when somebody gave one
	Created     time.Time `json:"created,omitzero"`
}

// A Duration is a time.Duration that is written as "30s" in YAML and JSON.
type Duration time.Duration

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a duration that is written as a string.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
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
