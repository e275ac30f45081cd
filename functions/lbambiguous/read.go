package lbambiguous

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A match is one of the load balancers that the controller cannot tell apart.
type match struct {
	*ccm.Instance
	listeners []string // with their descriptions
	groups    []string // names of the vServer groups
	here      []string // Services of this cluster that listeners or groups were created for
	elsewhere []string // Services of other clusters
}

// shown is how many load balancers are described.
const shown = 6

// read reads the listeners and vServer groups of the first few load balancers.
func read(ctx context.Context, c *remedy.Case, lbs []*ccm.Instance) ([]match, error) {
	found := make([]match, len(lbs))
	for i, lb := range lbs {
		m := &found[i]
		m.Instance = lb
		if i >= shown {
			continue
		}
		listeners, err := c.Listeners(ctx, lb)
		if err != nil {
			return nil, err
		}
		for _, l := range listeners {
			text := l.String()
			if l.Description != "" {
				text += " " + ccm.Quote(l.Description)
			}
			m.listeners = append(m.listeners, text)
			m.use(l.Description, c.Cluster)
		}
		if lb.NLB != nil {
			continue
		}
		groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
		}
		for _, g := range groups {
			m.groups = append(m.groups, ccm.Quote(g.Name))
			m.use(g.Name, c.Cluster)
		}
	}
	return found, nil
}

// use notes the Service that a listener or a group was created for, if its name tells.
func (m *match) use(name, cluster string) {
	t, ok := ccm.ParseTrace(name)
	if !ok {
		return
	}
	list, user := &m.here, fmt.Sprintf("%.64s/%.64s", t.Namespace, t.Service)
	if t.Cluster != cluster {
		list, user = &m.elsewhere, fmt.Sprintf("%s (%.64s)", user, t.Cluster)
	}
	if !slices.Contains(*list, user) {
		*list = append(*list, user)
	}
}

// text describes the match.
func (m match) text() say.Text {
	facts := []say.Text{say.F("named %s", ccm.Quote(m.Name)), say.F("at %s", m.Address)}
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(m.Tags)) {
		tags = append(tags, fmt.Sprintf("%.60s=%.60s", k, m.Tags[k]))
	}
	if len(tags) > 0 {
		facts = append(facts, say.F("tagged %s", say.List(tags, 6)))
	}
	if len(m.listeners) > 0 {
		facts = append(facts, say.F("with the listeners %s", say.List(m.listeners, 6)))
	} else {
		facts = append(facts, say.F("without listeners"))
	}
	if len(m.groups) > 0 {
		facts = append(facts, say.F("with the vServer groups %s", say.List(m.groups, 6)))
	}
	if len(m.here) > 0 {
		facts = append(facts, say.F("used by %s", say.List(m.here, 5)))
	}
	if len(m.elsewhere) > 0 {
		facts = append(facts, say.F("used by other clusters: %s", say.List(m.elsewhere, 5)))
	}
	return say.F("%s (%s)", m.ID, say.Clauses(facts, len(facts)))
}
