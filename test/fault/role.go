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

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/hand/route"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const (
	bound = 15 * time.Second // an order to a function needs 5 s beyond its expiry
	watch = 3 * time.Second
)

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
	// A closed stdin means that the judge has ended, and ends the part.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	roles := map[string]func(context.Context, assignment) error{
		"nats": natsMain, "exporter": exporterMain, "worker": workerMain, "function": functionMain,
	}
	if err := roles[a.Role](ctx, a); err != nil {
		fmt.Fprintln(os.Stderr, a.Name+":", event.Redact(err.Error()))
		os.Exit(1)
	}
	os.Exit(0)
}

// natsMain runs a node of NATS. Clients and other nodes use only the addresses of proxies; the address that it advertises leads nowhere.
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

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

func (a assignment) config() host.Config {
	return host.Config{
		Config: connect.Config{
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

// workerMain runs the engine. If the assignment has a route, a function handles the classes.
func workerMain(ctx context.Context, a assignment) error {
	config := a.config()
	env, err := host.ConnectReads(config)
	if err != nil {
		return err
	}
	if env.Stream, err = config.Stream(ctx); err != nil {
		return err
	}
	defer env.Stream.Close()
	env.Policy = testbed.Policy(env.Kube, a.Namespace, new(cli.Program).ParsePolicy)
	env.Bound, env.Now = bound, wrong(filepath.Join(a.Dir, clock))
	remedies := slices.DeleteFunc(slices.Clone(functions.All), func(r *remedy.Remedy) bool { return !slices.Contains(a.Classes, r.Class) })
	if len(a.Routes) > 0 {
		if err := a.callFunction(env.Env); err != nil {
			return err
		}
	}
	return (&host.Host{Env: env.Env, Remedies: remedies}).Work(ctx, 16)
}

func (a assignment) callFunction(env *engine.Env) error {
	key, err := hand.ParseKey([]byte(a.Key))
	if err != nil {
		return err
	}
	file := filepath.Join(a.Dir, "routes.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "default: {url: \"http://%s/{class}\"}\n", a.Routes[0]), 0o600); err != nil {
		return err
	}
	endpoints, err := route.Load(file, a.Cluster, a.Classes, nil)
	if err != nil {
		return err
	}
	known := functions.Chinese(chinese.Language)()
	env.Hand = func(r *remedy.Remedy) hand.Hand {
		return &hand.Remote{Class: r, Key: key, Decode: env.Decode, Known: known.Has, Send: endpoints[r.Class].Send, Read: env.Kube.Service}
	}
	return nil
}

func functionMain(ctx context.Context, a assignment) error {
	env, err := host.ConnectReads(a.config())
	if err != nil {
		return err
	}
	keys, err := hand.ParsePublicKeys(a.Key)
	if err != nil {
		return err
	}
	mux, now := http.NewServeMux(), wrong(filepath.Join(a.Dir, clock))
	for _, r := range functions.All {
		served := &hand.Served{Hand: env.Clients.Hand(r), Cluster: a.Cluster, Class: r.Class, Declares: r.Declaration().Digest(), Keys: keys, Now: now}
		mux.HandleFunc("POST /"+r.Class, func(w http.ResponseWriter, q *http.Request) {
			call, err := io.ReadAll(http.MaxBytesReader(w, q.Body, hand.MaxCall))
			if err != nil {
				http.Error(w, "the call broke off", http.StatusBadRequest)
				return
			}
			status, answer := served.Answer(q.Context(), call)
			w.WriteHeader(status)
			_, _ = w.Write(answer)
		})
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", a.Port))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// wrong returns a clock shifted by the value in a file, which is read continuously. The clients of NATS and of the cloud do not
// support such a clock and use the right time.
func wrong(file string) func() time.Time {
	var by atomic.Int64
	read := func() {
		text, err := os.ReadFile(file)
		if err != nil {
			return // the file does not exist yet
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

func joined(ctx context.Context, nats string) (*stream.Stream, error) {
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
