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

// SupportGrants is what the sink "alibaba" needs. No class has it: the program that
// notifies people does.
var SupportGrants = []grant.Grant{grant.CreateTicket, grant.ListTickets, grant.ReplyTicket, grant.CloseTicket, grant.ReopenTicket}

// alibaba opens tickets with Alibaba Cloud's support. It asks for help: what is over
// before anybody there has heard of it is not sent.
type alibaba struct {
	reads    cloud.Tickets
	writes   cloud.TicketWriter
	category string
	urgent   bool
	language *say.Language
}

// Open opens a ticket. It looks first for the one that an earlier try may have opened:
// the key stands in its text. One that is closed is of an earlier life of the incident.
func (a *alibaba) Open(ctx context.Context, t Ticket) (string, error) {
	if t.Tried {
		found, err := a.reads.Find(ctx, t.Key)
		if err != nil {
			return "", kinds(err)
		}
		found = slices.DeleteFunc(found, func(s cloud.TicketState) bool { return s.Closed })
		if n := len(found); n > 0 {
			t.ID, t.Was = found[n-1].ID, Open
			return t.ID, a.Update(ctx, t)
		}
	}
	if t.Status == Closed {
		return "", nil
	}
	text := t.Text
	if !strings.Contains(text, t.Key) { // a template of the operator's may leave it out, and a cut, too
		text += "\n" + a.language.Phrase("Reference: %s", t.Key)
	}
	id, err := a.writes.Create(ctx, cloud.Ticket{Title: t.Title, Description: text, Category: a.category, Urgent: a.urgent})
	return id, kinds(err)
}

// Update replies to the ticket and closes it at the end, or opens it again, also where support has closed it itself.
func (a *alibaba) Update(ctx context.Context, t Ticket) error {
	if t.Status == Closed {
		return a.close(ctx, t)
	}
	if t.Reopened() {
		return kinds(a.writes.Reopen(ctx, t.ID, t.Text))
	}
	err := kinds(a.writes.Reply(ctx, t.ID, t.Text))
	if errors.Is(err, ErrRefused) && kinds(a.writes.Reopen(ctx, t.ID, t.Text)) == nil {
		return nil
	}
	return err
}

// close replies with the outcome and closes the ticket.
func (a *alibaba) close(ctx context.Context, t Ticket) error {
	if t.ID == "" || t.Was == Closed {
		return nil
	}
	if err := kinds(a.writes.Reply(ctx, t.ID, t.Text)); err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	// Support refuses a reply to a ticket that it has closed itself, which is just as well.
	return kinds(a.writes.Close(ctx, t.ID))
}

// kinds returns an error of the cloud as one of a sink.
func kinds(err error) error {
	if err == nil || errors.Is(err, cloud.ErrUnavailable) || errors.Is(err, cloud.ErrThrottled) || errors.Is(err, cloud.ErrConflict) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
