package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

func TestVersion(t *testing.T) {
	got, err := Join(t).Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got.GitVersion != "v1.37.2" || got.Major != "1" || got.Minor != "37" {
		t.Errorf("version is %+v, want v1.37.2", got)
	}
}

func TestAs(t *testing.T) {
	c := Join(t)
	ns := c.Namespace(t)
	rule := func(verb string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{verb}}}
	}
	// The same user repeatedly: each rule is in force at once, and the previous one is not.
	for i := range 10 {
		may, mayNot := "list", "create"
		if i%2 == 1 {
			may, mayNot = mayNot, may
		}
		client, err := kubernetes.New(c.As(t, "tester", rule(may)))
		if err != nil {
			t.Fatal(err)
		}
		_, listErr := client.CoreV1().Services(ns).List(t.Context(), metav1.ListOptions{})
		_, createErr := client.CoreV1().Services(ns).Create(t.Context(), service("web"+string(rune('a'+i))), metav1.CreateOptions{})
		got := map[string]error{"list": listErr, "create": createErr}
		if got[may] != nil {
			t.Errorf("round %d: %s was declared, got %v", i, may, got[may])
		}
		if !apierrors.IsForbidden(got[mayNot]) {
			t.Errorf("round %d: %s was not declared, got %v", i, mayNot, got[mayNot])
		}
	}
}

// last returns the last cluster of the run. Waiting for the first one would block all tests that share it.
func last(t *testing.T) *Cluster {
	t.Helper()
	all, err := joined()
	if err != nil {
		t.Fatal(err)
	}
	return all[len(all)-1]
}

func TestExclusiveCleans(t *testing.T) {
	c := last(t)
	t.Run("leave", func(t *testing.T) {
		for _, ns := range []string{c.Namespace(t), "kube-system", "default"} {
			web := service("web")
			web.Finalizers = []string{"service.k8s.alibaba/resources"}
			if _, err := c.Client().CoreV1().Services(ns).Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := c.Client().CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Client().CoreV1().Events(ns).Create(t.Context(), event(ns), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			}
			if _, err := c.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
		if _, err := c.Client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})

	c.Exclusive(t)
	for _, gvr := range wiped {
		left, err := c.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range left.Items {
			if name := o.GetNamespace() + "/" + o.GetName(); o.GetNamespace() == "" || !isOwn(name) {
				t.Errorf("%s %s is left", gvr.Resource, name)
			}
		}
	}
	c.Namespace(t) // a test does not wait for its own lock
}

func isOwn(name string) bool {
	for o := range own {
		if o.String() == name {
			return true
		}
	}
	return false
}

func TestExclusiveWaits(t *testing.T) {
	c := last(t)
	order := make(chan string, 10)
	shares := make(chan bool, 1)
	t.Run("all", func(t *testing.T) {
		t.Run("shares", func(t *testing.T) {
			t.Parallel()
			defer close(shares)
			c.Namespace(t)
			shares <- true
			time.Sleep(200 * time.Millisecond)
			order <- "shared"
		})
		t.Run("wants it alone", func(t *testing.T) {
			t.Parallel()
			if !<-shares {
				return
			}
			c.Exclusive(t)
			order <- "alone"
		})
	})
	close(order)
	if first, second := <-order, <-order; first != "shared" || second != "alone" {
		t.Errorf("first %q, then %q", first, second)
	}
}

func TestAlone(t *testing.T) {
	var c *Cluster
	t.Run("has it", func(t *testing.T) {
		c = Alone(t)
		if f, err := tryFlock(t, c.Kubeconfig+".lock"); err == nil {
			f.Close()
			t.Error("the cluster's lock is free, while a test has it for itself")
		}
		c.Namespace(t) // a test does not wait for its own lock
	})
	if c == nil {
		return
	}
	t.Run("it is free again", func(t *testing.T) {
		c.hold(t, true)
	})
}

func TestAloneWaitsForAny(t *testing.T) {
	for name, frees := range map[string]int{"the second": 1, "the third": 2} {
		t.Run(name, func(t *testing.T) {
			var all []*Cluster
			var used []*os.File
			for range 3 {
				c := &Cluster{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), holds: map[string]bool{}}
				lock, err := tryFlock(t, c.Kubeconfig+".lock")
				if err != nil {
					t.Fatal(err)
				}
				all, used = append(all, c), append(used, lock)
			}
			got := make(chan *Cluster, 1)
			var waits sync.WaitGroup
			waits.Go(func() { got <- free(t, all) })
			for tried := false; !tried; { // all of them; the first is tried last
				_, err := os.Stat(all[0].Kubeconfig + ".gate")
				tried = err == nil
			}
			used[frees].Close()
			select {
			case c := <-got:
				if c != all[frees] {
					t.Error("it has a cluster that is in use")
				}
			case <-time.After(10 * time.Second):
				t.Error("it waits for a cluster that is in use, while another one is free")
			}
			for _, lock := range used {
				lock.Close()
			}
			waits.Wait()
		})
	}
}

func TestCompact(t *testing.T) {
	c := Alone(t)
	ns := c.Namespace(t)
	events := c.Client().CoreV1().Events(ns)
	if _, err := events.Create(t.Context(), event(ns), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := events.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Compact(t)

	w, err := events.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	select {
	case e := <-w.ResultChan():
		if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("an old watch got %s %v, want 410 Gone", e.Type, e.Object)
		}
	case <-time.After(10 * time.Second):
		t.Error("an old watch goes on")
	}
}

func TestStart(t *testing.T) {
	c, stop, err := Start(t.Context(), Options{EventTTL: 2 * time.Hour, NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	args, err := exec.Command("ps", "-eo", "args").Output()
	if err == nil && !strings.Contains(string(args), "--event-ttl=2h0m0s") {
		t.Error("the server does not know how long to keep Events")
	}
	if _, err := c.Impersonate(t.Context(), "system:serviceaccount:lbremedy:exporter", nil); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := os.Stat(filepath.Dir(c.Kubeconfig)); !os.IsNotExist(err) {
		t.Errorf("the server's directory is left: %v", err)
	}
}

func TestConnectRefusesOtherClusters(t *testing.T) {
	for name, config := range map[string]string{
		"other name": `{"current-context":"prod","contexts":[{"name":"prod","context":{"cluster":"c"}}],"clusters":[{"name":"c",` +
			`"cluster":{"server":"https://127.0.0.1:6443"}}]}`,
		"other host": `{"current-context":"lbremedy-sandbox","contexts":[{"name":"lbremedy-sandbox","context":{"cluster":"c"}}],"clusters":[{"name":"c",` +
			`"cluster":{"server":"https://192.0.2.1:6443"}}]}`,
	} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := connect(file); err == nil || !strings.Contains(err.Error(), "not the kubeconfig of a sandbox") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
}

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func event(namespace string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "web."},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: namespace, Name: "web"},
		Type:           corev1.EventTypeWarning,
		Reason:         "SyncLoadBalancerFailed",
	}
}
