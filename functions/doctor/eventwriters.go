package doctor

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed eventwriters.md
var eventWritersDoc string

// eventWriters looks at who writes Events in the controller's name, which are what makes
// lbremedy look at a Service.
var eventWriters = &doctor.Check{
	ID:    "event-writers",
	Doc:   eventWritersDoc,
	Needs: []doctor.Part{doctor.Services, doctor.Events},
	Uses:  []doctor.Part{doctor.Guard},
	Find:  findEventWriters,
}

const (
	// usualWriter is what the API server calls the controller in what it has written: the
	// name of its program. Its Events name no machine.
	usualWriter = "cloud-controller-manager"
	// backdated is how long before the API server took an Event what it tells of may have
	// happened.
	backdated = 10 * time.Minute
	most      = 8   // writers or Services that the text of a finding names
	mostList  = 100 // Services that a finding lists
)

// onlyController ends what is to be done about Events that somebody else has written.
const onlyController = "Let only the controller write in its name: rbac.eventWriters of the chart (infra/cluster/README.md)."

func findEventWriters(s *doctor.Snapshot, r *doctor.Report) {
	writers, lies := tally{}, map[string]tally{}
	nobody := 0
	byUID, byName := map[string]*corev1.Service{}, map[string]*corev1.Service{}
	for i := range s.Services {
		svc := &s.Services[i]
		byUID[string(svc.UID)], byName[name(svc)] = svc, svc
	}
	for _, c := range s.Claims {
		if len(c.Writers) == 0 {
			nobody++
		}
		for _, w := range c.Writers {
			if w != usualWriter || c.Host != "" {
				writers.count(calls(w, c.Host), c)
			}
		}
		if key := contradiction(s, c, byUID[c.Object.UID], byName[c.Object.Namespace+"/"+c.Object.Name]); key != "" {
			if lies[key] == nil {
				lies[key] = tally{}
			}
			lies[key].count(c.Object.Namespace+"/"+c.Object.Name, c)
		}
	}
	if len(writers) > 0 {
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: "writers", Evidence: map[string]string{"writers": cut(writers.String())}, Services: writers.services(),
			Text: say.F("Events in the name of the controller were written by somebody who does not call himself %s: %s.", usualWriter, writers.String()),
			Do:   say.F("Find out who that is, from the API server's audit log. %s", onlyController),
		})
	}
	for _, key := range sorted(lies) {
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: key, Services: lies[key].services(),
			Text: say.F("Events in the name of the controller %s: %s.", untrue[key], lies[key].String()),
			Do:   say.F("Find out who wrote them: kubectl get events -o yaml --show-managed-fields, in their namespaces. %s", onlyController),
		})
	}
	if nobody > 0 {
		r.Unknown(s.OfCluster(), fmt.Errorf("who wrote %s in the name of the controller: the API server has kept no writer", ccm.Count(nobody, "Event")))
	}
	if s.Unclaimed > 0 {
		r.Unknown(s.OfCluster(), fmt.Errorf("what %s more in the name of the controller tell: they are too many", ccm.Count(s.Unclaimed, "Event")))
	}
	guarded(s, r)
}

// calls returns what a writer calls himself, and where he says that he is.
func calls(writer, host string) string {
	if host != "" {
		return fmt.Sprintf("%s on %s", ccm.Quote(writer), ccm.Quote(host))
	}
	return ccm.Quote(writer)
}

// untrue says of each kind of contradiction what Events are said to do.
var untrue = map[string]string{
	"uid":    "are about a UID that no Service has",
	"name":   "name another Service than their UID is of",
	"class":  "are about Services that it does not answer for under that name",
	"future": "are dated in the future",
	"past":   "are dated before they can have happened",
}

