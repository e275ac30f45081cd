// Package policyfile reads the policy file, in which the operator says what lbremedy may do
// and who is notified of it.
//
// Function programs read the policy in force, from the stream, by package policy. They link no
// reader of files, and no library for YAML with lines.
package policyfile

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Schema is the JSON Schema of the policy file.
//
//go:embed policy.schema.json
var Schema []byte

// SchemaFile is where the schema lies, from the root of the module.
const SchemaFile = "shared/policy/policyfile/policy.schema.json"

// A File is the policy file, as a person writes it.
type File struct {
	Mode      string           `json:"mode,omitempty"`      // observe (default) or fix
	Risk      string           `json:"risk,omitempty"`      // fix applies plans up to this risk: low (default), medium or high
	Classes   map[string]Class `json:"classes,omitempty"`   // what differs for a class, by its ID
	Rules     []Rule           `json:"rules,omitempty"`     // what differs at some places; of those that match, a later one counts more
	Freezes   []Freeze         `json:"freezes,omitempty"`   // when nothing is written
	Budgets   Budgets          `json:"budgets,omitzero"`    // how much is written at most
	Unsettled string           `json:"unsettled,omitempty"` // what a fix that did not work ends with when its attempts are spent: leave (default) or undo
	RAMDelay  string           `json:"ramDelay,omitempty"`  // how long RAM takes to act on a new policy version; default 1m
	VSwitches VSwitches        `json:"vswitches,omitzero"`
	PayBySpec bool             `json:"payBySpec,omitempty"` // CLBs that pay by spec are still sold to this account; default false, which is so for most since June 2025
	Survey    Survey           `json:"survey,omitzero"`
	Tell      []policy.Sink    `json:"tell,omitempty"` // who is notified of what, see Sink
}

// A Class is what the policy file says of one class.
type Class struct {
	Mode   string `json:"mode,omitempty"`   // observe or fix
	Risk   string `json:"risk,omitempty"`   // low, medium or high
	OneWay bool   `json:"oneWay,omitempty"` // steps that can't be taken back are applied without an approval
}

// A Rule is what the policy file says of some places. All that it names must match.
type Rule struct {
	Clusters   []string          `json:"clusters,omitempty"`   // IDs; * and ? stand for any text and any character
	Namespaces []string          `json:"namespaces,omitempty"` // names; * and ? as above
	Labels     map[string]string `json:"labels,omitempty"`     // that the Service must have
	Classes    []string          `json:"classes,omitempty"`    // IDs
	Mode       string            `json:"mode,omitempty"`       // observe or fix
	Risk       string            `json:"risk,omitempty"`       // low, medium or high
}

// A Freeze is a time in which nothing is written: each week, with days, from, until
// and zone; or once, with from and until as dates with times.
type Freeze struct {
	Name  string   `json:"name"`
	Days  []string `json:"days,omitempty"` // mon, tue, wed, thu, fri, sat, sun; none: all
	From  string   `json:"from"`           // 18:30 on each of the days, or 2006-01-02T15:04:05+08:00 once
	Until string   `json:"until"`          // as from; a time of day that is not later is on the next day
	Zone  string   `json:"zone,omitempty"` // for times of day, such as Asia/Shanghai; default UTC
}

// Budgets are how much is written at most.
type Budgets struct {
	Attempts int    `json:"attempts,omitempty"` // tries to write on one Service and class in 24 h; default 3
	Class    int    `json:"class,omitempty"`    // Services written to for one class in 10 min; default 5
	Share    string `json:"share,omitempty"`    // of a cluster's LoadBalancer Services written to in an hour; default 20%
	Least    int    `json:"least,omitempty"`    // Services that may be written to in an hour, however few there are; default 3
}

// VSwitches are the rules for choosing a vSwitch.
type VSwitches struct {
	Allow          []string `json:"allow,omitempty"`          // besides the cluster's own
	Reserve        *int64   `json:"reserve,omitempty"`        // free addresses that stay untouched; default 8
	ReplaceMissing bool     `json:"replaceMissing,omitempty"` // a vSwitch that a person named and that doesn't exist may be replaced
}

// A Survey is what the survey compares the cluster with.
type Survey struct {
	Protect    []string `json:"protect,omitempty"`    // namespaces whose load balancers must have deletion protection; * and ? stand for any text and any character
	Target     string   `json:"target,omitempty"`     // version of the controller that an upgrade is planned to, such as v2.14.0; default the newest that lbremedy knows
	LocalPorts string   `json:"localPorts,omitempty"` // net.ipv4.ip_local_port_range of the nodes; default 32768-60999
}

// Load reads the policy file at path. The classes are the IDs that it may name.
func Load(path string, classes []string) (remedy.Policy, error) {
	p, _, err := load(path, classes)
	return p, err
}

// LoadSinks reads the section tell of the policy file at path. It refuses what Load refuses.
func LoadSinks(path string, classes []string) ([]policy.Sink, error) {
	_, sinks, err := load(path, classes)
	return sinks, err
}

