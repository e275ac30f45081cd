package cli_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
)

type slow struct {
	happens func()
	io.Reader
}

func (s *slow) Read(to []byte) (int, error) {
	s.happens()
	return s.Reader.Read(to)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	silent, end := io.Pipe()
	defer time.AfterFunc(20*time.Second, func() { end.Close() }).Stop() // makes whatever still waits for an answer fail
	t.Cleanup(func() { end.Close() })
	var asked strings.Builder
	p := cli.New("dev")
	p.In, p.Err, p.Getenv = &slow{interrupt, silent}, &asked, func(string) string { return "" }
	p, _ = p.Call(ctx)
	if err := p.Typed("web", "--shared"); !errors.Is(err, context.Canceled) || !strings.Contains(asked.String(), "type web") {
		t.Errorf("asked %q, it says %v", asked.String(), err)
	}
}
