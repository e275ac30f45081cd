// Package nats gives a test a NATS server of its own, and connections to it.
package nats

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

// Start starts a server that runs until the test ends. Without a directory it gets one
// of its own, and without a port a free one.
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

// Streams starts a server, sets its streams up for these classes, and connects to it.
func Streams(t testing.TB, classes ...string) *stream.Stream {
	t.Helper()
	s := Connect(t, stream.Config{URL: Start(t, embedded.Options{}).URL()})
	if _, err := s.Setup(t.Context(), classes, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	return s
}
