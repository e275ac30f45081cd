package stream_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

const uid = "7f0c1c52-0f3c-4a8e-9d0e-0a1b2c3d4e5f"

// fail publishes a failure of a class.
func fail(t *testing.T, admin *stream.Stream, class, cluster string) {
	t.Helper()
	_, _, err := admin.PublishNewer(t.Context(), event.FailedSubject(cluster, class, uid), class, nil, []byte("{}"), func(stream.Message) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
}

// operations are what the engine does for a class, by what it is.
func operations(s, admin *stream.Stream, class, cluster string) map[string]func(context.Context) error {
	claim := func(key string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Claim(ctx, key, 3, uid, time.Minute); return err }
	}
	return map[string]func(context.Context) error{
		"consume, and let a message die": func(ctx context.Context) error {
			consuming, stop := context.WithCancel(ctx)
			got := ""
			err := s.Consume(consuming, cluster, class, 1, func(_ context.Context, m stream.Message) stream.Reply {
				got = m.Subject
				stop()
				return stream.Reply{Dead: "it is a test"}
			})
			stop()
			if err != nil || got != event.FailedSubject(cluster, class, uid) {
				return fmt.Errorf("got %q: %w", got, cmp.Or(err, errors.New("that is not it")))
			}
			if _, err := s.Last(ctx, stream.Dead, "lbremedy.dead.failed."+cluster+"."+class+".>"); err != nil {
				return err
			}
			// An acknowledgement is not answered: whether it came shows later.
			for {
				queues, err := admin.Queues(ctx, cluster)
				if err != nil {
					return err
				}
				if i := slices.IndexFunc(queues, func(q stream.Queue) bool { return q.Class == class }); i >= 0 && queues[i].InHand == 0 {
					return nil
				}
			}
		},
		"read the newest failure": func(ctx context.Context) error {
			_, err := s.Last(ctx, stream.Failed, event.FailedSubject(cluster, class, uid))
			return err
		},
		"read the newest failures of all classes": func(ctx context.Context) error {
			_, err := s.Lasts(ctx, stream.Failed, event.FailedSubject(cluster, "*", uid))
			return err
		},
		"read the newest record": func(ctx context.Context) error {
			_, err := s.Last(ctx, stream.Cases, event.CaseFilter(cluster, uid))
			if errors.Is(err, stream.ErrNotFound) { // the journal may be read before it is kept
				return nil
			}
			return err
		},
		"keep the journal": func(ctx context.Context) error {
			journal := s.Journal(cluster, uid, class)
			_, err := journal.Load(ctx)
			return cmp.Or(err, journal.Append(ctx, "1", nil, []byte("{}")))
		},
		"keep a snapshot":               func(ctx context.Context) error { return s.Snapshot(ctx, cluster, uid, class, nil, []byte("{}")) },
		"take a place of the class":     claim("budget." + cluster + "." + class),
		"take a place of the cluster":   claim("budget." + cluster),
		"take a place in a vSwitch":     claim("vswitch.vsw-" + cluster),
		"take a place for an eviction":  claim("evict." + cluster + ".workload"),
		"count a fix that did not work": claim("unsettled." + cluster + "." + class),
		"open its breaker": func(ctx context.Context) error {
			_, err := s.Create(ctx, "breaker."+cluster+"."+class, []byte("{}"), 0)
			return err
		},
		"take the lease of a run": func(ctx context.Context) error {
			e, err := s.Entry(ctx, event.RunKey(cluster, uid, class))
			if err != nil && !errors.Is(err, stream.ErrNotFound) {
				return err
			}
			_, err = s.Swap(ctx, e.Key, []byte("{}"), e.Revision, time.Minute)
			return err
		},
		"ask for the time": func(ctx context.Context) error {
			if now, err := s.Now(ctx, cluster, class); err != nil || time.Since(now).Abs() > time.Minute {
				return fmt.Errorf("got %s: %w", now, cmp.Or(err, errors.New("that is not the time")))
			}
			return nil
		},
		"reserve a moment": func(ctx context.Context) error { _, err := s.Pace(ctx, "touch."+cluster, time.Second); return err },
		"read the policy":  func(ctx context.Context) error { _, err := s.Get(ctx, "policy"); return err },
		"read the answers": func(ctx context.Context) error {
			_, err := s.Entries(ctx, "answer."+cluster+"."+uid+"."+class+".*")
			return err
		},
		"lock a target": func(ctx context.Context) error {
			unlock, _, err := s.Lock(ctx, "target.slb/"+cluster, uid, time.Minute)
			unlock()
			return err
		},
	}
}

