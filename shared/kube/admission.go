package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Binding says where a ValidatingAdmissionPolicy applies.
type Binding struct {
	Actions []string // the effect of a violation: Deny, Warn, Audit; empty: not in force
	Limited bool     // to some objects or namespaces
}

// BoundPolicy returns the binding of the ValidatingAdmissionPolicy of the same name, with the errors of Guard.
func (c *Cluster) BoundPolicy(ctx context.Context, name string) (Binding, error) {
	g, err := c.Guard(ctx, name)
	return g.Binding, err
}

// A Webhook is an admission webhook that a configuration registers.
type Webhook struct {
	Resource      string // of its configuration: validatingwebhookconfigurations or mutatingwebhookconfigurations
	Configuration string // name of the configuration
	Service       string // namespace/name of the Service that answers; empty for an address outside
}

// Webhooks returns the admission webhooks of this name. It needs grant.ListValidating and grant.ListMutating.
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

// A Guard is what a ValidatingAdmissionPolicy guarantees.
type Guard struct {
	Binding
	Changed   time.Time // when the policy or its binding was last written, by the API server's clock
	Strict    bool      // it refuses what it cannot evaluate, and exempts no request
	Rules     []string  // expressions that each request must satisfy
	Resources []ResourceRule
}

// A ResourceRule is a kind of object that an admission policy checks, and when.
type ResourceRule struct {
	Groups     []string `json:"apiGroups"`
	Versions   []string `json:"apiVersions"`
	Resources  []string `json:"resources"`
	Operations []string `json:"operations"`
	Names      []string `json:"resourceNames"`
}

type selector struct {
	Labels      map[string]string `json:"matchLabels"`
	Expressions []json.RawMessage `json:"matchExpressions"`
}

func (s *selector) all() bool { return s == nil || len(s.Labels) == 0 && len(s.Expressions) == 0 }

// Guard returns the ValidatingAdmissionPolicy of this name with the binding of the same name. The error is ErrNotFound if either does
// not exist or the kind is unknown. It needs grant.GetAdmissionPolicies and grant.GetAdmissionBindings. The API package's types would
// make each function program larger.
func (c *Cluster) Guard(ctx context.Context, name string) (Guard, error) {
	type policyPart struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			FailurePolicy    string            `json:"failurePolicy"`
			MatchConditions  []json.RawMessage `json:"matchConditions"`
			ParamKind        *struct{}         `json:"paramKind"`
			MatchConstraints struct {
				Namespaces *selector         `json:"namespaceSelector"`
				Objects    *selector         `json:"objectSelector"`
				Exclude    []json.RawMessage `json:"excludeResourceRules"`
				Rules      []ResourceRule    `json:"resourceRules"`
			} `json:"matchConstraints"`
			Validations []struct {
				Expression string `json:"expression"`
			} `json:"validations"`
		} `json:"spec"`
	}
	type bindingPart struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			PolicyName        string    `json:"policyName"`
			ValidationActions []string  `json:"validationActions"`
			MatchResources    *struct{} `json:"matchResources"`
		} `json:"spec"`
	}
	const path = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
	ctx = unrecorded(ctx)
	policy, missing := get[policyPart](ctx, c, "admission policy", path+"policies/*", nil, name)
	if missing != nil && !errors.Is(missing, ErrNotFound) {
		return Guard{}, missing
	}
	binding, err := get[bindingPart](ctx, c, "binding of admission policy", path+"policybindings/*", nil, name)
	if err = cmp.Or(err, missing); err != nil {
		return Guard{}, err
	}
	match := policy.Spec.MatchConstraints
	g := Guard{Resources: match.Rules, Strict: policy.Spec.FailurePolicy == "Fail" && len(policy.Spec.MatchConditions) == 0 &&
		policy.Spec.ParamKind == nil && match.Namespaces.all() && match.Objects.all() && len(match.Exclude) == 0}
	if of := binding.Spec; of.PolicyName == name {
		g.Binding = Binding{Actions: of.ValidationActions, Limited: of.MatchResources != nil}
	}
	for _, v := range policy.Spec.Validations {
		g.Rules = append(g.Rules, v.Expression)
	}
	for _, m := range []metav1.ObjectMeta{policy.ObjectMeta, binding.ObjectMeta} {
		if at := changed(m); at.After(g.Changed) {
			g.Changed = at
		}
	}
	return g, nil
}

// changed returns when an object was last written, without its status, by the times that the API server keeps for every writer.
func changed(m metav1.ObjectMeta) time.Time {
	at := m.CreationTimestamp.Time
	for _, f := range m.ManagedFields {
		if f.Subresource == "" && f.Time != nil && f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}
