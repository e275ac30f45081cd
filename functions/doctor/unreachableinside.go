package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// inside looks for addresses that work outside the cluster but not inside.
var inside = &doctor.Check{
	ID:    "unreachable-inside",
	Doc:   page("unreachable-inside"),
	Needs: []doctor.Part{doctor.Services},
	Uses: []doctor.Part{doctor.Detail, doctor.Endpoints, doctor.Nodes, doctor.CLBs, doctor.NLBs,
		doctor.Listeners, doctor.Groups, doctor.Backends, doctor.Private},
	Manifest: true,
	Find:     findInside,
}

func findInside(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if svc.UID == "" {
			insideManifest(r, svc)
		}
	}
	if s.Err(doctor.Nodes) == nil && !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return !virtual(&n) }) {
		return // only real nodes take over traffic to the address
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

// nodesTake reports whether nodes handle traffic to the Service's address: for each IP address in its status whose ipMode is not Proxy,
// but not for a host name (https://kubernetes.io/docs/concepts/services-networking/service/#load-balancer-ip-mode).
func nodesTake(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool {
		return in.IP != "" && (in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy)
	})
}

// virtual reports whether a node is virtual: such nodes have no rules for load balancers' addresses.
func virtual(node *corev1.Node) bool {
	why, _ := ccm.ExclusionOf(node, &corev1.Service{})
	return why == ccm.Virtual
}

// harm returns how much an address that fails inside the cluster matters. Clients of a private address are most likely Pods. A public
// address is for clients outside, and almost every cluster has such a Service; but Pods call the host names of Ingresses.
func harm(svc *corev1.Service) doctor.Severity {
	if private(svc) || ofIngress(svc) {
		return doctor.Warning
	}
	return doctor.Info
}

func private(svc *corev1.Service) bool {
	ip, err := netip.ParseAddr(ccm.Address(svc))
	return err == nil && ip.IsPrivate()
}

func ofIngress(svc *corev1.Service) bool {
	words := append(slices.Collect(maps.Values(svc.Spec.Selector)), svc.Name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "ingress") })
}

func insideManifest(r *doctor.Report, svc *corev1.Service) {
	if host, _ := ccm.Annotation(svc, "hostname"); host != "" || ccm.NLB(svc) {
		return // nodes do not handle traffic to a host name
	}
	severity := doctor.Info
	if kind, _ := ccm.Annotation(svc, "address-type"); kind == "intranet" || ofIngress(svc) {
		severity = doctor.Warning
	}
	add := func(key string, text say.Text) {
		r.Add(doctor.Finding{Severity: severity, About: about(svc), Key: key, Text: text,
			Do: byName(svc).And("Or stop the nodes from handling the address themselves, with CCM v2.3.0 or newer: %s. NAME is a DNS name that resolves to the address.",
				written(svc, "hostname", "NAME"))})
	}
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		add("local", say.F("With externalTrafficPolicy Local, nodes without a Pod of the Service will not reach its address."))
	}
	if on, _ := ccm.Annotation(svc, "proxy-protocol"); on == "on" {
		add("proxy", say.F("The listeners will use the proxy protocol, and nodes handle traffic to the address themselves, without it.").
			And("Pods will refuse connections from inside the cluster."))
	}
	for _, p := range svc.Spec.Ports {
		if key := ccm.ListenerKey(svc, p); strings.HasPrefix(key, "https:") {
			add(key, say.F("The listener %s will terminate TLS, and nodes handle traffic to the address themselves, without terminating it.", key))
		}
	}
}

func byName(svc *corev1.Service) say.Text {
	if svc.Spec.ClusterIP != "" && svc.Spec.ClusterIP != corev1.ClusterIPNone {
		return say.F("Inside the cluster, use the name %s.%s.svc or the cluster address %s.", svc.Name, svc.Namespace, svc.Spec.ClusterIP)
	}
	return say.F("Inside the cluster, use the name %s.%s.svc.", svc.Name, svc.Namespace)
}

// byHost says how to send traffic from inside through the load balancer; empty if nodes behind a private one could then not reach themselves.
func byHost(s *doctor.Snapshot, svc *corev1.Service) say.Text {
	if private(svc) && (s.Err(doctor.Detail) != nil || s.Mode(svc) != ccm.PodMode) {
		return nil
	}
	return say.F("Or stop the nodes from handling the address themselves, with CCM v2.3.0 or newer: %s. NAME is a DNS name that resolves to %s.",
		ccm.SetCommand(svc, "hostname", "NAME"), ccm.Address(svc))
}

// insideLocal looks for nodes without a Pod of a Service in Local mode: the address does not work there.
func insideLocal(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return
	}
	if err := s.Err(doctor.Detail, doctor.Endpoints, doctor.Nodes); err != nil {
		r.Unknown(about(svc), say.Errorf("from which nodes its address can be reached: %w", err))
		return
	}
	holds := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		for _, e := range s.Ready(svc, p) {
			holds[e.Node] = true
		}
	}
	if len(holds) == 0 {
		return // other checks report that it is unreachable
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
	do := byName(svc)
	switch {
	case s.Mode(svc) == ccm.PodMode:
		do = do.And("Or use the policy Cluster: %s. Pods still see the clients' addresses, because they are the backends.", policy)
	case strings.HasPrefix(s.Detail.Network, "terway"):
		do = do.And("Or use Pods as backends and the policy Cluster: kubectl -n %s annotate service %s %s=eni --overwrite, then %s.",
			svc.Namespace, svc.Name, ccm.BackendType, policy).
			And("Pods then still see the clients' addresses.")
	default:
		do = do.And("Or use the policy Cluster, with which Pods no longer see the clients' addresses: %s.", policy)
	}
	r.Add(doctor.Finding{Severity: harm(svc), About: about(svc), Key: "local",
		Evidence: map[string]string{"address": ccm.Address(svc), "nodes without a Pod": cut(strings.Join(without, ", ")), "network": s.Detail.Network},
		Text: say.F("With externalTrafficPolicy Local, the address %s cannot be reached from nodes without a ready Pod of the Service (%d of %s): %s.",
			ccm.Address(svc), len(without), say.Count(all, "node"), say.List(without, shown)),
		Do: do.Then(byHost(s, svc))})
}

