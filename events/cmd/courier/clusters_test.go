package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

// One courier serves two clusters. Of one, a function hangs, one is away and one is
// another cluster's: the other cluster does not notice, in deliveries, in readiness or
// in metrics. Nothing is dead by it, and with its routes put right all is delivered.
func TestClusters(t *testing.T) {
	const one, two, each = "c1", "c2", 20
	classes := []string{"busy", "quota", "tag-missing"}
	table := shell.File(t, "table", `[{"class": "busy", "texts": ["b"]}, {"class": "quota", "texts": ["q"]}, {"class": "tag-missing", "texts": ["t"]}]`)
	server := nats.Start(t, embedded.Options{Token: "t0ken"})
	s := nats.Connect(t, stream.Config{URL: server.URL(), Token: "t0ken"})
	if _, err := s.Setup(t.Context(), append([]string{event.Unclassified}, classes...), stream.Settings{Clusters: []string{one, two}}); err != nil {
		t.Fatal(err)
	}

	var hanging atomic.Int64
	var mu sync.Mutex
	got := map[string]int{} // requests that were answered well, by cluster
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the courier has ended
		}
		of := strings.Split(r.URL.Path, "/")[1]
		switch {
		case strings.HasSuffix(r.URL.Path, "/hangs"):
			hanging.Add(1)
			<-r.Context().Done()
		case !bytes.Contains(body, []byte(`"cluster":"`+of+`"`)):
			w.WriteHeader(http.StatusMisdirectedRequest) // as serve.Endpoint answers
		default:
			mu.Lock()
			got[of]++
			mu.Unlock()
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(function.Close)
	count := func(cluster string) int {
		mu.Lock()
		defer mu.Unlock()
		return got[cluster]
	}

	file := filepath.Join(t.TempDir(), "routes.yaml")
	write := func(second string) {
		t.Helper()
		text := fmt.Sprintf("clusters:\n  c1: {default: {url: '%s/{cluster}/{class}'}}\n  c2: %s\n", function.URL, second)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("{routes: {busy: {url: '%s/c2/hangs'}, quota: {url: 'http://127.0.0.1:1'}, tag-missing: {url: '%s/c1/tag-missing'}}}", function.URL,
		function.URL))
	var log shell.Log
	health := "127.0.0.1:" + shell.Port(t)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--cluster=c1,c2", "--nats=" + server.URL(), "--routes=" + file, "--listen=" + health, "--table=" + table, "--drain=100ms"},
			shell.Environment("LBREMEDY_NATS_TOKEN=t0ken"), io.Discard, &log)
	}()
	t.Cleanup(end)

	for _, class := range classes {
		failIn(t, s, two, class, 0, each)
	}
	shell.Until(t, "the functions of the second cluster hang", func() bool { return hanging.Load() == 8 })
	shell.Until(t, "the wrong route of the second cluster is told of", func() bool {
		_, body := look(t, "http://"+health+"/readyz")
		return strings.Contains(body, "cluster c2: tag-missing: the function answers 421")
	})
	for _, class := range classes {
		failIn(t, s, one, class, 0, each)
	}
	shell.Until(t, "all of the first cluster is delivered", func() bool { return count(one) == len(classes)*each })
	shell.Until(t, "nothing of the first cluster waits", func() bool { return open(t, s, one) == 0 })
	if status, body := look(t, "http://"+health+"/readyz"); status != http.StatusServiceUnavailable || strings.Contains(body, one) {
		t.Errorf("ready: %d %s", status, body)
	}
	_, metrics := look(t, "http://"+health+"/metrics")
	for series, want := range map[string]bool{
		`lbremedy_courier_posts_total{class="busy",cluster="c1",status="2xx"} 20`:     true,
		`lbremedy_courier_posts_total{class="tag-missing",cluster="c2",status="4xx"}`: true,
		`lbremedy_courier_posts_total{class="busy",cluster="c1",status="none"} 0`:     true,
		`lbremedy_courier_posts_total{class="tag-missing",cluster="c1",status="4xx"}`: false,
		`lbremedy_courier_route_up{class="tag-missing",cluster="c1"} 1`:               true,
		`lbremedy_courier_route_up{class="tag-missing",cluster="c2"} 0`:               true,
		`lbremedy_courier_route_up{class="` + event.Unclassified + `",cluster="c2"}`:  false,
	} {
		if strings.Contains(metrics, series) != want {
			t.Errorf("%s: want %t in the metrics", series, want)
		}
	}
	for _, cluster := range []string{one, two} {
		if !regexp.MustCompile(`lbremedy_runs_total\{class="busy",cluster="` + cluster + `",outcome="fixed"\} 0`).MatchString(metrics) {
			t.Errorf("the runs of %s are not counted", cluster)
		}
	}
	if _, err := s.Last(t.Context(), stream.Dead, stream.DeadSubjects); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("something is dead: %v", err)
	}

	// A mistake in the file changes nothing of either; what is right then is taken.
	write("{routes: {busy: {}}}")
	shell.Until(t, "the mistake is told of", func() bool {
		return strings.Contains(log.String(), "clusters.c2.routes.busy: it says not where to send")
	})
	failIn(t, s, one, "busy", each, each)
	shell.Until(t, "the first cluster goes on", func() bool { return count(one) == (len(classes)+1)*each })
	write(fmt.Sprintf("{default: {url: '%s/{cluster}/{class}'}}", function.URL))
	shell.Until(t, "all of the second cluster is delivered", func() bool { return open(t, s, two) == 0 })
	if n := count(two); n < len(classes)*each {
		t.Errorf("the second cluster got %d answers, want %d", n, len(classes)*each)
	}
	shell.Until(t, "all is ready", func() bool { status, _ := look(t, "http://"+health+"/readyz"); return status == http.StatusOK })
	if n := count(one); n != (len(classes)+1)*each {
		t.Errorf("the first cluster got %d answers, want %d", n, (len(classes)+1)*each)
	}
	end()
	if err := <-done; err != nil {
		t.Errorf("the courier ended with %v", err)
	}
}

