package doctor

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// eventWriters checks who writes Events in the controller's name: lbremedy acts on these Events.
var eventWriters = &doctor.Check{
	ID:    "event-writers",
	Doc:   page("event-writers"),
	Needs: []doctor.Part{doctor.Services, doctor.Events},
	Uses:  []doctor.Part{doctor.Writers},
	Find:  findEventWriters,
}

const (
	// usualWriter is the field manager that the API server records for the controller: its program's name. The controller's Events name no host.
	usualWriter = "cloud-controller-manager"
	// backdated is how long before the API server received an Event the event may have happened.
	backdated = 10 * time.Minute
	most      = 8   // writers or Services that the text of a finding names
	mostList  = 100 // Services that a finding lists
)

var onlyController = say.F("Let only the controller write in its name: rbac.eventWriters of the chart (infra/cluster/README.md).")

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
				writers.count(nameOf(w, c.Host), c)
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
			Severity: doctor.Warning, About: s.OfCluster(), Key: "writers", Services: writers.services(),
			Evidence: map[string]string{"writers": cut(writers.clauses().String())},
			Text:     say.F("A writer that does not call itself %s wrote Events in the controller's name: %s.", usualWriter, writers.clauses()),
			Do:       say.F("Find out from the API server's audit log who that is.").Then(onlyController),
		})
	}
	for _, key := range sorted(lies) {
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: key, Services: lies[key].services(),
			Text: untrue(key, lies[key].clauses()),
			Do:   say.F("Find out who wrote them: kubectl get events -o yaml --show-managed-fields, in their namespaces.").Then(onlyController),
		})
	}
	if nobody > 0 {
		r.Unknown(s.OfCluster(), say.Errorf("who wrote %s in the controller's name: the API server has kept no writer", say.Count(nobody, "Event")), "writers")
	}
	for _, svc := range s.OfType() {
		if n := s.Unkept[svc.UID]; n > 0 {
			r.Unknown(about(svc), say.Errorf("what %s more about it say: there are too many", say.Count(n, "Event")))
		}
	}
	if s.Unclaimed > 0 {
		r.Unknown(s.OfCluster(), say.Errorf("what %s more in the controller's name say: there are too many", say.Count(s.Unclaimed, "Event")))
	}
	findWritersPolicy(s, r)
}

func nameOf(writer, host string) string {
	if host == "" {
		return ccm.Quote(writer)
	}
	return ccm.Quote(writer) + "@" + ccm.Quote(host)
}

func untrue(key string, which say.Text) say.Text {
	switch key {
	case "uid":
		return say.F("Events in the controller's name have a UID that no Service can have: %s.", which)
	case "name":
		return say.F("Events in the controller's name have the name of one Service and the UID of another: %s.", which)
	case "class":
		return say.F("Events in the controller's name are about Services that it does not handle under that name: %s.", which)
	case "future":
		return say.F("Events in the controller's name are dated in the future: %s.", which)
	}
	return say.F("Events in the controller's name are dated before they can have happened: %s.", which)
}

// contradiction returns how an Event contradicts the cluster, or "". byUID and byName may be nil: a deleted Service leaves Events behind.
func contradiction(s *doctor.Snapshot, c doctor.Claim, byUID, byName *corev1.Service) string {
	switch {
	case !c.Possible():
		return "uid"
	case byUID != nil && name(byUID) != c.Object.Namespace+"/"+c.Object.Name:
		return "name"
	case byUID == nil && byName != nil && c.Last.After(byName.CreationTimestamp.Add(skew)):
		return "name" // the UID is that of the previous Service, which no longer existed
	case c.First.After(s.Time.Add(skew)) || c.Last.After(s.Time.Add(skew)):
		return "future"
	case c.Last.Before(c.First) || c.Last.Before(c.Created.Add(-backdated)):
		return "past"
	case byUID != nil && misnamed(byUID, c.Component) && c.Last.After(changed(s, byUID).Add(overdue)):
		return "class"
	}
	return ""
}

// misnamed reports whether no part of this name handles the Service. A part still handles one with its finalizer or a changed type.
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

func changed(s *doctor.Snapshot, svc *corev1.Service) time.Time {
	if at := s.Marks[svc.UID].Changed; !at.IsZero() {
		return at
	}
	return svc.CreationTimestamp.Time
}

func findWritersPolicy(s *doctor.Snapshot, r *doctor.Report) {
	if err := s.Err(doctor.Writers); err != nil {
		r.Unknown(s.OfCluster(), say.Errorf("who may write Events in the controller's name: %w", err), "policy")
		return
	}
	f := doctor.Finding{Severity: doctor.Info, About: s.OfCluster(), Key: "policy"}
	switch {
	case len(s.Writers.Actions) == 0:
		f.Text = say.F("The admission policy %s is not in force.", doctor.WritersPolicy).
			And("Anyone who can create Events in a namespace can write them in the controller's name.")
		f.Do = say.F("Set rbac.eventWriters of the chart to Warn. When the warnings name only the controller, set it to Deny.").
			And("See infra/cluster/README.md. This needs Kubernetes 1.30 or newer.")
	case !slices.Contains(s.Writers.Actions, "Deny"):
		f.Text = say.F("The admission policy %s lets others write Events in the controller's name: its mode is %s.",
			doctor.WritersPolicy, strings.Join(s.Writers.Actions, ", "))
		f.Do = say.F("When the API server's audit log names only the controller, set rbac.eventWriters of the chart to Deny.")
	case s.Writers.Limited:
		f.Text = say.F("The admission policy %s is in force for some objects or namespaces only.", doctor.WritersPolicy)
		f.Do = say.F("Remove matchResources from its binding: kubectl edit validatingadmissionpolicybinding %s.", doctor.WritersPolicy)
	default:
		return
	}
	r.Add(f)
}

type tally map[string]map[string]int

func (t tally) count(key string, c doctor.Claim) {
	if t[key] == nil {
		t[key] = map[string]int{}
	}
	t[key][c.Object.Namespace+"/"+c.Object.Name]++
}

func (t tally) clauses() say.Text {
	var list []say.Text
	for _, key := range sorted(t) {
		n := 0
		for _, of := range t[key] {
			n += of
		}
		list = append(list, say.F("%s (%s)", cut(key), say.Count(n, "Event")))
	}
	return say.Clauses(list, most)
}

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
