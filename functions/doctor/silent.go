package doctor

import (
	"fmt"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// silent looks for syncs that fail without an Event.
var silent = &doctor.Check{
	ID:    "silent",
	Doc:   page("silent"),
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Controller, doctor.Events, doctor.Failures},
	Find:  findSilent,
	Fix:   &doctor.Fix{Steps: []remedy.Step{step.Resync{}}, Plan: fixSilent},
}

const (
	// overdue is the time that a full sync may take after a change.
	overdue = 10 * time.Minute
	// burst is how many Events about a Service the controller writes before its filter lets only one through every five minutes
	// (client-go, tools/record).
	burst = 25
	// refill is the time until that filter lets another one through.
	refill = 5 * time.Minute
	// eventsKept is how long the API server keeps Events by default.
	eventsKept = time.Hour
	// counted limits the considered occurrences of an Event: at one every five minutes, those of more than a day.
	counted = 500
)

var errNoHash = say.Errorf("the hash that releases before v2 leave is not known here")

func findSilent(s *doctor.Snapshot, r *doctor.Report) {
	_, hashErr := versionOf(s)
	eventsErr := s.Err(doctor.Events)
	if err := s.Err(doctor.Failures); err != nil {
		r.Unknown(s.OfCluster(), say.Errorf("whether an exporter runs: %w", err))
	} else {
		unheard(s, r)
	}
	for _, svc := range s.OfType() {
		late := false
		if svc.Labels[ccm.HashLabel] != "" {
			var err error
			if late, err = stuck(s, r, svc, hashErr); err != nil {
				r.Unknown(about(svc), say.Errorf("whether it was synced since it changed: %w", err))
				late = true
			}
		}
		if !late {
			missed(s, r, svc)
		}
		if eventsErr != nil {
			r.Unknown(about(svc), say.Errorf("whether Events about it are dropped: %w", eventsErr))
			continue
		}
		swallowed(s, r, svc)
	}
}

// stuck reports a Service whose hash label no longer matches, and returns whether it does: it has changed since its last full sync.
// Another release's label is accepted: the full sync after an upgrade reports its own result.
func stuck(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, err error) (bool, error) {
	if ccm.InForce(svc) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want, ok := ccm.Hash(svc, s.Controller.Version)
	if !ok {
		return false, errNoHash
	}
	changed := changed(s, svc)
	lasted := s.Time.Sub(changed)
	if lasted <= overdue {
		r.Settling(about(svc))
		return false, nil
	}
	evidence := map[string]string{"hash": svc.Labels[ccm.HashLabel], "wanted": want, "changed": changed.UTC().Format(time.RFC3339)}
	text := say.F("The Service was changed %s ago and has not been synced in full since: its hash label does not match.", duration.HumanDuration(lasted))
	if e, ok := failure(s.Events[svc.UID]); ok && !e.Last.Before(changed) { // both in whole seconds
		text = text.And("Its newest Event says: %s.", ccm.Quote(e.Message))
		evidence["event"] = e.Reason
	} else {
		text = text.And("No Event since then says why.")
	}
	if known(s, svc, changed) == hasNone {
		text = text.And("No failure of the Service has reached lbremedy since then.")
	}
	r.Add(doctor.Finding{
		Severity: doctor.Critical, About: about(svc), Key: "hash", Evidence: evidence, Text: text,
		Do: say.F("Check the controller's log: %s. If the log says nothing, trigger a resync: %s.", remedy.LogQuery(name(svc)), ccm.ResyncCommand(svc)),
	})
	return true, nil
}

type knowledge int

const (
	noStream   knowledge = iota // none is configured, or it can't be read
	hasFailure                  // the stream holds a failure
	hasNone                     // the stream holds none
)

// skew is the assumed difference between the clocks of recorded times.
const skew = time.Minute

func known(s *doctor.Snapshot, svc *corev1.Service, since time.Time) knowledge {
	switch {
	case s.Failures == nil || s.Err(doctor.Failures) != nil:
		return noStream
	case s.Failures[svc.UID].After(since.Add(-skew)):
		return hasFailure
	}
	return hasNone
}

func unheard(s *doctor.Snapshot, r *doctor.Report) {
	silence := s.Time.Sub(s.ExporterSeen)
	if s.ExporterSeen.IsZero() || silence < overdue {
		return
	}
	r.Add(doctor.Finding{
		Severity: doctor.Critical, About: s.OfCluster(), Key: "exporter", Evidence: map[string]string{"heard": s.ExporterSeen.UTC().Format(time.RFC3339)},
		Text: say.F("No exporter of the cluster has sent a sign of life for %s.", duration.HumanDuration(silence)).
			And("Failed syncs go unnoticed, and their Events expire after an hour."),
		Do: say.F("Start the exporter, or lbremedy up. lbremedy status shows when it runs again."),
	})
}

// retried is longer than the retry interval of a failing sync, which grows to five minutes: an older failure is over.
const retried = 15 * time.Minute

