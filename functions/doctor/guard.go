package doctor

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/shared/say"
)

// guarded says how far the guard is in force, and for which Services somebody has lifted it.
var guarded = &doctor.Check{
	ID:    "guard",
	Doc:   page("guard"),
	Needs: []doctor.Part{doctor.Services, doctor.Guard},
	Find:  findGuard,
}

func findGuard(s *doctor.Snapshot, r *doctor.Report) {
	f := doctor.Finding{Severity: doctor.Info, About: s.OfCluster(), Key: "policy"}
	switch {
	case len(s.Guard.Actions) == 0:
		f.Text = say.F("The guard is off: edits that cost a Service its load balancer or its address are neither refused nor warned of.")
		f.Do = say.F("Set guard of the chart to warn or deny (infra/cluster/guard.md). This needs Kubernetes 1.30 or newer.")
		r.Add(f)
		return
	case !slices.Contains(s.Guard.Actions, "Deny"):
		f.Text = say.F("The guard lets edits through that cost a Service its load balancer or its address: its mode is %s.", strings.Join(s.Guard.Actions, ", "))
		f.Do = say.F("When the API server's audit log names only edits that should be refused, set guard of the chart to deny.")
		r.Add(f)
	case s.Guard.Limited:
		f.Text = say.F("The guard refuses edits that cost a Service its load balancer or its address, but not in all namespaces.")
		f.Do = say.F("Take the namespaces that need it out of guardExcept of the chart.")
		r.Add(f)
	}
	for _, svc := range s.OfType() {
		if why := svc.Annotations[guard.Allow]; guard.Reason(why) {
			r.Add(doctor.Finding{
				Severity: doctor.Info, About: about(svc), Key: "allowed",
				Text: say.F("The annotation %s lifts the guard from this Service: %s.", guard.Allow, ccm.Quote(why)),
				Do:   say.F("Remove it when the edit is made: kubectl -n %s annotate service %s %s-.", svc.Namespace, svc.Name, guard.Allow),
			})
		}
	}
}
