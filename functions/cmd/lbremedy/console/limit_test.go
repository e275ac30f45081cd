package console

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A connection is closed if it is idle or an announced request does not arrive. An answer in progress continues.
func TestLimited(t *testing.T) {
	const limit = 200 * time.Millisecond
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.FormValue("token")) })
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(4 * limit):
			fmt.Fprintln(w, "still there")
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := limited(mux, limit, limit)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for name, tt := range map[string]struct{ sent, want string }{
		"a body that never comes":     {"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", ""},
		"of a page that there is not": {"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "404 Not Found"},
		"nothing more":                {"GET /none HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found"},
		"the stream of changes":       {"GET /live HTTP/1.1\r\nHost: x\r\n\r\n", "still there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, tt.sent); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(conn) // until the connection closes
			if err != nil || !strings.Contains(string(all), tt.want) {
				t.Errorf("got %q, %v; want %q and the end", all, err, tt.want)
			}
		})
	}
}
