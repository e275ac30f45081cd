package sim

import "slices"

// Permissions returns the RAM actions of which one suffices for an action of a
// product, as RAM names them; nil if the Cloud doesn't know the action.
func Permissions(product, action string) []string {
	for _, p := range byVersion {
		if a := p.Actions[action]; p.Name == product && a != nil {
			return slices.Clone(a.RAM)
		}
	}
	return nil
}
