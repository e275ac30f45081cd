// Package doctor examines a whole cluster for what will fail, or has failed without
// a word, before anybody's event says so.
//
// A [Check] is a value: an ID, a page, the parts of a [Snapshot] that it looks at and a
// pure function over it. [Gather] reads one snapshot for all checks that are chosen,
// [Examine] runs them over it. The package knows no check; functions/doctor holds them.
//
// Unknown is not healthy: a part of the snapshot that could not be read makes the checks
// that need it unknown, and where it is known of which load balancer a read failed, of
// that one alone. What a check could not tell stands in the result beside what it found.
//
// The snapshot holds objects of Kubernetes and of the cloud without what no check reads,
// not types of its own: so the checks ask the same functions as the remedies, and 5,000
// Services with 50,000 endpoints still take less than a third of the memory that is
// allowed.
//
// What a check needs to read follows from its parts, so that a check declares no
// permission: each part names its own.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Check looks for one thing.
type Check struct {
	ID  string // lower-case words with hyphens
	Doc string // Markdown; its first line is the title

	// Needs are the parts without which the check can tell nothing, Uses those that it
	// asks for and can do without: of those it says itself what it can't tell.
	Needs, Uses []Part

	// Manifest says that the check makes sense of a Service that is not in the cluster
	// yet, and so has no UID, no status and nothing of the controller's.
	Manifest bool

	// Find looks at the snapshot and reports. It reads nothing else, and no clock.
	Find func(*Snapshot, *Report)

	// Fix is what ends a finding; nil: a person does.
	Fix *Fix
}

// A Fix says how the findings of a check about a Service are ended.
type Fix struct {
	Steps       []remedy.Step // zero values: the kinds of write a plan may hold
	Annotations []string      // that the steps may set or remove, as of a Remedy
	// Plan says what to do about all findings of the check about the Service. A plan
	// without steps asks. What a full sync would change besides is added to it.
	Plan func(*Snapshot, *corev1.Service, []Finding) remedy.Plan
}

// Title returns the first line of the check's page, without its Markdown mark.
func (c *Check) Title() string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Doc), "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "# "))
}

// Parts returns what the check looks at, each once.
func (c *Check) Parts() []Part {
	all := slices.Concat(c.Needs, c.Uses)
	slices.Sort(all)
	return slices.Compact(all)
}

// Reads returns what gathering the check's parts reads.
func (c *Check) Reads() []grant.Grant { return reads(c.Parts()) }

// Severity says how much a finding matters.
type Severity int

// The severities.
const (
	Info     Severity = iota // good to know; nothing is wrong
	Warning                  // will fail, or is wrong where nobody notices yet
	Critical                 // fails now, or takes traffic away
)

var severities = [...]string{"info", "warning", "critical"}

// String returns "info", "warning" or "critical".
func (s Severity) String() string {
	if s < Info || s > Critical {
		return fmt.Sprintf("severity(%d)", int(s))
	}
	return severities[s]
}

// MarshalText writes the severity as a word; an error if it is none.
func (s Severity) MarshalText() ([]byte, error) {
	if s < Info || s > Critical {
		return nil, fmt.Errorf("%s is no severity", s)
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
	return fmt.Errorf("%q is no severity: want info, warning or critical", text)
}

// A Kind says what a finding is about.
type Kind string

// The kinds.
const (
	Service  Kind = "service"
	Balancer Kind = "load balancer"
	Network  Kind = "network" // a vSwitch or a route table
	Node     Kind = "node"
	Cluster  Kind = "cluster"
	Account  Kind = "account"
)

// An About is what a finding is about. What a check can't tell may also be about all
// things of a kind, see [All], or about the check as a whole: the zero value.
type About struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // of a Service
	Name      string `json:"name"`                // of a Service or node; else the ID
	UID       string `json:"uid,omitempty"`       // of a Service
}

// All returns what is about each thing of a kind.
func All(kind Kind) About { return About{Kind: kind} }

// Covers reports whether what is said about a is said about the other, too.
func (a About) Covers(other About) bool {
	return a == About{} || a.Kind == other.Kind && (a.Name == "" || a.String() == other.String())
}

// String returns what tells it from others: "shop/web", "lb-1"; "each network".
func (a About) String() string {
	if a.Name == "" && a.Kind != "" {
		return "each " + string(a.Kind)
	}
	if a.Namespace != "" {
		return a.Namespace + "/" + a.Name
	}
	return a.Name
}

// InJournal returns what it is called in the journal of a cluster.
func (a About) InJournal(cluster string) event.Service { return serviceOf(cluster, a) }

// A Finding is one thing that a check found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity" jsonschema:"type=string,enum=info,enum=warning,enum=critical"`
	About    About    `json:"about"`
	// Key tells findings of one check about one thing apart, such as the name of an
	// annotation; empty: there is only one. It stays the same while the finding stands.
	Key      string             `json:"key,omitempty"`
	Text     say.Text           `json:"text"`               // what is wrong, and the evidence
	Do       say.Text           `json:"do"`                 // what to do about it
	Evidence map[string]string  `json:"evidence,omitempty"` // figures and values behind the text
	Services []string           `json:"services,omitempty"` // that it concerns, "namespace/name", if it is not about one
	Fixable  bool               `json:"fixable,omitempty"`  // lbremedy doctor --fix has a plan for it
	File     string             `json:"file,omitempty"`     // with the manifest that it is about; "-" is standard input
	Line     int                `json:"line,omitempty"`     // in this file
	Steps    []event.StepRecord `json:"-"`                  // of the plan of --fix
}

// ID returns what a finding is known by from one run to the next.
func (f Finding) ID() string {
	return strings.Join([]string{f.Check, string(f.About.Kind), f.About.String(), f.Key}, "|")
}

// order sorts findings: the worst first, then by check, what they are about and key.
func order(a, b Finding) int {
	return cmp.Or(-cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.ID(), b.ID()))
}

// An Unknown is what a check could not tell.
type Unknown struct {
	Check string   `json:"check"`
	About About    `json:"about,omitzero"` // zero: the whole check
	Why   say.Text `json:"why"`
}

// A Report takes what a check finds.
type Report struct {
	check    *Check
	findings []Finding
	unknown  []Unknown
}

// Add adds a finding. Its Check is filled in.
func (r *Report) Add(f Finding) {
	f.Check = r.check.ID
	r.findings = append(r.findings, f)
}

// Unknown says that the check can't tell how this stands, because of the error.
func (r *Report) Unknown(about About, err error) {
	r.unknown = append(r.unknown, Unknown{r.check.ID, about, say.Of(err)})
}
