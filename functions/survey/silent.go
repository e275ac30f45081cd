package survey

import (
	_ "embed"
	"errors"
	"fmt"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed silent.md
var silentDoc string

// silent looks for syncs that fail without an Event.
var silent = &checkup.Check{
	ID:    "silent",
	Doc:   silentDoc,
	Needs: []checkup.Part{checkup.Services},
	Uses:  []checkup.Part{checkup.Controller, checkup.Events},
	Find:  findSilent,
	Fix:   &checkup.Fix{Steps: []remedy.Step{step.Touch{}}, Plan: fixSilent},
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

func findSilent(s *checkup.Snapshot, r *checkup.Report) {
	hashErr := s.Err(checkup.Controller)
	if hashErr == nil && s.Controller.Version == (remedy.Version{}) {
		hashErr = errNoVersion
	}
	eventsErr := s.Err(checkup.Events)
	for _, svc := range s.OfType() {
		if svc.Labels[remedy.HashLabel] != "" {
			if err := stuck(s, r, svc, hashErr); err != nil {
				r.Unknown(about(svc), fmt.Errorf("whether it was synced since it changed: %w", err))
			}
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
// how it went.
func stuck(s *checkup.Snapshot, r *checkup.Report, svc *corev1.Service, err error) error {
	if checkup.Fits(svc) {
		return nil
	}
	if err != nil {
		return err
	}
	want, ok := checkup.Hash(svc, s.Controller.Version)
	if !ok {
		return errNoHash
	}
	m := s.Marks[svc.UID]
	changed := m.Changed
	if changed.IsZero() {
		changed = svc.CreationTimestamp.Time
	}
	lasted := s.Time.Sub(changed)
	if lasted <= overdue {
		return nil
	}
	evidence := map[string]string{"hash": svc.Labels[remedy.HashLabel], "wanted": want, "changed": changed.UTC().Format(time.RFC3339)}
	why := "The controller neither succeeds nor says why"
	if e, ok := failure(s.Events[svc.UID]); ok && !e.Last.Before(changed) { // both in whole seconds
		why = "Its newest Event says: " + remedy.Quote(e.Message)
		evidence["event"] = e.Reason
	}
	r.Add(checkup.Finding{
		Severity: checkup.Critical, About: about(svc), Key: "hash", Evidence: evidence,
		Text: fmt.Sprintf("The Service was changed %s ago and has not been synced in full since: its hash label does not fit it. %s.", round(lasted), why),
		Do:   "Look at the controller's log: " + remedy.LogQuery(name(svc)) + ". If it says nothing there, wake it: " + remedy.WakeCommand(svc) + ".",
	})
	return nil
}

// swallowed reports a Service with so many Events in the last hour that the controller's
// filter had to drop further ones.
func swallowed(s *checkup.Snapshot, r *checkup.Report, svc *corev1.Service) {
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
		r.Add(checkup.Finding{
			Severity: checkup.Warning, About: about(svc), Key: "events/" + component,
			Evidence: map[string]string{"events": fmt.Sprint(n), "newest": newest},
			Text:     fmt.Sprintf("%s has written %s about the Service in the last hour: beyond %d its filter lets one through in five minutes, so that failures go unheard.", component, remedy.Count(n, "Event"), burst),
			Do:       "Find out what changes the Service or its endpoints so often, or why its syncs fail: kubectl -n " + svc.Namespace + " describe service " + svc.Name + ".",
		})
	}
}

// occurrences returns when what an Event counts happened. Only the first and the last
// time are known: the others are taken to lie evenly between.
func occurrences(e checkup.Event) []time.Time {
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

func fixSilent(_ *checkup.Snapshot, _ *corev1.Service, found []checkup.Finding) remedy.Plan {
	for _, f := range found {
		if f.Key == "hash" {
			return remedy.Plan{Finding: f.Text, Steps: []remedy.Step{step.Touch{}}}
		}
	}
	return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
}
