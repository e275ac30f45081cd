package doctor

import (
	_ "embed"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed silent.md
var silentDoc string

// silent looks for syncs that fail without an Event.
var silent = &doctor.Check{
	ID:    "silent",
	Doc:   silentDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Controller, doctor.Events, doctor.Failures},
	Find:  findSilent,
	Fix:   &doctor.Fix{Steps: []remedy.Step{step.Touch{}}, Plan: fixSilent},
}

const (
	// overdue is how long a sync in full may lag behind a change.
	overdue = 10 * time.Minute
	// burst is how many Events about one Service the controller writes before its
	// filter lets only one through in five minutes (client-go, tools/record).
	burst = 25
	// refill is how long that filter then takes to let another one through.
	refill = 5 * time.Minute
	// eventsKept is how long the API server keeps Events if nobody has told it otherwise.
	eventsKept = time.Hour
	// counted is how many of the Events that one object counts are looked at: at one in
	// five minutes, those of more than a day.
	counted = 500
)

// errNoHash says that the hash of a release is not known.
var errNoHash = errors.New("what releases before v2 leave as their hash is not known here")

func findSilent(s *doctor.Snapshot, r *doctor.Report) {
	hashErr := s.Err(doctor.Controller)
	if hashErr == nil && s.Controller.Version == (ccm.Version{}) {
		hashErr = errNoVersion
	}
	eventsErr := s.Err(doctor.Events)
	if err := s.Err(doctor.Failures); err != nil {
		r.Unknown(s.OfCluster(), fmt.Errorf("whether an exporter runs: %w", err))
	} else {
		unheard(s, r)
	}
	for _, svc := range s.OfType() {
		late := false
		if svc.Labels[ccm.HashLabel] != "" {
			var err error
			if late, err = stuck(s, r, svc, hashErr); err != nil {
				r.Unknown(about(svc), fmt.Errorf("whether it was synced since it changed: %w", err))
				late = true
			}
		}
		if !late {
			missed(s, r, svc)
		}
		if eventsErr != nil {
			r.Unknown(about(svc), fmt.Errorf("whether Events about it are swallowed: %w", eventsErr))
			continue
		}
		swallowed(s, r, svc)
	}
}

// stuck reports a Service whose hash label no longer fits: it has not been synced in
// full since it changed. A label that another release would have left fits, too: the
// Service has not changed, and the sync in full that follows an upgrade says for itself
// how it went. It reports whether there is one.
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
	m := s.Marks[svc.UID]
	changed := m.Changed
	if changed.IsZero() {
		changed = svc.CreationTimestamp.Time
	}
	lasted := s.Time.Sub(changed)
	if lasted <= overdue {
		return false, nil
	}
	evidence := map[string]string{"hash": svc.Labels[ccm.HashLabel], "wanted": want, "changed": changed.UTC().Format(time.RFC3339)}
	why := "The controller neither succeeds nor says why"
	if e, ok := failure(s.Events[svc.UID]); ok && !e.Last.Before(changed) { // both in whole seconds
		why = "Its newest Event says: " + ccm.Quote(e.Message)
		evidence["event"] = e.Reason
	}
	if known(s, svc, changed) == unheardOf {
		why += ". No failure of it has come through to lbremedy since then"
	}
	r.Add(doctor.Finding{
		Severity: doctor.Critical, About: about(svc), Key: "hash", Evidence: evidence,
		Text: say.F("The Service was changed %s ago and has not been synced in full since: its hash label does not fit it. %s.", duration.HumanDuration(lasted), why),
		Do:   say.F("Look at the controller's log: %s. If it says nothing there, wake it: %s.", remedy.LogQuery(name(svc)), ccm.WakeCommand(svc)),
	})
	return true, nil
}

// What the stream knows of a failure of a Service.
type knowledge int

const (
	noStream  knowledge = iota // none is named, or it can't be read
	heardOf                    // it keeps one
	unheardOf                  // it keeps none
)

// skew is how far the clocks behind recorded times may differ.
const skew = time.Minute

// known returns what the stream knows of a failure of the Service since a time.
func known(s *doctor.Snapshot, svc *corev1.Service, since time.Time) knowledge {
	switch {
	case s.Failures == nil || s.Err(doctor.Failures) != nil:
		return noStream
	case s.Failures[svc.UID].After(since.Add(-skew)):
		return heardOf
	}
	return unheardOf
}

