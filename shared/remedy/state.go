package remedy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
)

// impact returns what the users of the Service notice while its syncs fail.
func impact(svc *corev1.Service) event.Impact {
	if !ccm.Synced(svc) {
		return event.NeverUp
	}
	return event.Frozen
}

// released reports whether the controller has let go of a Service that leaves: it
// has cleaned up, or there was nothing to clean up.
func released(svc *corev1.Service) bool {
	return !slices.Contains(svc.Finalizers, ccm.CLBFinalizer) && !slices.Contains(svc.Finalizers, ccm.NLBFinalizer)
}

// succeeded returns the evidence that a sync has succeeded after the failure, as
// a sentence; empty if there is none. Times on both sides have whole seconds, so
// that the same second proves nothing.
func succeeded(svc *corev1.Service, happened []corev1.Event, failure time.Time) string {
	if failure.IsZero() {
		return "" // nobody knows what came after it
	}
	if at := ccm.HashWritten(svc); at.After(failure) {
		return "The controller has synced the Service since: it wrote its hash label at " + at.UTC().Format(time.RFC3339) + "."
	}
	for _, e := range happened {
		if e.Reason != "EnsuredLoadBalancer" {
			continue
		}
		if at := lastSeen(e); at.After(failure) {
			return "The controller has synced the Service since: EnsuredLoadBalancer at " + at.UTC().Format(time.RFC3339) + "."
		}
	}
	return ""
}

func lastSeen(e corev1.Event) time.Time {
	at := e.LastTimestamp
	if e.Series != nil && e.Series.LastObservedTime.After(at.Time) {
		at = metav1.Time(e.Series.LastObservedTime)
	}
	if e.EventTime.After(at.Time) {
		at = metav1.Time(e.EventTime)
	}
	return at.Time
}

// quiet reports whether Events with this reason come with a sync that succeeds: it
// leaves backends out and says so. That the controller has synced the Service
// since then proves nothing (pkg/controller/service/clbv1/vgroups.go).
func quiet(reason string) bool {
	return slices.Contains([]string{"UnAvailableLoadBalancer", "NoBackend", "SkipSyncBackends"}, reason)
}
