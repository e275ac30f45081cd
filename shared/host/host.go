// Package host takes an event and answers with the fate of its message: settled, come back later, or dead. An event that is
// unreadable, or for another host, is dead at once. A worker that pulls from the stream and an endpoint that answers HTTP are the same
// host. Begin with [Host].
package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Host runs remedies on events. Its methods are safe for concurrent use.
type Host struct {
	Env      *engine.Env
	Remedies []*remedy.Remedy
	OnRun    func(event.Record, error) // called after each run; may be nil
}

// A Reply says what happens to an event.
type Reply struct {
	Record event.Record
	Retry  time.Duration // deliver again after this; zero: settled or dead
	Dead   string        // why it can never be handled; empty: it can be
	Err    error         // why it must come back, for the log; engine.ErrForeign: it is dead here, and another host answers it
}

// Validate returns what is wrong with the host's remedies, or nil.
func (h *Host) Validate() error {
	var errs []error
	for i, r := range h.Remedies {
		errs = append(errs, r.Validate())
		if slices.ContainsFunc(h.Remedies[:i], func(o *remedy.Remedy) bool { return o.Class == r.Class }) {
			errs = append(errs, fmt.Errorf("class %q is there twice", r.Class))
		}
	}
	return errors.Join(errs...)
}

// Classes returns the IDs of the host's classes.
func (h *Host) Classes() []string {
	ids := make([]string, len(h.Remedies))
	for i, r := range h.Remedies {
		ids[i] = r.Class
	}
	return ids
}

// Remedy returns the remedy of a class.
func (h *Host) Remedy(class string) (*remedy.Remedy, bool) {
	i := slices.IndexFunc(h.Remedies, func(r *remedy.Remedy) bool { return r.Class == class })
	if i < 0 {
		return nil, false
	}
	return h.Remedies[i], true
}

// Handle answers one CloudEvent.
func (h *Host) Handle(ctx context.Context, e cloudevents.Event) Reply {
	f, err := event.ReadFailed(e)
	if err != nil {
		return Reply{Dead: err.Error()}
	}
	r, ok := h.Remedy(f.Class)
	if !ok {
		return Reply{Dead: fmt.Sprintf("the class %q is not known here; known are %v", f.Class, h.Classes())}
	}
	rec, err := engine.Run(ctx, h.Env, r, engine.Event{ID: e.ID(), Failure: f})
	h.log(e, rec, err)
	if h.OnRun != nil {
		h.OnRun(rec, err)
	}
	switch {
	case errors.Is(err, engine.ErrForeign):
		return Reply{Dead: err.Error(), Err: err}
	case err != nil && rec.Result.Settled() && rec.Result != "" && rec.Wait == 0: // otherwise CASES lacks the record
		return Reply{Record: rec, Err: err} // it has failed for good, and the record says so
	case err != nil:
		return Reply{Record: rec, Retry: max(rec.Wait, time.Second), Err: err}
	case !rec.Result.Settled():
		return Reply{Record: rec, Retry: max(rec.Wait, time.Second)}
	}
	return Reply{Record: rec}
}

func (h *Host) log(e cloudevents.Event, rec event.Record, err error) {
	log := h.Env.Logger()
	attrs := []any{
		"class", rec.Class, "cluster", rec.Cluster, "namespace", rec.Service.Namespace, "service", rec.Service.Name,
		"event", e.ID(), "case", rec.Case, "outcome", string(rec.Result),
	}
	if err != nil {
		log.Warn("run failed", append(attrs, "error", event.Redact(err.Error()))...)
		return
	}
	log.Info("run ended", append(attrs, "finding", rec.Finding.String())...)
}

// Work answers the failures of all the host's classes in its cluster, at most n at a time of one class, until ctx ends; then it lets
// runs in hand finish. The stream's Config.Handlers limits the runs of all classes together. A run that only watches for success gives
// up its place early if half of them are taken.
func (h *Host) Work(ctx context.Context, n int) error {
	of := document.Start(ctx, h.Env.Stream, h.Env.Cluster, h.Env.Log)
	defer of.Stop()
	var wait sync.WaitGroup
	errs := make([]error, len(h.Remedies))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, r := range h.Remedies {
		wait.Go(func() {
			var busy atomic.Int64
			env := *h.Env
			env.Engine = of
			env.Busy = func() bool { return busy.Load() > int64(n/2) || env.Stream.Busy() }
			own := Host{Env: &env, Remedies: h.Remedies, OnRun: h.OnRun}
			errs[i] = h.Env.Stream.Consume(ctx, h.Env.Cluster, r.Class, n, func(ctx context.Context, m stream.Message) stream.Reply {
				busy.Add(1)
				defer busy.Add(-1)
				return own.message(ctx, m)
			})
			if errs[i] != nil {
				errs[i] = fmt.Errorf("consume %s: %w", r.Class, errs[i])
				cancel() // a worker with a stopped class must end
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (h *Host) message(ctx context.Context, m stream.Message) stream.Reply {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return stream.Reply{Dead: err.Error()}
	}
	reply := h.Handle(ctx, e)
	if errors.Is(reply.Err, stream.ErrFull) {
		// Retrying each second would fill the log until a person makes room.
		reply.Retry = max(reply.Retry, min(time.Second<<min(m.Deliveries, 6), time.Minute))
	}
	if reply.Dead != "" {
		class, _ := e.Extensions()["class"].(string) // it may not be a readable failure
		h.Env.Logger().Error("event is dead", "class", class, "cluster", h.Env.Cluster, "event", e.ID(), "reason", reply.Dead)
	}
	return stream.Reply{Retry: reply.Retry, Dead: reply.Dead}
}
