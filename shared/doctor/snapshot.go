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

// A Snapshot is what one run has read of a cluster and its cloud. Checks only read it. Lists are sorted by name or ID.
type Snapshot struct {
	Time    time.Time // when it was read
	Cluster string    // ID of the ACK cluster
	Region  string

	Services   []corev1.Service                       // without managedFields
	Marks      map[types.UID]Mark                     // of the Services
	Replaced   map[string]corev1.Service              // those that manifests replace, by namespace/name
	Others     error                                  // why the Services besides the manifests are unknown
	Slices     map[string][]discoveryv1.EndpointSlice // by the Service's namespace/name
	Moved      map[string]time.Time                   // by the same: last write to any of its slices; missing: unknown
	Nodes      []corev1.Node                          // labels, taints, conditions and provider ID
	Events     map[types.UID][]Event                  // the controller's, by the Service's UID, oldest first
	Unkept     map[types.UID]int                      // number of a Service's older Events that were not kept
	Claims     []Claim                                // the Events in the controller's name
	Unclaimed  int                                    // number of those that were not kept
	Writers    kube.Binding                           // policy for their writers
	Guard      kube.Binding                           // of the guard
	Protected  map[string]bool                        // by namespace, and by the Service's namespace/name: whether ACK refuses its deletion; missing: unknown
	Detail     cloud.Cluster
	Controller ccm.Controller
	Balancers  map[string]*LoadBalancer // of both kinds, by ID
	// Named holds the API's answer for each load balancer that a Service names and no list contains: nil if it exists, or cloud.ErrNotFound.
	Named        map[string]error
	ServerGroups []Group                  // of NLBs: made by this cluster's controller, or used by a listener
	Guards       map[string]Guarding      // by ID: security groups of NLBs of Services with source ranges, and those with their name tag
	VSwitches    map[string]cloud.VSwitch // by ID
	Routes       map[string][]cloud.Route // by the route table's ID
	Quotas       []cloud.Quota
	Role         ccm.Role
	Policy       remedy.Policy
	// Failures is when the newest failure of each Service in the stream, which keeps them for 7 days, happened. Nil: no stream is configured.
	Failures map[types.UID]time.Time
	// Delays are how long the controller took to sync lbremedy's changes, oldest first. Nil: no stream is configured.
	Delays       []time.Duration
	ExporterSeen time.Time // an exporter's last sign of life; zero: none ever, or no stream is configured

	Ingress struct {
		Kind    string // Deployment or DaemonSet; empty: neither exists
		Ready   int    // number of its ready Pods
		Service bool   // its Service exists, of any type
	}

	// Failed says why a requested part could not be read.
	Failed map[Part]error
	Given  []Part

	byTag, byName, byAddress map[string][]*LoadBalancer
}

// A Mark is the information in a Service's managed fields.
type Mark struct {
	Synced  time.Time // when the controller last wrote its hash label; zero: unknown
	Changed time.Time // last write of annotations or the spec by anybody; zero: unknown
}

// An Event is one about a Service in the controller's name. Those of the API server and others are not evidence (kube.Cluster.Evidence).
type Event struct {
	Reason, Type, Component string
	Message                 string // its beginning
	Count                   int
	First, Last             time.Time
}

// Ensured is the reason of a successful sync's Events.
const Ensured = event.Ensured

// A Claim is what an Event in the controller's name, about any object, says about itself.
type Claim struct {
	Object               kube.Object
	Component            string
	Writers              []string // as they call themselves
	Host                 string
	First, Last, Created time.Time
}

// Possible reports whether a Service can have the UID of the Event's object.
func (c Claim) Possible() bool { return event.ValidUID(c.Object.UID) == nil }

// Failed reports whether the Event reports a failed sync.
func (e Event) Failed() bool {
	return e.Type == corev1.EventTypeWarning && event.Watched(e.Reason) && !event.DryRun(e.Message)
}

// A LoadBalancer is a CLB or an NLB with its listeners and groups.
type LoadBalancer struct {
	ccm.Instance
	Listeners        []cloud.Listener        // of a CLB
	NetworkListeners []cloud.NetworkListener // of an NLB
	Groups           []Group                 // of a CLB
	// Marked are the IDs of the security groups with the name tag of its Service, if that has source ranges and the controller made the NLB.
	Marked []string
	// Used says that a Service of the cluster uses it, or that it has the cluster's tag. Of others only Near ones were read further.
	Used bool
	// Near says that it is a private CLB of the cluster's VPC that neither a Service nor a cluster's tag names. The part Private has read its
	// listeners and groups, and the default groups of all private CLBs of the VPC.
	Near   bool
	Gone   bool
	Failed map[Part]error
}

