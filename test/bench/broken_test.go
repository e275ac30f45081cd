package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/sim"
)

// standing are lasting failures: the controller's message, and the class that asks, or would write but may not.
var standing = []struct{ class, message string }{
	{"unclassified", "Error syncing load balancer []: Message: Something that nobody has seen before."},
	{"credentials", "Error syncing load balancer []: Message: Specified access key is not found."},
	{"vswitch-ip-exhausted", saysFull},
}

// broken measures what 1,000 Services that stay broken in three ways leave in the streams after 30 days of a fast clock, at one
// failure a day. One failure in five minutes leaves the same: TestStaysBroken of shared/engine has 8,640 of them.
func (r *rig) broken(b *testing.B) {
	const services, days, goal = 1000, 30, 200
	st := r.startNATS(b).connect(b)
	reader, err := kube.New(r.cluster(b).Config)
	if err != nil {
		b.Fatal(err)
	}
	account := sim.New(b, &sim.World{
		Cluster:   sim.Cluster{ID: clusterID, VPC: "vpc-1", VSwitches: []string{"vsw-full", "vsw-room"}},
		VPCs:      []sim.VPC{{ID: "vpc-1"}},
		VSwitches: []sim.VSwitch{{ID: "vsw-full", VPC: "vpc-1", Free: new(0)}, {ID: "vsw-room", VPC: "vpc-1", Free: new(4000)}},
	})
	admin := account.Admin()
	looks, writes, err := cloud.New(cloud.Config{
		Region: account.Region(), ClusterID: clusterID, Endpoint: account.Addr(), Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: admin.AccessKeyID, Secret: admin.Secret}),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(looks.Close)
	var ahead atomic.Int64
	clients := &hand.Clients{Kube: reader, KubeWriter: kube.NewWriter(reader), Cloud: looks, CloudWriter: writes, Decode: step.Decode}
	env := &engine.Env{
		Cluster: clusterID, Stream: st, Kube: reader, Hand: clients.Hand,
		Policy: observing(b),
		Decode: step.Decode, Who: "worker", Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	}
	made := make([]*corev1.Service, services)
	client := r.client(b).CoreV1().Services(r.namespace(b, "broken"))
	err = alike(16, services, func(i int) error {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%04d", i), Annotations: map[string]string{ccm.Prefix + "address-type": "intranet",
				ccm.Prefix + "vswitch-id": "vsw-full"}},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{Port: 80}}},
		}
		var err error
		made[i], err = client.Create(b.Context(), svc, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}

	var mu sync.Mutex
	answered := map[string]string{} // by UID: the event
	others := map[string]int{}      // other results of runs
	h := &host.Host{Env: env, Remedies: functions.All, OnRun: func(rec event.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && rec.Result.Settled() {
			answered[rec.Service.UID] = rec.Event
			return
		}
		others[fmt.Sprintf("%s %s %s %v", rec.Class, rec.Result, rec.Finding, err)]++
	}}
	working, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Work(working, 64) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()

	taken := func() (bytes uint64) {
		fills, err := st.Fills(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range fills {
			b.Logf("%s holds %d messages of %d bytes", f.Stream, f.Messages, f.Bytes)
			bytes += f.Bytes
		}
		return bytes
	}
	var first, last uint64
	for day := range days {
		if day > 0 {
			ahead.Add(int64(24 * time.Hour))
		}
		ids := make([]string, services)
		err := alike(16, services, func(i int) error {
			var err error
			ids[i], err = fail(b.Context(), st, made[i], standing[i%len(standing)].class, standing[i%len(standing)].message, day, env.Now())
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		await(b, 5*time.Minute, func() error {
			mu.Lock()
			defer mu.Unlock()
			for i, svc := range made {
				if answered[string(svc.UID)] != ids[i] {
					return fmt.Errorf("day %d: %s is not answered; other runs ended as %v", day, svc.Name, others)
				}
			}
			return nil
		})
		if last = taken(); day == 0 {
			first = last
		}
	}
	const mb = 1 << 20
	r.note(b, "first day", "MB", float64(first)/mb)
	r.note(b, "each further failure", "bytes", float64(last-min(first, last))/(services*(days-1)))
	r.atMost(b, "after 30 days", "MB", float64(last)/mb, goal)
}

func fail(ctx context.Context, st *stream.Stream, svc *corev1.Service, class, message string, n int, at time.Time) (string, error) {
	e, err := event.NewFailed(event.Failure{
		Cluster: clusterID, Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: message,
		Service: event.Service{Namespace: svc.Namespace, Name: svc.Name, UID: string(svc.UID)},
		Event:   event.Reference{Name: svc.Name + ".1", UID: string(svc.UID), ResourceVersion: fmt.Sprint(n + 1)}, Count: n + 1, Last: at.Truncate(time.Second),
	})
	if err != nil {
		return "", err
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		return "", err
	}
	newer := func(stream.Message) bool { return true }
	_, _, err = st.PublishNewer(ctx, event.FailedSubject(clusterID, class, string(svc.UID)), event.MessageID(e), header, data, newer)
	return e.ID(), err
}
