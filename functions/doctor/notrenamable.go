package doctor

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// notRenamable looks for load balancers that the controller finds only by their name.
var notRenamable = &doctor.Check{
	ID:    "not-renamable",
	Doc:   page("not-renamable"),
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
		command := ccm.TagCommand(svc, s.Region, b.ID, ccm.NameTag, tag)
		do := say.F("Do not rename the load balancer before it has the tag: %s.", command)
		if doubt := doubt(s, svc, b); len(doubt) > 0 {
			do = doubt.And("Do not rename the load balancer. If it belongs only to this Service, tag it: %s.", command)
		}
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about(svc), Do: do,
			Evidence: map[string]string{"load balancer": b.ID, "name": b.Name, "address": b.Address},
			Text: say.F("The load balancer %s lacks the tag %s: %s, which controllers before v1.9.3.10 did not set.", b.ID, ccm.NameTag, tag).
				And("The controller finds it only by its name %s. If somebody renames it, the Service loses it.", b.Name)})
	}
}

func fixNotRenamable(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	b, err := s.Balancer(svc)
	if err != nil || b == nil || len(doubt(s, svc, b)) > 0 {
		return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
	}
	p := step.Retag(svc, &b.Instance)
	p.Finding, p.Note = found[0].Text, p.Note.And("It already does so as long as the load balancer keeps its name.")
	p.Steps = p.Steps[:1] // the controller still finds it, and a resync is not needed
	return p
}

// doubt returns why the load balancer is not proven to be the Service's or can't be tagged. Beside its name, something on it must name
// the Service, and nothing another.
func doubt(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) say.Text {
	if value, ok := b.Tags[ccm.NameTag]; ok {
		return say.F("Its tag %s has another value, %s: find out which Service it belongs to.", ccm.NameTag, ccm.Quote(value))
	}
	if ccm.TagsFull(&b.Instance) {
		return say.F("It carries %d tags, the maximum: remove one that nobody needs.", len(b.Tags))
	}
	ours, why := traced(s, svc, b)
	if len(why) == 0 && !ours {
		return say.F("None of its listeners and groups is named after the Service.")
	}
	return why
}

// traced reports whether listeners or groups of the load balancer are named after the Service, and why it may belong to somebody else.
func traced(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) (ours bool, why say.Text) {
	if b.Tags[ccm.ReusedTag] != "" {
		return false, say.F("It has the tag %s: a person created it. With the name tag, the controller would delete it with the Service.", ccm.ReusedTag)
	}
	if err := cmp.Or(s.Err(doctor.Listeners, doctor.Groups), b.Err(doctor.Listeners, doctor.Groups)); err != nil {
		return false, say.F("Its listeners and groups are not known (%s).", err)
	}
	var names []string
	for _, l := range b.Listeners {
		names = append(names, l.Description)
	}
	for _, l := range b.NetworkListeners {
		names = append(names, l.Description)
	}
	for _, g := range b.Groups {
		names = append(names, g.Name)
	}
	for _, text := range names {
		switch t, ok := ccm.ParseTrace(text); {
		case ok && t.Of(svc, s.Cluster):
			ours = true
		case ok:
			return false, say.F("It also serves the Service %s of the cluster %s, but with the tag the controller would delete it with this Service.", t, t.Cluster)
		}
	}
	return ours, nil
}
