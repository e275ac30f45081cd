package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// This part of the check source-ranges explains what security groups do, and why the controller can't enforce ranges with one.

func (l *rangeLook) breach(b *doctor.LoadBalancer, is ccm.Breach) say.Text {
	var text say.Text
	switch {
	case is.Open && len(b.NLB.SecurityGroups) == 0:
		text = say.F("But %s is in no security group: everyone who can reach it gets in.", b.ID)
	case is.Open:
		text = say.F("But no rule of the security groups of %s (%s) drops all others: everyone who can reach it gets in.", b.ID,
			say.List(b.NLB.SecurityGroups, shown))
	case len(is.Wider) > 0:
		text = say.F("But %s lets in others, by its security groups: %s.", b.ID, say.Clauses(rulesOf(is.Wider), shown))
	}
	if len(is.Refused) > 0 {
		var refused []string
		for _, p := range is.Refused {
			refused = append(refused, p.String())
		}
		text = text.And("The security groups of %s keep out clients in these ranges: %s.", b.ID, say.List(refused, shown))
	}
	return text
}

func rulesOf(list []ccm.GroupRule) []say.Text {
	var out []say.Text
	for _, r := range list {
		out = append(out, say.F("%s of %s: %s", cmp.Or(r.ID, "rule"), r.Group, ccm.SayRule(r.SecurityRule)))
	}
	return out
}

// lacking says why a release that enforces ranges has not done so, and what to do. Problems with the security group appear only in the
// controller's log, and the sync succeeds (pkg/controller/service/nlbv2/model_applier.go of v2.14.0).
func (l *rangeLook) lacking(b *doctor.LoadBalancer, groups []cloud.SecurityGroup, is ccm.Breach) (why, do say.Text) {
	tag, want := ccm.NameTag+"="+ccm.DefaultName(l.svc), ccm.SourceGroupName(l.svc)
	switch n := len(b.Marked); {
	case n == 0:
		why = say.F("The controller has not created the security group %s with the tag %s for it, or not found it.", want, tag)
	case n > 1:
		return say.F("%s have the tag %s: %s. The controller expects one and uses none of them.", say.Count(n, "security group"), tag, say.List(b.Marked, shown)),
			say.F("Keep the security group that is called %s and has the description %s. Delete the others: aliyun ecs DeleteSecurityGroup --RegionId %s "+
				"--SecurityGroupId SG-ID.", want, ccm.SourceGroupText(l.svc, l.Cluster), l.Region).Then(l.resyncText())
	case !slices.Contains(b.NLB.SecurityGroups, b.Marked[0]):
		why = say.F("%s is not in the security group %s that has the tag %s.", b.ID, b.Marked[0], tag)
	default:
		why = l.differing(b, groups)
	}
	if unmanaged := l.unmanagedRules(b, is); len(unmanaged) > 0 {
		do = say.F("The controller leaves rules alone that it has not written. Remove them, if the ranges are right: %s.", say.Clauses(l.revoke(unmanaged), shown))
		if !l.repairs(b, groups) {
			return why, do
		}
	}
	lacks, need, err := l.lacks()
	switch {
	case err != nil:
		l.report.Unknown(about(l.svc), say.Errorf("whether the controller may change security groups: %w", err))
		do = do.Then(l.log())
	case len(lacks.Missing) > 0:
		why = why.And("The controller's RAM role %s does not allow %s that it needs for this: %s.", l.Role.Name,
			say.Count(len(lacks.Missing), "action"), say.List(lacks.Missing, mostActions))
		if len(lacks.Denied) > 0 {
			do = do.And("Find out who wrote the Deny statement of the role that forbids %s, and remove these actions from it.", say.List(lacks.Denied, mostActions))
		}
		if may := slices.Concat(lacks.Absent, lacks.Limited); len(may) > 0 {
			do = do.And("Allow them: %s. Or let lbremedy do it: lbremedy doctor --fix permissions --apply.", l.Role.Allow(may))
		}
	case l.Detail.Managed() || l.Controller.AccessKey || l.Role.Name == "":
		do = do.And("Check that the controller may call these actions: %s.", say.List(need, len(need))).
			And("Its log says what was refused: %s.", remedy.LogQuery(name(l.svc)))
	default:
		do = do.Then(l.log())
	}
	if l.inForce() {
		why = why.And("The Service counts as synced, so the controller does not try again.")
	}
	return why, do.Then(l.resyncText())
}

func (l *rangeLook) log() say.Text {
	return say.F("Look for errors about it in the controller's log: %s.", remedy.LogQuery(name(l.svc)))
}

func (l *rangeLook) resyncText() say.Text {
	return say.F("Then trigger a resync: %s.", ccm.ResyncCommand(l.svc))
}

func (l *rangeLook) own(b *doctor.LoadBalancer, groups []cloud.SecurityGroup) (cloud.SecurityGroup, bool) {
	if len(b.Marked) != 1 {
		return cloud.SecurityGroup{}, false
	}
	i := slices.IndexFunc(groups, func(g cloud.SecurityGroup) bool { return g.ID == b.Marked[0] })
	if i < 0 {
		return cloud.SecurityGroup{}, false
	}
	return groups[i], true
}

