package doctor

import (
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

// pending looks for Services that wait too long for their load balancer.
var pending = &doctor.Check{
	ID:    "pending",
	Doc:   page("pending"),
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Events},
	Find:  findPending,
}

// noEvents looks for a controller that is too old to write Events.
var noEvents = &doctor.Check{
	ID:    "no-events",
	Doc:   page("no-events"),
	Needs: []doctor.Part{doctor.Services, doctor.Controller},
	Find:  findNoEvents,
}

// tooLong is the limit of a first sync: the controller's retry interval grows to five minutes, and creating an NLB takes up to two.
const tooLong = 10 * time.Minute

// speaks is the first release that writes Events (v1.9.3.276-g372aa98-aliyun, from the Service FAQ of ACK).
var speaks = ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 276}

// waits returns how long a Service has waited for an address; 0 if it has one, or may only have become a LoadBalancer with its last change.
func waits(s *doctor.Snapshot, svc *corev1.Service) time.Duration {
	if ccm.Synced(svc) || svc.CreationTimestamp.IsZero() {
		return 0
	}
	since, reported := svc.CreationTimestamp.Time, false
	for _, e := range s.Events[svc.UID] {
		if e.Reason == "TypeChanged" && e.Last.After(since) {
			since = e.Last
		}
		reported = reported || s.Time.Sub(e.First) >= tooLong
	}
	if !reported && s.Time.Sub(s.Marks[svc.UID].Changed) < tooLong {
		return 0
	}
	return s.Time.Sub(since)
}

func findPending(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		waited := waits(s, svc)
		eventsErr := s.Err(doctor.Events)
		if waited < tooLong {
			if eventsErr != nil && !ccm.Synced(svc) && !svc.CreationTimestamp.IsZero() && s.Time.Sub(svc.CreationTimestamp.Time) >= tooLong {
				r.Unknown(about(svc), say.Errorf("since when it waits: %w", eventsErr))
			}
			continue
		}
		f := doctor.Finding{
			Severity: doctor.Critical, About: about(svc),
			Text:     waiting(waited),
			Evidence: map[string]string{"created": svc.CreationTimestamp.UTC().Format(time.RFC3339)},
		}
		e, failed := failure(s.Events[svc.UID])
		switch {
		case eventsErr != nil:
			r.Unknown(about(svc), say.Errorf("why it waits: %w", eventsErr))
			f.Text = f.Text.And("The reason could not be read.")
			f.Do = say.F("Check its Events: kubectl -n %s describe service %s.", svc.Namespace, svc.Name)
		case failed:
			f.Text = f.Text.And("Its newest Event says: %s.", ccm.Quote(e.Message))
			f.Do = say.F("Find the cause: lbremedy plan %s.", name(svc))
			f.Evidence["event"], f.Evidence["count"] = e.Reason, fmt.Sprint(e.Count)
		default:
			f.Text = f.Text.And("No Event says why.")
			f.Do = say.F("Trigger a resync: %s. The controller reports some failures once and does not try again.", ccm.ResyncCommand(svc)).
				And("If no Event follows, check whether the controller runs, and its log: %s.", remedy.LogQuery(name(svc))).
				And("If the log says nothing, open a ticket with Alibaba Cloud.")
		}
		r.Add(f)
	}
}

func waiting(d time.Duration) say.Text {
	return say.F("The Service has waited for its load balancer for %s.", duration.HumanDuration(d))
}

// failure returns the newest Event about a failure. Two of the controller's reasons for a Warning are not failures.
func failure(list []doctor.Event) (doctor.Event, bool) {
	for _, e := range slices.Backward(list) {
		if e.Type == corev1.EventTypeWarning && e.Reason != "PreservedOnDelete" && e.Reason != "FeatureNotSupported" {
			return e, true
		}
	}
	return doctor.Event{}, false
}

func findNoEvents(s *doctor.Snapshot, r *doctor.Report) {
	v, err := versionOf(s)
	switch {
	case len(s.OfType()) == 0:
	case err != nil:
		r.Unknown(doctor.About{}, err)
	case v.Before(speaks):
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: "old", Evidence: map[string]string{"CCM": v.String(), "needs": speaks.String()},
			Text: say.F("CCM %s writes no Events about Services. Nobody learns of a sync that fails, and neither does lbremedy.", v),
			Do:   say.F("Upgrade the controller to %s or newer.", speaks),
		})
	}
}
