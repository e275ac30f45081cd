package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	prefix   = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	nameTag  = "kubernetes.do.not.delete"
	classNLB = "alibabacloud.com/nlb"
	portName = "web"

	tcp = corev1.ProtocolTCP
	udp = corev1.ProtocolUDP
)

type operation func(ctx context.Context, tb *Testbed, service string) error

func inOrder(all ...operation) operation {
	return func(ctx context.Context, tb *Testbed, service string) error {
		for _, do := range all {
			if err := do(ctx, tb, service); err != nil {
				return err
			}
		}
		return nil
	}
}

type draft struct {
	svc  *corev1.Service
	pods pods
}

type option func(*draft)

func created(options ...option) operation {
	return func(ctx context.Context, tb *Testbed, service string) error {
		d := &draft{
			svc: &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: service, Annotations: map[string]string{}},
				Spec: corev1.ServiceSpec{
					Type:     corev1.ServiceTypeLoadBalancer,
					Selector: map[string]string{"app": service},
					Ports:    []corev1.ServicePort{{Name: portName, Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: tcp}},
				},
			},
			pods: pods{n: 1},
		}
		for _, change := range options {
			change(d)
		}
		// The controller then finds them together with the Service.
		if err := tb.addPods(ctx, service, d.pods); err != nil {
			return err
		}
		if _, err := tb.kube.CoreV1().Services(tb.Namespace).Create(ctx, d.svc, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the Service: %w", err)
		}
		return nil
	}
}

func with(pairs ...string) option {
	return func(d *draft) {
		for i := 0; i < len(pairs); i += 2 {
			d.svc.Annotations[prefix+pairs[i]] = pairs[i+1]
		}
	}
}

func podBackends(d *draft) { d.svc.Annotations[backendType] = "eni" }

// network requests an NLB, in a vSwitch with room unless the Service says otherwise.
func network(d *draft) {
	d.svc.Spec.LoadBalancerClass = new(classNLB)
	if d.svc.Annotations[prefix+"zone-maps"] == "" && d.svc.Annotations[prefix+"id"] == "" {
		d.svc.Annotations[prefix+"zone-maps"] = zoneI + ":" + RoomyVSwitchI
	}
}

func borrows(d *draft) { d.svc.Annotations[prefix+"id"] = lentID(d.svc.Name, d.svc) }

func bare(d *draft) { delete(d.svc.Annotations, prefix+"zone-maps") }

func datagrams(d *draft) { d.svc.Spec.Ports[0].Protocol = udp }

func named(d *draft) { d.svc.Spec.Ports[0].TargetPort = intstr.FromString(portName) }

func local(d *draft) { d.svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }

func ports(n int) option {
	return func(d *draft) {
		first := d.svc.Spec.Ports[0]
		d.svc.Spec.Ports = nil
		for i := range n {
			p := first
			p.Name, p.Port = fmt.Sprintf("%s-%d", first.Name, i), first.Port+int32(i)
			d.svc.Spec.Ports = append(d.svc.Spec.Ports, p)
		}
	}
}

func withPods(ps pods) option { return func(d *draft) { d.pods = ps } }

// annotated changes annotations, from pairs of short names and values; an empty value removes one.
func annotated(pairs ...string) operation {
	return func(ctx context.Context, tb *Testbed, service string) error {
		change := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			change[prefix+pairs[i]] = pairs[i+1]
			if pairs[i+1] == "" {
				change[prefix+pairs[i]] = nil
			}
		}
		return tb.annotate(ctx, service, change)
	}
}

// touched changes the Service without meaning, to trigger a full sync.
func touched(ctx context.Context, tb *Testbed, service string) error {
	tb.mu.Lock()
	tb.touches++
	n := tb.touches
	tb.mu.Unlock()
	return tb.annotate(ctx, service, map[string]any{"example.com/revision": fmt.Sprint(n)})
}

// forgetful removes the address from the Service's status, which makes the controller create a load balancer again.
func forgetful(ctx context.Context, tb *Testbed, service string) error {
	data, err := encode(map[string]any{"status": map[string]any{"loadBalancer": nil}})
	if err != nil {
		return err
	}
	if _, err := tb.kube.CoreV1().Services(tb.Namespace).Patch(ctx, service, types.MergePatchType, data, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("clear the Service's status: %w", err)
	}
	return nil
}

func ownName(svc *corev1.Service) string {
	return "a" + strings.ReplaceAll(string(svc.UID), "-", "")[:31]
}

func (tb *Testbed) annotate(ctx context.Context, service string, annotations map[string]any) error {
	return tb.patch(ctx, service, map[string]any{"metadata": map[string]any{"annotations": maps.Clone(annotations)}})
}

func (tb *Testbed) patch(ctx context.Context, service string, change any) error {
	data, err := encode(change)
	if err != nil {
		return err
	}
	if _, err := tb.kube.CoreV1().Services(tb.Namespace).Patch(ctx, service, types.StrategicMergePatchType, data, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("change the Service: %w", err)
	}
	return nil
}

func retargeted(ctx context.Context, tb *Testbed, service string) error {
	return tb.patch(ctx, service, map[string]any{"spec": map[string]any{"ports": []map[string]any{{"port": 80, "targetPort": 8081}}}})
}

