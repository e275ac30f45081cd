package rig

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FullMessage is the controller's message about a full vSwitch.
const FullMessage = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."

// Complain writes the controller's Event about a failed sync, for tests without a controller or with too many Services for one.
func (r *Rig) Complain(service, message string) {
	r.Helper()
	r.ComplainAt(r.Service(service), message, time.Now())
}

// ComplainLater is Complain for a failure after the worker's last write. Events have a resolution of seconds.
func (r *Rig) ComplainLater(service, message string) {
	r.Helper()
	r.ComplainAt(r.Service(service), message, r.Now().Add(2*time.Second))
}

// ComplainAt is Complain for a failure at a given time.
func (r *Rig) ComplainAt(svc *corev1.Service, message string, at time.Time) {
	r.Helper()
	_, err := r.Testbed.Cluster.Client().CoreV1().Events(svc.Namespace).Create(r.Ctx, Complaint(svc, message, at), metav1.CreateOptions{})
	r.Must(err)
}

// Complaint returns such an Event.
func Complaint(svc *corev1.Service, message string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: svc.Namespace, Name: fmt.Sprintf("%s.%x", svc.Name, at.UnixNano())},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: svc.Namespace, Name: svc.Name, UID: types.UID(svc.UID)},
		Reason:         "SyncLoadBalancerFailed", Type: corev1.EventTypeWarning, Message: message, Count: 1,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Source: corev1.EventSource{Component: "service-controller"},
	}
}
