package main

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// approvals returns what a cluster needs for Approvals: the kind, the admission policy with its binding, and the ClusterRole of people
// who may answer.
//
// Nobody has that role until it is bound: no label aggregates it to edit, admin or view. Helm keeps the kind when the release is removed,
// since all Approvals would be deleted with it. The schema also makes the spec immutable, for installations of the kind alone. Approvals
// count only where the admission policy is in force.
func approvals() ([]byte, error) {
	type object = map[string]any
	text := func(description, pattern string, most int) object {
		out := object{"type": "string", "description": description, "minLength": 1, "maxLength": most}
		if pattern != "" {
			out["pattern"] = pattern
		}
		return out
	}
	column := func(name, path string) object { return object{"name": name, "type": "string", "jsonPath": path} }
	wide := func(name, path string) object {
		return object{"name": name, "type": "string", "jsonPath": path, "priority": 1} // shown with -o wide
	}
	kind := object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": approval.Kind, "annotations": object{"helm.sh/resource-policy": "keep"}},
		"spec": object{
			"group": "lbremedy.io", "scope": "Namespaced",
			"names": object{"kind": "Approval", "listKind": "ApprovalList", "plural": "approvals", "singular": "approval",
				"shortNames": []string{"lba"}, "categories": []string{"lbremedy"}},
			"versions": []object{{
				"name": kube.ApprovalVersion, "served": true, "storage": true,
				"additionalPrinterColumns": []object{
					column("Service", ".spec.service"), column("Verdict", ".spec.verdict"), column("User", ".spec.user"),
					wide("Case", ".spec.case"), wide("Plan", ".spec.plan"), wide("Comment", ".spec.comment"),
					{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
				},
				"schema": object{"openAPIV3Schema": object{
					"type": "object", "required": []string{"spec"},
					"description": "A person's answer to one plan of lbremedy, about a Service of the same namespace.",
					"properties": object{
						"spec": object{
							"description": "The answer. It cannot be changed.",
							"type":        "object", "required": []string{"service", "case", "plan", "attempt", "verdict", "user"},
							"x-kubernetes-validations": []object{{"rule": "self == oldSelf", "message": "an Approval cannot be changed: create another one"}},
							"properties": object{
								"cluster": text("ID of the cluster; default: the cluster that the object is in.", "^[A-Za-z0-9_-]+$", 64),
								"service": text("Name of the Service, in this namespace.", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 63),
								"case":    text("ID of the case that the plan belongs to, as \"lbremedy ls\" prints it.", "^[0-9a-fA-F]{8}-[0-9]{8}T[0-9]{6}$", 64),
								"plan":    text("Digest of the plan. A plan that has changed has another one.", "^[0-9a-f]{32}$", 32),
								"attempt": object{"type": "integer", "minimum": 1,
									"description": "Number of the attempt to write that this answer is for. The first is 1."},
								"verdict": object{"type": "string", "enum": []string{string(kube.Approve), string(kube.Reject)},
									"description": "The answer. A rejected plan stays rejected for 30 days, unless the same user approves it."},
								"user": text("The user who answers: the one who creates the object, or whose click the notifier relays.", "", 1024),
								"groups": object{"type": "array", "maxItems": 256, "x-kubernetes-list-type": "set",
									"description": "Groups of the user that the answer counts for, where the policy asks for a group.",
									"items":       object{"type": "string", "minLength": 1, "maxLength": 1024}},
								"chat": object{
									"type": "object", "required": []string{"sink", "kind", "user", "click"},
									"description": "The click in a chat that the answer comes from. Only the notifier may set it, and create the Approval in that user's name.",
									"properties": object{
										"sink":  text("Name of the sink in the policy.", "^[a-z0-9-]+$", 32),
										"kind":  text("Kind of the sink, which names the platform.", "^[a-z-]+$", 32),
										"user":  text("ID of the user on the platform.", "", 256),
										"click": text("The platform's ID of the click.", "", 256),
									},
								},
								"comment": object{"type": "string", "maxLength": 1024, "description": "The reason, for the journal and the ticket."},
								"expirationSeconds": object{"type": "integer", "format": "int64", "minimum": 60, "maximum": 30 * 24 * 3600, "default": 24 * 3600,
									"description": "How long the answer counts from its creation, in seconds."},
							},
						},
					},
				}},
			}},
		},
	}
	judged := admissionv1.Rule{APIGroups: []string{"lbremedy.io"}, APIVersions: []string{kube.ApprovalVersion}, Resources: []string{"approvals"}}
	policy := judging(approval.Policy, admissionv1.Fail, judged, admissionv1.Create, admissionv1.Update)
	for _, r := range approval.Rules() {
		policy.Spec.Validations = append(policy.Spec.Validations,
			admissionv1.Validation{Expression: r.Expression, Message: r.Message, Reason: new(metav1.StatusReasonForbidden)})
	}
	role := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: approval.Approver},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}},
		},
	}
	return manifests(kind, policy, denying(policy), role)
}
