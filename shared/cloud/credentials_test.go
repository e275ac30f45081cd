package cloud

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
)

// A chain is opened once, and again after a failure, whose error reveals nothing.
func TestChain(t *testing.T) {
	t.Parallel()
	opened, fails := 0, true
	keys := chain(func() func() (Key, error) {
		opened++
		return func() (Key, error) {
			if fails {
				return Key{ID: "half"}, errors.New("a secret")
			}
			return Key{ID: "id", Secret: "s"}, nil
		}
	})
	for range 2 {
		if k, err := keys(t.Context()); err == nil || err.Error() != noKey().Error() || k != (Key{}) {
			t.Errorf("got %v, %v", k, err)
		}
	}
	fails = false
	for range 2 {
		if k, err := keys(t.Context()); err != nil || k.ID != "id" {
			t.Errorf("got %v, %v", k, err)
		}
	}
	if opened != 3 {
		t.Errorf("the chain was opened %d times, want 3", opened)
	}
}

// A chain that hangs does not block callers whose context ends.
func TestChainHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	keys := chain(func() func() (Key, error) {
		return func() (Key, error) { <-hang; return Key{}, nil }
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := keys(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestNone(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	if err := noKey(); !strings.Contains(err.Error(), "this Pod has no RAM role") || strings.Contains(err.Error(), "log in") {
		t.Errorf("got %v", err)
	}
}

func TestRole(t *testing.T) {
	for name, value := range map[string]string{
		"ALIBABA_CLOUD_ACCESS_KEY_ID": "", "ALIBABA_CLOUD_ROLE_ARN": "acs:ram::1:role/up", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "p",
		"ALIBABA_CLOUD_OIDC_TOKEN_FILE": "/t",
	} {
		t.Setenv(name, value)
	}
	token := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"refused": {errors.New(`get session token failed: {"RequestId":"R","Code":"AuthenticationFail.NoPermission","Message":"not ` + token + `"}`),
			"STS says AuthenticationFail.NoPermission: not ***"},
		"unreachable": {&url.Error{Op: "Post", URL: "https://sts-vpc.cn-hangzhou.aliyuncs.com/?Signature=abc", Err: errors.New("no such host")},
			"sts-vpc.cn-hangzhou.aliyuncs.com does not answer: no such host"},
		"no token":   {errors.New("open /t: no such file or directory"), "open /t: no such file or directory"},
		"no sense":   {errors.New("{" + token + "\n}"), "{*** }"},
		"much":       {errors.New(strings.Repeat("ä", 300)), strings.Repeat("ä", 197) + " […]"},
		"signed URL": {errors.New("ask https://sts/?SecurityToken=CAIS123&Signature=a%2Bb"), "ask https://sts/?SecurityToken=***&Signature=***"},
	} {
		_, err := chain(func() func() (Key, error) { return func() (Key, error) { return Key{}, tt.err } })(t.Context())
		if want := "the RAM role acs:ram::1:role/up could not be assumed with the token of the service account: " + tt.want; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "id")
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "s")
	if r := roleOfAccount(); r != "" {
		t.Errorf("beside a key there is the role %s", r)
	}
}
