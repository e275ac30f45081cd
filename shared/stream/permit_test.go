package stream_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

// A class does what it is for, and the server refuses all else: other classes'
// messages, records and breakers, and what is a person's to say.
func TestPermit(t *testing.T) {
	const mine, theirs, cluster, uid = "tag-missing", "quota", "c1", "7f0c1c52-0f3c-4a8e-9d0e-0a1b2c3d4e5f"
	var users []embedded.User
	for _, class := range []string{mine, theirs} {
		may, err := stream.Permit(class)
		if err != nil {
			t.Fatal(err)
		}
		users = append(users, embedded.User{Name: class, Password: "p", Publish: may.Publish, Subscribe: may.Subscribe})
	}
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1, Users: append(users, embedded.User{Name: "admin", Password: "p"})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	as := func(user, inbox string) *stream.Stream {
		t.Helper()
		s, err := stream.Connect(t.Context(), stream.Config{URL: server.URL(), User: user, Password: "p", Inbox: inbox})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	admin := as("admin", "")
	if _, err := admin.Setup(t.Context(), []string{mine, theirs}, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	publish := func(class string) {
		t.Helper()
		_, _, err := admin.PublishNewer(t.Context(), events.FailedSubject(cluster, class, uid), class, nil, []byte("{}"), func(stream.Message) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
	}
	publish(mine)
	publish(theirs)
	if err := admin.Put(t.Context(), "policy", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	s := as(mine, stream.InboxOf(mine))

	// What it may.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := ""
	consuming, stop := context.WithCancel(ctx)
	err = s.Consume(consuming, mine, 1, func(_ context.Context, m stream.Message) stream.Reply {
		got = m.Subject
		stop()
		return stream.Reply{Dead: "it is a test"}
	})
	if err != nil || got != events.FailedSubject(cluster, mine, uid) {
		t.Errorf("consumed %q, %v", got, err)
	}
	journal := s.Journal(cluster, uid, mine)
	_, loaded := journal.Load(ctx)
	_, claimed := s.Claim(ctx, "budget."+cluster+"."+mine, 3, uid, time.Minute)
	_, everywhere := s.Claim(ctx, "budget."+cluster, 3, uid, time.Minute)
	_, place := s.Claim(ctx, "vswitch.vsw-1", 3, uid, time.Minute)
	_, opened := s.Create(ctx, "breaker."+cluster+"."+mine, []byte("{}"), 0)
	unlock, _, locked := s.Lock(ctx, "target.slb/lb-1", uid, time.Minute)
	unlock()
	_, paced := s.Pace(ctx, "touch."+cluster, time.Second)
	_, read := s.Get(ctx, "policy")
	for doing, err := range map[string]error{
		"load the journal": loaded, "append to it": journal.Append(ctx, "1", nil, []byte("{}")), "keep a snapshot": s.Snapshot(ctx, cluster, uid, mine, nil, []byte("{}")),
		"take a place of the class": claimed, "take a place of the cluster": everywhere, "take a place in a vSwitch": place, "open its breaker": opened,
		"lock a target": locked, "reserve a moment": paced, "read the policy": read, "use an approval up": s.Delete(ctx, "approval."+cluster+"."+uid+"."+mine),
	} {
		if err != nil {
			t.Errorf("%s: %v", doing, err)
		}
	}

	// What it may not: the server does not answer who is refused, so that each takes its time.
	refused := func(doing string, f func(context.Context) error) {
		t.Run(doing, func(t *testing.T) {
			t.Parallel()
			in, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := f(in); err == nil {
				t.Error("it was allowed")
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		put := func(key string) func(context.Context) error {
			return func(ctx context.Context) error { return s.Put(ctx, key, []byte("{}")) }
		}
		for _, key := range []string{"policy", "pause", "pause." + cluster, "services." + cluster, "progress." + cluster, "breaker." + cluster + "." + theirs, "approval." + cluster + "." + uid + "." + theirs, "incident.x"} {
			refused("write "+key, put(key))
		}
		refused("append to another class's journal", func(ctx context.Context) error {
			return s.Journal(cluster, uid, theirs).Append(ctx, "1", nil, []byte("{}"))
		})
		refused("publish a failure", func(ctx context.Context) error {
			_, _, err := s.PublishNewer(ctx, events.FailedSubject(cluster, mine, uid), "x", nil, []byte("{}"), func(stream.Message) bool { return true })
			return err
		})
		refused("consume another class", func(ctx context.Context) error {
			err := s.Consume(ctx, theirs, 1, func(context.Context, stream.Message) stream.Reply { return stream.Reply{} })
			if err == nil && ctx.Err() != nil {
				return errors.New("nothing came")
			}
			return err
		})
		refused("set the streams up", func(ctx context.Context) error {
			_, err := s.Setup(ctx, []string{mine}, stream.Settings{})
			return err
		})
		refused("listen to another one's answers", func(ctx context.Context) error {
			_, err := as(mine, stream.InboxOf(theirs)).Get(ctx, "policy")
			return err
		})
	})
	// Nothing of it has come through.
	if m, err := admin.Last(t.Context(), stream.Failed, events.FailedSubject(cluster, mine, uid)); err != nil || m.ID() != mine {
		t.Errorf("the failure is %q, %v", m.ID(), err)
	}
	if data, err := admin.Get(t.Context(), "pause"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("the pause is %q, %v", data, err)
	}
	if _, err := stream.Permit("a.b"); err == nil {
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
