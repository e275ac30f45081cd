package operator

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// WatchService waits until is returns true for a Service.
func WatchService(t *testing.T, sc *Testbed, name string, is func(*corev1.Service) bool) error {
	t.Helper()
	client := sc.Kube.Client().CoreV1().Services(sc.Namespace)
	w, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer w.Stop()
	svc, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || is(svc) {
		return err
	}
	for e := range w.ResultChan() {
		if svc, ok := e.Object.(*corev1.Service); ok && is(svc) {
			return nil
		}
	}
	return t.Context().Err()
}

// Annotation is the prefix of the controller's annotations.
const Annotation = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"

// A Testbed is a Service in a full vSwitch, with the controller that reports it.
type Testbed struct {
	Call
	Kube      *cluster.Cluster
	Cloud     *sim.Cloud
	Namespace string
}

// NewTestbed returns a testbed until the test ends.
func NewTestbed(t *testing.T) *Testbed {
	t.Helper()
	return NewTestbedOn(t, cluster.Join(t))
}

// NewTestbedOn returns a testbed on a cluster.
func NewTestbedOn(t *testing.T, c *cluster.Cluster) *Testbed {
	t.Helper()
	sc := &Testbed{Kube: c, Namespace: c.Namespace(t)}
	world, err := sim.ParseWorld([]byte(`
cluster: {id: c-cli}
vswitches:
- {id: vsw-a, zone: cn-hangzhou-h, free: 0}
- {id: vsw-b, zone: cn-hangzhou-i, free: 41}
instances: [{id: i-cli}]
`))
	if err != nil {
		t.Fatal(err)
	}
	sc.Cloud = sim.New(t, world)
	admin := sc.Cloud.Admin()
	sc.Env = map[string]string{
		"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir(), "LBREMEDY_KUBECONFIG": c.Kubeconfig,
		"LBREMEDY_CLUSTER": "c-cli", "LBREMEDY_REGION": sc.Cloud.Region(),
		"LBREMEDY_CLOUD_ENDPOINT": sc.Cloud.Addr(), "LBREMEDY_CLOUD_SCHEME": "HTTP",
		KeyID: admin.AccessKeyID, KeySecret: admin.Secret,
	}
	sc.create(t)
	sc.sync(t)
	return sc
}

// As returns calls with the kubeconfig of a user with these rights.
func (sc *Testbed) As(t *testing.T, user string, rules []rbacv1.PolicyRule, groups ...string) Call {
	t.Helper()
	sc.Kube.As(t, user, rules)
	config, err := clientcmd.LoadFromFile(sc.Kube.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range config.AuthInfos {
		one.Impersonate, one.ImpersonateGroups = user, append(groups, "system:authenticated")
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return sc.With("LBREMEDY_KUBECONFIG", file)
}

// Fixes returns a policy that fixes only in the testbed's namespace: "up" watches the whole cluster, which others share.
func (sc *Testbed) Fixes() string {
	return fmt.Sprintf("rules: [{namespaces: [%q], mode: fix}]\n", sc.Namespace)
}

func (sc *Testbed) create(t *testing.T) {
	t.Helper()
	ctx, client := t.Context(), sc.Kube.Client()
	labels := map[string]string{"testbed": sc.Namespace}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: sc.Namespace, Labels: labels},
		Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-cli"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(ctx), sc.Namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]corev1.ServiceType{"web": corev1.ServiceTypeLoadBalancer, "inner": corev1.ServiceTypeClusterIP} {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{Annotation + "address-type": "intranet", Annotation + "vswitch-id": "vsw-a"}},
			Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
		}
		if _, err := client.CoreV1().Services(sc.Namespace).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (sc *Testbed) sync(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	t.Cleanup(func() { cancel(); wait.Wait() })
	world := sc.Cloud.Snapshot()
	wait.Go(func() {
		err := controller.Run(ctx, controller.Options{
			Kube: rest.CopyConfig(sc.Kube.Config), Cloud: sc.Cloud.Addr(), Credentials: sc.Cloud.Admin(), Region: world.Region, ClusterID: "c-cli",
			VPC: world.Cluster.VPC, VSwitches: []string{"cn-hangzhou-h:vsw-a"}, Namespace: sc.Namespace, Nodes: "testbed=" + sc.Namespace,
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("the controller ended: %v", err)
		}
	})
}

// Annotations returns the annotations of the Service.
func (sc *Testbed) Annotations(t *testing.T) map[string]string {
	t.Helper()
	svc, err := sc.Kube.Client().CoreV1().Services(sc.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return svc.Annotations
}

// Wants runs a command and checks the exit code and parts of the output.
func (sc *Testbed) Wants(t *testing.T, code int, out, errs string, args ...string) Said {
	t.Helper()
	got := sc.Run(t.Context(), args...)
	if got.Code != code || !strings.Contains(got.Out, out) || !strings.Contains(got.Err, errs) {
		t.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.Code, got.Out, got.Err, code, out, errs)
	}
	return got
}
