package ticket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

// cards are tickets as an app's cards, with buttons. A change of a card notifies nobody, so something new sends a card that replaces
// it: a new question, a worse impact, a failure that is back, or a change that the platform refuses.
type cards struct {
	app      chat.App
	language *say.Language
}

var labels = map[chat.Button]say.Text{chat.Approve: say.F("Approve"), chat.Reject: say.F("Reject"), chat.Mute: say.F("Mute for a day")}

// Send changes the card, or sends one after the previous one says that it can no longer be answered.
func (c *cards) Send(ctx context.Context, t Ticket) (string, error) {
	if !t.Opens {
		return "", sinkError(c.app.Change(ctx, t.ID, cardOf(t, c.language)))
	}
	if t.ID != "" {
		old := chat.Card{Title: t.Title, Text: c.language.Phrase("Another message has taken the place of this one."), Over: true}
		if err := sinkError(c.app.Change(ctx, t.ID, old)); err != nil && !errors.Is(err, ErrRefused) {
			return "", err // a previous card that somebody deleted doesn't prevent a new one
		}
	}
	id, err := c.app.Send(ctx, t.Key+"-"+strconv.Itoa(t.Number), cardOf(t, c.language))
	return id, sinkError(err)
}

func cardOf(t Ticket, l *say.Language) chat.Card {
	c := chat.Card{Title: t.Title, Text: t.Text, Said: t.Said, Over: t.Status == Closed, Labels: map[chat.Button]string{}}
	for b, label := range labels {
		c.Labels[b] = label.In(l)
	}
	if t.Status == Open {
		c.Value = t.Question
		if t.Question != "" {
			c.Buttons = append(c.Buttons, chat.Approve, chat.Reject)
		}
		if !t.Muted {
			c.Buttons = append(c.Buttons, chat.Mute)
		}
	}
	return c
}

func sinkError(err error) error {
	if e, ok := errors.AsType[*chat.Error](err); ok && e.Refused {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// questionOf returns the question that a member asks in this class; empty if it asks none.
func questionOf(m Member, class string) string {
	if m.Over || m.Status() != event.NeedsApproval || m.Attempt < 1 || m.Service.Kind != "" {
		return ""
	}
	return approval.Question{Cluster: m.Cluster, UID: m.uid, Class: class, Case: m.Case, Attempt: m.Attempt, Digest: m.Digest}.String()
}

const mutedFor = 24 * time.Hour

// A Shown is what the last card that notified people showed.
type Shown struct {
	Question string       `json:"question,omitempty"`
	Failing  int          `json:"failing,omitempty"`
	Impact   event.Impact `json:"impact,omitempty"`
}

// anew reports whether a ticket deserves another card. While it is muted, only another Service or a worse impact does.
func (h Head) anew(f Facts, now time.Time) bool {
	switch {
	case f.Status != Open || h.Status == None:
		return false // the end changes the card, and a new ticket has none
	case h.Status == Closed, worse(f.Impact, h.Shown.Impact):
		return true
	case now.Before(h.MutedUntil):
		return f.Failing > h.Shown.Failing
	}
	q := questionOf(f.Lead, f.Class)
	return q != "" && q != h.Shown.Question
}
