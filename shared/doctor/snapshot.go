package doctor

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Snapshot is what one run has read of a cluster and its cloud. Checks only read
// it. Lists are sorted by name or ID.
type Snapshot struct {
	Time    time.Time // when it was read
	Cluster string    // ID of the ACK cluster
	Region  string

	Services   []corev1.Service                       // without managedFields
	Marks      map[types.UID]Mark                     // of the Services
	Replaced   map[string]corev1.Service              // by namespace/name: in whose place there are manifests
	Others     error                                  // why the Services beside the manifests are not known
	Slices     map[string][]discoveryv1.EndpointSlice // by the Service's namespace/name
	Moved      map[string]time.Time                   // by the same: when any of its slices was last written; missing: not known
	Nodes      []corev1.Node                          // labels, taints, conditions and provider ID
	Events     map[types.UID][]Event                  // the controller's, by the Service's UID, the oldest first
	Unkept     map[types.UID]int                      // how many older ones of a Service there were than are kept
	Claims     []Claim                                // the Events that bear the name of the controller
	Unclaimed  int                                    // how many more of these there were than are kept
	Writers    kube.Binding                           // of the policy of who may write these
	Guard      kube.Binding                           // of the guard
	Protected  map[string]bool                        // by namespace, and by the Service's namespace/name: whether ACK refuses its deletion; missing: not known
	Detail     cloud.Cluster
	Controller ccm.Controller
	Balancers  map[string]*LoadBalancer // of both kinds, by ID
	// Named says of each load balancer that a Service names, by its annotation or its
	// label, and that no list has, what the API said when it was asked for it: nil if it
	// exists, cloud.ErrNotFound if it does not.
	Named        map[string]error
	ServerGroups []Group                  // of NLBs, which the controller of this cluster made
	Guards       map[string]Guarding      // security groups that NLBs of Services with source ranges are in, and those with their name tag, by ID
	VSwitches    map[string]cloud.VSwitch // by ID
	Routes       map[string][]cloud.Route // by the route table's ID
	Quotas       []cloud.Quota
	Role         ccm.Role
	Policy       remedy.Policy
	// Failures says when the failure happened that the stream keeps of a Service, the
	// newest of all classes; of a Service that is not in it the stream keeps none, which
	// it does for 7 days. Nil: no stream is named.
	Failures map[types.UID]time.Time
	// Delays are how long the controller took to sync Services after lbremedy had changed them, the oldest
	// first. Nil: no stream is named.
	Delays []time.Duration
	Heard  time.Time // when an exporter last gave a sign of life; zero: none ever has, or no stream is named

	// Ingress says how the ingress controller stands that ACK installs with a cluster.
	Ingress struct {
		Kind    string // Deployment or DaemonSet; empty: neither is there
		Ready   int    // how many of its Pods are ready
		Service bool   // its Service is there, of whatever type
	}

	// Failed says of each part that could not be read why. A part that nobody asked
	// for is in neither.
	Failed map[Part]error
	// Given are the parts that were asked for.
	Given []Part

	byTag, byName, byAddress map[string][]*LoadBalancer
}

// A Mark is what the managed fields of a Service say.
type Mark struct {
	Synced  time.Time // when the controller last wrote its hash label; zero: not known
	Changed time.Time // when anybody who writes annotations or the spec last wrote; zero: not known
}

// An Event is an Event of Kubernetes about a Service that bears the name of the controller, as far as checks read it. The
// API server, lbremedy and others write Events about Services, too, which are no evidence (kube.Cluster.Evidence).
type Event struct {
	Reason, Type, Component string
	Message                 string // its beginning
	Count                   int
	First, Last             time.Time
}

// Ensured is the reason of Events of a sync that has succeeded.
const Ensured = event.Ensured

// A Claim is what an Event says of itself that bears the name of the controller, in
// whatever namespace and about whatever object.
type Claim struct {
	Object               kube.Object
	Component            string
	Writers              []string // as they call themselves
	Host                 string
	First, Last, Created time.Time
}

