package badannotation

import (
	"context"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// groupTexts are messages about groups that vgroup-port names (pkg/controller/service/nlbv2/server_groups.go and model_applier.go;
// clbv1/vgroups.go, which does not report them since v2.12).
var groupTexts = []string{
	"cannot find server group id", "cannot reuse a ccm created server group", "reused server group id * not found",
	"ServerGroupType of user managed server group", "can not find vgroupId", "cannot reuse a ccm created vgroup",
}

func ofGroups(message string) bool {
	return slices.ContainsFunc(groupTexts, func(t string) bool {
		first, _, _ := strings.Cut(t, " * ")
		return strings.Contains(strings.ToLower(message), strings.ToLower(first))
	})
}

func groups(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	named, err := c.NamedGroups(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	svc := c.Service
	var wrong []say.Text
	for _, g := range named {
		if text := g.Fault(svc); len(text) > 0 {
			wrong = append(wrong, text)
		}
	}
	value, _ := ccm.Annotation(svc, ccm.GroupPairs)
	finding := say.F("The annotation %s is %s.", ccm.GroupPairs, ccm.Quote(value))
	if id, _ := ccm.Annotation(svc, ccm.BalancerID); id == "" && value != "" && !ccm.NLB(svc) && len(ccm.Unpaired(svc)) == 0 {
		finding = finding.And("The controller uses its groups only on a CLB that the annotation id names.").Then(ccm.Retries())
		return remedy.Plan{Finding: finding, Wait: ccm.Retry}, nil
	}
	if len(named) == 0 {
		finding = say.F("The annotation %s names no group now.", ccm.GroupPairs).Then(ccm.Retries())
		return remedy.Plan{Finding: finding, Wait: ccm.Retry}, nil
	}
	if len(wrong) == 0 {
		return remedy.Plan{Finding: finding.And("The controller can use each group that it names now.").Then(ccm.Retries()), Wait: ccm.Retry}, nil
	}
	p := remedy.Plan{
		Finding: finding.And("The controller cannot use it: %s.", say.Clauses(wrong, len(wrong))),
		Ask: say.F("Name a group that exists and that no controller made: %s.", ccm.SetCommand(svc, ccm.GroupPairs, "VALUE")).
			And("Or remove the annotation, and the controller makes groups of its own: %s.", ccm.RemoveCommand(svc, ccm.GroupPairs)),
	}
	if i := slices.IndexFunc(named, func(g ccm.NamedGroup) bool { return g.Mistyped(svc) }); i >= 0 {
		p.Ask = p.Ask.And("Or take the type of the group %s: %s.", named[i].ID, ccm.SetCommand(svc, "server-group-type", strings.ToLower(named[i].Type)))
	}
	return p, nil
}

// releaseGone plans for a Service whose backends the controller would remove from a server group that no longer exists.
func releaseGone(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	gone, err := c.GoneGroups(ctx)
	if err != nil || len(gone) == 0 {
		return remedy.Plan{Finding: ccm.WhyLeaving(c.Service).Then(ccm.Retries()), Wait: ccm.Retry}, err
	}
	var ids []string
	for _, g := range gone {
		ids = append(ids, g.ID)
	}
	p := remedy.Plan{
		Finding: ccm.WhyLeaving(c.Service).
			And("Its annotation %s names server groups that do not exist: %s.", ccm.GroupPairs, say.List(quoted(ids), 5)).
			And("The controller wants to remove the Service's backends from them, and fails before it cleans up."),
		Risk: remedy.High, Note: afterRelease(c),
	}
	var edit remedy.Step = step.Without(c.Service, ccm.GroupPairs)
	command := ccm.RemoveCommand(c.Service, ccm.GroupPairs)
	if value := ccm.Keeping(c.Service, gone); value != "" {
		edit, command = step.With(c.Service, ccm.GroupPairs, value), ccm.SetCommand(c.Service, ccm.GroupPairs, value)
	}
	if c.Service.DeletionTimestamp == nil {
		p.Note, p.Ask = nil, say.F("Take them out of the annotation: %s. The controller then cleans up.", command)
		return p, nil
	}
	p.Steps = []remedy.Step{edit}
	return p, nil
}
