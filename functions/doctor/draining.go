package doctor

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed draining.md
var drainingDoc string

// draining looks for connections that are cut because backends come and go.
var draining = &doctor.Check{
	ID:    "draining",
	Doc:   drainingDoc,
	Needs: []doctor.Part{doctor.Services, doctor.Events},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Detail},
	Find:  findDraining,
}

// often is how many syncs an hour for changes of backends alone count as many. The
// controller's Events end at 12 an hour for a Service that it syncs all the time.
const often = 6

func findDraining(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		syncs := backendSyncs(s.Events[svc.UID], s.Time)
		if drains(svc) || syncs < often {
			continue
		}
		if err := s.Err(doctor.Detail); err != nil && svc.Annotations[ccm.BackendType] != "eni" && svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
			r.Unknown(about(svc), fmt.Errorf("whether a change of its Pods changes its backends: %w", err))
			continue
		}
		if s.Mode(svc) == ccm.ClusterMode {
			continue // its backends are all nodes, whatever its Pods do
		}
		b, err := s.Balancer(svc)
		var cut []string
		if err == nil && b != nil {
			cut, err = cuts(s, svc, b)
		}
		if err != nil {
			r.Unknown(about(svc), fmt.Errorf("whether its listeners drain connections: %w", err))
			continue
		}
		if b == nil || len(cut) == 0 {
			continue
		}
		do := fmt.Sprintf("Let connections end by themselves: %s, then %s.", ccm.SetCommand(svc, "connection-drain", "on"), ccm.SetCommand(svc, "connection-drain-timeout", "30"))
		if !ccm.OwnsListeners(svc) {
			do = fmt.Sprintf("Turn on connection draining for these listeners of the reused %s in the console: without force-override-listeners the annotation does nothing.", b.ID)
		}
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about(svc), Do: say.Literal(do),
			Evidence: map[string]string{"load balancer": b.ID, "syncs an hour": fmt.Sprintf("%.1f", syncs), "listeners": strings.Join(cut, ", ")},
			Text:     say.F("The backends of the Service change often (the controller's Events show %d syncs an hour or more that followed no change of the Service), and connection draining is off for %s of %s: connections to a backend that goes are cut.", often, strings.Join(cut, ", "), b.ID)})
	}
}

// drains reports whether the annotation has the controller turn on draining: on listeners
// of a CLB only where it sets them, on the groups of an NLB, which are its own, always.
func drains(svc *corev1.Service) bool {
	drain, _ := ccm.Annotation(svc, "connection-drain")
	if ccm.NLB(svc) {
		return strings.EqualFold(drain, "on")
	}
	return drain == "on" && ccm.OwnsListeners(svc)
}

// backendSyncs returns how many syncs an hour followed no change of the Service itself,
// by the Events of the last of them; 0 where they cover less than an hour, which a single
// rollout fills. Those that the controller's spam filter swallowed are missing.
func backendSyncs(events []doctor.Event, now time.Time) float64 {
	n := 0
	var first, last time.Time
	for _, e := range events {
		switch e.Reason {
		case "EnsuredLoadBalancer":
			n += e.Count
			if first.IsZero() || e.First.Before(first) {
				first = e.First
			}
			if e.Last.After(last) {
				last = e.Last
			}
		case "AnnotationChanged", "ServiceSpecChanged", "TypeChanged":
			n -= e.Count
		}
	}
	if now.Sub(last) > time.Hour || last.Sub(first) < time.Hour {
		return 0 // that was once
	}
	return float64(n) / last.Sub(first).Hours()
}

// cuts returns the listeners of the Service that cut connections to a backend that goes:
// those of TCP and UDP can drain them. Of an NLB the annotation alone is known.
func cuts(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) ([]string, error) {
	if b.CLB != nil {
		if err := cmp.Or(s.Err(doctor.Listeners), b.Err(doctor.Listeners)); err != nil {
			return nil, err
		}
	}
	var cut []string
	for _, p := range svc.Spec.Ports {
		key := ccm.ListenerKey(svc, p)
		if b.NLB != nil {
			cut = append(cut, key)
			continue
		}
		i := slices.IndexFunc(b.Listeners, func(l cloud.Listener) bool { return fmt.Sprintf("%s:%d", l.Protocol, l.Port) == key })
		if i >= 0 && (b.Listeners[i].Protocol == "tcp" || b.Listeners[i].Protocol == "udp") && b.Listeners[i].Config["ConnectionDrain"] != "on" {
			cut = append(cut, key)
		}
	}
	return cut, nil
}
