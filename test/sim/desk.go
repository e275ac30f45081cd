package sim

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workorder is the ticket desk:
// https://www.alibabacloud.com/help/en/ticket-system-api/latest/api-workorder-2021-06-10-overview
func workorder() *product {
	one := []string{"TicketId"}
	return &product{
		name: "workorder", version: "2021-06-10", host: "workorder.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"CreateTicket":           {do: createTicket, need: []string{"Severity", "Description", "CategoryId"}},
			"GetTicket":              {do: getTicket, need: one},
			"ListTickets":            {do: listTickets, need: []string{"PageNumber", "PageSize"}},
			"ListTicketNotes":        {do: listTicketNotes, need: one},
			"ReplyTicket":            {do: replyTicket, need: append(one, "Content", "Encrypt")},
			"CloseTicket":            {do: closeTicket, need: one},
			"ReopenTicket":           {do: reopenTicket, need: append(one, "Content")},
			"EvaluateTicket":         {do: evaluateTicket, need: append(one, "Solved", "Score")},
			"GetAttachmentUploadUrl": {do: attachmentURL, need: []string{"FileName"}},
			"ListProducts":           {do: listProducts},
			"ListCategories":         {do: listCategories, need: []string{"ProductId"}},
		},
	}
}

// statuses are those of tickets: what a World calls them, the API's word, and
// its number.
var statuses = [][3]string{
	{"assigned", "assigned", "1"}, {"in_progress", "dealing", "2"}, {"wait_feedback", "wait_feedback", "3"}, {"feedback", "feedback", "4"},
	{"wait_confirm", "wait_confirm", "5"}, {"completed", "confirmed", "6"},
}

// status shows the status of a ticket.
func (t *Ticket) status() reply {
	for _, s := range statuses {
		if t.Status == s[0] || t.Status == s[1] {
			return reply{"Label": s[0], "Value": s[2]}
		}
	}
	return reply{"Label": t.Status, "Value": t.Status}
}

// in reports whether a ticket has one of these statuses, by any of their names.
func (t *Ticket) in(states []string) bool {
	for _, s := range statuses {
		if (t.Status == s[0] || t.Status == s[1]) && slices.ContainsFunc(s[:], func(name string) bool { return slices.Contains(states, name) }) {
			return true
		}
	}
	return states == nil || slices.Contains(states, t.Status)
}

// desk is what the ticket desk has a category for.
var desk = []struct {
	product, category int
	name, title       string
}{
	{18519, 53811, "Container Service for Kubernetes", "Service and Ingress"},
	{18520, 53812, "Server Load Balancer", "Instance"},
	{18521, 53813, "Resource Access Management", "Permission"},
}

// done is a good answer of the ticket desk. Its code is 0 for some actions and
// 200 for others.
func done(code int, data any) (any, *failure) {
	return reply{"Code": code, "Message": "success", "Success": true, "Data": data}, nil
}

func illegal() *failure {
	return fail(http.StatusBadRequest, "param.illegal", "Params illegal.")
}

func (q *request) ticket() (*Ticket, *failure) {
	if t := q.state.Tickets[q.params["TicketId"]]; t != nil {
		return t, nil
	}
	return nil, illegal()
}

func createTicket(q *request) (any, *failure) {
	severity, bad := q.params.number("Severity", 1, 2, 1)
	if bad != nil {
		return nil, illegal()
	}
	known := false
	for _, d := range desk {
		known = known || strconv.Itoa(d.category) == q.params["CategoryId"]
	}
	if !known {
		return nil, illegal()
	}
	id := q.state.id("T", func(id string) bool { return q.state.Tickets[id] != nil })
	text := q.params["Description"]
	first, _, _ := strings.Cut(text, "\n")
	q.state.Tickets[id] = &Ticket{
		ID: id, Title: cmp.Or(q.params["Title"], first[:min(len(first), 60)]), Description: text, Category: q.params["CategoryId"],
		Severity: severity, Status: "in_progress", Created: q.now.UTC().Truncate(time.Second),
	}
	return done(0, id)
}