// unheard reports that no exporter runs.
func unheard(s *doctor.Snapshot, r *doctor.Report) {
	silence := s.Time.Sub(s.Heard)
	if s.Heard.IsZero() || silence < overdue {
		return
	}
	r.Add(doctor.Finding{
		Severity: doctor.Critical, About: s.OfCluster(), Key: "exporter", Evidence: map[string]string{"heard": s.Heard.UTC().Format(time.RFC3339)},
		Text: say.F("No exporter of the cluster has given a sign of life for %s: nobody hears of a sync that fails, and after an hour the Events of it are gone.", duration.HumanDuration(silence)),
		Do:   say.F("Start the exporter, or lbremedy up; lbremedy ledger shows when it runs again."),
	})
}

// retried is the time within which the controller tries a sync that fails again, and
// says so again: its pause grows to five minutes. What it has not said for longer is over.
const retried = 15 * time.Minute

// failing returns the newest failure of a Service that has not worked since, and since
// when it has failed; zero times if it does not.
func failing(s *doctor.Snapshot, svc *corev1.Service) (newest doctor.Event, since time.Time) {
	worked := s.Marks[svc.UID].Synced
	for _, e := range s.Events[svc.UID] {
		if e.Reason == "EnsuredLoadBalancer" && e.Last.After(worked) && !e.Last.After(s.Time.Add(skew)) { // not the controller's
			worked = e.Last
		}
	}
	for _, e := range s.Events[svc.UID] { // the oldest first
		if !e.Failed() || !e.Last.After(worked) || s.Time.Sub(e.Last) > retried {
			continue
		}
		began := e.First
		if began.IsZero() || began.Before(worked) { // it has failed before it worked
			began = e.Last
		}
		if newest = e; since.IsZero() || began.Before(since) {
			since = began
		}
	}
	return newest, since
}

// missed reports a Service that fails and of which no failure has come through: the
// exporter or NATS was away for longer than the API server keeps Events, or is away.
// Of one whose hash label does not fit, stuck says so.
func missed(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	why, do, since := "", "", time.Time{}
	evidence := map[string]string{}
	if waited := waits(s, svc); waited >= tooLong {
		why, since = fmt.Sprintf("it has waited for its load balancer for %s", duration.HumanDuration(waited)), svc.CreationTimestamp.Time
		do = "Wake the controller, so that it says again what is wrong: " + ccm.WakeCommand(svc) + "."
		evidence["created"] = since.UTC().Format(time.RFC3339)
	}
	if s.Err(doctor.Events) == nil {
		if e, first := failing(s, svc); !first.IsZero() && s.Time.Sub(first) >= overdue {
			why, since = "the controller has said for "+duration.HumanDuration(s.Time.Sub(first))+": "+ccm.Quote(e.Message), first
			do = "Have it answered now: lbremedy run " + name(svc) + "."
			evidence["event"], evidence["first"] = e.Reason, first.UTC().Format(time.RFC3339)
		}
	}
	if why == "" {
		return
	}
	if err := s.Err(doctor.Failures); err != nil {
		r.Unknown(about(svc), fmt.Errorf("whether its failure has come through: %w", err))
		return
	}
	if known(s, svc, since) != unheardOf {
		return
	}
	r.Add(doctor.Finding{
		Severity: doctor.Critical, About: about(svc), Key: "missed", Evidence: evidence,
		Text: say.F("The Service fails and lbremedy has no case of it, since no failure of it has come through: %s.", strings.TrimSuffix(why, ".")),
		Do:   say.Literal(do),
	})
}

// swallowed reports a Service with so many Events in the last hour that the controller's
// filter had to drop further ones.
func swallowed(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	written := map[string][]time.Time{} // by component
	for _, e := range s.Events[svc.UID] {
		if e.Component != "" {
			written[e.Component] = append(written[e.Component], occurrences(e)...)
		}
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
			Text:     say.F("%s has written %s about the Service in the last hour: beyond %d its filter lets one through in five minutes, so that failures go unheard.", component, ccm.Count(n, "Event"), burst),
			Do:       say.F("Find out what changes the Service or its endpoints so often, or why its syncs fail: kubectl -n %s describe service %s.", svc.Namespace, svc.Name),
		})
	}
}

// occurrences returns when what an Event counts happened. Only the first and the last
// time are known: the others are taken to lie evenly between.
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

// emptied returns when the filter that let Events through at these times, in order, last
// had none left to give; zero if it never had none.
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
			return remedy.Plan{Finding: f.Text, Steps: []remedy.Step{step.Touch{}}}
		}
	}
	return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
}
