package main

import (
	"bytes"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func manifests(objects ...any) ([]byte, error) {
	out := bytes.NewBufferString(generated)
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write a manifest: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

func judging(
	name string, fails admissionv1.FailurePolicyType, of admissionv1.Rule, operations ...admissionv1.OperationType,
) admissionv1.ValidatingAdmissionPolicy {
	return admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(fails),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{Operations: operations, Rule: of},
			}}},
		},
	}
}

func resources(groups []string, names ...string) admissionv1.Rule {
	return admissionv1.Rule{APIGroups: groups, APIVersions: []string{"v1"}, Resources: names}
}

func denying(policy admissionv1.ValidatingAdmissionPolicy) admissionv1.ValidatingAdmissionPolicyBinding {
	return admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}
