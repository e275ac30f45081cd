// Package namereserved remedies Services whose load balancer is to have a name that Alibaba Cloud keeps for itself.
package namereserved

import (
	"context"
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: the owner of the Service chooses the load balancer's name.
var Remedy = &remedy.Remedy{
	Class:      "name-reserved",
	Doc:        doc,
	Texts:      []string{"LoadBalancerName is reserved"},
	Diagnose:   diagnose,
	StillFails: stillFails,
}

const nameOf = "name"

func diagnose(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
	name, _ := ccm.Annotation(c.Service, nameOf)
	return remedy.Plan{
		Finding: say.F("The annotation name asks for %s, a name that Alibaba Cloud keeps for itself.", ccm.Quote(name)),
		Ask:     say.F("Choose another name: %s.", ccm.SetCommand(c.Service, nameOf, "web")),
		Cause:   name,
	}, nil
}

func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	name, _ := ccm.Annotation(c.Service, nameOf)
	return remedy.Is(name != ""), nil
}
