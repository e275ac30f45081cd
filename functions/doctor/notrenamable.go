package doctor

import (
	"cmp"
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed notrenamable.md
var notRenamableDoc string

// notRenamable looks for load balancers that the controller finds only by their name.
var notRenamable = &doctor.Check{
	ID:    "not-renamable",
	Doc:   notRenamableDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups},
	Find:  findNotRenamable,
	Fix:   &doctor.Fix{Steps: []remedy.Step{step.TagLB{}}, Plan: fixNotRenamable},
}

func findNotRenamable(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if id, _ := ccm.Annotation(svc, "id"); id != "" {
			continue // found by its ID
		}
		b, err := s.Balancer(svc)
		if err != nil {
			r.Unknown(about(svc), err)
			continue
		}
		tag := ccm.DefaultName(svc)
		if b == nil || b.Tags[ccm.NameTag] == tag {
			continue
		}
		do := fmt.Sprintf("Don't rename it before it has the tag: %s.", ccm.TagCommand(svc, s.Region, b.ID, ccm.NameTag, tag))
		if doubt := doubt(s, svc, b); doubt != "" {
			do = doubt + " Don't rename it. If it is this Service's alone, tag it: " + ccm.TagCommand(svc, s.Region, b.ID, ccm.NameTag, tag) + "."
		}
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about(svc), Do: say.Literal(do), Evidence: map[string]string{"load balancer": b.ID, "name": b.Name, "address": b.Address},
			Text: say.F("%s has no tag %s: %s, as controllers before v1.9.3.10 made them: the controller finds it by its name %s alone, and who renames it takes it from the Service.", b.ID, ccm.NameTag, tag, b.Name)})
	}
}

// fixNotRenamable tags a load balancer that is proven to be the Service's.
func fixNotRenamable(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	p := remedy.Plan{Finding: found[0].Text}
	b, err := s.Balancer(svc)
	if err != nil || b == nil || doubt(s, svc, b) != "" {
		p.Ask = found[0].Do
		return p
	}
	p.Note = say.F("With this tag the controller deletes %s when the Service is deleted, as it does now while the name stands.", b.ID)
	p.Steps = []remedy.Step{step.TagLB{LB: b.ID, Key: ccm.NameTag, Value: ccm.DefaultName(svc), Network: b.NLB != nil}}
	return p
}

// doubt returns why the load balancer is not proven to be the Service's own, or can't be
// tagged, as sentences; empty if there is no doubt. Beside its name, which has the
// Service's UID in it, something on it has to name the Service, and nothing another.
func doubt(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) string {
	if value, ok := b.Tags[ccm.NameTag]; ok {
		return fmt.Sprintf("It has the tag %s with another value, %s: find out whose it is.", ccm.NameTag, ccm.Quote(value))
	}
	if b.Tags[ccm.ReusedTag] != "" {
		return fmt.Sprintf("It has the tag %s: a person made it, and the tag would have the controller delete it with the Service.", ccm.ReusedTag)
	}
	if ccm.TagsFull(&b.Instance) {
		return fmt.Sprintf("It has %d tags, which is the most it can: take one off that nobody needs.", len(b.Tags))
	}
	if err := cmp.Or(s.Err(doctor.Listeners, doctor.Groups), b.Err(doctor.Listeners, doctor.Groups)); err != nil {
		return fmt.Sprintf("What stands on it is not known (%s).", err)
	}
	var names []string
	for _, l := range standings(b) {
		names = append(names, l.trace)
	}
	for _, g := range b.Groups {
		names = append(names, g.Name)
	}
	ours := false
	for _, text := range names {
		switch t, ok := ccm.ParseTrace(text); {
		case ok && t.Of(svc, s.Cluster):
			ours = true
		case ok:
			return fmt.Sprintf("It serves the Service %s of the cluster %s too, and the tag would have the controller delete it with this one.", t, t.Cluster)
		}
	}
	if !ours {
		return "No listener and no group on it is named for the Service."
	}
	return ""
}
