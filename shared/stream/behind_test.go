package stream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

// Where a node answers that stays behind the others, neither a view since a revision nor the end of a key is made up: both
// say so, after as long as a request may take.
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
	config.AllowDirect = false // the other node alone answers
	_, err = js.UpdateStream(t.Context(), config)
	must(err)
	must(s.Put(t.Context(), "pause", []byte("1")))
	for what, do := range map[string]func() error{
		"take": func() error { _, err := s.Take(t.Context(), "pause"); return err },
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
