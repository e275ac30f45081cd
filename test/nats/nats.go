// Package nats provides tests with a NATS server and connections.
package nats

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

// Start starts a server until the test ends, by default in a directory of its own and on a free port.
func Start(t testing.TB, o embedded.Options) *embedded.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Port == 0 {
		o.Port = -1
	}
	server, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// Connect connects to a server until the test ends.
func Connect(t testing.TB, c stream.Config) *stream.Stream {
	t.Helper()
	s, err := stream.Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// JetStream returns a connection to a server's JetStream until the test ends, for calls that package stream does not need.
func JetStream(t testing.TB, url string, options ...natsgo.Option) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect(url, append(options, natsgo.MaxReconnects(-1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Backup copies a stream from a server, like "nats stream backup".
func Backup(ctx context.Context, url, stream string, options ...natsgo.Option) error {
	conn, err := natsgo.Connect(url, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	if err := ask(ctx, conn, "STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": inbox, "chunk_size": 64 << 10}); err != nil {
		return err
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil || len(m.Data) == 0 {
			return err
		}
		if m.Reply == "" {
			continue // the server needs no acknowledgement of this part
		}
		if err := m.Respond(nil); err != nil {
			return err
		}
	}
}

// Delete deletes a stream with its messages.
func Delete(ctx context.Context, url, stream string, options ...natsgo.Option) error {
	conn, err := natsgo.Connect(url, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	return ask(ctx, conn, "STREAM.DELETE."+stream, nil)
}

func ask(ctx context.Context, conn *natsgo.Conn, what string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	m, err := conn.RequestWithContext(ctx, "$JS.API."+what, data)
	if err != nil {
		return err
	}
	var said struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &said); err != nil || said.Error == nil {
		return err
	}
	return said.Error
}

// Patience sets how long a server (its URL with the token, if any) waits for a handler's sign of life about a message, by default 30 s.
func Patience(t testing.TB, url, cluster, class string, d time.Duration) {
	t.Helper()
	set := func() error {
		conn, err := natsgo.Connect(url)
		if err != nil {
			return err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		consumer, err := js.Consumer(t.Context(), stream.Failed, stream.ConsumerOf(cluster, class))
		if err != nil {
			return err
		}
		c := consumer.CachedInfo().Config
		c.AckWait = d
		_, err = js.UpdateConsumer(t.Context(), stream.Failed, c)
		return err
	}
	if err := set(); err != nil {
		t.Fatal(err)
	}
}

// Empty removes all messages and keys from a server's streams.
func Empty(t testing.TB, url string) {
	t.Helper()
	empty := func() error {
		conn, err := natsgo.Connect(url)
		if err != nil {
			return err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		names := js.StreamNames(t.Context())
		for name := range names.Name() {
			s, err := js.Stream(t.Context(), name)
			if err != nil {
				return err
			}
			if s.CachedInfo().State.Msgs == 0 {
				continue // a purge writes to the disk
			}
			if err := s.Purge(t.Context()); err != nil {
				return err
			}
		}
		return names.Err()
	}
	if err := empty(); err != nil {
		t.Fatal(err)
	}
}

// Refused makes calls, by name, that the server must reject. Rejected users get no answer, so each takes two seconds; all run at once.
func Refused(t *testing.T, all map[string]func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for doing, do := range all {
		wait.Go(func() {
			if err := do(ctx); err == nil {
				t.Errorf("%s: it was allowed", doing)
			}
		})
	}
	wait.Wait()
}

// As returns a server's URL for a user with a password.
func As(url, user, password string) string {
	return strings.Replace(url, "://", "://"+user+":"+password+"@", 1)
}

// Streams starts a server, sets up its streams for these classes, and connects to it.
func Streams(t testing.TB, classes ...string) *stream.Stream {
	t.Helper()
	s := Connect(t, stream.Config{URL: Start(t, embedded.Options{}).URL()})
	if _, err := s.Setup(t.Context(), classes, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Behind adds a node that stops following a stream, and answers about half of all requests for its messages, at random, with old data.
func Behind(t testing.TB, url, name string) {
	t.Helper()
	if err := behind(t.Context(), JetStream(t, url), name); err != nil {
		t.Fatal(err)
	}
}

// behind is Behind. A full mirror that accepts nothing new answers in the stream's name.
func behind(ctx context.Context, js jetstream.JetStream, name string) error {
	of, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	has := of.CachedInfo().State
	copied, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "behind", Mirror: &jetstream.StreamSource{Name: name}, Storage: jetstream.MemoryStorage, AllowDirect: true, MirrorDirect: true,
		AllowMsgTTL: true, MaxMsgs: int64(has.Msgs), Discard: jetstream.DiscardNew,
	})
	for err == nil && copied.CachedInfo().State.LastSeq < has.LastSeq {
		_, err = copied.Info(ctx)
	}
	return err
}
