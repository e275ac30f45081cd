package ccm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RoleNamed reads the RAM role of this name with its policies. It needs grant.ListPoliciesForRole and grant.GetPolicy.
func (c *View) RoleNamed(ctx context.Context, name string) (Role, error) {
	r := Role{Name: name}
	refs, err := c.Cloud.RAM.RolePolicies(ctx, name)
	if err != nil {
		return r, fmt.Errorf("list policies of the role %s: %w", name, err)
	}
	for _, ref := range refs {
		p, err := c.Cloud.RAM.Policy(ctx, ref.Name, ref.Type)
		if err != nil {
			return r, fmt.Errorf("read the policy %s: %w", ref.Name, err)
		}
		rules, err := ParsePolicy(p.Document)
		if err != nil {
			return r, fmt.Errorf("read the document of the policy %s: %w", ref.Name, err)
		}
		r.Policies = append(r.Policies, p)
		r.Rules = append(r.Rules, rules...)
	}
	return r, nil
}

// Extendable returns the role's policy to which actions are added: the controller's own, else that of the control plane nodes, the first by
// name. It is empty if ACK made none of them, because others are not extended.
func (r Role) Extendable() cloud.Policy {
	var best cloud.Policy
	for _, p := range r.Policies {
		if p.Type == cloud.CustomPolicy && betterPolicy(p.Name, best.Name) {
			best = p
		}
	}
	return best
}

// Allow says how a person gives the role these actions: in the policy that ACK made for the controller
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/service-faq), or else by AllowCommand.
func (r Role) Allow(actions []string) say.Text {
	if p := r.Extendable(); p.Name != "" {
		return say.F("in the RAM console, edit the policy %s and add this statement: %s", p.Name, allowing(actions))
	}
	return say.F("%s (if there is already a policy with this name, under another one)", AllowCommand(r.Name, actions))
}

func allowing(actions []string) string {
	text, err := json.Marshal(struct {
		Effect           string
		Action, Resource []string
	}{"Allow", actions, []string{"*"}})
	if err != nil {
		panic(fmt.Sprintf("remedy: a policy does not encode: %v", err)) // strings only
	}
	return string(text)
}

// AllowCommand returns the commands that give a RAM role these actions, in a separate policy.
func AllowCommand(role string, actions []string) say.Text {
	const name = "k8sMasterRolePolicy-Ccm-added"
	return say.F("%s, then %s",
		fmt.Sprintf(`aliyun ram CreatePolicy --PolicyName %s --PolicyDocument '{"Version":"1","Statement":[%s]}'`, name, allowing(actions)),
		fmt.Sprintf("aliyun ram AttachPolicyToRole --PolicyType Custom --PolicyName %s --RoleName %s", name, Shell(role)))
}

var refused = regex.New(`AuthAction:([a-z]+:[A-Za-z]+)`)

// Refused returns the refused RAM action in a message of the controller, or "". Only errors of ECS and VPC name it.
func Refused(message string) string {
	if m := refused().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// A Statement is one statement of a RAM policy document.
type Statement struct {
	Effect    string
	Action    list
	NotAction list
	Resource  list
	Condition json.RawMessage
}

type list []string

func (l *list) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = list{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return err
	}
	*l = many
	return nil
}

// ParsePolicy returns the statements of a RAM policy document, or an error if it is not JSON or has no statements.
func ParsePolicy(document string) ([]Statement, error) {
	var doc struct{ Statement []Statement }
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return nil, err
	}
	if len(doc.Statement) == 0 {
		return nil, errors.New("it has no statements")
	}
	return doc.Statement, nil
}

// A Permission is what policies say of an action.
type Permission int

const (
	NotAllowed Permission = iota // nothing allows it
	Allowed                      // for all resources
	Limited                      // under a condition, or for some resources only
	Denied                       // by a Deny statement, whatever its condition
)

// Says evaluates statements for one action, as RAM does: a Deny wins.
func Says(rules []Statement, action string) Permission {
	found := NotAllowed
	for _, s := range rules {
		if !s.names(action) {
			continue
		}
		switch {
		case s.Effect == "Deny":
			return Denied
		case s.Effect != "Allow":
		case len(s.Condition) > 0 && string(s.Condition) != "{}" && string(s.Condition) != "null", !slices.Contains(s.Resource, "*"):
			if found == NotAllowed {
				found = Limited
			}
		default:
			found = Allowed
		}
	}
	return found
}

var wildcards = strings.NewReplacer(`\*`, `.*`, `\?`, `.`)

func (s Statement) names(action string) bool {
	match := func(pattern string) bool {
		ok, err := regexp.MatchString(`(?is)^`+wildcards.Replace(regexp.QuoteMeta(pattern))+`$`, action)
		return err == nil && ok
	}
	if len(s.NotAction) > 0 {
		return !slices.ContainsFunc(s.NotAction, match)
	}
	return slices.ContainsFunc(s.Action, match)
}

// A Gap is the part of a list of actions that a role lacks, in order. Every missing action is in exactly one of the other lists.
type Gap struct {
	Missing []string // not allowed for all resources
	Absent  []string // missing: nothing allows them
	Limited []string // missing: allowed under conditions or for some resources only
	Denied  []string // missing: forbidden by a Deny statement, which no Allow can override
}

// Lacks returns the actions that the role's policies do not allow for all resources.
func (r Role) Lacks(actions []string) Gap {
	var g Gap
	for _, action := range actions {
		why := &g.Absent
		switch Says(r.Rules, action) {
		case Allowed:
			continue
		case Limited:
			why = &g.Limited
		case Denied:
			why = &g.Denied
		}
		g.Missing, *why = append(g.Missing, action), append(*why, action)
	}
	return g
}

// CreateLinkedRole says how a person creates the service-linked role that is missing according to a message about an NLB (network) or a CLB
// (https://www.alibabacloud.com/help/en/ram/developer-reference/aliyunnlbfullaccess).
func CreateLinkedRole(message string, network bool) say.Text {
	const create = "aliyun resourcemanager CreateServiceLinkedRole --ServiceName "
	const eipRole, nlbRole = "AliyunServiceRoleForSlbEipAccess", "AliyunServiceRoleForNlb"
	allow := say.F("Or give the controller's RAM role the permission %s.", "ram:CreateServiceLinkedRole")
	switch {
	case strings.Contains(strings.ToLower(message), "eipaccess"):
		return say.F("Have someone with permission to create roles create %s: %s.", eipRole, create+"eipaccess.slb.aliyuncs.com").Then(allow)
	case network:
		return say.F("Have someone with permission to create roles create %s.", nlbRole).
			And("Open the NLB console once and agree to its creation, or run: %s.", create+"nlb.aliyuncs.com")
	}
	return say.F("Have someone with permission to create roles open the console of the load balancer once and agree to the creation of the role.").Then(allow)
}
