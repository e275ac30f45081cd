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

// A Webhook is an admission webhook that a configuration registers.
type Webhook struct {
	Resource      string // of its configuration: validatingwebhookconfigurations or mutatingwebhookconfigurations
	Configuration string // the name of that
	Service       string // namespace/name of the Service that answers for it; empty: it has an address outside
}

// Webhooks returns the admission webhooks of this name. It needs grant.ListValidating and
// grant.ListMutating.
func (c *Cluster) Webhooks(ctx context.Context, name string) ([]Webhook, error) {
	type configuration struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Webhooks []struct {
			Name         string `json:"name"`
			ClientConfig struct {
				Service *struct {
					Namespace string `json:"namespace"`
					Name      string `json:"name"`
				} `json:"service"`
			} `json:"clientConfig"`
		} `json:"webhooks"`
	}
	var found []Webhook
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		_, err := list(ctx, c, "list "+resource, "/apis/admissionregistration.k8s.io/v1/"+resource, nil, func(o *configuration) error {
			for _, w := range o.Webhooks {
				if w.Name != name {
					continue
				}
				hook := Webhook{Resource: resource, Configuration: o.Metadata.Name}
				if s := w.ClientConfig.Service; s != nil {
					hook.Service = s.Namespace + "/" + s.Name
				}
				found = append(found, hook)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
