package ticket

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Member is the state of one Service of an incident, by the newest record of its class, under
// incident.<scope>.<class>.<hash of the cause>.<uid>. It holds the record's sequence: duplicates and older records change nothing. All
// sinks share the members.
type Member struct {
	Sequence  uint64        `json:"sequence"` // of its record in the journal
	Case      string        `json:"case"`
	Cluster   string        `json:"cluster"`
	Service   event.Service `json:"service"`
	Over      bool          `json:"over"`                // the failure has ended
	Result    event.Result  `json:"result"`              // of the newest record
	Stood     event.Result  `json:"stood,omitempty"`     // last result while the failure was open, before a plan is only shown; empty: none
	StoodAs   event.Status  `json:"stoodAs,omitempty"`   // its status then
	StoodRisk string        `json:"stoodRisk,omitempty"` // the risk of its plan then
	Since     time.Time     `json:"since"`               // when that began
	At        time.Time     `json:"at"`                  // of the newest record
	Impact    event.Impact  `json:"impact,omitempty"`    //
	Message   string        `json:"message"`             // of the failure
	Failed    time.Time     `json:"failed"`              // when it was last seen
	Finding   say.Text      `json:"finding,omitempty"`
	Cause     string        `json:"cause,omitempty"`
	Risk      string        `json:"risk,omitempty"`
	Steps     []say.Text    `json:"steps,omitempty"` // of the plan
	Done      int           `json:"done,omitempty"`  // number of applied steps
	Digest    string        `json:"digest,omitempty"`
	Attempt   int           `json:"attempt,omitempty"` // of writing that the question is about
	Ask       say.Text      `json:"ask,omitempty"`
	Note      say.Text      `json:"note,omitempty"`
	Rule      say.Text      `json:"rule,omitempty"`
	Error     string        `json:"error,omitempty"`
	Source    *event.Source `json:"source,omitempty"` // of the plan, if a GitOps tool owns what it writes
	By        say.Text      `json:"by,omitempty"`     // closed it by hand, or rejected or approved its plan

	revision uint64 // of its key
	uid      string
}

// In returns the member with its sentences in a language.
func (m Member) In(l *say.Language) Member {
	tell := func(t say.Text, most int) say.Text { return say.Literal(event.Clip(t.In(l), most)) }
	m.Finding, m.Ask = tell(m.Finding, longText), tell(m.Ask, longText)
	m.Note, m.Rule, m.By = tell(m.Note, shortText), tell(m.Rule, shortText), tell(m.By, shortText)
	m.Steps = slices.Clone(m.Steps)
	for i, s := range m.Steps {
		m.Steps[i] = tell(s, stepText)
	}
	return m
}

// Status returns the status of the Service.
func (m Member) Status() event.Status {
	r := event.Record{Origin: event.Origin{Service: m.Service}, Run: event.Run{Result: m.Result}, Outcome: event.Outcome{Digest: m.Digest}}
	r.Steps = make([]event.StepRecord, len(m.Steps))
	return r.Status()
}

// Results that a member may have besides those of records.
const (
	Moved  event.Result = "moved"  // the Service now fails for another cause
	ByHand event.Result = "closed" // a person closed the ticket
	Muted  event.Result = "muted"  // a label mutes questions

	Rejected = event.Result(event.Rejected) // a person has rejected the plan
)

// The limits are in bytes: one notification may read a thousand members.
const (
	longText  = 2 << 10
	shortText = 1 << 10
	stepText  = 300
	mostSteps = 10
)

// stand are the results of a failure that is open.
var stand = []event.Result{event.Asked, event.Failed, event.Unsettled, event.Planned}

func ends(r event.Result) bool { return r.Final() || r == Muted || r == Rejected }