// Possible reports whether a Service can have the UID of what the Event is about.
func (c Claim) Possible() bool { return event.ValidUID(c.Object.UID) == nil }

// Failed reports whether the Event tells of a failed sync.
func (e Event) Failed() bool {
	return e.Type == corev1.EventTypeWarning && event.Watched(e.Reason) && !event.DryRun(e.Message)
}

// A LoadBalancer is a CLB or an NLB with what stands on it.
type LoadBalancer struct {
	ccm.Instance
	Listeners        []cloud.Listener        // of a CLB
	NetworkListeners []cloud.NetworkListener // of an NLB
	Groups           []Group                 // of a CLB
	// Marked are the IDs of the security groups that have the name tag of its Service, if that has
	// source ranges and it is an NLB that the controller created.
	Marked []string
	// Used says that a Service of the cluster uses it, or that it has the cluster's
	// tag. Of others that are not Near nothing more was read.
	Used bool
	// Near says that it is a private CLB of the cluster's VPC that neither a Service nor a
	// cluster's tag names. Which listeners it has, and their groups, the part Private has
	// read, and of all private CLBs of the VPC the default group.
	Near bool
	// Gone says that it was listed, and that the API knew it no more a moment later.
	Gone bool
	// Failed says of each part of it that could not be read why.
	Failed map[Part]error
}

// A Guarding is a security group with its rules.
type Guarding struct {
	cloud.SecurityGroup
	Failed error // why its rules could not be read
}

// GuardsOf returns the security groups that an NLB is in, whose Service has source ranges. The error
// says why they are not known.
func (s *Snapshot) GuardsOf(b *LoadBalancer) ([]cloud.SecurityGroup, error) {
	if err := cmp.Or(s.Err(Guards), b.Err(Guards)); err != nil {
		return nil, err
	}
	var list []cloud.SecurityGroup
	for _, id := range b.NLB.SecurityGroups {
		g, ok := s.Guards[id]
		if !ok || g.Failed != nil {
			return nil, say.Errorf("the rules of the security group %s could not be read: %w", id, cmp.Or(g.Failed, cloud.ErrNotFound))
		}
		list = append(list, g.SecurityGroup)
	}
	return list, nil
}

// A Group is a vServer group of a CLB or a server group of NLBs.
type Group struct {
	ID        string
	Name      string
	Servers   int                  // how many backends it has
	Listeners []cloud.ListenerPort // of a CLB, that use it
	Rules     int                  // of a CLB: how many rules of listeners use it
	Backends  []cloud.Backend      // nil where that part was not asked for
	Failed    error                // why its backends could not be read
}

// Err returns why one of the parts is not known; nil if all are.
func (s *Snapshot) Err(list ...Part) error {
	for _, p := range list {
		if err := s.Failed[p]; err != nil {
			return say.Errorf("the %s could not be read: %w", p.words(), err)
		}
		if !slices.Contains(s.Given, p) {
			return say.Errorf("the %s were not asked for", p.words())
		}
	}
	return nil
}

// Err returns why one of the parts of this load balancer is not known; nil if all are.
func (b *LoadBalancer) Err(list ...Part) error {
	for _, p := range list {
		if err := b.Failed[p]; err != nil {
			return say.Errorf("the %s of %s could not be read: %w", p.words(), b.ID, err)
		}
	}
	return nil
}

// Answers reports whether the API server has answered when it was asked for Services, if
// only that they are none of the doctor's business.
func (s *Snapshot) Answers() bool {
	err := s.Failed[Services]
	return err == nil || errors.Is(err, kube.ErrDenied)
}

// OfType returns the Services of type LoadBalancer that the controller answers for and
// that are not being deleted.
func (s *Snapshot) OfType() []*corev1.Service {
	var list []*corev1.Service
	for i := range s.Services {
		if svc := &s.Services[i]; Ours(svc) && svc.DeletionTimestamp == nil {
			list = append(list, svc)
		}
	}
	return list
}

// Ours reports whether the controller answers for the Service: it is of type
// LoadBalancer, and of no other controller's class (pkg/controller/helper/service_utils.go).
func Ours(svc *corev1.Service) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Annotations["service.beta.kubernetes.io/class"] != "" {
		return false
	}
	return svc.Spec.LoadBalancerClass == nil || ccm.NLB(svc)
}

