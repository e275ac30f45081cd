package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// As returns a config of a user who may do only what the rules allow, in all namespaces, by the API server's own RBAC. Rules of
// earlier calls are removed; concurrent tests need different users.
func (c *Cluster) As(t testing.TB, user string, rules []rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	config, err := c.Impersonate(t.Context(), user, rules)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Impersonate is As for programs. The rules are in force when it returns. A user with a ServiceAccount's name is bound as one.
func (c *Cluster) Impersonate(ctx context.Context, user string, rules []rbacv1.PolicyRule) (*rest.Config, error) {
	mark, err := marker(rules)
	if err != nil {
		return nil, fmt.Errorf("grant rules to %s: %w", user, err)
	}
	name := "lbremedy-sandbox:" + user
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      append([]rbacv1.PolicyRule{mark}, rules...),
	}
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	}
	force := metav1.PatchOptions{FieldManager: "lbremedy-sandbox", Force: new(true)}
	roleData, roleErr := json.Marshal(role)
	bindingData, bindingErr := json.Marshal(binding)
	if err := errors.Join(roleErr, bindingErr); err != nil {
		return nil, fmt.Errorf("grant rules to %s: %w", user, err)
	}
	rbac := c.client.RbacV1()
	if _, err := rbac.ClusterRoles().Patch(ctx, name, types.ApplyPatchType, roleData, force); err != nil {
		return nil, fmt.Errorf("grant rules to %s: %w", user, err)
	}
	if _, err := rbac.ClusterRoleBindings().Patch(ctx, name, types.ApplyPatchType, bindingData, force); err != nil {
		return nil, fmt.Errorf("grant rules to %s: %w", user, err)
	}
	if err := c.inForce(ctx, user, mark); err != nil {
		return nil, fmt.Errorf("grant rules to %s: %w", user, err)
	}
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return config, nil
}

// marker returns a rule that names the hash of its role's other rules. An authorizer that sees it also sees those, despite the watch's lag.
func marker(rules []rbacv1.PolicyRule) (rbacv1.PolicyRule, error) {
	data, err := json.Marshal(rules)
	if err != nil {
		return rbacv1.PolicyRule{}, err
	}
	hash := sha256.Sum256(data)
	return rbacv1.PolicyRule{
		APIGroups:     []string{"sandbox.lbremedy.io"},
		Resources:     []string{"rules"},
		ResourceNames: []string{hex.EncodeToString(hash[:])},
		Verbs:         []string{"get"},
	}, nil
}

func (c *Cluster) inForce(ctx context.Context, user string, mark rbacv1.PolicyRule) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: mark.APIGroups[0], Resource: mark.Resources[0], Name: mark.ResourceNames[0], Verb: mark.Verbs[0],
		},
	}}
	for {
		got, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask for access: %w", err)
		}
		if got.Status.Allowed {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
