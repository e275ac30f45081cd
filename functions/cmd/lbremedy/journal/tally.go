package journal

import (
	"context"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Tally counts the cases of a cluster by status. Only the newest case of each Service and class counts; ended ones count by outcome, since a time.
type Tally struct {
	NeedsApproval int `json:"needsApproval"` // a plan waits for approval
	NeedsAction   int `json:"needsAction"`   // a person must act
	Waiting       int `json:"waiting"`       // continues automatically
	Planned       int `json:"planned"`       // the policy only observes
	Rejected      int `json:"rejected"`      // a person has rejected the plan
	Running       int `json:"running"`       // being looked at or written
	Fixed         int `json:"fixed"`         // since then: the failure is over, and traffic can flow
	Synced        int `json:"synced"`        // since then: the failure is over; that traffic can flow is not proven
	Recovered     int `json:"recovered"`     // since then, without a write
	Failed        int `json:"failed"`        // since then
	Unread        int `json:"unread"`        // unreadable records
}

// Count counts the cases of a cluster that are in the scope.
func Count(ctx context.Context, p *cli.Program, s *stream.Stream, cluster string, scope cli.Scope, since time.Time) (Tally, error) {
	var t Tally
	subject := event.CaseSubject(cluster, "*", "*")
	now := newReader(p)
	err := s.EachLast(ctx, stream.Cases, subject, now.each(func(r event.Record) error {
		if scope.Has(r.Service) {
			t.CountOpen(r.Status())
		}
		return nil
	}))
	now.Done()
	t.Unread = now.broken
	if err != nil {
		return t, err
	}
	type key struct{ uid, class, id string }
	ends := map[key]event.Status{}
	lately := newReader(p)
	err = s.Each(ctx, stream.Cases, subject, since, lately.each(func(r event.Record) error {
		if r.At.Before(since) || !scope.Has(r.Service) { // before: stored again, by a restore
			return nil
		}
		ends[key{r.Service.UID, r.Class, r.Case}] = r.Status()
		return nil
	}))
	lately.Done()
	t.Unread = max(t.Unread, lately.broken)
	for _, end := range ends {
		t.Ended(end)
	}
	return t, err
}

// Ended counts a case by its status at the end of the period.
func (t *Tally) Ended(status event.Status) {
	switch status {
	case event.Status(event.Fixed):
		t.Fixed++
	case event.Status(event.Synced):
		t.Synced++
	case event.Recovered:
		t.Recovered++
	case event.Status(event.Failed):
		t.Failed++
	}
}

// CountOpen counts the newest record of an open case.
func (t *Tally) CountOpen(status event.Status) {
	switch {
	case !status.Open():
	case status == event.NeedsApproval:
		t.NeedsApproval++
	case status == event.NeedsAction, status == event.Status(event.Failed):
		t.NeedsAction++
	case status == event.Status(event.Planned):
		t.Planned++
	case status == event.Rejected:
		t.Rejected++
	case status == event.Writing:
		t.Running++
	default:
		t.Waiting++
	}
}
