package doctor

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/shared/say"
)

// edits compares manifests with the Services in whose place they are applied.
var edits = &doctor.Check{
	ID:       "edits",
	Doc:      page("edits"),
	Needs:    []doctor.Part{doctor.Services},
	Manifest: true,
	Find: func(s *doctor.Snapshot, r *doctor.Report) {
		for i := range s.Services {
			svc := &s.Services[i]
			if svc.UID != "" {
				continue
			}
			if s.Replaced == nil {
				r.Unknown(about(svc), say.Errorf("what changes when it is applied: %w", doctor.ErrNoCluster))
				continue
			}
			old, ok := s.Replaced[name(svc)]
			if ok && old.DeletionTimestamp == nil {
				edit{r, &old, svc, applied(&old, svc)}.find()
			} else if !ok && s.Others != nil {
				r.Unknown(about(svc), say.Errorf("what changes when it is applied: %w", s.Others))
			}
		}
	},
}

type edit struct {
	report   *doctor.Report
	was, now *corev1.Service
	becomes  *corev1.Service // with the annotations that it has afterwards
}

func (e edit) add(severity doctor.Severity, key string, text, do say.Text) {
	e.report.Add(doctor.Finding{Severity: severity, About: about(e.now), Key: key, Text: text, Do: do})
}

// applied returns a manifest with the annotations after kubectl apply: its own, and those of the Service that no earlier apply has set.
func applied(was, now *corev1.Service) *corev1.Service {
	var last struct {
		Metadata struct{ Annotations map[string]string }
	}
	_ = json.Unmarshal([]byte(was.Annotations[corev1.LastAppliedConfigAnnotation]), &last) // broken JSON has set nothing
	becomes := *now
	becomes.Annotations = map[string]string{}
	for key, value := range was.Annotations {
		if _, set := last.Metadata.Annotations[key]; !set {
			becomes.Annotations[key] = value
		}
	}
	maps.Copy(becomes.Annotations, now.Annotations)
	return &becomes
}

func (e edit) find() {
	if e.was.Spec.Type != corev1.ServiceTypeLoadBalancer || !ccm.Synced(e.was) && e.was.Labels[ccm.BalancerLabel] == "" {
		return // it has no load balancer yet
	}
	id, next, has := value(e.was, ccm.BalancerID), value(e.becomes, ccm.BalancerID), e.was.Labels[ccm.BalancerLabel]
	switch {
	case e.now.Spec.Type != corev1.ServiceTypeLoadBalancer:
		if id == "" && value(e.becomes, ccm.Preserve) == "" {
			e.add(doctor.Critical, "spec.type", say.F("The type changes from LoadBalancer to %s.", cmp.Or(e.now.Spec.Type, corev1.ServiceTypeClusterIP)).
				Then(guard.TypeChange.Effect), guard.TypeChange.Instead)
		}
		return
	case ccm.NLB(e.was) != ccm.NLB(e.now):
		e.add(doctor.Critical, "loadBalancerClass", say.F("The loadBalancerClass changes, which the API server refuses."),
			say.F("To get a load balancer of the other kind, create a second Service, move the traffic, and delete this one."))
		return
	case next != id && next != has && !(next == "" && id != has):
		e.add(doctor.Critical, ccm.BalancerID, say.F("The annotation id changes from %s to %s.", orNone(id), orNone(next)).Then(guard.Move.Effect),
			guard.Move.Instead)
	}
	for _, f := range ccm.FixedAnnotations(ccm.NLB(e.was)) {
		e.fixed(f)
	}
	e.listeners()
}

func (e edit) fixed(f ccm.Fixed) {
	was, now := value(e.was, f.Name), value(e.becomes, f.Name)
	if f.List {
		if gone := lostZones(was, now); len(gone) > 0 {
			e.add(doctor.Warning, f.Name, say.F("The annotation %s loses %s.", f.Name, say.List(gone, shown)).Then(f.Effect), f.Instead)
		}
		return
	}
	if was == "" {
		was = f.Made
	}
	if now == "" {
		now = f.Unset
	}
	if now != "" && was != "" && !strings.EqualFold(was, now) {
		e.add(doctor.Warning, f.Name, say.F("The annotation %s changes from %s to %s.", f.Name, ccm.Quote(was), ccm.Quote(now)).Then(f.Effect), f.Instead)
	}
}

func (e edit) listeners() {
	if !ccm.OwnsListeners(e.was) || !ccm.OwnsListeners(e.becomes) {
		return
	}
	var stay, gone []string
	for _, p := range e.now.Spec.Ports {
		stay = append(stay, ccm.ListenerKey(e.becomes, p))
	}
	for _, p := range e.was.Spec.Ports {
		if key := ccm.ListenerKey(e.was, p); !slices.Contains(stay, key) {
			gone = append(gone, key)
		}
	}
	if len(gone) > 0 {
		e.add(doctor.Warning, "ports", say.F("The controller deletes %s of the load balancer: %s. Connections there end.",
			say.Count(len(gone), "listener"), say.List(gone, shown)), say.F("Keep the ports and their protocols if clients still use them."))
	}
}

func orNone(id string) say.Text {
	if id == "" {
		return say.F("none")
	}
	return say.Literal(ccm.Quote(id))
}

func lostZones(was, now string) (gone []string) {
	before, _ := ccm.Zones(was)
	after, whole := ccm.Zones(now)
	for _, z := range before {
		if whole && !slices.ContainsFunc(after, func(other ccm.Zone) bool { return other.Name == z.Name }) {
			gone = append(gone, z.Name)
		}
	}
	return gone
}
