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

// refusal is how support and billing refuse: with a status of 200.
type refusal struct {
	Success *on
	Code    text
	Message text
}

func (r refusal) check() error {
	if r.Success == nil {
		return lack("Success")
	}
	return nil
}

func (r refusal) err(product, action string) error {
	if bool(*r.Success) {
		return nil
	}
	status, err := strconv.Atoi(string(r.Code))
	if err != nil {
		status = 200
	}
	clean := redactor{}.clean
	return &Error{
		Product: product, Action: action, Code: clean(string(r.Code)), Message: clean(string(r.Message)),
		Status: status, kind: kindOf(string(r.Code), status, nil),
	}
}

// Find returns the tickets of the account that contain the keyword, sorted by ID. It needs grant.ListTickets.
func (t Tickets) Find(ctx context.Context, keyword string) ([]TicketState, error) {
	const action = "ListTickets"
	type answer struct {
		refusal
		TotalCount number
		Data       []struct {
			TicketID text `json:"TicketId"`
			Status   struct{ Label, Value text }
		}
	}
	return numbered("workorder", action, func(s TicketState) string { return s.ID }, func(page int) (pageOf[TicketState], error) {
		a, err := read(ctx, t.c, call[answer]{
			needs: needs{{"keyword", keyword}},
			request: func() requests.AcsRequest {
				r := workorder.CreateListTicketsRequest()
				r.Keyword = keyword
				r.PageNumber, r.PageSize = whole(page), whole(50)
				return r
			},
			check: func(a answer) error {
				if a.Success != nil && !bool(*a.Success) {
					return nil
				}
				if !a.TotalCount.ok {
					return lack("TotalCount")
				}
				for _, d := range a.Data {
					if d.TicketID == "" {
						return lack("the ID of a ticket")
					}
				}
				return a.check()
			},
		})
		if err == nil {
			err = a.err("workorder", action)
		}
		if err != nil {
			return pageOf[TicketState]{}, err
		}
		p := pageOf[TicketState]{total: a.TotalCount}
		for _, d := range a.Data {
			p.items = append(p.items, TicketState{
				ID:     string(d.TicketID),
				Closed: slices.Contains(closed, string(d.Status.Value)) || slices.Contains(closed, string(d.Status.Label)),
			})
		}
		return p, nil
	})
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
			if a.Success != nil && bool(*a.Success) && a.Data == "" {
				return lack("the ID of the ticket")
			}
			return a.check()
		},
	})
	if err == nil {
		err = a.err("workorder", "CreateTicket")
	}
	if err != nil {
		return "", err
	}
	return string(a.Data), nil
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
	a, err := write(ctx, w.c, call[refusal]{request: func() requests.AcsRequest { return r }, needs: needs, check: refusal.check, about: id})
	if err == nil {
		err = a.err("workorder", r.GetActionName())
	}
	return err
}
