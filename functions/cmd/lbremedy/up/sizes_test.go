package up_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/operator"
)

// The alert's advice on a full stream works: a refused publisher that retries succeeds, and the next setup keeps the size.
func TestAdviceOnAFullStream(t *testing.T) {
	c, s := operator.Embed(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got := c.Run(ctx, "up", "--setup", "--cluster", "c1", "--journal-size", "64Ki", "--journal-age", "3d"); got.Code != 0 ||
		!strings.Contains(got.Out, "max_bytes 65536 (was 1073741824)") {
		t.Fatalf("setup: %+v", got)
	}
	appends := func(i int) error {
		_, err := s.AppendRecord(ctx, "c1", fmt.Sprintf("u%d", i), "tag-missing", fmt.Sprint(i), nil, make([]byte, 8<<10), 0)
		return err
	}
	i := 0
	var err error
	for ; err == nil; i++ {
		err = appends(i)
	}
	if !errors.Is(err, stream.ErrFull) {
		t.Fatal(err)
	}
	if err := up.Ready(nil, s, policyfile.FromNothing(new(cli.Program).ParsePolicy))(ctx); !errors.Is(err, stream.ErrFull) {
		t.Errorf("/readyz says %v", err)
	}
	through := make(chan error, 1)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for err := appends(i); ; err = appends(i) {
			if !errors.Is(err, stream.ErrFull) {
				through <- err
				return
			}
			<-tick.C
		}
	}()
	alerts, err := os.ReadFile("../../../../infra/observability/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	advice := regexp.MustCompile(`(?s)alert: LbremedyStreamFull.*?action: [^\n]*?lbremedy (up) (--setup), for CASES by (--journal-size) (\S+),`).
		FindStringSubmatch(string(alerts))
	if advice == nil {
		t.Fatal("the alert names no command")
	}
	if got := c.Run(ctx, advice[1:]...); got.Code != 0 || !strings.Contains(got.Out, "Changed stream CASES: max_bytes 4294967296 (was 65536).") {
		t.Errorf("what the alert says: %+v", got)
	}
	if err := <-through; err != nil {
		t.Errorf("the publisher ended with %v", err)
	}
	if err := up.Ready(nil, s, policyfile.FromNothing(new(cli.Program).ParsePolicy))(ctx); err != nil {
		t.Errorf("/readyz says %v", err)
	}
	if got := c.Run(ctx, "up", "--setup", "--cluster", "c1"); got.Out != "Everything is up to date.\n" {
		t.Errorf("the next setup: %+v", got)
	}
	fills, err := s.Fills(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fills {
		if f.Stream == stream.Cases && f.Limit != 4<<30 {
			t.Errorf("the journal takes %d bytes", f.Limit)
		}
	}
}

func TestWrongSizes(t *testing.T) {
	c, _ := operator.Embed(t)
	for _, args := range [][]string{
		{"--journal-size", "big"}, {"--journal-size", "-1Gi"}, {"--journal-size", "0"}, {"--dead-size", "1k"},
		{"--journal-age", "30"}, {"--failures-age", "-3d"}, {"--dead-age", "5m"}, {"--journal-age", "NaNd"}, {"--journal-age", "1e300d"},
	} {
		if got := c.Run(t.Context(), append([]string{"up", "--setup"}, args...)...); got.Code != 2 || !strings.Contains(got.Err, args[0]) {
			t.Errorf("setup %v: %+v", args, got)
		}
	}
}