// A Guarding is a security group with its rules.
type Guarding struct {
	cloud.SecurityGroup
	Failed error // why its rules could not be read
}

// GuardsOf returns the security groups of an NLB whose Service has source ranges. The error says why they are unknown.
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
	Servers   int                  // number of backends
	Listeners []cloud.ListenerPort // of a CLB: those that use it
	Rules     int                  // of a CLB: number of forwarding rules that use it
	Backends  []cloud.Backend      // nil if that part was not requested
	Failed    error                // why its backends could not be read
}

// GroupsOf returns the groups of a CLB, or those that the listeners of an NLB use.
func (s *Snapshot) GroupsOf(b *LoadBalancer) []Group {
	if b.NLB == nil {
		return b.Groups
	}
	return slices.DeleteFunc(slices.Clone(s.ServerGroups), func(g Group) bool {
		return !slices.ContainsFunc(b.NetworkListeners, func(l cloud.NetworkListener) bool { return l.ServerGroup == g.ID })
	})
}

// Servers counts the backends of a load balancer. If some are unknown, it also counts the others.
func (s *Snapshot) Servers(b *LoadBalancer) (int, error) {
	err := cmp.Or(s.Err(Groups), b.Err(Groups))
	if b.NLB != nil {
		err = cmp.Or(err, s.Err(Backends, Listeners), b.Err(Listeners))
	}
	n := 0
	for _, g := range s.GroupsOf(b) {
		n += g.Servers
		if b.NLB != nil && g.Failed != nil {
			err = cmp.Or(err, say.Errorf("how many backends there are: the server group %s: %w", g.ID, g.Failed))
		}
	}
	return n, err
}

// Err returns why one of the parts is unknown, or nil.
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

// Err returns why one of the parts of this load balancer is unknown, or nil.
func (b *LoadBalancer) Err(list ...Part) error {
	for _, p := range list {
		if err := b.Failed[p]; err != nil {
			return say.Errorf("the %s of %s could not be read: %w", p.words(), b.ID, err)
		}
	}
	return nil
}

// Answers reports whether the API server has answered the request for Services, even by refusing it.
func (s *Snapshot) Answers() bool {
	err := s.Failed[Services]
	return err == nil || errors.Is(err, kube.ErrDenied)
}

// OfType returns the Services of type LoadBalancer that the controller handles and that are not being deleted.
func (s *Snapshot) OfType() []*corev1.Service {
	var list []*corev1.Service
	for i := range s.Services {
		if svc := &s.Services[i]; Ours(svc) && svc.DeletionTimestamp == nil {
			list = append(list, svc)
		}
	}
	return list
}

// Ours reports whether the controller handles the Service: a LoadBalancer, not of another's class (pkg/controller/helper/service_utils.go).
func Ours(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && (ccm.NLB(svc) || svc.Spec.LoadBalancerClass == nil && ccm.LeftBy(svc) == "")
}

var errAmbiguous = say.Errorf("several load balancers have its tag or name")

// Balancer returns the load balancer of the Service by annotation id, name tag or default name, as the controller does, or nil. The error
// says why it is unknown.
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

// NamedBy returns the load balancer IDs that the Service names: by the annotation id, otherwise by the controller's label.
func NamedBy(svc *corev1.Service) string {
	if id, _ := ccm.Annotation(svc, "id"); id != "" {
		return id
	}
	return svc.Labels[ccm.BalancerLabel]
}

// Left returns the load balancer that the controller no longer finds for a Service with an address: the one that its label names, or the one
// with its address; nil if none exists or it has another Service's tag or address, since a label may be a copy. Private addresses repeat
// across VPCs and count only in the cluster's own, which needs Detail.
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

