package bench

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/test/shell"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func stored(b *testing.B) int {
	b.Helper()
	text := os.Getenv("LBREMEDY_BENCH_EVENTS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("LBREMEDY_BENCH_EVENTS: %v", err)
	}
	return n
}

// memory measures the exporter's memory with 100,000 stored Events of Pods (or LBREMEDY_BENCH_EVENTS) and 1,000 more a second.
func (r *rig) memory(b *testing.B) {
	const clients, perSecond, lasts = 16, 1000, 15 * time.Second
	d := r.disk(b)
	n := stored(b)
	pods := func(ctx context.Context, i int) error {
		e := failure(d.namespace, "web", fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
		e.InvolvedObject.Kind, e.Reason, e.Type = "Pod", "Scheduled", corev1.EventTypeNormal
		e.InvolvedObject.Name = fmt.Sprintf("web-7c5ddbdf54-%05d", i)
		e.InvolvedObject.UID = types.UID(e.Name)
		e.Message = "Successfully assigned " + d.namespace + "/" + e.InvolvedObject.Name + " to cn-hangzhou.192.168.0.1"
		_, err := d.client.CoreV1().Events(d.namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	}
	began := time.Now()
	if err := alike(clients, n, func(i int) error { return pods(b.Context(), i) }); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d Events stored in %s", n, time.Since(began).Round(time.Second))

	p := d.run(b, true)
	ctx, cancel := context.WithTimeout(b.Context(), lasts)
	defer cancel()
	next := make(chan struct{}, perSecond)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		defer close(next)
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			for range perSecond / 100 {
				select {
				case next <- struct{}{}:
				default: // the API server is slower: the reported rate shows it
				}
			}
		}
	}()
	most := 0.0
	var passed atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- alike(clients, perSecond*int(lasts.Seconds()), func(i int) error {
			if _, ok := <-next; !ok {
				return nil
			}
			passed.Add(1)
			return pods(b.Context(), n+i)
		})
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	began = time.Now()
	for running := true; running; {
		select {
		case <-tick.C:
			most = max(most, p.memory(b, "VmRSS"))
		case err := <-done:
			if err != nil {
				b.Fatal(err)
			}
			running = false
		}
	}
	rate := float64(passed.Load()) / time.Since(began).Seconds()
	r.atMost(b, "resident", "MB", most, 30)
	r.note(b, "peak", "MB", p.memory(b, "VmHWM"))
	r.note(b, "of it the program's file", "MB", p.memory(b, "RssFile"))
	r.note(b, "stored", "events", float64(n))
	r.note(b, "passing by", "events/s", rate)
}

func (r *rig) size(b *testing.B) {
	largest, zipped := 0.0, 0.0
	all := r.functions(b)
	r.build(b, all...)
	for _, folder := range all {
		if filepath.Base(folder) == "lbremedy" {
			continue // the operator's program
		}
		file := r.program(b, folder)
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		packed, err := pack(file)
		if err != nil {
			b.Fatal(err)
		}
		largest, zipped = max(largest, float64(info.Size())/1e6), max(zipped, float64(packed)/1e6)
	}
	r.atMost(b, "stripped", "MB", largest, 18)
	r.atMost(b, "zipped", "MB", zipped, 8)
}

func pack(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n counter
	z := zip.NewWriter(&n)
	w, err := z.Create(filepath.Base(file))
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(w, f); err != nil {
		return 0, err
	}
	return int64(n), z.Close()
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// start measures the time until a function program is ready, beside an empty HTTP server: medians of 15.
func (r *rig) start(b *testing.B) {
	const rounds = 15
	key, err := hand.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	env := []string{
		"LBREMEDY_CLUSTER=" + clusterID, "LBREMEDY_REGION=cn-hangzhou", "LBREMEDY_KUBECONFIG=" + r.cluster(b).Kubeconfig,
		"LBREMEDY_ENGINE_KEYS=" + key.Public(), "FC_CUSTOM_LISTEN_PORT=", "FC_RUNTIME_API=",
	}
	took := map[string][]time.Duration{}
	for range rounds {
		for _, folder := range []string{"functions/vswitchipexhausted/cmd/vswitchipexhausted", "test/bench/empty"} {
			took[folder] = append(took[folder], ready(b, r.program(b, folder), env))
		}
	}
	ours, empty := quantile(took["functions/vswitchipexhausted/cmd/vswitchipexhausted"], 0.5), quantile(took["test/bench/empty"], 0.5)
	r.atMost(b, "until ready", "ms", ms(ours), 15)
	r.note(b, "until ready empty", "ms", ms(empty))
	r.atMost(b, "until ready against empty", "times", float64(ours)/float64(empty), 2.5)
}

// idle measures the memory of an unused function program: the maximum of five seconds after it is ready.
func (r *rig) idle(b *testing.B) {
	key, err := hand.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	port := shell.Port(b)
	function := guarded(b, r.program(b, "functions/vswitchipexhausted/cmd/vswitchipexhausted"), []string{
		"LBREMEDY_CLUSTER=" + clusterID, "LBREMEDY_REGION=cn-hangzhou", "LBREMEDY_KUBECONFIG=" + r.cluster(b).Kubeconfig, "PORT=" + port,
		"LBREMEDY_ENGINE_KEYS=" + key.Public(), "FC_CUSTOM_LISTEN_PORT=", "FC_RUNTIME_API=",
	})
	await(b, time.Minute, func() error { return function.asked("http://127.0.0.1:" + port + "/readyz") })
	most := 0.0
	tick := time.NewTicker(100 * time.Millisecond)
	for range 50 {
		<-tick.C
		most = max(most, function.memory(b, "VmRSS"))
	}
	tick.Stop()
	r.atMost(b, "function resident", "MB", most, 25)
	r.note(b, "function of it the program's file", "MB", function.memory(b, "RssFile"))
}

func ready(b *testing.B, file string, env []string) time.Duration {
	b.Helper()
	port := shell.Port(b)
	cmd := exec.Command(file)
	cmd.Env = append(append(os.Environ(), env...), "PORT="+port)
	client := &http.Client{Transport: &http.Transport{}} // no connection of the previous program
	defer client.CloseIdleConnections()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for time.Since(began) < 30*time.Second {
		answer, err := client.Get("http://127.0.0.1:" + port + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return time.Since(began)
			}
		}
		<-tick.C
	}
	b.Fatalf("%s is not ready after 30 s", filepath.Base(file))
	return 0
}
