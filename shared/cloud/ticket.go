package cloud

import (
	"context"
	"slices"
	"strconv"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/workorder"
)

// Tickets reads tickets of Alibaba Cloud's support.
type Tickets struct{ c *client }

// TicketWriter opens, answers and closes tickets of Alibaba Cloud's support.
type TicketWriter struct{ c *client }

// A Ticket is a question to Alibaba Cloud's support.
type Ticket struct {
	Title       string
	Description string // plain text
	Category    string // ID of one of the support's categories
	Urgent      bool
}

// A TicketState is a ticket as support lists it.
type TicketState struct {
	ID     string
	Closed bool // it has ended
}

// closed are the words for the status of a closed ticket. The label is in the language of the account; the value is 6
// (https://www.alibabacloud.com/help/en/ticket-system-api/latest/api-workorder-2021-06-10-listtickets).
var closed = []string{"6", "confirmed", "completed"}

// refusal is how support and billing refuse, with a status of 200. Their code may be a status.
type refusal struct {
	Success *on
	Code    text
	Message text
}

// Error returns the message.
func (r refusal) Error() string { return string(r.Message) }

func (r refusal) check() error {
	switch {
	case r.Success == nil:
		return lack("Success")
	case !bool(*r.Success):
		return r
	}
	return nil
}

// refusal fills in and returns e.
func (e *Error) refusal(r refusal) *Error {
	clean := redactor{}.clean
	e.Code, e.Message = clean(string(r.Code)), clean(string(r.Message))
	if status, err := strconv.Atoi(string(r.Code)); err == nil {
		e.Status = status
	}
	e.kind = kindOf(string(r.Code), e.Status, nil)
	return e
}

// Find returns the tickets of the account that contain the keyword, sorted by ID. It needs grant.ListTickets.
func (t Tickets) Find(ctx context.Context, keyword string) ([]TicketState, error) {
	type ticket struct {
		TicketID text `json:"TicketId"`
		Status   struct{ Label, Value text }
	}
	type answer struct {
		refusal
		TotalCount number
		Data       []ticket
	}
	id := func(w ticket) string { return string(w.TicketID) }
	list, err := numbered("workorder", "ListTickets", id, pages(ctx, t.c, listing[int, answer, ticket]{
		needs: needs{{"keyword", keyword}},
		request: func(page int) requests.AcsRequest {
			r := workorder.CreateListTicketsRequest()
			r.Keyword = keyword
			r.PageNumber, r.PageSize = whole(page), whole(50)
			return r
		},
		page: func(a answer) (pageOf[ticket], error) {
			if err := a.check(); err != nil {
				return pageOf[ticket]{}, err
			}
			return counted(a.TotalCount, a.Data)
		},
		check: func(w ticket) error {
			if w.TicketID == "" {
				return lack("the ID of a ticket")
			}
			return nil
		},
	}))
	return values(list, func(w ticket) TicketState {
		return TicketState{ID: id(w), Closed: slices.Contains(closed, string(w.Status.Value)) || slices.Contains(closed, string(w.Status.Label))}
	}), err
}

// Create opens a ticket and returns its ID. A repeated call opens another: first use Tickets.Find with a text unique to it. It needs grant.CreateTicket.
func (w TicketWriter) Create(ctx context.Context, t Ticket) (id string, err error) {
	type answer struct {
		refusal
		Data text
	}
	a, err := write(ctx, w.c, call[answer]{
		needs: needs{{"description of the ticket", t.Description}, {"category of the ticket", t.Category}},
		request: func() requests.AcsRequest {
			r := workorder.CreateCreateTicketRequest()
			r.Description, r.CategoryId, r.Severity = t.Description, t.Category, whole(1)
			if t.Urgent {
				r.Severity = whole(2)
			}
			if t.Title != "" {
				r.FormParams["Title"] = t.Title // the API accepts it, the SDK's type lacks it
			}
			return r
		},
		check: func(a answer) error {
			if err := a.check(); err != nil {
				return err
			}
			if a.Data == "" {
				return lack("the ID of the ticket")
			}
			return nil
		},
	})
	return string(a.Data), err
}

// Reply adds a text to an open ticket; a repeated call adds it again. It needs grant.ReplyTicket.
func (w TicketWriter) Reply(ctx context.Context, id, text string) error {
	r := workorder.CreateReplyTicketRequest()
	r.TicketId, r.Content, r.Encrypt = id, text, requests.NewBoolean(false)
	return w.send(ctx, needs{{"ID of the ticket", id}, {"text", text}}, id, r)
}

// Close closes a ticket, also a closed one. It needs grant.CloseTicket.
func (w TicketWriter) Close(ctx context.Context, id string) error {
	r := workorder.CreateCloseTicketRequest()
	r.TicketId = id
	return w.send(ctx, needs{{"ID of the ticket", id}}, id, r)
}

// Reopen opens a closed ticket, with a text. The SDK has no type for it
// (https://www.alibabacloud.com/help/en/ticket-system-api/latest/api-workorder-2021-06-10-reopenticket). It needs grant.ReopenTicket.
func (w TicketWriter) Reopen(ctx context.Context, id, text string) error {
	r := &struct{ *requests.RpcRequest }{&requests.RpcRequest{}}
	r.InitWithApiInfo("Workorder", "2021-06-10", "ReopenTicket", "", "")
	r.Method = requests.POST
	r.FormParams["TicketId"], r.FormParams["Content"] = id, text
	return w.send(ctx, needs{{"ID of the ticket", id}, {"text", text}}, id, r)
}

func (w TicketWriter) send(ctx context.Context, needs needs, id string, r requests.AcsRequest) error {
	_, err := write(ctx, w.c, call[refusal]{request: func() requests.AcsRequest { return r }, needs: needs, check: refusal.check, about: id})
	return err
}
