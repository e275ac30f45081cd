package stream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

// If the answering node keeps lagging, a view since a revision and a change of a document fail after as long as a request may take.
func TestBehindForGood(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	_, err := s.Setup(t.Context(), nil, stream.Settings{})
	must(err)
	must(s.Put(t.Context(), "before", nil))
	nats.Behind(t, server.URL(), "KV_lbremedy")
	js := nats.JetStream(t, server.URL())
	bucket, err := js.Stream(t.Context(), "KV_lbremedy")
	must(err)
	config := bucket.CachedInfo().Config
	config.AllowDirect = false // only the other node answers
	_, err = js.UpdateStream(t.Context(), config)
	must(err)
	must(s.Put(t.Context(), "pause", []byte("1")))
	for what, do := range map[string]func() error{
		"change": func() error {
			return stream.ChangeDocument(t.Context(), s, "pause", 0, func([]byte) int { return 0 }, func(int, time.Time) (bool, error) { return true, nil })
		},
		"view": func() error { _, err := s.View(stream.Since(t.Context(), "before", 1000), "pause"); return err },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			go func() { ended <- do() }()
			select {
			case err := <-ended:
				if !errors.Is(err, stream.ErrUnavailable) {
					t.Errorf("it says %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

// EachLast covers all messages that existed when it began, even on a lagging node.
func TestEachLastBehind(t *testing.T) {
	t.Parallel()
	const subjects = 600 // more than fit in one answer
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), nil, stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	js := nats.JetStream(t, server.URL())
	publish := func(data string, from, to int) {
		for i := from; i < to; i++ {
			if _, err := js.PublishAsync(fmt.Sprintf("lbremedy.case.c1.u%d.x", i), []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	publish("old", 0, subjects/2)
	nats.Behind(t, server.URL(), stream.Cases)
	publish("new", subjects/2-10, subjects)
	for range 20 { // the lagging node answers every other request, at random
		got := map[string]int{}
		err := s.EachLast(t.Context(), stream.Cases, "lbremedy.case.>", func(m stream.Message) error {
			got[string(m.Data)]++
			return nil
		})
		if err != nil || got["old"] != subjects/2-10 || got["new"] != subjects/2+10 {
			t.Errorf("got %v, %v", got, err)
		}
	}
}
