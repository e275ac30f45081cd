package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Looks that begin at once share one read of the cluster, and each reads its Service.
func TestRecall(t *testing.T) {
	s := sim.New(t, world())
	key := s.Client("c", "vpc:DescribeVSwitches", "ecs:DescribeInstances", "cs:DescribeClusterDetail", "cs:DescribeClusterNodePools")
	r := dial(t, s, key, func(c *cloud.Config) { c.Recall = time.Hour })
	const looks = 50
	began := time.Now()
	var wait sync.WaitGroup
	for range looks {
		wait.Go(func() {
			look := r.Session()
			_, err := look.CS.Cluster(t.Context())
			if err == nil {
				_, err = look.CS.NodePools(t.Context())
			}
			if err == nil {
				_, err = look.VPC.VSwitches(t.Context(), "vpc-1")
			}
			if err == nil {
				_, err = look.ECS.Instances(t.Context(), []string{"i-2"})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	got, most := calls(s), 11+5*int(time.Since(began).Seconds()+1) // five looks more in each second
	if once := got["DescribeVSwitches"]; got["DescribeClusterDetail"] != 1 || got["DescribeClusterNodePools"] != 1 || got["DescribeInstances"] != looks ||
		once < 1 || once > most {
		t.Errorf("the calls are %v: want those about the cluster once, its vSwitches by few, and one server a look", got)
	}
	// A reader without Look reads the present state; nothing is kept for longer than Recall.
	if _, err := r.CS.Cluster(t.Context()); err != nil {
		t.Error(err)
	}
	short := dial(t, s, key, func(c *cloud.Config) { c.Recall = time.Nanosecond })
	for range 2 {
		if _, err := short.Session().CS.Cluster(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := calls(s)["DescribeClusterDetail"]; got != 4 {
		t.Errorf("the cluster was asked %d times, want 4", got)
	}
}

// An error goes only to its own caller: one that waits for the same answer asks again, even if the first has given up.
func TestRecallFails(t *testing.T) {
	s := sim.New(t, world())
	key := s.Client("c", "cs:DescribeClusterDetail")
	keys := cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret})
	asked := make(chan struct{})
	var first sync.Once
	r := dial(t, s, key, func(c *cloud.Config) {
		c.Recall = time.Hour
		c.Credentials = func(ctx context.Context) (k cloud.Key, err error) {
			k, err = keys(ctx)
			first.Do(func() {
				close(asked)
				<-ctx.Done()
				err = ctx.Err()
			})
			return k, err
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp, other := make(chan error, 1), make(chan error, 1)
	go func() { _, err := r.Session().CS.Cluster(ctx); gaveUp <- err }()
	<-asked
	go func() { _, err := r.Session().CS.Cluster(t.Context()); other <- err }()
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
	if err := <-other; err != nil {
		t.Errorf("who waited got %v", err)
	}
	if _, err := r.Session().CS.Cluster(t.Context()); err != nil || calls(s)["DescribeClusterDetail"] != 1 {
		t.Errorf("the calls are %v and the error is %v, want one call", calls(s), err)
	}
}

// A list that does not add up is read again from the cloud, whatever the memory holds.
func TestRecallListsAfresh(t *testing.T) {
	w := world()
	for i := range 60 { // two pages
		w.VSwitches = append(w.VSwitches, sim.VSwitch{ID: fmt.Sprintf("vsw-n%02d", i), Free: new(9)})
	}
	s := sim.New(t, w)
	key := s.Client("c", "vpc:DescribeVSwitches")
	grew := false
	keys := cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret})
	r := dial(t, s, key, func(c *cloud.Config) {
		c.Recall = time.Hour
		c.Credentials = func(ctx context.Context) (cloud.Key, error) {
			if len(s.Calls()) == 1 && !grew { // between the two pages
				grew = true
				s.Edit(func(st *sim.State) {
					vsw := *st.VSwitches["vsw-n00"]
					vsw.ID, vsw.CIDR = "vsw-a0", ""
					st.VSwitches[vsw.ID] = &vsw
				})
			}
			return keys(ctx)
		}
	})
	list, err := r.Session().VPC.VSwitches(t.Context(), s.Snapshot().Cluster.VPC)
	if err != nil || !slices.ContainsFunc(list, func(v cloud.VSwitch) bool { return v.ID == "vsw-a0" }) {
		t.Errorf("%d vSwitches and %v, want the new one among them", len(list), err)
	}
}

func calls(s *sim.Cloud) map[string]int {
	n := map[string]int{}
	for _, c := range s.Calls() {
		n[c.Action]++
	}
	return n
}
