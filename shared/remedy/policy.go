package remedy

import (
	"fmt"
	"slices"
	"time"
)

// A Mode says whether plans are applied.
type Mode string

// The modes. Observe is the default: it plans and never writes.
const (
	Observe Mode = "observe"
	Fix     Mode = "fix"
)

// A Policy is what the operator allows. The zero value observes.
// Package policy reads it from a file.
type Policy struct {
	Mode      Mode
	Risk      Risk             // fix mode applies plans up to this risk
	Classes   map[string]Class // by class ID; what it leaves out is as above
	VSwitches VSwitches
	RAMDelay  time.Duration // how long RAM takes to act on a new policy version; zero: a minute
	Attempts  int           // tries to write on one Service and class in 24 h; zero: 3
	PayBySpec bool          // CLBs that pay by spec are still sold to this account, such as slb.s1.small
}

// A Class is what the operator allows for one class of failure.
type Class struct {
	Mode Mode  // empty: the policy's
	Risk *Risk // nil: the policy's
}

// VSwitches says which vSwitches a Service may be moved to.
type VSwitches struct {
	Allow          []string // besides the cluster's own
	Reserve        *int64   // free addresses that stay untouched; nil: DefaultReserve
	ReplaceMissing bool     // a vSwitch that a person named and that doesn't exist may be replaced
}

// DefaultReserve is how many free addresses a vSwitch keeps when the policy doesn't say.
const DefaultReserve = 8

const (
	defaultAttempts = 3
	defaultRAMDelay = time.Minute
)

// Allows reports whether a plan of this risk is applied, and the rule that says so.
func (p Policy) Allows(r *Remedy, risk Risk) (bool, string) {
	mode, limit := p.Mode, p.Risk
	class, named := p.Classes[r.Class]
	if class.Mode != "" {
		mode = class.Mode
	}
	if class.Risk != nil {
		limit = *class.Risk
	}
	switch {
	case mode != Fix:
		return false, "Observe mode: plans are shown and never applied."
	case r.OptIn && !named:
		return false, fmt.Sprintf("The policy file does not name the class %s, and this class is applied only where it does.", r.Class)
	case risk > limit:
		return false, fmt.Sprintf("The plan's risk is %s, and the policy applies plans up to %s by itself.", risk, limit)
	}
	return true, fmt.Sprintf("Fix mode applies plans up to %s risk; this one is %s.", limit, risk)
}

// Mode of a class, for records.
func (p Policy) mode(class string) Mode {
	if c := p.Classes[class]; c.Mode != "" {
		return c.Mode
	}
	if p.Mode == "" {
		return Observe
	}
	return p.Mode
}

func (p Policy) attempts() int {
	if p.Attempts > 0 {
		return p.Attempts
	}
	return defaultAttempts
}

// RAMSettle returns how long to wait for RAM to act on a new policy version.
func (p Policy) RAMSettle() time.Duration {
	if p.RAMDelay > 0 {
		return p.RAMDelay
	}
	return defaultRAMDelay
}

// Allowed reports whether the policy allows the vSwitch besides the cluster's own.
func (v VSwitches) Allowed(id string) bool { return slices.Contains(v.Allow, id) }

// Room returns how many of a vSwitch's free addresses may be used; never less than zero.
func (v VSwitches) Room(free int64) int {
	reserve := int64(DefaultReserve)
	if v.Reserve != nil {
		reserve = *v.Reserve
	}
	return int(max(0, free-reserve))
}
