package operator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/shell"
)

// An UpRun is a running up.
type UpRun struct {
	records chan event.Record // about the Service of the testbed
	Errs    *shell.Log
	cancel  context.CancelFunc
	ended   chan int
}

// Policy changes the policy file of calls of Up that name no other one.
func (sc *Testbed) Policy(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(sc.Env["HOME"], "policy.yaml")
	err := os.WriteFile(file+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file) // atomically
	}
	if err != nil {
		t.Fatal(err)
	}
}

// PutInForce stores a policy for commands, like the engine of a cluster.
func PutInForce(t *testing.T, s *stream.Stream, cluster, text string) {
	t.Helper()
	v, err := new(cli.Program).ParsePolicy([]byte(text))
	if err == nil {
		err = policy.InForce{Version: v.Digest, Text: v.Text, Source: "policy.yaml", Since: time.Now()}.Put(t.Context(), s, cluster)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Up starts "lbremedy up", which observes until Policy changes that, or uses the policy in the arguments.
func (sc *Testbed) Up(t *testing.T, args ...string) *UpRun {
	t.Helper()
	if !slices.Contains(args, "--policy") {
		sc.Policy(t, "mode: observe\n")
		args = append(args, "--policy", filepath.Join(sc.Env["HOME"], "policy.yaml"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	u := &UpRun{records: make(chan event.Record, 1000), Errs: &shell.Log{}, cancel: cancel, ended: make(chan int, 1)}
	t.Cleanup(cancel)
	go func() {
		p := sc.Program(in, u.Errs)
		code := root.Run(ctx, p, append([]string{"up", "-o", "json"}, args...))
		in.CloseWithError(fmt.Errorf("up ended with code %d: %s", code, u.Errs))
		u.ended <- code
	}()
	go func() {
		defer close(u.records)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if r, err := record(lines.Bytes()); err == nil && r.Service.String() == sc.Namespace+"/web" {
				u.records <- r
			}
		}
	}()
	return u
}

// Until waits for the next matching record of the Service, and returns it.
func (u *UpRun) Until(t *testing.T, wanted func(event.Record) bool) event.Record {
	t.Helper()
	late := time.After(2 * time.Minute)
	var last event.Record
	for {
		select {
		case r, ok := <-u.records:
			if !ok {
				t.Fatalf("up ended before that: %s", u.Errs)
			}
			if last = r; wanted(r) {
				return r
			}
		case <-late:
			t.Fatalf("it does not come; the last record is %+v, and up said %s", last, u.Errs)
		}
	}
}

// End stops up and checks that it ends without an error.
func (u *UpRun) End(t *testing.T) {
	t.Helper()
	u.cancel()
	select {
	case code := <-u.ended:
		if code != 0 {
			t.Errorf("up ended with code %d: %s", code, u.Errs)
		}
	case <-time.After(2 * time.Minute):
		t.Error("up does not end")
	}
}

// Address returns up's address.
func (u *UpRun) Address(t *testing.T) string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		if _, after, ok := strings.Cut(u.Errs.String(), "Health: "); ok {
			if address, ok := strings.CutSuffix(strings.SplitN(after, "\n", 2)[0], "/readyz"); ok {
				return address
			}
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("up listens nowhere: %s", u.Errs)
		}
	}
}

// Asks makes the Service's case ask for approvals, and returns it: the policy allows the fix, and an unreadable breaker holds it.
func (sc *Testbed) Asks(t *testing.T, u *UpRun, approvals string) event.Record {
	t.Helper()
	u.Until(t, func(r event.Record) bool { return r.Result == event.Planned })
	if _, err := control.RecordFailedFix(t.Context(), sc.Stream(t), "c-cli", "vswitch-ip-exhausted", "test.1", 1, say.F("It is a test.")); err != nil {
		t.Fatal(err)
	}
	sc.Policy(t, sc.Fixes()+"approvals: ["+approvals+"]\n")
	return u.Until(t, func(r event.Record) bool { return r.Result == event.Asked })
}
