package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
)

// Compact compacts etcd: a watch or a list page from any earlier resourceVersion ends with 410 Gone, as after five quiet minutes
// in production. This affects Events, which the API server does not cache; other resources are still served from its watch cache.
// It also ends other tests' watches, so the test must use the cluster exclusively.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	alone, _ := c.held(t.Name())
	c.mu.Unlock()
	if !alone {
		t.Fatal("compact a cluster that others share: call Alone or Exclusive first")
	}
	if err := c.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Forget is Compact for a program with its own cluster.
func (c *Cluster) Forget(ctx context.Context) error {
	// A watch from the newest resourceVersion starts at the next revision, which has to be compacted, too: two writes follow it.
	if err := c.count(ctx, 2); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	revision, err := c.Revision(ctx)
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if _, err := c.etcd(ctx, "compaction", map[string]any{"revision": revision, "physical": true}); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// Revision returns etcd's current revision.
func (c *Cluster) Revision(ctx context.Context) (uint64, error) {
	revision, err := c.etcd(ctx, "range", map[string]any{"key": []byte("lbremedy/compact")})
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return strconv.ParseUint(revision, 10, 64)
}

// Bump advances an etcd that was restored from a copy beyond a revision and compacts it, like etcdutl's "snapshot restore
// --bump-revision --mark-compacted". Watchers then list again, rather than wait for their revision to recur.
func (c *Cluster) Bump(ctx context.Context, beyond uint64) error {
	for {
		now, err := c.Revision(ctx)
		if err != nil {
			return err
		}
		if now > beyond {
			return c.Forget(ctx)
		}
		if err := c.count(ctx, beyond+1-now); err != nil {
			return fmt.Errorf("bump etcd's revision: %w", err)
		}
	}
}

func (c *Cluster) count(ctx context.Context, writes uint64) error {
	for range writes {
		if _, err := c.etcd(ctx, "put", map[string]any{"key": []byte("lbremedy/compact"), "value": []byte{}}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) etcd(ctx context.Context, call string, in map[string]any) (revision string, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Etcd+"/v3/kv/"+call, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct {
		Header  struct{ Revision string }
		Message string
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return "", fmt.Errorf("%s: %s: %w", call, resp.Status, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", call, resp.Status, out.Message)
	}
	return out.Header.Revision, nil
}
