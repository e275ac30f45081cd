package controller

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of Events on Services, as of v2.14.0. The functions below have those of older releases.
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

type note struct {
	kind, reason, message string
}

// syncFailed returns the Event of a failed sync; lb may be empty. Releases between v1.9.3.101 and v1.9.3.276 wrote none.
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
	// The kubelet uses this reason, too.
	return note{corev1.EventTypeWarning, "Failed", "Fail to ensure loadbalancer, error " + text}
}

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

func (v version) ensured(lb, service string) note {
	switch {
	case v.since("v1.9.3.239") && !v.since("v1.9.3.276"):
		return note{corev1.EventTypeNormal, reasonEnsured, "Finished ensured loadbalancer, " + service}
	case !v.since("v2.3.0"):
		return note{corev1.EventTypeNormal, reasonEnsured, "Ensured load balancer"}
	}
	return note{corev1.EventTypeNormal, reasonEnsured, fmt.Sprintf("Ensured load balancer [%s]", lb)}
}

// noBackends returns the Event of a port without backends. The sync continues and succeeds.
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

// reduce returns the text of an error in an Event: all of it before v1.9.3.276.
//
// Later, only the message of an OpenAPI error is kept, without code, action and request ID. Up to v2.6 it is the text from the
// last "Message:" of the first line that has one; later, only the first OpenAPI error counts, and the text before the next one
// remains as a rest of the wrapping. An error without an OpenAPI error is shown whole, with its line breaks.
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