func getTicket(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	return done(0, reply{
		"TicketId": t.ID, "Title": t.Title, "Description": t.Description, "CategoryId": t.Category, "Status": t.status(), "CreateTime": t.Created.UnixMilli(),
		"CreatorId": q.state.AccountID, "Severity": reply{"Label": strconv.Itoa(t.Severity), "Value": strconv.Itoa(t.Severity)},
	})
}

// listTickets finds tickets by what their description says, or by their status.
func listTickets(q *request) (any, *failure) {
	p := q.params
	states, ids := p.list("StatusList"), p.list("TicketIdList")
	size, bad := p.number("PageSize", 10, 100, 10)
	if bad != nil {
		return nil, illegal()
	}
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.Tickets)) {
		t := q.state.Tickets[id]
		if is(p["TicketId"], id) && (ids == nil || slices.Contains(ids, id)) && t.in(states) && strings.Contains(t.Description, p["Keyword"]) {
			list = append(list, reply{"TicketId": id, "Title": t.Title, "Status": t.status()})
		}
	}
	part, n, size, bad := page(p, list, size, 100)
	if bad != nil {
		return nil, illegal()
	}
	return reply{"Code": 0, "Message": "success", "Success": true, "PageNumber": n, "PageSize": size, "TotalCount": len(list), "Data": part}, nil
}

// listTicketNotes shows what was said of a ticket: as text, by the user.
func listTicketNotes(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for i, text := range append([]string{t.Description}, t.Notes...) {
		list = append(list, reply{
			"DialogId": i + 1, "CreateTime": t.Created.UnixMilli(), "Type": 2, "Status": 2, "Tip": "", "Dialog": reply{"Content": text, "Schema": ""},
			"User": reply{"Name": q.caller.Name, "Role": 3},
		})
	}
	return done(0, list)
}

// openTicket returns the ticket that a request names if nobody closed it.
func (q *request) openTicket() (*Ticket, *failure) {
	t, bad := q.ticket()
	if bad == nil && t.Status == "completed" {
		return nil, illegal()
	}
	return t, bad
}

func replyTicket(q *request) (any, *failure) {
	t, bad := q.openTicket()
	if bad != nil {
		return nil, bad
	}
	t.Notes = append(t.Notes, q.params["Content"])
	return done(0, strconv.Itoa(len(t.Notes)+1))
}

// reopenTicket opens a closed ticket again, with a reply.
func reopenTicket(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	if t.Status != "completed" {
		return nil, illegal()
	}
	t.Status, t.Notes = "in_progress", append(t.Notes, q.params["Content"])
	return done(0, t.ID)
}

func evaluateTicket(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	n, bad := q.params.number("Score", 1, 5, 5)
	if bad != nil || t.Status != "completed" {
		return nil, illegal()
	}
	t.Score = n
	return reply{"Code": 200, "Message": "successful", "Success": true}, nil
}

func attachmentURL(q *request) (any, *failure) {
	key := strings.ToLower(requestID())
	if i := strings.LastIndex(q.params["FileName"], "."); i >= 0 {
		key += q.params["FileName"][i:]
	}
	url := "https://workorder.oss-cn-beijing.aliyuncs.com/" + key
	return done(0, reply{"ObjectKey": key, "PutSignedUrl": url, "GetSignedUrl": url})
}

func closeTicket(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	t.Status = "completed"
	return reply{"Code": 200, "Message": "success", "Success": true}, nil
}

func listProducts(q *request) (any, *failure) {
	list := []reply{}
	for _, d := range desk {
		if strings.Contains(strings.ToLower(d.name), strings.ToLower(q.params["Name"])) {
			list = append(list, reply{"ProductId": d.product, "ProductName": d.name})
		}
	}
	return done(0, []reply{{"DirectoryId": 1, "DirectoryName": "Cloud", "ProductList": list}})
}

func listCategories(q *request) (any, *failure) {
	list := []reply{}
	for _, d := range desk {
		if strconv.Itoa(d.product) == q.params["ProductId"] && strings.Contains(d.title, q.params["Name"]) {
			list = append(list, reply{"CategoryId": d.category, "CategoryName": d.title, "Status": 0, "Tip": ""})
		}
	}
	return done(200, list)
}
