package remedy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
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
	Mode      Mode             `json:"mode"`
	Risk      Risk             `json:"risk"`             // fix mode applies plans up to this risk
	Classes   map[string]Class `json:"classes,omitzero"` // by class ID; what it leaves out is as above
	Rules     []Rule           `json:"rules,omitzero"`   // for some places; of those that match, a later one counts more
	Freezes   []Freeze         `json:"freezes,omitzero"` // when nothing is written
	VSwitches VSwitches        `json:"vswitches,omitzero"`
	Budgets   Budgets          `json:"budgets,omitzero"`
	TakeBack  bool             `json:"takeBack,omitzero"`  // a fix that did not work is taken back when its attempts are spent
	RAMDelay  time.Duration    `json:"ramDelay,omitzero"`  // how long RAM takes to act on a new policy version; zero: a minute
	PayBySpec bool             `json:"payBySpec,omitzero"` // CLBs that pay by spec are still sold to this account, such as slb.s1.small
	Doctor    Doctor           `json:"doctor,omitzero"`
}

// A Doctor is what the operator wants of the cluster beyond syncs that succeed. The
// doctor's checks compare the cluster with it.
type Doctor struct {
	Protect    []string    `json:"protect,omitzero"`    // patterns of namespaces whose load balancers nobody may delete
	Target     ccm.Version `json:"target,omitzero"`     // to which the controller is to be upgraded; zero: the operator named none
	LocalPorts Ports       `json:"localPorts,omitzero"` // from which nodes take ports for connections of their own; zero: DefaultLocalPorts
}

// Protects reports whether the operator wants the load balancers of a namespace
// protected from deletion.
func (s Doctor) Protects(namespace string) bool {
	return slices.ContainsFunc(s.Protect, func(p string) bool {
		ok, err := path.Match(p, namespace)
		return ok && err == nil
	})
}

// Ports are those from First to Last.
type Ports struct {
	First int32 `json:"first,omitzero"`
	Last  int32 `json:"last,omitzero"`
}

// String returns the range as "32768-60999".
func (p Ports) String() string { return fmt.Sprintf("%d-%d", p.First, p.Last) }

// Hold reports whether the port is one of them.
func (p Ports) Hold(port int32) bool { return p.First <= port && port <= p.Last }

// DefaultLocalPorts returns the ports that Linux takes for connections of its own
// unless told otherwise (net.ipv4.ip_local_port_range).
func DefaultLocalPorts() Ports { return Ports{32768, 60999} }

// Local returns the ports that nodes take for connections of their own.
func (s Doctor) Local() Ports {
	if s.LocalPorts == (Ports{}) {
		return DefaultLocalPorts()
	}
	return s.LocalPorts
}

// A Class is what the operator allows for one class of failure.
type Class struct {
	Mode   Mode  `json:"mode,omitzero"`   // empty: the policy's
	Risk   *Risk `json:"risk,omitzero"`   // nil: the policy's
	OneWay bool  `json:"oneWay,omitzero"` // steps that can't be taken back may be applied without a person's word
}

// A Rule is what the operator allows at some places. All that it names must match.
type Rule struct {
	Clusters   []string          `json:"clusters,omitzero"`   // patterns of IDs; empty: all
	Namespaces []string          `json:"namespaces,omitzero"` // patterns of names; empty: all
	Labels     map[string]string `json:"labels,omitzero"`     // that the Service must have; empty: any
	Classes    []string          `json:"classes,omitzero"`    // IDs; empty: all
	Mode       Mode              `json:"mode,omitzero"`       // empty: as without the rule
	Risk       *Risk             `json:"risk,omitzero"`       // nil: as without the rule
}

// VSwitches says which vSwitches a Service may be moved to.
type VSwitches struct {
	Allow          []string `json:"allow,omitzero"`          // besides the cluster's own
	Reserve        *int64   `json:"reserve,omitzero"`        // free addresses that stay untouched; nil: DefaultReserve
	ReplaceMissing bool     `json:"replaceMissing,omitzero"` // a vSwitch that a person named and that doesn't exist may be replaced
}

// DefaultReserve is how many free addresses a vSwitch keeps when the policy doesn't say.
const DefaultReserve = 8

const defaultRAMDelay = time.Minute