func insideListeners(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	b, err := s.Balancer(svc)
	if err == nil && b == nil {
		return
	}
	if err == nil {
		err = cmp.Or(s.Err(doctor.Listeners, doctor.Nodes), b.Err(doctor.Listeners))
	}
	if err != nil {
		r.Unknown(about(svc), say.Errorf("what its listeners do: %w", err))
		return
	}
	address := ccm.Address(svc)
	add := func(severity doctor.Severity, key string, text say.Text) {
		r.Add(doctor.Finding{Severity: severity, About: about(svc), Key: key, Evidence: map[string]string{"load balancer": b.ID, "address": address},
			Text: text, Do: byName(svc).Then(byHost(s, svc))})
	}
	for _, l := range b.Listeners {
		at := fmt.Sprintf("%s:%d", l.Protocol, l.Port)
		if !slices.ContainsFunc(svc.Spec.Ports, ccm.ClassicListener(l).Takes) {
			continue
		}
		switch {
		case l.Config["ProxyProtocolV2Enabled"] == "true":
			add(harm(svc), "proxy/"+at, say.F("The listener %s of %s uses the proxy protocol. Nodes handle traffic to %s themselves, without it.", at, b.ID, address).
				And("Pods therefore refuse connections from inside the cluster."))
		case l.Protocol == "https":
			add(harm(svc), at, say.F("The listener %s of %s terminates TLS. Nodes handle traffic to %s themselves, without terminating it.", at, b.ID, address).
				And("Inside the cluster, HTTPS therefore reaches Pods that speak the protocol behind the listener."))
		case l.Protocol == "http":
			add(doctor.Info, at, say.F("Traffic from inside the cluster bypasses the listener %s of %s: nodes handle it themselves.", at, b.ID).
				And("It gets no X-Forwarded-For header, no redirect and no sticky session."))
		}
	}
}

// insideHairpin looks for private CLBs whose traffic nodes don't handle: a node can't be client and backend of one connection.
func insideHairpin(s *doctor.Snapshot, r *doctor.Report) {
	if err := s.Err(doctor.CLBs, doctor.Private, doctor.Detail); err != nil {
		r.Unknown(doctor.All(doctor.Balancer), say.Errorf("which private load balancers there are: %w", err))
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
			r.Unknown(doctor.OfBalancer(b.ID), say.Errorf("whether a node of the cluster is client and backend: %w", err))
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
		do := say.F("Inside the cluster, use the cluster address or the DNS name of the Service behind the load balancer.").
			And("Or use a load balancer with a public address.").
			And("Or give the port to a Service with externalTrafficPolicy Cluster that names the CLB with the annotation id: " +
				"the nodes then handle this traffic themselves.")
		if strings.HasPrefix(s.Detail.Network, "terway") {
			do = do.And("Or, if a Service has the port, use Pods as its backends with the annotation %s: eni.", ccm.BackendType)
		}
		r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.OfBalancer(b.ID), Key: "hairpin", Services: users[b.ID],
			Evidence: map[string]string{"listeners": cut(strings.Join(at, ", ")), "address": b.Address, "nodes": cut(strings.Join(nodes, ", "))},
			Text: say.F("The backends of %s on the private CLB %s (%s) are nodes of the cluster, and no Service makes the nodes handle this traffic themselves.",
				say.List(at, shown), b.ID, b.Address).
				And("A client on such a node gets no answer when the CLB sends it back to its own node: %s.", say.List(nodes, shown)),
			Do: do})
	}
}

func behind(b *doctor.LoadBalancer, l cloud.Listener) ([]cloud.Backend, error) {
	if l.VServerGroup == "" {
		return b.CLB.Backends, nil
	}
	i := slices.IndexFunc(b.Groups, func(g doctor.Group) bool { return g.ID == l.VServerGroup })
	switch {
	case i < 0:
		return nil, say.Errorf("the vServer group %s behind the listener %s:%d of %s is not among its groups", l.VServerGroup, l.Protocol, l.Port, b.ID)
	case b.Groups[i].Failed != nil:
		return nil, say.Errorf("the backends of the listener %s:%d of %s could not be read: %w", l.Protocol, l.Port, b.ID, b.Groups[i].Failed)
	}
	return b.Groups[i].Backends, nil
}

// takersOf returns the Services whose traffic nodes handle, by the ID of their load balancer.
func takersOf(s *doctor.Snapshot) map[string][]*corev1.Service {
	takers := map[string][]*corev1.Service{}
	for _, svc := range s.OfType() {
		if b, err := s.Balancer(svc); err == nil && b != nil && nodesTake(svc) {
			takers[b.ID] = append(takers[b.ID], svc)
		}
	}
	return takers
}

// served reports whether one of the Services has the port: nodes then handle its traffic.
func served(takers []*corev1.Service, port int, protocol string) bool {
	return slices.ContainsFunc(takers, func(svc *corev1.Service) bool {
		return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return int(p.Port) == port && strings.EqualFold(string(p.Protocol), protocol)
		})
	})
}

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
