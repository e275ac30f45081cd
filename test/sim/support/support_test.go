package support_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/workorder"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestSupport(t *testing.T) {
	c := sim.New(t, nil)
	client := simtest.Dial(t, c, c.Admin(), workorder.NewClientWithOptions)
	products, err := client.ListProducts(workorder.CreateListProductsRequest())
	simtest.Check(t, err)
	rc := workorder.CreateListCategoriesRequest()
	rc.ProductId = requests.NewInteger64(products.Data[0].ProductList[0].ProductId)
	categories, err := client.ListCategories(rc)
	simtest.Check(t, err)
	r := workorder.CreateCreateTicketRequest()
	r.Severity, r.Description = requests.NewInteger(1), "The role lacks nlb:ListAsynJobs."
	_, err = client.CreateTicket(r)
	simtest.Refused(t, err, "MissingParameter.CategoryId", 400)
	r.CategoryId = fmt.Sprint(categories.Data[0].CategoryId)
	r.FormParams["Title"] = "a title" // missing in the request type
	made, err := client.CreateTicket(r)
	simtest.Check(t, err)
	reply := workorder.CreateReplyTicketRequest()
	reply.TicketId, reply.Content, reply.Encrypt = made.Data, "more", requests.NewBoolean(false)
	_, err = client.ReplyTicket(reply)
	simtest.Check(t, err)
	l := workorder.CreateListTicketsRequest()
	l.Keyword, l.StatusList, l.PageNumber, l.PageSize = "ListAsynJobs", &[]string{"dealing"}, requests.NewInteger(1), requests.NewInteger(10)
	tickets, err := client.ListTickets(l)
	simtest.Check(t, err)
	if tickets.TotalCount != 1 || tickets.Data[0].TicketId != made.Data || tickets.Data[0].Title != "a title" {
		t.Errorf("got %+v", tickets)
	}
	n := workorder.CreateListTicketNotesRequest()
	n.TicketId = made.Data
	notes, err := client.ListTicketNotes(n)
	simtest.Check(t, err)
	if len(notes.Data) != 2 || notes.Data[1].Dialog.Content != "more" {
		t.Errorf("got %+v", notes.Data)
	}
	end := workorder.CreateCloseTicketRequest()
	end.TicketId = made.Data
	_, err = client.CloseTicket(end)
	simtest.Check(t, err)
	if tickets, err = client.ListTickets(l); err != nil || tickets.TotalCount != 0 {
		t.Errorf("got %+v, %v", tickets, err)
	}
}

// TestTicketLife closes, reopens and finally closes a ticket, by actions for which the SDK has no request types.
func TestTicketLife(t *testing.T) {
	c := sim.New(t, &sim.World{Tickets: []sim.Ticket{{ID: "T1", Title: "a", Description: "case 7"}, {ID: "T2", Description: "other", Status: "completed"}}})
	client := simtest.Dial(t, c, c.Admin(), sdk.NewClientWithOptions)
	call := func(action string, said map[string]string, out any) error {
		r := requests.NewCommonRequest()
		r.Product, r.Version, r.ApiName, r.Domain, r.QueryParams = "Workorder", "2021-06-10", action, "workorder.aliyuncs.com", said
		resp, err := client.ProcessCommonRequest(r)
		if err == nil && out != nil {
			err = json.Unmarshal(resp.GetHttpContentBytes(), out)
		}
		return err
	}
	get := func() string {
		t.Helper()
		var out struct {
			Data struct {
				Description string
				Status      struct{ Value string }
			}
		}
		simtest.Check(t, call("GetTicket", map[string]string{"TicketId": "T1"}, &out))
		if out.Data.Description != "case 7" {
			t.Errorf("got %+v", out)
		}
		return out.Data.Status.Value
	}
	if got := get(); got != "2" {
		t.Errorf("got %s", got)
	}
	simtest.Refused(t, call("ReopenTicket", map[string]string{"TicketId": "T1", "Content": "again"}, nil), "param.illegal", 400)
	simtest.Check(t, call("CloseTicket", map[string]string{"TicketId": "T1"}, nil))
	simtest.Refused(t, call("ReplyTicket", map[string]string{"TicketId": "T1", "Content": "more", "Encrypt": "false"}, nil), "param.illegal", 400)
	if got := get(); got != "6" {
		t.Errorf("got %s", got)
	}
	simtest.Check(t, call("ReopenTicket", map[string]string{"TicketId": "T1", "Content": "again"}, nil))
	simtest.Check(t, call("ReplyTicket", map[string]string{"TicketId": "T1", "Content": "more", "Encrypt": "false"}, nil))
	simtest.Check(t, call("CloseTicket", map[string]string{"TicketId": "T1"}, nil))
	simtest.Check(t, call("EvaluateTicket", map[string]string{"TicketId": "T1", "Solved": "true", "Score": "5"}, nil))
	simtest.Refused(t, call("EvaluateTicket", map[string]string{"TicketId": "T1", "Solved": "true", "Score": "6"}, nil), "param.illegal", 400)
	var list struct{ TotalCount int }
	simtest.Check(t, call("ListTickets", map[string]string{"StatusList.1": "confirmed", "PageNumber": "1", "PageSize": "10"}, &list))
	if list.TotalCount != 2 {
		t.Errorf("got %+v", list)
	}
	simtest.Refused(t, call("ListTickets", map[string]string{"PageNumber": "1", "PageSize": "9"}, nil), "param.illegal", 400)
	simtest.Refused(t, call("GetTicket", map[string]string{"TicketId": "T9"}, nil), "param.illegal", 400)
}
