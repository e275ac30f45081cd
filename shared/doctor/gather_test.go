package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
)

func TestDelays(t *testing.T) {
	t.Parallel()
	s := nats.Streams(t)
	put := func(cluster, class string, result event.Result, took time.Duration) {
		t.Helper()
		svc := event.Service{Namespace: "shop", Name: "web", UID: uid1}
		at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
		_, header, data, err := event.EncodeRecord(event.Record{
			Origin:  event.Origin{Case: event.CaseID(uid1, at), Cluster: cluster, Class: class, Service: svc, Event: "e", EventTime: at},
			Run:     event.Run{Phase: event.Settled, Result: result, First: at, Began: at, At: at, Attempts: []time.Time{}},
			Outcome: event.Outcome{Timings: event.Timings{Sync: took}},
		})
		if err == nil {
			_, _, err = s.PublishNewer(t.Context(), event.CaseSubject(cluster, uid1, class), "", header, data, func(stream.Message) bool { return true })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(from func(context.Context) (*stream.Stream, error)) ([]time.Duration, error) {
		g := &snapshotReader{Source: Source{Cluster: "c1", Stream: from}, s: &Snapshot{}}
		_, err := readDelays(t.Context(), g)
		return g.s.Delays, err
	}
	there := func(context.Context) (*stream.Stream, error) { return s, nil }
	if got, err := read(there); err != nil || got == nil || len(got) != 0 {
		t.Errorf("nothing measured: %v, %v", got, err)
	}
	put("c1", "quota", event.Fixed, 9*time.Second)
	put("c1", "busy", event.Synced, 2*time.Second)
	put("c1", "arrearage", event.Fixed, 0)
	put("c1", "throttling", event.Waiting, 5*time.Second)
	put("c2", "busy", event.Fixed, 7*time.Second)
	if _, _, err := s.PublishNewer(t.Context(), event.CaseSubject("c1", uid2, "busy"), "", nil, []byte("{"),
		func(stream.Message) bool { return true }); err != nil {
		t.Fatal(err)
	}
	got, err := read(there)
	if d := cmp.Diff([]time.Duration{9 * time.Second, 2 * time.Second}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if got, err := read(nil); got != nil || err != nil {
		t.Errorf("no stream named: %v, %v", got, err)
	}
	away := errors.New("no answer")
	if got, err := read(func(context.Context) (*stream.Stream, error) { return nil, away }); got != nil || !errors.Is(err, away) {
		t.Errorf("away: %v, %v", got, err)
	}
}

// For each Service the newest failure of all classes is read. Without a stream the part is empty; an unreadable stream is an error.
func TestFailures(t *testing.T) {
	t.Parallel()
	s := nats.Streams(t)
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	put := func(cluster, class, uid string, last time.Time) {
		t.Helper()
		e, err := event.NewFailed(event.Failure{
			Cluster: cluster, Class: class, Reason: "SyncLoadBalancerFailed", Message: "no", Count: 1, First: last, Last: last,
			Service: event.Service{Namespace: "shop", Name: "web", UID: uid}, Event: event.Reference{Name: "e", UID: uid2, ResourceVersion: "1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := event.EncodeNATS(e)
		if err == nil {
			_, _, err = s.PublishNewer(t.Context(), event.FailedSubject(cluster, class, uid), "", header, data, func(stream.Message) bool { return true })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("c1", "arrearage", uid1, at)
	put("c1", "unclassified", uid1, at.Add(-time.Hour))
	put("c2", "arrearage", uid1, at.Add(time.Hour))
	const broken = "0b5a9a53-6c3e-4a4c-9d5e-333333333333"
	if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "arrearage", broken), "", nil, []byte("{"),
		func(stream.Message) bool { return true }); err != nil {
		t.Fatal(err)
	}
	read := func(from func(context.Context) (*stream.Stream, error), only string) (*Snapshot, error) {
		one := &Snapshot{Services: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{UID: uid1}}}}
		g := &snapshotReader{Source: Source{Cluster: "c1", Only: only, Stream: from}, s: one}
		_, err := readFailures(t.Context(), g)
		return g.s, err
	}
	there := func(context.Context) (*stream.Stream, error) { return s, nil }
	got, err := read(there, "")
	if err != nil {
		t.Fatal(err)
	}
	if got.Failures[broken].IsZero() {
		t.Error("what can't be read is not known")
	}
	delete(got.Failures, broken)
	if d := cmp.Diff(map[types.UID]time.Time{uid1: at}, got.Failures); d != "" || !got.ExporterSeen.IsZero() {
		t.Errorf("an exporter was heard of at %v\n%s", got.ExporterSeen, d)
	}
	if err := s.Put(t.Context(), event.ProgressKey("c1"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got, err = read(there, "shop/web"); err != nil || len(got.Failures) != 1 || time.Since(got.ExporterSeen) > time.Minute {
		t.Errorf("of one Service: %v, heard of an exporter at %v, %v", got.Failures, got.ExporterSeen, err)
	}
	for name, from := range map[string]func(context.Context) (*stream.Stream, error){
		"none named": nil, "none there": func(context.Context) (*stream.Stream, error) { return nil, nil },
	} {
		if got, err := read(from, ""); err != nil || got.Failures != nil {
			t.Errorf("%s: %v, %v", name, got.Failures, err)
		}
	}
	away := errors.New("no answer")
	if got, err := read(func(context.Context) (*stream.Stream, error) { return nil, away }, ""); !errors.Is(err, away) || got.Failures != nil {
		t.Errorf("away: %v, %v", got.Failures, err)
	}
	s.Close()
	if got, err := read(there, ""); err == nil || got.Failures != nil {
		t.Errorf("closed: %v, %v", got.Failures, err)
	}
}

// A Service's load balancer is found between two parts that read load balancers, as when Guards is read after the NLBs and before the CLBs.
func TestIndexGrows(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: uid1}}
	g := &snapshotReader{s: &Snapshot{Given: []Part{CLBs, NLBs}}}
	g.put(&LoadBalancer{Instance: ccm.Instance{ID: "nlb-1"}})
	if b, err := g.s.Balancer(svc); b != nil || err != nil {
		t.Fatalf("found %v, %v", b, err)
	}
	g.put(&LoadBalancer{Instance: ccm.Instance{ID: "lb-1", Tags: map[string]string{ccm.NameTag: ccm.DefaultName(svc)}}})
	if b, err := g.s.Balancer(svc); b == nil || err != nil || b.ID != "lb-1" {
		t.Fatalf("found %v, %v", b, err)
	}
}
