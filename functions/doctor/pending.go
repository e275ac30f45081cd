package doctor

import (
	_ "embed"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed pending.md
var pendingDoc string

// pending looks for Services that wait for their load balancer too long.
var pending = &doctor.Check{
	ID:    "pending",
	Doc:   pendingDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Events},
	Find:  findPending,
}

//go:embed noevents.md
var noEventsDoc string

// noEvents looks for a controller that writes no Events.
var noEvents = &doctor.Check{
	ID:    "no-events",
	Doc:   noEventsDoc,
	Needs: []doctor.Part{doctor.Services, doctor.Events, doctor.Controller},
	Find:  findNoEvents,
}

// tooLong is how long a first sync may take: the controller's pause between two tries
// grows to five minutes, and making an NLB takes up to two.
const tooLong = 10 * time.Minute

// speaks is the first release that writes Events
// (v1.9.3.276-g372aa98-aliyun, of the Service FAQ of ACK).
var speaks = ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 276}

// waits returns for how long a Service has waited for an address; 0 if it does not, or
// if it may be of the type LoadBalancer only since it was last changed.
func waits(s *doctor.Snapshot, svc *corev1.Service) time.Duration {
	if ccm.Synced(svc) || svc.CreationTimestamp.IsZero() {
		return 0
	}
	since, heard := svc.CreationTimestamp.Time, false
	for _, e := range s.Events[svc.UID] {
		if !byController(e) {
			continue
		}
		if e.Reason == "TypeChanged" && e.Last.After(since) {
			since = e.Last
		}
		heard = heard || s.Time.Sub(e.First) >= tooLong
	}
	if !heard && s.Time.Sub(s.Marks[svc.UID].Changed) < tooLong {
		return 0
	}
	return s.Time.Sub(since)
}

// byController reports whether the controller wrote the Event. The API server and
// lbremedy also write Events about Services.
func byController(e doctor.Event) bool {
	return e.Component == "service-controller" || e.Component == "nlb-controller"
}

func findPending(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		waited := waits(s, svc)
		if waited < tooLong {
			if err := s.Err(doctor.Events); err != nil && !ccm.Synced(svc) && !svc.CreationTimestamp.IsZero() && s.Time.Sub(svc.CreationTimestamp.Time) >= tooLong {
				r.Unknown(about(svc), fmt.Errorf("since when it waits: %w", err))
			}
			continue
		}
		why, do := "and why could not be read", "Look at its Events: kubectl -n "+svc.Namespace+" describe service "+svc.Name+"."
		evidence := map[string]string{"created": svc.CreationTimestamp.UTC().Format(time.RFC3339)}
		if err := s.Err(doctor.Events); err == nil {
			why, do = "and no Event says why", "Look what the controller's log says: "+remedy.LogQuery(name(svc))+"."
			if e, ok := failure(s.Events[svc.UID]); ok {
				why, do = "and its newest Event says: "+ccm.Quote(e.Message), fmt.Sprintf("Find the cause: lbremedy plan %s.", name(svc))
				evidence["event"], evidence["count"] = e.Reason, fmt.Sprint(e.Count)
			}
		} else {
			r.Unknown(about(svc), fmt.Errorf("why it waits: %w", err))
		}
		r.Add(doctor.Finding{
			Severity: doctor.Critical, About: about(svc), Evidence: evidence, Do: say.Literal(do),
			Text: say.F("The Service has waited for its load balancer for %s, %s.", duration.HumanDuration(waited), why),
		})
	}
}

// failure returns the newest Event in which the controller warns of a failure. Two of
// its reasons for a Warning are no failures.
func failure(list []doctor.Event) (doctor.Event, bool) {
	for _, e := range slices.Backward(list) {
		if byController(e) && e.Type == corev1.EventTypeWarning && e.Reason != "PreservedOnDelete" && e.Reason != "FeatureNotSupported" {
			return e, true
		}
	}
	return doctor.Event{}, false
}

func findNoEvents(s *doctor.Snapshot, r *doctor.Report) {
	services := s.OfType()
	v := s.Controller.Version
	switch {
	case len(services) == 0:
		return
	case v == (ccm.Version{}):
		r.Unknown(doctor.About{}, errNoVersion)
		return
	case v.Before(speaks):
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: "old", Evidence: map[string]string{"CCM": v.String(), "needs": speaks.String()},
			Text: say.F("CCM %s writes no Events about Services, so that nobody hears of a sync that fails, lbremedy neither.", v),
			Do:   say.F("Upgrade the controller, to %s or later.", speaks),
		})
		return
	}
	for _, svc := range services {
		if waited := waits(s, svc); waited >= tooLong && !slices.ContainsFunc(s.Events[svc.UID], byController) {
			r.Add(doctor.Finding{
				Severity: doctor.Critical, About: about(svc), Evidence: map[string]string{"CCM": v.String()},
				Text: say.F("The Service has waited for its load balancer for %s, and CCM %s, which writes Events, has written none about it in the last hour.", duration.HumanDuration(waited), v),
				Do:   say.F("Wake the controller, since some failures it tells of once and does not try again: %s. If that brings no Event, look whether it runs, and what it logs: %s. If it says nothing there, open a ticket with Alibaba Cloud.", ccm.WakeCommand(svc), remedy.LogQuery(name(svc))),
			})
		}
	}
}
