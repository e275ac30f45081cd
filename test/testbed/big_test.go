package testbed

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

// TestBig builds a tenth of a big world, and checks that a starting controller has nothing to do and that failures can be injected.
func TestBig(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t)
	namespace := c.Namespace(t) // waits while another test uses the cluster exclusively
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	size := Size{Services: 500, LoadBalancers: 50, VSwitches: 20}
	tb, err := Start(ctx, Options{Config: Config{Terway: true}, Cluster: c, Namespace: namespace, Size: size})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if err := tb.Synced(ctx, size.Services); err != nil {
		t.Fatal(err)
	}
	reads := 0
	for _, call := range tb.Cloud.Calls() {
		read := strings.HasPrefix(call.Action, "Describe") || strings.HasPrefix(call.Action, "List")
		if !read || call.Code != "" {
			t.Fatalf("the controller calls %s: %q", call.Action, call.Code)
		}
		reads++
	}
	if reads < size.Services {
		t.Errorf("%d calls for %d Services", reads, size.Services)
	}
	// The testbed's watch may lag behind the controller.
	for _, i := range []int{0, 499} {
		works := func() bool { return tb.watch.service(ballast(i)) != nil && tb.Healed(ballast(i)) }
		if err := tb.Until(ctx, works); err != nil {
			t.Errorf("%s does not work: %v; seen of it: %v", ballast(i), err, tb.watch.service(ballast(i)))
		}
	}
	tb.Cloud.View(func(st *sim.State) {
		if len(st.LoadBalancers) != size.LoadBalancers || len(st.VSwitches) < size.VSwitches {
			t.Errorf("%d load balancers, %d vSwitches", len(st.LoadBalancers), len(st.VSwitches))
		}
	})
	fixtures := []Fixture{FullVSwitch(FullVSwitchH).As("web"), LostTag().As("api")}
	if err := tb.Fail(ctx, fixtures...); err != nil {
		t.Fatal(err)
	}
	if err := tb.Repair(ctx, fixtures...); err != nil {
		t.Error(err)
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		size Size
		o    Options
		want string
	}{
		{Size{}, Options{}, ""},
		{Big(), Options{Config: Config{Terway: true}}, ""},
		{Big(), Options{}, "needs Terway"},
		{Size{Services: 51, LoadBalancers: 1}, Options{Config: Config{Terway: true}}, "too few"},
		{Size{Services: 1}, Options{Config: Config{Terway: true}}, "too few"},
		{Size{Services: 40_000, LoadBalancers: 4000}, Options{Config: Config{Terway: true}}, "no addresses"},
	} {
		err := c.size.check(c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.size, err, c.want)
		}
	}
}

// BenchmarkBig measures how long a big world takes to build and a controller to start on it.
func BenchmarkBig(b *testing.B) {
	c := cluster.Join(b)
	c.Exclusive(b)
	var build, start time.Duration
	for b.Loop() {
		began := time.Now()
		tb, err := Start(b.Context(), Options{Config: Config{Terway: true}, Cluster: c, Namespace: c.Namespace(b), Size: Big()})
		if err != nil {
			b.Fatal(err)
		}
		build += time.Since(began)
		began = time.Now()
		if err := tb.Synced(b.Context(), Big().Services); err != nil {
			b.Fatal(err)
		}
		start += time.Since(began)
		tb.Close()
	}
	b.ReportMetric(build.Seconds()/float64(b.N), "s/build")
	b.ReportMetric(start.Seconds()/float64(b.N), "s/start")
}
