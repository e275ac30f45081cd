package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

const class = "tag-missing"

func uid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

type room struct{ class, cluster bool }

func spend(t testing.TB, s *stream.Stream, class string, n, ofClass, ofCluster int) room {
	t.Helper()
	r, err := control.Spend(t.Context(), s, false, "c1", class, uid(n), ofClass, ofCluster)
	must(t, err)
	return room{r.Class, r.Cluster}
}

// Two engines never give out more places than exist, and every caller that got one has it, even with lost acknowledgements.
func TestEnginesContend(t *testing.T) {
	t.Parallel()
	const services, ofClass, ofCluster = 60, 20, 50
	for name, cuts := range map[string]bool{"connected": false, "acknowledgements get lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := nats.Start(t, embedded.Options{})
			sees := nats.Connect(t, stream.Config{URL: server.URL()})
			_, err := sees.Setup(t.Context(), nil, stream.Settings{})
			must(t, err)
			link := between(t, server.URL())
			engines := []*stream.Stream{nats.Connect(t, stream.Config{URL: link.url()}), nats.Connect(t, stream.Config{URL: link.url()})}
			done := make(chan struct{})
			var cutting, all sync.WaitGroup
			if cuts {
				cutting.Go(func() { // each time after a store, acknowledged or not
					seen := uint64(0)
					for {
						select {
						case <-done:
							return
						default:
						}
						if e, err := sees.Entry(t.Context(), control.BudgetKey("c1")); err == nil && e.Revision > seen {
							seen = e.Revision
							link.cut()
						}
					}
				})
			}
			var mu sync.Mutex
			told := map[string]int{}
			lacking := map[string]bool{}
			for n := range services {
				for _, s := range engines { // both for the same Services
					for _, class := range []string{"a", "b", "c"} {
						all.Go(func() {
							for {
								r, err := control.Spend(t.Context(), s, false, "c1", class, uid(n), ofClass, ofCluster)
								mu.Lock()
								switch {
								case err == nil && r.Cluster:
									told[class+" "+uid(n)]++
								case err == nil && r.Class:
									lacking["cluster"] = true
								case err == nil:
									lacking[class] = true
								case !errors.Is(err, stream.ErrUnavailable):
									t.Error(err)
								}
								mu.Unlock()
								if err == nil || !errors.Is(err, stream.ErrUnavailable) {
									return
								}
							}
						})
					}
				}
			}
			all.Wait()
			close(done)
			cutting.Wait()
			if link.mu.Lock(); cuts && link.cuts == 0 {
				t.Error("no connection was cut")
			}
			link.mu.Unlock()
			value, err := sees.Get(t.Context(), control.BudgetKey("c1"))
			must(t, err)
			var b control.Places
			must(t, json.Unmarshal(value, &b))
			if n := len(b.Taken[""]); n > ofCluster || n < ofClass {
				t.Errorf("%d of %d places of the cluster are taken", n, ofCluster)
			}
			for class, taken := range b.Taken {
				if class == "" {
					continue
				}
				if len(taken) > ofClass {
					t.Errorf("%d of %d places of class %s are taken", len(taken), ofClass, class)
				}
				for uid := range taken {
					if b.Taken[""][uid] == 0 {
						t.Errorf("%s has a place in class %s and none in the cluster", uid, class)
					}
					if told[class+" "+uid] == 0 {
						t.Errorf("a place of class %s is taken for %s, and nobody was told", class, uid)
					}
					delete(told, class+" "+uid)
				}
			}
			if len(told) > 0 {
				t.Errorf("without a place are %v", told)
			}
			if len(lacking) == 0 {
				t.Error("nobody is refused")
			}
		})
	}
}

