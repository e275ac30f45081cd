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

// A kind is a way in which something goes wrong.
type kind struct {
	name        string
	least, most time.Duration // how long it lasts
	// strike has it go wrong. It returns in words what it hit, and what ends it; nil: it ends by itself.
	strike func(ctx context.Context, w *world, r *rand.Rand) (hit string, heal func(context.Context) error, err error)
	long   bool // it takes so long that the short form leaves it out
}

// kinds are all that can go wrong, in the order of the table.
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

// pick returns one of a world's parts of these roles.
func pick(w *world, r *rand.Rand, roles ...string) *part {
	var all []*part
	for _, role := range roles {
		all = append(all, w.of(role)...)
	}
	return all[r.IntN(len(all))]
}

type strike = func(context.Context, *world, *rand.Rand) (string, func(context.Context) error, error)

// kill ends processes as a power cut would, one after the other. They start again by themselves.
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

// stop has a process stand still, and then go on as if nothing had been.
func stop(roles ...string) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		p := pick(w, r, roles...)
		return p.Name, func(context.Context) error { return p.signal(syscall.SIGCONT) }, p.signal(syscall.SIGSTOP)
	}
}

// slow lets a node run for a fifth of the time, as one does that waits for its disk.
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

// stepDown has another node lead a stream.
func stepDown(ctx context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	names := []string{stream.Failed, stream.Cases, "KV_lbremedy"}
	name := names[r.IntN(len(names))]
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return name, nil, insist(ctx, func() error { // nobody answers, or none that can, while another leader is elected
		in, cancel := context.WithTimeout(ctx, answer)
		defer cancel()
		reply, err := w.js.Conn().RequestWithContext(in, "$JS.API.STREAM.LEADER.STEPDOWN."+name, nil)
		if err == nil && strings.Contains(string(reply.Data), `"error"`) {
			err = fmt.Errorf("the leader of %s does not step down: %s", name, reply.Data)
		}
		return err
	})
}

// links are the connections of a part that can break.
var links = []string{"nats", "kube", "cloud", "function"}

// partition breaks all connections of one part to one of the others.
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

// cutOff breaks all connections of one node of NATS to the others, in one way or another. Its clients reach it still.
func cutOff(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	i := r.IntN(nodes)
	all := w.around(i)
	m := []mode{hold, drop, refuse}[r.IntN(3)]
	through(all, m)
	hit := fmt.Sprintf("nats-%d, %s", i, []string{hold: "held", drop: "lost", refuse: "reset"}[m])
	return hit, func(context.Context) error { through(all, pass); return nil }, nil
}

// around returns what carries the connections between one node of NATS and the others.
func (w *world) around(i int) (all []*proxy) {
	for j := range nodes {
		if j != i {
			all = append(all, w.peers[i][j], w.peers[j][i])
		}
	}
	return all
}

// silent has the exporter's watch hear nothing more, while its connection stands.
func silent(_ context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	all := w.of("exporter")[0].proxies["kube"]
	through(all, mute)
	return "exporter", func(context.Context) error { through(all, pass); return nil }, nil
}

// twice has one part hear each answer of the cloud twice.
func twice(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
	p := pick(w, r, "worker", "function")
	through(p.proxies["cloud"], double)
	return p.Name, func(context.Context) error { through(p.proxies["cloud"], pass); return nil }, nil
}

// process sends a process of the cluster a signal.
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

// restart kills one API server, or both.
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

// restore has etcd begin again from a copy that is some seconds old, as a person does who restores a backup. The API servers,
// which remember what was, are started anew, and resource versions go on from where they were. Most writes come after the copy,
// and are lost: they are held back until then.
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
	resume, err := w.pause(ctx, "") // of all clusters: nothing else in a history ends it
	if err != nil {
		return "", nil, err
	}
	time.Sleep(within) // what has not failed yet would be lost, too
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
		hold := filepath.Join(w.cluster.Dir(), "hold") // nothing is started meanwhile
		errs := errors.Join(err, os.WriteFile(hold, nil, 0o600))
		for _, name := range []string{"kube-apiserver", "kube-apiserver-2", "etcd"} {
			errs = errors.Join(errs, w.process(name, syscall.SIGKILL))
		}
		w.lose(span{from, time.Now()})
		return errors.Join(errs, os.RemoveAll(data), os.Rename(older, data), os.Remove(hold),
			insist(ctx, func() error { return w.cluster.Bump(ctx, reached) }))
	}, nil
}

// compact cuts the exporter's watch and has the cluster forget where it stood.
func compact(ctx context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	all := w.of("exporter")[0].proxies["kube"]
	through(all, refuse)
	defer through(all, pass)
	return "the exporter's watch", nil, w.cluster.Forget(ctx)
}

// answers lays a fault on the calls of all that are parts of lbremedy.
func answers(f sim.Fault) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		p := pick(w, r, "worker", "function")
		f := f
		f.Caller = p.Name
		lift := w.bed.Cloud.Fault(f)
		return p.Name, func(context.Context) error { lift(); return nil }, nil
	}
}

// clockStep sets the clock of a part wrong, and right again.
func clockStep(by time.Duration) strike {
	return func(_ context.Context, w *world, r *rand.Rand) (string, func(context.Context) error, error) {
		p := pick(w, r, "worker", "function")
		return p.Name, func(context.Context) error { return p.skew(0) }, p.skew(by)
	}
}

// insist tries until it works or ctx ends: what a person does who means it.
func insist(ctx context.Context, do func() error) error {
	var last error // before the time was over, which says why it was
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

// quiet notes that nothing may be written from now on, until the returned function is called.
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

// lose notes that what was written to the cluster in a time is lost.
func (w *world) lose(s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, s)
}

// pause stops all writes.
func pause(ctx context.Context, w *world, _ *rand.Rand) (string, func(context.Context) error, error) {
	resume, err := w.pause(ctx, w.bed.ID)
	return "all", resume, err
}

// pause puts a pause in force for the cluster or, if that is empty, for all, until resume is called.
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

// ruling waits until no other fault changes the policy, or takes the cluster back to what the policy was before.
func (w *world) ruling(ctx context.Context) (release func(), err error) {
	select {
	case w.rules <- struct{}{}:
		return func() { <-w.rules }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// observe puts a policy in force that allows no writes.
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

// fill takes the last room of the disk of a node, and gives it back. A node whose disk was full
// is then started again, as an operator does.
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

// ballast fills the disk that a file is on.
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
