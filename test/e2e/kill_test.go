package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const clusterID = "c-e2e-123"

// TestKilledAnywhere makes two hundred Services fail repeatedly while exporter, worker and NATS are killed at random moments and
// compaction breaks a watch. Each Service reaches its outcome with exactly one write.
func TestKilledAnywhere(t *testing.T) {
	const services, kills = 200, 18
	c := cluster.Alone(t)
	cloud := sim.New(t, &sim.World{
		Cluster: sim.Cluster{ID: clusterID, VSwitches: []string{"vsw-full", "vsw-room"}},
		VPCs:    []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}},
		VSwitches: []sim.VSwitch{
			{ID: "vsw-full", Zone: "cn-hangzhou-h", CIDR: "10.1.0.0/24", Free: new(int)},
			{ID: "vsw-room", Zone: "cn-hangzhou-i", CIDR: "10.2.0.0/20"},
		},
		Instances: []sim.Instance{{ID: "i-1"}},
		Quotas:    []sim.Quota{{Name: "slb_quota_instances_num", Total: 1000}},
	})
	key := cloud.Admin()
	token := "e2e-token"
	port := shell.Port(t)
	env := []string{
		"LBREMEDY_CLUSTER=" + clusterID, "LBREMEDY_REGION=" + cloud.Region(), "LBREMEDY_KUBECONFIG=" + c.Kubeconfig,
		"LBREMEDY_CLOUD_ENDPOINT=" + cloud.Addr(), "LBREMEDY_CLOUD_SCHEME=HTTP",
		"LBREMEDY_NATS=nats://127.0.0.1:" + port, "LBREMEDY_NATS_TOKEN=" + token,
		"ALIBABA_CLOUD_ACCESS_KEY_ID=" + key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + key.Secret,
		"LBREMEDY_E2E_DIR=" + t.TempDir(), "LBREMEDY_E2E_PORT=" + port,
		policyVariable + "=" + shell.File(t, "policy.yaml", "mode: fix\nbudgets: {class: 1000, least: 1000}\n"),
	}
	parts := []*part{keep(t, "nats", env...)}
	s := setUp(t, "nats://127.0.0.1:"+port, token)
	// NATS redelivers a killed worker's messages after this time instead of 30 s.
	nats.Patience(t, "nats://"+token+"@127.0.0.1:"+port, clusterID, "vswitch-ip-exhausted", 15*time.Second)
	parts = append(parts, keep(t, "exporter", env...), keep(t, "worker", env...))

	seen := watchWrites(t, c)
	startController(t, c, cloud, key)
	namespace := "e2e-kill"
	createNode(t, c)
	create := createServices(t, c, namespace, services)

	// Kill a random part about every second.
	random := rand.New(rand.NewPCG(1, 2))
	for i := range kills {
		pause := time.NewTimer(time.Duration(300+random.IntN(1200)) * time.Millisecond)
		<-pause.C
		if i == kills/2 {
			// The exporter is down during a compaction, so its watch cannot resume.
			parts[1].kill()
			c.Compact(t)
			continue
		}
		parts[random.IntN(len(parts))].kill()
	}
	create.Wait()

	await(t, 4*time.Minute, func() error { return allFixed(t, s, c, namespace, services) })
	marks, changes := seen()
	if len(marks) != services {
		t.Errorf("of %d Services %d were seen to be written", services, len(marks))
	}
	for uid, all := range marks {
		if len(all) != 1 {
			t.Errorf("Service %s was written %d times: %v", uid, len(all), all)
		}
	}
	t.Logf("%d changes of Services were seen, and %d of them were patched", changes, len(marks))
	if dead := countDead(t, s); dead != 0 {
		t.Errorf("%d events are dead", dead)
	}
	for _, p := range parts {
		t.Logf("%s: started %d times", p.role, p.runs)
	}
}

