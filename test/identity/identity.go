// Package identity gives tests the production identities of the classes: the rights that infra generates, read only from the
// generated files and enforced by the API server, with the admission policy in force. A test can remove a right to see its
// purpose. Begin with [Of]. A class acts as its ServiceAccount by impersonation instead of a token: the API server sees the same
// user name and groups, without additional requests. The ServiceAccount object is not created, because nothing reads it.
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
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/infra/ram"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	rolesFile     = "infra/cluster/rbac.yaml"
	admissionFile = "infra/cluster/admission.yaml"
	policyFiles   = "infra/ram/generated/class/*.json"
)

// Namespace is the namespace of the ServiceAccounts.
const Namespace = "lbremedy"

// Name returns the name of the ServiceAccount and the ClusterRole of a class.
func Name(class string) string { return "lbremedy-" + class }

// User returns the user name of a class's ServiceAccount.
func User(class string) string { return "system:serviceaccount:" + Namespace + ":" + Name(class) }

// Rights are the rights of an identity.
type Rights struct {
	Rules  []rbacv1.PolicyRule // in the cluster
	Policy ram.Document        // on Alibaba Cloud
}

// Of returns the rights of a class or another part: "exporter", "doctor", or "up", which runs all classes in one program.
func Of(who string) (Rights, error) {
	files, err := read()
	if err != nil {
		return Rights{}, err
	}
	rules, ok := files.rules[Name(who)]
	if !ok {
		return Rights{}, fmt.Errorf("%s has no ClusterRole %s: run make gen", rolesFile, Name(who))
	}
	r := Rights{Rules: slices.Clip(rules), Policy: files.policies[who]}
	r.Policy.Statement = slices.Clip(r.Policy.Statement) // callers can append safely
	return r, nil
}

// Without returns the rights without one grant.
func (r Rights) Without(g grant.Grant) Rights {
	var out Rights
	for _, rule := range r.Rules {
		if !g.RAM() && slices.Equal(rule.APIGroups, []string{g.Group}) && slices.Equal(rule.Resources, []string{g.Resource}) {
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == g.Verb })
			if len(rule.Verbs) == 0 {
				continue
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	out.Policy.Version = r.Policy.Version
	for _, s := range r.Policy.Statement {
		if s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return g.RAM() && a == g.Action }); len(s.Action) > 0 {
			out.Policy.Statement = append(out.Policy.Statement, s)
		}
	}
	return out
}

// Grants returns the rights as grants, sorted.
func (r Rights) Grants() []grant.Grant {
	var out []grant.Grant
	for _, rule := range r.Rules {
		for _, verb := range rule.Verbs {
			out = append(out, grant.Grant{Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: verb})
		}
	}
	for _, s := range r.Policy.Statement {
		for _, action := range s.Action {
			out = append(out, grant.Grant{Action: action})
		}
	}
	return grant.Set(out)
}

// Cluster returns a config that acts as the ServiceAccount with these rights. The admission policy applies to its writes after Admit.
func (r Rights) Cluster(ctx context.Context, c *cluster.Cluster, who string) (*rest.Config, error) {
	return c.Impersonate(ctx, User(who), r.Rules)
}

// Engine is Cluster for an engine, which also reads people's answers.
func (r Rights) Engine(ctx context.Context, c *cluster.Cluster, who string) (*rest.Config, error) {
	r.Rules = slices.Clip(r.Rules)
	for _, g := range approval.Grants {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: []string{g.Verb}})
	}
	return r.Cluster(ctx, c, who)
}

// Cloud returns a Reader, to be closed, and a Writer for a caller with these rights, limited to the current account, region and cluster.
func (r Rights) Cloud(c *sim.Cloud, caller, clusterID string) (*cloud.Reader, *cloud.Writer, error) {
	key := c.Client(caller)
	if len(r.Policy.Statement) > 0 {
		key = c.Holder(caller, sim.Narrow(string(r.Policy.JSON()), c.Snapshot().AccountID, c.Region(), clusterID))
	}
	reader, writer, err := cloud.New(cloud.Config{
		Region: c.Region(), ClusterID: clusterID, Endpoint: c.Addr(), Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token}),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("act as %s: %w", caller, err)
	}
	return reader, writer, nil
}

