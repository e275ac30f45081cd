package controller

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events that the controller writes on Services, as of v2.14.0.
// What older releases wrote instead is in the words below.
const (
	reasonSyncFailed         = "SyncLoadBalancerFailed"
	reasonEnsured            = "EnsuredLoadBalancer"
	reasonCleanFailed        = "CleanLoadBalancerFailed"
	reasonCleaned            = "CleanLoadBalancer"
	reasonUnavailable        = "UnAvailableLoadBalancer"
	reasonSkipBackends       = "SkipSyncBackends"
	reasonPreserved          = "PreservedOnDelete"
	reasonFailedEIP          = "FailedSetEIPAddress"
	reasonFailedFinalizer    = "FailedAddFinalizer"
	reasonFailedUnfinalize   = "FailedRemoveFinalizer"
	reasonFailedHash         = "FailedAddHash"
	reasonFailedUnhash       = "FailedRemoveHash"
	reasonFailedStatus       = "FailedUpdateStatus"
	reasonFailedReadiness    = "FailedUpdateReadinessGate"
	reasonAnnotationChanged  = "AnnotationChanged"
	reasonSpecChanged        = "ServiceSpecChanged"
	reasonTypeChanged        = "TypeChanged"
	reasonDeletionTimeChange = "DeleteTimestampChanged"
)

// A note is what an event says: everything but the object that it is about.
type note struct {
	kind, reason, message string
}

// syncFailed returns the event of a failed sync. lb is the ID of the load
// balancer, empty if none exists.
//
// Releases between v1.9.3.101 and v1.9.3.276 wrote none.
func (v version) syncFailed(lb string, err error) note {
	text := v.reduce(err)
	switch {
	case !v.since("v1.9.3.239"):
		return note{corev1.EventTypeWarning, "CreatingLoadBalancerFailed", "Error creating load balancer (will retry): " + text}
	case !v.since("v1.9.3.276"):
		return note{}
	case v.since("v2.3.0"):
		return note{corev1.EventTypeWarning, reasonSyncFailed, fmt.Sprintf("Error syncing load balancer [%s]: %s", lb, text)}
	case v.since("v1.9.3.372"):
		return note{corev1.EventTypeWarning, reasonSyncFailed, "Error syncing load balancer: " + text}
	}
	// The kubelet uses this reason too.
	return note{corev1.EventTypeWarning, "Failed", "Fail to ensure loadbalancer, error " + text}
}

// cleanFailed returns the event of a load balancer that could not be cleaned up.
func (v version) cleanFailed(lb string, err error) note {
	text := v.reduce(err)
	switch {
	case !v.since("v1.9.3.239"):
		return note{corev1.EventTypeWarning, "DeletingLoadBalancerFailed", "Error deleting load balancer (will retry): " + text}
	case !v.since("v1.9.3.276"):
		return note{corev1.EventTypeWarning, "DeletingLoadBalancerFailed", "Error deleting: " + text}
	case v.since("v2.3.0"):
		return note{corev1.EventTypeWarning, reasonCleanFailed, fmt.Sprintf("Error deleting load balancer [%s]: %s", lb, text)}
	case v.since("v2.1.0"):
		return note{corev1.EventTypeWarning, reasonCleanFailed, "Error deleting load balancer: " + text}
	case v.since("v1.9.3.372"):
		return note{corev1.EventTypeWarning, "DeleteLoadBalancerFailed", "Error deleting load balancer: " + text}
	}
	return note{corev1.EventTypeWarning, "Failed", "Fail to delete loadbalancer, error " + text}
}

// ensured returns the event of a successful sync of a Service.
func (v version) ensured(lb, service string) note {
	switch {
	case v.since("v1.9.3.239") && !v.since("v1.9.3.276"):
		return note{corev1.EventTypeNormal, reasonEnsured, "Finished ensured loadbalancer, " + service}
	case !v.since("v2.3.0"):
		return note{corev1.EventTypeNormal, reasonEnsured, "Ensured load balancer"}
	}
	return note{corev1.EventTypeNormal, reasonEnsured, fmt.Sprintf("Ensured load balancer [%s]", lb)}
}

// noBackends returns the event of a port of a Service that nothing can serve.
// The sync goes on and succeeds.
func (v version) noBackends(service string) note {
	switch {
	case !v.since("v1.9.3.239"):
		return note{corev1.EventTypeWarning, reasonUnavailable, "There are no available nodes for LoadBalancer service " + service}
	case !v.since("v1.9.3.276"):
		return note{corev1.EventTypeWarning, reasonUnavailable, "There are no available backend loadbalancer nodes for service " + service}
	case v.since("v2.1.0"):
		return note{corev1.EventTypeNormal, reasonUnavailable, "There are no available nodes for LoadBalancer"}
	case v.since("v1.9.3.372"):
		return note{corev1.EventTypeWarning, reasonUnavailable, "There are no available nodes for LoadBalancer"}
	}
	return note{corev1.EventTypeWarning, "NoBackend", "There are no available nodes for loadbalancer"}
}

const sdkErrorMark = "[SDKError]"

// reduce returns what an event shows of an error: all of it before v1.9.3.276.
//
// Of errors of the OpenAPI only the message is left, without the code, the
// action and the request ID. Up to v2.6 it is the text from the last "Message:"
// of the first line that has one; later, only the first OpenAPI error counts,
// and what stands before the next one stays as a rest of the wrapping. An error
// without an OpenAPI error in it is shown whole, with its line breaks.
func (v version) reduce(err error) string {
	text := err.Error()
	part := text
	if !v.since("v1.9.3.276") {
		return text
	}
	if v.since("v2.7.0") {
		parts := strings.SplitN(text, sdkErrorMark, 3)
		if len(parts) < 2 {
			return text
		}
		part = parts[1]
	}
	if m := fromMessage.FindStringSubmatch(part); m != nil {
		return m[1]
	}
	return text
}

// fromMessage finds the last "Message:" of a line; a dot matches no line break.
var fromMessage = regexp.MustCompile(`.*(Message:.*)`)
