package control_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
)

type shifted struct {
	*stream.Stream              // a connection to it
	ahead          atomic.Int64 // nanoseconds
}

func (s *shifted) pass(d time.Duration) { s.ahead.Add(int64(d)) }

// shift returns a connection to a NATS whose clock is ahead. The stream and bucket have their own account; only the server's times are shifted.
func shift(t *testing.T, ahead time.Duration) *shifted {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `
listen: "127.0.0.1:-1"
jetstream: {store_dir: %q}
accounts {
  REAL {
    jetstream: enabled
    users: [{user: real, password: p}]
    exports: [{service: "$JS.API.INFO"}, {service: "$JS.API.DIRECT.GET.>", response_type: stream}, {service: "$KV.lbremedy.>"}]
  }
  ENGINE {
    users: [{user: engine, password: p}]
    imports: [{service: {account: REAL, subject: "$JS.API.INFO"}}, {service: {account: REAL, subject: "$JS.API.DIRECT.GET.>"}},
      {service: {account: REAL, subject: "$KV.lbremedy.>"}}]
  }
}
`, filepath.Join(dir, "data")), 0o600))
	options, err := server.ProcessConfigFile(file)
	must(t, err)
	options.NoSigs, options.NoLog = true, true
	srv, err := server.NewServer(options)
	must(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	_, err = nats.Connect(t, stream.Config{URL: nats.As(srv.ClientURL(), "real", "p")}).Setup(t.Context(), nil, stream.Settings{})
	must(t, err)
	s := &shifted{Stream: nats.Connect(t, stream.Config{URL: nats.As(srv.ClientURL(), "engine", "p")})}
	s.pass(ahead)
	plain := func(user string) *natsgo.Conn {
		conn, err := natsgo.Connect(srv.ClientURL(), natsgo.UserInfo(user, "p"))
		must(t, err)
		t.Cleanup(conn.Close)
		return conn
	}
	real, engine := plain("real"), plain("engine")
	_, err = engine.Subscribe("$JS.API.STREAM.INFO.*", func(m *natsgo.Msg) {
		var info map[string]any
		answer, err := real.Request(m.Subject, m.Data, 5*time.Second)
		if err == nil {
			err = json.Unmarshal(answer.Data, &info)
		}
		if err != nil {
			t.Error(err)
			return
		}
		now, err := time.Parse(time.RFC3339Nano, fmt.Sprint(info["ts"]))
		if err != nil {
			t.Error(err)
		}
		info["ts"] = now.Add(time.Duration(s.ahead.Load()))
		data, err := json.Marshal(info)
		if err != nil {
			t.Error(err)
		}
		_ = m.Respond(data)
	})
	must(t, err)
	must(t, engine.Flush())
	return s
}
