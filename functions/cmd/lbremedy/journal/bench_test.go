package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/operator"
)

func BenchmarkLs(b *testing.B) {
	const services, records = 10_000, 5
	server, err := embedded.Start(embedded.Options{Dir: b.TempDir(), Port: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	s, err := stream.Connect(b.Context(), stream.Config{URL: server.URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	if _, err := s.Setup(b.Context(), nil, stream.Settings{}); err != nil {
		b.Fatal(err)
	}
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(64)
	for i := range services {
		g.Go(func() error {
			r := operator.Journalled()[2]
			r.Service.UID = fmt.Sprintf("%08x-2222-2222-2222-222222222222", i)
			r.Service.Name = fmt.Sprintf("web-%d", i)
			r.Case = r.Service.UID[:8] + "-20260102T150405"
			for n := range records {
				r.At = r.At.Add(time.Duration(n) * time.Second)
				if err := operator.Seed(ctx, s, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	for _, args := range []string{"ls", "ls -o json", "ls --all -o json", "ls --class vswitch-ip-exhausted --result needs-action", "show 00000007",
		"show shop/web-7"} {
		b.Run(strings.ReplaceAll(args, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				var out bytes.Buffer
				p := operator.Call{}.Program(&out, io.Discard)
				if code := root.Run(context.WithoutCancel(b.Context()), p, append(strings.Fields(args), "--nats", server.URL())); code != 0 {
					b.Fatalf("code %d", code)
				}
			}
		})
	}
}