// failing returns a Service's newest failure without a success since, and when the failures began; zero if it does not fail.
func failing(s *doctor.Snapshot, svc *corev1.Service) (newest doctor.Event, since time.Time) {
	worked := s.Marks[svc.UID].Synced
	for _, e := range s.Events[svc.UID] {
		// An Event from the future is not the controller's.
		if e.Reason == doctor.Ensured && e.Last.After(worked) && !e.Last.After(s.Time.Add(skew)) {
			worked = e.Last
		}
	}
	for _, e := range s.Events[svc.UID] { // the oldest first
		if !e.Failed() || !e.Last.After(worked) || s.Time.Sub(e.Last) > retried {
			continue
		}
		began := e.First
		if began.IsZero() || began.Before(worked) { // it failed before it succeeded
			began = e.Last
		}
		if newest = e; since.IsZero() || began.Before(since) {
			since = began
		}
	}
	return newest, since
}

// missed reports a failing Service whose failure never reached lbremedy: the exporter or NATS is or was down. stuck reports mismatched hash labels.
func missed(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	f := doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: "missed", Evidence: map[string]string{}}
	var since time.Time
	text := say.F("The Service fails, but lbremedy has no case for it: no failure of it has reached lbremedy.")
	if waited := waits(s, svc); waited >= tooLong {
		since = svc.CreationTimestamp.Time
		f.Text = text.Then(waiting(waited))
		f.Do = say.F("Trigger a resync so that the controller reports the failure again: %s.", ccm.ResyncCommand(svc))
		f.Evidence["created"] = since.UTC().Format(time.RFC3339)
	}
	if s.Err(doctor.Events) == nil {
		if e, first := failing(s, svc); !first.IsZero() && s.Time.Sub(first) >= overdue {
			since = first
			f.Text = text.And("The controller has reported for %s: %s.", duration.HumanDuration(s.Time.Sub(first)), ccm.Quote(e.Message))
			f.Do = say.F("Handle the failure now: lbremedy run %s.", name(svc))
			f.Evidence["event"], f.Evidence["first"] = e.Reason, first.UTC().Format(time.RFC3339)
		}
	}
	if len(f.Text) == 0 {
		return
	}
	if err := s.Err(doctor.Failures); err != nil {
		r.Unknown(about(svc), say.Errorf("whether its failure has reached lbremedy: %w", err))
		return
	}
	if known(s, svc, since) == hasNone {
		r.Add(f)
	}
}

// swallowed reports a Service with so many Events in the last hour that the controller's filter dropped more.
func swallowed(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	written := map[string][]time.Time{} // by component
	for _, e := range s.Events[svc.UID] {
		written[e.Component] = append(written[e.Component], occurrences(e)...)
	}
	for _, component := range sorted(written) {
		times := written[component]
		sort.Slice(times, func(i, j int) bool { return times[i].Before(times[j]) })
		n := 0
		for _, at := range times {
			if s.Time.Sub(at) <= eventsKept {
				n++
			}
		}
		if n == 0 || s.Time.Sub(emptied(times)) > eventsKept {
			continue
		}
		newest := times[len(times)-1].UTC().Format(time.RFC3339)
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: about(svc), Key: "events/" + component,
			Evidence: map[string]string{"events": fmt.Sprint(n), "newest": newest},
			Text: say.F("%s has written %s about the Service in the last hour.", component, say.Count(n, "Event")).
				And("After %d Events, its filter lets only one through every five minutes, so failures go unnoticed.", burst),
			Do: say.F("Find out what changes the Service or its endpoints so often, or why its syncs fail: kubectl -n %s describe service %s.",
				svc.Namespace, svc.Name),
		})
	}
}

// occurrences assumes those between the known first and last to be evenly distributed.
func occurrences(e doctor.Event) []time.Time {
	list := []time.Time{e.Last}
	apart := time.Duration(0)
	if !e.First.IsZero() && e.Count > 1 && e.Last.After(e.First) {
		apart = e.Last.Sub(e.First) / time.Duration(e.Count-1)
	}
	for i := 1; i < min(e.Count, counted); i++ {
		list = append(list, e.Last.Add(-time.Duration(i)*apart))
	}
	return list
}

// emptied returns when the filter, which let Events through at these ordered times, was last exhausted; zero if never.
func emptied(times []time.Time) time.Time {
	var last time.Time
	left := float64(burst)
	for i, at := range times {
		if i > 0 {
			left += float64(at.Sub(times[i-1])) / float64(refill)
		}
		left = max(min(left, burst)-1, 0)
		if left < 1 {
			last = at
		}
	}
	return last
}

func fixSilent(_ *doctor.Snapshot, _ *corev1.Service, found []doctor.Finding) remedy.Plan {
	for _, f := range found {
		if f.Key == "hash" {
			return remedy.Plan{Finding: f.Text, Steps: []remedy.Step{step.Resync{}}}
		}
	}
	return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
}
