package identity_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
)

// TestFunctionCompute: a function on Function Compute may only act as its class's ServiceAccount, which has only the class's rights.
func TestFunctionCompute(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "infra/fc/identities.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	accounts, roles, bindings := map[string]bool{}, map[string]rbacv1.ClusterRole{}, map[string]rbacv1.ClusterRoleBinding{}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		var role rbacv1.ClusterRole
		var binding rbacv1.ClusterRoleBinding
		for _, into := range []any{&kind, &role, &binding} {
			if err := yaml.Unmarshal([]byte(doc), into); err != nil {
				t.Fatal(err)
			}
		}
		switch kind.Kind {
		case "ServiceAccount":
			accounts["system:serviceaccount:"+kind.Namespace+":"+kind.Name] = true
		case "ClusterRole":
			roles[kind.Name] = role
		case "ClusterRoleBinding":
			bindings[kind.Name] = binding
		}
	}
	var classes []string
	for _, r := range functions.All {
		classes = append(classes, r.Class)
	}
	if len(accounts) != len(classes) || len(roles) != len(classes) || len(bindings) != len(classes) {
		t.Errorf("for %d functions there are %d ServiceAccounts, %d roles and %d bindings", len(classes), len(accounts), len(roles), len(bindings))
	}
	for _, class := range classes {
		name, may := identity.Name(class), roles[identity.Name(class)+"-as"].Rules
		b := bindings[name]
		if !accounts[identity.User(class)] || b.RoleRef.Name != name || len(b.Subjects) != 1 || b.Subjects[0].Name != name || len(may) != 1 ||
			!slices.Equal(may[0].ResourceNames, []string{name}) {
			t.Errorf("%s: %+v, %+v", class, b, may)
		}
	}

	c := cluster.Join(t)
	namespace, elsewhere := c.Namespace(t), c.Namespace(t)
	access := c.Client().RbacV1()
	role := roles["lbremedy-busy-as"]
	role.Name = "lbremedy-test-" + namespace
	if _, err := access.ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := access.ClusterRoles().Delete(context.WithoutCancel(t.Context()), role.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	user := "role-of-" + namespace
	if _, err := access.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	may := func(verb, resource, namespace, name string) bool {
		t.Helper()
		review, err := c.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Resource: resource, Namespace: namespace, Name: name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	for !may("impersonate", "serviceaccounts", namespace, "lbremedy-busy") { // RBAC sees it a moment later
		if t.Context().Err() != nil {
			t.Fatal("it may not act as its ServiceAccount")
		}
	}
	for _, no := range [][4]string{
		{"impersonate", "serviceaccounts", namespace, "lbremedy-quota"}, {"impersonate", "serviceaccounts", elsewhere, "lbremedy-busy"},
		{"impersonate", "users", "", "admin"}, {"impersonate", "groups", "", "system:masters"},
		{"create", "serviceaccounts", namespace, ""}, {"get", "services", namespace, "web"}, {"patch", "services", namespace, "web"},
	} {
		if may(no[0], no[1], no[2], no[3]) {
			t.Errorf("it may %v", no)
		}
	}
}
