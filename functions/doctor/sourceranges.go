package doctor

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// sourceRanges looks for Services that limit their clients to address ranges and whose load balancer lets in everyone.
var sourceRanges = &doctor.Check{
	ID:       "source-ranges",
	Doc:      page("source-ranges"),
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Guards, doctor.Listeners, doctor.Controller, doctor.Detail, doctor.Rights},
	Manifest: true,
	Find: func(s *doctor.Snapshot, r *doctor.Report) {
		for _, svc := range s.OfType() {
			if l := (&rangeLook{Snapshot: s, report: r, svc: svc, ranges: ccm.RangesOf(svc)}); len(l.ranges.Written) > 0 {
				l.find()
			}
		}
	},
	Fix: &doctor.Fix{
		Steps: []remedy.Step{step.Resync{}},
		Plan: func(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
			l := &rangeLook{Snapshot: s, report: &doctor.Report{}, svc: svc, ranges: ccm.RangesOf(svc)}
			plan := remedy.Plan{}
			for _, f := range found {
				plan.Finding = plan.Finding.Then(f.Text)
				if f.Key == "clients" && l.resyncs() {
					plan.Steps, plan.Risk = []remedy.Step{step.Resync{}}, remedy.High
					plan.Note = say.F("Clients outside the ranges lose access.")
				} else {
					plan.Ask = plan.Ask.Then(f.Do)
				}
			}
			return plan
		},
	},
}

var errSyncing = say.Errorf("whether its source ranges are enforced: a change of the Service is still being synced")

type rangeLook struct {
	*doctor.Snapshot
	report *doctor.Report
	svc    *corev1.Service
	ranges ccm.SourceRanges
}

func (l *rangeLook) add(severity doctor.Severity, key string, text, do say.Text, evidence ...string) {
	if !ccm.Synced(l.svc) { // it has no clients yet
		severity = min(severity, doctor.Warning)
	}
	e := map[string]string{"ranges": cut(strings.Join(l.ranges.Written, ", "))}
	for i := 0; i+1 < len(evidence); i += 2 {
		e[evidence[i]] = cut(evidence[i+1])
	}
	l.report.Add(doctor.Finding{Severity: severity, About: about(l.svc), Key: key, Text: text, Do: do, Evidence: e})
}

func (l *rangeLook) find() {
	if len(l.ranges.Strange) > 0 {
		l.report.Unknown(about(l.svc), say.Errorf("its source range %s is not a CIDR block", ccm.Quote(l.ranges.Strange[0])))
		return
	}
	switch {
	case l.ranges.Open(ccm.Family{}) && (!ccm.NLB(l.svc) || l.ranges.Open(ccm.Family{Six: true})):
		return // everyone may connect
	case !ccm.NLB(l.svc):
		l.classic()
	case !ccm.Synced(l.svc):
		l.early()
	default:
		l.network()
	}
}

func (l *rangeLook) limits() say.Text {
	if l.ranges.Key != "" {
		return say.F("The Service limits its clients to %s by the annotation %s.", say.List(l.ranges.Written, shown), l.ranges.Key)
	}
	return say.F("The Service limits its clients to %s (loadBalancerSourceRanges).", say.List(l.ranges.Written, shown))
}

// classic examines a CLB: no release applies ranges to it. An access control list can replace them.
func (l *rangeLook) classic() {
	text := l.limits().And("The controller does not enforce this on CLBs, in no release.")
	do := say.F("Use an access control list in their place: make one with these ranges in the console, then %s, %s and %s.",
		setTo(l.svc, "acl-id", "ACL-ID"), setTo(l.svc, "acl-type", "white"), setTo(l.svc, "acl-status", "on"))
	if l.svc.UID == "" {
		do = say.F("Use an access control list in their place: make one with these ranges in the console, then %s.",
			written(l.svc, "acl-id", "ACL-ID", "acl-type", "white", "acl-status", "on"))
	}
	if !ccm.OwnsListeners(l.svc) {
		do = say.F("Use an access control list of the type white with these ranges in their place. The controller does not change the listeners of a CLB that").
			And("is reused: turn the list on in the console, on each listener of the Service.")
	}
	id := ""
	var limited, open []string
	if ccm.Synced(l.svc) {
		b, err := l.Balancer(l.svc)
		if err == nil && b == nil {
			return // another check reports that it is gone
		}
		if err == nil {
			err = cmp.Or(l.Err(doctor.Listeners), b.Err(doctor.Listeners))
		}
		if err != nil {
			l.report.Unknown(about(l.svc), say.Errorf("whether an access control list limits its clients: %w", err))
			return
		}
		id = b.ID
		limited, open = l.listed(b)
	} else if v, _ := ccm.Annotation(l.svc, "acl-status"); v == "on" {
		if kind, _ := ccm.Annotation(l.svc, "acl-type"); kind == "white" {
			limited, _ = []string{"acl-id"}, open
		}
	}
	if len(limited) > 0 && len(open) == 0 {
		l.add(doctor.Info, "clients", text.And("Access control lists limit its clients. Whether they have the same ranges was not compared."),
			say.F("Compare the entries of the lists with the ranges, and remove the ranges from the Service."), "load balancer", id)
		return
	}
	if len(open) > 0 {
		text = text.And("The listeners %s of %s accept everyone who can reach them.", say.List(open, shown), id)
	} else {
		text = text.And("Everyone who can reach the load balancer gets in.")
	}
	l.add(doctor.Critical, "clients", text, do, "load balancer", id)
}

