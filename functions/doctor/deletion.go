package doctor

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed deletion.md
var deletionDoc string

// deletion says what becomes of the load balancer when its Service goes.
var deletion = &doctor.Check{
	ID:       "deletion",
	Doc:      deletionDoc,
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Controller},
	Manifest: true,
	Find:     findDeletion,
}

// preserves is the first release that can keep a load balancer that it made.
var preserves = ccm.Version{Major: 2, Minor: 10}

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
				Text: say.F("The controller makes a load balancer for the Service, and deletes it with the Service or when its type changes."),
				Do:   say.F("To keep it then, with CCM v2.10.0 or later, set the annotation preserve-lb-on-delete.")}
			if keep, _ := ccm.Annotation(svc, "preserve-lb-on-delete"); keep != "" {
				f.Text = say.F("The controller makes a load balancer for the Service, and keeps it when the Service is deleted or changes its type, as the annotation preserve-lb-on-delete says.")
				f.Do = say.F("Make sure that the controller is of v2.10.0 or later: older ones do not know the annotation.")
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

// reused reports on a Service that names its load balancer: that one is kept, but one
// that the controller made for it before has nobody any more.
func reused(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, id string) {
	about := doctor.OfService(svc)
	r.Add(doctor.Finding{Severity: doctor.Info, About: about, Evidence: map[string]string{"load balancer": cut(id)},
		Text: say.F("The load balancer %s is reused: it is kept when the Service is deleted or changes its type.", ccm.Quote(id)),
		Do:   say.F("Nothing. Delete it by hand when nobody needs it any more.")})
	if svc.UID == "" {
		return
	}
	own := svc.DeepCopy()
	delete(own.Annotations, ccm.Prefix+"id")
	delete(own.Annotations, ccm.LegacyPrefix+"id")
	old, err := s.Balancer(own)
	switch {
	case err != nil:
		r.Unknown(about, err)
	case old != nil && old.ID != id:
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "orphan",
			Evidence: map[string]string{"load balancer": cut(id), "made": old.ID, "address": old.Address},
			Text:     say.F("The Service names the load balancer %s, and the controller made %s for it before: nobody deletes that one, and it goes on to cost.", ccm.Quote(id), old.ID),
			Do:       say.F("If the switch is meant, move who still uses %s, and delete %s by hand. If not, remove the annotation: %s.", old.Address, old.ID, ccm.RemoveCommand(svc, "id"))})
	}
}

// made reports on a Service whose load balancer the controller made.
func made(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	about := doctor.OfService(svc)
	evidence := map[string]string{"load balancer": b.ID, "address": b.Address}
	if keep, _ := ccm.Annotation(svc, "preserve-lb-on-delete"); keep != "" {
		kept(s, r, svc, b)
		return
	}
	r.Add(doctor.Finding{Severity: doctor.Info, About: about, Evidence: evidence,
		Text: say.F("The controller made the load balancer %s: it is deleted, and its address %s lost, when the Service is deleted or changes its type.", b.ID, b.Address),
		Do:   say.F("To keep it then, with CCM v2.10.0 or later: %s.", ccm.SetCommand(svc, "preserve-lb-on-delete", "true"))})
	if err := s.Err(doctor.Listeners); err != nil {
		r.Unknown(about, err)
		return
	}
	if err := b.Err(doctor.Listeners); err != nil {
		r.Unknown(about, err)
		return
	}
	if others := foreign(s, svc, b); len(others) > 0 {
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "others", Evidence: evidence,
			Text: say.F("The load balancer %s is deleted with the Service, and has listeners of others, whose traffic would stop: %s.", b.ID, ccm.Clauses(others, 5)),
			Do:   say.F("Move them to a load balancer of their own, or keep this one: with CCM v2.10.0 or later, %s.", ccm.SetCommand(svc, "preserve-lb-on-delete", "true"))})
	}
}

// kept reports on a Service that wants the load balancer which the controller made kept.
func kept(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	about := doctor.OfService(svc)
	v, err := versionOf(s)
	switch {
	case err != nil:
		r.Unknown(about, fmt.Errorf("whether the controller knows the annotation preserve-lb-on-delete: %w", err))
	case v.Before(preserves):
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "preserve", Evidence: map[string]string{"load balancer": b.ID, "CCM": v.String()},
			Text: say.F("The Service asks to keep the load balancer %s when it is deleted, and CCM %s does not know the annotation: it is deleted all the same.", b.ID, v),
			Do:   say.F("Upgrade the controller to %s or later before the Service is deleted.", preserves)})
	default:
		r.Add(doctor.Finding{Severity: doctor.Info, About: about, Evidence: map[string]string{"load balancer": b.ID, "address": b.Address},
			Text: say.F("The load balancer %s is kept when the Service is deleted: the annotation preserve-lb-on-delete says so.", b.ID),
			Do:   say.F("Nothing. Delete it by hand when nobody needs it any more.")})
	}
}

// foreign returns the listeners of a load balancer that the controller did not make for
// the Service, one clause each.
func foreign(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) []string {
	var list []string
	add := func(protocol string, port int, description string) {
		text := fmt.Sprintf("%s:%d", strings.ToLower(protocol), port)
		key := func(p corev1.ServicePort) bool {
			return strings.EqualFold(ccm.ListenerKey(svc, p), text)
		}
		switch t, ok := ccm.ParseTrace(description); {
		case !ok && slices.ContainsFunc(svc.Spec.Ports, key):
			// Old releases of the controller left no description; and who wrote another
			// one over it did not make the listener another's.
		case !ok:
			list = append(list, text+" was made by hand")
		case !t.Of(svc, s.Cluster):
			list = append(list, fmt.Sprintf("%s is of the Service %s", text, t))
		}
	}
	for _, l := range b.Listeners {
		add(l.Protocol, l.Port, l.Description)
	}
	for _, l := range b.NetworkListeners {
		add(l.Protocol, l.Port, l.Description)
	}
	return list
}
