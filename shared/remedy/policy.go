package remedy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Mode says whether plans are applied.
type Mode string

// The modes. Observe is the default and never writes.
const (
	Observe Mode = "observe"
	Fix     Mode = "fix"
)

// Words returns the modes, as a file names them.
func (m Mode) Words() []string { return []string{string(Observe), string(Fix)} }

// ReadText reads the mode from a word.
func (m *Mode) ReadText(text string) error {
	switch Mode(text) {
	case Observe, Fix:
		*m = Mode(text)
		return nil
	}
	return fmt.Errorf("%q is not a mode: want observe or fix", text)
}

// A Policy is what the operator allows. The zero value observes. At returns the result for one class at one place.
//
// Package policyfile decodes the file into these types, each with its own check (ReadText), and translates the texts of
// freezes, of what ends an unsettled fix, and of what the doctor compares with.
type Policy struct {
	Mode      Mode             `json:"mode"`
	Risk      Risk             `json:"risk"`               // fix mode applies plans up to this risk
	Classes   map[string]Class `json:"classes,omitzero"`   // by class ID; missing values are as above
	Rules     []Rule           `json:"rules,omitzero"`     // for some Services; the last match wins
	Approvals []ApprovalRule   `json:"approvals,omitzero"` // whose approvals a plan needs; the last match of its risk wins
	Freezes   []Freeze         `json:"freezes,omitzero"`   // times without writes
	Budgets   Budgets          `json:"budgets,omitzero"`
	TakeBack  bool             `json:"takeBack,omitzero"` // undo a fix that did not work when its attempts are used up
	Doctor    Doctor           `json:"doctor,omitzero"`
	Settings
}

// A Doctor is what the operator wants of the cluster beyond successful syncs. The doctor's checks compare the cluster with it.
type Doctor struct {
	Protect    []string    `json:"protect,omitzero"`    // patterns of namespaces whose Services and load balancers nobody may delete
	Target     ccm.Version `json:"target,omitzero"`     // release to which the controller should be upgraded; zero: unset
	LocalPorts Ports       `json:"localPorts,omitzero"` // ports that nodes use for their own connections; zero: DefaultLocalPorts
}

// Protects reports whether the Services of a namespace and their load balancers must have deletion protection.
func (s Doctor) Protects(namespace string) bool {
	return len(s.Protect) > 0 && Among(s.Protect, namespace)
}

// Ports is the range from First to Last.
type Ports struct {
	First int32 `json:"first,omitzero"`
	Last  int32 `json:"last,omitzero"`
}

// String returns the range as "32768-60999".
func (p Ports) String() string { return fmt.Sprintf("%d-%d", p.First, p.Last) }

// Hold reports whether the range contains the port.
func (p Ports) Hold(port int32) bool { return p.First <= port && port <= p.Last }

// DefaultLocalPorts returns Linux's default for its own connections (net.ipv4.ip_local_port_range).
func DefaultLocalPorts() Ports { return Ports{32768, 60999} }

// Local returns the ports that nodes use for their own connections.
func (s Doctor) Local() Ports {
	if s.LocalPorts == (Ports{}) {
		return DefaultLocalPorts()
	}
	return s.LocalPorts
}

// A Class is what the operator allows for one class of failure.
type Class struct {
	Mode   Mode  `json:"mode,omitzero"`   // observe or fix; default the policy's
	Risk   *Risk `json:"risk,omitzero"`   // low, medium or high; default the policy's
	OneWay bool  `json:"oneWay,omitzero"` // apply steps that cannot be undone without an approval
}

// A Rule is what the operator allows at some places. Everything that it names must match.
type Rule struct {
	Clusters        []string          `json:"clusters,omitzero"`        // IDs; * and ? stand for any text and any character; default all
	Namespaces      []string          `json:"namespaces,omitzero"`      // names; * and ? as above; default all
	NamespaceLabels map[string]string `json:"namespaceLabels,omitzero"` // that the namespace must have
	Labels          map[string]string `json:"labels,omitzero"`          // that the Service must have; such a rule can only make the policy stricter
	Classes         []string          `json:"classes,omitzero"`         // IDs; default all
	Mode            Mode              `json:"mode,omitzero"`            // observe or fix; default as without the rule
	Risk            *Risk             `json:"risk,omitzero"`            // low, medium or high; default as without the rule
}

