// Package badannotation remedies Services with an annotation that the controller can't read.
package badannotation

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy names the annotation and the values that it takes. It corrects the value only if that
// can mean nothing but what the load balancer has.
var Remedy = &remedy.Remedy{
	Class: "bad-annotation",
	Doc:   doc,
	Texts: []string{
		"must be integer, but got [",
		"bandwidth must be integer, got [",
		"zone mappings are required",
		"ZoneMapping format error",
		"port and protocol format must be like",
		"forward port format error",
		"forward port is not an integer",
		"port protocol format must be either",
		"listener from servicePort * protocol is not supported",
		"vgroupid and protocol format must be like",
		"weight must be integer in range",
	},
	Reads: slices.Concat(ccm.BoundReads, ccm.NetworkReads,
		[]grant.Grant{grant.DescribeClusterDetail, grant.DescribeVSwitches}),
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: ccm.ShownValues(),
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	all := ccm.Faults(c.Service)
	i := slices.IndexFunc(all, func(f ccm.Fault) bool { return f.Named(c.Event.Message) })
	if i < 0 {
		return unnamed(c, all), nil
	}
	f := all[i]
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	is, err := c.ValueOf(ctx, lb, f.ValueRule)
	if err != nil {
		return remedy.Plan{}, err
	}
	var zones say.Text
	if is == "" && f.Name == "zone-maps" {
		if zones, err = c.SuggestZones(ctx); err != nil {
			return remedy.Plan{}, err
		}
	}
	rest := slices.DeleteFunc(all, func(o ccm.Fault) bool { return o.Name == f.Name })
	return plan(c.Service, lb, f, rest, is, zones), nil
}

// stillFails reports whether the annotation that the failure names is still wrong. If lbremedy
// does not know that annotation, only the controller can tell.
func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	known := slices.ContainsFunc(ccm.ValueRules(), func(r ccm.ValueRule) bool { return r.Reads(ccm.NLB(c.Service)) && r.Named(c.Event.Message) })
	wrong := slices.ContainsFunc(ccm.Faults(c.Service), func(f ccm.Fault) bool { return f.Named(c.Event.Message) })
	return remedy.Is(!known || wrong), nil
}
