// Package policyfile reads the policy file, in which the operator says what lbremedy may do and who is notified, from disk or a
// ConfigMap. Begin with [Parse] and [Source].
package policyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/near"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// SchemaFile is the path of the policy file's JSON Schema in the module.
const SchemaFile = "shared/policy/policyfile/policy.schema.json"

// A File is the policy file, as a person writes it.
type File struct {
	// Some fields are translated: remedy.Policy names them.

	Mode      remedy.Mode             `json:"mode,omitempty"`      // observe (default) or fix
	Risk      remedy.Risk             `json:"risk,omitempty"`      // fix applies plans up to this risk: low (default), medium or high
	Classes   map[string]remedy.Class `json:"classes,omitempty"`   // exceptions for classes, by ID
	Rules     []remedy.Rule           `json:"rules,omitempty"`     // settings for some Services; the last match wins
	Approvals []remedy.ApprovalRule   `json:"approvals,omitempty"` // whose approvals a plan needs; of the rules that fit its risk the last one counts
	Freezes   []Freeze                `json:"freezes,omitempty"`   // times without writes
	Budgets   remedy.Budgets          `json:"budgets,omitzero"`    // how much may be written
	Unsettled string                  `json:"unsettled,omitempty"` // what happens to a fix that did not work when its attempts are spent: leave (default) or undo
	Doctor    *Doctor                 `json:"doctor,omitempty"`
	VSwitches remedy.VSwitches        `json:"vswitches,omitzero"`  // rules for choosing a vSwitch
	RAMDelay  remedy.Duration         `json:"ramDelay,omitzero"`   // how long RAM takes to apply a new policy version; default 1m
	PayBySpec bool                    `json:"payBySpec,omitempty"` // CLBs that pay by spec are still sold to this account; not to most since June 2025
	Tell      []policy.Sink           `json:"tell,omitempty"`      // who is notified of what, see Sink
	People    []policy.Person         `json:"people,omitempty"`    // the users as whom people answer who click at a sink that is an app
}

// A Freeze is a time without writes: weekly, with days, from, until and zone; or once, with from and until as dates with times.
type Freeze struct {
	Name  string   `json:"name"`
	Days  []string `json:"days,omitempty"` // mon, tue, wed, thu, fri, sat, sun; empty: all
	From  string   `json:"from"`           // 18:30 on each of the days, or 2006-01-02T15:04:05+08:00 once
	Until string   `json:"until"`          // as from; a time of day not later than from is on the next day
	Zone  string   `json:"zone,omitempty"` // for times of day, such as Asia/Shanghai; default UTC
}

// A Doctor holds the values that the doctor compares the cluster with.
type Doctor struct {
	Protect    []string `json:"protect,omitempty"`    // namespaces whose Services and load balancers must have deletion protection; * is any text, ? any character
	Target     string   `json:"target,omitempty"`     // release of the controller for a planned upgrade, such as v2.14.0; default the newest known
	LocalPorts string   `json:"localPorts,omitempty"` // net.ipv4.ip_local_port_range of the nodes; default 32768-60999
}

// Digest returns a policy's version: a digest of its text, long enough for people.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Parse reads a policy file in YAML. It refuses unknown fields, classes and words, each with its line, since a typo must not loosen a
// rule, and an empty text, which may be a file not yet written.
func Parse(data []byte, classes []string) (policy.Version, error) {
	f := File{Mode: remedy.Observe}
	d, err := config.Decode(data, &f)
	if err != nil {
		return policy.Version{}, err
	}
	if d.Empty() {
		return policy.Version{}, errors.New("line 1: it is empty: write \"mode: observe\" if nothing is to be written")
	}
	r := reader{d, classes}
	p := remedy.Policy{Mode: f.Mode, Risk: f.Risk, Classes: f.Classes, Rules: f.Rules, Approvals: f.Approvals, Budgets: f.Budgets,
		Settings: remedy.Settings{VSwitches: f.VSwitches, RAMDelay: f.RAMDelay, PayBySpec: f.PayBySpec}}
	r.ofClasses(f.Classes)
	r.rules(f)
	r.approvals(f.Approvals)
	r.budgets(f.Budgets)
	p.Freezes = r.freezes(f.Freezes)
	switch f.Unsettled {
	case "", "leave":
	case "undo":
		p.TakeBack = true
	default:
		r.Fail("unsettled", "%q is unknown: want leave or undo", f.Unsettled)
	}
	p.Doctor = r.doctor(f.Doctor)
	if n := f.VSwitches.Kept(); n < 0 {
		r.Fail("vswitches.reserve", "%d is negative", n)
	}
	r.sinks(f.Tell)
	r.people(f.People)
	if err := r.Err(); err != nil {
		return policy.Version{}, err
	}
	return policy.Version{Digest: Digest(data), Text: string(data), Policy: p, Sinks: f.Tell, People: f.People}, nil
}

type reader struct {
	*config.Document
	classes []string // that the file may name
}

func (r reader) class(at, id string) {
	if !slices.Contains(r.classes, id) {
		r.Fail(at, "unknown class %q: the nearest are %s", id, strings.Join(near.Three(id, r.classes), ", "))
	}
}

func (r reader) ofClasses(all map[string]remedy.Class) {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		at, c := "classes."+id, all[id]
		r.class(at, id)
		if c.Mode == remedy.Observe && (c.Risk != nil || c.OneWay) {
			r.Fail(at, "it observes, so that its risk and oneWay say nothing: leave them out, or fix")
		}
	}
}

func (r reader) doctor(f *Doctor) remedy.Doctor {
	if f == nil {
		return remedy.Doctor{}
	}
	s := remedy.Doctor{Protect: f.Protect}
	for i, p := range f.Protect {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			r.Fail(fmt.Sprintf("doctor.protect[%d]", i), "%q is neither a name nor a pattern", p)
		}
	}
	if f.Target != "" {
		var ok bool
		if s.Target, ok = ccm.ParseVersion(f.Target); !ok {
			r.Fail("doctor.target", "%q is not a version such as v2.14.0", f.Target)
		}
	}
	if f.LocalPorts != "" {
		first, last, _ := strings.Cut(f.LocalPorts, "-")
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a == 0 || a > b {
			r.Fail("doctor.localPorts", "%q is not a range of ports such as 32768-60999", f.LocalPorts)
		} else {
			s.LocalPorts = remedy.Ports{First: int32(a), Last: int32(b)}
		}
	}
	return s
}
