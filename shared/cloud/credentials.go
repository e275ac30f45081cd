package cloud

import (
	"context"
	"errors"
	"sync"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
)

// Static returns Credentials that always give the same key.
func Static(k Key) Credentials {
	return func(context.Context) (Key, error) { return k, nil }
}

// errNoKey is all that is said when the default chain finds nothing: its own
// text lists what each place answered, which may quote files and answers that
// hold secrets.
var errNoKey = errors.New("no access key found: set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, " +
	"log in with the aliyun command line, or run where a RAM role is attached")

// DefaultChain returns the Credentials that a nil Config.Credentials stands for:
// the SDK's chain of places to look for a key. That chain is not safe for several
// goroutines, knows no context, and sticks to the last place when all of them
// failed: so it is guarded, waited for in the background, and made anew after a
// failure.
func DefaultChain() Credentials {
	var mu sync.Mutex
	var chain *credentials.DefaultCredentialsProvider
	look := func() (Key, error) {
		mu.Lock()
		defer mu.Unlock()
		if chain == nil {
			chain = credentials.NewDefaultCredentialsProvider()
		}
		found, err := chain.GetCredentials()
		if err != nil {
			chain = nil
			return Key{}, errNoKey
		}
		return Key{ID: found.AccessKeyId, Secret: found.AccessKeySecret, Token: found.SecurityToken}, nil
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
