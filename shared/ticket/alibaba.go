package ticket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// SupportGrants are the permissions of the sink "alibaba", which only the notifier has.
var SupportGrants = []grant.Grant{grant.CreateTicket, grant.ListTickets, grant.ReplyTicket, grant.CloseTicket, grant.ReopenTicket}

// alibaba asks Alibaba Cloud's support for help: an incident that ends before a ticket was opened is not sent.
type alibaba struct {
	reads    cloud.Tickets
	writes   cloud.TicketWriter
	category string
	urgent   bool
	language *say.Language
}

// Send opens a ticket, unless an earlier try has: it looks for the key in its text. A closed one belongs to an earlier occurrence.
func (a *alibaba) Send(ctx context.Context, t Ticket) (string, error) {
	if !t.Opens {
		return "", a.update(ctx, t)
	}
	if t.Tried {
		found, err := a.reads.Find(ctx, t.Key)
		if err != nil {
			return "", kinds(err)
		}
		found = slices.DeleteFunc(found, func(s cloud.TicketState) bool { return s.Closed })
		if n := len(found); n > 0 {
			t.ID, t.Was, t.Reopened = found[n-1].ID, Open, false
			return t.ID, a.update(ctx, t)
		}
	}
	if t.Status == Closed {
		return "", nil
	}
	text := t.Text
	if !strings.Contains(text, t.Key) { // an operator's template may omit it, and a cut may remove it
		text += "\n" + a.language.Phrase("Reference: %s", t.Key)
	}
	id, err := a.writes.Create(ctx, cloud.Ticket{Title: t.Title, Description: text, Category: a.category, Urgent: a.urgent})
	return id, kinds(err)
}

// update replies to the ticket and closes it at the end, or reopens it, even if support has closed it.
func (a *alibaba) update(ctx context.Context, t Ticket) error {
	switch {
	case t.Status == Closed && (t.ID == "" || t.Was == Closed):
		return nil
	case t.Reopened:
		return kinds(a.writes.Reopen(ctx, t.ID, t.Text))
	}
	err := kinds(a.writes.Reply(ctx, t.ID, t.Text))
	switch refused := errors.Is(err, ErrRefused); {
	case t.Status == Closed && (err == nil || refused): // support refuses a reply to a ticket that it has closed
		return kinds(a.writes.Close(ctx, t.ID))
	case refused && a.writes.Reopen(ctx, t.ID, t.Text) == nil:
		return nil
	}
	return err
}

func kinds(err error) error {
	if err == nil || errors.Is(err, cloud.ErrUnavailable) || errors.Is(err, cloud.ErrThrottled) || errors.Is(err, cloud.ErrConflict) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
