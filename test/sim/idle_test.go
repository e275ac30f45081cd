package sim_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/sim"
)

// TestIdle checks that Idle waits for a request in progress, even if its client is gone.
func TestIdle(t *testing.T) {
	c := sim.New(t, &sim.World{})
	if err := c.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := make(chan struct{})
	asked := make(chan error, 1)
	go func() {
		q, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+c.Addr()+"/", reader{body})
		if err == nil {
			var a *http.Response
			if a, err = http.DefaultClient.Do(q); err == nil {
				a.Body.Close()
			}
		}
		asked <- err
	}()
	for {
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := c.Idle(short)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(body)
	if err := c.Idle(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

type reader struct{ until chan struct{} }

func (r reader) Read(p []byte) (int, error) {
	<-r.until
	return strings.NewReader("").Read(p)
}
