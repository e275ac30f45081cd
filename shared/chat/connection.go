package chat

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/retry"
)

const (
	firstWait = time.Second // after the first failed connection
	lastWait  = time.Minute
	frameSize = 1 << 20
	atOnce    = 16               // clicks handled concurrently
	writeIn   = 5 * time.Second  // one frame
	silence   = 3 * time.Minute  // the connection is dead after hearing nothing from the platform for this long
	pinged    = 50 * time.Second // interval of our pings
)

type link struct {
	*websocket.Conn
	mu sync.Mutex // guards writes
}

var errMove = errors.New("the platform ends the connection")

// dial connects to an address from the platform, whose query contains a secret.
func dial(ctx context.Context, address *url.URL) (*link, error) {
	if address.Scheme != "wss" && !(address.Scheme == "ws" && net.ParseIP(address.Hostname()).IsLoopback()) {
		return nil, fmt.Errorf("the platform names an address that does not begin with wss://")
	}
	dialer := *websocket.DefaultDialer
	dialer.HandshakeTimeout = answerIn
	conn, answer, err := dialer.DialContext(ctx, address.String(), nil)
	if answer != nil && answer.Body != nil {
		defer answer.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address.Host, bare(err))
	}
	conn.SetReadLimit(frameSize)
	return &link{Conn: conn}, nil
}

func (l *link) send(kind int, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.SetWriteDeadline(time.Now().Add(writeIn)); err != nil {
		return err
	}
	return l.WriteMessage(kind, data)
}

// serve reads frames until ctx or the connection ends, and returns why it ended. It calls take for each frame concurrently.
func (l *link) serve(ctx context.Context, every time.Duration, ping func() error, take func(kind int, data []byte) error) error {
	defer l.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce + 2) // the others ping and read
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	alive := func() { _ = l.SetReadDeadline(time.Now().Add(silence)) }
	alive()
	l.SetPongHandler(func(string) error { alive(); return nil })
	g.Go(func() error {
		for retry.Sleep(ctx, every) {
			if err := ping(); err != nil {
				return fmt.Errorf("ping: %w", err)
			}
		}
		return nil
	})
	g.Go(func() error {
		for {
			kind, data, err := l.ReadMessage()
			if err != nil {
				return err
			}
			alive()
			g.Go(func() error { return take(kind, data) })
		}
	})
	return g.Wait()
}

func (c Config) keep(ctx context.Context, connect func(context.Context) error) {
	backoff := retry.Backoff(firstWait, lastWait)
	for ctx.Err() == nil {
		began := c.Now()
		err := connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.Now().Sub(began) > lastWait || errors.Is(err, errMove) {
			backoff = retry.Backoff(firstWait, lastWait)
		}
		if errors.Is(err, errMove) {
			c.Log.Info("the platform of the chat wants another connection")
			continue
		}
		wait := retry.Spread(backoff.Step())
		c.Log.Warn("not listening for clicks in the chat", "error", event.Redact(err.Error()), "again", wait.String())
		retry.Sleep(ctx, wait)
	}
}
