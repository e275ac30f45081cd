// Package vservergroupnotbuilt remedies Services with ports for which the controller cannot build a vServer group.
package vservergroupnotbuilt

import (
	"context"
	_ "embed"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy finds the cause, which the controller neither reports nor logs. It corrects an annotation only if it has one possible meaning.
var Remedy = &remedy.Remedy{
	Class:       "vserver-group-not-built",
	Doc:         doc,
	Texts:       []string{"can not find vgroup by name"},
	Reads:       slices.Concat(ccm.BoundReads, ccm.BuildingReads),
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{ccm.GroupPairs, ccm.GroupWeight, ccm.DefaultWeight},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	b, found, err := c.Unbuilt(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if len(found) == 0 {
		return remedy.Plan{
			Finding: say.F("Nothing keeps the controller from building the vServer groups of the Service now, as far as its nodes, endpoints and annotations tell."),
			Wait:    c.PollInterval(),
			Ask: say.F("The controller does not log why it could not build a group. Check whether it is throttled, or lacks the right to call %s or to read Pods: %s.",
				"slb:DescribeVServerGroups", c.LogQuery()),
		}, nil
	}
	p := remedy.Plan{Finding: ccm.DescribeObstacles(found), Cause: cause(found), Proven: !slices.ContainsFunc(found, func(o ccm.Obstacle) bool { return o.Doubt })}
	values, ok := ccm.Corrections(found)
	if !ok {
		p.Ask = b.Ask(found).Then(ccm.Retries())
		return p, nil
	}
	all := step.Annotate{Set: map[string]string{}, Was: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		one := step.With(c.Service, name, values[name])
		maps.Copy(all.Set, one.Set)
		maps.Copy(all.Was, one.Was)
		p.Finding = p.Finding.And("The annotation %s can only mean %s.", name, ccm.Quote(values[name]))
	}
	p.Steps = []remedy.Step{all}
	return p, nil
}

func cause(found []ccm.Obstacle) string {
	var nodes []string
	for _, o := range found {
		if o.Node {
			nodes = append(nodes, o.Name)
		}
	}
	slices.Sort(nodes)
	return remedy.List(nodes, 20)
}

// stillFails reports whether a group cannot be built, or the controller has not synced the Service in full.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	_, found, err := c.Unbuilt(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(found) > 0 || !ccm.InForce(c.Service)), nil
}