// A Service that asks twice has one place in its class and one in its cluster; a place in another class takes none of the cluster's.
func TestSpendTwice(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for range 3 {
		if r := spend(t, s, class, 1, 1, 1); !r.cluster {
			t.Errorf("the Service that has the only place is told %+v", r)
		}
	}
	if r := spend(t, s, class, 2, 1, 2); r.class {
		t.Errorf("another one is told %+v", r)
	}
	if r := spend(t, s, "other", 1, 1, 1); !r.cluster {
		t.Errorf("in another class it is told %+v", r)
	}
	if r := spend(t, s, "third", 2, 1, 1); !r.class || r.cluster {
		t.Errorf("another one is told %+v", r)
	}
	spent, err := control.Spent(t.Context(), s, "c1")
	if err != nil || len(spent) != 3 || len(spent[""]) != 1 || len(spent[class]) != 1 || len(spent["other"]) != 1 {
		t.Errorf("spent are %v, %v", spent, err)
	}
	if r := spend(t, s, class, 3, 0, 0); r.class || r.cluster {
		t.Errorf("of no budget it is told %+v", r)
	}
	for owner, want := range map[int]bool{1: true, 2: false} {
		r, err := control.Spend(t.Context(), s, true, "c1", class, uid(owner), 1, 9)
		if err != nil || r.Cluster != want || r.Cluster == (time.Until(r.Free) > control.ClassWindow/2) {
			t.Errorf("%d is told that it could have a place: %+v, %v", owner, r, err)
		}
	}
	if r, err := control.Spend(t.Context(), s, true, "c1", class, uid(4), 9, 9); err != nil || !r.Cluster {
		t.Errorf("a new one is told %+v, %v", r, err)
	}
	if after, err := control.Spent(t.Context(), s, "c1"); err != nil || len(after) != 3 || len(after[""]) != 1 {
		t.Errorf("those who only ask have taken places: %v, %v", after, err)
	}
}

func TestPlacesEnd(t *testing.T) {
	t.Parallel()
	s := shift(t, time.Hour)
	took := func(what string, class string, n int, want room) {
		t.Helper()
		if r := spend(t, s.Stream, class, n, 1, 1); r != want {
			t.Errorf("%s: %+v, want %+v", what, r, want)
		}
	}
	claimed := func(what, owner string, want bool) {
		t.Helper()
		ok, err := control.Claim(t.Context(), s.Stream, false, "vswitch.vsw-1", 1, owner, 10*time.Minute)
		if err != nil || ok != want {
			t.Errorf("%s: %t, %v", what, ok, err)
		}
	}
	took("the first", class, 1, room{class: true, cluster: true})
	claimed("the first", "a", true)
	took("at once", class, 2, room{})
	claimed("at once", "b", false)
	s.pass(9 * time.Minute)
	took("after 9 minutes", class, 2, room{})
	claimed("after 9 minutes", "b", false)
	s.pass(2 * time.Minute)
	took("after 11 minutes", class, 2, room{class: true})
	claimed("after 11 minutes", "b", true)
	claimed("after 11 minutes", "a", false)
	s.pass(47 * time.Minute)
	took("after 58 minutes", class, 2, room{class: true})
	s.pass(3 * time.Minute)
	took("after 61 minutes", class, 2, room{class: true, cluster: true})
	took("after 61 minutes", class, 1, room{})

	count := func(attempt string) *control.Breaker {
		t.Helper()
		b, err := control.RecordFailedFix(t.Context(), s.Stream, "c1", class, attempt, 3, say.F("It is a test."))
		must(t, err)
		return b
	}
	for _, id := range []string{"a", "a", "b"} { // one attempt counts once
		if b := count(id); b != nil {
			t.Errorf("the breaker opens: %s", b.Why)
		}
	}
	s.pass(11 * time.Minute)
	for _, id := range []string{"c", "d"} {
		if b := count(id); b != nil {
			t.Errorf("the breaker opens: %s", b.Why)
		}
	}
	if b := count("e"); b == nil || b.At.Before(time.Now().Add(2*time.Hour)) {
		t.Errorf("the breaker is %+v", b)
	}
	if b := count("f"); b != nil {
		t.Error("an open breaker opens again")
	}

	s.pass(24 * time.Hour)
	took("a day later", class, 2, room{class: true, cluster: true})
	claimed("a day later", "b", true)
	ahead := s.ahead.Swap(int64(time.Hour))
	took("the server's clock is put back", class, 3, room{})
	claimed("the server's clock is put back", "c", false)
	s.pass(61 * time.Minute)
	if s.ahead.Load() > ahead {
		t.Fatal("the clock was put back too little")
	}
	took("an hour later", class, 3, room{class: true, cluster: true})
	claimed("an hour later", "c", true)
}