// listed returns the Service's listeners that an access control list limits to its entries, and the others.
func (l *rangeLook) listed(b *doctor.LoadBalancer) (limited, open []string) {
	for _, p := range l.svc.Spec.Ports {
		for _, listener := range b.Listeners {
			if at := ccm.ClassicListener(listener).String(); !ccm.ClassicListener(listener).Takes(p) {
				continue
			} else if listener.Config["AclStatus"] == "on" && listener.Config["AclType"] == "white" {
				limited = append(limited, at)
			} else {
				open = append(open, at)
			}
		}
	}
	return limited, open
}

// never says why no sync enforces an NLB's ranges, and what to do instead; empty if one does. err says why that is unknown.
func (l *rangeLook) never() (why, do say.Text, err error) {
	id, _ := ccm.Annotation(l.svc, "id")
	v, unknown := versionOf(l.Snapshot)
	first := ccm.EnforcesRanges()
	switch {
	case id != "":
		return say.F("The controller does not enforce this on an NLB that is reused, in no release."), l.byHand(), nil
	case l.ranges.Key != "":
		return say.F("The controller does not read this annotation, in no release."),
			say.F("Write the ranges into spec.loadBalancerSourceRanges, which CCM %s and newer enforce on NLBs, and remove the annotation: %s.",
				first, remove(l.svc, l.ranges.Key)), nil
	case unknown != nil:
		return nil, nil, unknown
	case v.Before(first):
		return say.F("CCM %s is running, and releases before %s do not enforce this.", v, first),
			say.F("Upgrade the controller to %s or newer: its first sync of the Service then enforces the ranges.", first).
				And("Until then, put a security group that accepts these ranges and drops all others into an annotation: %s.",
					setTo(l.svc, securityGroups, "SG-ID")), nil
	}
	return nil, nil, nil
}

const securityGroups = "security-group-ids"

func (l *rangeLook) byHand() say.Text {
	id, _ := ccm.Annotation(l.svc, "id")
	return say.F("Make a security group in the VPC of the NLB, with rules that accept these ranges and a rule that drops 0.0.0.0/0 after them (and ::/0).").
		And("Then let the NLB join it: aliyun nlb LoadBalancerJoinSecurityGroup --RegionId %s --LoadBalancerId %s --SecurityGroupIds.1 SG-ID.",
			cmp.Or(l.Region, "REGION"), ccm.Shell(cmp.Or(id, "NLB-ID")))
}

func (l *rangeLook) early() {
	why, do, err := l.never()
	switch {
	case err != nil:
		l.report.Unknown(about(l.svc), say.Errorf("whether the controller enforces its source ranges: %w", err))
	case len(why) > 0:
		l.add(doctor.Critical, "clients", l.limits().Then(why).And("Everyone who can reach the load balancer will get in."), do)
	case len(l.ranges.Of(ccm.Family{Six: true})) > 0:
		l.six(nil, nil)
	}
}

func (l *rangeLook) network() {
	b, err := l.Balancer(l.svc)
	if err == nil && (b == nil || b.NLB == nil) {
		return // another check reports that
	}
	var groups []cloud.SecurityGroup
	if err == nil {
		groups, err = l.GuardsOf(b)
	}
	if err != nil {
		l.report.Unknown(about(l.svc), say.Errorf("whether its source ranges are enforced: %w", err))
		return
	}
	four := l.ranges.Breaches(l.svc, ccm.Family{}, groups)
	six := ccm.Breach{}
	if b.NLB.IPVersion == "DualStack" {
		six = l.ranges.Breaches(l.svc, ccm.Family{Six: true}, groups)
	}
	if four.None() && six.None() {
		return
	}
	why, do, err := l.never()
	if err != nil {
		l.report.Unknown(about(l.svc), say.Errorf("why its source ranges are not enforced: %w", err))
	}
	never := len(why) > 0
	if !never && !l.settled() {
		l.report.Unknown(about(l.svc), errSyncing)
		return
	}
	if !four.None() {
		if err == nil && !never {
			why, do = l.lacking(b, groups, four)
		} else if err != nil {
			do = say.F("Find out which release of the controller runs: %s and newer enforce this, on NLBs that they create.", ccm.EnforcesRanges()).Then(l.byHand())
		}
		l.add(doctor.Critical, "clients", l.limits().Then(l.breach(b, four)).Then(why), do, "load balancer", b.ID,
			"security groups", strings.Join(b.NLB.SecurityGroups, ", "), "expected group", ccm.SourceGroupName(l.svc))
	}
	if !six.None() && (four.None() || !never) {
		l.six(b, &six)
	}
}

// settled reports whether the controller has synced the present state, or has had time to.
func (l *rangeLook) settled() bool {
	return l.inForce() || l.Time.Sub(l.Marks[l.svc.UID].Changed) >= overdue
}

// inForce reports whether the hash matches the present state and the running release: no other sync follows.
func (l *rangeLook) inForce() bool {
	hash, ok := ccm.Hash(l.svc, l.Controller.Version)
	return ok && hash == l.svc.Labels[ccm.HashLabel]
}