func (l *rangeLook) differing(b *doctor.LoadBalancer, groups []cloud.SecurityGroup) (why say.Text) {
	if g, ok := l.own(b, groups); ok {
		var list []say.Text
		for _, r := range ccm.Without(g.Rules, ccm.SourceRules(l.svc, l.Cluster)) {
			list = append(list, ccm.SayRule(r))
		}
		if len(list) > 0 {
			return say.F("The security group %s lacks these rules of the controller: %s.", g.ID, say.Clauses(list, shown))
		}
	}
	return nil
}

// unmanagedRules returns the rules that let others in and that the controller leaves alone: of other groups, or with another description.
func (l *rangeLook) unmanagedRules(b *doctor.LoadBalancer, is ccm.Breach) []ccm.GroupRule {
	return slices.DeleteFunc(slices.Clone(is.Wider), func(r ccm.GroupRule) bool {
		return slices.Contains(b.Marked, r.Group) && r.Description == ccm.SourceGroupText(l.svc, l.Cluster)
	})
}

func (l *rangeLook) revoke(list []ccm.GroupRule) []say.Text {
	var out []say.Text
	for _, r := range list {
		command := fmt.Sprintf("aliyun ecs RevokeSecurityGroup --RegionId %s --SecurityGroupId %s --SecurityGroupRuleId.1 %s", l.Region, r.Group, r.ID)
		out = append(out, say.F("%s", command))
	}
	return out
}

func (l *rangeLook) repairs(b *doctor.LoadBalancer, groups []cloud.SecurityGroup) bool {
	g, ok := l.own(b, groups)
	if !ok {
		return len(b.Marked) < 2
	}
	if len(ccm.Without(g.Rules, ccm.SourceRules(l.svc, l.Cluster))) > 0 {
		return true
	}
	wider := l.ranges.Breaches(l.svc, ccm.Family{}, []cloud.SecurityGroup{g}).Wider
	return len(l.unmanagedRules(b, ccm.Breach{Wider: wider})) < len(wider)
}

// lacks returns the actions for source ranges that the controller's role lacks, as far as known, and all needed ones.
func (l *rangeLook) lacks() (lacks ccm.Gap, need []string, err error) {
	if err := l.Err(doctor.Detail); err != nil {
		return lacks, nil, err
	}
	need = ccm.RangeNeeds(l.Controller.Version, l.Detail)
	if l.Detail.Managed() || l.Controller.AccessKey {
		return lacks, need, nil
	}
	if err := l.Err(doctor.Rights); err != nil {
		return lacks, need, err
	}
	if why := l.Role.Doubt(l.Controller.Version); len(why) > 0 {
		return lacks, need, doubtful(why)
	}
	if l.Role.Name == "" {
		return lacks, need, nil
	}
	return l.Role.Lacks(need), need, nil
}

// resyncs reports whether a resync is known to enforce the ranges in the controller's own group.
func (l *rangeLook) resyncs() bool {
	why, _, err := l.never()
	if err != nil || len(why) > 0 || len(l.ranges.Of(ccm.Family{Six: true})) > 0 || !l.settled() {
		return false
	}
	b, err := l.Balancer(l.svc)
	if err != nil || b == nil || b.NLB == nil {
		return false
	}
	groups, err := l.GuardsOf(b)
	if err != nil {
		return false
	}
	lacks, _, err := l.lacks()
	is := l.ranges.Breaches(l.svc, ccm.Family{}, groups)
	return err == nil && len(lacks.Missing) == 0 && len(l.unmanagedRules(b, is)) == 0 && l.repairs(b, groups)
}

// six reports the effect on clients with IPv6: the controller sends all ranges as IPv4, and drops only IPv4 traffic.
func (l *rangeLook) six(b *doctor.LoadBalancer, is *ccm.Breach) {
	ranges := l.ranges.Of(ccm.Family{Six: true})
	text := l.limits()
	var evidence []string
	if b != nil {
		evidence = []string{"load balancer", b.ID, "security groups", strings.Join(b.NLB.SecurityGroups, ", ")}
		if is.Open {
			text = text.And("No rule of the security groups of %s drops other clients with IPv6 addresses: all of these get in.", b.ID)
		} else {
			text = text.Then(l.breach(b, *is))
		}
	}
	if len(ranges) > 0 {
		var names []string
		for _, p := range ranges {
			names = append(names, p.String())
		}
		text = text.And("The controller sends all ranges as IPv4, so it makes no rule that accepts %s.", say.List(names, shown))
	} else {
		text = text.And("The controller makes rules for IPv4 alone.")
	}
	do := say.F("Write the rules for IPv6 by hand, with a description of your own, into a security group of the NLB: accept the ranges, and drop ::/0 after them.")
	if len(ranges) > 0 {
		do = do.And("Take the IPv6 ranges out of the Service.")
	}
	l.add(doctor.Critical, "ipv6", text, do, evidence...)
}
