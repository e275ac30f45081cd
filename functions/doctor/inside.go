package doctor

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed inside.md
var insideDoc string

// inside looks for addresses that work from outside the cluster but not from inside.
var inside = &doctor.Check{
	ID:    "unreachable-inside",
	Doc:   insideDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses: []doctor.Part{doctor.Detail, doctor.Endpoints, doctor.Nodes, doctor.CLBs, doctor.NLBs,
		doctor.Listeners, doctor.Groups, doctor.Backends, doctor.Private},
	Find: findInside,
}

func findInside(s *doctor.Snapshot, r *doctor.Report) {
	if s.Err(doctor.Nodes) == nil && !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return !virtual(&n) }) {
		return // without nodes of its own, nothing in the cluster takes traffic itself
	}
	for _, svc := range s.OfType() {
		if !nodesTake(svc) {
			continue
		}
		insideLocal(s, r, svc)
		insideListeners(s, r, svc)
	}
	insideHairpin(s, r)
}

// nodesTake reports whether nodes take traffic to the Service's address themselves: they do
// for each IP address of its status, unless that says that the load balancer is a proxy
// (https://kubernetes.io/docs/concepts/services-networking/service/#load-balancer-ip-mode).
// A host name leaves it to the network.
func nodesTake(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool {
		return in.IP != "" && (in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy)
	})
}

// virtual reports whether a node is none: Pods there have no such rules.
func virtual(node *corev1.Node) bool {
	why, _ := ccm.ExclusionOf(node, &corev1.Service{})
	return why == ccm.Virtual
}

// harm returns how much it matters that the Service's address does not work from inside.
// Clients of a private address are inside the VPC, and Pods the first of them. One that
// faces the internet is for others, and almost each cluster has such a Service.
func harm(svc *corev1.Service) doctor.Severity {
	if ip, err := netip.ParseAddr(ccm.Address(svc)); err == nil && ip.IsPrivate() {
		return doctor.Warning
	}
	return doctor.Info
}

// byName says how Pods reach the Service without its load balancer.
func byName(svc *corev1.Service) string {
	address := ""
	if svc.Spec.ClusterIP != "" && svc.Spec.ClusterIP != corev1.ClusterIPNone {
		address = " or its cluster address " + svc.Spec.ClusterIP
	}
	return fmt.Sprintf("From inside the cluster use the name %s.%s.svc%s.", svc.Name, svc.Namespace, address)
}

// byHost says how traffic from inside is made to go by way of the load balancer; empty
// where nodes behind a private one could not reach themselves by it.
func byHost(s *doctor.Snapshot, svc *corev1.Service) string {
	if harm(svc) == doctor.Warning && (s.Err(doctor.Detail) != nil || s.Mode(svc) != ccm.PodMode) {
		return ""
	}
	return fmt.Sprintf("Or have nodes leave the address alone, with CCM v2.3.0 or later: %s, with a DNS name that leads to %s.", ccm.SetCommand(svc, "hostname", "NAME"), ccm.Address(svc))
}

