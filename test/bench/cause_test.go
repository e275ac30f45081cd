package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// cause measures the time until each of 1,000 Services (or LBREMEDY_BENCH_SCALE, as in "make bench SCALE=10000") has its outcome
// when one cause of the account hits all of them, and compares it with 100.
func (r *rig) cause(b *testing.B) {
	services := scaled(b, 1000)
	few := r.hit(b, services/10)
	many := r.hit(b, services)
	r.note(b, "Services", "", float64(services))
	r.atMost(b, "all have an outcome", "s", many.Seconds(), 300)
	r.atMost(b, "one of all, relative to one of a tenth", "", many.Seconds()/float64(services)/(few.Seconds()/float64(services/10)), 1.25)
}

func (r *rig) hit(b *testing.B, n int) time.Duration {
	const class, message = "credentials", "Error syncing load balancer []: Message: Specified access key is not found."
	st := r.startNATS(b).connect(b)
	reader, err := kube.New(r.cluster(b).Config)
	if err != nil {
		b.Fatal(err)
	}
	account, writer, err := cloud.New(cloud.Config{ // the class does not call the cloud
		Region: "cn-hangzhou", ClusterID: clusterID, Endpoint: "127.0.0.1:1", Scheme: "HTTP", Credentials: cloud.Static(cloud.Key{ID: "id", Secret: "secret"}),
	})
	if err != nil {
		b.Fatal(err)
	}
	clients := &hand.Clients{
		Kube: reader, KubeWriter: kube.NewWriter(reader), Cloud: account, CloudWriter: writer, Decode: step.Decode, Peers: remedy.NewPeerCache(time.Second),
	}
	env := &engine.Env{
		Cluster: clusterID, Stream: st, Kube: reader, Hand: clients.Hand,
		Policy: observing(b),
		Decode: step.Decode, Who: "worker",
	}
	made := make([]*corev1.Service, n)
	namespace := r.namespace(b, "cause")
	client := r.client(b).CoreV1()
	err = alike(16, n, func(i int) error {
		var err error
		made[i], err = client.Services(namespace).Create(b.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%05d", i)},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{Port: 80}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		e := failure(namespace, made[i].Name, string(made[i].UID))
		e.Message = message
		if _, err = client.Events(namespace).Create(b.Context(), e, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err = fail(b.Context(), st, made[i], class, message, 0, time.Now())
		return err
	})
	if err != nil {
		b.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	var mu sync.Mutex
	answered := map[string]bool{}
	h := &host.Host{Env: env, Remedies: functions.All, OnRun: func(rec event.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil || !rec.Result.Settled() {
			return // it is redelivered
		}
		if answered[rec.Service.UID] = true; rec.Result != event.Asked {
			b.Errorf("%s ended as %s", rec.Service, rec.Result)
		}
		if len(answered) == n {
			cancel()
		}
	}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	if err := h.Work(ctx, 128); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	b.Logf("%d Services: %s, %d kB allocated for each", n, took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)/uint64(n)/1024)
	if len(answered) != n {
		b.Errorf("%d of %d have an outcome", len(answered), n)
	}
	return took
}
