package sim

import (
	"cmp"
	"fmt"
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

// quotas is the quota center:
// https://www.alibabacloud.com/help/en/quota-center/developer-reference/api-quotas-2020-05-10-overview
func quotas() *product {
	return &product{
		name: "quotas", version: "2020-05-10", host: "quotas.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"ListProductQuotas":      {do: listProductQuotas, need: []string{"ProductCode"}},
			"CreateQuotaApplication": {do: createQuotaApplication, need: []string{"ProductCode", "QuotaActionCode", "DesireValue", "Reason"}},
			"GetQuotaApplication":    {do: getQuotaApplication, need: []string{"ApplicationId"}},
			"ListQuotaApplications":  {do: listQuotaApplications, need: []string{"ProductCode"}},
		},
	}
}

func listProductQuotas(q *request) (any, *failure) {
	p := q.params
	list := []reply{}
	for _, u := range q.state.Quotas {
		if u.Product != p["ProductCode"] || !is(p["QuotaActionCode"], u.Code) || !strings.Contains(u.Name, p["KeyWord"]) || u.Category != cmp.Or(p["QuotaCategory"], "CommonQuota") {
			continue
		}
		e := reply{
			"ProductCode": u.Product, "QuotaActionCode": u.Code, "QuotaName": u.Name, "QuotaDescription": u.Name, "QuotaCategory": u.Category,
			"TotalQuota": u.Total, "TotalUsage": u.Used, "Adjustable": u.Adjustable, "ApplicableRange": []float64{}, "QuotaUnit": "Count",
			"Dimensions": map[string]any{"regionId": q.state.Region},
		}
		if u.Adjustable {
			e["ApplicableRange"] = []float64{u.Total + 1, max(u.Max, u.Total+1)}
		} else {
			e["UnadjustableDetail"] = "The quota cannot be adjusted."
		}
		list = append(list, e)
	}
	part, next, bad := chunk(p, list, 30, 100)
	if bad != nil {
		return nil, bad
	}
	return reply{"TotalCount": len(list), "MaxResults": len(part), "NextToken": next, "Quotas": part}, nil
}

// createQuotaApplication takes an application, which somebody will look at: the
// quota stays as it is until Lag.Quotas has passed or a test edits it.
func createQuotaApplication(q *request) (any, *failure) {
	p := q.params
	for i := range q.state.Quotas {
		u := &q.state.Quotas[i]
		if u.Product != p["ProductCode"] || u.Code != p["QuotaActionCode"] {
			continue
		}
		want, err := strconv.ParseFloat(p["DesireValue"], 64)
		switch {
		case !u.Adjustable:
			return nil, fail(http.StatusBadRequest, "QUOTA.NOT.ADJUSTABLE", "The quota cannot be adjusted.")
		case err != nil || want <= u.Total || want > max(u.Max, u.Total+1):
			return nil, fail(http.StatusBadRequest, "QUOTA.APPLY.VALUE.INVALID", "The desired value is out of the applicable range.")
		case u.Applied > 0:
			return nil, fail(http.StatusBadRequest, "QUOTA.APPLICATION.EXIST", "An application for the quota is being processed.")
		}
		u.Applied, u.AppliedAt, u.Agreed = want, q.now.UTC().Truncate(time.Second), 0
		out := u.application()
		out["Reason"] = p["Reason"]
		return out, nil
	}
	return nil, fail(http.StatusNotFound, "QUOTA.NOT.FOUND", "The quota does not exist.")
}

// application shows the last application for a quota: it is in process until
// Lag.Quotas has passed.
func (u *Quota) application() reply {
	status := "Process"
	if u.Agreed > 0 {
		status = "Agree"
	}
	return reply{
		"ApplicationId": "app-" + derive(u.Code, 12), "Status": status, "ProductCode": u.Product, "QuotaActionCode": u.Code,
		"QuotaName": u.Name, "DesireValue": u.Applied + u.Agreed, "ApproveValue": u.Agreed, "ApplyTime": u.AppliedAt.Format(time.RFC3339), "QuotaUnit": "Count",
	}
}

func getQuotaApplication(q *request) (any, *failure) {
	for i := range q.state.Quotas {
		u := &q.state.Quotas[i]
		if out := u.application(); u.Applied+u.Agreed > 0 && out["ApplicationId"] == q.params["ApplicationId"] {
			return reply{"QuotaApplication": out}, nil
		}
	}
	return nil, fail(http.StatusNotFound, "QUOTA.APPLICATION.NOT.FOUND", "The application does not exist.")
}

func listQuotaApplications(q *request) (any, *failure) {
	list := []reply{}
	for i := range q.state.Quotas {
		u := &q.state.Quotas[i]
		out := u.application()
		if u.Applied+u.Agreed > 0 && u.Product == q.params["ProductCode"] && is(q.params["QuotaActionCode"], u.Code) && is(q.params["Status"], out["Status"].(string)) {
			list = append(list, out)
		}
	}
	part, next, bad := chunk(q.params, list, 30, 100)
	if bad != nil {
		return nil, bad
	}
	return reply{"TotalCount": len(list), "MaxResults": len(part), "NextToken": next, "QuotaApplications": part}, nil
}

// billing is the account's money. RAM has two names for the one action, of
// which the first has three c:
// https://www.alibabacloud.com/help/en/user-center/developer-reference/api-bssopenapi-2017-12-14-queryaccountbalance
func billing() *product {
	return &product{
		name: "bss", version: "2017-12-14", host: "business.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"QueryAccountBalance": {
				do: queryAccountBalance, ram: []string{"bss:DescribeAcccount", "bssapi:QueryAccountBalance", "bss:QueryAccountBalance"},
			},
		},
	}
}

func queryAccountBalance(q *request) (any, *failure) {
	balance := q.state.Account.Balance
	if n, err := amount(balance); q.state.Account.Arrearage && err == nil && n > 0 {
		balance = fmt.Sprintf("-%s", balance)
	}
	return reply{"Code": "200", "Message": "success", "Success": true, "Data": reply{
		"AvailableAmount": balance, "AvailableCashAmount": balance, "CreditAmount": "0.00", "MybankCreditAmount": "0.00", "Currency": "CNY",
		"QuotaLimit": "0.00",
	}}, nil
}
