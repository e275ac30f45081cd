package observe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// A client can't hold a connection of the health port by sending or reading nothing.
func TestHealthPortIsBounded(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(Open(l, func(context.Context) error { return nil }, http.NotFoundHandler(), slog.New(slog.DiscardHandler)))
	for name, request := range map[string]string{
		"half a request":                "GET /healthz HTTP/1.1\r\nHost: x\r\n",
		"a body that never comes":       "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"a chunked body without an end": "GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
		"a body to no page":             "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(4 * hearing)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
	for page, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/x": 404} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", page)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s answers %v, %v", page, answer, err)
		}
	}
}
