package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// idle is how long an unused connection is kept: longer than platforms do, so they never send a request on one that is ending.
const idle = 15 * time.Minute

// drain is how long requests in hand may take at shutdown: the engine waits 75 s for an answer.
const drain = 90 * time.Second

const sending = 30 * time.Second

// Timed limits the time in which a body arrives, even unread: net/http reads the rest of a body before it answers, and would wait
// forever. The limit ends with the body, since an answer may take longer.
func Timed(h http.Handler, sending time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody && c.SetReadDeadline(time.Now().Add(sending)) == nil {
			r.Body = &timedBody{r.Body, func() { _ = c.SetReadDeadline(time.Time{}) }}
		}
		h.ServeHTTP(w, r)
	})
}

type timedBody struct {
	io.ReadCloser
	whole func()
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole()
	}
	return n, err
}

// Serve answers on the listener until ctx ends, then lets the requests in hand finish.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: Timed(h, sending), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idle, MaxHeaderBytes: 32 << 10, Protocols: protocols}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return server.Shutdown(last)
}
