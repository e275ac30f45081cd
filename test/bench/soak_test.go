package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
)

// soak gives "lbremedy up" the failures of 8 hours of a controller that retries every five minutes: 96 rounds without pauses. In
// each, all Services fail again and are answered, and then some are deleted and others created. Memory, goroutines, file handles,
// journal and consumers have to stay level. Programs use the real clock, so what depends on time, such as forgetting after an
// hour, happens only as often as in the minutes of the run.
func (r *rig) soak(b *testing.B) {
	const services, churn, warm, tail = 40, 4, 24, 24
	rounds := int(lasts(b, "LBREMEDY_BENCH_SOAK", 8*time.Hour) / (5 * time.Minute))
	if rounds < warm+tail {
		b.Fatalf("LBREMEDY_BENCH_SOAK: %d rounds of five minutes are less than %d, of which the first are compared with the last", rounds, warm+tail)
	}
	account := sim.New(b, debtors(10))
	told := newSink(b)
	state, address := b.TempDir(), "127.0.0.1:"+shell.Port(b)
	env := append(r.environ(b, account), told.env, "XDG_CONFIG_HOME="+state, "LBREMEDY_NATS=", "LBREMEDY_NATS_TOKEN=", "GOMEMLIMIT=200MiB")
	up := guarded(b, r.program(b, "functions/cmd/lbremedy"), env, "up", "--policy", told.policy, "--listen", address, "--state-dir", state)
	await(b, time.Minute, func() error { return up.asked("http://" + address + "/readyz") })
	data, err := os.ReadFile(filepath.Join(state, "nats.json"))
	if err != nil {
		b.Fatal(err)
	}
	var at struct{ URL, Token string }
	if err := json.Unmarshal(data, &at); err != nil {
		b.Fatal(err)
	}
	bus := &nats{url: at.URL, token: at.Token}
	st := bus.connect(b)

	alive := r.debtors(b, services, 0)
	client := r.client(b).CoreV1()
	var levels []level
	made := services // besides those of other benchmarks
	before := -1
	for round := range rounds {
		if err := alike(8, len(alive), func(i int) error {
			e := failure(alive[i].Namespace, alive[i].Name, string(alive[i].UID))
			e.Name += fmt.Sprintf(".%d", round)
			e.Message = "Error syncing load balancer []: Message: The account is arrearage."
			e.LastTimestamp = metav1.Now()
			_, err := client.Events(alive[i].Namespace).Create(b.Context(), e, metav1.CreateOptions{})
			return err
		}); err != nil {
			b.Fatal(err)
		}
		await(b, 2*time.Minute, func() error {
			l, err := ledger.Draw(b.Context(), st, clusterID, time.Now(), time.Hour)
			if err != nil {
				return err
			}
			a := accountOf(l)
			if before < 0 && a.Published >= made && a.Settled == a.Published {
				before = a.Published - made
			}
			if before < 0 || a.Settled != a.Published || a.Published != before+made {
				return fmt.Errorf("round %d: %d of %d failures are settled, want %d", round, a.Settled, a.Published, before+made)
			}
			return nil
		})
		levels = append(levels, r.level(b, up, bus, address))
		gone, stay := alive[:churn], alive[churn:]
		for _, svc := range gone {
			if err := client.Services(svc.Namespace).Delete(b.Context(), svc.Name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		if round < rounds-1 {
			alive = append(append([]*corev1.Service{}, stay...), r.debtors(b, churn, 0)...)
			made += churn
		}
	}
	first, last := middle(levels[warm-12:warm+12]), middle(levels[len(levels)-tail:])
	r.note(b, "rounds", "", float64(rounds))
	r.note(b, "failures", "", float64(rounds*services))
	for _, one := range []struct {
		what, unit  string
		first, last float64
		most        float64 // of the last, relative to the first
	}{
		{"memory", "MB", first.memory, last.memory, 1.25},
		{"goroutines", "", first.goroutines, last.goroutines, 1.1},
		{"file handles", "", first.files, last.files, 1.1},
		{"consumers", "", first.consumers, last.consumers, 1},
		{"journal, each case", "bytes", first.journal, last.journal, 1.1},
	} {
		r.note(b, one.what+", in the second hour", one.unit, one.first)
		r.atMost(b, one.what+", in the last", one.unit, one.last, one.first*one.most)
	}
}

type level struct{ memory, goroutines, files, consumers, journal float64 }

func (r *rig) level(b *testing.B, up *process, bus *nats, address string) level {
	b.Helper()
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	l, lines := level{memory: up.memory(b, "VmRSS")}, bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		into := map[string]*float64{"go_goroutines": &l.goroutines, "process_open_fds": &l.files}[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(value, 64); err != nil {
			b.Fatal(err)
		}
	}
	if l.goroutines == 0 || l.files == 0 {
		b.Fatal("the program does not say how many goroutines and file handles it has")
	}
	js, end := bus.jetstream(b)
	defer end()
	for _, name := range []string{stream.Failed, stream.Cases} {
		info, err := js.Stream(context.WithoutCancel(b.Context()), name)
		if err != nil {
			b.Fatal(err)
		}
		found := info.CachedInfo().State
		l.consumers += float64(found.Consumers)
		if name == stream.Cases {
			l.journal = float64(found.Bytes) / float64(found.Msgs)
		}
	}
	return l
}

func middle(all []level) level {
	pick := func(of func(level) float64) float64 {
		var values []float64
		for _, l := range all {
			values = append(values, of(l))
		}
		return quantile(values, 0.5)
	}
	return level{
		pick(func(l level) float64 { return l.memory }), pick(func(l level) float64 { return l.goroutines }),
		pick(func(l level) float64 { return l.files }), pick(func(l level) float64 { return l.consumers }),
		pick(func(l level) float64 { return l.journal }),
	}
}
