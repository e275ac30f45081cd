// Package policy reads the operator's policy file, which says what lbremedy may
// do, and keeps the one in force in the stream, where every function reads it
// before each step.
//
// Without a policy lbremedy observes: it plans and never writes. A policy that
// can't be read stops every write, because nobody knows what it would say; so does one
// with a version or a field that the program does not know.
package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Schema is the JSON Schema of the policy file.
//
//go:embed policy.schema.json
var Schema []byte

// SchemaFile is where the schema lies, from the root of the module.
const SchemaFile = "shared/policy/policy.schema.json"

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
	Tell      []Sink           `json:"tell,omitempty"` // who is told of what, see Sink
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
	data, err := os.ReadFile(path)
	if err != nil {
		return remedy.Policy{}, fmt.Errorf("read policy file: %w", err)
	}
	p, err := Parse(data, classes)
	if err != nil {
		return remedy.Policy{}, fmt.Errorf("policy file %s: %w", path, err)
	}
	return p, nil
}

// Parse reads a policy from YAML. It refuses fields, classes and words that it
// does not know, and names them: a typo must not loosen a rule. An empty file observes.
func Parse(data []byte, classes []string) (remedy.Policy, error) {
	var f File
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return remedy.Policy{}, explain(err)
	}
	var errs []error
	p := remedy.Policy{
		Mode:      mode("mode", f.Mode, &errs),
		Budgets:   budgets(f.Budgets, &errs),
		VSwitches: remedy.VSwitches(f.VSwitches),
		PayBySpec: f.PayBySpec,
	}
	if p.Mode == "" {
		p.Mode = remedy.Observe
	}
	if r := risk("risk", f.Risk, &errs); r != nil {
		p.Risk = *r
	}
	for _, id := range slices.Sorted(maps.Keys(f.Classes)) {
		if !slices.Contains(classes, id) {
			errs = append(errs, noClass("classes."+id, id, classes))
			continue
		}
		if p.Classes == nil {
			p.Classes = map[string]remedy.Class{}
		}
		c, at := f.Classes[id], "classes."+id
		p.Classes[id] = remedy.Class{Mode: mode(at+".mode", c.Mode, &errs), Risk: risk(at+".risk", c.Risk, &errs), OneWay: c.OneWay}
		if c.Mode == string(remedy.Observe) && (c.Risk != "" || c.OneWay) {
			errs = append(errs, fmt.Errorf("%s: it observes, so that its risk and oneWay say nothing: leave them out, or fix", at))
		}
	}
	p.Rules = rules(f.Rules, classes, &errs)
	p.Freezes = freezes(f.Freezes, &errs)
	switch f.Unsettled {
	case "", "leave":
	case "undo":
		p.TakeBack = true
	default:
		errs = append(errs, fmt.Errorf("unsettled: %q is unknown: want leave or undo", f.Unsettled))
	}
	if f.VSwitches.Reserve != nil && *f.VSwitches.Reserve < 0 {
		errs = append(errs, fmt.Errorf("vswitches.reserve: %d is negative", *f.VSwitches.Reserve))
	}
	if f.RAMDelay != "" {
		d, err := time.ParseDuration(f.RAMDelay)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("ramDelay: %q is no duration such as 60s", f.RAMDelay))
		}
		p.RAMDelay = d
	}
	p.Survey = survey(f.Survey, &errs)
	errs = append(errs, checkTell(f.Tell, classes)...)
	if err := errors.Join(errs...); err != nil {
		return remedy.Policy{}, err
	}
	return p, nil
}

func mode(field, value string, errs *[]error) remedy.Mode {
	switch m := remedy.Mode(value); m {
	case "", remedy.Observe, remedy.Fix:
		return m
	}
	*errs = append(*errs, fmt.Errorf("%s: %q is no mode: want observe or fix", field, value))
	return ""
}

func risk(field, value string, errs *[]error) *remedy.Risk {
	if value == "" {
		return nil
	}
	var r remedy.Risk
	if err := r.UnmarshalText([]byte(value)); err != nil {
		*errs = append(*errs, fmt.Errorf("%s: %w", field, err))
		return nil
	}
	return &r
}

func survey(f Survey, errs *[]error) remedy.Survey {
	s := remedy.Survey{Protect: f.Protect}
	for i, p := range f.Protect {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			*errs = append(*errs, fmt.Errorf("survey.protect[%d]: %q is no name or pattern", i, p))
		}
	}
	if f.Target != "" {
		var ok bool
		if s.Target, ok = ccm.ParseVersion(f.Target); !ok {
			*errs = append(*errs, fmt.Errorf("survey.target: %q is no version such as v2.14.0", f.Target))
		}
	}
	if f.LocalPorts != "" {
		first, last, _ := strings.Cut(f.LocalPorts, "-")
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a == 0 || a > b {
			*errs = append(*errs, fmt.Errorf("survey.localPorts: %q is no range of ports such as 32768-60999", f.LocalPorts))
		} else {
			s.LocalPorts = remedy.Ports{First: int32(a), Last: int32(b)}
		}
	}
	return s
}

// explain turns the decoder's errors into a sentence that names the culprit.
func explain(err error) error {
	text := err.Error()
	for _, noise := range []string{"error unmarshaling JSON: ", "error converting YAML to JSON: ", "while decoding JSON: ", "json: ", "yaml: "} {
		text = strings.ReplaceAll(text, noise, "")
	}
	if _, field, ok := strings.Cut(text, "unknown field "); ok {
		return fmt.Errorf("the field %s is not known: \"lbremedy policy schema\" names those that are", field)
	}
	return errors.New(text)
}
