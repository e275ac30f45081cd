package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const (
	within   = 4 * time.Second // failures occur within this time
	backlog  = 4 * time.Minute // maximum time, on a busy machine, from the last fault's end until all Services have ended
	recovery = 5 * time.Second // target of that time, besides the backlog
)

type blow struct {
	kind  kind
	at    time.Duration // after the first failure
	lasts time.Duration
	seed  uint64
	hit   string // what it hit, if it has
}

type history struct {
	seed     uint64
	name     string
	services []testbed.Fixture
	delays   []time.Duration // of the failures
	blows    []blow
	budget   int // maximum number of a class's Services that may be written to; zero: unlimited

	began     time.Time
	undone    string        // the Service whose fix a person undid; empty: none
	recovered time.Duration // from the last fault's end until all had ended
}

func newHistory(seed uint64, can []kind, services int) *history {
	r := rand.New(rand.NewPCG(seed, 19))
	h := &history{seed: seed, name: fmt.Sprintf("h%d", seed)}
	h.services = workload(r, h.name, services)
	for range h.services {
		h.delays = append(h.delays, time.Duration(r.Int64N(int64(within))))
	}
	// The first fault rotates through all kinds, the second is a random other one.
	first := int(seed % uint64(len(can)))
	second := (first + 1 + r.IntN(len(can)-1)) % len(can)
	for _, i := range []int{first, second} {
		k := can[i]
		h.blows = append(h.blows, blow{
			kind: k, at: time.Duration(r.Int64N(int64(within))), lasts: k.least + time.Duration(r.Int64N(int64(k.most-k.least)+1)), seed: r.Uint64(),
		})
	}
	if r.IntN(8) == 0 {
		h.budget = 1
	}
	return h
}

// String describes the history, one fault or failure on a line.
func (h *history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history of seed %d", h.seed)
	if h.budget > 0 {
		fmt.Fprintf(&b, ", with a budget of %d", h.budget)
	}
	for i, f := range h.services {
		fmt.Fprintf(&b, "\n  %6.2f s  %s fails (%s)", h.delays[i].Seconds(), f.Service, f.Class)
	}
	for _, x := range h.blows {
		fmt.Fprintf(&b, "\n  %6.2f s  %s: %s", x.at.Seconds(), x.kind.name, x.hit)
		if x.lasts > 0 {
			fmt.Fprintf(&b, ", for %.2f s", x.lasts.Seconds())
		}
	}
	return b.String()
}

func (w *world) uid(ctx context.Context, service string) (uid string, err error) {
	err = insist(ctx, func() error {
		svc, err := w.cluster.Client().CoreV1().Services(w.bed.Namespace).Get(ctx, service, metav1.GetOptions{})
		if err == nil {
			uid = string(svc.UID)
		}
		return err
	})
	return uid, err
}

func (h *history) play(ctx context.Context, w *world, log io.Writer) (evidence, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errors.New("the history takes more than 10 minutes"))
	defer cancel()
	if err := w.bed.Prepare(ctx, h.services...); err != nil {
		return evidence{}, err
	}
	if err := h.limit(ctx, w); err != nil {
		return evidence{}, err
	}
	h.began = time.Now()
	w.mu.Lock()
	w.pauses, w.lost = nil, nil
	w.mu.Unlock()
	if err := errors.Join(h.fail(ctx, w)...); err != nil {
		return evidence{}, fmt.Errorf("play %s: %w", h, err)
	}
	healed := time.Now()
	if open := h.settle(ctx, w); open != "" {
		fmt.Fprintf(log, "seed %d: after %s: %s\n", h.seed, backlog, open)
	}
	h.recovered = time.Since(healed)
	e, err := w.gather(ctx, h)
	if err != nil {
		return e, err
	}
	e.Undone, err = h.takeBack(ctx, w, e)
	return e, err
}

