package fc_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aliyun/fc-runtime-go-sdk/fc"
	"github.com/aliyun/fc-runtime-go-sdk/fccontext"

	"github.com/lbremedy/lbremedy/test/sim/fc"
)

// TestMain runs a function's program if a test has started this binary for it.
func TestMain(m *testing.M) {
	if os.Getenv("FC_RUNTIME_API") == "" {
		os.Exit(m.Run())
	}
	sdk.RegisterInitializerFunction(func(context.Context) {})
	sdk.RegisterPreStopFunction(func(context.Context) { panic("can't stop") })
	sdk.Start(func(ctx context.Context, payload []byte) (json.RawMessage, error) {
		c, _ := fccontext.FromContext(ctx)
		switch string(payload) {
		case "fail":
			return nil, errors.New("no")
		case "panic":
			panic("oh no")
		case "wait":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return json.Marshal([]string{string(payload), c.RequestID, c.Credentials.AccessKeyId, c.Credentials.SecurityToken})
	})
}

func TestSDK(t *testing.T) {
	t.Parallel()
	r := fc.New(t)
	function := exec.Command(os.Args[0])
	function.Env = append(os.Environ(), r.Environ("f")...)
	if err := function.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { function.Process.Kill(); function.Wait() })
	for _, tt := range []struct {
		name    string
		i       fc.Invocation
		payload string
		failure string // its type and text
	}{
		{"an initializer", fc.Invocation{Kind: fc.Initializer}, "", ""},
		{"an event", fc.Invocation{Payload: []byte("a"), Key: "k", Secret: "s", Token: "t"}, `["a","request-2","k","t"]`, ""},
		{"an error", fc.Invocation{Payload: []byte("fail")}, "", "errorString: no"},
		{"a panic", fc.Invocation{Payload: []byte("panic")}, "", "string: oh no"},
		{"after the panic", fc.Invocation{Payload: []byte("b")}, `["b","request-5","",""]`, ""},
		{"a deadline", fc.Invocation{Payload: []byte("wait"), Timeout: 2 * time.Second, Header: map[string]string{"x-fc-function-deadline": "1"}}, "",
			"deadlineExceededError: context deadline exceeded"},
		{"a hook that fails", fc.Invocation{Kind: fc.PreStop}, "", "string: can't stop"},
	} {
		got, err := r.Invoke(t.Context(), tt.i)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		switch {
		case tt.failure == "" && (got.Failure != nil || string(got.Payload) != tt.payload):
			t.Errorf("%s: got %s", tt.name, got.Payload)
		case tt.failure != "" && (got.Failure == nil || got.Failure.Type+": "+got.Failure.Message != tt.failure):
			t.Errorf("%s: got %s", tt.name, got.Payload)
		}
	}
	// The SDK does not answer an invocation without a deadline.
	_, err := r.Invoke(t.Context(), fc.Invocation{Payload: []byte("a"), Timeout: time.Second, Header: map[string]string{"x-fc-function-deadline": ""}})
	if !errors.Is(err, fc.ErrTimeout) {
		t.Errorf("without a deadline: %v", err)
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if got, err := r.Invoke(t.Context(), fc.Invocation{Payload: []byte("x")}); err != nil || !strings.HasPrefix(string(got.Payload), `["x"`) {
				t.Errorf("got %s, %v", got.Payload, err)
			}
		})
	}
	all.Wait()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Invoke(ended, fc.Invocation{Payload: []byte("wait")}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r.Polls() < 10 {
		t.Errorf("it has asked %d times", r.Polls())
	}
}
