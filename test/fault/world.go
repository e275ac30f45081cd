package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const (
	nodes     = 3                // of NATS
	ackWait   = 12 * time.Second // instead of 30 s: the redelivery of a killed part's messages
	startTime = 3 * time.Minute  // of all parts, on a busy machine
)

// A world is the base of histories: all parts of lbremedy as processes, around the simulated cloud and its controller, which run
// in this process. A proxy connects each pair of parts.
type world struct {
	dir     string
	cluster *cluster.Cluster // through one API server
	front   *proxy           // to both API servers, for the controller and the judge
	bed     *testbed.Testbed
	parts   []*part
	nats    string     // addresses of the nodes, without proxies
	peers   [][]*proxy // from a node of NATS to each of the others
	stream  *stream.Stream
	js      jetstream.JetStream
	kube    []string // addresses of the API servers
	audit   *logs
	began   time.Time
	uids    map[string]string // of all histories' Services, by name
	close   []func()
	rules   chan struct{} // held by a fault that involves the policy

	mu     sync.Mutex
	pauses []span
	lost   []span // times whose writes the cluster has lost
	budget int    // of each class, in the current history's policy
	full   bool   // disks of nodes can be filled
}

// A span is a time in which something was in force, from the acknowledgement of its start to before the request of its end.
type span struct{ from, to time.Time }

func newWorld(ctx context.Context, dir string, log io.Writer) (*world, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("the world is not ready after %s", startTime))
	defer cancel()
	w := &world{dir: dir, began: time.Now(), uids: map[string]string{}, rules: make(chan struct{}, 1)}
	if err := w.start(ctx, log); err != nil {
		for _, p := range w.parts {
			fmt.Fprintf(log, "%s said:\n%s\n", p.Name, p.tail())
		}
		w.end()
		return nil, err
	}
	return w, nil
}

func (w *world) start(ctx context.Context, log io.Writer) (err error) {
	if err := w.startNATS(); err != nil {
		return err
	}
	if err := w.startCluster(ctx, log); err != nil {
		return err
	}
	if w.audit, err = w.logs(); err != nil {
		return err
	}
	if w.stream, err = joined(ctx, w.nats); err != nil {
		return err
	}
	w.close = append(w.close, w.stream.Close)
	if err := w.setUp(ctx); err != nil {
		return err
	}
	return w.startParts(ctx)
}

func (w *world) end() {
	for _, p := range w.parts {
		p.end()
	}
	for _, f := range slices.Backward(w.close) {
		f()
	}
}