func numbered(ctx context.Context, tb *Testbed, service string) error {
	return tb.patch(ctx, service, map[string]any{"spec": map[string]any{"ports": []map[string]any{{"port": 80, "targetPort": 8080}}}})
}

// deleted deletes the Service, which exists until the controller removes its finalizer.
func deleted(ctx context.Context, tb *Testbed, service string) error {
	if err := tb.kube.CoreV1().Services(tb.Namespace).Delete(ctx, service, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete the Service: %w", err)
	}
	return nil
}

func account(change func(*sim.State)) operation {
	return func(_ context.Context, tb *Testbed, _ string) error {
		tb.Cloud.Edit(change)
		return nil
	}
}

// refused makes the cloud reject an action of CLB that only this Service needs; an empty text is the code's usual one.
func refused(action, code, text string) operation {
	return failing(sim.Fault{Product: "slb", Action: action, Code: code, Message: text})
}

func failing(fault sim.Fault) operation {
	return func(_ context.Context, tb *Testbed, service string) error {
		lift := tb.Cloud.Fault(fault)
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.faults[service] = lift
		return nil
	}
}

func accepted(_ context.Context, tb *Testbed, service string) error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.faults[service]()
	return nil
}

func balancer(change func(*sim.LoadBalancer)) operation {
	return func(_ context.Context, tb *Testbed, service string) error {
		id, err := tb.balancer(service)
		if err != nil {
			return err
		}
		found := false
		tb.Cloud.Edit(func(st *sim.State) {
			if lb := st.LoadBalancers[id]; lb != nil {
				change(lb)
				found = true
			}
		})
		if !found {
			return fmt.Errorf("the load balancer %s of %s is not there", id, service)
		}
		return nil
	}
}

func networkBalancer(change func(*sim.State, *sim.NLB)) operation {
	return func(_ context.Context, tb *Testbed, service string) error {
		id, err := tb.balancer(service)
		if err != nil {
			return err
		}
		found := false
		tb.Cloud.Edit(func(st *sim.State) {
			if n := st.NLBs[id]; n != nil {
				change(st, n)
				found = true
			}
		})
		if !found {
			return fmt.Errorf("the NLB %s of %s is not there", id, service)
		}
		return nil
	}
}

// balancer returns the ID of a synced Service's load balancer, or of the one that it borrows.
func (tb *Testbed) balancer(service string) (string, error) {
	svc := tb.watch.service(service)
	if svc == nil {
		return "", errors.New("the Service is not there yet")
	}
	if id := svc.Labels[balancerLabel]; id != "" {
		return id, nil
	}
	if id := svc.Annotations[prefix+"id"]; id != "" {
		return id, nil
	}
	id := ""
	tb.Cloud.View(func(st *sim.State) {
		if lb, _ := balancersOf(st, svc); lb != nil {
			id = lb.ID
		}
	})
	if id == "" {
		return "", errors.New("the Service has no load balancer yet")
	}
	return id, nil
}

func lentID(service string, svc *corev1.Service) string {
	if svc.Spec.LoadBalancerClass != nil {
		return "nlb-of-" + service
	}
	return "lb-of-" + service
}

func lent(change ...func(*sim.LoadBalancer)) operation { return lentAs("", change...) }

func lentAs(suffix string, change ...func(*sim.LoadBalancer)) operation {
	return func(_ context.Context, tb *Testbed, service string) error {
		lb := &sim.LoadBalancer{Name: service + " by hand" + suffix, Spec: "slb.s1.small", ChargeType: "PayBySpec"}
		for _, c := range change {
			c(lb)
		}
		tb.Cloud.Edit(func(st *sim.State) { st.LoadBalancers["lb-of-"+service+suffix] = lb })
		return nil
	}
}

func lentNetwork(change ...func(*sim.NLB)) operation { return lentNetworkAs("", change...) }

func lentNetworkAs(suffix string, change ...func(*sim.NLB)) operation {
	return func(_ context.Context, tb *Testbed, service string) error {
		n := &sim.NLB{Name: service + " by hand" + suffix, Zones: []sim.NLBZone{{VSwitch: RoomyVSwitchI}}}
		for _, c := range change {
			c(n)
		}
		tb.Cloud.Edit(func(st *sim.State) { st.NLBs["nlb-of-"+service+suffix] = n })
		return nil
	}
}

func rebound(kind, suffix string) operation {
	return func(ctx context.Context, tb *Testbed, service string) error {
		return tb.annotate(ctx, service, map[string]any{prefix + "id": kind + "-of-" + service + suffix})
	}
}

func companion(do operation) operation {
	return func(ctx context.Context, tb *Testbed, service string) error {
		name := companionOf(service)
		if err := do(ctx, tb, name); err != nil {
			return err
		}
		_, err := tb.watch.synced(ctx, name)
		return err
	}
}

func companionOf(service string) string { return service + "-elsewhere" }

const backendType = "service.beta.kubernetes.io/backend-type"

func nodeBackends(d *draft) { d.svc.Annotations[backendType] = "ecs" }

func byPods(ctx context.Context, tb *Testbed, service string) error {
	return tb.annotate(ctx, service, map[string]any{backendType: "eni"})
}

func byNodes(ctx context.Context, tb *Testbed, service string) error {
	return tb.annotate(ctx, service, map[string]any{backendType: nil})
}
