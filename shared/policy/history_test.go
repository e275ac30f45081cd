package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

// Each version has a number of its own, whoever puts policies in force at once; one that says
// what the newest says is none. The oldest go.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := nats.Streams(t)
	put := func(attempts int) int {
		n, err := PutInForce(t.Context(), s, "c1", Version{At: time.Now(), By: "ann", Policy: remedy.Policy{Budgets: remedy.Budgets{Attempts: attempts}}})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if a, b, c := put(1), put(1), put(2); a != 1 || b != 1 || c != 2 {
		t.Errorf("the versions are %d, %d, %d", a, b, c)
	}
	var wait sync.WaitGroup
	numbers := make([]int, 6)
	for i := range numbers {
		wait.Go(func() { numbers[i] = put(10 + i) })
	}
	wait.Wait()
	slices.Sort(numbers)
	if !slices.Equal(numbers, []int{3, 4, 5, 6, 7, 8}) {
		t.Errorf("the versions are %v", numbers)
	}
	for i := range versionsKept {
		put(100 + i)
	}
	all, err := History(t.Context(), s, "c1")
	if err != nil || len(all) != versionsKept || all[0].Number != 8+versionsKept || all[0].Policy.Budgets.Attempts != 99+versionsKept || all[0].By != "ann" {
		t.Errorf("%d versions, %v, the newest %+v", len(all), err, all[0])
	}
	now, err := InForceNow(t.Context(), s, "c1")
	if err != nil || now.Number != all[0].Number {
		t.Errorf("in force is %+v, %v", now, err)
	}
	if none, err := History(t.Context(), s, "c"); err != nil || len(none) > 0 {
		t.Errorf("of another cluster: %v, %v", none, err)
	}

	// What an earlier release puts in force has no number. What a later one keeps is left out.
	if err := Publish(t.Context(), s, "c1", remedy.Policy{Mode: remedy.Fix}); err != nil {
		t.Fatal(err)
	}
	if now, err = InForceNow(t.Context(), s, "c1"); err != nil || now.Number != 0 || now.Policy.Mode != remedy.Fix {
		t.Errorf("in force is %+v, %v", now, err)
	}
	for i, text := range []string{`{"version":2}`, `{"version":1,"number":300,"policy":{"mode":"fix","curfew":"22:00"},"sinks":null}`} {
		if err := s.Put(t.Context(), historyOf("c1", 300+i), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if all, err = History(t.Context(), s, "c1"); !errors.Is(err, ErrNewer) || !strings.Contains(fmt.Sprint(err), "read version 301") || len(all) != versionsKept {
		t.Errorf("%d versions, %v", len(all), err)
	}
	if _, err = InForceNow(t.Context(), s, "c1"); err != nil {
		t.Error(err)
	}
	if n := put(5); n != 302 {
		t.Errorf("the version after them is %d", n)
	}
}

// Where the history can't be written, here since the user of NATS may not, a policy comes into force all the same.
func TestUnrecorded(t *testing.T) {
	t.Parallel()
	server := nats.Start(t, embedded.Options{Users: []embedded.User{
		{Name: "admin", Password: "p"}, {Name: "less", Password: "p", Publish: []string{"$JS.API.>", "$KV.lbremedy.policy.c1", "$KV.lbremedy.tell.c1"}},
	}})
	admin := nats.Connect(t, stream.Config{URL: server.URL(), User: "admin", Password: "p"})
	if _, err := admin.Setup(t.Context(), nil, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	s := nats.Connect(t, stream.Config{URL: server.URL(), User: "less", Password: "p"})
	_, err := PutInForce(t.Context(), s, "c1", Version{By: "lbremedy up", Policy: remedy.Policy{Mode: remedy.Fix}})
	if !errors.Is(err, ErrUnrecorded) {
		t.Errorf("got %v", err)
	}
	if p, err := InForce(t.Context(), admin, "c1"); err != nil || p.Mode != remedy.Fix {
		t.Errorf("in force is %+v, %v", p, err)
	}
}
