package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/sim"
)

type kind struct {
	name        string
	least, most time.Duration // duration
	// strike causes the fault. It returns what it hit, and a function that ends the fault; nil: it ends automatically.
	strike func(ctx context.Context, w *world, r *rand.Rand) (hit string, heal func(context.Context) error, err error)
	long   bool // too long for the short form
}

var kinds = []kind{
	{name: "kill a part", strike: kill("exporter", "worker", "function")},
	{name: "kill a node of NATS", strike: kill("nats")},
	{name: "stop a part", least: 18 * time.Second, most: 25 * time.Second, strike: stop("exporter", "worker", "function")},
	{name: "stop a node of NATS", least: 3 * time.Second, most: 12 * time.Second, strike: stop("nats")},
	{name: "slow node of NATS", least: 4 * time.Second, most: 8 * time.Second, strike: slow},
	{name: "leader steps down", strike: stepDown},
	{name: "partition: held", least: 2 * time.Second, most: 8 * time.Second, strike: partition(hold)},
	{name: "partition: lost", least: 2 * time.Second, most: 8 * time.Second, strike: partition(drop)},
	{name: "partition: reset", least: 1 * time.Second, most: 6 * time.Second, strike: partition(refuse)},
	{name: "node of NATS cut off", least: 3 * time.Second, most: 12 * time.Second, strike: cutOff},
	{name: "silent watch", least: 40 * time.Second, most: 50 * time.Second, strike: silent, long: true},
	{name: "API server restarts", strike: restart},
	{name: "compaction", strike: compact},
	{name: "cloud: late", least: 3 * time.Second, most: 8 * time.Second, strike: answers(sim.Fault{Delay: 4 * time.Second, Rate: 0.5})},
	{name: "cloud: no answer", least: 3 * time.Second, most: 8 * time.Second, strike: answers(sim.Fault{Hang: true, Rate: 0.3})},
	{name: "cloud: cut before", least: 2 * time.Second, most: 6 * time.Second, strike: answers(sim.Fault{CutBefore: true, Rate: 0.5})},
	{name: "cloud: answer lost", least: 3 * time.Second, most: 8 * time.Second, strike: answers(sim.Fault{CutAfter: true, Rate: 0.5})},
	{name: "cloud: answer to a write lost", least: 4 * time.Second, most: 10 * time.Second, strike: answers(sim.Fault{Action: "Tag*", CutAfter: true})},
	{name: "cloud: half an answer", least: 2 * time.Second, most: 6 * time.Second, strike: answers(sim.Fault{Garbage: true, Rate: 0.5})},
	{name: "cloud: unavailable", least: 2 * time.Second, most: 6 * time.Second, strike: answers(sim.Fault{Code: "ServiceUnavailable", Status: 503, Rate: 0.7})},
	{name: "cloud: answers twice", least: 2 * time.Second, most: 6 * time.Second, strike: twice},
	{name: "clock ten minutes ahead", least: 3 * time.Second, most: 8 * time.Second, strike: clockStep(10 * time.Minute)},
	{name: "clock ten minutes behind", least: 3 * time.Second, most: 8 * time.Second, strike: clockStep(-10 * time.Minute)},
	{name: "pause", least: 3 * time.Second, most: 6 * time.Second, strike: pause},
	{name: "policy observes", least: 3 * time.Second, most: 6 * time.Second, strike: observe},
	{name: "etcd restored", least: 4 * time.Second, most: 16 * time.Second, strike: restore, long: true},
	{name: "disk full", least: 3 * time.Second, most: 8 * time.Second, strike: fill},
}

func pick(w *world, r *rand.Rand, roles ...string) *part {
	var all []*part
	for _, role := range roles {
		all = append(all, w.of(role)...)
	}
	return all[r.IntN(len(all))]
}

type strike = func(context.Context, *world, *rand.Rand) (string, func(context.Context) error, error)

// kill kills processes one after the other. They are restarted.
func kill(roles ...string) strike {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		var hit []string
		for range 1 + r.IntN(4) {
			p := pick(w, r, roles...)
			hit = append(hit, p.Name)
			if err := p.signal(syscall.SIGKILL); err != nil {
				return "", nil, err
			}
			time.Sleep(time.Duration(100+r.IntN(900)) * time.Millisecond)
		}
		return strings.Join(hit, ", "), nil, ctx.Err()
	}
}

