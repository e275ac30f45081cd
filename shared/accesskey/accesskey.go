// Package accesskey looks for an access key of Alibaba Cloud by the chain of an SDK.
// There are two: that of the API clients, and that of the signer of the courier.
package accesskey

import (
	"context"
	"errors"
	"sync"
)

// A Key is what requests are signed with.
type Key struct {
	ID     string // access key ID
	Secret string // access key secret
	Token  string // security token of temporary credentials; else empty
}

// None returns the error of a chain that finds no key: set one in the environment, or do
// as otherwise says. It is all that is said: the chain's own text lists what
// each place answered, which may quote files and answers that hold secrets.
func None(otherwise string) error {
	return errors.New("no access key found: set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, " + otherwise)
}

// Chain returns a source of keys that is safe for several goroutines and ends with its
// context. Open returns how to ask a new chain, which is neither, and sticks to a place
// that has failed: so it is asked by one at a time, waited for in the background, and
// opened anew after a failure. Of every failure none is all that is said.
func Chain(open func() func() (Key, error), none error) func(context.Context) (Key, error) {
	var mu sync.Mutex
	var ask func() (Key, error)
	look := func() (Key, error) {
		mu.Lock()
		defer mu.Unlock()
		if ask == nil {
			ask = open()
		}
		k, err := ask()
		if err != nil {
			ask = nil
			return Key{}, none
		}
		return k, nil
	}
	return func(ctx context.Context) (Key, error) {
		type result struct {
			key Key
			err error
		}
		done := make(chan result, 1)
		go func() {
			k, err := look()
			done <- result{k, err}
		}()
		select {
		case r := <-done:
			return r.key, r.err
		case <-ctx.Done():
			return Key{}, ctx.Err()
		}
	}
}
