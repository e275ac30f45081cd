package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readinessPrefix precedes a Service's name in a readiness gate (since v2.10.0), whose condition the controller sets for a backend.
const readinessPrefix = "service.readiness.alibabacloud.com/"

const requeueDelay = 10 * time.Second

// errPotential queues a synced Service again after requeueDelay: a Pod may soon lack only its readiness gate.
var errPotential = errors.New("has potential ready backends")

func (p *pass) gate() corev1.PodConditionType {
	return corev1.PodConditionType(readinessPrefix + p.svc.Name)
}

// waitsForUs reports whether a Pod lacks only this Service's readiness gate. A gated Pod whose containers are not ready, or an
// unknown Pod, queues the Service again.
func (p *pass) waitsForUs(ref *corev1.ObjectReference) bool {
	if ref == nil || ref.Kind != "Pod" || !p.version.since("v2.10.0") {
		return false
	}
	pod, err := p.controller.pods.Pods(ref.Namespace).Get(ref.Name)
	switch {
	case err != nil:
		p.potential = true
		return false
	case !gated(pod, p.gate()):
		return false
	case condition(pod, corev1.ContainersReady) != corev1.ConditionTrue:
		p.potential = true
		return false
	}
	return true
}

func gated(pod *corev1.Pod, gate corev1.PodConditionType) bool {
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == gate {
			return true
		}
	}
	return false
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func (p *pass) open(ctx context.Context, all groups) error {
	if !p.version.since("v2.10.0") {
		return nil
	}
	var errs []error
	seen := map[string]bool{}
	for _, g := range all {
		pods := g.pods
		if p.usesENI(p.svc) {
			pods = g.backends // without Pods whose interface is unknown
		}
		for _, b := range pods {
			if b.target == nil || seen[b.pod()] {
				continue
			}
			seen[b.pod()] = true
			errs = append(errs, p.openPod(ctx, b.target))
		}
	}
	return aggregate(errs)
}

func (p *pass) openPod(ctx context.Context, ref *corev1.ObjectReference) error {
	pod, err := p.controller.pods.Pods(ref.Namespace).Get(ref.Name)
	if err != nil || !gated(pod, p.gate()) || condition(pod, p.gate()) == corev1.ConditionTrue {
		return nil // the Pod is deleted
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{{
		Type: p.gate(), Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "ServerRegistered", Message: "The backend has been added to the server group",
	}}}})
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	_, err = p.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
