package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	beatEach = 3 * time.Second
	deadAt   = 15 * time.Second // an engine whose heartbeat is so much older than one's own is dead
	beatLife = time.Minute      // a heartbeat that is not written again leaves the bucket
)

// An Engine is one process that works on documents: its name in them, its heartbeat, and the objects that its runs hold.
// It writes its heartbeat while it holds any.
type Engine struct {
	name, key string
	stream    *stream.Stream
	log       *slog.Logger
	stop      context.CancelFunc
	ended     chan struct{}

	mu   sync.Mutex
	held map[string]*holding // by the key of the document
	beat time.Time           // when the last heartbeat that was acknowledged began, by the clock of this machine
}

// A holding is an object that a run of this engine holds.
type holding struct {
	ends  time.Time          // a run that takes longer hangs, and holds nothing any more
	yield context.CancelFunc // asks a run that only watches for its place
}

// Start starts an engine, which outlives the context; a nil log: discarded.
func Start(ctx context.Context, s *stream.Stream, cluster string, log *slog.Logger) *Engine {
	name := rand.Text()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Engine{name: name, key: engineKey(cluster, name), stream: s, log: log, stop: stop, ended: make(chan struct{}), held: map[string]*holding{}}
	go e.beats(ctx)
	return e
}

// Stop ends the engine. What it still holds is free at once.
func (e *Engine) Stop() {
	e.stop()
	<-e.ended
}

func engineKey(cluster, name string) string { return "engine." + cluster + "." + name }

func (e *Engine) last() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.beat
}

func (e *Engine) beats(ctx context.Context) {
	defer close(e.ended)
	defer e.silence(ctx)
	tick := time.NewTicker(beatEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.mu.Lock()
		idle := len(e.held) == 0
		hung := maps.Clone(e.held)
		maps.DeleteFunc(hung, func(_ string, h *holding) bool { return time.Now().Before(h.ends) })
		e.mu.Unlock()
		if idle {
			continue
		}
		for key, h := range hung {
			if err := e.remove(ctx, key); err != nil {
				e.log.Warn("an object stays held by a run that hangs", "key", key, "error", err)
				continue
			}
			e.free(key, h)
		}
		if err := e.beatNow(ctx, 0); err != nil && ctx.Err() == nil {
			e.log.Warn("the heartbeat of the engine is not written", "error", err)
		}
	}
}

// remove takes an object from a hung run, which loses its next comparison. The next run counts a crash.
func (e *Engine) remove(ctx context.Context, key string) error {
	parts := strings.Split(key, ".")
	o, err := readObject(ctx, &Env{Cluster: parts[1], Stream: e.stream}, parts[2], "", e.log)
	if err != nil || o.doc.State.Holder != e.name {
		return err
	}
	o.doc.State.Nonce = rand.Text()
	return o.store(ctx)
}

// silence removes the heartbeat.
func (e *Engine) silence(ctx context.Context) {
	if e.last().IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := e.stream.Delete(ctx, e.key); err != nil {
		e.log.Warn("the heartbeat of an engine that has ended stays for a moment", "error", err)
	}
}

// beatNow writes the heartbeat if the last one is older than this.
func (e *Engine) beatNow(ctx context.Context, older time.Duration) error {
	began := time.Now()
	if began.Sub(e.last()) < older {
		return nil
	}
	if err := e.stream.PutFor(ctx, e.key, nil, beatLife); err != nil {
		return fmt.Errorf("write the heartbeat: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if began.After(e.beat) {
		e.beat = began
	}
	return nil
}

// hold makes a run the holder of an object within this engine. If another run holds it, hold asks that run to yield and reports
// false. The returned context ends when another run asks. A run that holds the object for longer than most is considered hung.
func (e *Engine) hold(ctx context.Context, key string, most time.Duration) (held *holding, yield context.Context, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[key]; h != nil {
		h.yield()
		return nil, nil, false
	}
	held = &holding{ends: time.Now().Add(most)}
	yield, held.yield = context.WithCancel(ctx)
	e.held[key] = held
	return held, yield, true
}

// ask asks the run of this engine that holds an object to yield, if there is one.
func (e *Engine) ask(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[key]; h != nil {
		h.yield()
	}
}

// busy reports whether a run of this engine works on an object.
func (e *Engine) busy(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held[key] != nil
}

// free ends a holding, unless another run has it by now.
func (e *Engine) free(key string, h *holding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.yield(); e.held[key] == h {
		delete(e.held, key)
	}
}

// ahead returns by how much the clock of NATS, which dates what it stores, is ahead of this machine's.
func (e *Engine) ahead(ctx context.Context) (time.Duration, error) {
	if err := e.beatNow(ctx, 0); err != nil {
		return 0, err
	}
	m, err := e.stream.Entry(ctx, e.key)
	if err != nil {
		return 0, fmt.Errorf("read the heartbeat: %w", err)
	}
	return m.Time.Sub(e.last()), nil
}

// lives reports whether another engine lives. Both heartbeats come from one answer, and are dated by NATS alone.
func (e *Engine) lives(ctx context.Context, cluster, other string) (bool, error) {
	if err := e.beatNow(ctx, beatEach); err != nil {
		return false, err
	}
	theirs := engineKey(cluster, other)
	view, err := e.stream.View(ctx, e.key, theirs)
	if err != nil {
		return false, fmt.Errorf("read the heartbeat of the engine that holds the object: %w", err)
	}
	mine, ok := view[e.key]
	if !ok {
		return false, fmt.Errorf("read the heartbeat of the engine that holds the object: %w", errors.New("this engine's own heartbeat is missing"))
	}
	it, ok := view[theirs]
	return ok && mine.Time.Sub(it.Time) < deadAt, nil
}
