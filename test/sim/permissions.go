package sim

import "slices"

// Permissions returns the RAM actions, one of which suffices to call an action of a product; nil if the Cloud does not
// know the action.
func Permissions(product, action string) []string {
	for _, p := range byVersion {
		if a := p.Actions[action]; p.Name == product && a != nil {
			return slices.Clone(a.RAM)
		}
	}
	return nil
}
