package lbambiguous

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

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
	return remedy.Plan{Finding: say.F("%d load balancers have %s: %s.", len(found), s.by, say.Clauses(texts, shown)), Ask: ask, Proven: true}
}

// own returns the match that the Service's own marks point to, and advice to keep it; "" if they point to several or none.
func own(c *remedy.Case, found []match) (string, say.Text) {
	svc := c.Service.Namespace + "/" + c.Service.Name
	for _, mark := range []struct {
		why  say.Text
		fits func(match) bool
	}{
		{say.F("It has the address of the Service."), func(m match) bool { return m.Address != "" && m.Address == ccm.Address(c.Service) }},
		{say.F("The controller left its ID on the Service."), func(m match) bool { return m.ID == c.Service.Labels[ccm.BalancerLabel] }},
		{say.F("Only it has listeners or vServer groups of the Service."), func(m match) bool { return slices.Contains(m.Here, svc) }},
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

func (m match) text() say.Text {
	facts := []say.Text{say.F("named %s", ccm.Quote(m.Name)), say.F("at %s", m.Address)}
	var tags, listeners, groups []string
	for _, k := range slices.Sorted(maps.Keys(m.Tags)) {
		tags = append(tags, fmt.Sprintf("%.60s=%.60s", k, m.Tags[k]))
	}
	for _, l := range m.Listeners {
		if l.Description == "" {
			listeners = append(listeners, l.String())
		} else {
			listeners = append(listeners, l.String()+" "+ccm.Quote(l.Description))
		}
	}
	for _, g := range m.Groups {
		groups = append(groups, ccm.Quote(g))
	}
	if len(tags) > 0 {
		facts = append(facts, say.F("tagged %s", say.List(tags, 6)))
	}
	if len(listeners) > 0 {
		facts = append(facts, say.F("with the listeners %s", say.List(listeners, 6)))
	} else {
		facts = append(facts, say.F("without listeners"))
	}
	if len(groups) > 0 {
		facts = append(facts, say.F("with the vServer groups %s", say.List(groups, 6)))
	}
	if len(m.Here) > 0 {
		facts = append(facts, say.F("used by %s", say.List(m.Here, 5)))
	}
	if len(m.Elsewhere) > 0 {
		facts = append(facts, say.F("used by other clusters: %s", say.List(m.Elsewhere, 5)))
	}
	return say.F("%s (%s)", m.ID, say.Clauses(facts, len(facts)))
}