func stop(roles ...string) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		p := pick(w, r, roles...)
		return p.Name, func(context.Context) error { return p.signal(syscall.SIGCONT) }, p.signal(syscall.SIGSTOP)
	}
}

// slow lets a node run a fifth of the time, like one that waits for its disk.
func slow(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	p, ends, ended := pick(w, r, "nats"), make(chan struct{}), make(chan error, 1)
	go func() {
		var errs error
		for {
			errs = errors.Join(errs, p.signal(syscall.SIGSTOP))
			time.Sleep(80 * time.Millisecond)
			errs = errors.Join(errs, p.signal(syscall.SIGCONT))
			select {
			case <-ends:
				ended <- errs
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return p.Name, func(context.Context) error { close(ends); return <-ended }, nil
}

func stepDown(ctx context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	names := []string{stream.Failed, stream.Cases, "KV_lbremedy"}
	name := names[r.IntN(len(names))]
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return name, nil, insist(ctx, func() error { // without an answer while another leader is elected
		in, cancel := context.WithTimeout(ctx, answer)
		defer cancel()
		reply, err := w.js.Conn().RequestWithContext(in, "$JS.API.STREAM.LEADER.STEPDOWN."+name, nil)
		if err == nil && strings.Contains(string(reply.Data), `"error"`) {
			err = fmt.Errorf("the leader of %s does not step down: %s", name, reply.Data)
		}
		return err
	})
}

var links = []string{"nats", "kube", "cloud", "function"}

func partition(m mode) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		for {
			p, to := pick(w, r, "exporter", "worker", "function"), links[r.IntN(len(links))]
			if all := p.proxies[to]; len(all) > 0 {
				through(all, m)
				return p.Name + " to " + to, func(context.Context) error { through(all, pass); return nil }, nil
			}
		}
	}
}

func through(all []*proxy, m mode) {
	for _, p := range all {
		p.set(m)
	}
}

// cutOff breaks all connections between one node of NATS and the others in a random way. Its clients still reach it.
func cutOff(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	i := r.IntN(nodes)
	all := w.around(i)
	m := []mode{hold, drop, refuse}[r.IntN(3)]
	through(all, m)
	hit := fmt.Sprintf("nats-%d, %s", i, []string{hold: "held", drop: "lost", refuse: "reset"}[m])
	return hit, func(context.Context) error { through(all, pass); return nil }, nil
}

func (w *world) around(i int) (all []*proxy) {
	for j := range nodes {
		if j != i {
			all = append(all, w.peers[i][j], w.peers[j][i])
		}
	}
	return all
}

func silent(_ context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	all := w.of("exporter")[0].proxies["kube"]
	through(all, mute)
	return "exporter", func(context.Context) error { through(all, pass); return nil }, nil
}

func twice(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	p := pick(w, r, "worker", "function")
	through(p.proxies["cloud"], double)
	return p.Name, func(context.Context) error { through(p.proxies["cloud"], pass); return nil }, nil
}

func (w *world) process(name string, s syscall.Signal) error {
	text, err := os.ReadFile(filepath.Join(w.cluster.Dir(), name+".pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("the process ID of %s: %w", name, err)
	}
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func restart(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	names := []string{"kube-apiserver", "kube-apiserver-2"}
	if n := r.IntN(3); n < 2 {
		names = names[n : n+1]
	}
	var errs error
	for _, name := range names {
		errs = errors.Join(errs, w.process(name, syscall.SIGKILL))
	}
	return strings.Join(names, " and "), nil, errs
}

// restore resets etcd to a copy that is some seconds old, like a person who restores a backup. The API servers, which cache
// state, are restarted, and resource versions continue. Writes are paused until the copy, so most come after it and are lost.
func restore(ctx context.Context, w *world, _ *rand.Rand) (_ string, _ func(context.Context) error, err error) {
	release, err := w.ruling(ctx)
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	resume, err := w.pause(ctx, "") // of all clusters, which nothing else in a history ends
	if err != nil {
		return "", nil, err
	}
	time.Sleep(within) // later failures would be lost
	data := filepath.Join(w.cluster.Dir(), "data")
	older := data + "-older"
	if err := w.process("etcd", syscall.SIGSTOP); err != nil {
		return "", nil, err
	}
	from := time.Now()
	err = errors.Join(os.CopyFS(older, os.DirFS(data)), w.process("etcd", syscall.SIGCONT))
	if err := errors.Join(err, resume(ctx)); err != nil {
		return "", nil, err
	}
	return "all that was written since", func(ctx context.Context) error {
		defer release()
		reached, err := w.cluster.Revision(ctx)
		hold := filepath.Join(w.cluster.Dir(), "hold") // prevents restarts
		errs := errors.Join(err, os.WriteFile(hold, nil, 0o600))
		for _, name := range []string{"kube-apiserver", "kube-apiserver-2", "etcd"} {
			errs = errors.Join(errs, w.process(name, syscall.SIGKILL))
		}
		w.lose(span{from, time.Now()})
		return errors.Join(errs, os.RemoveAll(data), os.Rename(older, data), os.Remove(hold),
			insist(ctx, func() error { return w.cluster.Bump(ctx, reached) }))
	}, nil
}

func compact(ctx context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	all := w.of("exporter")[0].proxies["kube"]
	through(all, refuse)
	defer through(all, pass)
	return "the exporter's watch", nil, w.cluster.Forget(ctx)
}

func answers(f sim.Fault) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		p := pick(w, r, "worker", "function")
		f := f
		f.Caller = p.Name
		lift := w.bed.Cloud.Fault(f)
		return p.Name, func(context.Context) error { lift(); return nil }, nil
	}
}

func clockStep(by time.Duration) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		p := pick(w, r, "worker", "function")
		return p.Name, func(context.Context) error { return p.skew(0) }, p.skew(by)
	}
}

