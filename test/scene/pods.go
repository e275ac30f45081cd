package scene

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

// podBlock is where the addresses of Terway's Pods are from. Those of Flannel
// are outside of any VPC.
const podBlock = "10.64.0.0/16"

// A crew is the Pods that stand behind a Service. The zero value is none.
type crew struct {
	n      int
	on     kind // of node; empty: the workers in turn
	real   bool // there are Pods in the cluster; else only endpoints speak of them, as nobody looks further
	idle   bool // they are not ready
	astray bool // with Terway: they have no network interface
}

// A member is a Pod of a crew.
type member struct {
	name, ip, node string
	idle           bool
}

// staff puts Pods behind a Service, besides those that are there.
func (s *Stage) staff(ctx context.Context, service string, c crew) error {
	var more []member
	s.mu.Lock()
	first := len(s.crews[service])
	for i := range c.n {
		s.addresses++
		block := "172.20"
		if s.opts.Terway {
			block = "10.64"
		}
		more = append(more, member{
			name: fmt.Sprintf("%s-%d", service, first+i), ip: fmt.Sprintf("%s.%d.%d", block, s.addresses/250, s.addresses%250+2),
			node: s.workerNode((first + i) % nodes), idle: c.idle,
		})
	}
	s.mu.Unlock()
	if c.on != "" {
		node, err := s.node(ctx, c.on)
		if err != nil {
			return err
		}
		for i := range more {
			more[i].node = node
		}
	}
	if s.opts.Terway && !c.astray {
		s.Cloud.Edit(func(st *sim.State) {
			for _, m := range more {
				id := "eni-" + m.name
				st.ENIs[id] = &sim.ENI{ID: id, IPs: []string{m.ip}, VPC: vpc, VSwitch: podsVSW, Instance: workerInstance(0), Status: "InUse", Type: "Secondary"}
			}
		})
	}
	if c.real {
		if err := s.replicaSet(ctx, service, first+c.n); err != nil {
			return err
		}
		for _, m := range more {
			if err := s.start(ctx, service, m); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	s.crews[service] = append(s.crews[service], more...)
	s.mu.Unlock()
	return s.endpoints(ctx, service)
}

// starts is done once Pods more stand behind the Service.
func starts(c crew) deed {
	return func(ctx context.Context, s *Stage, service string) error { return s.staff(ctx, service, c) }
}

// turnsReady makes all Pods of the Service ready.
func turnsReady(ctx context.Context, s *Stage, service string) error {
	s.mu.Lock()
	for i := range s.crews[service] {
		s.crews[service][i].idle = false
	}
	all := slices.Clone(s.crews[service])
	s.mu.Unlock()
	for _, m := range all {
		if err := s.runs(ctx, m); err != nil {
			return err
		}
	}
	return s.endpoints(ctx, service)
}

// given is done once the Pods of the Service have network interfaces.
func given(_ context.Context, s *Stage, service string) error {
	s.mu.Lock()
	all := slices.Clone(s.crews[service])
	s.mu.Unlock()
	s.Cloud.Edit(func(st *sim.State) {
		for _, m := range all {
			id := "eni-" + m.name
			st.ENIs[id] = &sim.ENI{ID: id, IPs: []string{m.ip}, VPC: vpc, VSwitch: podsVSW, Instance: workerInstance(0), Status: "InUse", Type: "Secondary"}
		}
	})
	return nil
}

// endpoints says in the cluster which Pods stand behind a Service.
func (s *Stage) endpoints(ctx context.Context, service string) error {
	s.mu.Lock()
	slice := s.slice(service, s.crews[service])
	s.mu.Unlock()
	data, err := encode(slice)
	if err != nil {
		return err
	}
	opts := metav1.PatchOptions{FieldManager: "stage", Force: new(true)}
	if _, err := s.kube.DiscoveryV1().EndpointSlices(s.Namespace).Patch(ctx, service, types.ApplyPatchType, data, opts); err != nil {
		return fmt.Errorf("write the endpoints: %w", err)
	}
	return nil
}

func (s *Stage) slice(service string, crew []member) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(8080)), Protocol: new(tcp)}},
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, m := range crew {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{m.ip},
			Conditions: discoveryv1.EndpointConditions{Ready: new(!m.idle), Serving: new(!m.idle), Terminating: new(false)},
			NodeName:   new(m.node),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: m.name},
		})
	}
	return slice
}

// replicaSet makes what the Pods of a Service belong to.
func (s *Stage) replicaSet(ctx context.Context, service string, n int) error {
	app := map[string]string{"app": service}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: s.podSpec("")},
		},
	}
	_, err := s.kube.AppsV1().ReplicaSets(s.Namespace).Create(ctx, set, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the Pods' ReplicaSet: %w", err)
	}
	return nil
}

func (s *Stage) podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{
			Name: "app", Image: "registry.example/shop/app:1", Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: 8080}},
		}},
	}
}

// start makes a Pod that runs. A member who is idle runs and is not ready.
func (s *Stage) start(ctx context.Context, service string, m member) error {
	set, err := s.kube.AppsV1().ReplicaSets(s.Namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("make Pod %s: %w", m.name, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.name, Labels: map[string]string{"app": service},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: s.podSpec(m.node),
	}
	if _, err := s.kube.CoreV1().Pods(s.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make Pod %s: %w", m.name, err)
	}
	return s.runs(ctx, m)
}

// runs writes a Pod's status, as a kubelet does.
func (s *Stage) runs(ctx context.Context, m member) error {
	ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	if m.idle {
		ready = corev1.ConditionFalse
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=app"}}
	}
	data, err := encode(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: m.ip, PodIPs: []corev1.PodIP{{IP: m.ip}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.ContainersReady, Status: ready}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: !m.idle, State: state}},
	}})
	if err != nil {
		return err
	}
	if _, err := s.kube.CoreV1().Pods(s.Namespace).Patch(ctx, m.name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("let Pod %s run: %w", m.name, err)
	}
	return nil
}

// replace plays ReplicaSet, scheduler and kubelet for a Pod that is gone: one
// like it runs on a worker.
func (s *Stage) replace(ctx context.Context, pod *corev1.Pod) error {
	service := pod.Labels["app"]
	s.mu.Lock()
	i := slices.IndexFunc(s.crews[service], func(m member) bool { return m.name == pod.Name })
	if i < 0 {
		s.mu.Unlock()
		return nil
	}
	m := &s.crews[service][i]
	m.name, m.node = m.name+"-again", s.workerNode(0)
	now := *m
	s.mu.Unlock()
	if err := s.start(ctx, service, now); err != nil {
		return err
	}
	return s.endpoints(ctx, service)
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write it as JSON: %w", err)
	}
	return data, nil
}