func setUp(t *testing.T, url, token string) *stream.Stream {
	t.Helper()
	var s *stream.Stream
	await(t, 20*time.Second, func() (err error) {
		s, err = stream.Connect(t.Context(), stream.Config{URL: url, Token: token})
		return err
	})
	t.Cleanup(s.Close)
	var classes []string
	for _, r := range functions.All {
		classes = append(classes, r.Class)
	}
	if _, err := s.Setup(t.Context(), classes, stream.Settings{Clusters: []string{clusterID}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func await(t *testing.T, limit time.Duration, ok func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		if t.Failed() { // such as when a real controller ends
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %s: %v", limit, err)
		}
	}
}

func startController(t *testing.T, c *cluster.Cluster, cloud *sim.Cloud, key sim.Credentials) {
	t.Helper()
	stop := controller.StartPlay(t, controller.Options{
		Kube: rest.CopyConfig(c.Config), Cloud: cloud.Addr(), Credentials: key, Region: cloud.Region(), ClusterID: clusterID,
		VPC: "vpc-1", VSwitches: []string{"cn-hangzhou-h:vsw-full"},
		BackoffBase: 2 * time.Second, BackoffMax: 20 * time.Second, // so that failures repeat during the kills
	})
	t.Cleanup(stop)
}

func createNode(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-1"}}
	node, err := c.Client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := c.Client().CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createServices(t *testing.T, c *cluster.Cluster, namespace string, n int) *sync.WaitGroup {
	t.Helper()
	client := c.Client().CoreV1()
	if _, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Logf("namespace %s: %v", namespace, err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := range n {
			svc := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%03d", i), Annotations: map[string]string{
					ccm.Prefix + "address-type": "intranet", ccm.Prefix + "vswitch-id": "vsw-full",
				}},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
			}
			if _, err := client.Services(namespace).Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
				t.Errorf("create Service %d: %v", i, err)
				return
			}
		}
	})
	return &wait
}

// watchWrites records and counts each change of our annotation, including reverts. An interrupted watch misses changes and fails the test.
func watchWrites(t *testing.T, c *cluster.Cluster) func() (marks map[string][]string, changes int) {
	t.Helper()
	watch, err := c.Client().CoreV1().Services("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var (
		stopping atomic.Bool
		ended    = make(chan struct{})
		changes  int
		last     = map[string]string{}
		marks    = map[string][]string{}
	)
	go func() {
		defer close(ended)
		for change := range watch.ResultChan() {
			svc, ok := change.Object.(*corev1.Service)
			if !ok && stopping.Load() {
				return // client-go reports the end of the test as a closed body
			}
			if !ok {
				t.Errorf("the watch of Services ended early: %s %v", change.Type, change.Object)
				return
			}
			changes++
			uid, mark := string(svc.UID), svc.Annotations[ccm.Resync]
			if mark != last[uid] {
				last[uid] = mark
				marks[uid] = append(marks[uid], mark)
			}
		}
		if !stopping.Load() {
			t.Error("the watch of Services ended early")
		}
	}()
	end := sync.OnceFunc(func() {
		stopping.Store(true)
		watch.Stop()
		<-ended
	})
	t.Cleanup(end)
	return func() (map[string][]string, int) {
		end()
		return marks, changes
	}
}

func allFixed(t *testing.T, s *stream.Stream, c *cluster.Cluster, namespace string, n int) error {
	t.Helper()
	list, err := c.Client().CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != n {
		return fmt.Errorf("%d of %d Services exist", len(list.Items), n)
	}
	open := map[string]int{}
	for _, svc := range list.Items {
		if !ccm.Synced(&svc) {
			open["not synced"]++
			continue
		}
		msg, err := s.Last(t.Context(), stream.Cases, event.CaseSubject(clusterID, string(svc.UID), "vswitch-ip-exhausted"))
		if errors.Is(err, stream.ErrNotFound) {
			open["no record"]++
			continue
		}
		if err != nil {
			return err
		}
		rec, err := event.DecodeRecord(msg.Subject, msg.Header, msg.Data)
		if err != nil {
			return err
		}
		if rec.Result != event.Fixed {
			open[fmt.Sprintf("%s %s", rec.Phase, rec.Result)]++
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("of %d Services: %v", n, open)
	}
	return nil
}

func countDead(t *testing.T, s *stream.Stream) int {
	t.Helper()
	n := 0
	if err := s.Each(t.Context(), stream.Dead, "lbremedy.dead.>", time.Time{}, func(stream.Message) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
