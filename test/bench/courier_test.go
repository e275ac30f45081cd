package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/events/courier"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// courier measures what a message costs that the courier brings to a function, beside
// a loop that posts the same bodies with as many hands.
func (r *rig) courier(b *testing.B) {
	const n, hands, rounds, class = 1000, 8, 3, "vswitch-ip-exhausted"
	st := r.startNATS(b).connect(b)
	for _, run := range []time.Duration{0, 5 * time.Millisecond} {
		var answered atomic.Int64
		function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			if run > 0 {
				pause := time.NewTimer(run)
				<-pause.C
			}
			w.WriteHeader(http.StatusNoContent)
			answered.Add(1)
		}))
		routes, err := courier.Parse(fmt.Appendf(nil, "routes: {%s: {url: '%s', concurrency: %d}}", class, function.URL, hands), []string{clusterID}, []string{class})
		if err != nil {
			b.Fatal(err)
		}
		var bare, brought []time.Duration
		for range rounds {
			publish(b, st, uids(n), "courier")
			bodies := waiting(b, st, class)
			bare = append(bare, post(b, function.URL, bodies[len(bodies)-n:], hands)) // what was delivered stays
			answered.Store(0)
			ctx, cancel := context.WithCancel(b.Context())
			var wait sync.WaitGroup
			began := time.Now()
			wait.Go(func() {
				if err := courier.New(courier.Config{Cluster: clusterID, Stream: st}).Run(ctx, routes[clusterID], nil); err != nil {
					b.Error(err)
				}
			})
			tick := time.NewTicker(time.Millisecond)
			for answered.Load() < n {
				<-tick.C
			}
			tick.Stop()
			brought = append(brought, time.Since(began))
			cancel()
			wait.Wait()
		}
		function.Close()
		slices.Sort(bare)
		slices.Sort(brought)
		each := func(all []time.Duration) float64 { return float64(all[rounds/2].Microseconds()) / n }
		what := fmt.Sprintf("run of %s", run)
		r.note(b, what+", posted by a loop", "µs each", each(bare))
		r.note(b, what+", brought by the courier", "µs each", each(brought))
		ratio := each(brought) / each(bare)
		if run == 0 {
			r.note(b, what+", ratio", "times", ratio)
		} else {
			r.atMost(b, what+", ratio", "times", ratio, 1.25)
		}
	}
}

// waiting returns the messages of a class, oldest first, as the bodies that a courier posts.
func waiting(b *testing.B, st *stream.Stream, class string) [][]byte {
	b.Helper()
	var bodies [][]byte
	err := st.Each(b.Context(), stream.Failed, event.FailedOf("*", class), time.Time{}, func(m stream.Message) error {
		e, err := event.DecodeNATS(m.Header, m.Data)
		if err != nil {
			return err
		}
		body, err := event.EncodeJSON(e)
		bodies = append(bodies, body)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return bodies
}

// post posts all bodies with some hands and returns how long that took.
func post(b *testing.B, url string, bodies [][]byte, hands int) time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: hands}}
	defer client.CloseIdleConnections()
	work := make(chan []byte)
	var wait sync.WaitGroup
	began := time.Now()
	for range hands {
		wait.Go(func() {
			for body := range work {
				resp, err := client.Post(url, "application/cloudevents+json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	for _, body := range bodies {
		work <- body
	}
	close(work)
	wait.Wait()
	return time.Since(began)
}