// A Place is where a plan would be applied.
type Place struct {
	Cluster   string // ID
	Namespace string
	Labels    map[string]string // of the Service
	Around    map[string]string // labels of the namespace
}

// Labels by which people make the policy stricter for a Service, or for all of a
// namespace. They are labels because an annotation would wake the controller.
const (
	ModeLabel = "lbremedy.io/mode" // observe
	MuteLabel = "lbremedy.io/mute" // true: nothing is written, and nobody is asked
)

// A Permission is what the policy allows one class at one place.
type Permission struct {
	Mode   Mode
	Risk   Risk // fix mode applies plans up to this risk
	OneWay bool // also steps that can't be taken back
	Named  bool // the policy names the class
	Muted  bool
	Why    say.Text // what made it differ from what the policy says for all; else empty
}

// At returns what the policy allows a class at a place. Labels only make it stricter.
func (p Policy) At(class string, at Place) Permission {
	l := Permission{Mode: p.Mode, Risk: p.Risk}
	take := func(mode Mode, risk *Risk, why say.Text) {
		if mode != "" {
			l.Mode, l.Why = mode, why
		}
		if risk != nil {
			l.Risk, l.Why = *risk, why
		}
	}
	c, named := p.Classes[class]
	l.OneWay, l.Named = c.OneWay, named
	take(c.Mode, c.Risk, nil)
	for i, r := range p.Rules {
		if r.matches(class, at) {
			l.Named = l.Named || slices.Contains(r.Classes, class)
			take(r.Mode, r.Risk, say.F("Rule %d of the policy (%s) says so.", i+1, r))
		}
	}
	if l.Mode != Fix {
		l.Mode = Observe
	}
	for _, by := range []struct {
		labels map[string]string
		has    string
	}{{at.Around, "The namespace has the label %s=%s."}, {at.Labels, "The Service has the label %s=%s."}} {
		if v, ok := by.labels[MuteLabel]; ok && v != "false" {
			l.Mode, l.Muted, l.Why = Observe, true, say.F(by.has, MuteLabel, v)
		}
		// A word that is no mode was meant to change something: it is taken for the stricter one.
		if v, ok := by.labels[ModeLabel]; ok && v != string(Fix) && l.Mode == Fix {
			l.Mode, l.Why = Observe, say.F(by.has, ModeLabel, v)
		}
	}
	return l
}

// matches reports whether the rule is about the class at the place.
func (r Rule) matches(class string, at Place) bool {
	for k, v := range r.Labels {
		if have, ok := at.Labels[k]; !ok || have != v {
			return false
		}
	}
	return among(r.Clusters, at.Cluster) && among(r.Namespaces, at.Namespace) &&
		(len(r.Classes) == 0 || slices.Contains(r.Classes, class))
}

// among reports whether a name fits one of the patterns, or there is none.
func among(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// String returns what the rule is about.
func (r Rule) String() string {
	var parts []string
	for _, of := range []struct {
		what string
		list []string
	}{{"clusters", r.Clusters}, {"namespaces", r.Namespaces}, {"classes", r.Classes}} {
		if len(of.list) > 0 {
			parts = append(parts, of.what+" "+strings.Join(of.list, ", "))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, "label "+k+"="+r.Labels[k])
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, "; ")
}

// Allows reports whether a plan of this risk is applied without an approval, and the rule
// that says so.
func (l Permission) Allows(r *Remedy, risk Risk, oneWay string) (bool, say.Text) {
	switch {
	case l.Muted:
		return false, l.Why.And("lbremedy neither writes nor asks.")
	case l.Mode != Fix:
		return false, say.F("Observe mode: plans are shown and never applied.").Then(l.Why)
	case r.OptIn && !l.Named:
		return false, say.F("The class %s is applied only if the policy file names it, which it does not.", r.Class)
	case risk > l.Risk:
		return false, say.F("The risk of the plan is %s. The policy applies plans up to %s automatically.", risk, l.Risk).Then(l.Why)
	case oneWay != "" && !l.OneWay:
		return false, say.F("The plan has a step that cannot be undone: %s.", oneWay)
	}
	return true, say.F("Fix mode applies plans up to %s risk. The risk of this plan is %s.", l.Risk, risk).Then(l.Why)
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
