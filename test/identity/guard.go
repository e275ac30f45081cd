package identity

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/test/cluster"
)

const guardFile = "infra/cluster/guard.yaml"

// Guard puts the guard in force until the test ends, in one namespace or in all others. It waits until the guard rejects a change
// of type of the Service judged, which then has a load balancer and a finalizer of the controller. The patterns are those of
// protected namespaces. Expressions that fail or cost too much are ignored in production, and fail here.
func Guard(
	t testing.TB, c *cluster.Cluster, in metav1.LabelSelectorOperator, namespace string, judged types.NamespacedName, patterns []string,
	actions ...admissionv1.ValidationAction,
) {
	t.Helper()
	var policy admissionv1.ValidatingAdmissionPolicy
	if err := documents(guardFile, func(data []byte) error { return yaml.UnmarshalStrict(data, &policy) }); err != nil {
		t.Fatal(err)
	}
	policy.Spec.FailurePolicy = new(admissionv1.Fail)
	words, err := json.Marshal(append([]string{}, patterns...))
	for i, v := range policy.Spec.Variables {
		if v.Expression == guard.Patterns {
			policy.Spec.Variables[i].Expression = string(words)
		}
	}
	binding := admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: "ValidatingAdmissionPolicyBinding"}, ObjectMeta: metav1.ObjectMeta{Name: guard.Policy},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: guard.Policy, ValidationActions: actions,
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelMetadataName, Operator: in, Values: []string{namespace}},
			}}},
		},
	}
	policyData, policyErr := json.Marshal(policy)
	bindingData, bindingErr := json.Marshal(binding)
	if err := errors.Join(err, policyErr, bindingErr); err != nil {
		t.Fatal(err)
	}
	registration, force := c.Client().AdmissionregistrationV1(), metav1.PatchOptions{FieldManager: "test", Force: new(true)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, err := range []error{
			registration.ValidatingAdmissionPolicyBindings().Delete(ctx, guard.Policy, metav1.DeleteOptions{}),
			registration.ValidatingAdmissionPolicies().Delete(ctx, guard.Policy, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ; <-tick.C {
			_, err := c.Client().CoreV1().Services(judged.Namespace).Patch(ctx, judged.Name, types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP"}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			if ctx.Err() != nil {
				t.Errorf("the guard is still in force: %v", err)
			}
			if !apierrors.IsForbidden(err) || ctx.Err() != nil {
				return
			}
		}
	})
	_, policyErr = registration.ValidatingAdmissionPolicies().Patch(t.Context(), policy.Name, types.ApplyPatchType, policyData, force)
	_, bindingErr = registration.ValidatingAdmissionPolicyBindings().Patch(t.Context(), policy.Name, types.ApplyPatchType, bindingData, force)
	if err := errors.Join(policyErr, bindingErr); err != nil {
		t.Fatal(err)
	}
}
