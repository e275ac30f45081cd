package event_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

func TestReads(t *testing.T) {
	event.TellRead(t.Context(), "get Service shop/web", time.Now(), nil, nil) // no listener
	var got []event.Read
	ctx := event.WithReads(t.Context(), func(r event.Read) { got = append(got, r) })
	event.TellRead(ctx, "vpc:DescribeVSwitches", time.Now(), []byte(` { "RequestId": "0A1B", "TotalCount": 1,
		"Name": "a  b" } `), nil)
	event.TellRead(ctx, "slb:DescribeLoadBalancers", time.Now(), []byte(strings.Repeat("é", 5000)), nil)
	event.TellRead(ctx, "ram:GetPolicy", time.Now(), nil, errors.New("Forbidden"))
	if len(got) != 3 || got[0].Answer != `{ "TotalCount": 1, "Name": "a b" }` || len(got[1].Answer) > 310 || !strings.HasSuffix(got[1].Answer, "é …") ||
		got[2].Error != "Forbidden" {
		t.Errorf("told %+v", got)
	}
	r := event.Record{
		Origin: event.Origin{
			Case: "3f9a12bc-20260102T150405", Cluster: "c1", Class: "tag-missing",
			Service: event.Service{Namespace: "shop", Name: "web", UID: "3f9a12bc-0000-4000-8000-000000000001"},
		},
		Run: event.Run{Phase: event.Settled, Result: event.Gone, At: time.Now()},
	}
	for range event.MostReads + 5 {
		r.Reads = append(r.Reads, event.Read{Action: "a", Answer: "AccessKeySecret=abcdefghijklmnopqrstuvwxyz0123"})
	}
	e, err := event.NewRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := event.ReadRecord(e)
	if err != nil || len(back.Reads) != event.MostReads || strings.Contains(string(e.Data()), "abcdefghijklmnopqrstuvwxyz0123") {
		t.Errorf("%d reads, %v: %s", len(back.Reads), err, e.Data())
	}
	if len(r.Reads) != event.MostReads+5 || !strings.Contains(r.Reads[0].Answer, "abc") {
		t.Error("the record itself was changed")
	}
}
