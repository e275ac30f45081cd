package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"

	"github.com/lbremedy/lbremedy/shared/event"
)

// A Key signs requests.
type Key struct {
	ID     string // access key ID
	Secret string // access key secret
	Token  string // security token of temporary credentials, or empty
}

// Static returns Credentials that always return the same key.
func Static(k Key) Credentials {
	return func(context.Context) (Key, error) { return k, nil }
}

// DefaultChain returns the SDK's chain of environment, files of the aliyun command line and role of the instance, or the service account's role.
func DefaultChain() Credentials {
	return chain(func() func() (Key, error) {
		var places credentials.CredentialsProvider = credentials.NewDefaultCredentialsProvider()
		if roleOfAccount() != "" {
			role, err := credentials.NewOIDCCredentialsProviderBuilder().Build()
			if err != nil {
				return func() (Key, error) { return Key{}, err }
			}
			places = role
		}
		return func() (Key, error) {
			found, err := places.GetCredentials()
			if err != nil {
				return Key{}, err
			}
			return Key{ID: found.AccessKeyId, Secret: found.AccessKeySecret, Token: found.SecurityToken}, nil
		}
	})
}

// noKey returns the error of a chain without a key, with the way out. It leaves out the chain's own error, which may quote secrets.
func noKey() error {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return errors.New("no access key found: this Pod has no RAM role. Install the add-on ack-pod-identity-webhook, label the namespace " +
			"pod-identity.alibabacloud.com/injection=on and create the Pod again; or set rrsa.provider and rrsa.account of the chart; " +
			"or set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET")
	}
	return errors.New("no access key found: set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, " +
		"log in with the aliyun command line, or run where a RAM role is attached")
}

// roleOfAccount returns the RAM role for the token of a service account (RRSA) in the environment, or "". An access key takes precedence. If
// the role cannot be assumed, the chain fails: its next place would be the node's role, which has other permissions.
func roleOfAccount() string {
	if os.Getenv("ALIBABA_CLOUD_ACCESS_KEY_ID") != "" && os.Getenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET") != "" ||
		os.Getenv("ALIBABA_CLOUD_OIDC_PROVIDER_ARN") == "" || os.Getenv("ALIBABA_CLOUD_OIDC_TOKEN_FILE") == "" {
		return ""
	}
	return os.Getenv("ALIBABA_CLOUD_ROLE_ARN")
}

func noKeyAs(err error) error {
	role := roleOfAccount()
	if role == "" {
		return noKey()
	}
	return fmt.Errorf("the RAM role %s could not be assumed with the token of the service account: %s", role, ofSTS(err))
}

// ofSTS returns the answer of STS, or the reason why none came, without secrets.
func ofSTS(err error) string {
	var refused interface {
		ErrorCode() string
		Message() string
	}
	var unsent *url.Error
	said := struct{ Code, Message string }{}
	if errors.As(err, &refused) {
		said.Code, said.Message = refused.ErrorCode(), refused.Message()
	} else if _, body, ok := strings.Cut(err.Error(), "{"); ok {
		_ = json.Unmarshal([]byte("{"+body), &said) // on an error STS did not send this text, and the whole text is reported
	}
	text := err.Error()
	switch {
	case said.Code != "":
		text = "STS says " + said.Code + ": " + said.Message
	case errors.As(err, &unsent):
		host := unsent.URL
		if u, err := url.Parse(unsent.URL); err == nil {
			host = u.Host
		}
		text = fmt.Sprintf("%s does not answer: %v", host, unsent.Err)
	}
	return event.Line(text, mostOfSTS)
}

// mostOfSTS is the longest answer of STS in an error, in bytes.
const mostOfSTS = 400

// chain returns Credentials that are safe for several goroutines and return when their context ends. The SDK's chain does neither, and stays
// with a place that has failed: one goroutine at a time uses it, and open makes a new chain after a failure.
func chain(open func() func() (Key, error)) Credentials {
	var mu sync.Mutex
	var ask func() (Key, error)
	next := func() (Key, error) {
		mu.Lock()
		defer mu.Unlock()
		if ask == nil {
			ask = open()
		}
		k, err := ask()
		if err != nil {
			ask = nil
			return Key{}, noKeyAs(err)
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
			k, err := next()
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
