package sim

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// workorder is the ticket desk:
// https://www.alibabacloud.com/help/en/ticket-system-api/latest/api-workorder-2021-06-10-overview
func workorder() *product {
	return &product{
		name: "workorder", version: "2021-06-10", host: "workorder.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"CreateTicket":    {do: createTicket, need: []string{"Severity", "Description", "CategoryId"}},
			"ListTickets":     {do: listTickets},
			"ListTicketNotes": {do: listTicketNotes, need: []string{"TicketId"}},
			"ReplyTicket":     {do: replyTicket, need: []string{"TicketId", "Content"}},
			"CloseTicket":     {do: closeTicket, need: []string{"TicketId"}},
			"ListProducts":    {do: listProducts},
			"ListCategories":  {do: listCategories, need: []string{"ProductId"}},
		},
	}
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

// done is a good answer of the ticket desk.
func done(data any) (any, *failure) {
	return reply{"Code": 200, "Message": "success", "Success": true, "Data": data}, nil
}

func illegal(name string) *failure {
	return fail(http.StatusBadRequest, "param.illegal", "The parameter %s is illegal.", name)
}

func (q *request) ticket() (*Ticket, *failure) {
	if t := q.state.Tickets[q.params["TicketId"]]; t != nil {
		return t, nil
	}
	return nil, illegal("TicketId")
}

func createTicket(q *request) (any, *failure) {
	severity, bad := q.params.number("Severity", 1, 2, 1)
	if bad != nil {
		return nil, illegal("Severity")
	}
	known := false
	for _, d := range desk {
		known = known || strconv.Itoa(d.category) == q.params["CategoryId"]
	}
	if !known {
		return nil, illegal("CategoryId")
	}
	id := q.state.id("T", func(id string) bool { return q.state.Tickets[id] != nil })
	text := q.params["Description"]
	first, _, _ := strings.Cut(text, "\n")
	q.state.Tickets[id] = &Ticket{
		ID: id, Title: cmp.Or(q.params["Title"], first[:min(len(first), 60)]), Description: text, Category: q.params["CategoryId"],
		Severity: severity, Status: "in_progress",
	}
	return done(id)
}

func listTickets(q *request) (any, *failure) {
	p := q.params
	states := p.list("StatusList")
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.Tickets)) {
		t := q.state.Tickets[id]
		if is(p["TicketId"], id) && (states == nil || slices.Contains(states, t.Status)) && strings.Contains(t.Title+"\n"+t.Description, p["Keyword"]) {
			list = append(list, reply{"TicketId": id, "Title": t.Title, "Status": reply{"Value": t.Status, "Label": t.Status}})
		}
	}
	part, n, size, bad := page(p, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	return reply{"Code": 200, "Message": "success", "Success": true, "PageNumber": n, "PageSize": size, "TotalCount": len(list), "Data": part}, nil
}

func listTicketNotes(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for i, text := range append([]string{t.Description}, t.Notes...) {
		list = append(list, reply{
			"DialogId": i + 1, "CreateTime": q.state.started.UnixMilli(), "Type": 1, "Dialog": reply{"Content": text, "Schema": "text"},
			"User": reply{"Name": q.caller.Name, "Role": 1},
		})
	}
	return done(list)
}

func replyTicket(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	if t.Status == "completed" {
		return nil, illegal("TicketId")
	}
	t.Notes = append(t.Notes, q.params["Content"])
	return done(t.ID)
}

func closeTicket(q *request) (any, *failure) {
	t, bad := q.ticket()
	if bad != nil {
		return nil, bad
	}
	t.Status = "completed"
	return done(nil)
}

func listProducts(q *request) (any, *failure) {
	list := []reply{}
	for _, d := range desk {
		if strings.Contains(strings.ToLower(d.name), strings.ToLower(q.params["Name"])) {
			list = append(list, reply{"ProductId": d.product, "ProductName": d.name})
		}
	}
	return done([]reply{{"DirectoryId": 1, "DirectoryName": "Cloud", "ProductList": list}})
}

func listCategories(q *request) (any, *failure) {
	list := []reply{}
	for _, d := range desk {
		if strconv.Itoa(d.product) == q.params["ProductId"] && strings.Contains(d.title, q.params["Name"]) {
			list = append(list, reply{"CategoryId": d.category, "CategoryName": d.title, "Status": 0, "Tip": ""})
		}
	}
	return done(list)
}