// ports returns n free ports for parts that restart on them, below those that systems assign: Linux from 32768, others from 49152.
func ports(n int) ([]int, error) {
	const first, end = 12000, 32000
	var out []int
	for range 100 * n {
		l, err := net.Listen("tcp", local(first+rand.IntN(end-first)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer l.Close()
		if out = append(out, l.Addr().(*net.TCPAddr).Port); len(out) == n {
			return out, nil
		}
	}
	return nil, fmt.Errorf("hardly a port is free between %d and %d", first, end)
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (w *world) startNATS() error {
	free, err := ports(2 * nodes)
	if err != nil {
		return err
	}
	var clients []string
	for i := range nodes {
		var others []string
		var peers []*proxy
		for j := range nodes {
			if j == i {
				peers = append(peers, nil)
				continue
			}
			to, err := newProxy(local(free[nodes+j]))
			if err != nil {
				return err
			}
			w.close = append(w.close, to.close)
			peers, others = append(peers, to), append(others, to.addr())
		}
		name := fmt.Sprintf("nats-%d", i)
		release, ok := disk(filepath.Join(w.dir, name, "store"))
		if w.full = ok; ok {
			w.close = append(w.close, release)
		}
		if err := w.keep(assignment{Role: "nats", Name: name, Port: free[i], Peers: free[nodes+i], Routes: others}); err != nil {
			return err
		}
		w.peers = append(w.peers, peers)
		clients = append(clients, "nats://"+local(free[i]))
	}
	w.nats = strings.Join(clients, ",")
	return nil
}

func (w *world) keep(a assignment) error {
	a.Dir = filepath.Join(w.dir, a.Name)
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := keep(a, program)
	if err != nil {
		return err
	}
	w.parts = append(w.parts, p)
	return nil
}

func (w *world) of(role string) []*part {
	return slices.DeleteFunc(slices.Clone(w.parts), func(p *part) bool { return p.Role != role })
}

func (w *world) startCluster(ctx context.Context, log io.Writer) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.close = append(w.close, cancel)
	c, stop, err := cluster.Start(running, cluster.Options{NoFsync: true, Break: true, Log: log})
	if err != nil {
		return err
	}
	w.close = append(w.close, stop)
	for _, address := range append([]string{c.Config.Host}, c.More...) {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		w.kube = append(w.kube, u.Host)
	}
	if w.front, err = newProxy(w.kube...); err != nil {
		return err
	}
	w.close = append(w.close, w.front.close)
	if w.cluster, err = c.At("https://" + w.front.addr()); err != nil {
		return err
	}
	w.bed, err = testbed.Start(ctx, testbed.Options{Cluster: w.cluster, BackoffBase: time.Second, BackoffMax: 5 * time.Second, Room: 4000, Workers: 8})
	if err != nil {
		return err
	}
	w.close = append(w.close, w.bed.Close)
	return nil
}

const plenty = 1000

func rules(mode remedy.Mode, budget int) string {
	return fmt.Sprintf("mode: %s\nbudgets: {class: %d, least: 1000}\nclasses: {tag-missing: {risk: high, oneWay: true}}\n", mode, budget)
}

func settings(cluster string) stream.Settings {
	return stream.Settings{
		Clusters: []string{cluster}, Replicas: nodes, FailedBytes: 16 << 20, CasesBytes: 64 << 20, DeadBytes: 16 << 20, KeysBytes: 64 << 20,
	}
}

func (w *world) setUp(ctx context.Context) error {
	for {
		_, err := w.stream.Setup(ctx, classes(), settings(w.bed.ID))
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("set up NATS: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(300 * time.Millisecond): // the nodes have no leader yet
		}
	}
	nc, err := nats.Connect(w.nats, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	w.close = append(w.close, nc.Close)
	if w.js, err = jetstream.New(nc); err != nil {
		return err
	}
	for _, class := range classes() {
		if err := insist(ctx, func() error { return w.shorten(ctx, class) }); err != nil {
			return fmt.Errorf("shorten the wait of %s: %w", class, err)
		}
	}
	return w.bed.Allow(ctx, rules(remedy.Fix, plenty))
}

func (w *world) shorten(ctx context.Context, class string) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	consumer, err := w.js.Consumer(ctx, stream.Failed, stream.ConsumerOf(w.bed.ID, class))
	if err != nil {
		return err
	}
	c := consumer.CachedInfo().Config
	c.AckWait = ackWait
	_, err = w.js.UpdateConsumer(ctx, stream.Failed, c)
	return err
}

// function is the part that applies the other worker's steps.
const (
	function     = "function"
	remoteWorker = "worker-2"
)

func (w *world) startParts(ctx context.Context) error {
	free, err := ports(1)
	if err != nil {
		return err
	}
	way, err := newProxy(local(free[0]))
	if err != nil {
		return err
	}
	key, err := hand.NewKey()
	if err != nil {
		return err
	}
	for _, one := range []struct {
		role, name, rights string
	}{
		{"exporter", "exporter", "exporter"}, {"worker", "worker-1", "up"}, {"worker", remoteWorker, "up"}, {"function", function, "up"},
	} {
		a := assignment{Role: one.role, Name: one.name, Cluster: w.bed.ID, Namespace: w.bed.Namespace, Region: w.bed.Cloud.Region(), Classes: classes()}
		proxies := map[string][]*proxy{}
		var clients []string
		for _, p := range w.of("nats") {
			if one.name == function {
				break // it has no connection to NATS
			}
			to, err := newProxy(local(p.Port))
			if err != nil {
				return err
			}
			proxies["nats"] = append(proxies["nats"], to)
			clients = append(clients, "nats://"+to.addr())
		}
		a.NATS = strings.Join(clients, ",")
		if err := w.admit(ctx, &a, one.rights, proxies); err != nil {
			return fmt.Errorf("give %s its rights: %w", one.name, err)
		}
		switch one.name {
		case function:
			a.Port, a.Key = free[0], key.Public()
		case remoteWorker:
			a.Routes, a.Key = []string{way.addr()}, string(key.PEM())
			proxies["function"] = []*proxy{way}
		}
		if err := w.keep(a); err != nil {
			return err
		}
		w.parts[len(w.parts)-1].proxies = proxies
	}
	return nil
}

func (w *world) admit(ctx context.Context, a *assignment, who string, proxies map[string][]*proxy) error {
	rights, err := identity.Of(who)
	if err != nil {
		return err
	}
	user := userPrefix + a.Name
	if _, err := w.cluster.Impersonate(ctx, user, append(rights.Rules, testbed.ReadsPolicy)); err != nil {
		return err
	}
	kube, err := newProxy(w.kube...)
	if err != nil {
		return err
	}
	proxies["kube"] = []*proxy{kube}
	config, err := clientcmd.LoadFromFile(w.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	for _, one := range config.AuthInfos {
		one.Impersonate, one.ImpersonateGroups = user, []string{"system:authenticated"}
	}
	for _, one := range config.Clusters {
		one.Server = "https://" + kube.addr()
	}
	a.Kubeconfig = filepath.Join(w.dir, a.Name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, a.Kubeconfig); err != nil {
		return err
	}
	if len(rights.Policy.Statement) == 0 {
		return nil
	}
	key := w.bed.Cloud.Holder(a.Name, sim.Narrow(string(rights.Policy.JSON()), w.bed.Cloud.Snapshot().AccountID, w.bed.Cloud.Region(), w.bed.ID))
	a.KeyID, a.Secret = key.AccessKeyID, key.Secret
	cloud, err := newProxy(w.bed.Cloud.Addr())
	if err != nil {
		return err
	}
	proxies["cloud"] = []*proxy{cloud}
	a.Cloud = cloud.addr()
	return nil
}

const userPrefix = "fault:"
