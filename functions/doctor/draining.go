package doctor

import (
	"cmp"
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

// draining looks for connections that are cut when backends come and go.
var draining = &doctor.Check{
	ID:    "draining",
	Doc:   page("draining"),
	Needs: []doctor.Part{doctor.Services, doctor.Events},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups, doctor.Detail},
	Find:  findDraining,
}

// often is how many syncs per hour for backends alone are many. The controller writes at most 12 Events per hour for a Service in constant sync.
const often = 6

func findDraining(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		syncs := backendSyncs(s.Events[svc.UID], s.Time)
		if drains(svc) || syncs < often {
			continue
		}
		local := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
		if err := s.Err(doctor.Detail); err != nil && svc.Annotations[ccm.BackendType] != "eni" && !local {
			r.Unknown(about(svc), say.Errorf("whether a change of its Pods changes its backends: %w", err))
			continue
		}
		b, err := s.Balancer(svc)
		if err == nil && b == nil {
			continue
		}
		mode := ccm.LocalMode
		if err == nil && !local {
			mode, err = s.ModeAt(svc, b)
		}
		if mode == ccm.ClusterMode || err != nil && !local && s.Mode(svc) == ccm.ClusterMode {
			continue // its backends are nodes, whatever its Pods do
		}
		var cut []string
		if err == nil {
			cut, err = cuts(s, svc, b)
		}
		if err != nil {
			r.Unknown(about(svc), say.Errorf("whether its listeners drain connections: %w", err))
			continue
		}
		if len(cut) == 0 {
			continue
		}
		do := say.F("Turn on connection draining: %s, then %s.", ccm.SetCommand(svc, "connection-drain", "on"), ccm.SetCommand(svc, "connection-drain-timeout", "30"))
		if !ccm.OwnsListeners(svc) {
			do = say.F("Turn on connection draining for these listeners of the reused %s in the console.", b.ID).
				And("Without force-override-listeners, the annotation has no effect.")
		}
		listeners := strings.Join(cut, ", ")
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about(svc), Do: do,
			Evidence: map[string]string{"load balancer": b.ID, "syncs an hour": fmt.Sprintf("%.1f", syncs), "listeners": listeners},
			Text: say.F("The backends of the Service change often: its Events show at least %d syncs per hour without a change of the Service.", often).
				And("Connection draining is off for %s of %s, so connections to a removed backend are cut.", listeners, b.ID)})
	}
}

// drains reports whether the annotation turns on draining: on a CLB for listeners that the controller sets, on an NLB for its own groups, so always.
func drains(svc *corev1.Service) bool {
	drain, _ := ccm.Annotation(svc, "connection-drain")
	if ccm.NLB(svc) {
		return strings.EqualFold(drain, "on")
	}
	return drain == "on" && ccm.OwnsListeners(svc)
}

// backendSyncs returns how many syncs per hour followed no change of the Service, by the Events of successful syncs. It is 0 if these
// cover less than an hour, which a single rollout fills. Events that the controller's filter dropped are missing.
func backendSyncs(events []doctor.Event, now time.Time) float64 {
	n := 0
	var first, last time.Time
	for _, e := range events {
		switch e.Reason {
		case doctor.Ensured:
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
		return 0 // it is over, or happened once
	}
	return float64(n) / last.Sub(first).Hours()
}

// cuts returns listeners that cut connections to a removed backend. Only TCP and UDP listeners can drain; for an NLB only the annotation is known.
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
