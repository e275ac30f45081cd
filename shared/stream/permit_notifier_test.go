package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

// A notifier does what it is for in a NATS that an operator has set up, and the server
// refuses it what is a worker's, an exporter's or a person's.
func TestPermitNotifier(t *testing.T) {
	t.Parallel()
	const class, cluster = "tag-missing", "c1"
	may := stream.PermitNotifier(cluster)
	server := nats.Start(t, embedded.Options{Users: []embedded.User{
		{Name: "admin", Password: "p"}, {Name: "notifier", Password: "p", Publish: may.Publish, Subscribe: may.Subscribe},
	}})
	as := func(user, inbox string) *stream.Stream {
		return nats.Connect(t, stream.Config{URL: server.URL(), User: user, Password: "p", Inbox: inbox, Cluster: cluster})
	}
	admin := as("admin", "")
	if _, err := admin.Setup(t.Context(), []string{class}, stream.Settings{Clusters: []string{cluster}}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SetupFollower(t.Context(), stream.CourierFollower(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	fail(t, admin, class, cluster)
	record := func(s *stream.Stream) func(context.Context) error {
		return func(ctx context.Context) error {
			j := s.Journal(cluster, uid, class)
			if _, err := j.Load(ctx); err != nil {
				return err
			}
			return j.Append(ctx, time.Now().String(), nil, []byte("{}"))
		}
	}
	if err := record(admin)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := admin.Dead(t.Context(), "it is a test", "exporter."+cluster, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	s, other := as("notifier", stream.InboxOf("notifier")), as("notifier", stream.InboxOf("courier"))
	put := func(key string) func(context.Context) error {
		return func(ctx context.Context) error { return s.Put(ctx, key, []byte("{}")) }
	}

	allowed := map[string]func(context.Context) error{
		"see that all is set up": func(ctx context.Context) error {
			changed, err := s.Setup(ctx, []string{class}, stream.Settings{Clusters: []string{cluster}})
			if err == nil && len(changed) > 0 {
				err = fmt.Errorf("it changed %v", changed)
			}
			return err
		},
		"follow the journal": func(ctx context.Context) error {
			if _, err := s.SetupFollower(ctx, "tell-ops_"+cluster, cluster); err != nil {
				return err
			}
			in, stop := context.WithCancel(ctx)
			defer stop()
			got := false
			err := s.ConsumeCases(in, "tell-ops_"+cluster, 1, func(context.Context, stream.Message) stream.Reply {
				got = true
				stop()
				return stream.Reply{}
			})
			if err == nil && !got {
				err = errors.New("no record came")
			}
			return err
		},
		"follow the records of its cluster": func(ctx context.Context) error {
			_, err := s.SetupFollower(ctx, "tell-events-"+cluster, cluster)
			return err
		},
		"keep a member":             put("incident.vswitch-vsw-1." + class + ".0000." + uid),
		"keep what a sink was sent": put("ticket.ops.x"),
		"bring an answer":           put("answer." + cluster + "." + uid + "." + class + ".0"),
		"deliver a failure again": func(ctx context.Context) error {
			_, _, err := s.PublishNewer(ctx, event.FailedSubject(cluster, class, uid), "x", nil, []byte("{}"), func(stream.Message) bool { return true })
			return err
		},
		"put a policy in force":         put("policy." + cluster),
		"put the sinks in force":        put("tell." + cluster),
		"keep the policy's history":     put("history." + cluster + ".1"),
		"read who closed a ticket":      func(ctx context.Context) error { _, err := s.Keys(ctx, "closed.>"); return err },
		"measure what waits":            func(ctx context.Context) error { _, err := s.Queues(ctx, cluster); return err },
		"measure how full the disk is":  func(ctx context.Context) error { _, err := s.Fills(ctx); return err },
		"reconcile the ledger":          func(ctx context.Context) error { _, err := s.Ledger(ctx, cluster, time.Now(), stream.Late); return err },
		"read budgets, breakers, pause": func(ctx context.Context) error { _, err := s.Entries(ctx, ">"); return err },
	}
	for doing, do := range allowed {
		in, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := do(in); err != nil {
			t.Errorf("%s: %v", doing, err)
		}
		cancel()
	}

	notifier := []natsgo.Option{natsgo.UserInfo("notifier", "p"), natsgo.CustomInboxPrefix(stream.InboxOf("notifier") + "." + cluster)}
	refused := map[string]func(context.Context) error{
		"write a record":      record(s),
		"write a snapshot":    func(ctx context.Context) error { return s.Snapshot(ctx, cluster, uid, class, nil, []byte("{}")) },
		"back the journal up": func(ctx context.Context) error { return nats.Backup(ctx, server.URL(), stream.Cases, notifier...) },
		"discard the journal": func(ctx context.Context) error { return nats.Delete(ctx, server.URL(), stream.Cases, notifier...) },
		"follow the records of all clusters": func(ctx context.Context) error {
			_, err := s.SetupFollower(ctx, "tell-all", "")
			return err
		},
		"follow the records of another cluster": func(ctx context.Context) error {
			_, err := s.SetupFollower(ctx, "tell-ops_c2", "c2")
			return err
		},
		"publish a failure of another cluster": func(ctx context.Context) error {
			_, _, err := s.PublishNewer(ctx, event.FailedSubject("c2", class, uid), "x", nil, []byte("{}"), func(stream.Message) bool { return true })
			return err
		},
		"say that a failure is dead": func(ctx context.Context) error {
			return s.Dead(ctx, "it is a test", event.FailedSubject(cluster, class, uid), nil, []byte("x"))
		},
		"remove what is dead": func(ctx context.Context) error {
			_, err := s.Remove(ctx, stream.Dead, 1)
			return err
		},
		"consume a class": func(ctx context.Context) error {
			err := s.Consume(ctx, cluster, class, 1, func(context.Context, stream.Message) stream.Reply { return stream.Reply{} })
			if err == nil && ctx.Err() != nil {
				err = errors.New("nothing came")
			}
			return err
		},
		"set a consumer of a class up": func(ctx context.Context) error {
			_, err := s.Setup(ctx, []string{class, "quota"}, stream.Settings{Clusters: []string{cluster}})
			return err
		},
		"listen to another one's answers": func(ctx context.Context) error {
			_, err := other.Get(ctx, "policy")
			return err
		},
		"take a lock": func(ctx context.Context) error {
			unlock, _, err := s.Lock(ctx, "target.slb/lb-1", uid, time.Minute)
			unlock()
			return err
		},
	}
	for _, key := range []string{
		"pause", "pause." + cluster, "breaker." + cluster + "." + class, "approval." + cluster + "." + uid + "." + class, "closed.x",
		"answer.c2." + uid + "." + class + ".0",
		"progress." + cluster, "ledger." + cluster + ".e1", "services." + cluster, "claim.budget." + cluster, "policy", "tell", "policy.c2", "tell.c2",
		"history.c2.1",
	} {
		refused["write "+key] = put(key)
	}
	nats.Refused(t, refused)
}
