package balancer_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestInventory(t *testing.T) {
	t.Parallel()
	c, account := operator.Small(t)
	got := c.Run(t.Context(), "lb", "ls", "-o", "json")
	var list []balancer.Balancing
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || got.Code != 0 || got.Err != "" {
		t.Fatalf("code %d, %v: %s %s", got.Code, err, got.Out, got.Err)
	}
	var said []string
	for _, b := range list {
		said = append(said, strings.Join([]string{b.Name, b.Label(), b.Made, b.AddressType, b.OfLimit(), strings.Join(b.Listeners, " ")}, "|"))
	}
	if diff := cmp.Diff([]string{
		"lent|lb-lent|reused|intranet|0 of 200|",
		"lost-it|lb-lost (gone)|own|||",
		"nowhere|lb-nowhere (gone)|reused|||",
		"own|lb-own|own|internet|0 of 200|tcp:80",
		"untagged|lb-untagged (untagged)|own|||",
		"young|||||",
	}, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.Run(t.Context(), "lb", "ls"); got.Code != 0 || !regexp.MustCompile(`lb-lost +gone`).MatchString(got.Out) || strings.Contains(got.Out, "?") {
		t.Errorf("code %d: %s", got.Code, got.Out)
	}
	if got := c.Run(t.Context(), "lb", "ls", "-n", "other", "-o", "yaml"); got.Code != 0 || got.Out != "[]\n" {
		t.Errorf("of another namespace: %+v", got)
	}
	if got := c.Run(t.Context(), "lb", "ls", "-n", "other"); got.Code != 0 ||
		!strings.Contains(got.Err, "No Service of type LoadBalancer with --namespace other.") {
		t.Errorf("of another namespace: %+v", got)
	}

	lift := account.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Code: "Forbidden.RAM", Status: 403, Count: 1})
	got = c.Run(t.Context(), "lb", "ls", "-o", "json")
	lift()
	if got.Code != cli.CodeUnknown || !strings.Contains(got.Out, `"unknown"`) || strings.Count(got.Err, "\n") != 1 || !json.Valid([]byte(got.Out)) {
		t.Errorf("a read that failed: %+v", got)
	}
}

func BenchmarkInventory(b *testing.B) {
	const services, balancers = 5000, 500
	world := &sim.World{Cluster: sim.Cluster{ID: "c1"}, Quotas: []sim.Quota{
		{Product: "slb", Name: "slb_quota_instances_num", Total: 1000, Max: 1000}, {Product: "slb", Name: "slb_quota_backendservers_num", Total: 200, Max: 200},
	}}
	for i := range balancers {
		world.LoadBalancers = append(world.LoadBalancers, sim.LoadBalancer{ID: fmt.Sprintf("lb-%04d", i), Tags: map[string]string{ccm.ReusedTag: "true"}})
	}
	var list []any
	for i := range services {
		lb := &world.LoadBalancers[i%balancers]
		g := sim.VGroup{ID: fmt.Sprintf("rsp-%05d", i), Name: fmt.Sprintf("k8s/8080/web-%05d/shop/c1", i), Backends: []sim.Backend{{Server: "i-1", Port: 8080}}}
		lb.VGroups, lb.Listeners = append(lb.VGroups, g), append(lb.Listeners, sim.Listener{Port: 8000 + i/balancers, VGroup: g.ID})
		svc := operator.ServiceOn(fmt.Sprintf("web-%05d", i), lb.ID, lb.ID)
		svc.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
		list = append(list, svc)
	}
	c, account := operator.API{Lists: map[string][]any{"/api/v1/services": list}}.Against(b, world)
	account.Fault(sim.Fault{Delay: 50 * time.Millisecond})
	for b.Loop() {
		before, began := len(account.Calls()), time.Now()
		got := c.Run(b.Context(), "lb", "ls")
		took := time.Since(began)
		calls := account.Calls()[before:]
		if got.Code != 0 || strings.Count(got.Out, "10 of 200") != services || took > time.Minute {
			b.Fatalf("code %d in %s: %.300s %.300s", got.Code, took, got.Out, got.Err)
		}
		b.ReportMetric(took.Seconds(), "s/list")
		b.ReportMetric(float64(len(calls)), "calls/list")
		second := map[string]int{}
		most := 0
		for _, k := range calls {
			at := k.Product + k.At.Truncate(time.Second).String()
			second[at]++
			most = max(most, second[at])
		}
		b.ReportMetric(float64(most), "calls/s-at-most")
	}
}
