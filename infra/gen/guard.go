package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

// guardPolicy returns the ValidatingAdmissionPolicy of the guard, as YAML. The chart makes the binding, which says whether the guard
// warns or refuses, and where.
//
// An edit that cannot be judged is let through: the guard saves from mistakes, and must not become one. So is what is written through
// services/status, as the controller does.
func guardPolicy() ([]byte, error) {
	policy := admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: guard.Policy},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Ignore),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
				},
			}}},
		},
	}
	for _, c := range guard.Conditions() {
		policy.Spec.MatchConditions = append(policy.Spec.MatchConditions, admissionv1.MatchCondition(c))
	}
	for _, v := range guard.Variables() {
		policy.Spec.Variables = append(policy.Spec.Variables, admissionv1.Variable(v))
	}
	for _, r := range guard.Rules() {
		policy.Spec.Validations = append(policy.Spec.Validations, admissionv1.Validation{
			Expression: "!(" + r.Stops + ")", Message: r.Message().String(), Reason: new(metav1.StatusReasonForbidden),
		})
	}
	text, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("write the policy of the guard: %w", err)
	}
	return append([]byte(generated+"---\n"), text...), nil
}

var (
	//go:embed guard.en.tmpl
	guardEnglish string
	//go:embed guard.zh.tmpl
	guardChinese string
)

// guardPages adds the page of the guard in both languages.
func guardPages(out map[string][]byte) error {
	for name, page := range map[string]struct {
		text string
		in   *say.Language
	}{
		"infra/cluster/guard.md":    {guardEnglish, nil},
		"infra/cluster/guard.zh.md": {guardChinese, chinese.Language()},
	} {
		t, err := template.New(name).Funcs(template.FuncMap{
			"say": func(t say.Text) string { return cell(t.In(page.in)) }, "allow": func() string { return guard.Allow },
			"protect": func() string { return guard.Protect }, "policy": func() string { return guard.Policy },
		}).Parse(page.text)
		if err != nil {
			return fmt.Errorf("read the page %s: %w", name, err)
		}
		var text bytes.Buffer
		if err := t.Execute(&text, guard.Rules()); err != nil {
			return fmt.Errorf("write the page %s: %w", name, err)
		}
		out[name] = text.Bytes()
	}
	return nil
}
