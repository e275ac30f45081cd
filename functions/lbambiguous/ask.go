package lbambiguous

import (
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// choose asks which of the matches is the Service's, and suggests the one that the Service's own
// marks point to.
func choose(c *remedy.Case, s search, found []match) remedy.Plan {
	var texts []say.Text
	for _, m := range found {
		texts = append(texts, m.text())
	}
	keep, ask := own(c, found)
	other := "LOAD-BALANCER-ID"
	if keep != "" {
		if other = found[0].ID; other == keep {
			other = found[1].ID
		}
	}
	if s.tag {
		ask = ask.And("Remove the tag from the others, for example: %s.", c.UntagCommand(other, ccm.NameTag))
	} else {
		ask = ask.And("Rename the others, for example: %s.", c.RenameCommand(other, "not-"+other))
	}
	ask = ask.And("Change nothing else on load balancers that others use.").
		And("Delete nothing before that: together with the Service, the controller deletes what it takes for the Service's load balancer.")
	if c.Service.DeletionTimestamp != nil {
		ask = ask.And("The Service is already being deleted. The load balancer that remains is deleted with it at once.")
	}
	return remedy.Plan{Finding: say.F("%d load balancers have %s: %s.", len(found), s.by, say.Clauses(texts, shown)), Ask: ask, Seen: true}
}

// own returns the ID of the match that the Service's own marks point to, and asks to keep it. The
// ID is empty if they point to none or to several.
func own(c *remedy.Case, found []match) (string, say.Text) {
	svc := c.Service.Namespace + "/" + c.Service.Name
	for _, mark := range []struct {
		why  say.Text
		fits func(match) bool
	}{
		{say.F("It has the address of the Service."), func(m match) bool { return m.Address != "" && m.Address == ccm.Address(c.Service) }},
		{say.F("The controller left its ID on the Service."), func(m match) bool { return m.ID == c.Service.Labels[ccm.BalancerLabel] }},
		{say.F("Only it has listeners or vServer groups of the Service."), func(m match) bool { return slices.Contains(m.here, svc) }},
	} {
		var fit []string
		for _, m := range found {
			if mark.fits(m) {
				fit = append(fit, m.ID)
			}
		}
		if len(fit) == 1 {
			return fit[0], say.F("Keep %s unless something speaks against it.", fit[0]).Then(mark.why)
		}
	}
	return "", say.F("Find out which one serves the Service.")
}
