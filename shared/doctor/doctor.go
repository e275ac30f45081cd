// Package doctor examines a whole cluster for what will fail, or has failed silently, before anybody reports it. Begin with [Run].
//
// A [Check] is an ID, a page, the parts of a [Snapshot] that it reads and a pure function over it; the checks are in functions/doctor.
// [Gather] reads one snapshot for all selected checks, and [Examine] runs them. Each part declares its own permissions.
//
// Unknown is not healthy: if a part could not be read, the checks that need it are unknown, for one load balancer alone if only its read
// failed. A result lists what is unknown beside what was found. The snapshot holds Kubernetes and cloud objects, so checks can use the
// functions of remedies; without unread fields, 5,000 Services with 50,000 endpoints take less than a third of the allowed memory.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Check looks for one kind of problem.
type Check struct {
	ID  string // lower-case words with hyphens
	Doc string // Markdown; its first line is the title

	// Needs are the parts without which the check knows nothing. Uses are those it can do without, and reports as unknown.
	Needs, Uses []Part

	// Manifest says that the check works for a Service without UID, status or anything set by the controller.
	Manifest bool

	// Find examines the snapshot and reports. It reads nothing else, not even a clock.
	Find func(*Snapshot, *Report)

	// Fix ends findings; nil: a person does.
	Fix *Fix
}

// A Fix defines how the findings of a check about a Service are ended.
type Fix struct {
	Steps       []remedy.Step // zero values: the kinds of write that a plan may hold
	Annotations []string      // that the steps may set or remove, as in a Remedy
	// Plan returns a plan for all of the check's findings about the Service, or a question. Other changes of a full sync are added to it.
	Plan func(*Snapshot, *corev1.Service, []Finding) remedy.Plan
}

// Title returns the first line of the check's page, without its Markdown mark.
func (c *Check) Title() string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Doc), "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "# "))
}

// Parts returns the parts that the check reads, each once.
func (c *Check) Parts() []Part {
	all := slices.Concat(c.Needs, c.Uses)
	slices.Sort(all)
	return slices.Compact(all)
}

// Reads returns the permissions for gathering the check's parts.
func (c *Check) Reads() []grant.Grant { return reads(c.Parts()) }

// Severity is how much a finding matters.
type Severity int

const (
	Info     Severity = iota // good to know; nothing is wrong
	Warning                  // will fail, or is wrong in a way that nobody notices yet
	Critical                 // fails now, or loses traffic
)

var severities = [...]string{"info", "warning", "critical"}

// String returns "info", "warning" or "critical".
func (s Severity) String() string {
	if s < Info || s > Critical {
		return fmt.Sprintf("severity(%d)", int(s))
	}
	return severities[s]
}

// MarshalText returns the severity as a word, or an error.
func (s Severity) MarshalText() ([]byte, error) {
	if s < Info || s > Critical {
		return nil, fmt.Errorf("%s is not a severity", s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads the severity from a word.
func (s *Severity) UnmarshalText(text []byte) error {
	for i, name := range severities {
		if string(text) == name {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a severity: want info, warning or critical", text)
}

// A Kind is the kind of object of a finding.
type Kind string

// Kinds.
const (
	Service  Kind = "service"
	Balancer Kind = "load balancer"
	Network  Kind = "network" // a vSwitch or a route table
	Node     Kind = "node"
	Cluster  Kind = "cluster"
	Account  Kind = "account"
)

// An About is the object of a finding. For an unknown it may also be all objects of a kind, see [All], or the whole check: the zero value.
type About struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // of a Service
	Name      string `json:"name"`                // of a Service or node; otherwise the ID
	UID       string `json:"uid,omitempty"`       // of a Service
}

// All returns the About of all objects of a kind.
func All(kind Kind) About { return About{Kind: kind} }

// Covers reports whether a statement about a also applies to other.
func (a About) Covers(other About) bool {
	return a == About{} || a.Kind == other.Kind && (a.Name == "" || a.String() == other.String())
}

// String returns a name that is unique within the kind: "shop/web", "lb-1"; "each network".
func (a About) String() string {
	if a.Name == "" && a.Kind != "" {
		return "each " + string(a.Kind)
	}
	if a.Namespace != "" {
		return a.Namespace + "/" + a.Name
	}
	return a.Name
}

// InJournal returns the object as the journal of a cluster names it. An object without a UID gets a digest.
func (a About) InJournal(cluster string) event.Service {
	if a.Kind == Service {
		return event.Service{Namespace: a.Namespace, Name: a.Name, UID: a.UID}
	}
	return event.Thing(cluster, string(a.Kind), a.Name)
}

// A Finding is one problem that a check found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity" jsonschema:"type=string,enum=info,enum=warning,enum=critical"`
	About    About    `json:"about"`
	// Key distinguishes a check's findings about one object, such as the name of an annotation; empty: the only one. It is stable.
	Key      string             `json:"key,omitempty"`
	Text     say.Text           `json:"text"`               // what is wrong, and the evidence
	Do       say.Text           `json:"do"`                 // what to do about it
	Evidence map[string]string  `json:"evidence,omitempty"` // values behind the text
	Services []string           `json:"services,omitempty"` // affected Services, "namespace/name", if it is not about one
	Fixable  bool               `json:"fixable,omitempty"`  // lbremedy doctor --fix has a plan for it
	File     string             `json:"file,omitempty"`     // with the manifest; "-" is standard input
	Line     int                `json:"line,omitempty"`     // in File
	Steps    []event.StepRecord `json:"-"`                  // of the plan of --fix
}

// ID identifies a finding from one run to the next.
func (f Finding) ID() string {
	return strings.Join([]string{f.Check, string(f.About.Kind), f.About.String(), f.Key}, "|")
}

// order compares findings by severity, the worst first, then by check, object and key.
func order(a, b Finding) int {
	return cmp.Or(-cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.ID(), b.ID()))
}

// An Unknown is something that a check could not determine.
type Unknown struct {
	Check string   `json:"check"`
	About About    `json:"about,omitzero"` // zero: the whole check
	Why   say.Text `json:"why"`

	Keys      []string `json:"-"` // of the findings about the object that it concerns; empty: all
	NoCluster bool     `json:"-"` // only because no cluster was named
}

// A Report collects the findings of a check.
type Report struct {
	check    *Check
	findings []Finding
	unknown  []Unknown
	settling []Unknown
}

// Add adds a finding and sets its Check.
func (r *Report) Add(f Finding) {
	f.Check = r.check.ID
	r.findings = append(r.findings, f)
}

// Unknown records why the check can't judge the object, or tell whether findings with these keys hold.
func (r *Report) Unknown(about About, err error, keys ...string) {
	r.unknown = append(r.unknown, Unknown{r.check.ID, about, say.Of(err), keys, errors.Is(err, ErrNoCluster)})
}

// Settling records that the object changed too recently to judge. It counts neither as healthy nor as unknown: open cases stay open, and no new one begins.
func (r *Report) Settling(about About) {
	r.settling = append(r.settling, Unknown{Check: r.check.ID, About: about, Why: say.F("a change is still being synced")})
}
