package doctor

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed nodeports.md
var nodePortsDoc string

// nodePorts checks Services that are reached through node ports.
var nodePorts = &doctor.Check{
	ID:       "node-ports",
	Doc:      nodePortsDoc,
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.Endpoints, doctor.Nodes, doctor.Policy},
	Manifest: true,
	Find:     findNodePorts,
}

// defaultNodePorts is the range that the API server uses unless configured otherwise.
var defaultNodePorts = remedy.Ports{First: 30000, Last: 32767}

func findNodePorts(s *doctor.Snapshot, r *doctor.Report) {
	known, local := table(), s.Policy.Survey.Local()
	if err := s.Err(doctor.Policy); err != nil {
		r.Unknown(doctor.All(doctor.Service), fmt.Errorf("from which ports nodes take those for connections of their own: %w", err))
		local = remedy.Ports{}
	}
	for i := range s.Services {
		svc := &s.Services[i]
		if svc.DeletionTimestamp != nil {
			continue
		}
		if local != (remedy.Ports{}) {
			localPorts(r, svc, local)
		}
		if svc.Spec.Type != corev1.ServiceTypeNodePort {
			continue
		}
		unread(r, svc, known)
		if svc.UID != "" {
			reach(s, r, svc)
		}
	}
}

// localPorts reports node ports that a node may take for a connection of its own.
func localPorts(r *doctor.Report, svc *corev1.Service, local remedy.Ports) {
	var ports, ways []string
	for i, p := range svc.Spec.Ports {
		if p.NodePort == 0 || !local.Hold(p.NodePort) {
			continue
		}
		if port := fmt.Sprint(p.NodePort); !slices.Contains(ports, port) { // TCP and UDP may have the same
			ports = append(ports, port)
		}
		ways = append(ways, fmt.Sprintf(`{"op":"replace","path":"/spec/ports/%d/nodePort","value":NUMBER}`, i))
	}
	do := ""
	if len(ways) > 0 {
		do = fmt.Sprintf("Give the Service ports from %s: kubectl -n %s patch service %s --type=json -p '[%s]'. Or keep", defaultNodePorts, svc.Namespace, svc.Name, strings.Join(ways, ","))
	}
	if port := svc.Spec.HealthCheckNodePort; port != 0 && local.Hold(port) {
		ports = append(ports, fmt.Sprint(port)) // it can't be changed
	}
	if len(ports) == 0 {
		return
	}
	if do == "" {
		do = "Keep"
	}
	list := strings.Join(ports, ",")
	r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "local-ports",
		Evidence: map[string]string{"node ports": list, "local ports": local.String()},
		Text:     say.F("Nodes take the ports for connections of their own from %s, where the Service has %s: a connection that gets the same port fails now and then, and nobody sees why. Node ports there: %s.", local, ccm.Count(len(ports), "node port"), strings.Join(ports, ", ")),
		Do:       say.F("%s these ports free on every node: sysctl -w net.ipv4.ip_local_reserved_ports=%s. If the nodes have another range, write it to the policy file: survey.localPorts.", do, list)})
}

// unread reports annotations for a load balancer on a Service that gets none.
func unread(r *doctor.Report, svc *corev1.Service, known names) {
	var found, keys []string
	for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
		if short, _ := known.short(key); short != "" {
			found, keys = append(found, short), append(keys, key+"-")
		}
	}
	if len(found) == 0 {
		return
	}
	r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "annotations",
		Evidence: map[string]string{"type": string(svc.Spec.Type), "annotations": strings.Join(found, ", ")},
		Text:     say.F("The Service is of type NodePort and has %s for a load balancer, which nobody reads: %s. Only Services of type LoadBalancer get listeners.", ccm.Count(len(found), "annotation"), ccm.Clauses(found, 5)),
		Do:       say.F(`If it is to have a load balancer: kubectl -n %[1]s patch service %[2]s --type=merge -p '{"spec":{"type":"LoadBalancer"}}'. If not: kubectl -n %[1]s annotate service %[2]s %[3]s.`, svc.Namespace, svc.Name, strings.Join(keys, " "))})
}

// reach reports through which nodes the node ports of a Service lead to its Pods, and
// who reaches them.
func reach(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	about := doctor.OfService(svc)
	if err := s.Err(doctor.Nodes); err != nil {
		r.Unknown(about, err)
		return
	}
	var nodes, public []string
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if !forwards(node) {
			continue
		}
		nodes = append(nodes, node.Name)
		if slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeExternalIP }) {
			public = append(public, node.Name)
		}
	}
	evidence := map[string]string{"nodes": fmt.Sprint(len(nodes)), "with a public address": strings.Join(public, ", ")}
	if len(public) == 0 {
		r.Add(doctor.Finding{Severity: doctor.Info, About: about, Key: "outside", Evidence: evidence,
			Text: say.F("No ready node, of %d, has a public address: the node ports of the Service are reached from within the VPC, and from what is connected to it, alone.", len(nodes)),
			Do:   say.F("To reach it from outside, make it a Service of type LoadBalancer, or give a node an EIP and let the port through in its security group.")})
	} else {
		r.Add(doctor.Finding{Severity: doctor.Info, About: about, Key: "outside", Evidence: evidence,
			Text: say.F("From outside the VPC the node ports of the Service are reached through the public address of %d of %s alone, where its security group lets them through: %s.", len(public), ccm.Count(len(nodes), "node"), ccm.Clauses(public, 5)),
			Do:   say.F("Nothing, if that is meant. If nobody outside is to reach it, close the node ports in the security group of these nodes; if everybody is, make it a Service of type LoadBalancer.")})
	}
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		localNodes(s, r, svc, nodes)
	}
}

// localNodes reports nodes that drop what comes to the node ports of the Service,
// because none of its Pods is on them.
func localNodes(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, nodes []string) {
	about := doctor.OfService(svc)
	if err := s.Err(doctor.Endpoints); err != nil {
		r.Unknown(about, err)
		return
	}
	held := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		// Nodes forward to Pods of either family; no annotation chooses one.
		list := s.Slices[name(svc)]
		for _, e := range slices.Concat(ccm.Ready(list, p, discoveryv1.AddressTypeIPv4), ccm.Ready(list, p, discoveryv1.AddressTypeIPv6)) {
			if e.Node == "" {
				r.Unknown(about, fmt.Errorf("on which node its Pod %s is, which its EndpointSlice does not say", e.IP))
				return
			}
			held[e.Node] = true
		}
	}
	empty := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return held[node] })
	if len(empty) == 0 {
		return
	}
	r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "local",
		Evidence: map[string]string{"nodes": fmt.Sprint(len(nodes)), "without a Pod": strings.Join(empty, ", ")},
		Text:     say.F("The Service has externalTrafficPolicy: Local, and %d of %s %s none of its ready Pods: what comes to its node ports there is dropped: %s.", len(empty), ccm.Count(len(nodes), "node"), holds(len(empty)), ccm.Clauses(empty, 5)),
		Do:       say.F(`Send clients to the nodes that hold a Pod alone, or run one on every node, by a DaemonSet. Or let every node pass the traffic on, whose source address is lost then: kubectl -n %s patch service %s --type=merge -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'.`, svc.Namespace, svc.Name)})
}

// holds returns the verb for that many: "holds" for one, else "hold".
func holds(n int) string {
	if n == 1 {
		return "holds"
	}
	return "hold"
}

// forwards reports whether kube-proxy answers on the node: it is a server, and ready.
func forwards(node *corev1.Node) bool {
	return node.Labels["type"] != "virtual-kubelet" && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
