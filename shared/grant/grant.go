// Package grant names the permissions that lbremedy can hold: RAM actions on Alibaba Cloud and verbs on Kubernetes resources. Begin
// with Grant; names.go has the list.
//
// Only the class or step that needs a grant names it. RAM policies and RBAC roles are generated from those declarations, and the
// simulators refuse everything else. The package imports no other package of lbremedy.
package grant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Grant is one permission: a RAM action, or a verb on a Kubernetes resource.
type Grant struct {
	Action   string // RAM action, such as "slb:TagResources"; empty for a Kubernetes grant
	Group    string // API group of the resource; empty for the core group
	Resource string // resource, with its subresource: "services/status"; empty for a RAM grant
	Verb     string // RBAC verb, such as "get"
}

// RAM reports whether the grant is a RAM action.
func (g Grant) RAM() bool { return g.Action != "" }

// String returns the grant as a person writes it: "vpc:DescribeVSwitches", "get services".
func (g Grant) String() string {
	switch {
	case g.RAM():
		return g.Action
	case g.Group == "":
		return g.Verb + " " + g.Resource
	}
	return g.Verb + " " + g.Resource + "." + g.Group
}

// Parse reads a grant in the form of String.
func Parse(text string) (Grant, error) {
	if product, action, ok := strings.Cut(text, ":"); ok && product != "" && action != "" {
		return Grant{Action: text}, nil
	}
	verb, resource, _ := strings.Cut(text, " ")
	resource, group, _ := strings.Cut(resource, ".")
	if verb == "" || resource == "" || strings.Contains(text, ":") {
		return Grant{}, fmt.Errorf("%q is neither a RAM action nor a verb and a resource", text)
	}
	return Grant{Verb: verb, Resource: resource, Group: group}, nil
}

// Set returns the grants of all lists, each once, in a fixed order.
func Set(lists ...[]Grant) []Grant {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b Grant) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// Actions returns the RAM actions among the grants, sorted.
func Actions(grants []Grant) []string {
	var actions []string
	for _, g := range Set(grants) {
		if g.RAM() {
			actions = append(actions, g.Action)
		}
	}
	return actions
}

// Product returns the product of a RAM action, such as "slb"; empty for a Kubernetes grant.
func (g Grant) Product() string {
	product, _, _ := strings.Cut(g.Action, ":")
	return product
}