// NATS does not take the user of one cluster, whose key is not there yet: the other is
// served all the same, and so is that one when its key has come.
func TestClusterWithoutKey(t *testing.T) {
	const one, two = "c1", "c2"
	keys, seeds := t.TempDir(), map[string][]byte{}
	users := "{user: admin, password: p}"
	for _, cluster := range []string{one, two} {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		if seeds[cluster], err = pair.Seed(); err != nil {
			t.Fatal(err)
		}
		users += ", {nkey: " + public + "}"
	}
	file := shell.File(t, "nats.conf", fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream: {store_dir: %q}\nauthorization: {users: [%s]}\n", t.TempDir(), users))
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	at, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	at.Start()
	t.Cleanup(func() { at.Shutdown(); at.WaitForShutdown() })
	if !at.ReadyForConnections(time.Minute) {
		t.Fatal("NATS is not ready")
	}
	s := nats.Connect(t, stream.Config{URL: at.ClientURL(), User: "admin", Password: "p"})
	if _, err := s.Setup(t.Context(), []string{event.Unclassified, "busy"}, stream.Settings{Clusters: []string{one, two}}); err != nil {
		t.Fatal(err)
	}
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(function.Close)
	key := func(cluster string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(keys, cluster+".seed"), seeds[cluster], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key(one)
	failIn(t, s, one, "busy", 0, 5)
	failIn(t, s, two, "busy", 0, 5)
	var log shell.Log
	health := "127.0.0.1:" + shell.Port(t)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--cluster=c2,c1", "--nats=" + at.ClientURL(), "--nats-nkey=" + filepath.Join(keys, "{cluster}.seed"), "--listen=" + health,
			"--drain=1s",
			"--routes=" + shell.File(t, "routes", fmt.Sprintf("default: {url: '%s/{cluster}/'}", function.URL)), "--table=" + shell.File(t, "table",
				`[{"class": "busy", "texts": ["b"]}]`)},
			shell.Environment(), io.Discard, &log)
	}()
	t.Cleanup(end)
	shell.Until(t, "the first cluster is served", func() bool { return open(t, s, one) == 0 })
	shell.Until(t, "what the second lacks is told", func() bool {
		status, body := look(t, "http://"+health+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "cluster c2: read the NATS key: ") && !strings.Contains(body, "c1")
	})
	if n := open(t, s, two); n != 5 {
		t.Errorf("%d failures of the second cluster wait, want 5", n)
	}
	key(two)
	shell.Until(t, "the second cluster is served", func() bool { return open(t, s, two) == 0 })
	shell.Until(t, "all is ready", func() bool { status, _ := look(t, "http://"+health+"/readyz"); return status == http.StatusOK })
	end()
	if err := <-done; err != nil {
		t.Errorf("the courier ended with %v", err)
	}
}

// failIn publishes n failures of a class in a cluster, of Services from the number first on.
func failIn(t *testing.T, s *stream.Stream, cluster, class string, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		uid := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		e, err := event.NewFailed(event.Failure{
			Cluster: cluster, Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Message: "no",
			Service: event.Service{Namespace: "shop", Name: "web", UID: uid},
			Event:   event.Reference{Name: "web.1", UID: uid, ResourceVersion: "7"}, Count: 1, First: time.Now(), Last: time.Now(),
		})
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.PublishNewer(t.Context(), event.FailedSubject(cluster, class, uid), cluster+class+event.MessageID(e), header, data,
			func(stream.Message) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open returns how many failures of a cluster wait or are in hand.
func open(t *testing.T, s *stream.Stream, cluster string) (n uint64) {
	t.Helper()
	queues, err := s.Queues(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		n += q.Undelivered + q.InHand
	}
	return n
}

// look returns what a GET of an address answers; status 0: nobody is there.
func look(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
