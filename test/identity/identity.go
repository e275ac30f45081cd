// Package identity gives tests the identities under which the classes run in
// production: the rights that infra generates, enforced by the API server, with the
// admission policy in force.
//
// A class acts as its ServiceAccount. Its requests impersonate it in place of showing
// a token of it: the API server then decides by the same user name and groups, at no
// request more. The ServiceAccount itself is not made, since nothing reads it.
//
// The rules are read from the generated files and from nowhere else. A test that wants
// to see what a right is for names it as one to leave out.
package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// Files of the generated rights, below the root of the repository.
const (
	rolesFile     = "infra/cluster/rbac.yaml"
	admissionFile = "infra/cluster/admission.yaml"
)

// Namespace is the one of the ServiceAccounts.
const Namespace = "lbremedy"

// Name returns the name of the ServiceAccount and the ClusterRole of a class.
func Name(class string) string { return "lbremedy-" + class }

// User returns the name by which the API server knows the ServiceAccount of a class.
func User(class string) string { return "system:serviceaccount:" + Namespace + ":" + Name(class) }

// Rules returns the rules of the ClusterRoles of the classes, each class's in turn.
func Rules(classes ...string) ([]rbacv1.PolicyRule, error) {
	roles := map[string][]rbacv1.PolicyRule{}
	err := documents(rolesFile, func(data []byte) error {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(data, &role); err != nil {
			return err
		}
		roles[role.Name] = role.Rules
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []rbacv1.PolicyRule
	for _, class := range classes {
		rules, ok := roles[Name(class)]
		if !ok {
			return nil, fmt.Errorf("%s has no ClusterRole %s: run make gen", rolesFile, Name(class))
		}
		out = append(out, rules...)
	}
	return out, nil
}

// Without returns the rules without one grant.
func Without(rules []rbacv1.PolicyRule, g grant.Grant) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		if slices.Equal(r.APIGroups, []string{g.Group}) && slices.Equal(r.Resources, []string{g.Resource}) {
			r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v == g.Verb })
			if len(r.Verbs) == 0 {
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// documents calls f for each document of a generated file.
func documents(name string, f func([]byte) error) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return fmt.Errorf("read generated rights: %w", err)
	}
	for _, doc := range strings.Split(string(text), "---\n")[1:] { // the first is the header
		if err := f([]byte(doc)); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	return nil
}

// As returns a config that acts as the ServiceAccount of a class with its ClusterRole,
// less the grants that are left out. The admission policy judges what it writes: Admit
// comes first.
func As(ctx context.Context, c *cluster.Cluster, class string, without ...grant.Grant) (*rest.Config, error) {
	rules, err := Rules(class)
	if err != nil {
		return nil, err
	}
	for _, g := range without {
		rules = Without(rules, g)
	}
	return c.Impersonate(ctx, User(class), rules)
}

// Admit puts the generated admission policy in force on the cluster. On one that has
// it, that is one request. A test that has another version of the policy needs the
// cluster for itself.
func Admit(ctx context.Context, c *cluster.Cluster) error {
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	var hash [sha256.Size]byte
	err := documents(admissionFile, func(data []byte) error {
		hash = sha256.Sum256(append(hash[:], data...))
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(data, &kind); err != nil {
			return err
		}
		if kind.Kind == "ValidatingAdmissionPolicy" {
			return yaml.UnmarshalStrict(data, &policy)
		}
		return yaml.UnmarshalStrict(data, &binding)
	})
	if err != nil {
		return err
	}
	// The server takes a policy up some time after it was written. To see when, it
	// refuses its own hash as the name of a class.
	mark := hex.EncodeToString(hash[:16])
	seen := admissionv1.Validation{Expression: "variables.class != '" + mark + "'", Message: mark}
	policy.Spec.Validations = append([]admissionv1.Validation{seen}, policy.Spec.Validations...)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if ok, err := admits(ctx, c, mark); err != nil || ok {
		return err
	}
	policyData, policyErr := json.Marshal(policy)
	bindingData, bindingErr := json.Marshal(binding)
	if err := errors.Join(policyErr, bindingErr); err != nil {
		return fmt.Errorf("install the admission policy: %w", err)
	}
	force := metav1.PatchOptions{FieldManager: "lbremedy-sandbox", Force: new(true)}
	registration := c.Client().AdmissionregistrationV1()
	if _, err := registration.ValidatingAdmissionPolicies().Patch(ctx, policy.Name, types.ApplyPatchType, policyData, force); err != nil {
		return fmt.Errorf("install the admission policy: %w", err)
	}
	if _, err := registration.ValidatingAdmissionPolicyBindings().Patch(ctx, binding.Name, types.ApplyPatchType, bindingData, force); err != nil {
		return fmt.Errorf("install the admission policy: %w", err)
	}
	for {
		if ok, err := admits(ctx, c, mark); err != nil || ok {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// admits reports whether the policy with the mark is in force.
func admits(ctx context.Context, c *cluster.Cluster, mark string) (bool, error) {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: User(mark), Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, fmt.Errorf("ask for the admission policy: %w", err)
	}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "admitted"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	_, err = client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, svc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return false, nil
	case strings.HasSuffix(err.Error(), ": "+mark):
		return true, nil
	case apierrors.IsForbidden(err): // by another version of the policy
		return false, nil
	}
	return false, fmt.Errorf("ask for the admission policy: %w", err)
}
