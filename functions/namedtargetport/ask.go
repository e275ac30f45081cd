package namedtargetport

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// lookUp asks for the port that the API refuses.
func lookUp(c *remedy.Case) say.Text {
	return say.F("Check the controller's log for the port that it sent when it added backends to the group: %s.", c.LogQuery()).
		And("Correct that port in the Service.")
}

// list describes the ports of the Service.
func list(c *remedy.Case) say.Text {
	var ports []say.Text
	for _, p := range c.Service.Spec.Ports {
		ports = append(ports, say.F("%d to %s (node port %d)", p.Port, p.TargetPort.String(), p.NodePort))
	}
	return say.Clauses(ports, 10)
}

// meaning returns what the name of the target port means to the Pods.
func meaning(m ccm.NamedPort, p corev1.ServicePort) say.Text {
	name := ccm.Quote(p.TargetPort.StrVal)
	var parts []say.Text
	for _, n := range m.Numbers() {
		parts = append(parts, say.F("%d on %s (%s)", n, say.Count(len(m.By[n]), "ready endpoint"), say.List(m.By[n], 3)))
	}
	if len(m.Unknown) > 0 {
		parts = append(parts, say.F("unknown on %s (%s)", say.Count(len(m.Unknown), "ready endpoint"), say.List(m.Unknown, 3)))
	}
	if len(parts) == 0 {
		return say.F("The number of %s for port %d could not be determined, because the Service has no ready endpoint.", name, p.Port)
	}
	return say.F("For port %d, %s is %s.", p.Port, name, say.Clauses(parts, len(parts)))
}

// agree asks to give the name of the target port exactly one meaning.
func agree(m ccm.NamedPort, svc *corev1.Service, p corev1.ServicePort) say.Text {
	patch, name := ccm.TargetPortCommand(svc, p), ccm.Quote(p.TargetPort.StrVal)
	switch {
	case len(m.By) == 0 && len(m.Unknown) == 0:
		return say.F("Make Pods of the Service ready, or set the number that they listen on: %s.", patch)
	case len(m.By) == 0:
		return say.F("Give the Pods a container port named %s, or set the number that they listen on: %s.", name, patch)
	case len(m.By) == 1:
		return say.F("Give the Pods that lack it a container port named %s, or set the number that all Pods listen on: %s.", name, patch)
	}
	return say.F("Make all Pods listen on one number, then set it: %s. Traffic reaches only the Pods that listen on that number.", patch).
		And("Or upgrade the controller, which then uses the number of each Pod.")
}