// None of what a class may do is more than it needs: without any one of its subjects
// it fails at something. Each class lacks another one here.
func TestPermitNeeded(t *testing.T) {
	t.Parallel()
	whole, err := stream.Permit("c0", "c0")
	if err != nil {
		t.Fatal(err)
	}
	n := len(whole.Publish) + len(whole.Subscribe)
	var classes, lacks []string
	users := []embedded.User{{Name: "admin", Password: "p"}}
	for i := range n {
		class := fmt.Sprintf("c%d", i)
		may, err := stream.Permit(class, class)
		if err != nil {
			t.Fatal(err)
		}
		u := embedded.User{Name: class, Password: "p", Publish: may.Publish, Subscribe: may.Subscribe}
		if i < len(u.Publish) {
			lacks = append(lacks, u.Publish[i])
			u.Publish = slices.Delete(slices.Clone(u.Publish), i, i+1)
		} else {
			lacks = append(lacks, u.Subscribe[i-len(u.Publish)])
			u.Subscribe = []string{"nothing"} // none at all would be all
		}
		classes, users = append(classes, class), append(users, u)
	}
	server := nats.Start(t, embedded.Options{Users: users})
	as := func(user, inbox string) *stream.Stream {
		return nats.Connect(t, stream.Config{URL: server.URL(), User: user, Password: "p", Inbox: inbox, Cluster: user})
	}
	admin := as("admin", "")
	if _, err := admin.Setup(t.Context(), classes, stream.Settings{Clusters: classes}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Put(t.Context(), "policy", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for _, class := range classes {
		fail(t, admin, class, class)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	failed := make([]atomic.Int64, n)
	for i, class := range classes {
		s := as(class, stream.InboxOf(class))
		for _, do := range operations(s, admin, class, class) {
			wait.Go(func() {
				if do(ctx) != nil {
					failed[i].Add(1)
				}
			})
		}
	}
	wait.Wait()
	for i := range failed {
		switch many := failed[i].Load(); {
		case many == 0:
			t.Errorf("nothing fails without %q: it is not needed", lacks[i])
		case i < len(whole.Publish) && many == int64(len(operations(admin, admin, "c", "c"))):
			t.Errorf("all fails without %q: something else is wrong", lacks[i])
		}
	}
}

// A class does what it is for, and the server refuses all else: other classes'
// messages, records and breakers, and what is a person's to say.
func TestPermit(t *testing.T) {
	t.Parallel()
	const mine, theirs, cluster, elsewhere = "tag-missing", "quota", "c1", "c2"
	var users []embedded.User
	for _, class := range []string{mine, theirs} {
		may, err := stream.Permit(cluster, class)
		if err != nil {
			t.Fatal(err)
		}
		users = append(users, embedded.User{Name: class, Password: "p", Publish: may.Publish, Subscribe: may.Subscribe})
	}
	server := nats.Start(t, embedded.Options{Users: append(users, embedded.User{Name: "admin", Password: "p"})})
	as := func(user, inbox string) *stream.Stream {
		return nats.Connect(t, stream.Config{URL: server.URL(), User: user, Password: "p", Inbox: inbox, Cluster: cluster})
	}
	admin := as("admin", "")
	if _, err := admin.Setup(t.Context(), []string{mine, theirs}, stream.Settings{Clusters: []string{cluster, elsewhere}}); err != nil {
		t.Fatal(err)
	}
	fail(t, admin, mine, cluster)
	fail(t, admin, theirs, cluster)
	fail(t, admin, mine, elsewhere)
	if err := admin.Put(t.Context(), "policy", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	s, other := as(mine, stream.InboxOf(mine)), as(mine, stream.InboxOf(theirs))

	for doing, do := range operations(s, admin, mine, cluster) {
		in, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := do(in); err != nil {
			t.Errorf("%s: %v", doing, err)
		}
		cancel()
	}

	put := func(key string) func(context.Context) error {
		return func(ctx context.Context) error { return s.Put(ctx, key, []byte("{}")) }
	}
	consume := func(cluster, class string) func(context.Context) error {
		return func(ctx context.Context) error {
			in, stop := context.WithCancel(ctx)
			defer stop()
			got := false
			err := s.Consume(in, cluster, class, 1, func(context.Context, stream.Message) stream.Reply {
				got = true
				stop()
				return stream.Reply{Retry: time.Second}
			})
			if err == nil && !got {
				err = errors.New("nothing came")
			}
			return err
		}
	}
	refused := map[string]func(context.Context) error{
		"append to another class's journal": func(ctx context.Context) error {
			return s.Journal(cluster, uid, theirs).Append(ctx, "1", nil, []byte("{}"))
		},
		"publish a failure": func(ctx context.Context) error {
			_, _, err := s.PublishNewer(ctx, event.FailedSubject(cluster, mine, uid), "x", nil, []byte("{}"), func(stream.Message) bool { return true })
			return err
		},
		"consume another class":   consume(cluster, theirs),
		"consume another cluster": consume(elsewhere, mine),
		"append to another cluster's journal": func(ctx context.Context) error {
			return s.Journal(elsewhere, uid, mine).Append(ctx, "1", nil, []byte("{}"))
		},
		"keep another cluster's snapshot": func(ctx context.Context) error {
			return s.Snapshot(ctx, elsewhere, uid, mine, nil, []byte("{}"))
		},
		"say that a message of another cluster is dead": func(ctx context.Context) error {
			return s.Dead(ctx, "it is a test", event.FailedSubject(elsewhere, mine, uid), nil, []byte("x"))
		},
		"set the streams up": func(ctx context.Context) error {
			_, err := s.Setup(ctx, []string{mine}, stream.Settings{Clusters: []string{cluster}})
			return err
		},
		"listen to another one's answers": func(ctx context.Context) error {
			_, err := other.Get(ctx, "policy")
			return err
		},
	}
	for _, key := range []string{"policy", "policy." + cluster, "pause", "pause." + cluster, "services." + cluster, "progress." + cluster,
		"approval." + cluster + "." + uid + "." + mine, "answer." + cluster + "." + uid + "." + mine + ".0",
		"breaker." + cluster + "." + theirs, "approval." + cluster + "." + uid + "." + theirs, event.RunKey(cluster, uid, theirs), "incident.x",
		"breaker." + elsewhere + "." + mine, "approval." + elsewhere + "." + uid + "." + mine, event.RunKey(elsewhere, uid, mine), "pace.touch." + elsewhere,
		"claim.evict." + elsewhere + ".shop.web.0", "claim.budget." + elsewhere + ".0", "claim.budget." + elsewhere + "." + mine + ".0",
		"claim.unsettled." + elsewhere + "." + mine + ".0"} {
		refused["write "+key] = put(key)
	}
	nats.Refused(t, refused)
	// Nothing of it has come through.
	if m, err := admin.Last(t.Context(), stream.Failed, event.FailedSubject(cluster, mine, uid)); err != nil || m.ID() != mine {
		t.Errorf("the failure is %q, %v", m.ID(), err)
	}
	if data, err := admin.Get(t.Context(), "pause"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("the pause is %q, %v", data, err)
	}
	if _, err := stream.Permit(cluster, "a.b"); err == nil {
		t.Error("a class that is several tokens got permissions")
	}
}

// A key file that is none is an error that does not quote it.
func TestNKey(t *testing.T) {
	name := t.TempDir() + "/seed"
	if err := os.WriteFile(name, []byte("a secret that is no seed"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := stream.Connect(t.Context(), stream.Config{URL: "nats://127.0.0.1:1", NKey: name})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v", err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	another, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []string{"a secret that is no seed", string(another)} {
		_, err = stream.Connect(t.Context(), stream.Config{URL: "nats://127.0.0.1:1", Seed: seed})
		if err == nil || strings.Contains(err.Error(), seed) || !strings.Contains(err.Error(), "no seed of a user") {
			t.Errorf("got %v", err)
		}
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Connect(t.Context(), stream.Config{URL: "nats://127.0.0.1:1", NKey: name}); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
