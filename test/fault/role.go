package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lbremedy/lbremedy/events/courier"
	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Of a run in these histories: how long it may take, and how long it watches.
const (
	bound = 10 * time.Second
	watch = 3 * time.Second
)

// play is the main function of a part. It returns if the process is none.
func play() {
	text := os.Getenv(roleVariable)
	if text == "" {
		return
	}
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// The end of the one who judges, however it comes, ends the parts: their input breaks off.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	roles := map[string]func(context.Context, assignment) error{
		"nats": natsMain, "exporter": exporterMain, "worker": workerMain, "function": functionMain, "courier": courierMain,
	}
	if err := roles[a.Role](ctx, a); err != nil {
		fmt.Fprintln(os.Stderr, a.Name+":", event.Redact(err.Error()))
		os.Exit(1)
	}
	os.Exit(0)
}

// natsMain runs one node of NATS. Clients and other nodes learn of no other address than those that
// they were given, which are of proxies: the one that it tells the others leads nowhere.
func natsMain(ctx context.Context, a assignment) error {
	o := &server.Options{
		ServerName: a.Name, Host: "127.0.0.1", Port: a.Port, JetStream: true, StoreDir: filepath.Join(a.Dir, "store"), SyncAlways: true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "fault", Host: "127.0.0.1", Port: a.Peers, Advertise: "127.0.0.1:1", NoAdvertise: true, PoolSize: -1},
	}
	for _, r := range a.Routes {
		u, err := url.Parse("nats://" + r)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// logger writes what a part says into its log.
func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

// config returns how the part reaches what is around it.
func (a assignment) config() host.Config {
	return host.Config{
		Config: hand.Config{
			Cluster: a.Cluster, Region: a.Region, Kubeconfig: a.Kubeconfig, Endpoint: a.Cloud, Scheme: "HTTP",
			Credentials: cloud.Static(cloud.Key{ID: a.KeyID, Secret: a.Secret}), Log: logger(),
		},
		NATS: a.NATS, Who: a.Name, Watch: watch, Handlers: 32,
	}
}

func exporterMain(ctx context.Context, a assignment) error {
	config, err := kube.Load(a.Kubeconfig, "")
	if err != nil {
		return err
	}
	cluster, err := kube.New(config)
	if err != nil {
		return err
	}
	s, err := a.config().Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	x, err := exporter.New(exporter.Config{Cluster: a.Cluster, Kube: cluster, Stream: s, Classifier: event.NewClassifier(table.Table()), Log: logger()})
	if err != nil {
		return err
	}
	return x.Run(ctx)
}

// answering returns a host that answers for the part's classes.
func (a assignment) answering(ctx context.Context) (*host.Host, error) {
	env, err := host.Connect(ctx, a.config())
	if err != nil {
		return nil, err
	}
	env.Bound, env.Now = bound, wrong(filepath.Join(a.Dir, clock))
	return &host.Host{Env: env.Env, Remedies: slices.DeleteFunc(slices.Clone(functions.All), func(r *remedy.Remedy) bool {
		return !slices.Contains(a.Classes, r.Class)
	})}, nil
}

func workerMain(ctx context.Context, a assignment) error {
	h, err := a.answering(ctx)
	if err != nil {
		return err
	}
	defer h.Env.Stream.Close()
	return h.Work(ctx, 16)
}

// functionMain runs the classes behind an endpoint.
func functionMain(ctx context.Context, a assignment) error {
	h, err := a.answering(ctx)
	if err != nil {
		return err
	}
	defer h.Env.Stream.Close()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", a.Port))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: (&serve.Endpoint{Handle: h.Handle, Log: h.Env.Log}).Handler(), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func courierMain(ctx context.Context, a assignment) error {
	s, err := a.config().Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	routes, err := courier.Parse(fmt.Appendf(nil, "default: {url: \"http://%s/\", timeout: 15s}\n", a.Routes[0]), []string{a.Cluster}, a.Classes)
	if err != nil {
		return err
	}
	return courier.New(courier.Config{Cluster: a.Cluster, Stream: s, Log: logger()}).Run(ctx, routes[a.Cluster], nil)
}

// wrong returns a clock that is wrong by what a file says, which is read all the time. What
// has no such seam, such as the clients of NATS and of the cloud, keeps the right time.
func wrong(file string) func() time.Time {
	var by atomic.Int64
	read := func() {
		text, err := os.ReadFile(file)
		if err != nil {
			return // there is none yet
		}
		if d, err := time.ParseDuration(string(text)); err == nil {
			by.Store(int64(d))
		}
	}
	read()
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			read()
		}
	}()
	return func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
}

// connect connects to NATS as the one who judges, as soon as the nodes have a leader.
func connect(ctx context.Context, nats string) (*stream.Stream, error) {
	var last error
	for ctx.Err() == nil {
		s, err := stream.Connect(ctx, stream.Config{URL: nats, Name: "fault"})
		if err == nil {
			return s, nil
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("connect to NATS: %w", errors.Join(last, ctx.Err()))
}