// errAmbiguous says that several load balancers have the marks of one Service.
var errAmbiguous = say.Errorf("several load balancers have its tag or name")

// Balancer returns the load balancer that the controller syncs the Service with, found
// as the controller finds it: by the annotation id, by the Service's name tag, by its
// default name. It is nil if none exists. The error says why it can't be told.
func (s *Snapshot) Balancer(svc *corev1.Service) (*LoadBalancer, error) {
	part := CLBs
	if ccm.NLB(svc) {
		part = NLBs
	}
	if err := s.Err(part); err != nil {
		return nil, err
	}
	if id, _ := ccm.Annotation(svc, "id"); id != "" {
		if b := s.Balancers[id]; b != nil && !b.Gone {
			return b, nil
		}
		return nil, nil
	}
	if svc.UID == "" {
		return nil, nil // a manifest
	}
	s.index()
	name := ccm.DefaultName(svc)
	for _, found := range [][]*LoadBalancer{s.byTag[name], s.byName[name]} {
		found = slices.DeleteFunc(slices.Clone(found), func(b *LoadBalancer) bool { return b.Gone || (b.NLB != nil) != ccm.NLB(svc) })
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return nil, errAmbiguous
		}
	}
	return nil, nil
}

// NamedBy returns the IDs of load balancers that the Service names: by the annotation
// id, else by the label that the controller left on it.
func NamedBy(svc *corev1.Service) string {
	if id, _ := ccm.Annotation(svc, "id"); id != "" {
		return id
	}
	return svc.Labels[ccm.BalancerLabel]
}

// Left returns the load balancer of a Service with an address that the controller does
// not find any more: the one that its label names, or the one with its address. It is
// nil if none exists, or if it has another Service's tag or address: a label may have
// come with a copy. Private addresses repeat over VPCs, so that they count in the
// cluster's alone, which needs Detail.
func (s *Snapshot) Left(svc *corev1.Service) (*LoadBalancer, error) {
	for _, b := range s.leftovers(svc) {
		if b.VPC == "" || b.NLB != nil || b.ID == svc.Labels[ccm.BalancerLabel] {
			return b, nil
		}
		if err := s.Err(Detail); err != nil {
			return nil, say.Errorf("whether %s, which has its address, is in the cluster's VPC: %w", b.ID, err)
		}
		if b.VPC == s.Detail.VPC {
			return b, nil
		}
	}
	return nil, nil
}

// leftovers returns what Left chooses from, the likelier ones first.
func (s *Snapshot) leftovers(svc *corev1.Service) []*LoadBalancer {
	if !ccm.Synced(svc) {
		return nil
	}
	// With these the address is not the load balancer's own.
	kind, _ := ccm.Annotation(svc, ccm.ExternalIP)
	host, _ := ccm.Annotation(svc, "hostname")
	foreign := !ccm.NLB(svc) && (kind == "eip" || host != "")
	fits := func(b *LoadBalancer) bool {
		tag, tagged := b.Tags[ccm.NameTag]
		return !b.Gone && (b.NLB != nil) == ccm.NLB(svc) && (!tagged || tag == ccm.DefaultName(svc)) && (foreign || b.Address == ccm.Address(svc))
	}
	var list []*LoadBalancer
	labelled := s.Balancers[svc.Labels[ccm.BalancerLabel]]
	if labelled != nil && fits(labelled) {
		list = append(list, labelled)
	}
	if foreign {
		return list
	}
	s.index()
	for _, b := range s.byAddress[ccm.Address(svc)] {
		if b != labelled && fits(b) {
			list = append(list, b)
		}
	}
	return list
}