type generated struct {
	rules    map[string][]rbacv1.PolicyRule // by ClusterRole
	policies map[string]ram.Document        // by class
}

var read = sync.OnceValues(func() (generated, error) {
	g := generated{map[string][]rbacv1.PolicyRule{}, map[string]ram.Document{}}
	err := documents(rolesFile, func(data []byte) error {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(data, &role); err != nil {
			return err
		}
		g.rules[role.Name] = role.Rules
		return nil
	})
	if err != nil {
		return g, err
	}
	root, err := cluster.Root()
	if err != nil {
		return g, err
	}
	// A class without calls to Alibaba Cloud has no file.
	names, err := filepath.Glob(filepath.Join(root, policyFiles))
	if err != nil {
		return g, fmt.Errorf("find RAM policies: %w", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return g, fmt.Errorf("read RAM policy: %w", err)
		}
		var d ram.Document
		if err := json.Unmarshal(data, &d); err != nil {
			return g, fmt.Errorf("read RAM policy %s: %w", name, err)
		}
		g.policies[strings.TrimSuffix(filepath.Base(name), ".json")] = d
	}
	return g, nil
})

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

// Admit puts the generated admission policy in force; if it is, that takes one request. A test with a different version of the
// policy needs the cluster exclusively.
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
	// The server uses a policy some time after it was written. To detect that, it rejects a class named like its own hash.
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

func admits(ctx context.Context, c *cluster.Cluster, mark string) (bool, error) {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: User(mark), Groups: []string{"system:masters"}}
	client, err := kubernetes.New(config)
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

const approvalsFile = "infra/cluster/approvals.yaml"

// Approvals puts in force what the chart installs for Approvals until the test ends, and returns a function that waits until they
// prove their creators. The test needs the cluster exclusively.
func Approvals(t testing.TB, c *cluster.Cluster) (proven func()) {
	t.Helper()
	ctx := t.Context()
	remove, err := Approve(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return func() {
		t.Helper()
		if err := Proves(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

// Answerable does the same and waits, but what it puts in force remains after the test, which saves the next one the wait.
func Answerable(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	ctx := t.Context()
	if _, err := Approve(ctx, c); err != nil {
		t.Fatal(err)
	}
	admin, err := kube.New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := admin.Approvals(ctx, metav1.NamespaceDefault)
		if err == nil {
			break
		}
		if !errors.Is(err, kube.ErrNotFound) {
			t.Fatal(err)
		}
		<-tick.C
	}
	if err := Proves(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// Person returns the cluster for a person with all rights and these groups.
func Person(t testing.TB, c *cluster.Cluster, name string, groups ...string) *kube.Cluster {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:masters")}
	as, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// Admin returns the name of a user with all rights.
func Admin(t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	admin, err := kube.New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	me, err := admin.Me(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return me.Name
}

// Proves waits until Approvals prove their creators.
func Proves(ctx context.Context, c *cluster.Cluster) error {
	admin, err := kube.New(c.Config)
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		since, err := approval.Since(ctx, admin)
		now, clock := admin.Clock(ctx)
		if err := errors.Join(err, clock); err != nil || now.After(since) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Approve puts in force what the chart installs for Approvals, without the given kinds, and returns a function that removes it.
// The test needs the cluster exclusively.
func Approve(ctx context.Context, c *cluster.Cluster, without ...string) (remove func(context.Context) error, err error) {
	var paths []string
	client := c.Client().CoreV1().RESTClient()
	remove = func(ctx context.Context) error {
		var errs []error
		for _, path := range slices.Backward(paths) {
			errs = append(errs, client.Delete().AbsPath(path).Do(ctx).Error())
		}
		return errors.Join(errs...)
	}
	err = documents(approvalsFile, func(data []byte) error {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(data, &object); err != nil {
			return err
		}
		if slices.Contains(without, object.Kind) {
			return nil
		}
		text, err := yaml.YAMLToJSON(data)
		if err != nil {
			return err
		}
		plural := map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}[object.Kind]
		if plural == "" {
			plural = strings.ToLower(object.Kind) + "s"
		}
		path := "/apis/" + object.APIVersion + "/" + plural + "/" + object.Name
		paths = append(paths, path)
		return client.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "test").Param("force", "true").Body(text).Do(ctx).Error()
	})
	return remove, err
}
