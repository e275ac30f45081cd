package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Question is the plan of a case that a person answers, as a page or a message has shown it.
type Question struct {
	Cluster, UID, Class, Case string
	Attempt                   int
	Digest                    string
}

// String returns its form in addresses and in the buttons of messages.
func (q Question) String() string {
	return fmt.Sprintf("%s/%s/%s/%s/%d/%s", q.Cluster, q.UID, q.Class, q.Case, q.Attempt, q.Digest)
}

// ParseQuestion reads what String returns.
func ParseQuestion(text string) (Question, bool) {
	f := strings.Split(text, "/")
	if len(f) != 6 || slices.Contains(f, "") {
		return Question{}, false
	}
	attempt, err := strconv.Atoi(f[4])
	return Question{Cluster: f[0], UID: f[1], Class: f[2], Case: f[3], Attempt: attempt, Digest: f[5]}, err == nil
}

// Short returns the beginning of its digest.
func (q Question) Short() string { return q.Digest[:min(len(q.Digest), 12)] }

// Now returns the newest record of the Service and class; nil if none exists.
func (q Question) Now(ctx context.Context, s *stream.Stream) (*event.Record, error) {
	if cmp.Or(event.ValidCluster(q.Cluster), event.ValidUID(q.UID), event.ValidClass(q.Class)) != nil {
		return nil, nil // no record has such a name
	}
	m, err := s.Last(ctx, stream.Cases, event.CaseSubject(q.Cluster, q.UID, q.Class))
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, say.Errorf("read the journal: %w", err)
	}
	r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return nil, say.Errorf("read the journal: %w", err)
	}
	return &r, nil
}

// Takes returns why a user can't answer the question: its newest record is not the shown one, or does not wait for this answer of theirs.
func (q Question) Takes(now *event.Record, verdict kube.Verdict, user string) error {
	switch {
	case now == nil:
		return late{say.Errorf("the journal has no such case")}
	case now.Case != q.Case:
		return late{say.Errorf("this case is over: there is a newer one, %s", now.Case)}
	case now.Service.Kind != "":
		return late{say.Errorf("this is not about a Service: it is answered in a terminal")}
	}
	if err := Takes(*now, verdict, user); err != nil {
		return err
	}
	if now.Digest != q.Digest || now.NextAttempt() != q.Attempt {
		return late{say.Errorf("the plan is another one by now: look at it again")}
	}
	return nil
}
