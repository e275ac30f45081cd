package stream_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	accounts "github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

// An exporter may not change streams: it says what is wrong, and does not wait for what it can't do.
func TestSetupOrUseWithoutRights(t *testing.T) {
	t.Parallel()
	server := nats.Install(t, "c1")
	admin, s := server.As(accounts.Operator), server.As(accounts.Exporter("c1"))
	js, err := jetstream.New(server.Plain(accounts.Operator))
	if err != nil {
		t.Fatal(err)
	}
	change := func(name string, f func(*jetstream.StreamConfig)) {
		t.Helper()
		found, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := found.CachedInfo().Config
		f(&c)
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	use := func(classes ...string) (string, error) {
		t.Helper()
		began := time.Now()
		done, lacking, err := s.SetupOrUse(t.Context(), classes, stream.Settings{Clusters: []string{"c1"}})
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %s, as if no answer had come", took)
		}
		if len(done) > 0 {
			t.Errorf("it has done %q", done)
		}
		return strings.Join(lacking, "\n"), err
	}

	if _, err := use("a"); !errors.Is(err, stream.ErrDenied) || !strings.Contains(err.Error(), "stream FAILED: it is not there") ||
		!strings.Contains(err.Error(), "run lbremedy up --setup") {
		t.Errorf("without streams: %v", err)
	}
	if _, err := admin.Setup(t.Context(), []string{"a"}, stream.Settings{Clusters: []string{"c1"}, CasesBytes: 2 << 30}); err != nil {
		t.Fatal(err)
	}
	if lacking, err := use("a"); err != nil || lacking != "" {
		t.Errorf("where all is there, and larger: %q, %v", lacking, err)
	}
	if lacking, err := use("a", "b"); err != nil || !strings.Contains(lacking, "consumer b") || !strings.Contains(lacking, "run lbremedy up --setup") {
		t.Errorf("without a consumer: %q, %v", lacking, err)
	}
	change(stream.Failed, func(c *jetstream.StreamConfig) { c.Duplicates, c.Description = time.Hour, "mine" })
	if lacking, err := use("a"); err != nil || !strings.Contains(lacking, "Stream FAILED should have description") ||
		!strings.Contains(lacking, "duplicate_window 2m0s (was 1h0m0s)") {
		t.Errorf("where it differs: %q, %v", lacking, err)
	}
	if _, err := s.Setup(t.Context(), nil, stream.Settings{}); !errors.Is(err, stream.ErrDenied) ||
		!strings.Contains(err.Error(), "duplicate_window 2m0s") {
		t.Errorf("Setup itself: %v", err)
	}
	change(stream.Failed, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 })
	if _, err := use("a"); !errors.Is(err, stream.ErrDenied) || !strings.Contains(err.Error(), "max_msgs_per_subject 1 (was 5)") {
		t.Errorf("where it can't be worked with: %v", err)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	s := nats.Connect(t, stream.Config{URL: nats.Start(t, embedded.Options{}).URL()})
	if _, err := s.Setup(t.Context(), nil, stream.Settings{CasesBytes: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	appends := func(i int) error {
		_, err := s.AppendRecord(t.Context(), "c1", fmt.Sprintf("u%d", i), "a", fmt.Sprint(i), nil, make([]byte, 8<<10), 0)
		return err
	}
	i := 0
	for ; s.Room() == nil && i < 100; i++ {
		if err := appends(i); err != nil && !errors.Is(err, stream.ErrFull) {
			t.Fatal(err)
		}
	}
	if err := s.Room(); !errors.Is(err, stream.ErrFull) || !strings.Contains(err.Error(), "CASES") || !strings.Contains(err.Error(), "--journal-size") {
		t.Errorf("after %d records: %v", i, err)
	}
	if _, err := s.Setup(t.Context(), nil, stream.Settings{CasesBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := appends(i); err != nil || s.Room() != nil {
		t.Errorf("with more room: %v, %v", err, s.Room())
	}
}
