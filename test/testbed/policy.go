package testbed

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

const policyName = "lbremedy-policy"

// ReadsPolicy is the right to read a testbed's policy, as the chart grants it to the engine.
var ReadsPolicy = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{policyName}, Verbs: []string{"get"}}

// Allow puts a policy in force, like an operator who edits the ConfigMap.
func (tb *Testbed) Allow(ctx context.Context, text string) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Data: map[string]string{policyfile.Key: text}}
	maps := tb.Cluster.Client().CoreV1().ConfigMaps(tb.Namespace)
	_, err := maps.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	return err
}

// PolicyFlag returns the value of the flag --policy for that ConfigMap.
func (tb *Testbed) PolicyFlag() string { return "configmap:" + tb.Namespace + "/" + policyName }

// Policy returns a reader of the policy that Allow put in force in the testbed of a namespace. c needs the right ReadsPolicy.
func Policy(c *kube.Cluster, namespace string, parse policyfile.Parser) func(context.Context) (remedy.Policy, error) {
	source := policyfile.FromConfigMap(c, namespace, policyName, parse)
	return func(ctx context.Context) (remedy.Policy, error) {
		v, err := source.Read(ctx)
		return v.Policy, err
	}
}