func load(path string, classes []string) (remedy.Policy, []policy.Sink, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return remedy.Policy{}, nil, fmt.Errorf("read policy file: %w", err)
	}
	p, sinks, err := parse(data, classes)
	if err != nil {
		return remedy.Policy{}, nil, fmt.Errorf("policy file %s: %w", path, err)
	}
	return p, sinks, nil
}

// Parse reads a policy from YAML. It refuses fields, classes and words that it does not know,
// and says of each in which line it stands: a typo must not loosen a rule. An empty file observes.
func Parse(data []byte, classes []string) (remedy.Policy, error) {
	p, _, err := parse(data, classes)
	return p, err
}

// ParseSinks reads the section tell of a policy from YAML. It refuses what Parse refuses.
func ParseSinks(data []byte, classes []string) ([]policy.Sink, error) {
	_, sinks, err := parse(data, classes)
	return sinks, err
}

func parse(data []byte, classes []string) (remedy.Policy, []policy.Sink, error) {
	var f File
	d, err := config.Decode(data, &f)
	if err != nil {
		return remedy.Policy{}, nil, err
	}
	r := reader{d, classes}
	p := remedy.Policy{
		Mode:      r.mode("mode", f.Mode),
		Budgets:   r.budgets(f.Budgets),
		VSwitches: remedy.VSwitches(f.VSwitches),
		PayBySpec: f.PayBySpec,
	}
	if p.Mode == "" {
		p.Mode = remedy.Observe
	}
	if risk := r.risk("risk", f.Risk); risk != nil {
		p.Risk = *risk
	}
	for _, id := range slices.Sorted(maps.Keys(f.Classes)) {
		at, c := "classes."+id, f.Classes[id]
		r.class(at, id)
		if p.Classes == nil {
			p.Classes = map[string]remedy.Class{}
		}
		p.Classes[id] = remedy.Class{Mode: r.mode(at+".mode", c.Mode), Risk: r.risk(at+".risk", c.Risk), OneWay: c.OneWay}
		if c.Mode == string(remedy.Observe) && (c.Risk != "" || c.OneWay) {
			r.Fail(at, "it observes, so that its risk and oneWay say nothing: leave them out, or fix")
		}
	}
	p.Rules = r.rules(f.Rules)
	p.Freezes = r.freezes(f.Freezes)
	switch f.Unsettled {
	case "", "leave":
	case "undo":
		p.TakeBack = true
	default:
		r.Fail("unsettled", "%q is unknown: want leave or undo", f.Unsettled)
	}
	if f.VSwitches.Reserve != nil && *f.VSwitches.Reserve < 0 {
		r.Fail("vswitches.reserve", "%d is negative", *f.VSwitches.Reserve)
	}
	if f.RAMDelay != "" {
		d, err := time.ParseDuration(f.RAMDelay)
		if err != nil || d <= 0 {
			r.Fail("ramDelay", "%q is no duration such as 60s", f.RAMDelay)
		}
		p.RAMDelay = d
	}
	p.Survey = r.survey(f.Survey)
	checkSinks(d, f.Tell, classes)
	if err := r.Err(); err != nil {
		return remedy.Policy{}, nil, err
	}
	return p, f.Tell, nil
}

// A reader reads the sections of a policy file, and notes what is wrong with them.
type reader struct {
	*config.Document
	classes []string // that the file may name
}

// class notes that there is no class with this ID.
func (r reader) class(at, id string) {
	if !slices.Contains(r.classes, id) {
		r.Fail(at, "there is no class %q; there are %s", id, strings.Join(r.classes, ", "))
	}
}

func (r reader) mode(at, value string) remedy.Mode {
	switch m := remedy.Mode(value); m {
	case "", remedy.Observe, remedy.Fix:
		return m
	}
	r.Fail(at, "%q is no mode: want observe or fix", value)
	return ""
}

func (r reader) risk(at, value string) *remedy.Risk {
	if value == "" {
		return nil
	}
	var risk remedy.Risk
	if err := risk.UnmarshalText([]byte(value)); err != nil {
		r.Fail(at, "%v", err)
		return nil
	}
	return &risk
}

func (r reader) survey(f Survey) remedy.Survey {
	s := remedy.Survey{Protect: f.Protect}
	for i, p := range f.Protect {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			r.Fail(fmt.Sprintf("survey.protect[%d]", i), "%q is no name or pattern", p)
		}
	}
	if f.Target != "" {
		var ok bool
		if s.Target, ok = ccm.ParseVersion(f.Target); !ok {
			r.Fail("survey.target", "%q is no version such as v2.14.0", f.Target)
		}
	}
	if f.LocalPorts != "" {
		first, last, _ := strings.Cut(f.LocalPorts, "-")
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a == 0 || a > b {
			r.Fail("survey.localPorts", "%q is no range of ports such as 32768-60999", f.LocalPorts)
		} else {
			s.LocalPorts = remedy.Ports{First: int32(a), Last: int32(b)}
		}
	}
	return s
}
