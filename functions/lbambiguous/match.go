package lbambiguous

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A match is one of the load balancers that the controller can't tell apart.
type match struct {
	id, name, address string
	tags              map[string]string // nil: not shown
	uses              []string          // listeners and vServer groups, as they are named
	users             []string          // Services that they were made for
}

// String describes the match.
func (m match) String() string {
	parts := []string{fmt.Sprintf("named %s", ccm.Quote(m.name)), "at " + m.address}
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(m.tags)) {
		tags = append(tags, fmt.Sprintf("%.60s=%.60s", k, m.tags[k]))
	}
	if len(tags) > 0 {
		parts = append(parts, "tagged "+remedy.List(tags, 6))
	}
	if len(m.uses) > 0 {
		parts = append(parts, "with "+remedy.List(m.uses, 6))
	} else {
		parts = append(parts, "without listeners")
	}
	if len(m.users) > 0 {
		parts = append(parts, "used by "+remedy.List(m.users, 5))
	}
	return fmt.Sprintf("%s (%s)", m.id, strings.Join(parts, "; "))
}

// use notes what a listener or a group is for.
func (m *match) use(what, name, cluster string) {
	if name != "" {
		what += " " + ccm.Quote(name)
	}
	m.uses = append(m.uses, what)
	t, ok := ccm.ParseTrace(name)
	if !ok {
		return
	}
	user := fmt.Sprintf("%.64s/%.64s", t.Namespace, t.Service)
	if t.Cluster != cluster {
		user += fmt.Sprintf(" of the cluster %.64s", t.Cluster)
	}
	if !slices.Contains(m.users, user) {
		m.users = append(m.users, user)
	}
}
