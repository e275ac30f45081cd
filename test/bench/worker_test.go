package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/corpus"
	"github.com/lbremedy/lbremedy/test/shell"
)

// worker measures how many events a second a worker answers without acting: events of deleted Services, and the same events
// again, which the journal answers. NATS is another process.
func (r *rig) worker(b *testing.B) {
	const n, goal = 3000, 1000
	st := r.startNATS(b).connect(b)
	reader, err := kube.New(r.cluster(b).Config)
	if err != nil {
		b.Fatal(err)
	}
	// Deleted Services need no cloud.
	account, writer, err := cloud.New(cloud.Config{
		Region: "cn-hangzhou", ClusterID: clusterID, Endpoint: "127.0.0.1:1", Scheme: "HTTP", Credentials: cloud.Static(cloud.Key{ID: "id", Secret: "secret"}),
	})
	if err != nil {
		b.Fatal(err)
	}
	clients := &hand.Clients{Kube: reader, KubeWriter: kube.NewWriter(reader), Cloud: account, CloudWriter: writer, Decode: step.Decode}
	env := &engine.Env{
		Cluster: clusterID, Stream: st, Kube: reader, Hand: clients.Hand,
		Policy: observing(b),
		Decode: step.Decode, Who: "worker",
	}
	ids := uids(n)
	first := publish(b, st, ids, "first")
	r.note(b, "stored", "events/s", n/first.Seconds())
	r.note(b, "gone", "events/s", n/answer(b, env, n, event.Gone).Seconds())
	publish(b, st, ids, "again")
	r.atLeast(b, "settled before", "events/s", n/answer(b, env, n, event.Gone).Seconds(), goal)
}

func publish(b *testing.B, st *stream.Stream, ids []string, suffix string) time.Duration {
	b.Helper()
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(64)
	for i, uid := range ids {
		e, err := event.NewFailed(event.Failure{
			Cluster: clusterID, Class: "vswitch-ip-exhausted", Reason: "SyncLoadBalancerFailed", Type: "Warning", Message: saysFull,
			Service: event.Service{Namespace: "gone", Name: "web", UID: uid},
			Event:   event.Reference{Name: "web", UID: uid, ResourceVersion: fmt.Sprint(i + 1)}, Last: time.Unix(1_700_000_000, 0),
		})
		if err != nil {
			b.Fatal(err)
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			b.Fatal(err)
		}
		subject := event.FailedSubject(clusterID, "vswitch-ip-exhausted", uid)
		all.Go(func() error {
			_, _, err := st.PublishNewer(b.Context(), subject, event.MessageID(e)+"."+suffix, header, data, func(stream.Message) bool { return true })
			return err
		})
	}
	if err := all.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func answer(b *testing.B, env *engine.Env, n int, want event.Result) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var last time.Time
	left := n
	h := &host.Host{Env: env, Remedies: functions.All, OnRun: func(rec event.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil || rec.Result != want {
			b.Errorf("got %q and %v, want %q", rec.Result, err, want)
		}
		if left--; left == 0 {
			last = time.Now()
			cancel()
		}
	}}
	began := time.Now()
	if err := h.Work(ctx, 128); err != nil {
		b.Fatal(err)
	}
	if left > 0 {
		b.Fatalf("%d of %d events were not answered", left, n)
	}
	return last.Sub(began)
}

func (r *rig) classify(b *testing.B) {
	const times = 50_000
	var rows []event.Input
	for _, row := range corpus.Rows(b) {
		rows = append(rows, event.Input{Reason: row.Reason, Type: row.Type, Component: row.Component, Message: row.Message})
	}
	c := event.NewClassifier(table.Table())
	took := make([]time.Duration, 0, times)
	for i := range times {
		began := time.Now()
		c.Classify(rows[i%len(rows)])
		took = append(took, time.Since(began))
	}
	r.atMost(b, "median", "µs", float64(quantile(took, 0.5).Nanoseconds())/1000, 5)
	r.note(b, "p99", "µs", float64(quantile(took, 0.99).Nanoseconds())/1000)
}

func observing(b *testing.B) func(context.Context) (remedy.Policy, error) {
	b.Helper()
	source := policyfile.FromFile(shell.File(b, "policy.yaml", "mode: observe\n"), new(cli.Program).ParsePolicy)
	return func(ctx context.Context) (remedy.Policy, error) {
		v, err := source.Read(ctx)
		return v.Policy, err
	}
}
