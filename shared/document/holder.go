package document

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
	deadAt   = 15 * time.Second // an engine is dead if its heartbeat is this much older than the reader's
	beatLife = time.Minute      // a heartbeat that is not renewed leaves the bucket
)

// A Holder is an engine that works on documents. It writes its heartbeat while it holds any object.
type Holder struct {
	name, key string
	cluster   string
	stream    *stream.Stream
	log       *slog.Logger
	stop      context.CancelFunc
	ended     chan struct{}

	mu   sync.Mutex
	held map[string]*holding // by the key of the document
	beat time.Time           // when the last acknowledged heartbeat began, by the local clock
}

type holding struct {
	ends  time.Time          // a run that takes longer hangs, and no longer holds it
	yield context.CancelFunc // asks a run that only watches for its place
}

// Start starts a holder, which outlives the context. A nil log discards.
func Start(ctx context.Context, s *stream.Stream, cluster string, log *slog.Logger) *Holder {
	name := rand.Text()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Holder{
		name: name, key: heartbeatKey(cluster, name), cluster: cluster, stream: s, log: log, stop: stop, ended: make(chan struct{}),
		held: map[string]*holding{},
	}
	go e.beats(ctx)
	return e
}

// Stop ends the holder and frees its objects at once.
func (e *Holder) Stop() {
	e.stop()
	<-e.ended
}

// Name returns its name in documents.
func (e *Holder) Name() string { return e.name }

func heartbeatKey(cluster, name string) string { return "engine." + cluster + "." + name }

func (e *Holder) last() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.beat
}

func (e *Holder) beats(ctx context.Context) {
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
func (e *Holder) remove(ctx context.Context, key string) error {
	s := Store{Stream: e.stream, Cluster: e.cluster, Holder: e}
	o, err := s.Read(ctx, key[strings.LastIndexByte(key, '.')+1:], "")
	if err != nil || o.State.Holder != e.name {
		return err
	}
	o.State.Nonce = rand.Text()
	return o.Store(ctx)
}

func (e *Holder) silence(ctx context.Context) {
	if e.last().IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := e.stream.Delete(ctx, e.key); err != nil {
		e.log.Warn("the heartbeat of an engine that has ended stays for a moment", "error", err)
	}
}

func (e *Holder) beatNow(ctx context.Context, older time.Duration) error {
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

// hold makes a run the holder of an object within this engine, or asks the run that holds it to yield and reports false. yield ends when
// another run asks. A run that holds the object for longer than most counts as hung.
func (e *Holder) hold(ctx context.Context, key string, most time.Duration) (held *holding, yield context.Context, ok bool) {
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

// Ask asks the run of this engine that holds an object to yield.
func (e *Holder) Ask(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[key]; h != nil {
		h.yield()
	}
}

func (e *Holder) busy(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held[key] != nil
}

func (e *Holder) free(key string, h *holding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.yield(); e.held[key] == h {
		delete(e.held, key)
	}
}

// ahead returns by how much the clock of NATS is ahead of the local one.
func (e *Holder) ahead(ctx context.Context) (time.Duration, error) {
	if err := e.beatNow(ctx, 0); err != nil {
		return 0, err
	}
	m, err := e.stream.Entry(ctx, e.key)
	if err != nil {
		return 0, fmt.Errorf("read the heartbeat: %w", err)
	}
	return m.Time.Sub(e.last()), nil
}

// lives reports whether another engine lives. Both heartbeats come from one answer and are dated by NATS alone.
func (e *Holder) lives(ctx context.Context, other string) (bool, error) {
	if err := e.beatNow(ctx, beatEach); err != nil {
		return false, err
	}
	theirs := heartbeatKey(e.cluster, other)
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
