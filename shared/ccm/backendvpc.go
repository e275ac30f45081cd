package ccm

import (
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// OtherVPCs names the other VPCs in which a load balancer has backends, with the groups, or a CLB's default group, that hold them.
func OtherVPCs(vpc string, lb *Instance, groups []cloud.VServerGroup) []say.Text {
	if lb.CLB != nil {
		groups = append([]cloud.VServerGroup{{Backends: lb.CLB.Backends}}, groups...) // the default group has no name
	}
	holders := map[string][]string{} // group names, by the VPC of their backends
	for _, g := range groups {
		for _, b := range g.Backends {
			if b.VPC != "" && b.VPC != vpc && !slices.Contains(holders[b.VPC], g.Name) {
				holders[b.VPC] = append(holders[b.VPC], g.Name)
			}
		}
	}
	var others []say.Text
	for _, other := range slices.Sorted(maps.Keys(holders)) {
		var names []say.Text
		for _, name := range slices.Sorted(slices.Values(holders[other])) {
			if name == "" {
				names = append(names, say.F("the default group"))
			} else {
				names = append(names, say.Literal(name))
			}
		}
		others = append(others, say.F("%s (%s)", other, say.Items(names, len(names))))
	}
	return others
}