// leftovers returns the candidates for Left, the likelier ones first.
func (s *Snapshot) leftovers(svc *corev1.Service) []*LoadBalancer {
	if !ccm.Synced(svc) {
		return nil
	}
	// With these annotations the address is not the load balancer's own.
	kind, _ := ccm.Annotation(svc, ccm.ExternalIP)
	host, _ := ccm.Annotation(svc, "hostname")
	otherAddress := !ccm.NLB(svc) && (kind == "eip" || host != "")
	fits := func(b *LoadBalancer) bool {
		tag, tagged := b.Tags[ccm.NameTag]
		return !b.Gone && (b.NLB != nil) == ccm.NLB(svc) && (!tagged || tag == ccm.DefaultName(svc)) && (otherAddress || b.Address == ccm.Address(svc))
	}
	var list []*LoadBalancer
	labelled := s.Balancers[svc.Labels[ccm.BalancerLabel]]
	if labelled != nil && fits(labelled) {
		list = append(list, labelled)
	}
	if otherAddress {
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

// List returns the load balancers by ID, without those deleted while they were read.
func (s *Snapshot) List() []*LoadBalancer {
	var list []*LoadBalancer
	for _, id := range sortedKeys(s.Balancers) {
		if !s.Balancers[id].Gone {
			list = append(list, s.Balancers[id])
		}
	}
	return list
}

// Group returns the group of a Service's port on its load balancer, or nil, and the kind of its backends. The error says why it is unknown.
func (s *Snapshot) Group(svc *corev1.Service, b *LoadBalancer, port corev1.ServicePort) (ccm.BackendMode, *Group, error) {
	mode, g, err := s.group(svc, b, port)
	if g != nil || err != nil {
		return mode, g, err
	}
	if b.NLB != nil && ccm.AdoptedGroup(svc, port) != "" {
		return mode, nil, say.Errorf("the server group behind port %d is not among those of the cluster", port.Port)
	}
	return mode, nil, nil
}

// ModeAt returns the kind of a Service's backends on its load balancer, as the names of its groups show it.
func (s *Snapshot) ModeAt(svc *corev1.Service, b *LoadBalancer) (ccm.BackendMode, error) {
	if err := s.Err(Detail, Groups); err != nil {
		return "", err
	}
	for _, port := range svc.Spec.Ports {
		if mode, g, err := s.group(svc, b, port); g != nil || err != nil {
			return mode, err
		}
	}
	return s.Mode(svc), nil
}

// group looks for each name that the group can have. The controller's environment can make Pods the backends on any network, or nodes on
// Terway (pkg/controller/helper/service_utils.go); the existing group's name shows it.
func (s *Snapshot) group(svc *corev1.Service, b *LoadBalancer, port corev1.ServicePort) (ccm.BackendMode, *Group, error) {
	mode := s.Mode(svc)
	if err := s.Err(Detail, Groups); err != nil {
		return mode, nil, err
	}
	groups := s.ServerGroups
	if b.NLB == nil {
		if err := b.Err(Groups); err != nil {
			return mode, nil, err
		}
		groups = b.Groups
	}
	modes := []ccm.BackendMode{mode}
	if svc.Annotations[ccm.BackendType] == "" && mode == ccm.PodMode {
		modes = append(modes, ccm.ModeOf(svc, ""))
	} else if svc.Annotations[ccm.BackendType] == "" {
		modes = append(modes, ccm.PodMode)
	}
	adopted := ccm.AdoptedGroup(svc, port)
	for _, mode := range modes {
		name := cmp.Or(ccm.RangeName(svc, port, s.Cluster), ccm.GroupName(svc, port, mode, s.Cluster))
		for i := range groups {
			if g := &groups[i]; adopted != "" && g.ID == adopted || adopted == "" && g.Name == name {
				return mode, g, nil
			}
		}
	}
	return mode, nil, nil
}

// Mode returns what the controller uses as backends of the Service. It needs Detail: a serverless cluster has no nodes for that.
func (s *Snapshot) Mode(svc *corev1.Service) ccm.BackendMode {
	if s.Detail.Profile == "Serverless" && svc.Annotations[ccm.BackendType] == "" {
		return ccm.PodMode
	}
	return ccm.ModeOf(svc, s.Detail.Network)
}

// Ready returns the endpoints behind a port of the Service that the controller counts. It needs Endpoints.
func (s *Snapshot) Ready(svc *corev1.Service, port corev1.ServicePort) []ccm.Endpoint {
	return ccm.Ready(s.Slices[svc.Namespace+"/"+svc.Name], port, ccm.FamilyOf(svc))
}

// Quota returns the account's limit with this name; false if unknown.
func (s *Snapshot) Quota(name string) (cloud.Quota, bool) {
	for _, q := range s.Quotas {
		if region := q.Dimensions["regionId"]; q.Name == name && (region == "" || region == s.Region) {
			return q, true
		}
	}
	return cloud.Quota{}, false
}

// OfService returns the About of a Service.
func OfService(svc *corev1.Service) About {
	return About{Kind: Service, Namespace: svc.Namespace, Name: svc.Name, UID: string(svc.UID)}
}

// OfBalancer returns the About of a load balancer.
func OfBalancer(id string) About { return About{Kind: Balancer, Name: id} }

// OfCluster returns the About of the cluster.
func (s *Snapshot) OfCluster() About { return About{Kind: Cluster, Name: s.Cluster} }

// Users returns the sorted names of the Services that use each load balancer, by its ID, as far as known.
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
