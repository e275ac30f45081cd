package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// nodePorts checks Services that clients reach through node ports.
var nodePorts = &doctor.Check{
	ID:       "node-ports",
	Doc:      page("node-ports"),
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.Endpoints, doctor.Nodes, doctor.Policy},
	Manifest: true,
	Find:     findNodePorts,
}

var defaultNodePorts = remedy.Ports{First: 30000, Last: 32767}

func findNodePorts(s *doctor.Snapshot, r *doctor.Report) {
	local := s.Policy.Doctor.Local()
	err := s.Err(doctor.Policy)
	assumed := errors.Is(err, doctor.ErrNoCluster) // the nodes of most clusters have the default
	if err != nil {
		r.Unknown(doctor.All(doctor.Service), say.Errorf("from which range nodes take ports for their own connections: %w", err))
		local = remedy.Ports{}
	}
	if assumed {
		local = remedy.DefaultLocalPorts()
	}
	for i := range s.Services {
		svc := &s.Services[i]
		if svc.DeletionTimestamp != nil {
			continue
		}
		if local != (remedy.Ports{}) {
			localPorts(r, svc, local, assumed)
		}
		if svc.Spec.Type != corev1.ServiceTypeNodePort {
			continue
		}
		if svc.UID != "" {
			reach(s, r, svc)
		}
	}
}

// localPorts reports node ports that a node may also use for its own connections. Without a cluster, the range is assumed.
func localPorts(r *doctor.Report, svc *corev1.Service, local remedy.Ports, assumed bool) {
	var ports, patches []string
	for i, p := range svc.Spec.Ports {
		if p.NodePort == 0 || !local.Hold(p.NodePort) {
			continue
		}
		if port := fmt.Sprint(p.NodePort); !slices.Contains(ports, port) { // TCP and UDP may have the same
			ports = append(ports, port)
		}
		patches = append(patches, fmt.Sprintf(`{"op":"replace","path":"/spec/ports/%d/nodePort","value":NUMBER}`, i))
	}
	if port := svc.Spec.HealthCheckNodePort; port != 0 && local.Hold(port) {
		ports = append(ports, fmt.Sprint(port)) // it cannot be changed
	}
	if len(ports) == 0 {
		return
	}
	list := strings.Join(ports, ",")
	do := say.F("Reserve these ports on every node: sysctl -w net.ipv4.ip_local_reserved_ports=%s.", list)
	switch {
	case len(patches) > 0 && svc.UID == "":
		do = say.F("In the manifest, give the Service node ports from %s.", defaultNodePorts).
			And("Or reserve these ports on every node: sysctl -w net.ipv4.ip_local_reserved_ports=%s.", list)
	case len(patches) > 0:
		do = say.F("Give the Service ports from %s: kubectl -n %s patch service %s --type=json -p '[%s]'.",
			defaultNodePorts, svc.Namespace, svc.Name, strings.Join(patches, ",")).
			And("Or reserve these ports on every node: sysctl -w net.ipv4.ip_local_reserved_ports=%s.", list)
	}
	f := doctor.Finding{
		Severity: doctor.Warning, About: doctor.OfService(svc), Key: "local-ports",
		Evidence: map[string]string{"node ports": list, "local ports": local.String()},
		Text: say.F("Nodes take ports for their own connections from %s, and the Service has %s in this range: %s.",
			local, say.Count(len(ports), "node port"), strings.Join(ports, ", ")).
			And("A connection that gets the same port fails now and then, without a visible cause."),
		Do: do.And("If the nodes use another range, set doctor.localPorts in the policy file."),
	}
	if assumed {
		f.Text = f.Text.And("This is the default range of Linux. No cluster was named, and its nodes may use another one.")
		f.Do = do.And("Or name the cluster with --cluster: the policy file can say which range its nodes use (doctor.localPorts).")
	}
	r.Add(f)
}

// reach reports through which nodes the node ports lead to Pods, and from where.
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
	f := doctor.Finding{Severity: doctor.Info, About: about, Key: "outside",
		Evidence: map[string]string{"nodes": fmt.Sprint(len(nodes)), "with a public address": strings.Join(public, ", ")},
		Text: say.F("The node ports of the Service can be reached only from the VPC and from networks connected to it.").
			And("No node has a public address (%s).", say.Count(len(nodes), "ready node")),
		Do: say.F("To reach the Service from outside, change its type to LoadBalancer, or give a node an EIP and allow the port in its security group.")}
	if len(public) > 0 {
		f.Text = say.F("From outside the VPC, the node ports of the Service can be reached only through nodes with a public address (%d of %s): %s.",
			len(public), say.Count(len(nodes), "node"), say.List(public, shown)).
			And("Their security group must allow the ports.")
		f.Do = say.F("No action is needed if this is intended. If nobody outside should reach the Service, close the node ports in the security group of " +
			"these nodes.").
			And("If everybody should, change its type to LoadBalancer.")
	}
	r.Add(f)
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		localNodes(s, r, svc, nodes)
	}
}

// localNodes reports nodes that drop traffic because they run none of the Service's Pods.
func localNodes(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, nodes []string) {
	about := doctor.OfService(svc)
	if err := s.Err(doctor.Endpoints); err != nil {
		r.Unknown(about, err)
		return
	}
	held := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		// Nodes forward to Pods of both families: no annotation chooses one.
		list := s.Slices[name(svc)]
		for _, e := range slices.Concat(ccm.Ready(list, p, discoveryv1.AddressTypeIPv4), ccm.Ready(list, p, discoveryv1.AddressTypeIPv6)) {
			if e.Node == "" {
				r.Unknown(about, say.Errorf("on which node its Pod %s runs: its EndpointSlice does not say", e.IP))
				return
			}
			held[e.Node] = true
		}
	}
	empty := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return held[node] })
	if len(empty) == 0 {
		return
	}
	clusterPolicy := fmt.Sprintf(`kubectl -n %s patch service %s --type=merge -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`, svc.Namespace, svc.Name)
	r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "local",
		Evidence: map[string]string{"nodes": fmt.Sprint(len(nodes)), "without a Pod": strings.Join(empty, ", ")},
		Text: say.F("The Service has externalTrafficPolicy: Local. Nodes without one of its ready Pods drop traffic to its node ports (%d of %s): %s.",
			len(empty), say.Count(len(nodes), "node"), say.List(empty, shown)),
		Do: say.F("Send clients only to nodes with a Pod, or run a Pod on every node with a DaemonSet.").
			And("Or let every node forward the traffic, which loses the source address: %s.", clusterPolicy)})
}

// forwards reports whether kube-proxy runs on the node: it is a server and ready.
func forwards(node *corev1.Node) bool {
	return node.Labels["type"] != "virtual-kubelet" && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
