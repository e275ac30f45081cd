package stream

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func failIn(t *testing.T, s *Stream, cluster, uid string) {
	t.Helper()
	if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject(cluster, class, uid), cluster+uid, nil, []byte("x"),
		func(Message) bool { return true }); err != nil {
		t.Fatal(err)
	}
}

func taken(t *testing.T, s *Stream, cluster string, n int) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var got []string
	if err := s.Consume(ctx, cluster, class, 1, func(_ context.Context, m Message) Reply {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, m.Subject); len(got) == n {
			cancel()
		}
		return Reply{}
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	return got
}

func TestClustersApart(t *testing.T) {
	s := connect(t, Config{URL: serve(t, embedded.Options{}).URL()})
	clusters := []string{"c1", "c1_2", "c1-2"}
	if _, err := s.Setup(t.Context(), []string{class, "tag"}, Settings{Clusters: clusters}); err != nil {
		t.Fatal(err)
	}
	uids := []string{"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"}
	for _, c := range clusters {
		for _, uid := range uids {
			failIn(t, s, c, uid)
		}
	}
	for _, c := range clusters {
		want := []string{event.FailedSubject(c, class, uids[0]), event.FailedSubject(c, class, uids[1])}
		if diff := cmp.Diff(want, taken(t, s, c, 2)); diff != "" {
			t.Errorf("%s: %s", c, diff)
		}
		queues, err := s.Queues(t.Context(), c)
		if err != nil || len(queues) != 2 || queues[0].Class != "tag" || queues[1].Class != class || queues[1].Undelivered != 0 {
			t.Errorf("%s: the queues are %+v, %v", c, queues, err)
		}
	}
	if _, err := s.Setup(t.Context(), nil, Settings{Clusters: []string{"c.1"}}); err == nil {
		t.Error("a cluster that is several tokens got consumers")
	}
}

func TestClusters(t *testing.T) {
	s := connect(t, Config{URL: serve(t, embedded.Options{}).URL()})
	check := func(want ...string) {
		t.Helper()
		got, err := s.Clusters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if _, err := s.Setup(t.Context(), []string{class}, Settings{}); err != nil {
		t.Fatal(err)
	}
	check()
	if _, err := s.Setup(t.Context(), []string{class}, Settings{Clusters: []string{"c_set-up"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetupFollower(t.Context(), "tell-ops_c_set-up", "c_set-up"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"policy.c-policy", "control.c-typo", event.PageKey("c-ledger", "e1"), event.ProgressKey("c-read"),
		event.CountKey("c-counted")} {
		if err := s.Put(t.Context(), key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	failIn(t, s, "c-failed", "00000000-0000-0000-0000-000000000001")
	appendRecord(t, s, "c-case", "00000000-0000-0000-0000-000000000001", class, "{}")
	check("c-case", "c-counted", "c-failed", "c-ledger", "c-policy", "c-read", "c_set-up")
}
