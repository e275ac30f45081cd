package remedy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/say"
)

// An ApprovalRule says whose approvals a plan needs that is not applied without one. The last rule for the plan's risk wins.
type ApprovalRule struct {
	Risk  *Risk    `json:"risk,omitzero"`  // low, medium or high: plans of this risk and above; default all
	Needs int      `json:"needs,omitzero"` // how many different people must approve; default 1
	From  []string `json:"from,omitzero"`  // group:NAME or user:NAME, as Kubernetes knows them; default all users who may create Approvals
}

// Prefixes of ApprovalRule.From.
const (
	FromUser  = "user:"
	FromGroup = "group:"
)

// Text returns the rule as a clause.
func (r ApprovalRule) Text() say.Text {
	needs := Consent{Needs: max(1, r.Needs), from: r.From}.Text()
	if r.Risk != nil && *r.Risk > Low {
		return say.F("plans of %s risk and above: %s", *r.Risk, needs)
	}
	return say.F("all plans: %s", needs)
}

// A Consent is the approvals that a plan needs. The zero Consent needs none; Policy.Consent never returns it.
type Consent struct {
	Needs int // different people
	from  []string
}

// Special reports whether any one person's approval is not enough.
func (c Consent) Special() bool { return c.Needs > 1 || len(c.from) > 0 }

// Consent returns the approvals that a plan of this risk needs.
func (p Policy) Consent(risk Risk) Consent {
	c := Consent{Needs: 1}
	for _, r := range p.Approvals {
		if r.Risk == nil || risk >= *r.Risk {
			c = Consent{Needs: cmp.Or(r.Needs, 1), from: r.From}
		}
	}
	return c
}

// From reports whether the approval of a user with these groups counts.
func (c Consent) From(user string, groups []string) bool {
	return len(c.from) == 0 || slices.ContainsFunc(c.from, func(f string) bool {
		if name, ok := strings.CutPrefix(f, FromUser); ok {
			return name == user
		}
		name, ok := strings.CutPrefix(f, FromGroup)
		return ok && slices.Contains(groups, name)
	})
}

// Approvers returns the users and groups whose approvals count; empty: anybody's.
func (c Consent) Approvers() string { return strings.Join(c.from, ", ") }

// String returns Text in English.
func (c Consent) String() string { return c.Text().String() }

// Text returns the needed approvals, such as "approvals of 2 people from group:network".
func (c Consent) Text() say.Text {
	text := say.F("approval of a person")
	if c.Needs > 1 {
		text = say.F("approvals of %d people", c.Needs)
	}
	if len(c.from) > 0 {
		text = say.F("%s from %s", text, c.Approvers())
	}
	return text
}

// Loosens reports whether this consent is easier to get than was.
func (c Consent) Loosens(was Consent) bool {
	more := len(was.from) > 0 && (len(c.from) == 0 || slices.ContainsFunc(c.from, func(f string) bool { return !slices.Contains(was.from, f) }))
	return c.Needs < was.Needs || more
}