// insideLocal looks for nodes that hold no Pod of a Service in Local mode: from there
// its address leads nowhere.
func insideLocal(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return
	}
	if err := s.Err(doctor.Detail, doctor.Endpoints, doctor.Nodes); err != nil {
		r.Unknown(about(svc), fmt.Errorf("from which nodes its address can be reached: %w", err))
		return
	}
	holds := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		for _, e := range s.Ready(svc, p) {
			holds[e.Node] = true
		}
	}
	if len(holds) == 0 {
		return // then it is unreachable from everywhere, which others report
	}
	var without []string
	all := 0
	for i := range s.Nodes {
		if virtual(&s.Nodes[i]) {
			continue
		}
		all++
		if !holds[s.Nodes[i].Name] {
			without = append(without, s.Nodes[i].Name)
		}
	}
	if len(without) == 0 {
		return
	}
	policy := fmt.Sprintf("kubectl -n %s patch service %s -p '{\"spec\":{\"externalTrafficPolicy\":\"Cluster\"}}'", svc.Namespace, svc.Name)
	var way string
	switch {
	case s.Mode(svc) == ccm.PodMode:
		way = fmt.Sprintf("Or take the policy Cluster, with which Pods still see the clients' addresses, as they are the backends themselves: %s.", policy)
	case strings.HasPrefix(s.Detail.Network, "terway"):
		way = fmt.Sprintf("Or take the policy Cluster and Pods as the backends, which still see the clients' addresses: kubectl -n %s annotate service %s %s=eni --overwrite, then %s.", svc.Namespace, svc.Name, ccm.BackendType, policy)
	default:
		way = fmt.Sprintf("Or take the policy Cluster, with which Pods no longer see the clients' addresses: %s.", policy)
	}
	r.Add(doctor.Finding{Severity: harm(svc), About: about(svc), Key: "local",
		Evidence: map[string]string{"address": ccm.Address(svc), "nodes without a Pod": cut(strings.Join(without, ", ")), "network": s.Detail.Network},
		Text:     say.F("With externalTrafficPolicy Local the address %s can't be reached from %d of %s, which hold no ready Pod of the Service: %s.", ccm.Address(svc), len(without), ccm.Count(all, "node"), ccm.Clauses(without, shown)),
		Do:       say.Literal(strings.TrimSpace(byName(svc) + " " + way + " " + byHost(s, svc)))})
}

// insideListeners looks for what a listener does that nodes, which pass traffic on as it
// is, do not.
func insideListeners(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	b, err := s.Balancer(svc)
	if err == nil && b == nil {
		return
	}
	if err == nil {
		err = cmp.Or(s.Err(doctor.Listeners, doctor.Nodes), b.Err(doctor.Listeners))
	}
	if err != nil {
		r.Unknown(about(svc), fmt.Errorf("what its listeners do: %w", err))
		return
	}
	add := func(severity doctor.Severity, key, text string) {
		r.Add(doctor.Finding{Severity: severity, About: about(svc), Key: key, Evidence: map[string]string{"load balancer": b.ID, "address": ccm.Address(svc)}, Text: say.Literal(text),
			Do: say.Literal(strings.TrimSpace(byName(svc) + " " + byHost(s, svc)))})
	}
	for _, l := range b.Listeners {
		if !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return int(p.Port) == l.Port && alike(ccm.ListenerKey(svc, p), fmt.Sprintf("%s:%d", l.Protocol, l.Port))
		}) {
			continue
		}
		at := fmt.Sprintf("%s:%d", l.Protocol, l.Port)
		switch {
		case l.Config["ProxyProtocolV2Enabled"] == "true":
			add(harm(svc), "proxy/"+at, fmt.Sprintf("The listener %s of %s speaks the proxy protocol, and nodes that take traffic to %s themselves don't: Pods refuse what comes from inside the cluster.", at, b.ID, ccm.Address(svc)))
		case l.Protocol == "https":
			add(harm(svc), at, fmt.Sprintf("The listener %s of %s ends TLS, and nodes that take traffic to %s themselves don't: from inside the cluster HTTPS meets what the Pods speak behind it.", at, b.ID, ccm.Address(svc)))
		case l.Protocol == "http":
			add(doctor.Info, at, fmt.Sprintf("The listener %s of %s does not see traffic from inside the cluster, which nodes take themselves: no X-Forwarded-For, no redirect and no sticky session there.", at, b.ID))
		}
	}
}