// insist retries until do succeeds or ctx ends, like a determined person.
func insist(ctx context.Context, do func() error) error {
	var last error // the error before the deadline, which explains it
	for {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(last, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (w *world) quiet() (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.pauses)
	w.pauses = append(w.pauses, span{time.Now(), time.Now().Add(time.Hour)})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pauses[i].to = time.Now()
	}
}

func (w *world) lose(s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, s)
}

func pause(ctx context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	resume, err := w.pause(ctx, w.bed.ID)
	return "all", resume, err
}

// pause puts a pause in force for the cluster, or for all if empty, until resume is called.
func (w *world) pause(ctx context.Context, cluster string) (resume func(context.Context) error, err error) {
	err = insist(ctx, func() error {
		return control.SetPause(ctx, w.stream, control.Pause{Cluster: cluster, By: "the judge", At: time.Now()}, true)
	})
	if err != nil {
		return nil, err
	}
	over := w.quiet()
	return func(ctx context.Context) error {
		over()
		return insist(ctx, func() error { _, err := control.Resume(ctx, w.stream, cluster); return err })
	}, nil
}

func (w *world) ruling(ctx context.Context) (release func(), err error) {
	select {
	case w.rules <- struct{}{}:
		return func() { <-w.rules }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func observe(ctx context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	release, err := w.ruling(ctx)
	if err != nil {
		return "", nil, err
	}
	w.mu.Lock()
	budget := w.budget
	w.mu.Unlock()
	if err := insist(ctx, func() error { return w.bed.Allow(ctx, rules(remedy.Observe, budget)) }); err != nil {
		release()
		return "", nil, err
	}
	over := w.quiet()
	return "all", func(ctx context.Context) error {
		over()
		defer release()
		return insist(ctx, func() error { return w.bed.Allow(ctx, rules(remedy.Fix, budget)) })
	}, nil
}

// fill fills the disk of a node and frees it. The node is then restarted, as an operator does.
func fill(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	p := pick(w, r, "nats")
	file := filepath.Join(p.Dir, "store", "ballast")
	if err := ballast(file); err != nil {
		return "", nil, err
	}
	return p.Name, func(context.Context) error {
		return errors.Join(os.Remove(file), p.signal(syscall.SIGKILL))
	}, nil
}

func ballast(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err = f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}
