package kube

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A lease whose renewal hangs is used until its end.
func TestRenewalHangs(t *testing.T) {
	config := []byte(`{"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],
		"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`)
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := &lessor{turn: make(chan struct{}, 1), lend: func(ctx context.Context) (Lease, error) {
			if asked++; asked > 1 {
				<-ctx.Done()
			}
			return Lease{Kubeconfig: config, Ends: time.Now().Add(4 * time.Minute)}, ctx.Err()
		}}
		requests := func() (failed int) {
			var wait sync.WaitGroup
			var mu sync.Mutex
			for range 10 {
				wait.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if _, err := l.get(ctx, nil); err != nil || ctx.Err() != nil {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				})
			}
			wait.Wait()
			return failed
		}
		first, err := l.get(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			began := time.Now()
			if n := requests(); n != 0 {
				t.Errorf("%d of 10 requests failed with a valid lease", n)
			}
			if took := time.Since(began); took > renewing {
				t.Errorf("10 requests took %s, want %s at most", took, renewing)
			}
			time.Sleep(again)
		}
		if asked != 3 {
			t.Errorf("it was asked for %d leases, want one and a renewal every %s", asked, again)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if client, err := l.get(ctx, first); err == nil {
			t.Errorf("got %p, want an error after the API server rejected %p", client, first)
		}
		time.Sleep(4 * time.Minute)
		if n := requests(); n != 10 {
			t.Errorf("%d of 10 requests failed after the end of the lease", n)
		}
	})
}
