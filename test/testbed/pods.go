package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/test/sim"
)

// podBlock is the address block of Terway's Pods. Flannel's addresses are outside of any VPC.
const podBlock = "10.64.0.0/16"

type pods struct {
	n      int
	on     kind // kind of node; empty: the workers in turn
	real   bool // there are Pods in the cluster, not only endpoints, which are usually enough
	idle   bool // not ready
	astray bool // with Terway: without a network interface
}

type pod struct {
	name, ip, node string
	idle           bool
}

func (tb *Testbed) addPods(ctx context.Context, service string, ps pods) error {
	var more []pod
	tb.mu.Lock()
	first := len(tb.pods[service])
	for i := range ps.n {
		tb.addresses++
		block := "172.20"
		if tb.opts.Terway {
			block = "10.64"
		}
		more = append(more, pod{
			name: fmt.Sprintf("%s-%d", service, first+i), ip: fmt.Sprintf("%s.%d.%d", block, tb.addresses/250, tb.addresses%250+2),
			node: tb.workerNode((first + i) % nodes), idle: ps.idle,
		})
	}
	tb.mu.Unlock()
	if ps.on != "" {
		node, err := tb.node(ctx, ps.on)
		if err != nil {
			return err
		}
		for i := range more {
			more[i].node = node
		}
	}
	if tb.opts.Terway && !ps.astray {
		tb.Cloud.Edit(func(st *sim.State) {
			for _, p := range more {
				id := "eni-" + p.name
				st.ENIs[id] = &sim.ENI{ID: id, IPs: []string{p.ip}, VPC: vpc, VSwitch: podsVSW, Instance: workerInstance(0), Status: "InUse", Type: "Secondary"}
			}
		})
	}
	if ps.real {
		if err := tb.replicaSet(ctx, service, first+ps.n); err != nil {
			return err
		}
		for _, p := range more {
			if err := tb.start(ctx, service, p); err != nil {
				return err
			}
		}
	}
	tb.mu.Lock()
	tb.pods[service] = append(tb.pods[service], more...)
	tb.mu.Unlock()
	return tb.endpoints(ctx, service)
}

func starts(ps pods) operation {
	return func(ctx context.Context, tb *Testbed, service string) error { return tb.addPods(ctx, service, ps) }
}

func turnsReady(ctx context.Context, tb *Testbed, service string) error {
	tb.mu.Lock()
	for i := range tb.pods[service] {
		tb.pods[service][i].idle = false
	}
	all := slices.Clone(tb.pods[service])
	tb.mu.Unlock()
	for _, p := range all {
		if err := tb.runs(ctx, p); err != nil {
			return err
		}
	}
	return tb.endpoints(ctx, service)
}

func given(_ context.Context, tb *Testbed, service string) error {
	tb.mu.Lock()
	all := slices.Clone(tb.pods[service])
	tb.mu.Unlock()
	tb.Cloud.Edit(func(st *sim.State) {
		for _, p := range all {
			id := "eni-" + p.name
			st.ENIs[id] = &sim.ENI{ID: id, IPs: []string{p.ip}, VPC: vpc, VSwitch: podsVSW, Instance: workerInstance(0), Status: "InUse", Type: "Secondary"}
		}
	})
	return nil
}

func (tb *Testbed) endpoints(ctx context.Context, service string) error {
	tb.mu.Lock()
	slice := tb.slice(service, tb.pods[service])
	tb.mu.Unlock()
	data, err := encode(slice)
	if err != nil {
		return err
	}
	opts := metav1.PatchOptions{FieldManager: "testbed", Force: new(true)}
	if _, err := tb.kube.DiscoveryV1().EndpointSlices(tb.Namespace).Patch(ctx, service, types.ApplyPatchType, data, opts); err != nil {
		return fmt.Errorf("write the endpoints: %w", err)
	}
	return nil
}

func (tb *Testbed) slice(service string, pods []pod) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(8080)), Protocol: new(tcp)}},
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, p := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{p.ip},
			Conditions: discoveryv1.EndpointConditions{Ready: new(!p.idle), Serving: new(!p.idle), Terminating: new(false)},
			NodeName:   new(p.node),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: tb.Namespace, Name: p.name},
		})
	}
	return slice
}

func (tb *Testbed) replicaSet(ctx context.Context, service string, n int) error {
	app := map[string]string{"app": service}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: tb.podSpec("")},
		},
	}
	_, err := tb.kube.AppsV1().ReplicaSets(tb.Namespace).Create(ctx, set, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the Pods' ReplicaSet: %w", err)
	}
	return nil
}

func (tb *Testbed) podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{
			Name: "app", Image: "registry.example/shop/app:1", Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: 8080}},
		}},
	}
}

func (tb *Testbed) start(ctx context.Context, service string, p pod) error {
	set, err := tb.kube.AppsV1().ReplicaSets(tb.Namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("make Pod %s: %w", p.name, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.name, Labels: map[string]string{"app": service},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: tb.podSpec(p.node),
	}
	if _, err := tb.kube.CoreV1().Pods(tb.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make Pod %s: %w", p.name, err)
	}
	return tb.runs(ctx, p)
}

func (tb *Testbed) runs(ctx context.Context, p pod) error {
	ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	if p.idle {
		ready = corev1.ConditionFalse
		state = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=app"},
		}
	}
	data, err := encode(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.ContainersReady, Status: ready}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: !p.idle, State: state}},
	}})
	if err != nil {
		return err
	}
	if _, err := tb.kube.CoreV1().Pods(tb.Namespace).Patch(ctx, p.name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("let Pod %s run: %w", p.name, err)
	}
	return nil
}

func (tb *Testbed) replace(ctx context.Context, gone *corev1.Pod) error {
	service := gone.Labels["app"]
	tb.mu.Lock()
	i := slices.IndexFunc(tb.pods[service], func(p pod) bool { return p.name == gone.Name })
	if i < 0 {
		tb.mu.Unlock()
		return nil
	}
	p := &tb.pods[service][i]
	p.name, p.node = p.name+"-again", tb.workerNode(0)
	now := *p
	tb.mu.Unlock()
	if err := tb.start(ctx, service, now); err != nil {
		return err
	}
	return tb.endpoints(ctx, service)
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write it as JSON: %w", err)
	}
	return data, nil
}