// A Place is where a plan would be applied.
type Place struct {
	Cluster   string // ID
	Namespace string
	Labels    map[string]string // of the Service
	Around    map[string]string // labels of the namespace; nil: unknown, and nothing is applied there
}

// Labels that make the policy stricter for a Service or a namespace. An annotation would trigger a resync.
const (
	ModeLabel = "lbremedy.io/mode" // observe
	MuteLabel = "lbremedy.io/mute" // true: no writes and no questions
)

// A Permission is what the policy allows one class at one place.
type Permission struct {
	Mode   Mode
	Risk   Risk // fix mode applies plans up to this risk
	OneWay bool // also steps that cannot be undone
	Named  bool // the policy names the class
	Muted  bool
	Why    say.Text // why it differs from the general policy, or empty
}

// At returns what the policy allows a class at a place. Labels of the Service only make it stricter, because its owner sets them. If
// the namespace's labels are unknown, it observes: they could forbid writes.
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
		if !r.matches(class, at) {
			continue
		}
		mode, risk := r.Mode, r.Risk
		if len(r.Labels) == 0 {
			l.Named = l.Named || slices.Contains(r.Classes, class)
		} else { // only what is stricter counts
			if mode == Fix || l.Mode != Fix {
				mode = ""
			}
			if risk != nil && *risk >= l.Risk {
				risk = nil
			}
		}
		take(mode, risk, say.F("Rule %d of the policy (%s) says so.", i+1, r))
	}
	if at.Namespace != "" && at.Around == nil {
		take(Observe, nil, say.F("The labels of the namespace are not known."))
	}
	if l.Mode != Fix {
		l.Mode = Observe
	}
	for _, by := range []struct {
		labels map[string]string
		has    func(label, value string) say.Text
	}{
		{at.Around, func(l, v string) say.Text { return say.F("The namespace has the label %s=%s.", l, v) }},
		{at.Labels, func(l, v string) say.Text { return say.F("The Service has the label %s=%s.", l, v) }},
	} {
		if v, ok := by.labels[MuteLabel]; ok && v != "false" {
			l.Mode, l.Muted, l.Why = Observe, true, by.has(MuteLabel, v)
		}
		// An invalid mode counts as the stricter one.
		if v, ok := by.labels[ModeLabel]; ok && v != string(Fix) && l.Mode == Fix {
			l.Mode, l.Why = Observe, by.has(ModeLabel, v)
		}
	}
	return l
}

func (r Rule) matches(class string, at Place) bool {
	return has(at.Labels, r.Labels) && has(at.Around, r.NamespaceLabels) && Among(r.Clusters, at.Cluster) && Among(r.Namespaces, at.Namespace) &&
		(len(r.Classes) == 0 || slices.Contains(r.Classes, class))
}

func has(labels, want map[string]string) bool {
	for k, v := range want {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// Among reports whether a name matches one of the patterns. Without patterns every name does.
func Among(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// String returns what the rule matches.
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
	for _, k := range slices.Sorted(maps.Keys(r.NamespaceLabels)) {
		parts = append(parts, "namespace label "+k+"="+r.NamespaceLabels[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, "label "+k+"="+r.Labels[k])
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, "; ")
}

// Allows reports whether a plan of this risk is applied without an approval, and the deciding rule.
func (l Permission) Allows(r *Remedy, risk Risk, oneWay say.Text) (bool, say.Text) {
	switch {
	case l.Muted:
		return false, l.Why.And("lbremedy neither writes nor asks.")
	case l.Mode != Fix:
		return false, say.F("Observe mode: plans are shown and never applied.").Then(l.Why)
	case r.OptIn && !l.Named:
		return false, say.F("Plans of the class %s are applied only if the policy file names the class. It does not.", r.Class)
	case risk > l.Risk:
		return false, say.F("The risk of the plan is %s. The policy applies plans up to %s automatically.", risk, l.Risk).Then(l.Why)
	case len(oneWay) > 0 && !l.OneWay:
		return false, say.F("The plan has a step that cannot be undone: %s.", oneWay)
	}
	return true, say.F("Fix mode applies plans up to %s risk. The risk of this plan is %s.", l.Risk, risk).Then(l.Why)
}
