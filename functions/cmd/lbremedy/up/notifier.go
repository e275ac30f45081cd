package up

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// A notifier opens and closes tickets at the sinks in force, whichever those are at the time.
type notifier struct {
	*upRun
	env      *engine.Env
	sinks    []policy.Sink
	people   []policy.Person // whose clicks there count
	follower *ticket.Follower

	mu     sync.Mutex                       // of what follows, and of a change of follower
	before map[string]observe.Notifications // by sink, of followers that have ended
}

// notifier returns one for the sinks in force; an error if one of them can't be notified. Of
// sinks of a newer release it notifies none.
func (u *upRun) notifier(ctx context.Context, env *engine.Env) (*notifier, error) {
	t := &notifier{upRun: u, env: env}
	sinks, people, err := t.inForce(ctx)
	if errors.Is(err, policy.ErrNewer) {
		t.pause(err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.take(sinks, people); err != nil {
		return nil, command.Mistake{Err: err}
	}
	return t, nil
}

// pause says that nobody is notified: the sinks in force are not known here.
func (t *notifier) pause(why error) {
	t.Log().Error("nobody is notified: the sinks in force are not known here", "error", why)
	t.Note("Notified: nobody (%s).", why)
}

// inForce returns the sinks in force, and the people whose clicks there count.
func (t *notifier) inForce(ctx context.Context) ([]policy.Sink, []policy.Person, error) {
	sinks, err := policy.SinksInForce(ctx, t.env.Stream, t.env.Cluster)
	if err != nil {
		return nil, nil, err
	}
	people, err := policy.PeopleInForce(ctx, t.env.Stream, t.env.Cluster)
	return sinks, people, err
}

// check returns what is wrong with sinks out of the stream: what a policy file is refused for, and what this process
// must not read for them. Words that only another release knows are not wrong.
func (t *notifier) check(sinks []policy.Sink) error {
	var errs []error
	for _, s := range sinks {
		if !policyfile.ValidSinkName(s.Name) {
			errs = append(errs, fmt.Errorf("tell: no sink can be called %.40q", s.Name))
		}
		s.Check(nil, func(field, format string, args ...any) {
			if !slices.Contains([]string{"language", "classes", "risks", "results"}, field) {
				errs = append(errs, fmt.Errorf("tell.%s: %s: %s", s.Name, field, fmt.Sprintf(format, args...)))
			}
		})
		for _, r := range []policy.Reference{s.URLFrom, s.SecretFrom} {
			if err := r.Readable(t.secrets); err != nil {
				errs = append(errs, fmt.Errorf("tell.%s: %w", s.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// take makes a follower for the sinks.
func (t *notifier) take(sinks []policy.Sink, people []policy.Person) error {
	if err := t.check(sinks); err != nil {
		return err
	}
	f, err := ticket.New(ticket.Config{
		Stream: t.env.Stream, Sinks: sinks, Remedies: cli.Remedies(), Cluster: t.env.Cluster, Kube: t.env.KubeWriter, Language: cli.Tongue,
		Answers: t.env.Kube, People: people, Cloud: t.env.Cloud, CloudWriter: t.env.CloudWriter, Log: t.env.Log,
	})
	if err != nil {
		return err
	}
	t.sinks, t.people, t.follower = sinks, people, f
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
			t.sinks, t.people, t.follower = next.sinks, next.people, next.follower
			t.mu.Unlock()
		}
	}
	return nil
}

// change waits for other sinks and returns their notifier; nil if ctx ends before.
func (t *notifier) change(ctx context.Context) *notifier {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	refused, refusedPeople := t.sinks, t.people
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		sinks, people, err := t.inForce(ctx)
		if errors.Is(err, policy.ErrNewer) && len(t.sinks) > 0 {
			t.pause(err)
			err = nil // and none are taken over
		}
		same := reflect.DeepEqual(sinks, t.sinks) && reflect.DeepEqual(people, t.people)
		if err != nil || same || reflect.DeepEqual(sinks, refused) && reflect.DeepEqual(people, refusedPeople) {
			continue // without NATS nobody can be notified anyway
		}
		next := &notifier{upRun: t.upRun, env: t.env}
		if err := next.take(sinks, people); err != nil {
			refused, refusedPeople = sinks, people
			t.Log().Error("the sinks of the policy are not taken; the last good ones stay", "error", event.Redact(err.Error()))
			continue
		}
		return next
	}
}
