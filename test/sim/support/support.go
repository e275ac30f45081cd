// Package support simulates the support system, the product workorder.
package support

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A Ticket is a work order.
type Ticket struct {
	ID          string    `json:"id,omitempty"`
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Category    string    `json:"category,omitempty"`
	Severity    int       `json:"severity,omitempty"`
	Status      string    `json:"status,omitempty"` // in_progress if empty; assigned, wait_feedback, feedback, wait_confirm or completed
	Notes       []string  `json:"notes,omitempty"`
	Score       int       `json:"score,omitempty"` // 1 to 5; 0: none
	Created     time.Time `json:"created,omitzero"`
}

// A State holds the tickets of an account.
type State struct {
	*core.State
	Tickets map[string]*Ticket
}

// New returns the state, with defaults set.
func New(base *core.State, tickets []Ticket) (*State, error) {
	s := &State{State: base}
	base.Add(s)
	var err error
	s.Tickets, err = core.Index("ticket", tickets, func(t *Ticket) string { return t.ID }, func(i int, t *Ticket) {
		t.ID, t.Status, t.Severity = cmp.Or(t.ID, fmt.Sprintf("T%06d", i+1)), cmp.Or(t.Status, "in_progress"), cmp.Or(t.Severity, 1)
		if t.Created.IsZero() {
			t.Created = s.Started
		}
	})
	return s, err
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// Product is the ticket system (https://www.alibabacloud.com/help/en/ticket-system-api/latest/api-workorder-2021-06-10-overview).
func Product() *core.Product {
	one := []string{"TicketId"}
	return &core.Product{
		Name: "workorder", Version: "2021-06-10", Host: "workorder.aliyuncs.com", Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"CreateTicket":           {Do: on(createTicket), Need: []string{"Severity", "Description", "CategoryId"}},
			"GetTicket":              {Do: on(getTicket), Need: one},
			"ListTickets":            {Do: on(listTickets), Need: []string{"PageNumber", "PageSize"}},
			"ListTicketNotes":        {Do: on(listTicketNotes), Need: one},
			"ReplyTicket":            {Do: on(replyTicket), Need: append(one, "Content", "Encrypt")},
			"CloseTicket":            {Do: on(closeTicket), Need: one},
			"ReopenTicket":           {Do: on(reopenTicket), Need: append(one, "Content")},
			"EvaluateTicket":         {Do: on(evaluateTicket), Need: append(one, "Solved", "Score")},
			"GetAttachmentUploadUrl": {Do: on(attachmentURL), Need: []string{"FileName"}},
			"ListProducts":           {Do: on(listProducts)},
			"ListCategories":         {Do: on(listCategories), Need: []string{"ProductId"}},
		},
	}
}

// statuses are the statuses of tickets: in a World, in the API, and as the API's number.
var statuses = [][3]string{
	{"assigned", "assigned", "1"}, {"in_progress", "dealing", "2"}, {"wait_feedback", "wait_feedback", "3"}, {"feedback", "feedback", "4"},
	{"wait_confirm", "wait_confirm", "5"}, {"completed", "confirmed", "6"},
}

func (t *Ticket) status() core.Reply {
	for _, s := range statuses {
		if t.Status == s[0] || t.Status == s[1] {
			return core.Reply{"Label": s[0], "Value": s[2]}
		}
	}
	return core.Reply{"Label": t.Status, "Value": t.Status}
}

func (t *Ticket) in(states []string) bool {
	for _, s := range statuses {
		if (t.Status == s[0] || t.Status == s[1]) && slices.ContainsFunc(s[:], func(name string) bool { return slices.Contains(states, name) }) {
			return true
		}
	}
	return states == nil || slices.Contains(states, t.Status)
}

var categories = []struct {
	product, category int
	name, title       string
}{
	{18519, 53811, "Container Service for Kubernetes", "Service and Ingress"},
	{18520, 53812, "Server Load Balancer", "Instance"},
	{18521, 53813, "Resource Access Management", "Permission"},
}

// done returns a successful answer. Its code is 0 for some actions and 200 for others.
func done(code int, data any) (any, *core.Failure) {
	return core.Reply{"Code": code, "Message": "success", "Success": true, "Data": data}, nil
}

func illegal() *core.Failure {
	return core.Fail(http.StatusBadRequest, "param.illegal", "Params illegal.")
}

func (q *request) ticket() (*Ticket, *core.Failure) {
	if t := q.state.Tickets[q.Params["TicketId"]]; t != nil {
		return t, nil
	}
	return nil, illegal()
}

