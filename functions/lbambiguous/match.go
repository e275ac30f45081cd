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
	id, name, address string
	tags              map[string]string // nil: unknown
	listeners         []string          // with their descriptions
	groups            []string          // names of the vServer groups
	here              []string          // Services of this cluster that listeners or groups were created for
	elsewhere         []string          // Services of other clusters
}

// read reads the listeners and vServer groups of the match.
func (m *match) read(ctx context.Context, c *remedy.Case) error {
	if ccm.NLB(c.Service) {
		listeners, err := c.Cloud.NLB.Listeners(ctx, m.id)
		if err != nil {
			return fmt.Errorf("list listeners of %s: %w", m.id, err)
		}
		for _, l := range listeners {
			m.listener(l.Protocol, l.Port, l.Description, c.Cluster)
		}
		return nil
	}
	listeners, err := c.Cloud.SLB.Listeners(ctx, m.id)
	if err != nil {
		return fmt.Errorf("list listeners of %s: %w", m.id, err)
	}
	for _, l := range listeners {
		m.listener(l.Protocol, l.Port, l.Description, c.Cluster)
	}
	groups, err := c.Cloud.SLB.VServerGroups(ctx, m.id)
	if err != nil {
		return fmt.Errorf("list vServer groups of %s: %w", m.id, err)
	}
	for _, g := range groups {
		m.groups = append(m.groups, ccm.Quote(g.Name))
		m.use(g.Name, c.Cluster)
	}
	return nil
}

// text describes the match.
func (m match) text() say.Text {
	facts := []say.Text{say.F("named %s", ccm.Quote(m.name)), say.F("at %s", m.address)}
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(m.tags)) {
		tags = append(tags, fmt.Sprintf("%.60s=%.60s", k, m.tags[k]))
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
	return say.F("%s (%s)", m.id, say.Clauses(facts, len(facts)))
}

// listener notes a listener of the load balancer.
func (m *match) listener(protocol string, port int, description, cluster string) {
	text := fmt.Sprintf("%s:%d", protocol, port)
	if description != "" {
		text += " " + ccm.Quote(description)
	}
	m.listeners = append(m.listeners, text)
	m.use(description, cluster)
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
