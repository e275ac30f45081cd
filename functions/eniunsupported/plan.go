package eniunsupported

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// throughNodes makes nodes the backends if the Service has node ports, any node serves any client, and no Pod is on a virtual node.
// Otherwise it asks.
func throughNodes(ctx context.Context, c *remedy.Case, virtual []ccm.Endpoint, finding, what say.Text) (remedy.Plan, error) {
	p := ask(c, virtual, finding, what)
	if len(virtual) > 0 || len(ccm.Unallocated(c.Service)) > 0 || c.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		return p, nil
	}
	nodes, err := c.Kube.Nodes(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list nodes: %w", err)
	}
	serve := ccm.ExclusionsOf(nodes, c.Service).Of[ccm.Serves]
	if len(serve) == 0 {
		return p, nil
	}
	through := step.Annotate{Set: map[string]string{ccm.BackendType: "ecs"}}
	if was, ok := c.Service.Annotations[ccm.BackendType]; ok {
		through.Was = map[string]string{ccm.BackendType: was}
	}
	return remedy.Plan{
		Finding: finding.And("The Service has node ports, and these nodes can be its backends: %s.", say.List(serve, 5)),
		Note:    say.F("The traffic takes one hop more, and Pods no longer see the addresses of the clients. Or change the load balancer.").Then(what),
		Risk:    remedy.Medium,
		Steps:   []remedy.Step{through},
	}, nil
}

func ask(c *remedy.Case, virtual []ccm.Endpoint, finding, what say.Text) remedy.Plan {
	return remedy.Plan{Finding: finding, Ask: what.Then(unchanged(c.Service, virtual))}
}

// unchanged describes a Service on an unchanged load balancer: nodes are its backends, and no Pod is on a virtual node.
func unchanged(svc *corev1.Service, virtual []ccm.Endpoint) say.Text {
	if len(virtual) == 0 {
		return ccm.NodesAdvice(svc)
	}
	text := say.F("Alternatively, keep the load balancer as it is and move these Pods off virtual nodes: %s.", ccm.EndpointNames(virtual)).
		And("The controller adds Pods on virtual nodes by their network interfaces, also where nodes are the backends.")
	if svc.Annotations[ccm.BackendType] == "ecs" {
		return text
	}
	return ccm.WithNodePorts(svc, text.And("Then send traffic through the nodes: %s.", ccm.SetCommand(svc, ccm.BackendType, "ecs")))
}
