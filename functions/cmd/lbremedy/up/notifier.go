package up

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// A notifier opens and closes tickets at the sinks in force, whichever those are at the time.
type notifier struct {
	*upRun
	env      *engine.Env
	sinks    []policy.Sink
	follower *ticket.Follower

	mu     sync.Mutex                       // of what follows, and of a change of follower
	before map[string]observe.Notifications // by sink, of followers that have ended
}

// notifier returns one for the sinks in force; an error if one of them can't be notified. Of
// sinks of a newer release it notifies none.
func (u *upRun) notifier(ctx context.Context, env *engine.Env) (*notifier, error) {
	t := &notifier{upRun: u, env: env}
	sinks, err := policy.SinksInForce(ctx, env.Stream, env.Cluster)
	if errors.Is(err, policy.ErrNewer) {
		t.pause(err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.take(sinks); err != nil {
		return nil, command.Mistake{Err: err}
	}
	return t, nil
}

// pause says that nobody is notified: the sinks in force are not known here.
func (t *notifier) pause(why error) {
	t.Log().Error("nobody is notified: the sinks in force are not known here", "error", why)
	t.Note("Notified: nobody (%s).", why)
}

// take makes a follower for the sinks.
func (t *notifier) take(sinks []policy.Sink) error {
	f, err := ticket.New(ticket.Config{
		Stream: t.env.Stream, Sinks: sinks, Remedies: cli.Remedies(), Cluster: t.env.Cluster, Kube: t.env.KubeWriter,
		Cloud: t.env.Cloud, CloudWriter: t.env.CloudWriter, Log: t.env.Log,
	})
	if err != nil {
		return err
	}
	t.sinks, t.follower = sinks, f
	for _, s := range sinks {
		t.Note("Notified: %s (%s).", s.Name, s.Kind)
	}
	return nil
}

// notifications returns what all followers have sent, by sink.
func (t *notifier) notifications() map[string]observe.Notifications {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum()
}

func (t *notifier) sum() map[string]observe.Notifications {
	all := maps.Clone(t.before)
	if all == nil {
		all = map[string]observe.Notifications{}
	}
	for name, s := range t.follower.Stats() {
		all[name] = all[name].Plus(observe.Notifications{
			Opened: s.Opened, Updated: s.Updated, Closed: s.Closed, Reopened: s.Reopened, Retried: s.Retries, Refused: s.Refused,
		})
	}
	return all
}

// run notifies until ctx ends, and takes over the sinks when they change. Those that are
// wrong change nothing.
func (t *notifier) run(ctx context.Context) error {
	for ctx.Err() == nil {
		inner, stop := context.WithCancel(ctx)
		var wait sync.WaitGroup
		var err error
		wait.Go(func() {
			err = t.follower.Run(inner)
			if err != nil {
				stop()
			}
		})
		next := t.change(inner)
		stop()
		wait.Wait()
		if err != nil {
			return err
		}
		if next != nil {
			t.mu.Lock()
			t.before = t.sum()
			t.sinks, t.follower = next.sinks, next.follower
			t.mu.Unlock()
		}
	}
	return nil
}

// change waits for other sinks and returns their notifier; nil if ctx ends before.
func (t *notifier) change(ctx context.Context) *notifier {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	refused := t.sinks
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		sinks, err := policy.SinksInForce(ctx, t.env.Stream, t.env.Cluster)
		if errors.Is(err, policy.ErrNewer) && len(t.sinks) > 0 {
			t.pause(err)
			err = nil // and none are taken over
		}
		if err != nil || reflect.DeepEqual(sinks, t.sinks) || reflect.DeepEqual(sinks, refused) {
			continue // without NATS nobody can be notified anyway
		}
		next := &notifier{upRun: t.upRun, env: t.env}
		if err := next.take(sinks); err != nil {
			refused = sinks
			t.Log().Error("the sinks of the policy are not taken; the last good ones stay", "error", event.Redact(err.Error()))
			continue
		}
		return next
	}
}