func memberOf(r event.Record, sequence uint64, was Member) Member {
	m := Member{
		Sequence: sequence, Case: r.Case, Cluster: r.Cluster, Service: r.Service, Result: r.Result, Over: ends(r.Result),
		Stood: r.Result, Since: r.First, At: r.At, Impact: r.Impact, Message: event.Clip(r.Message, shortText), Failed: r.EventTime,
		Finding: short(r.Finding, longText), Cause: event.Clip(r.Cause, stepText), Risk: r.Risk, Done: r.Next, Digest: r.Digest, Attempt: r.NextAttempt(),
		Ask: short(r.Ask, longText), Note: short(r.Note, shortText), Rule: short(r.Rule, shortText), Error: event.Clip(r.Error, shortText),
		Source: r.Source,
	}
	var by say.Text
	switch {
	case r.Rejected != nil:
		by = say.F("by %s", r.Rejected.Text())
		m.Result, m.Over = Rejected, true
	case r.Approved != nil:
		by = say.F("approved by %s", r.Approved.Text())
		for _, a := range r.Seconded {
			by = say.F("%s, and by %s", by, a.Text())
		}
	}
	m.By = short(by, shortText)
	for i, s := range r.Steps {
		if i == mostSteps {
			m.Steps = append(m.Steps, say.F("and %d more steps", len(r.Steps)-mostSteps))
			break
		}
		m.Steps = append(m.Steps, short(s.Text.Map(event.Redact), stepText))
	}
	m.StoodAs, m.StoodRisk = m.Status(), m.Risk
	stood := was.Sequence > 0 && !was.Over
	if stood && (m.Over || m.Result == event.Planned) {
		m.Stood, m.StoodAs, m.StoodRisk = was.Stood, was.StoodAs, was.StoodRisk
	}
	switch {
	case m.Over && stood:
		// The finding is sent together with the outcome.
		m.Since, m.Cause, m.Impact = was.Since, cmp.Or(m.Cause, was.Cause), cmp.Or(m.Impact, was.Impact)
		m.Source = cmp.Or(m.Source, was.Source)
		if len(m.Finding) == 0 {
			m.Finding = was.Finding
		}
	case m.Over:
		m.Stood = ""
	case stood:
		m.Since = was.Since
		if len(m.Finding) == 0 {
			m.Finding, m.Cause = was.Finding, was.Cause
		}
	}
	return m
}

// short cuts a long sentence to its beginning in English.
func short(t say.Text, most int) say.Text {
	return t.Map(func(s string) string { return event.Clip(s, most) })
}

type change struct {
	incident
	member Member
}

// changes returns the members that a record changes, in writing order; have are those of its Service and class, in all incidents. An
// older record changes none, and a partly applied one only the rest.
func changes(own incident, r event.Record, sequence uint64, have map[incident]Member) []change {
	if r.Phase != event.Settled || !slices.Contains(stand, r.Result) && !ends(r.Result) {
		return nil // a run has begun, or only looks again
	}
	if r.Muted && !ends(r.Result) {
		r.Result = Muted
	}
	var open []incident
	applied := false
	for i, m := range have {
		switch {
		case m.Sequence > sequence:
			return nil
		case m.Sequence == sequence:
			applied = true
		case !m.Over:
			open = append(open, i)
		}
	}
	slices.SortFunc(open, func(a, b incident) int { return cmp.Compare(a.String(), b.String()) })
	var out []change
	if ends(r.Result) {
		for _, i := range open {
			out = append(out, change{i, memberOf(r, sequence, have[i])})
		}
		if len(out) == 0 && !applied && r.Result.Worked() {
			out = append(out, change{own, memberOf(r, sequence, have[own])})
		}
		return out
	}
	// A run that stopped before it found a cause doesn't disprove the previous one.
	if len(r.Finding) == 0 && r.Cause == "" && len(open) == 1 {
		own = open[0]
	}
	for _, i := range open {
		if i != own {
			m := have[i]
			m.Sequence, m.Over, m.Result, m.At = sequence, true, Moved, r.At
			out = append(out, change{i, m})
		}
	}
	if have[own].Sequence < sequence {
		out = append(out, change{own, memberOf(r, sequence, have[own])})
	}
	return out
}

// write stores a member whose key has this revision, and returns the new one.
func (m Member) write(ctx context.Context, s *stream.Stream, key string, revision uint64) (uint64, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return 0, fmt.Errorf("encode a member: %w", err)
	}
	ttl := time.Duration(0)
	if m.Over {
		ttl = remembered
	}
	return s.Swap(ctx, key, data, revision, ttl)
}

func readMember(key string, value []byte, revision uint64) (incident, Member, error) {
	p := strings.Split(key, ".")
	if len(p) != 5 {
		return incident{}, Member{}, fmt.Errorf("read member %s: the key has not five parts", key)
	}
	i, m := incident{p[1], p[2], p[3]}, Member{revision: revision, uid: p[4]}
	if err := json.Unmarshal(value, &m); err != nil {
		return incident{}, Member{}, fmt.Errorf("read member %s: %w", key, err)
	}
	return i, m, nil
}
