package doctor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// deletion reports what happens to the load balancer when its Service is deleted.
var deletion = &doctor.Check{
	ID:       "deletion",
	Doc:      page("deletion"),
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Controller},
	Manifest: true,
	Find:     findDeletion,
}

func findDeletion(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		about := doctor.OfService(svc)
		id, _ := ccm.Annotation(svc, "id")
		if id != "" {
			reused(s, r, svc, id)
			continue
		}
		if svc.UID == "" {
			f := doctor.Finding{Severity: doctor.Info, About: about,
				Text: say.F("The controller creates a load balancer for the Service, and deletes it when the Service is deleted or changes its type."),
				Do:   say.F("To keep the load balancer then, set the annotation %s. It needs CCM %s or newer.", ccm.Preserve, ccm.FirstPreserve())}
			if keep, _ := ccm.Annotation(svc, ccm.Preserve); keep != "" {
				f.Text = say.F("The controller creates a load balancer for the Service.").
					And("It keeps it when the Service is deleted or changes its type: the annotation %s is set.", ccm.Preserve)
				f.Do = say.F("Make sure that the controller is %s or newer: older releases ignore the annotation.", ccm.FirstPreserve())
			}
			r.Add(f)
			continue
		}
		b, err := s.Balancer(svc)
		switch {
		case err != nil:
			r.Unknown(about, err)
		case b != nil:
			made(s, r, svc, b)
		}
	}
}

// reused examines a Service that names its load balancer. That one is kept, but an earlier one of the controller is left behind.
func reused(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, id string) {
	about := doctor.OfService(svc)
	r.Add(doctor.Finding{Severity: doctor.Info, About: about, Evidence: map[string]string{"load balancer": cut(id)},
		Text: say.F("The Service reuses the load balancer %s, which is kept when the Service is deleted or changes its type.", ccm.Quote(id)),
		Do:   say.F("No action is needed now. Delete the load balancer by hand when nobody needs it any more.")})
	if svc.UID == "" {
		return
	}
	old, err := s.Balancer(withoutID(svc))
	switch {
	case err != nil:
		r.Unknown(about, err)
	case old != nil && old.ID != id:
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "orphan",
			Evidence: map[string]string{"load balancer": cut(id), "made": old.ID, "address": old.Address},
			Text: say.F("The Service names the load balancer %s, but the controller created %s for it before.", ccm.Quote(id), old.ID).
				And("Nobody deletes %s, and it continues to cost money.", old.ID),
			Do: say.F("If the switch is intended, move the clients of %s, then delete %s by hand.", old.Address, old.ID).
				And("If it is not, remove the annotation: %s.", ccm.RemoveCommand(svc, "id"))})
	}
}

func withoutID(svc *corev1.Service) *corev1.Service {
	own := svc.DeepCopy()
	delete(own.Annotations, ccm.Prefix+"id")
	delete(own.Annotations, ccm.LegacyPrefix+"id")
	return own
}

func made(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	about := doctor.OfService(svc)
	evidence := map[string]string{"load balancer": b.ID, "address": b.Address}
	if keep, _ := ccm.Annotation(svc, ccm.Preserve); keep != "" {
		v, err := versionOf(s)
		switch {
		case err != nil:
			r.Unknown(about, say.Errorf("whether the controller knows the annotation %s: %w", ccm.Preserve, err))
		case v.Before(ccm.FirstPreserve()):
			r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "preserve",
				Evidence: map[string]string{"load balancer": b.ID, "CCM": v.String()},
				Text: say.F("The annotation %s asks to keep the load balancer %s.", ccm.Preserve, b.ID).
					And("CCM %s ignores the annotation and deletes the load balancer with the Service.", v),
				Do: say.F("Upgrade the controller to %s or newer before you delete the Service.", ccm.FirstPreserve())})
		case b.NLB != nil:
			// Without the Service an own NLB loses all of its listeners, even those of others (nlbv2/model_applier.go, v2.10.0 to v2.14.0).
			r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "preserve", Evidence: evidence,
				Text: say.F("The load balancer %s is kept when the Service is deleted: the annotation %s is set.", b.ID, ccm.Preserve).
					And("But the controller deletes all its listeners then, and its address serves nobody."),
				Do: say.F("Before you delete the Service, move its clients, or be ready to create the listeners again by hand.")})
		default:
			r.Add(doctor.Finding{Severity: doctor.Info, About: about, Evidence: evidence,
				Text: say.F("The load balancer %s is kept when the Service is deleted: the annotation %s is set.", b.ID, ccm.Preserve),
				Do:   say.F("No action is needed now. Delete the load balancer by hand when nobody needs it any more.")})
		}
		return
	}
	keep := ccm.PreserveCommand(svc)
	how := say.F("To keep the load balancer then, with CCM %s or newer: %s.", ccm.FirstPreserve(), keep)
	move := say.F("Move these listeners to a load balancer of their own.")
	if b.NLB != nil {
		how = how.And("It keeps its address, but none of its listeners.")
	} else {
		move = move.And("Or keep this one, with CCM %s or newer: %s.", ccm.FirstPreserve(), keep)
	}
	r.Add(doctor.Finding{Severity: doctor.Info, About: about, Evidence: evidence,
		Text: say.F("The controller created the load balancer %s and deletes it when the Service is deleted or changes its type.", b.ID).
			And("The address %s is then lost.", b.Address),
		Do: how})
	if err := cmp.Or(s.Err(doctor.Listeners), b.Err(doctor.Listeners)); err != nil {
		r.Unknown(about, err)
		return
	}
	if others := unmanagedListeners(s, svc, b); len(others) > 0 {
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "others", Evidence: evidence,
			Text: say.F("The load balancer %s is deleted with the Service, but it has listeners that do not belong to the Service.", b.ID).
				And("Their traffic would stop: %s.", say.Clauses(others, shown)),
			Do: move})
	}
}

// unmanagedListeners returns the listeners that the controller did not create for the Service, one clause each.
func unmanagedListeners(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) []say.Text {
	var list []say.Text
	add := func(l ccm.Listener) {
		l.Protocol = strings.ToLower(l.Protocol)
		at := l.String()
		key := func(p corev1.ServicePort) bool {
			return strings.EqualFold(ccm.ListenerKey(svc, p), at)
		}
		switch t, ok := ccm.ParseTrace(l.Description); {
		case !ok && slices.ContainsFunc(svc.Spec.Ports, key):
			// Old releases left no description, and a person who overwrites the description does not take over the listener.
		case !ok:
			list = append(list, say.F("%s was created by hand", at))
		case !t.Of(svc, s.Cluster):
			list = append(list, say.F("%s belongs to the Service %s", at, t))
		}
	}
	for _, l := range b.Listeners {
		add(ccm.ClassicListener(l))
	}
	for _, l := range b.NetworkListeners {
		if ranged, err := ccm.NetworkListener(l); err == nil { // otherwise it is shown as port 0
			add(ranged)
		} else {
			add(ccm.Listener{Protocol: l.Protocol, Description: l.Description})
		}
	}
	return list
}
