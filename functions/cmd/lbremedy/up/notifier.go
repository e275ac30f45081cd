package up

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

type notifier struct {
	*upRun
	env   *host.Connection
	again time.Duration // interval of retrying faulty sinks
	count func(sink, kind string, n float64)
	taken
}

// A taken holds the sinks and people of a policy that the notifier follows.
type taken struct {
	sinks    []policy.Sink     // in force
	people   []policy.Person   // whose clicks count there
	notified []policy.Sink     // those notified
	faults   map[string]string // by sink: why it is not notified as the policy says
	follower *ticket.Follower
}

func (u *upRun) notifier(ctx context.Context, env *host.Connection) (*notifier, error) {
	t := &notifier{upRun: u, env: env, again: time.Minute, count: u.metrics.Notifications()}
	v, err := u.source.Read(ctx)
	if err != nil {
		t.pause(err)
	}
	if t.taken, err = t.take(v, nil); err != nil {
		return nil, err
	}
	t.report(t.taken)
	return t, nil
}

func (t *notifier) pause(why error) {
	said := event.Redact(why.Error())
	t.Log().Error("nobody is notified: the policy cannot be used", "error", said)
	t.Note("Notified: nobody (%s).", strings.ReplaceAll(said, "\n", "; "))
}

// take makes a follower. A faulty sink gets the built-in text, its previous configuration, or nothing: it must not affect other sinks or failures.
func (t *notifier) take(v policy.Version, before []policy.Sink) (taken, error) {
	now := taken{sinks: v.Sinks, people: v.People, faults: map[string]string{}}
	try := func(s policy.Sink) error {
		if err := errors.Join(s.URLFrom.Readable(t.secrets), s.SecretFrom.Readable(t.secrets)); err != nil {
			return err
		}
		_, err := t.following(v.People, s)
		return err
	}
	for _, s := range v.Sinks {
		for _, kind := range []string{ticket.Opened, ticket.Updated, ticket.Closing, ticket.Reopened, ticket.Retried, ticket.Refused} {
			t.count(s.Name, kind, 0)
		}
		plain := s
		plain.Template = ""
		ways := []policy.Sink{s, plain}
		if i := slices.IndexFunc(before, func(b policy.Sink) bool { return b.Name == s.Name }); i >= 0 {
			ways = append(ways, before[i])
		}
		for i, way := range ways {
			err := try(way)
			if err == nil {
				now.notified = append(now.notified, way)
				break
			}
			if i == 0 {
				now.faults[s.Name] = event.Redact(err.Error())
			}
		}
	}
	var err error
	now.follower, err = t.following(v.People, now.notified...)
	return now, err
}

func (t *notifier) following(people []policy.Person, sinks ...policy.Sink) (*ticket.Follower, error) {
	return ticket.New(ticket.Config{
		Stream: t.env.Stream, Sinks: sinks, Remedies: t.Program.Remedies(), Cluster: t.env.Cluster, Kube: t.env.Clients.KubeWriter, Language: cli.Tongue,
		Answers: t.env.Kube, People: people, Secrets: t.secrets, Cloud: t.env.Clients.Cloud, CloudWriter: t.env.Clients.CloudWriter, Log: t.env.Log,
		Count: t.count,
	})
}

func (t *notifier) report(now taken) {
	for _, s := range now.notified {
		t.Note("Notified: %s (%s).", s.Name, s.Kind)
	}
	for _, s := range now.sinks {
		if why := now.faults[s.Name]; why != "" {
			t.Log().Error("a sink can't be notified as the policy says; trying again", "sink", s.Name, "error", why)
		}
	}
}

func (t *notifier) run(ctx context.Context) error {
	for ctx.Err() == nil {
		inner, stop := context.WithCancel(ctx)
		var wait sync.WaitGroup
		wait.Go(func() { t.follower.Run(inner) })
		next := t.change(inner)
		stop()
		wait.Wait()
		if next != nil {
			t.taken = *next
		}
	}
	return nil
}

// change returns what is followed next when sinks or people change or a fault ends; nil if ctx ends before.
func (t *notifier) change(ctx context.Context) *taken {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	tried := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		v, err := t.source.Read(ctx)
		if ctx.Err() != nil || errors.Is(err, kube.ErrUnavailable) {
			continue // the policy is unknown, and may be the same
		}
		same := reflect.DeepEqual(v.Sinks, t.sinks) && reflect.DeepEqual(v.People, t.people)
		if same && (len(t.faults) == 0 || time.Since(tried) < t.again) {
			continue
		}
		if err != nil {
			t.pause(err)
		}
		tried = time.Now()
		if same {
			for name := range t.faults {
				t.count(name, ticket.Refused, 1)
			}
		}
		next, err := t.take(v, t.notified)
		if err != nil {
			t.Log().Error("the sinks of the policy are not taken; the last good ones stay", "error", event.Redact(err.Error()))
			continue
		}
		if same && maps.Equal(next.faults, t.faults) {
			continue
		}
		t.report(next)
		return &next
	}
}