// limit puts the history's policy in force, with unused budgets and closed breakers, which a person closes after the previous history.
func (h *history) limit(ctx context.Context, w *world) error {
	budget := cmp.Or(h.budget, plenty)
	w.mu.Lock()
	w.budget = budget
	w.mu.Unlock()
	// A node that the previous history has hit may still be catching up.
	return insist(ctx, func() error {
		if err := w.bed.Allow(ctx, rules(remedy.Fix, budget)); err != nil {
			return err
		}
		if err := w.stream.Delete(ctx, control.BudgetKey(w.bed.ID)); err != nil {
			return err
		}
		for _, class := range classes() {
			if _, err := control.CloseBreaker(ctx, w.stream, w.bed.ID, class); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *history) fail(ctx context.Context, w *world) []error {
	var all sync.WaitGroup
	errs := make([]error, len(h.services)+len(h.blows))
	for i, f := range h.services {
		all.Go(func() {
			time.Sleep(h.delays[i])
			if err := w.inject(ctx, f); err != nil {
				errs[i] = fmt.Errorf("%s: %w", f.Service, err)
			}
		})
	}
	for i := range h.blows {
		x := &h.blows[i]
		all.Go(func() {
			time.Sleep(x.at)
			hit, heal, err := x.kind.strike(ctx, w, rand.New(rand.NewPCG(x.seed, 20)))
			if err == nil && heal != nil {
				time.Sleep(x.lasts)
				err = heal(ctx)
			}
			x.hit = hit
			if err != nil {
				errs[len(h.services)+i] = fmt.Errorf("%s: %w", x.kind.name, err)
			}
		})
	}
	all.Wait()
	return errs
}

func (w *world) inject(ctx context.Context, f testbed.Fixture) error {
	for {
		trying, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := w.bed.Inject(trying, f)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if apierrors.IsAlreadyExists(err) { // the answer to a previous attempt was lost
			return nil
		}
		if errors.As(err, new(apierrors.APIStatus)) && !apierrors.IsConflict(err) && !apierrors.IsInternalError(err) && !apierrors.IsServerTimeout(err) &&
			!apierrors.IsTimeout(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsForbidden(err) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (h *history) settle(ctx context.Context, w *world) (open string) {
	ctx, cancel := context.WithTimeout(ctx, backlog)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	uids := map[string]string{}
	for {
		var left []string
		if err := w.audit.read(); err != nil {
			left = append(left, err.Error())
		}
		for _, f := range h.services {
			if uids[f.Service] == "" {
				uids[f.Service], _ = w.uid(ctx, f.Service)
			}
			if said := h.stands(ctx, w, f, uids[f.Service]); said != "" {
				left = append(left, f.Service+": "+said)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if ctx.Err() == nil { // a failed read says nothing
			open = strings.Join(left, "; ")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return open
		}
	}
}

func (h *history) stands(ctx context.Context, w *world, f testbed.Fixture, uid string) string {
	msg, err := w.stream.Last(ctx, stream.Cases, event.CaseSubject(w.bed.ID, uid, f.Class))
	if err != nil {
		return err.Error()
	}
	rec, err := event.DecodeRecord(msg.Subject, msg.Header, msg.Data)
	if err != nil {
		return err.Error()
	}
	if w.unheard(ctx, f.Service, uid) {
		return "the controller has not looked at it since the cluster was restored"
	}
	s := witness{Ends: f.Ends, Healed: w.works(ctx, f.Service, uid)}
	if s.ended(rec) || h.budget > 0 && rec.Held == event.HeldByBudget {
		return ""
	}
	return fmt.Sprintf("%s %s by %s, healed: %t: %s", rec.Phase, rec.Result, rec.Who, s.Healed, reasonOf(rec))
}

func (h *history) tidy(ctx context.Context, w *world) error {
	if err := w.audit.read(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	broken := slices.DeleteFunc(slices.Clone(h.services), func(f testbed.Fixture) bool {
		return w.works(ctx, f.Service, w.uids[f.Service]) && f.Service != h.undone
	})
	return w.bed.Repair(ctx, broken...)
}
