package scene

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// A store is the etcd behind the cluster's API server. What is written there
// comes to light as if the API server had written it: it reads JSON as well as
// what it writes itself. So thousands of objects take seconds.
type store struct{ address string }

// atOnce is how many writes are under way at the same time.
const atOnce = 8

// An op is a part of a transaction, or of a question, in etcd's JSON.
type op map[string]any

// put writes objects by their keys, each of which must not be there yet. Each has a
// transaction of its own, as with the API server: one of many objects gives all of them
// one revision, and a watch that begins in the midst of it never sees the others.
func (s store) put(ctx context.Context, objects map[string]any) error {
	return each(slices.Sorted(maps.Keys(objects)), func(k string) error {
		value, err := encode(objects[k])
		if err != nil {
			return err
		}
		fresh := []op{{"key": []byte(k), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}}
		var out struct{ Succeeded bool }
		if err := s.call(ctx, "txn", op{"compare": fresh, "success": []op{{"requestPut": op{"key": []byte(k), "value": value}}}}, &out); err != nil {
			return err
		}
		if !out.Succeeded {
			return fmt.Errorf("%s is there already", k)
		}
		return nil
	})
}

// drop deletes what is there of these keys.
func (s store) drop(ctx context.Context, keys []string) error {
	return each(keys, func(k string) error {
		return s.call(ctx, "txn", op{"success": []op{{"requestDeleteRange": op{"key": []byte(k)}}}}, nil)
	})
}

// each does the same with all keys, some at once, and returns what went wrong.
func each(keys []string, do func(string) error) error {
	var work sync.WaitGroup
	errs := make([]error, min(atOnce, len(keys)))
	for i := range errs {
		work.Go(func() {
			for n := i; n < len(keys) && errs[i] == nil; n += len(errs) {
				errs[i] = do(keys[n])
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// below returns the ends of the keys that begin so.
func (s store) below(ctx context.Context, prefix string) (map[string]bool, error) {
	end := []byte(prefix)
	end[len(end)-1]++
	var out struct{ Kvs []struct{ Key []byte } }
	if err := s.call(ctx, "range", op{"key": []byte(prefix), "range_end": end, "keys_only": true}, &out); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, kv := range out.Kvs {
		found[string(kv.Key[len(prefix):])] = true
	}
	return found, nil
}

// call makes a call of etcd's key-value service and reads the answer into out,
// which may be nil.
func (s store) call(ctx context.Context, method string, in, out any) error {
	if s.address == "" {
		return errors.New("write to etcd: nobody knows where it is")
	}
	data, err := encode(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address+"/v3/kv/"+method, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var refused struct{ Message string }
		err := json.NewDecoder(resp.Body).Decode(&refused)
		return errors.Join(fmt.Errorf("write to etcd: %s: %s", resp.Status, refused.Message), err)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read etcd's answer: %w", err)
	}
	return nil
}