// contradiction returns how an Event contradicts the cluster; empty if it does not. The
// Services are those with its UID and with its name, nil where there is none: one that is
// gone leaves Events, so that it does not count that there is none.
func contradiction(s *doctor.Snapshot, c doctor.Claim, byUID, byName *corev1.Service) string {
	switch {
	case !c.Possible():
		return "uid"
	case byUID != nil && name(byUID) != c.Object.Namespace+"/"+c.Object.Name:
		return "name"
	case byUID == nil && byName != nil && c.Last.After(byName.CreationTimestamp.Add(skew)):
		return "name" // of the one before, which was gone by then
	case c.First.After(s.Time.Add(skew)) || c.Last.After(s.Time.Add(skew)):
		return "future"
	case c.Last.Before(c.First) || c.Last.Before(c.Created.Add(-backdated)):
		return "past"
	case byUID != nil && misnamed(byUID, c.Component) && c.Last.After(changed(s, byUID).Add(overdue)):
		return "class"
	}
	return ""
}

// misnamed reports whether no part of the controller answers for the Service under this
// name. One that it has not let go of, or that has another type now, it may answer for.
func misnamed(svc *corev1.Service, component string) bool {
	network := component == "nlb-controller"
	finalizer := ccm.CLBFinalizer
	if network {
		finalizer = ccm.NLBFinalizer
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || slices.Contains(svc.Finalizers, finalizer) {
		return false
	}
	return !doctor.Ours(svc) || ccm.NLB(svc) != network
}

// changed returns when anybody last changed what the controller syncs a Service by.
func changed(s *doctor.Snapshot, svc *corev1.Service) time.Time {
	if at := s.Marks[svc.UID].Changed; !at.IsZero() {
		return at
	}
	return svc.CreationTimestamp.Time
}

// guarded says how far the policy is in force that lets only named identities write Events
// in the controller's name.
func guarded(s *doctor.Snapshot, r *doctor.Report) {
	if err := s.Err(doctor.Guard); err != nil {
		r.Unknown(s.OfCluster(), fmt.Errorf("who may write Events in the name of the controller: %w", err))
		return
	}
	text, do := "", ""
	switch {
	case len(s.Guard.Actions) == 0:
		text = "Whoever may create Events in a namespace may write them in the name of the controller: the admission policy " + doctor.GuardPolicy + " is not in force."
		do = "Set rbac.eventWriters of the chart to Warn, and when its warnings name nobody but the controller, to Deny (infra/cluster/README.md; Kubernetes 1.30 and later)."
	case !slices.Contains(s.Guard.Actions, "Deny"):
		text = "The admission policy " + doctor.GuardPolicy + " refuses nobody who writes Events in the name of the controller: its mode is " + strings.Join(s.Guard.Actions, ", ") + "."
		do = "When the API server's audit log names nobody but the controller, set rbac.eventWriters of the chart to Deny."
	case s.Guard.Limited:
		text = "The admission policy " + doctor.GuardPolicy + " is in force for some objects or namespaces only."
		do = "Take matchResources out of its binding: kubectl edit validatingadmissionpolicybinding " + doctor.GuardPolicy + "."
	default:
		return
	}
	r.Add(doctor.Finding{Severity: doctor.Info, About: s.OfCluster(), Key: "policy", Text: say.Literal(text), Do: say.Literal(do)})
}

// A tally counts Events by what they have in common, and knows their Services.
type tally map[string]map[string]int

func (t tally) count(key string, c doctor.Claim) {
	if t[key] == nil {
		t[key] = map[string]int{}
	}
	t[key][c.Object.Namespace+"/"+c.Object.Name]++
}

// String names what they have in common, and how many Events each has.
func (t tally) String() string {
	var list []string
	for _, key := range sorted(t) {
		n := 0
		for _, of := range t[key] {
			n += of
		}
		list = append(list, fmt.Sprintf("%s (%s)", cut(key), ccm.Count(n, "Event")))
	}
	return ccm.Clauses(list, most)
}

// services returns what Services some of them are about.
func (t tally) services() []string {
	var list []string
	for _, key := range sorted(t) {
		for _, name := range sorted(t[key]) {
			if len(list) < mostList && !slices.Contains(list, cut(name)) {
				list = append(list, cut(name))
			}
		}
	}
	return list
}