func createTicket(q *request) (any, *core.Failure) {
	severity, bad := q.Params.Number("Severity", 1, 2, 1)
	if bad != nil {
		return nil, illegal()
	}
	known := false
	for _, d := range categories {
		known = known || strconv.Itoa(d.category) == q.Params["CategoryId"]
	}
	if !known {
		return nil, illegal()
	}
	id := q.state.ID("T", func(id string) bool { return q.state.Tickets[id] != nil })
	text := q.Params["Description"]
	first, _, _ := strings.Cut(text, "\n")
	q.state.Tickets[id] = &Ticket{
		ID: id, Title: cmp.Or(q.Params["Title"], first[:min(len(first), 60)]), Description: text, Category: q.Params["CategoryId"],
		Severity: severity, Status: "in_progress", Created: q.Now.UTC().Truncate(time.Second),
	}
	return done(0, id)
}

func getTicket(q *request) (any, *core.Failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	return done(0, core.Reply{
		"TicketId": t.ID, "Title": t.Title, "Description": t.Description, "CategoryId": t.Category, "Status": t.status(), "CreateTime": t.Created.UnixMilli(),
		"CreatorId": q.state.AccountID, "Severity": core.Reply{"Label": strconv.Itoa(t.Severity), "Value": strconv.Itoa(t.Severity)},
	})
}

func listTickets(q *request) (any, *core.Failure) {
	p := q.Params
	states, ids := p.List("StatusList"), p.List("TicketIdList")
	size, bad := p.Number("PageSize", 10, 100, 10)
	if bad != nil {
		return nil, illegal()
	}
	list := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.Tickets)) {
		t := q.state.Tickets[id]
		if core.Is(p["TicketId"], id) && (ids == nil || slices.Contains(ids, id)) && t.in(states) && strings.Contains(t.Description, p["Keyword"]) {
			list = append(list, core.Reply{"TicketId": id, "Title": t.Title, "Status": t.status()})
		}
	}
	part, n, size, bad := core.Page(p, list, size, 100)
	if bad != nil {
		return nil, illegal()
	}
	return core.Reply{"Code": 0, "Message": "success", "Success": true, "PageNumber": n, "PageSize": size, "TotalCount": len(list), "Data": part}, nil
}

func listTicketNotes(q *request) (any, *core.Failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for i, text := range append([]string{t.Description}, t.Notes...) {
		list = append(list, core.Reply{
			"DialogId": i + 1, "CreateTime": t.Created.UnixMilli(), "Type": 2, "Status": 2, "Tip": "", "Dialog": core.Reply{"Content": text, "Schema": ""},
			"User": core.Reply{"Name": q.Caller.Name, "Role": 3},
		})
	}
	return done(0, list)
}

func (q *request) openTicket() (*Ticket, *core.Failure) {
	t, bad := q.ticket()
	if bad == nil && t.Status == "completed" {
		return nil, illegal()
	}
	return t, bad
}

func replyTicket(q *request) (any, *core.Failure) {
	t, bad := q.openTicket()
	if bad != nil {
		return nil, bad
	}
	t.Notes = append(t.Notes, q.Params["Content"])
	return done(0, strconv.Itoa(len(t.Notes)+1))
}

func reopenTicket(q *request) (any, *core.Failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	if t.Status != "completed" {
		return nil, illegal()
	}
	t.Status, t.Notes = "in_progress", append(t.Notes, q.Params["Content"])
	return done(0, t.ID)
}

func evaluateTicket(q *request) (any, *core.Failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	n, bad := q.Params.Number("Score", 1, 5, 5)
	if bad != nil || t.Status != "completed" {
		return nil, illegal()
	}
	t.Score = n
	return core.Reply{"Code": 200, "Message": "successful", "Success": true}, nil
}

func attachmentURL(q *request) (any, *core.Failure) {
	key := strings.ToLower(core.RequestID())
	if i := strings.LastIndex(q.Params["FileName"], "."); i >= 0 {
		key += q.Params["FileName"][i:]
	}
	url := "https://workorder.oss-cn-beijing.aliyuncs.com/" + key
	return done(0, core.Reply{"ObjectKey": key, "PutSignedUrl": url, "GetSignedUrl": url})
}

func closeTicket(q *request) (any, *core.Failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	t.Status = "completed"
	return core.Reply{"Code": 200, "Message": "success", "Success": true}, nil
}

func listProducts(q *request) (any, *core.Failure) {
	list := []core.Reply{}
	for _, d := range categories {
		if strings.Contains(strings.ToLower(d.name), strings.ToLower(q.Params["Name"])) {
			list = append(list, core.Reply{"ProductId": d.product, "ProductName": d.name})
		}
	}
	return done(0, []core.Reply{{"DirectoryId": 1, "DirectoryName": "Cloud", "ProductList": list}})
}

func listCategories(q *request) (any, *core.Failure) {
	list := []core.Reply{}
	for _, d := range categories {
		if strconv.Itoa(d.product) == q.Params["ProductId"] && strings.Contains(d.title, q.Params["Name"]) {
			list = append(list, core.Reply{"CategoryId": d.category, "CategoryName": d.title, "Status": 0, "Tip": ""})
		}
	}
	return done(200, list)
}
