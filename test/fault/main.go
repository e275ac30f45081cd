// Fault plays random histories on lbremedy and judges them. A seed determines a history: Services fail in different classes while two
// faults occur at random times. All parts are processes: three nodes of NATS, which store each message three times and sync it to disk, two
// API servers on one etcd, two workers, a function that one of them calls, and the exporter. Cloud and controller are simulated in this
// process. A proxy connects each pair of parts.
//
// The judge does not trust the parts. It takes writes from the audit logs of the API servers and from the cloud's log, and failures from
// the audited Events. It reads the journal only to compare: each write has to be announced there before, by its author, and made once.
//
// SEED is the first seed (default 1), MINUTES the duration and HISTORIES the number of histories. KINDS=a,b limits the kinds of faults. The
// exit code is 0 only if all histories were correct.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/shared/event"
)

const perHistory = 6 // Services

func main() {
	play()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault:", event.Redact(err.Error()))
		code = max(code, 1)
	}
	os.Exit(code)
}

func number(env func(string) string, name string, otherwise uint64) (uint64, error) {
	if env(name) == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(env(name), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", name, env(name))
	}
	return n, nil
}

func run(ctx context.Context, env func(string) string, out io.Writer) (code int, err error) {
	var minutes, seed, most uint64
	for _, one := range []struct {
		to        *uint64
		name      string
		otherwise uint64
	}{{&minutes, "MINUTES", 10}, {&seed, "SEED", 1}, {&most, "HISTORIES", 1 << 40}} {
		if *one.to, err = number(env, one.name, one.otherwise); err != nil {
			return 2, err
		}
	}
	dir, err := os.MkdirTemp("", "lbremedy-fault-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(ctx, dir, out)
	if err != nil {
		return 1, err
	}
	defer w.end()
	fmt.Fprintf(out, "ready after %s\n", time.Since(w.began).Round(100*time.Millisecond))
	can := w.can()
	if only := env("KINDS"); only != "" {
		can = slices.DeleteFunc(can, func(k kind) bool { return !slices.Contains(strings.Split(only, ","), k.name) })
	}
	if len(can) < 2 {
		return 2, fmt.Errorf("KINDS: two of the faults must be able to happen here, and %d are", len(can))
	}
	t := &tally{hits: map[string]int{}, slowest: map[string]time.Duration{}}
	defer t.print(out)
	for until := time.Now().Add(time.Duration(minutes) * time.Minute); time.Now().Before(until) && most > 0 && ctx.Err() == nil; most-- {
		h := newHistory(seed, can, perHistory)
		seed++
		e, err := h.play(ctx, w, out)
		if ctx.Err() != nil {
			return 130, nil
		}
		if err != nil {
			return 1, err
		}
		v := judge(e)
		t.count(h, v)
		fmt.Fprintf(out, "seed %d: %d of %d ended, %d open, %d writes, recovered after %s: %s, %s\n", h.seed, v.Settled, len(h.services), len(v.Open), v.Writes,
			h.recovered.Round(10*time.Millisecond), h.blows[0].said(), h.blows[1].said())
		for _, o := range v.Open {
			fmt.Fprintln(out, "  open:", o)
		}
		if len(v.Wrong) > 0 {
			code = 1
			fmt.Fprintln(out, h)
			for _, wrong := range v.Wrong {
				fmt.Fprintln(out, "  WRONG:", wrong)
			}
			e.tell(out)
			w.tellParts(out)
		}
		if err := h.tidy(ctx, w); err != nil {
			return code, fmt.Errorf("tidy up after seed %d: %w", h.seed, err)
		}
	}
	return code, nil
}

func (w *world) can() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return k.name == "disk full" && !w.full
	})
}

func (x blow) said() string { return x.kind.name + " (" + cmp.Or(x.hit, "nothing") + ")" }

type tally struct {
	histories, wrong, services, settled, open, writes, undone int
	hits                                                      map[string]int // by kind
	slowest                                                   map[string]time.Duration
	took                                                      []time.Duration
}

func (t *tally) count(h *history, v verdict) {
	t.histories++
	if len(v.Wrong) > 0 {
		t.wrong++
	}
	t.services += len(h.services)
	t.settled += v.Settled
	t.open += len(v.Open)
	t.writes += v.Writes
	t.took = append(t.took, h.recovered)
	if h.undone != "" {
		t.undone++
	}
	for _, x := range h.blows {
		t.hits[x.kind.name]++
		t.slowest[x.kind.name] = max(t.slowest[x.kind.name], h.recovered)
	}
}

func (t *tally) print(out io.Writer) {
	if t.histories == 0 {
		return
	}
	slices.Sort(t.took)
	fmt.Fprintf(out, "\n%d histories, %d of them wrong; of %d Services %d ended as they should, %d stand open with a reason; %d writes; %d plans taken back.\n",
		t.histories, t.wrong, t.services, t.settled, t.open, t.writes, t.undone)
	fmt.Fprintf(out, "From the end of the last fault until all had ended: half within %s, nine of ten within %s, all within %s; within %s: %d.\n\n",
		round(t.took[len(t.took)/2]), round(t.took[len(t.took)*9/10]), round(t.took[len(t.took)-1]), recovery,
		len(slices.DeleteFunc(slices.Clone(t.took), func(d time.Duration) bool { return d > recovery })))
	fmt.Fprintln(out, "| fault | histories | slowest recovery |\n|---|---:|---:|")
	for _, k := range kinds {
		fmt.Fprintf(out, "| %s | %d | %s |\n", k.name, t.hits[k.name], round(t.slowest[k.name]))
	}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

func (e evidence) tell(out io.Writer) {
	type line struct {
		at   time.Time
		text string
	}
	names := map[string]string{}
	for _, s := range e.Services {
		names[s.UID] = s.Name
	}
	var all []line
	for _, r := range e.Records {
		if names[r.Service.UID] == "" {
			continue // of another history
		}
		next := ""
		if r.Next < len(r.Steps) {
			next = r.Steps[r.Next].Text.String()
		}
		all = append(all, line{r.Stored, fmt.Sprintf("journal %d: %s %s %s attempt %d by %s, next: %s; %s",
			r.Sequence, r.Service.Name, r.Phase, r.Result, r.Attempt, r.Who,
			next, reasonOf(r.Record))})
	}
	for _, w := range e.Writes {
		all = append(all, line{w.At, fmt.Sprintf("%s: %s by %s to %s, done: %t", w.Where, w.What, w.Who, w.Presence, w.Done)})
	}
	for _, f := range e.Failures {
		all = append(all, line{f.At, fmt.Sprintf("event: %s %s", names[f.UID], f.Reason)})
	}
	for _, p := range e.Pauses {
		all = append(all, line{p.from, "paused"}, line{p.to, "not paused"})
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range all {
		fmt.Fprintf(out, "    %s %s\n", l.at.Format(clockTime), event.Redact(l.text))
	}
}

func (w *world) tellParts(out io.Writer) {
	for _, p := range w.parts {
		if p.Role != "nats" {
			fmt.Fprintf(out, "  %s, started %d times, said at last:\n%s\n", p.Name, p.runs, p.tail())
		}
	}
}
