package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Exclusive gives the test exclusive use of the cluster until it ends, and wipes it: no Service, Event, Node or other object of
// load balancers is left. It waits for current users. Call it before Namespace.
func (c *Cluster) Exclusive(t testing.TB) {
	t.Helper()
	c.hold(t, true)
	if err := c.wipe(t.Context()); err != nil {
		t.Fatalf("clean the cluster: %v", err)
	}
}

func (c *Cluster) take(t testing.TB) bool {
	t.Helper()
	gate, err := tryFlock(t, c.Kubeconfig+".gate")
	if err != nil {
		return false
	}
	defer gate.Close()
	lock, err := tryFlock(t, c.Kubeconfig+".lock")
	if err != nil {
		return false
	}
	c.own(t, true, func() { lock.Close() })
	return true
}

func (c *Cluster) own(t testing.TB, alone bool, release func()) {
	c.mu.Lock()
	c.holds[t.Name()] = alone
	c.mu.Unlock()
	t.Cleanup(func() {
		c.mu.Lock()
		delete(c.holds, t.Name())
		c.mu.Unlock()
		release()
	})
}

// hold reserves the cluster until the test ends, exclusively or shared. Subtests use the reservation of their parents.
func (c *Cluster) hold(t testing.TB, alone bool) {
	t.Helper()
	c.mu.Lock()
	held, has := c.held(t.Name())
	c.mu.Unlock()
	if has {
		if alone && !held {
			t.Fatal("call Exclusive before Namespace: two tests that both wait for the other's namespace would wait forever")
		}
		return
	}

	var release func()
	if alone {
		release = c.lock(t, syscall.LOCK_EX)
	} else {
		release = c.share(t)
	}
	c.own(t, alone, release)
}

// share takes this process's shared lock until its last test ends. A lock for each test could deadlock: a test that holds one
// could wait for a parallel slot for its subtests while tests that wait for the lock occupy all slots.
func (c *Cluster) share(t testing.TB) (release func()) {
	t.Helper()
	c.sharing.Lock()
	defer c.sharing.Unlock()
	if c.shared == 0 {
		c.unshare = c.lock(t, syscall.LOCK_SH)
	}
	c.shared++
	return func() {
		c.sharing.Lock()
		defer c.sharing.Unlock()
		if c.shared--; c.shared == 0 {
			c.unshare()
		}
	}
}

// lock waits for the cluster's lock. A waiting test closes the gate; otherwise sharing tests could keep the lock occupied forever.
func (c *Cluster) lock(t testing.TB, how int) (unlock func()) {
	t.Helper()
	gate := flock(t, c.Kubeconfig+".gate", how)
	lock := flock(t, c.Kubeconfig+".lock", how)
	gate.Close()
	return func() { lock.Close() }
}

func (c *Cluster) held(test string) (alone, has bool) {
	for {
		if alone, has = c.holds[test]; has {
			return alone, true
		}
		i := strings.LastIndexByte(test, '/')
		if i < 0 {
			return false, false
		}
		test = test[:i]
	}
}

// flock waits for the lock of a file. Closing the file releases it.
func flock(t testing.TB, file string, how int) *os.File {
	t.Helper()
	f := openLock(t, file)
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f
		}
		if !errors.Is(err, syscall.EINTR) {
			f.Close()
			t.Fatalf("lock the cluster: %v", err)
		}
	}
}

func tryFlock(t testing.TB, file string) (*os.File, error) {
	t.Helper()
	f := openLock(t, file)
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openLock(t testing.TB, file string) *os.File {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatalf("open the lock of the cluster: %v", err)
	}
	return f
}

var wiped = []schema.GroupVersionResource{
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "endpoints"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Version: "v1", Resource: "nodes"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Version: "v1", Resource: "events"}, // last: deleting the others may create some
}

var own = map[types.NamespacedName]bool{
	{Namespace: "default", Name: "kubernetes"}:                                               true,
	{Namespace: "kube-system", Name: "extension-apiserver-authentication"}:                   true,
	{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"}: true,
}

// proof is the admission policy of Approvals, and its binding. Other policies remain: their tests may not check again.
const proof = "lbremedy-approvals"

func (c *Cluster) wipe(ctx context.Context) error {
	registration := c.client.AdmissionregistrationV1()
	for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
		registration.ValidatingAdmissionPolicies().Delete, registration.ValidatingAdmissionPolicyBindings().Delete,
	} {
		if err := remove(ctx, proof, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete what proves Approvals: %w", err)
		}
	}
	for _, gvr := range wiped {
		if err := c.wipeAll(ctx, gvr); err != nil {
			return fmt.Errorf("delete %s: %w", gvr.Resource, err)
		}
	}
	return nil
}

// wipeAll deletes the objects of a resource: one by one where necessary, otherwise by namespace, because benchmarks leave many.
func (c *Cluster) wipeAll(ctx context.Context, gvr schema.GroupVersionResource) error {
	left, err := c.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var (
		now        = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		together   = map[string]bool{} // by namespace
		individual []types.NamespacedName
	)
	for _, o := range left.Items {
		name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		if own[name] {
			continue
		}
		if len(o.GetFinalizers()) > 0 {
			none := []byte(`{"metadata":{"finalizers":null}}`)
			_, err := c.dynamic.Resource(gvr).Namespace(name.Namespace).Patch(ctx, name.Name, types.MergePatchType, none, metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if name.Namespace == metav1.NamespaceDefault || name.Namespace == metav1.NamespaceSystem {
			individual = append(individual, name)
			continue
		}
		together[name.Namespace] = true
	}
	for namespace := range together {
		if err := c.dynamic.Resource(gvr).Namespace(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	for _, name := range individual {
		err := c.dynamic.Resource(gvr).Namespace(name.Namespace).Delete(ctx, name.Name, now)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
