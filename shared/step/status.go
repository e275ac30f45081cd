package step

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ClearStatus removes the load balancer's addresses from the status: the controller creates a new one with another address. A Resync
// must follow to trigger it.
type ClearStatus struct {
	Was []corev1.LoadBalancerIngress `json:"was"`
}

// Says describes the step.
func (s ClearStatus) Says() say.Text {
	return say.F("clear the status, which lists %s", strings.Join(addresses(s.Was), ", "))
}

// Kind is "clear-status".
func (ClearStatus) Kind() string { return "clear-status" }

// Target is the Service.
func (ClearStatus) Target() string { return "" }

// Risk is high: the new load balancer has another address.
func (ClearStatus) Risk() remedy.Risk { return remedy.High }

// Grants are reading Services and patching their status.
func (ClearStatus) Grants() []grant.Grant {
	return []grant.Grant{grant.GetServices, grant.PatchServicesStatus}
}

// Fields are the load-balancer status.
func (ClearStatus) Fields() []remedy.Field { return []remedy.Field{remedy.StatusField} }

// Check compares the status with both sides of the step.
func (s ClearStatus) Check(_ context.Context, c *remedy.Case) (remedy.State, error) {
	now := c.Service.Status.LoadBalancer.Ingress
	switch {
	case len(now) == 0:
		return remedy.Done, nil
	case strings.Join(addresses(now), ",") == strings.Join(addresses(s.Was), ","):
		return remedy.Todo, nil
	}
	return remedy.Conflict, nil
}

// Apply patches the status of the version in the case.
func (s ClearStatus) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	svc, err := w.Kube.PatchStatus(ctx, c.Service.Namespace, c.Service.Name, c.Service.ResourceVersion, corev1.LoadBalancerStatus{})
	if err != nil {
		return fmt.Errorf("clear the status of Service %s/%s: %w", c.Service.Namespace, c.Service.Name, err)
	}
	c.Service = svc
	return nil
}

// Undo returns no step: the load balancer of the old address no longer exists.
func (ClearStatus) Undo() (remedy.Step, bool) { return nil, false }

func addresses(ingress []corev1.LoadBalancerIngress) []string {
	var out []string
	for _, in := range ingress {
		if in.IP != "" {
			out = append(out, in.IP)
			continue
		}
		out = append(out, in.Hostname)
	}
	return out
}
