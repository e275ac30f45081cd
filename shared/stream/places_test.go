package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func TestClaim(t *testing.T) {
	const writers, slots = 300, 5
	s := fresh(t)
	var won atomic.Int64
	var mu sync.Mutex
	var winners []string
	var all sync.WaitGroup
	for w := range writers {
		owner := fmt.Sprintf("uid-%d", w)
		all.Go(func() {
			ok, err := s.Claim(t.Context(), "c1.tag-missing", slots, owner, time.Minute)
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
				mu.Lock()
				winners = append(winners, owner)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if won.Load() != slots {
		t.Errorf("%d of %d writers hold %d slots", won.Load(), writers, slots)
	}
	for _, w := range winners {
		if ok, err := s.Claim(t.Context(), "c1.tag-missing", slots, w, time.Minute); err != nil || !ok {
			t.Errorf("%s holds a slot and is told %t, %v", w, ok, err)
		}
	}
	if keys, err := s.Keys(t.Context(), "claim.>"); err != nil || len(keys) != slots {
		t.Errorf("got %q, %v", keys, err)
	}
	// Who only asks is told what a claim would be.
	for owner, want := range map[string]bool{winners[0]: true, "new": false} {
		if ok, err := s.Claimable(t.Context(), "c1.tag-missing", slots, owner); err != nil || ok != want {
			t.Errorf("%s is told %t, %v", owner, ok, err)
		}
	}
	if ok, err := s.Claimable(t.Context(), "c1.tag-missing", slots+1, "new"); err != nil || !ok {
		t.Errorf("got %t, %v", ok, err)
	}
	// A smaller budget than when the slots were taken, another key, none at all.
	if ok, err := s.Claim(t.Context(), "c1.tag-missing", 3, "new", time.Minute); err != nil || ok {
		t.Errorf("got %t, %v", ok, err)
	}
	if ok, err := s.Claim(t.Context(), "c1", slots, "new", time.Minute); err != nil || !ok {
		t.Errorf("got %t, %v", ok, err)
	}
	if ok, err := s.Claim(t.Context(), "empty", 0, "new", time.Minute); err != nil || ok {
		t.Errorf("got %t, %v", ok, err)
	}
}

// claimantOf makes this test binary a process that claims places of a budget of that server.
const claimantOf = "STREAM_TEST_CLAIMANT_OF"

const (
	claimants      = 3  // processes
	claimantOwners = 40 // of each, of which the first ten are the same in all
	claimantSlots  = 25
)

// claimAll claims a place for each of its owners at once and prints who has one.
func claimAll(url string) {
	s, err := Connect(context.Background(), Config{URL: url})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	var all sync.WaitGroup
	said := make(chan string, claimantOwners)
	for i := range claimantOwners {
		owner := fmt.Sprintf("all-%d", i)
		if i >= 10 {
			owner = fmt.Sprintf("%d-%d", os.Getpid(), i)
		}
		all.Go(func() {
			switch ok, err := s.Claim(context.Background(), "budget.c1", claimantSlots, owner, time.Hour); {
			case err != nil:
				said <- "error: " + err.Error()
			case ok:
				said <- owner
			}
		})
	}
	all.Wait()
	close(said)
	for line := range said {
		fmt.Println(line)
	}
}

// Of any number of processes at most as many owners have a place as there are, and whoever is told so has one.
func TestClaimOfProcesses(t *testing.T) {
	t.Parallel()
	server := serve(t, embedded.Options{})
	s := connect(t, Config{URL: server.URL()})
	setup(t, s)
	var all sync.WaitGroup
	out := make([]string, claimants)
	for i := range out {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), claimantOf+"="+server.URL())
			text, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, text)
			}
			out[i] = string(text)
		})
	}
	all.Wait()
	told := strings.Fields(strings.Join(out, ""))
	slices.Sort(told)
	told = slices.Compact(told)
	held, err := s.Entries(t.Context(), "claim.budget.c1.*")
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, e := range held {
		owners = append(owners, string(e.Value))
	}
	if len(owners) != claimantSlots {
		t.Errorf("%d of %d places are taken, by %q", len(owners), claimantSlots, owners)
	}
	slices.Sort(owners)
	if unlike := slices.Compact(owners); !slices.Equal(told, unlike) {
		t.Errorf("told that they have a place: %q; have one: %q", told, unlike)
	}
	// And who asks later, in yet another process, is told the same.
	for _, owner := range told {
		if ok, err := s.Claim(t.Context(), "budget.c1", claimantSlots, owner, time.Hour); err != nil || !ok {
			t.Errorf("%s has a place and is told %t, %v", owner, ok, err)
		}
	}
	if ok, err := s.Claim(t.Context(), "budget.c1", claimantSlots, "late", time.Hour); err != nil || ok {
		t.Errorf("who comes too late is told %t, %v", ok, err)
	}
}

