package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// ApprovalLife is how long an approval lasts when a person does not say.
const ApprovalLife = 24 * time.Hour

// RejectionLife is how long a rejected plan is not asked about again: as long as the journal
// keeps the case.
const RejectionLife = 30 * 24 * time.Hour

// An Approval is a person's answer to one plan: it approves or rejects it. As an approval it is
// good for the one attempt that the case asked about, and for no other plan than the one with
// this digest; a rejection is of the plan, whichever attempt.
//
// It lies in a key that no class may write, and stays there until it expires. A run that takes
// the attempt over proves by it that somebody has agreed, and not by the journal.
type Approval struct {
	Case     string    `json:"case"`
	Digest   string    `json:"digest"`
	About    string    `json:"about"` // namespace and name of the Service of which the person was told
	By       string    `json:"by"`
	Identity string    `json:"identity,omitempty"` // theirs in the cluster, where one could be asked
	Host     string    `json:"host,omitempty"`     // the machine on which they answered
	Groups   []string  `json:"groups,omitempty"`   // theirs in the cluster, proven with Object
	Object   string    `json:"object,omitempty"`   // UID of the object of the cluster that proves who By is; empty: nothing does
	Via      string    `json:"via,omitempty"`      // the user of NATS who wrote it, where that is all that is known
	Chat     string    `json:"chat,omitempty"`     // where they said so, if the notifier created the object in their name
	Rejects  bool      `json:"rejects,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	At       time.Time `json:"at"`
	Until    time.Time `json:"until"`
	Attempt  int       `json:"attempt,omitempty"` // that it is for
}

// Errors of an answer, for errors.Is.
var (
	ErrNotAsked = errors.New("no plan waits for an answer")              // it comes too late, or is to another plan
	ErrAnswered = errors.New("the same person has answered this before") // and the first answer stays
)

// said returns the answer as a record tells of it.
func (a Approval) said() *event.Approved {
	return &event.Approved{By: a.By, At: a.At, Identity: a.Identity, Host: a.Host, Object: a.Object, Via: a.Via, Chat: a.Chat, Comment: event.Redact(a.Comment)}
}

// good reports whether the answer approves this plan for this attempt.
func (a Approval) good(digest string, attempt int, now time.Time) bool {
	return !a.Rejects && a.Digest == digest && a.Attempt == attempt && now.Before(a.Until)
}

// refuses reports whether the answer rejects this plan.
func (a Approval) refuses(digest string, now time.Time) bool {
	return a.Rejects && a.Digest == digest && now.Before(a.Until)
}

// stays reports whether another answer is to the same question, and does not take the place of
// this one: only an approval takes that of an earlier rejection.
func (a Approval) stays(b Approval, now time.Time) bool {
	if a.refuses(b.Digest, now) {
		return b.Rejects || !b.At.After(a.At)
	}
	return a.good(b.Digest, b.Attempt, now)
}

// approvalKey is where the answer over NATS lies. There is one at a time: nothing tells
// people apart.
func approvalKey(cluster, uid, class string) string {
	return "approval." + cluster + "." + uid + "." + class
}

// answerKey begins the keys of the answers that the cluster proves, one for each person.
func answerKey(cluster, uid, class string) string {
	return "answer." + cluster + "." + uid + "." + class
}

// ofPerson returns what stands for a person in a key.
func ofPerson(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Takes returns the error of an answer to a record that is none to give: ErrNotAsked. nil: the
// plan of the record waits for it, or was rejected and this takes the rejection back. Who has
// rejected a plan takes that back by approving it, and nobody else does: where Kubernetes
// proves who it was, that person; where nothing does, who may answer over NATS.
func (a Approval) Takes(rec event.Record) error {
	no := rec.Rejected
	if no == nil || a.Rejects {
		return Asks(rec)
	}
	if rec.Status() != event.Rejected || rec.Digest == "" || (no.Object == "") != (a.Object == "") || no.Object != "" && no.By != a.By {
		return late{say.Errorf("case %s has no plan that waits for an approval: %s rejected it at %s, and alone can take that back", rec.Case, no.By,
			no.At.Format(time.RFC3339))}
	}
	return nil
}

// Asks returns the error of an answer to a record that asks nothing: ErrNotAsked. nil: its
// plan waits for one.
func Asks(rec event.Record) error {
	switch {
	case rec.Rejected != nil:
		return late{say.Errorf("case %s has no plan that waits for an approval: %s rejected it at %s", rec.Case, rec.Rejected.By,
			rec.Rejected.At.Format(time.RFC3339))}
	case rec.Result == event.Planned:
		return late{say.Errorf("case %s is only observed: %s An approval does not change the mode", rec.Case, rec.Texts().Rule)}
	case rec.Phase == event.Intent || rec.Phase == event.Step:
		return late{say.Errorf("case %s has no plan that waits for an approval: it is being worked on. %s", rec.Case, rec.Texts().Rule)}
	case rec.Result != event.Asked || len(rec.Steps) == 0 || rec.Digest == "":
		return late{say.Errorf("case %s has no plan that waits for an approval: it is %s. %s", rec.Case, rec.Status(), rec.Texts().Rule)}
	}
	return nil
}

// A late is an ErrNotAsked that says why.
type late struct{ error }

func (l late) Unwrap() []error { return []error{l.error, ErrNotAsked} }

// Approve puts down over NATS a person's word for the plan of a record, as Answer does.
func Approve(ctx context.Context, s *stream.Stream, rec event.Record, by event.Person, now time.Time, life time.Duration) (Approval, error) {
	return Answer(ctx, s, rec, Approval{By: by.Name, Identity: by.Identity, Host: by.Host}, now, life)
}

// Answer puts down over NATS what a person says to the plan of a record, which must ask for
// it. The permissions of NATS say who may, and nothing proves who it is.
//
// The failure must then be delivered again: it is diagnosed again, and the plan is
// applied if it is still the same. An answer to another plan of the case is
// replaced; to the same plan the first one stays, unless it was a rejection and this approves.
func Answer(ctx context.Context, s *stream.Stream, rec event.Record, a Approval, now time.Time, life time.Duration) (Approval, error) {
	a.Case, a.Digest, a.About, a.Attempt, a.Object, a.Groups = rec.Case, rec.Digest, rec.Service.String(), rec.NextAttempt(), "", nil
	if err := a.Takes(rec); err != nil {
		return Approval{}, err
	}
	a.At, a.Until = now, now.Add(life)
	key := approvalKey(rec.Cluster, rec.Service.UID, rec.Class)
	return a.put(ctx, s, rec, key, now, func(have Approval) (Approval, error) { return have, nil })
}

// Bring puts down what a person says to the plan of a record, which must ask for it, as an
// object of the cluster proves it. Who calls it has looked at the object. A second answer of
// the person to the same question is an ErrAnswered, and the first one stays, unless it was a
// rejection and this approves.
func Bring(ctx context.Context, s *stream.Stream, rec event.Record, a Approval, now time.Time) error {
	if a.Object == "" || a.By == "" {
		return errors.New("bring an answer: nothing proves whose it is")
	}
	if err := a.Takes(rec); err != nil {
		return err
	}
	a.Case, a.Digest, a.About, a.Attempt = rec.Case, rec.Digest, rec.Service.String(), rec.NextAttempt()
	key := answerKey(rec.Cluster, rec.Service.UID, rec.Class) + "." + ofPerson(a.By)
	_, err := a.put(ctx, s, rec, key, now, func(have Approval) (Approval, error) {
		if have.Object == a.Object {
			return have, nil // it was brought before, by a part that could not say so
		}
		return have, ErrAnswered
	})
	return err
}

// put writes the answer to a key, unless another one to the same question lies there.
func (a Approval) put(ctx context.Context, s *stream.Stream, rec event.Record, key string, now time.Time,
	before func(have Approval) (Approval, error)) (Approval, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return Approval{}, fmt.Errorf("encode the answer: %w", err)
	}
	have, err := s.Entry(ctx, key)
	switch {
	case err == nil:
		var was Approval
		if err := json.Unmarshal(have.Value, &was); err != nil {
			return Approval{}, fmt.Errorf("read the answer: %w", err)
		}
		// An attempt that is under way proves by the one that is there that it may go on.
		if err := a.waits(ctx, s, rec); err != nil {
			return Approval{}, err
		}
		if was.stays(a, now) {
			return before(was)
		}
	case !errors.Is(err, stream.ErrNotFound):
		return Approval{}, fmt.Errorf("read the answer: %w", err)
	}
	revision, err := s.Swap(ctx, key, data, have.Revision, max(time.Second, a.Until.Sub(now)))
	if errors.Is(err, stream.ErrConflict) {
		// Somebody else has answered at the same time, or the same person twice.
		return a.put(ctx, s, rec, key, now, before)
	}
	if err != nil {
		return Approval{}, fmt.Errorf("answer: %w", err)
	}
	_ = revision
	return a, a.stands(ctx, s, rec, key)
}

// stands takes the answer back if the journal says by now that the plan waits for none:
// it was applied on another person's word, say. Left there, it would be one for a plan
// that nobody has seen yet.
func (a Approval) stands(ctx context.Context, s *stream.Stream, asked event.Record, key string) error {
	err := a.waits(ctx, s, asked)
	if err == nil {
		return nil
	}
	if gone := s.Delete(ctx, key); gone != nil {
		err = errors.Join(err, fmt.Errorf("take the answer back: %w", gone))
	}
	return err
}

// waits returns an error if the journal says by now that the plan waits for no answer.
func (a Approval) waits(ctx context.Context, s *stream.Stream, asked event.Record) error {
	m, err := s.Last(ctx, stream.Cases, event.CaseSubject(asked.Cluster, asked.Service.UID, asked.Class))
	if errors.Is(err, stream.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := decode(m)
	if err != nil {
		return err
	}
	if err := a.Takes(now); err != nil {
		return err
	}
	if now.Digest != a.Digest || now.NextAttempt() != a.Attempt {
		return late{say.Errorf("case %s asks about another plan by now: %s", now.Case, now.Digest)}
	}
	return nil
}

// The approvals of one Service and class are what persons have said of its plans.
type approvals struct {
	env        *Env
	uid, class string
}

// keys are where the answers lie: those over NATS, and those that the cluster proves.
func (p approvals) keys() []string {
	return []string{approvalKey(p.env.Cluster, p.uid, p.class), answerKey(p.env.Cluster, p.uid, p.class) + ".*"}
}

// answers returns what persons have said: those over NATS and those that the cluster
// proves, the oldest first.
func (p approvals) answers(ctx context.Context) ([]Approval, error) {
	if p.env.Stream == nil {
		return nil, nil
	}
	view, err := p.env.Stream.View(ctx, p.keys()...)
	if err != nil {
		return nil, fmt.Errorf("read the approvals: %w", err)
	}
	return p.in(view)
}

// in is answers for what the keys held.
func (p approvals) in(view stream.View) ([]Approval, error) {
	var all []Approval
	// The cluster's times are whole seconds: of two in one, the one that was put down first is the older.
	for _, key := range slices.SortedFunc(maps.Keys(view), func(a, b string) int { return cmp.Compare(view[a].Revision, view[b].Revision) }) {
		e := view[key]
		over := key == approvalKey(p.env.Cluster, p.uid, p.class)
		if !over && !strings.HasPrefix(key, answerKey(p.env.Cluster, p.uid, p.class)+".") {
			continue
		}
		var a Approval
		if err := json.Unmarshal(e.Value, &a); err != nil {
			return nil, fmt.Errorf("read the approvals: %w", err)
		}
		if over {
			a.Object, a.Groups = "", nil // what lies in the key over NATS proves nothing, whatever it says
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b Approval) int { return a.At.Compare(b.At) })
	return all, nil
}

// answerable reports whether the record is of a plan that a person may have answered since, or may have taken back that it is
// rejected, so that it must be looked at again. Who asks before it has the lease may be told of no answer by a node of NATS
// that is behind.
func answerable(rec event.Record) bool {
	return rec.Phase == event.Settled && rec.Digest != "" && (rec.Result == event.Asked || rec.Status() == event.Rejected)
}

// rejected reports whether a person has rejected this plan, and puts it into the record.
// Nobody is asked about it again as long as it is the same.
func (p approvals) rejected(all []Approval, rec *event.Record) bool {
	i := slices.IndexFunc(all, func(a Approval) bool { return a.refuses(rec.Digest, p.env.now()) })
	if i < 0 {
		return false
	}
	a := all[i]
	rec.Rejected = a.said()
	rec.SetRule(say.F("%s rejected this plan at %s.", a.By, a.At.Format(time.RFC3339)).Then(said(a)))
	return true
}

// approved reports whether as many people as the policy wants have agreed to this plan, and
// puts them into the record. An approval of another plan counts for nothing, and neither does
// one for a Service of another namespace or name than the one that this run has read, or one that the policy does not count; the
// record says so.
func (p approvals) approved(all []Approval, rec *event.Record, attempt int, want remedy.Consent) bool {
	now := p.env.now()
	var count []Approval
	for _, a := range all {
		switch {
		case a.Rejects || !now.Before(a.Until):
		case a.Digest != rec.Digest:
			rec.AddNote(say.F("%s approved another plan (%s) at %s. This plan is %s.", a.By, a.Digest, a.At.Format(time.RFC3339), rec.Digest))
		case !a.good(rec.Digest, attempt, now):
		case a.About != rec.Service.String(): // the journal said of whom it asks, and anybody who writes there may
			rec.AddNote(say.F("%s approved this plan at %s for %s, and this is %s.", a.By, a.At.Format(time.RFC3339), a.About, rec.Service.String()))
		case want.Ruled && a.Object == "":
			rec.AddNote(say.F("%s approved this plan over NATS at %s. The policy counts only approvals that Kubernetes proves.", a.By, a.At.Format(time.RFC3339)))
		case !want.From(a.By, a.Groups):
			rec.AddNote(say.F("%s approved this plan at %s and is none of those whose approval counts: %s.", a.By, a.At.Format(time.RFC3339), want.Who()))
		case !slices.ContainsFunc(count, func(b Approval) bool { return a.By == b.By }):
			count = append(count, a)
		}
	}
	if len(count) < want.Needs {
		for _, a := range count {
			rec.AddNote(say.F("%s approved this plan at %s.", a.By, a.At.Format(time.RFC3339)).Then(said(a)))
		}
		return false
	}
	rec.Approved, rec.Seconded = count[0].said(), nil
	rule := say.F("%s approved this plan at %s.", count[0].By, count[0].At.Format(time.RFC3339)).Then(said(count[0]))
	for _, a := range count[1:want.Needs] {
		rec.Seconded = append(rec.Seconded, *a.said())
		rule = rule.Then(say.F("%s approved this plan at %s.", a.By, a.At.Format(time.RFC3339))).Then(said(a))
	}
	rec.SetRule(rule)
	return true
}

// said returns what there is to say of an answer beside who gave it and when.
func said(a Approval) say.Text {
	var text say.Text
	if a.Object == "" && a.Via != "" {
		text = say.F("Kubernetes does not prove who that is: it came over NATS, from the user %s.", a.Via)
	}
	if a.Chat != "" {
		text = text.Then(say.F("It came from a chat: %s.", event.FromChat(event.Redact(a.Chat))))
	}
	if a.Comment != "" {
		text = text.Then(say.F("Comment: %s", event.Redact(a.Comment)))
	}
	return text
}
