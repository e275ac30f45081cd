package safety

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fullMessage is what the controller says of a full vSwitch.
const fullMessage = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."

// complain writes the Event by which the controller says that a sync of a Service has
// failed: for tests in which no controller runs, or in which there are too many Services
// for one.
func (r *rig) complain(service, message string) {
	r.Helper()
	r.complainAt(r.service(service), message, time.Now())
}

// complainLater is complain of a failure that comes after what the worker has just
// written, by its clock: Events know no more than seconds.
func (r *rig) complainLater(service, message string) {
	r.Helper()
	r.complainAt(r.service(service), message, r.now().Add(2*time.Second))
}

func (r *rig) complainAt(svc *corev1.Service, message string, at time.Time) {
	r.Helper()
	_, err := r.testbed.Cluster.Client().CoreV1().Events(svc.Namespace).Create(r.ctx, complaint(svc, message, at), metav1.CreateOptions{})
	r.must(err)
}

func complaint(svc *corev1.Service, message string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: svc.Namespace, Name: fmt.Sprintf("%s.%x", svc.Name, at.UnixNano())},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: svc.Namespace, Name: svc.Name, UID: types.UID(svc.UID)},
		Reason:         "SyncLoadBalancerFailed", Type: corev1.EventTypeWarning, Message: message, Count: 1,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Source: corev1.EventSource{Component: "service-controller"},
	}
}
