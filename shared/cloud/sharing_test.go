package cloud_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const nameTag = "kubernetes.do.not.delete"

// town is a region with load balancers of both kinds: some have a name tag, the others only a name.
func town(n int) *sim.World {
	w := world()
	for i := range n {
		clb, nlb := sim.LoadBalancer{ID: fmt.Sprintf("lb-n%03d", i)}, sim.NLB{ID: fmt.Sprintf("nlb-n%03d", i)}
		name := fmt.Sprintf("a-%d", i)
		if i%2 == 0 {
			clb.Tags, nlb.Tags = map[string]string{nameTag: name}, map[string]string{nameTag: name}
		} else {
			clb.Name, nlb.Name = name, name
		}
		w.LoadBalancers, w.NLBs = append(w.LoadBalancers, clb), append(w.NLBs, nlb)
	}
	return w
}

func searched(ctx context.Context, r *cloud.Reader, name string) (string, error) {
	clbs, err := r.SLB.LoadBalancers(ctx, cloud.LBFilter{TagKey: nameTag, TagValue: name})
	if err != nil {
		return "", err
	}
	named, err := r.SLB.LoadBalancers(ctx, cloud.LBFilter{Name: name})
	if err != nil {
		return "", err
	}
	nlbs, err := r.NLB.Find(ctx, cloud.NLBFilter{TagKey: nameTag, TagValue: name})
	if err != nil {
		return "", err
	}
	namedNLBs, err := r.NLB.Find(ctx, cloud.NLBFilter{Name: name})
	if err != nil {
		return "", err
	}
	said := ""
	for _, lb := range append(clbs, named...) {
		said += lb.ID + " "
	}
	for _, lb := range append(nlbs, namedNLBs...) {
		said += lb.ID + " "
	}
	return said, nil
}

// Many looks at once share a list of the region, and find what separate searches would find.
func TestCrowd(t *testing.T) {
	const looks = 200
	for _, tt := range []struct {
		name      string
		balancers int
		most      int // calls for each kind
	}{
		{"many", 150, 2*10 + 2},
		{"few", 3, 2*10 + 1},
		{"more than are listed", 501, 2*looks + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sim.New(t, town(tt.balancers))
			r := dial(t, s, s.Client("c", "slb:DescribeLoadBalancers", "nlb:ListLoadBalancers"), func(c *cloud.Config) { c.Recall = time.Hour })
			var all sync.WaitGroup
			began := time.Now()
			for i := range looks {
				all.Go(func() {
					var mu sync.Mutex
					told := 0
					ctx := event.WithReads(t.Context(), func(event.Read) { mu.Lock(); told++; mu.Unlock() })
					look, name, want := r.Session(), fmt.Sprintf("a-%d", i), ""
					if i < tt.balancers {
						want = fmt.Sprintf("lb-n%03d nlb-n%03d ", i, i)
					}
					for range 2 { // a look gets the same answer twice
						if got, err := searched(ctx, look, name); err != nil || got != want {
							t.Errorf("of %s: got %q and %v, want %q", name, got, err, want)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					if told < 4 {
						t.Errorf("of %s: %d reads were told, want each", name, told)
					}
				})
			}
			all.Wait()
			for _, action := range []string{"DescribeLoadBalancers", "ListLoadBalancers"} {
				most := tt.most + 10*int(time.Since(began).Seconds()+1) // five looks more in each second
				if got := calls(s)[action]; got > most {
					t.Errorf("%s was called %d times, want at most %d", action, got, most)
				}
			}
		})
	}
}
