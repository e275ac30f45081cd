package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// ApprovalLife is how long an approval lasts when a person does not say.
const ApprovalLife = 24 * time.Hour

// An Approval is a person's word for one plan. It is good for one attempt, and for
// no other plan than the one with this digest.
//
// It is kept until that attempt has written all: a run that takes the attempt over proves
// by it that somebody has agreed, and not by the journal.
type Approval struct {
	Case     string    `json:"case"`
	Digest   string    `json:"digest"`
	By       string    `json:"by"`
	Identity string    `json:"identity,omitempty"` // theirs in the cluster, where one could be asked
	Host     string    `json:"host,omitempty"`     // the machine on which they agreed
	At       time.Time `json:"at"`
	Until    time.Time `json:"until"`
	Attempt  int       `json:"attempt,omitempty"` // that it is used for; 0: none yet
}

// said returns the approval as a record tells of it.
func (a Approval) said() *event.Approved {
	return &event.Approved{By: a.By, At: a.At, Identity: a.Identity, Host: a.Host}
}

// good reports whether the approval is one of this plan and for this attempt.
func (a Approval) good(digest string, attempt int, now time.Time) bool {
	return a.Digest == digest && (a.Attempt == 0 || a.Attempt == attempt) && now.Before(a.Until)
}

func approvalKey(cluster, uid, class string) string {
	return "approval." + cluster + "." + uid + "." + class
}

// Approve puts down a person's word for the plan of a record, which must ask for it.
// The failure must then be delivered again: it is diagnosed again, and the plan is
// applied if it is still the same. An approval of another plan of the case is
// replaced; of the same plan the first one stays.
func Approve(ctx context.Context, s *stream.Stream, rec event.Record, by event.Person, now time.Time, life time.Duration) (Approval, error) {
	switch {
	case rec.Result == event.Planned:
		return Approval{}, fmt.Errorf("case %s is only observed: %s An approval does not change the mode", rec.Case, rec.Rule)
	case rec.Result != event.Asked || len(rec.Steps) == 0 || rec.Digest == "":
		return Approval{}, fmt.Errorf("case %s has no plan that waits for an approval: it is %s. %s", rec.Case, rec.Status(), rec.Rule)
	}
	a := Approval{Case: rec.Case, Digest: rec.Digest, By: by.Name, Identity: by.Identity, Host: by.Host, At: now, Until: now.Add(life)}
	data, err := json.Marshal(a)
	if err != nil {
		return Approval{}, fmt.Errorf("encode the approval: %w", err)
	}
	key := approvalKey(rec.Cluster, rec.Service.UID, rec.Class)
	created, err := s.Create(ctx, key, data, life)
	if err != nil {
		return Approval{}, fmt.Errorf("approve: %w", err)
	}
	if created {
		return a, a.stands(ctx, s, rec)
	}
	have, err := approval(ctx, s, rec.Cluster, rec.Service.UID, rec.Class)
	if err != nil {
		return Approval{}, err
	}
	if have != nil && have.good(rec.Digest, 0, now) {
		return *have, nil
	}
	// An attempt that is under way proves by the one that is there that it may go on.
	if have != nil && have.Attempt != 0 {
		if err := a.waits(ctx, s, rec); err != nil {
			return Approval{}, err
		}
	}
	if err := s.Delete(ctx, key); err != nil {
		return Approval{}, fmt.Errorf("approve: %w", err)
	}
	if created, err = s.Create(ctx, key, data, life); err == nil && !created {
		err = errors.New("somebody else has approved at the same time: look again")
	}
	if err != nil {
		return Approval{}, fmt.Errorf("approve: %w", err)
	}
	return a, a.stands(ctx, s, rec)
}

// stands takes the approval back if the journal says by now that the plan waits for none:
// it was applied on another person's word, say. Left there, it would be one for a plan
// that nobody has seen yet.
func (a Approval) stands(ctx context.Context, s *stream.Stream, asked event.Record) error {
	err := a.waits(ctx, s, asked)
	if err == nil {
		return nil
	}
	if gone := s.Delete(ctx, approvalKey(asked.Cluster, asked.Service.UID, asked.Class)); gone != nil {
		err = errors.Join(err, fmt.Errorf("take the approval back: %w", gone))
	}
	return err
}

