package kube

import (
	"context"
	"errors"
)

// A Binding says how far a ValidatingAdmissionPolicy is in force.
type Binding struct {
	Actions []string // what becomes of a request that breaks it: Deny, Warn, Audit; none: it is not in force
	Limited bool     // to some objects or namespaces
}

// BoundPolicy returns how the binding of this name puts the ValidatingAdmissionPolicy of
// the same name in force; ErrNotFound if either is not there, as on an API server that
// knows none. It needs grant.GetAdmissionPolicies and grant.GetAdmissionBindings.
//
// The types of the API's package would make each function program larger.
func (c *Cluster) BoundPolicy(ctx context.Context, name string) (Binding, error) {
	const path = "/apis/admissionregistration.k8s.io/v1/"
	if !ValidName(name) {
		return Binding{}, noName("get admission policy", "name", name)
	}
	var policy struct{}
	missing := c.call(ctx, "get admission policy "+name, request{verb: "GET", path: path + "validatingadmissionpolicies/" + name}, &policy)
	if missing != nil && !errors.Is(missing, ErrNotFound) {
		return Binding{}, missing
	}
	var binding struct {
		Spec struct {
			PolicyName        string    `json:"policyName"`
			ValidationActions []string  `json:"validationActions"`
			MatchResources    *struct{} `json:"matchResources"`
		} `json:"spec"`
	}
	err := c.call(ctx, "get binding of admission policy "+name, request{verb: "GET", path: path + "validatingadmissionpolicybindings/" + name}, &binding)
	switch {
	case err != nil:
		return Binding{}, err
	case missing != nil:
		return Binding{}, missing
	case binding.Spec.PolicyName != name:
		return Binding{}, nil
	}
	return Binding{Actions: binding.Spec.ValidationActions, Limited: binding.Spec.MatchResources != nil}, nil
}
