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

// Compact has etcd forget all that came before: a watch or a page of a list from
// any resourceVersion that was seen until now ends with 410 Gone, as after five
// quiet minutes in production.
//
// That is so for Events, which the API server does not cache. For other
// resources its watch cache still answers from memory.
//
// The test must have the cluster for itself: what others watch, it would end too.
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

// Forget is Compact for a program, whose cluster is its own.
func (c *Cluster) Forget(ctx context.Context) error {
	// A watch from the newest resourceVersion starts at the revision after it,
	// which has to be one that is forgotten: there are two writes behind it.
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

// Revision returns how far etcd has counted its writes.
func (c *Cluster) Revision(ctx context.Context) (uint64, error) {
	revision, err := c.etcd(ctx, "range", map[string]any{"key": []byte("lbremedy/compact")})
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return strconv.ParseUint(revision, 10, 64)
}

// Bump has an etcd that was restored from a copy count on from a revision that it had reached before, and forget all that was
// earlier, as etcdutl's "snapshot restore --bump-revision --mark-compacted" does. Who watches lists anew then, and does not
// wait until the revision of its watch comes again.
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

// count has etcd make so many writes of which nobody reads anything.
func (c *Cluster) count(ctx context.Context, writes uint64) error {
	for range writes {
		if _, err := c.etcd(ctx, "put", map[string]any{"key": []byte("lbremedy/compact"), "value": []byte{}}); err != nil {
			return err
		}
	}
	return nil
}

// etcd makes a call of etcd's key-value service in JSON and returns the revision of the answer.
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
