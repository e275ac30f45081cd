package sim

import "slices"

// Permissions returns the RAM actions that each suffice to call an action of a product; nil for an unknown action.
func Permissions(product, action string) []string {
	for _, p := range byVersion {
		if a := p.Actions[action]; p.Name == product && a != nil {
			return slices.Clone(a.RAM)
		}
	}
	return nil
}
