package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Newest returns the newest release of the controller whose calls are known here.
func Newest() Version { return v214 }

// Rehashed returns the release from which on the controller computes the hash of
// a Service in another way: an upgrade over it syncs every Service in full, once.
func Rehashed() Version { return Version{2, 10, 0, 0} }

// Gains returns the RAM actions that one version of the controller calls and an
// older one does not, sorted.
func Gains(from, to Version, use Features) []string {
	old := Needs(from, use)
	return slices.DeleteFunc(Needs(to, use), func(action string) bool { return slices.Contains(old, action) })
}

// compared is how many Services Elsewhere compares at most: each takes four calls.
const compared = 20

// An Elsewhere is what full syncs of a cluster's Services would change.
type Elsewhere struct {
	Services int        // that have a CLB
	Compared int        // of them, the first by name
	Differ   []say.Text // one clause for each that would be changed
}

// Elsewhere compares the CLBs of the cluster's Services with their annotations, up
// to 20 of them. It needs BoundReads and DriftReads.
func (c *View) Elsewhere(ctx context.Context, services []corev1.Service) (Elsewhere, error) {
	var e Elsewhere
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, svc := range services {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Spec.LoadBalancerClass != nil || !Synced(&svc) {
			continue
		}
		if e.Services++; e.Compared == compared {
			continue
		}
		sub := *c
		sub.Service = svc.DeepCopy()
		lb, err := sub.Bound(ctx)
		if err != nil {
			return e, fmt.Errorf("find the load balancer of %s/%s: %w", svc.Namespace, svc.Name, err)
		}
		if lb == nil {
			continue
		}
		e.Compared++
		drift, err := sub.differs(ctx, lb)
		if err != nil {
			return e, err
		}
		if len(drift) > 0 {
			e.Differ = append(e.Differ, say.F("%s/%s on %s: %s", svc.Namespace, svc.Name, lb.ID, say.Items(drift, len(drift))))
		}
	}
	return e, nil
}

// Text says it as sentences.
func (e Elsewhere) Text() say.Text {
	switch {
	case e.Services == 0:
		return say.F("No other Service has a CLB that it would change.")
	case len(e.Differ) == 0:
		return say.F("Of %s with a CLB, %d were compared. Nothing differs.", say.Count(e.Services, "Service"), e.Compared)
	}
	return say.F("Of %s with a CLB, %d were compared. It would change: %s.", say.Count(e.Services, "Service"), e.Compared, say.Clauses(e.Differ, len(e.Differ)))
}