// waits returns an error if the journal says by now that the plan waits for no approval.
func (a Approval) waits(ctx context.Context, s *stream.Stream, asked event.Record) error {
	m, err := s.Last(ctx, stream.Cases, event.CaseSubject(asked.Cluster, asked.Service.UID, asked.Class))
	if errors.Is(err, stream.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := decode(m)
	if err != nil || now.Result == event.Asked && now.Digest == a.Digest {
		return err
	}
	how := now.Status()
	if now.Result == "" {
		how = "being worked on"
	}
	return fmt.Errorf("case %s has no plan that waits for an approval: it is %s. %s", now.Case, how, now.Rule)
}

// approval returns the approval that stands for a Service and class; nil if none does.
func approval(ctx context.Context, s *stream.Stream, cluster, uid, class string) (*Approval, error) {
	data, err := s.Get(ctx, approvalKey(cluster, uid, class))
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the approval: %w", err)
	}
	var a Approval
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("read the approval: %w", err)
	}
	return &a, nil
}

// The approvals of one Service and class are what persons have said of its plans.
type approvals struct {
	env        *Env
	uid, class string
}

// agreed reports whether a person has approved the plan that a record asks about.
func (p approvals) agreed(ctx context.Context, prev event.Record) (bool, error) {
	if prev.Phase != event.Settled || prev.Result != event.Asked || prev.Digest == "" {
		return false, nil
	}
	a, err := approval(ctx, p.env.Stream, p.env.Cluster, prev.Service.UID, p.class)
	return a != nil && a.good(prev.Digest, prev.Attempt+1, p.env.now()), err
}

// approved reports whether a person has agreed to this plan, and puts it into the
// record. An approval of another plan counts for nothing, and the record says so.
func (p approvals) approved(ctx context.Context, rec *event.Record, attempt int) (bool, error) {
	if p.env.Stream == nil {
		return false, nil
	}
	a, err := approval(ctx, p.env.Stream, p.env.Cluster, p.uid, p.class)
	digest := rec.Digest
	switch {
	case err != nil:
		return false, err
	case a == nil || !p.env.now().Before(a.Until):
		return false, nil
	case a.Digest != digest:
		rec.AddNote(say.F("%s approved another plan (%s) at %s. This plan is %s.", a.By, a.Digest, a.At.Format(time.RFC3339), digest))
		return false, nil
	case !a.good(digest, attempt, p.env.now()):
		return false, nil
	}
	rec.Approved = a.said()
	rec.SetRule(say.F("%s approved this plan at %s.", a.By, a.At.Format(time.RFC3339)))
	return true, nil
}

// bind has the approval that the attempt in hand rests on be good for no other one.
func (p approvals) bind(ctx context.Context, rec event.Record, attempt int) error {
	if rec.Approved == nil {
		return nil
	}
	key := approvalKey(p.env.Cluster, p.uid, p.class)
	entry, err := p.env.Stream.Entry(ctx, key)
	if err != nil {
		return fmt.Errorf("use the approval: %w", err)
	}
	var a Approval
	if err := json.Unmarshal(entry.Value, &a); err != nil {
		return fmt.Errorf("use the approval: %w", err)
	}
	now := p.env.now()
	if !a.good(rec.Digest, attempt, now) {
		return fmt.Errorf("use the approval: %w", remedy.ErrMoved)
	}
	a.Attempt = attempt
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("use the approval: %w", err)
	}
	if _, err := p.env.Stream.Swap(ctx, key, data, entry.Revision, max(time.Second, a.Until.Sub(now))); err != nil {
		return fmt.Errorf("use the approval: %w", err)
	}
	return nil
}

// useUp removes the approval that the attempt in hand rests on, once all is written.
func (p approvals) useUp(ctx context.Context, rec event.Record) error {
	if rec.Approved == nil {
		return nil
	}
	if err := p.env.Stream.Delete(ctx, approvalKey(p.env.Cluster, p.uid, p.class)); err != nil {
		return fmt.Errorf("use the approval up: %w", err)
	}
	return nil
}
