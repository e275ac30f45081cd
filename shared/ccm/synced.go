package ccm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// SyncedBetween returns the evidence that a sync succeeded after the failure and not after until. One in the second of the failure proves nothing.
func SyncedBetween(svc *corev1.Service, happened []time.Time, failure, until time.Time) say.Text {
	if failure.IsZero() {
		return nil // the time of the failure is unknown
	}
	if at := HashWritten(svc); at.After(failure) && !at.After(until) {
		return say.F("The controller has synced the Service since then: it wrote the hash label at %s.", at.UTC().Format(time.RFC3339))
	}
	for _, at := range happened {
		if at.After(failure) && !at.After(until) {
			return say.F("The controller has synced the Service since then: EnsuredLoadBalancer at %s.", at.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// SyncedAnew reports whether the Service shows a full sync since it had this hash.
func SyncedAnew(svc *corev1.Service, before string) bool {
	if svc.DeletionTimestamp != nil {
		return false
	}
	hash := svc.Labels[HashLabel]
	return hash != "" && hash != before && Synced(svc)
}

// Quiet reports whether a sync with Events of this reason succeeds but leaves backends out: a later one proves nothing (clbv1/vgroups.go).
func Quiet(reason string) bool {
	return slices.Contains([]string{"UnAvailableLoadBalancer", "NoBackend", "SkipSyncBackends"}, reason)
}

// Released reports whether the controller has removed its finalizers from a Service, having cleaned up or created nothing.
func Released(svc *corev1.Service) bool {
	return !slices.Contains(svc.Finalizers, CLBFinalizer) && !slices.Contains(svc.Finalizers, NLBFinalizer)
}

// SpecDigest returns a digest of what a full sync depends on: annotations and spec.
func SpecDigest(svc *corev1.Service) string {
	data, err := json.Marshal(struct {
		Keys   []string
		Values map[string]string
		Spec   corev1.ServiceSpec
	}{slices.Sorted(maps.Keys(svc.Annotations)), svc.Annotations, svc.Spec})
	if err != nil {
		panic(fmt.Sprintf("ccm: a Service does not encode: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