func TestReserve(t *testing.T) {
	t.Parallel()
	const n, every = 40, time.Minute
	s := shift(t, time.Hour)
	var all sync.WaitGroup
	waits := make([]time.Duration, n)
	for i := range n {
		all.Go(func() {
			var err error
			if waits[i], err = control.Reserve(t.Context(), s.Stream, "c1", every); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(waits)
	for i, wait := range waits {
		if want := time.Duration(i) * every; wait > want || wait < want-every/2 {
			t.Errorf("moment %d comes after %s", i, wait)
		}
	}
	s.pass(48 * time.Hour)
	if wait, err := control.Reserve(t.Context(), s.Stream, "c1", every); err != nil || wait != 0 {
		t.Errorf("when all have passed the next one comes after %s, %v", wait, err)
	}
	s.pass(-47 * time.Hour)
	if wait, err := control.Reserve(t.Context(), s.Stream, "c1", every); err != nil || wait > every {
		t.Errorf("after one of another clock the next one comes after %s, %v", wait, err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	s := shift(t, 0)
	free := func() bool {
		t.Helper()
		ok, err := control.Claim(t.Context(), s.Stream, true, "target.slb/lb-1", 1, "nobody", 0)
		must(t, err)
		return ok
	}
	lock := func(want bool) func() {
		t.Helper()
		unlock, held, err := control.Lock(t.Context(), s.Stream, "target.slb/lb-1", "same", time.Minute)
		if err != nil || held != want {
			t.Fatalf("held: %t, %v", held, err)
		}
		return unlock
	}
	var held atomic.Int64
	unlocks := make(chan func(), 20)
	var all sync.WaitGroup
	for range cap(unlocks) {
		all.Go(func() {
			unlock, ok, err := control.Lock(t.Context(), s.Stream, "target.slb/lb-1", "same", time.Minute)
			if err != nil {
				t.Error(err)
			}
			if ok {
				held.Add(1)
				unlocks <- unlock
			} else {
				unlock()
			}
		})
	}
	all.Wait()
	if held.Load() != 1 {
		t.Fatalf("%d hold the lock", held.Load())
	}
	first := <-unlocks
	first()
	second := lock(true)
	first()
	lock(false)
	s.pass(61 * time.Second)
	third := lock(true)
	second()
	if free() {
		t.Error("the place of the third is free")
	}
	third()
	if !free() {
		t.Error("the place is not free")
	}
	ctx, cancel := context.WithCancel(t.Context())
	unlock, ok, err := control.Lock(ctx, s.Stream, "target.slb/lb-1", "same", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	cancel()
	unlock()
	lock(true)
}

func TestTakeTwice(t *testing.T) {
	t.Parallel()
	s := shift(t, 0)
	take := func(owner string, of int) bool {
		t.Helper()
		ok, err := control.Claim(t.Context(), s.Stream, false, "vswitch.vsw-1", of, owner, 10*time.Minute)
		must(t, err)
		return ok
	}
	if !take("a", 2) || !take("b", 2) || !take("a", 2) || !take("b", 2) || take("c", 2) {
		t.Error("two places are not those of a and b")
	}
	s.pass(6 * time.Minute)
	if !take("a", 1) { // it has one, however few places there are now
		t.Error("a has lost its place")
	}
	s.pass(6 * time.Minute)
	if take("c", 1) || !take("c", 2) {
		t.Error("the places are not those of a and c")
	}
	for _, bad := range []struct {
		resource, owner string
		ttl             time.Duration
	}{
		{"a..b", "a", time.Minute}, {strings.Repeat("r", 8<<10), "a", time.Minute}, {"r", "", time.Minute},
		{"r", strings.Repeat("a", 600), time.Minute}, {"r", "a", 2 * time.Hour},
	} {
		if _, err := control.Claim(t.Context(), s.Stream, false, bad.resource, 1, bad.owner, bad.ttl); err == nil {
			t.Errorf("a place in %.20q for %.20q for %s is taken", bad.resource, bad.owner, bad.ttl)
		}
	}
}

func TestUnreadablePlaces(t *testing.T) {
	t.Parallel()
	s, ctx := fresh(t), t.Context()
	for name, value := range map[string]string{
		"empty":           "",
		"null":            "null",
		"a list":          "[]",
		"newer":           `{"v":2,"key":"KEY"}`,
		"another's":       `{"v":1,"key":"budget.c2"}`,
		"an unknown word": `{"v":1,"key":"KEY","more":1}`,
		"no places":       `{"v":1,"key":"KEY","taken":{"tag-missing":1}}`,
		"no time":         `{"v":1,"key":"KEY","taken":{"tag-missing":{"` + uid(1) + `":"now"}}}`,
		"no moment":       `{"v":1,"key":"KEY","resync":1}`,
		"large":           strings.Repeat(" ", 1000<<10),
	} {
		for _, key := range []string{control.BudgetKey("c1"), control.ClaimKey("r")} {
			must(t, s.Put(ctx, key, []byte(strings.ReplaceAll(value, "KEY", key))))
		}
		all := map[string]error{}
		for _, dry := range []bool{false, true} {
			_, all[fmt.Sprint("spend ", dry)] = control.Spend(ctx, s, dry, "c1", class, uid(1), 9, 9)
			_, all[fmt.Sprint("claim ", dry)] = control.Claim(ctx, s, dry, "r", 9, "a", time.Minute)
		}
		_, all["spent"] = control.Spent(ctx, s, "c1")
		_, all["reserve"] = control.Reserve(ctx, s, "c1", time.Second)
		for what, err := range all {
			if !errors.Is(err, control.ErrUnreadable) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// As many Services as a budget holds fit into its document, and the next one is refused.
func TestMostPlaces(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	key := control.BudgetKey("c1")
	if r := spend(t, s, class, 0, 1<<20, 1<<20); !r.class || !r.cluster {
		t.Fatalf("the first one is told %+v", r)
	}
	stored, err := s.Get(t.Context(), key)
	must(t, err)
	var doc map[string]any
	must(t, json.Unmarshal(stored, &doc))
	for _, services := range doc["taken"].(map[string]any) {
		taken := services.(map[string]any)
		for n := range control.MostServices - 1 {
			taken[uid(n)] = taken[uid(0)]
		}
	}
	stored, err = json.Marshal(doc)
	must(t, err)
	must(t, s.Put(t.Context(), key, stored))
	if r := spend(t, s, class, control.MostServices-1, 1<<20, 1<<20); !r.class || !r.cluster {
		t.Errorf("the last one is told %+v", r)
	}
	if r := spend(t, s, class, control.MostServices, 1<<20, 1<<20); r.cluster {
		t.Errorf("one more is told %+v", r)
	}
	value, err := s.Get(t.Context(), key)
	must(t, err)
	t.Logf("%d Services take %d bytes", control.MostServices, len(value))
}

type link struct {
	listen net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	cuts   int
}

func between(t *testing.T, url string) *link {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &link{listen: listen}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := listen.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, in, out)
			l.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close()
			}
			all.Go(func() { pass(in, out) })
			all.Go(func() { pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = listen.Close()
		l.cut()
		all.Wait()
	})
	return l
}

func (l *link) url() string { return "nats://" + l.listen.Addr().String() }

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
	l.cuts++
}

func BenchmarkSpend(b *testing.B) {
	const services = 1000
	for _, sync := range []bool{false, true} {
		for _, engines := range []int{1, 2} {
			b.Run(fmt.Sprintf("sync=%t/engines=%d", sync, engines), func(b *testing.B) { benchmarkSpend(b, sync, engines, services) })
		}
	}
}

func benchmarkSpend(b *testing.B, syncs bool, engines, services int) {
	server := nats.Start(b, embedded.Options{Sync: syncs})
	var all []*stream.Stream
	for range engines {
		all = append(all, nats.Connect(b, stream.Config{URL: server.URL()}))
	}
	_, err := all[0].Setup(b.Context(), nil, stream.Settings{})
	must(b, err)
	for b.Loop() {
		must(b, all[0].Delete(b.Context(), control.BudgetKey("c1")))
		var wait sync.WaitGroup
		for n := range services {
			wait.Go(func() {
				r, err := control.Spend(b.Context(), all[n%engines], false, "c1", class, uid(n), services, services)
				if err != nil || !r.Cluster {
					b.Error(r, err)
				}
			})
		}
		wait.Wait()
	}
}

// A caller that leaves does not read results of a running change; the race detector would notice.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	_, err := s.Setup(t.Context(), nil, stream.Settings{})
	must(t, err)
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*50*time.Microsecond)
			defer cancel()
			_, _ = control.Spend(ctx, s, false, "c1", class, uid(n), 1000, 1000)
			_, _ = control.Reserve(ctx, s, "c1", time.Millisecond)
		})
	}
	all.Wait()
}
