package ccm

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Empty returns the groups without backends.
func Empty(groups []Group) []Group {
	return slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Servers > 0 })
}

// DescribeEmpty names the Service's load balancer and the ports without backends.
func (s *Candidates) DescribeEmpty() say.Text {
	var text say.Text
	if s.LB != "" {
		text = say.F("The Service has the load balancer %s.", s.LB)
	} else if !NLB(s.Service) {
		text = say.F("No load balancer of the Service was found.")
	}
	for _, g := range Empty(s.Groups) {
		if g.ID == "" {
			text = text.And("No backend is attached to port %d, which has no group.", g.Port.Port)
		} else {
			text = text.And("No backend is attached to port %d: its group %s is empty.", g.Port.Port, g.ID)
		}
	}
	return text
}

// NodesOf returns the nodes of the endpoints, each once, and names the endpoints whose node does not exist.
func (s *Candidates) NodesOf(list []Endpoint) (on []corev1.Node, lost []string) {
	for _, e := range list {
		switch n := s.Node(e.Node); {
		case n == nil:
			lost = append(lost, fmt.Sprintf("%s (%s)", e.Name(), Quote(e.Node)))
		case !slices.ContainsFunc(on, func(o corev1.Node) bool { return o.Name == e.Node }):
			on = append(on, *n)
		}
	}
	return on, lost
}

// DescribeInterfaces names the endpoints that have a network interface in use, with the interface, and says what the others lack.
func DescribeInterfaces(list []Endpoint, all []cloud.Interface) (have []string, lack []say.Text) {
	for _, e := range list {
		switch i := e.Interface(all); {
		case i == nil:
			lack = append(lack, say.F("%s (%s) has none", e.Name(), e.IP))
		case i.Status != "InUse":
			lack = append(lack, say.F("%s (%s) has %s, which is %s", e.Name(), e.IP, i.ID, i.Status))
		default:
			have = append(have, fmt.Sprintf("%s (%s, %s)", e.Name(), e.IP, i.ID))
		}
	}
	return have, lack
}
