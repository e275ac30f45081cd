package remedy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Plan is what to do about a Case, as data that can be shown, compared, approved and applied. Its JSON lacks the steps: packages that
// store or send them write their kinds and fields.
type Plan struct {
	Finding say.Text      `json:"finding,omitempty"` // the cause and the evidence
	Cause   string        `json:"cause,omitempty"`   // what Services that fail together have in common, such as a vSwitch ID; may be empty
	Risk    Risk          `json:"risk"`              // raises the plan above the risk of its steps
	Steps   []Step        `json:"-"`                 // in order; the first failure ends the plan
	Ask     say.Text      `json:"ask,omitempty"`     // what a person must do, instead of the steps or after them
	Note    say.Text      `json:"note,omitempty"`    // what a person should know; needs no answer
	Wait    time.Duration `json:"wait,omitempty"`    // look again after this, without any steps
	// Patience is how long waiting for others' decisions may last before a person is asked; zero: 15 minutes.
	Patience time.Duration `json:"patience,omitempty"`
	Claims   []Claim       `json:"claims,omitempty"` // all taken before the first step
	// Proven says that the reads show the failure without the Event, without which no plan for a Service in force is followed (see InForce).
	Proven bool `json:"-"`
	// Changes are the sync's, besides the steps, as the engine determines them; see Compare.
	Changes []event.Change `json:"changes,omitempty"`
}

// A Claim is one of a limited number of places, such as the free addresses of a vSwitch. It is held for ten minutes: by then the cloud's
// own figures show it.
type Claim struct {
	Key string // what is limited, such as "vswitch.vsw-1"
	Of  int    // how many places there are
}

// Highest returns the risk of the plan: the highest of its own and its steps'.
func (p Plan) Highest() Risk {
	risk := p.Risk
	for _, s := range p.Steps {
		risk = max(risk, s.Risk())
	}
	return risk
}

// RiskTo returns the risk of the plan for a Service, at least medium if it reverts a person's recent edit.
func (p Plan) RiskTo(svc *corev1.Service, now time.Time) Risk {
	if _, found := Edited(svc, p.Keys(), now); found {
		return max(p.Highest(), Medium)
	}
	return p.Highest()
}

// OneWay returns the text of the first step that cannot be undone. A resync step leaves nothing to undo.
func OneWay(steps []Step) say.Text {
	for _, s := range steps {
		if _, ok := s.Undo(); !ok && !IsResync(s) {
			return s.Says()
		}
	}
	return nil
}

// Digest returns the digest of the plan for one Service: 32 hex digits over the class, the UID and the steps with what they found, so
// equal digests write the same, and over what the following sync takes down: an approval of one listener's outage does not cover
// another's. Finding and resourceVersion change while the plan does not, and are left out.
func (p Plan) Digest(class, uid string) string {
	steps := make([]digestStep, len(p.Steps))
	for i, s := range p.Steps {
		steps[i] = digestStep{s.Kind(), s}
	}
	down, sets := weighs(p.Changes)
	// Struct fields and sorted map keys: encoding/json is canonical enough.
	data, err := json.Marshal(struct {
		Class, UID string
		Steps      []digestStep
		Down       []string `json:",omitempty"`
		Sets       []string `json:",omitempty"`
	}{class, uid, steps, down, sets})
	if err != nil {
		panic(fmt.Sprintf("remedy: a step does not encode: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// weighs returns the names of changes that take traffic down, and of those that overwrite something, or may; an approval covers them.
func weighs(changes []event.Change) (down, sets []string) {
	for _, c := range changes {
		switch name := c.Balancer + " " + c.What; {
		case c.Down:
			down = append(down, name)
		case c.Sets || c.Unknown:
			sets = append(sets, name)
		}
	}
	slices.Sort(down)
	slices.Sort(sets)
	return slices.Compact(down), slices.Compact(sets)
}

// Within reports whether changes weigh no more than those that were approved.
func Within(changes, agreed []event.Change) bool {
	down, sets := weighs(changes)
	most, more := weighs(agreed)
	lacks := func(list []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(list, name) }
	}
	return !slices.ContainsFunc(down, lacks(most)) && !slices.ContainsFunc(sets, lacks(slices.Concat(most, more)))
}

type digestStep struct {
	Kind string
	Step Step
}

// Records returns the steps for the record, each with its undo.
func Records(steps []Step) ([]event.StepRecord, error) {
	var out []event.StepRecord
	for _, s := range steps {
		data, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encode step %s: %w", s.Kind(), err)
		}
		rec := event.StepRecord{Kind: s.Kind(), Text: s.Says(), Target: s.Target(), Risk: s.Risk().String(), Step: data, ResyncOnly: IsResync(s)}
		if back, ok := s.Undo(); ok {
			rec.Undo = &event.Undo{Kind: back.Kind(), Text: back.Says()}
		}
		out = append(out, rec)
	}
	return out, nil
}

// Planned returns the decoded steps of a record. A step that the class does not declare is an ErrUndeclared, whatever release has written it.
func (r *Remedy) Planned(decode func(kind string, data []byte) (Step, error), rec event.Record) ([]Step, error) {
	if rec.Next < 0 || rec.Next > len(rec.Steps) {
		return nil, fmt.Errorf("class %s: %d of %d steps are done, %w", r.Class, rec.Next, len(rec.Steps), ErrUndeclared)
	}
	steps := make([]Step, len(rec.Steps))
	for i, s := range rec.Steps {
		step, err := r.Step(decode, s.Kind, s.Step)
		if err != nil {
			return nil, err
		}
		steps[i] = step
	}
	return steps, nil
}

// Step decodes a step of the class; of an undeclared kind it is an ErrUndeclared.
func (r *Remedy) Step(decode func(kind string, data []byte) (Step, error), kind string, data []byte) (Step, error) {
	if !r.declares(kind) {
		return nil, fmt.Errorf("class %s: there is a step %q, %w", r.Class, kind, ErrUndeclared)
	}
	step, err := decode(kind, data)
	if err != nil {
		return nil, err
	}
	return step, r.allows(step)
}

// Decode makes a step of the class from its kind and JSON form.
func (r *Remedy) Decode(kind string, data []byte) (Step, error) { return Decode(r.Steps, kind, data) }

// Decode makes a step of one of the kinds from its JSON form. An unknown kind or field, perhaps of a newer release, is an error:
// without that field the step could be another write.
func Decode(kinds []Step, kind string, data []byte) (Step, error) {
	i := slices.IndexFunc(kinds, func(s Step) bool { return s.Kind() == kind })
	if i < 0 {
		return nil, fmt.Errorf("decode step: kind %q is not known; a newer release may have journalled it", kind)
	}
	made := reflect.New(reflect.PointerTo(reflect.TypeOf(kinds[i]))) // stays nil for null, which would otherwise be a step without values
	switch err := event.DecodeStrict(data, made.Interface()); {
	case err != nil:
		if _, field, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
			err = fmt.Errorf("its field %s is not known: a newer release has journalled it", field)
		}
		return nil, fmt.Errorf("decode step %s: %w", kind, err)
	case made.Elem().IsNil():
		return nil, fmt.Errorf("decode step %s: the data is null", kind)
	}
	return made.Elem().Elem().Interface().(Step), nil
}