// insideHairpin looks for private CLBs where nodes don't take the traffic themselves: a
// node that is a backend can't be a client on the same connection.
func insideHairpin(s *doctor.Snapshot, r *doctor.Report) {
	if err := s.Err(doctor.CLBs, doctor.Private, doctor.Detail); err != nil {
		r.Unknown(doctor.All(doctor.Balancer), fmt.Errorf("which private load balancers there are: %w", err))
		return
	}
	users := s.Users()
	takers := takersOf(s)
	for _, b := range s.List() {
		if !b.Used && !b.Near || b.CLB == nil || b.AddressType != "intranet" || b.Address != "" && b.Address == s.Detail.APIServer {
			continue
		}
		parts := []doctor.Part{doctor.Backends}
		if b.Used {
			parts = append(parts, doctor.Listeners, doctor.Groups)
		}
		if err := cmp.Or(s.Err(doctor.Nodes, doctor.Listeners, doctor.Groups, doctor.Backends), b.Err(parts...)); err != nil {
			r.Unknown(doctor.OfBalancer(b.ID), fmt.Errorf("whether a node of the cluster is client and backend: %w", err))
			continue
		}
		var at, nodes []string
		for _, l := range b.Listeners {
			if l.Protocol != "tcp" && l.Protocol != "udp" || l.Port == apiServerPort || served(takers[b.ID], l.Port, l.Protocol) {
				continue
			}
			backends, err := behind(b, l)
			if err != nil {
				r.Unknown(doctor.OfBalancer(b.ID), err)
				continue
			}
			if in := nodesIn(s, backends); len(in) > 0 {
				at, nodes = append(at, fmt.Sprintf("%s:%d", l.Protocol, l.Port)), append(nodes, in...)
			}
		}
		if len(at) == 0 {
			continue
		}
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
		do := "From inside the cluster use the cluster address or the DNS name of the Service behind it. Or use a load balancer with a public address for it."
		if strings.HasPrefix(s.Detail.Network, "terway") {
			do += fmt.Sprintf(" Or, where a Service has the port, take Pods as the backends with the annotation %s: eni.", ccm.BackendType)
		}
		r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.OfBalancer(b.ID), Key: "hairpin", Services: users[b.ID],
			Evidence: map[string]string{"listeners": cut(strings.Join(at, ", ")), "address": b.Address, "nodes": cut(strings.Join(nodes, ", "))},
			Text:     say.F("No Service has nodes take traffic to %s of the private %s (%s), whose backends are nodes of the cluster: a client on one of them that is sent back to its own node gets no answer (%s).", remedy.List(at, shown), b.ID, b.Address, ccm.Clauses(nodes, shown)),
			Do:       say.Literal(do)})
	}
}

// behind returns the backends of a listener: of its vServer group, or of the default
// group of its load balancer.
func behind(b *doctor.LoadBalancer, l cloud.Listener) ([]cloud.Backend, error) {
	if l.VServerGroup == "" {
		return b.CLB.Backends, nil
	}
	i := slices.IndexFunc(b.Groups, func(g doctor.Group) bool { return g.ID == l.VServerGroup })
	switch {
	case i < 0:
		return nil, fmt.Errorf("the vServer group %s behind the listener %s:%d of %s is not among its groups", l.VServerGroup, l.Protocol, l.Port, b.ID)
	case b.Groups[i].Failed != nil:
		return nil, fmt.Errorf("the backends of the listener %s:%d of %s could not be read: %w", l.Protocol, l.Port, b.ID, b.Groups[i].Failed)
	}
	return b.Groups[i].Backends, nil
}

// takersOf returns the Services to whose addresses nodes take traffic themselves, by the
// ID of their load balancer.
func takersOf(s *doctor.Snapshot) map[string][]*corev1.Service {
	takers := map[string][]*corev1.Service{}
	for _, svc := range s.OfType() {
		if b, err := s.Balancer(svc); err == nil && b != nil && nodesTake(svc) {
			takers[b.ID] = append(takers[b.ID], svc)
		}
	}
	return takers
}

// served reports whether one of the Services has the port, so that nodes take traffic to
// it themselves.
func served(takers []*corev1.Service, port int, protocol string) bool {
	return slices.ContainsFunc(takers, func(svc *corev1.Service) bool {
		return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return int(p.Port) == port && strings.EqualFold(string(p.Protocol), protocol)
		})
	})
}

// nodesIn returns the names of the cluster's nodes that are among the backends, sorted.
func nodesIn(s *doctor.Snapshot, list []cloud.Backend) []string {
	var names []string
	for i := range s.Nodes {
		id := server(&s.Nodes[i])
		if slices.ContainsFunc(list, func(e cloud.Backend) bool { return e.Type != "eni" && id != "" && e.ID == id }) {
			names = append(names, s.Nodes[i].Name)
		}
	}
	return names
}
