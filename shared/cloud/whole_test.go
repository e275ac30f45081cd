package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
)

func TestTagsOf(t *testing.T) {
	t.Parallel()
	var ids []string
	for i := range 45 {
		ids = append(ids, fmt.Sprintf("lb-%02d", i))
	}
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		var items []string
		n := 0
		for ; q.Get(fmt.Sprintf("ResourceId.%d", n+1)) != ""; n++ {
			id := q.Get(fmt.Sprintf("ResourceId.%d", n+1))
			if id == "lb-30" {
				w.WriteHeader(404)
				_, _ = io.WriteString(w, `{"RequestId":"R","Code":"InvalidResourceId.NotFound","Message":"m"}`)
				return
			}
			if id != "lb-07" {
				items = append(items, fmt.Sprintf(`{"ResourceId":%q,"TagKey":"k","TagValue":%q}`, id, "of "+id))
			}
		}
		if n > 20 {
			t.Errorf("asked for %d at once", n)
		}
		_, _ = fmt.Fprintf(w, `{"RequestId":"R","TagResources":{"TagResource":[%s]}}`, strings.Join(items, ","))
	})
	got, err := c.SLB.TagsOf(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{}
	for _, id := range ids {
		want[id] = map[string]string{"k": "of " + id}
	}
	want["lb-07"] = map[string]string{}
	delete(want, "lb-30")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, ids := range map[string][]string{"no list": nil, "no ID in it": {"lb-1", ""}} {
		if got, err := c.SLB.TagsOf(t.Context(), ids); err == nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestOthersAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ method, body string }{
		"a tag of another":    {"TagsOf", `{"RequestId":"R","TagResources":{"TagResource":[{"ResourceId":"lb-9","TagKey":"k","TagValue":"v"}]}}`},
		"a tag without a key": {"TagsOf", `{"RequestId":"R","TagResources":{"TagResource":[{"ResourceId":"lb-1","TagValue":"v"}]}}`},
		"a table of another VPC": {"RouteTables", `{"RequestId":"R","TotalCount":1,"RouterTableList":{"RouterTableListType":[{"RouteTableId":"vtb-1",` +
			`"VpcId":"vpc-9","RouteTableType":"System"}]}}`},
		"fewer tables than said": {"RouteTables", `{"RequestId":"R","TotalCount":2,"RouterTableList":{"RouterTableListType":[{"RouteTableId":"vtb-1",` +
			`"VpcId":"vpc-1","RouteTableType":"System"}]}}`},
		"a route to nowhere":        {"Routes", `{"RequestId":"R","RouteEntrys":{"RouteEntry":[{"RouteEntryId":"rte-1","Type":"Custom"}]}}`},
		"a route of no type":        {"Routes", `{"RequestId":"R","RouteEntrys":{"RouteEntry":[{"RouteEntryId":"rte-1","DestinationCidrBlock":"10.0.0.0/24"}]}}`},
		"an end that is not a time": {"Kubeconfig", `{"config":"kind: Config","expiration":"soon"}`},
		"a kubeconfig for ever":     {"Kubeconfig", `{"config":"kind: Config"}`},
		"an end of nothing":         {"Kubeconfig", `{"expiration":"2026-05-04T12:00:00Z"}`},
	} {
		if err := everything[tt.method](t.Context(), wire(t, says(200, tt.body))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	status := 200
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("NextToken") == "" {
			_, _ = io.WriteString(w, `{"RequestId":"R","NextToken":"more","RouteEntrys":{"RouteEntry":[{"RouteEntryId":"rte-2",`+
				`"DestinationCidrBlock":"10.0.2.0/24","Type":"Custom","Status":"Available"}]}}`)
			return
		}
		w.WriteHeader(status)
		if status != 200 {
			_, _ = io.WriteString(w, `{"RequestId":"R","Code":"Forbidden.RAM","Message":"m"}`)
			return
		}
		_, _ = io.WriteString(w, `{"RequestId":"R","NextToken":"","RouteEntrys":{"RouteEntry":[{"RouteEntryId":"rte-1","DestinationCidrBlock":"10.0.1.0/24",`+
			`"Type":"System","Status":"Available"}]}}`)
	})
	got, err := c.VPC.Routes(t.Context(), "vtb-1")
	want := []Route{{ID: "rte-1", Block: "10.0.1.0/24", Type: "System"}, {ID: "rte-2", Block: "10.0.2.0/24", Type: "Custom"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	status = 403
	if got, err := c.VPC.Routes(t.Context(), "vtb-1"); err == nil || got != nil {
		t.Errorf("with half of the pages: got %v, %v", got, err)
	}
	gone := wire(t, says(404, `{"RequestId":"R","Code":"InvalidRouteTableId.NotFound","Message":"m"}`))
	if _, err := gone.VPC.Routes(t.Context(), "vtb-1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no table: %v", err)
	}
}

func TestKubeconfigRequest(t *testing.T) {
	t.Parallel()
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("TemporaryDurationMinutes") != "90" || q.Get("PrivateIpAddress") != "true" || !strings.Contains(r.URL.Path, "c1") {
			t.Errorf("asked %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"config":"kind: Config","expiration":"2026-05-04T12:00:00Z"}`)
	})
	got, err := c.CS.Kubeconfig(t.Context(), 90*time.Minute)
	if err != nil || string(got.Text) != "kind: Config" || !got.Ends.Equal(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", got.Ends, err)
	}
}

// A throttled doctor makes fewer calls, and retries for longer than a reader of a few things does.
func TestLimited(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) <= 5 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"RequestId":"R","Code":"Throttling.User","Message":"Request was denied due to user flow control."}`)
			return
		}
		_, _ = io.WriteString(w, `{"RequestId":"R","TagResources":{"TagResource":[]}}`)
	})
	many := c.Limited(1000)
	if _, err := many.SLB.TagsOf(t.Context(), []string{"lb-1"}); err != nil || asked.Load() != 6 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	for product, want := range map[string]rate.Limit{"slb": 500, "vpc": 1000, "nlb": 15} {
		if got := many.client.limits[product].Limit(); got != want {
			t.Errorf("%s: %v calls a second, want %v", product, got, want)
		}
	}
	if slow := c.Limited(5).client.limits["nlb"].Limit(); slow != 5 {
		t.Errorf("%v calls a second, want 5", slow)
	}
	asked.Store(0)
	if _, err := c.SLB.TagsOf(t.Context(), []string{"lb-1"}); !errors.Is(err, ErrThrottled) || asked.Load() != tries {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

// Many refused calls at once halve the rate once, and again if that does not help. After long refusals the reader gives up.
func TestEase(t *testing.T) {
	t.Parallel()
	e, limit := easing{at: map[string]time.Time{}, since: map[string]time.Time{}}, limiter(160)
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after  time.Duration
		rate   rate.Limit
		onward bool
		answer bool // then one succeeds
	}{
		{0, 80, true, false}, {time.Second, 80, true, false}, {29 * time.Second, 80, true, false}, {30 * time.Second, 40, true, true},
		{59 * time.Second, 40, true, false}, {60 * time.Second, 20, true, false}, {148 * time.Second, 10, true, false}, {149 * time.Second, 10, false, true},
		{150 * time.Second, 10, true, false},
	} {
		if onward := e.refused("slb", limit, at.Add(step.after)); limit.Limit() != step.rate || onward != step.onward {
			t.Errorf("after %s: %v calls a second, goes on: %t; want %v, %t", step.after, limit.Limit(), onward, step.rate, step.onward)
		}
		if step.answer {
			e.answered("slb")
		}
	}
}