// What a process remembers is not believed where it matters: neither that an owner has a
// place, nor that all are taken.
func TestClaimRemembers(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	other := connect(t, Config{URL: s.nc.ConnectedUrl()})
	claim := func(s *Stream, owner string, want bool) {
		t.Helper()
		if ok, err := s.Claim(t.Context(), "b", 2, owner, time.Hour); err != nil || ok != want {
			t.Errorf("%s is told %t, %v", owner, ok, err)
		}
	}
	claim(s, "a", true)
	claim(other, "b", true)
	claim(s, "c", false)
	keys, err := s.Keys(t.Context(), "claim.b.*")
	if err != nil || len(keys) != 2 {
		t.Fatalf("got %q, %v", keys, err)
	}
	for _, key := range keys {
		if err := other.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	claim(s, "c", true)
	claim(other, "d", true)
	claim(s, "a", false)
	claim(other, "b", false)
	claim(s, "d", true)
	claim(other, "c", true)
}

// To take a place costs the same, however many are taken.
func TestClaimReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	const owners = 400
	s := fresh(t)
	other := connect(t, Config{URL: s.nc.ConnectedUrl()})
	for i := range owners {
		if ok, err := []*Stream{s, other}[i%2].Claim(t.Context(), "b", 10*owners, fmt.Sprint(i), time.Hour); err != nil || !ok {
			t.Fatalf("owner %d is told %t, %v", i, ok, err)
		}
	}
	// To list them each time would be 40,000.
	if got := s.nc.Stats().InMsgs; got > 10*owners {
		t.Errorf("%d places took %d messages", owners/2, got)
	}
	var places atomic.Int64
	if err := s.EachEntry(t.Context(), "claim.b.*", func(Entry) { places.Add(1) }); err != nil || places.Load() != owners {
		t.Errorf("%d of %d owners have a place, %v", places.Load(), owners, err)
	}
}

// Who claims what was read ahead only creates its key.
func TestReadPlaces(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	p := s.budgets.of("b")
	for _, tt := range []struct {
		name  string
		ahead bool
		asked uint64
	}{
		{"the first one reads, too", false, 2},
		{"what is known is old", false, 2},
		{"read ahead", true, 1},
	} {
		p.mu.Lock()
		p.began = p.began.Add(-placesFresh)
		p.mu.Unlock()
		if tt.ahead {
			s.ReadPlaces(t.Context(), "b", "c")
		}
		before := s.nc.Stats().OutMsgs
		if ok, err := s.Claim(t.Context(), "b", 10, tt.name, time.Hour); err != nil || !ok {
			t.Fatalf("%s: got %t, %v", tt.name, ok, err)
		}
		if got := s.nc.Stats().OutMsgs - before; got != tt.asked {
			t.Errorf("%s: it asked %d times, want %d", tt.name, got, tt.asked)
		}
	}
	before := s.nc.Stats().OutMsgs
	if s.ReadPlaces(t.Context(), "b", "c"); s.nc.Stats().OutMsgs != before {
		t.Error("what is known was read again")
	}
}

// A process that has waited too long to see the marks of what is gone reads all again.
func TestClaimReadsAllAgain(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if ok, err := s.Claim(t.Context(), "b", 1, "a", time.Hour); err != nil || !ok {
		t.Fatalf("got %t, %v", ok, err)
	}
	p := s.budgets.of("b")
	if err := s.know(t.Context(), p, time.Now(), placesWhole); err != nil {
		t.Fatal(err)
	}
	// A place that the bucket does not hold and says nothing of: its mark is gone.
	p.note("claim.b.0", place{"gone", 1 << 40, true})
	p.mu.Lock()
	p.whole = p.whole.Add(-2 * placesWhole)
	p.mu.Unlock()
	if ok, err := s.Claimable(t.Context(), "b", 1, "gone"); err != nil || ok {
		t.Errorf("got %t, %v", ok, err)
	}
	if ok, err := s.Claimable(t.Context(), "b", 1, "a"); err != nil || !ok {
		t.Errorf("got %t, %v", ok, err)
	}
}

// That the places could not be read is nothing to remember.
func TestClaimAfterFailure(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if ok, err := s.Claim(t.Context(), "b", 2, "a", time.Hour); err != nil || !ok {
		t.Fatalf("got %t, %v", ok, err)
	}
	p := s.budgets.of("b")
	p.mu.Lock()
	p.began, p.err = time.Now(), ErrUnavailable
	p.mu.Unlock()
	if ok, err := s.Claim(t.Context(), "b", 2, "b", time.Hour); err != nil || !ok {
		t.Errorf("got %t, %v", ok, err)
	}
}

// A view that the server can't give whole is an error: what is missing would seem not to be there.
func TestBrokenView(t *testing.T) {
	t.Parallel()
	if err := serverSays("404", "Message Not Found", true); err == nil {
		t.Error("it is taken for the end of the view")
	}
	if err := serverSays("404", "Message Not Found", false); err != nil {
		t.Errorf("of one message: %v", err)
	}
	if err := serverSays("404", "No Results", true); err != nil {
		t.Errorf("nothing there: %v", err)
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for _, key := range []string{"pause", "answer.c1.u.x.1", "answer.c1.u.y.1", "with space"} {
		if err := s.Put(t.Context(), key, []byte("v "+key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(t.Context(), "pause.c1", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "pause.c1"); err != nil {
		t.Fatal(err)
	}
	view, err := s.View(t.Context(), "pause", "pause.c1", "breaker.c1", "answer.c1.u.x.*", "with space")
	if err != nil || len(view) != 3 {
		t.Fatalf("got %v, %v", view, err)
	}
	for _, key := range []string{"pause", "answer.c1.u.x.1", "with space"} {
		if e := view[key]; string(e.Value) != "v "+key || e.Key != key || e.Revision == 0 {
			t.Errorf("%s holds %+v", key, e)
		}
	}
	if view, err := s.View(t.Context(), "nothing"); err != nil || len(view) != 0 {
		t.Errorf("got %v, %v", view, err)
	}
	if _, err := s.View(t.Context(), "a..b"); err == nil {
		t.Error("a key that can't be is read")
	}
	s.Close()
	if _, err := s.View(t.Context(), "pause"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a connection: %v", err)
	}
}