// index makes the load balancers known by tag, name and address.
func (s *Snapshot) index() {
	if s.byTag != nil {
		return
	}
	s.byTag, s.byName, s.byAddress = map[string][]*LoadBalancer{}, map[string][]*LoadBalancer{}, map[string][]*LoadBalancer{}
	for _, id := range sortedKeys(s.Balancers) {
		b := s.Balancers[id]
		if name := b.Tags[ccm.NameTag]; name != "" {
			s.byTag[name] = append(s.byTag[name], b)
		}
		s.byName[b.Name] = append(s.byName[b.Name], b)
		s.byAddress[b.Address] = append(s.byAddress[b.Address], b)
	}
}

// List returns the load balancers in the order of their IDs, without those that went
// while they were read.
func (s *Snapshot) List() []*LoadBalancer {
	var list []*LoadBalancer
	for _, id := range sortedKeys(s.Balancers) {
		if !s.Balancers[id].Gone {
			list = append(list, s.Balancers[id])
		}
	}
	return list
}

// Group returns the group of a port of the Service on its load balancer, nil if there
// is none. The error says why it can't be told.
func (s *Snapshot) Group(svc *corev1.Service, b *LoadBalancer, port corev1.ServicePort) (*Group, error) {
	if err := s.Err(Detail); err != nil {
		return nil, err
	}
	return s.GroupAs(svc, b, port, s.Mode(svc))
}

// GroupAs returns what Group does if the controller takes this for the backends.
func (s *Snapshot) GroupAs(svc *corev1.Service, b *LoadBalancer, port corev1.ServicePort, mode ccm.BackendMode) (*Group, error) {
	if err := s.Err(Groups); err != nil {
		return nil, err
	}
	name := ccm.GroupName(svc, port, mode, s.Cluster)
	groups := s.ServerGroups
	if !ccm.NLB(svc) {
		if err := b.Err(Groups); err != nil {
			return nil, err
		}
		groups = b.Groups
	}
	adopted := ccm.AdoptedGroup(svc, port)
	for i := range groups {
		if g := &groups[i]; adopted != "" && g.ID == adopted || adopted == "" && g.Name == name {
			return g, nil
		}
	}
	return nil, nil
}

// Mode returns what the controller takes for the backends of the Service. It needs
// Detail. A serverless cluster has no nodes that could be backends.
func (s *Snapshot) Mode(svc *corev1.Service) ccm.BackendMode {
	if s.Detail.Profile == "Serverless" && svc.Annotations[ccm.BackendType] == "" {
		return ccm.PodMode
	}
	return ccm.ModeOf(svc, s.Detail.Network)
}

// Ready returns the endpoints behind a port of the Service that the controller counts.
// It needs Endpoints.
func (s *Snapshot) Ready(svc *corev1.Service, port corev1.ServicePort) []ccm.Endpoint {
	return ccm.Ready(s.Slices[svc.Namespace+"/"+svc.Name], port, ccm.FamilyOf(svc))
}

// Quota returns the account's limit with this name; false if it is not known.
func (s *Snapshot) Quota(name string) (cloud.Quota, bool) {
	for _, q := range s.Quotas {
		if region := q.Dimensions["regionId"]; q.Name == name && (region == "" || region == s.Region) {
			return q, true
		}
	}
	return cloud.Quota{}, false
}

// OfService names a Service as what a finding is about.
func OfService(svc *corev1.Service) About {
	return About{Kind: Service, Namespace: svc.Namespace, Name: svc.Name, UID: string(svc.UID)}
}

// OfBalancer names a load balancer as what a finding is about.
func OfBalancer(id string) About { return About{Kind: Balancer, Name: id} }

// OfCluster names the cluster as what a finding is about.
func (s *Snapshot) OfCluster() About { return About{Kind: Cluster, Name: s.Cluster} }

// Users returns the names of the Services that use each load balancer, by its ID, sorted.
// Those of a Service whose load balancer can't be told are missing.
func (s *Snapshot) Users() map[string][]string {
	users := map[string][]string{}
	for i := range s.Services {
		svc := &s.Services[i]
		if !Ours(svc) {
			continue
		}
		if b, err := s.Balancer(svc); err == nil && b != nil {
			users[b.ID] = append(users[b.ID], svc.Namespace+"/"+svc.Name)
		}
	}
	for _, list := range users {
		slices.Sort(list)
	}
	return users
}
