package testbed

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// A Size is the number of objects in a world besides the fixtures' own: synced Services, which share load balancers of their owners, and
// vSwitches outside the cluster. The controller could have left them, so a starting one has nothing to do. The Services are deleted with
// the testbed. Their backends are Pods, because a cluster has fewer node ports than a big one has Services.
type Size struct {
	Services, LoadBalancers, VSwitches int
}

// Big is a world of the maximum supported size.
func Big() Size { return Size{Services: 5000, LoadBalancers: 500, VSwitches: 200} }

const (
	ballastENIs  = 20   // Pods per network interface
	ballastPort  = 8000 // port of a load balancer's first Service
	finalizerCLB = "service.k8s.alibaba/resources"
)

func ballast(i int) string         { return fmt.Sprintf("ballast-%04d", i) }
func ballastBalancer(i int) string { return fmt.Sprintf("lb-ballast-%03d", i) }
func ballastPod(i int) string      { return fmt.Sprintf("10.64.%d.%d", 128+i/250, i%250+2) }
func ballastENI(i int) string      { return fmt.Sprintf("eni-ballast-%03d", i/ballastENIs) }

func (z Size) port(i int) int { return ballastPort + i/z.LoadBalancers }

func (z Size) check(o Options) error {
	switch {
	case z == Size{}:
		return nil
	case !o.Terway:
		return fmt.Errorf("a world of %d Services needs Terway", z.Services)
	case z.Services > 0 && z.LoadBalancers == 0, z.Services > z.LoadBalancers*50:
		return fmt.Errorf("%d load balancers are too few for %d Services: each has room for 50 listeners", z.LoadBalancers, z.Services)
	case z.Services > 30_000:
		return fmt.Errorf("there are no addresses for %d Services", z.Services)
	}
	return nil
}

func (z Size) fill(w *sim.World, namespace, cluster string) {
	for i := range z.VSwitches {
		w.VSwitches = append(w.VSwitches, sim.VSwitch{ID: fmt.Sprintf("vsw-ballast-%03d", i), Zone: []string{zoneH, zoneI}[i%2], Free: new(100 + i)})
	}
	first := len(w.LoadBalancers)
	for i := range z.LoadBalancers {
		w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{
			ID: ballastBalancer(
				i,
			), Name: fmt.Sprintf("shop %d by hand", i), ChargeType: "PayByCLCU", Tags: map[string]string{"kubernetes.reused.by.user": "true"},
		})
	}
	for i := range z.Services {
		if i%ballastENIs == 0 {
			w.ENIs = append(w.ENIs, sim.ENI{ID: ballastENI(i), VPC: vpc, VSwitch: podsVSW, Instance: workerInstance(0)})
		}
		eni := &w.ENIs[len(w.ENIs)-1]
		eni.IPs = append(eni.IPs, ballastPod(i))
		lb := &w.LoadBalancers[first+i%z.LoadBalancers]
		name := fmt.Sprintf("k8s/8080/%s/%s/%s", ballast(i), namespace, cluster)
		group := fmt.Sprintf("rsp-ballast-%04d", i)
		lb.VGroups = append(lb.VGroups, sim.VGroup{ID: group, Name: name, Backends: []sim.Backend{
			{Server: eni.ID, IP: ballastPod(i), Type: "eni", Port: 8080, Description: name},
		}})
		lb.Listeners = append(lb.Listeners, sim.Listener{Port: z.port(i), VGroup: group, Status: "running"})
	}
}

const atOnce = 16

func (tb *Testbed) settle(ctx context.Context, z Size) error {
	if z.Services == 0 {
		return nil
	}
	addresses := map[string]string{}
	tb.Cloud.View(func(st *sim.State) {
		for id, lb := range st.LoadBalancers {
			addresses[id] = lb.Address
		}
	})
	for i := range z.Services {
		tb.pods[ballast(i)] = []pod{{name: ballast(i) + "-0", ip: ballastPod(i), node: tb.workerNode(i % nodes)}}
	}
	tb.close = append(tb.close, func() { tb.unsettle(context.WithoutCancel(ctx), z) })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range z.Services {
		group.Go(func() error {
			if err := tb.ballast(ctx, z, i, addresses[ballastBalancer(i%z.LoadBalancers)]); err != nil {
				return fmt.Errorf("make Service %s/%s: %w", tb.Namespace, ballast(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// unsettle deletes the Services and their endpoints. It ignores failures: the cluster is a sandbox.
func (tb *Testbed) unsettle(ctx context.Context, z Size) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range z.Services {
		group.Go(func() error {
			services := tb.kube.CoreV1().Services(tb.Namespace)
			_, _ = services.Patch(ctx, ballast(i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			_ = services.Delete(ctx, ballast(i), metav1.DeleteOptions{})
			_ = tb.kube.DiscoveryV1().EndpointSlices(tb.Namespace).Delete(ctx, ballast(i), metav1.DeleteOptions{})
			return nil
		})
	}
	_ = group.Wait()
}

func (tb *Testbed) ballast(ctx context.Context, z Size, i int, address string) error {
	name, id := ballast(i), ballastBalancer(i%z.LoadBalancers)
	if _, err := tb.kube.DiscoveryV1().EndpointSlices(tb.Namespace).Create(ctx, tb.slice(name, tb.pods[name]), metav1.CreateOptions{}); err != nil {
		return err
	}
	services := tb.kube.CoreV1().Services(tb.Namespace)
	svc, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{prefix + "id": id}, Finalizers: []string{finalizerCLB}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name}, AllocateLoadBalancerNodePorts: new(false),
			Ports: []corev1.ServicePort{{Name: portName, Port: int32(z.port(i)), TargetPort: intstr.FromInt32(8080), Protocol: tcp}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	hash, err := controller.Hash(svc, tb.version)
	if err != nil {
		return err
	}
	svc.Labels = map[string]string{hashLabel: hash, balancerLabel: id}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address, IPMode: new(corev1.LoadBalancerIPModeVIP)}}
	_, err = services.UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	return err
}

// Synced waits until n syncs of the simulated controller have succeeded since the testbed started. A real controller does not report that.
func (tb *Testbed) Synced(ctx context.Context, n int) error {
	return tb.watch.until(ctx, func() bool {
		tb.watch.mu.Lock()
		defer tb.watch.mu.Unlock()
		return tb.watch.tally >= n
	})
}

type tally struct{ w *watch }

func (tally) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelDebug }

func (t tally) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "reconciled loadbalancer" {
		t.w.mu.Lock()
		defer t.w.mu.Unlock()
		t.w.tally++
		t.w.changed()
	}
	return nil
}

func (t tally) WithAttrs([]slog.Attr) slog.Handler { return t }

func (t tally) WithGroup(string) slog.Handler { return t }
