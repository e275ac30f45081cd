package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/events/courier"
	"github.com/lbremedy/lbremedy/events/program"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/observe/trace"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	lastTraces = 3 * time.Second  // that the collector may take for what waits at the end
	again      = 10 * time.Second // until a cluster that NATS refuses is tried again
)

// A served is a cluster that is served, with all that is its own.
type served struct {
	cluster string
	log     *slog.Logger
	nats    stream.Config
	metrics *observe.Courier
	traces  *trace.Sender
	seen    func(event.Record)

	mu      sync.Mutex
	stream  *stream.Stream // nil: not connected yet,
	why     error          // and why not
	courier *courier.Courier
}

// newServed prepares to serve a cluster, and connects to nothing.
func newServed(ctx context.Context, o options, cluster string, classes []string, metrics *observe.Metrics, log *slog.Logger) (*served, error) {
	c := &served{cluster: cluster, log: log.With("cluster", cluster)}
	c.nats = o.Stream(cluster, c.log)
	c.nats.Grace = o.drain
	var err error
	if c.traces, err = trace.New(ctx, version, cluster, c.log); err != nil {
		return nil, program.Wrong(err)
	}
	metrics.Runs(classes, table.Kinds())
	metrics.Traces(func() observe.Spans { return observe.Spans(c.traces.Stats()) })
	c.metrics = metrics.Courier(classes)
	c.seen = func(r event.Record) {
		metrics.Seen(r, nil)
		c.traces.Seen(r)
	}
	return c, nil
}

// connect connects all, and returns why none can be.
func connect(ctx context.Context, all []*served) error {
	var errs []error
	for _, c := range all {
		if err := c.connect(ctx); err != nil {
			errs = append(errs, fmt.Errorf("serve cluster %s: %w", c.cluster, err))
		}
	}
	if len(errs) == len(all) {
		return errors.Join(errs...)
	}
	return nil
}

// connect connects to NATS as the cluster's user.
func (c *served) connect(ctx context.Context) error {
	s, err := stream.Connect(ctx, c.nats)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream, c.why = s, err; err != nil {
		return err
	}
	c.courier = courier.New(courier.Config{Cluster: c.cluster, Stream: s, Log: c.log, Metrics: c.metrics})
	c.log.Info("the courier begins", "version", version)
	return nil
}

// connected returns what works on the cluster; an error says why there is nothing yet.
func (c *served) connected() (*stream.Stream, *courier.Courier, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream, c.courier, c.why
}

// close ends the connection.
func (c *served) close() {
	if s, _, err := c.connected(); s != nil && err == nil {
		s.Close()
	}
}

// ready returns why the cluster can't be served as it should be.
func (c *served) ready(ctx context.Context) error {
	s, x, err := c.connected()
	if err == nil {
		err = s.Ping(ctx)
	}
	if err == nil {
		err = x.Ready()
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	return nil
}

// run serves the cluster until ctx ends.
func (c *served) run(ctx context.Context, routes courier.Routes, changed <-chan courier.Routes) (err error) {
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
		defer cancel()
		if err := c.traces.Shutdown(last); err != nil {
			c.log.Warn("the last traces are not sent", "error", err)
		}
	}()
	routes, ok := c.await(ctx, routes, changed)
	if !ok {
		return nil
	}
	s, x, _ := c.connected()
	var following sync.WaitGroup
	following.Go(func() { courier.Follow(ctx, s, c.cluster, c.seen, c.log) })
	err = x.Run(ctx, routes, changed)
	following.Wait()
	return err
}

// await tries to connect until it succeeds, and returns the routes that are in force then.
// false: ctx has ended.
func (c *served) await(ctx context.Context, routes courier.Routes, changed <-chan courier.Routes) (courier.Routes, bool) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	told := ""
	for {
		_, _, err := c.connected()
		if err == nil {
			return routes, true
		}
		if err.Error() != told {
			told = err.Error()
			c.log.Error("a cluster can't be served; trying again", "error", event.Redact(told), "again", again)
		}
		select {
		case <-ctx.Done():
			return nil, false
		case routes = <-changed:
		case <-tick.C:
			_ = c.connect(ctx) // connected says what came of it
		}
	}
}
