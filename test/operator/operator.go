// Package operator runs the whole program like an operator: with arguments, environment, standard input, a test's NATS, cluster and account.
package operator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// AsProgram makes this test binary the program with the same arguments, for tests that kill it.
const AsProgram = "LBREMEDY_TEST_AS_PROGRAM"

// Main runs the tests of a package, or the program if AsProgram is set.
func Main(m *testing.M) {
	time.Local = time.UTC // output must not depend on the time zone
	BeProgram()
	os.Exit(m.Run())
}

// BeProgram runs the program and does not return, if AsProgram is set.
func BeProgram() {
	if os.Getenv(AsProgram) != "" {
		root.Main("dev")
	}
}

// Bury adds a Service's failure to DEAD, like a worker that cannot handle it.
func Bury(t *testing.T, s *stream.Stream, class, uid, version, reason string) {
	t.Helper()
	header, data := Failure(t, class, uid, version)
	if err := s.Dead(t.Context(), reason, event.FailedSubject("c1", class, uid), header, data); err != nil {
		t.Fatal(err)
	}
}

// Failure returns a Service's failure as header and data of a message.
func Failure(t *testing.T, class, uid, version string) (map[string][]string, []byte) {
	t.Helper()
	f := fill(event.Failure{Class: class}, "c1")
	f.Service.UID, f.Event.ResourceVersion = uid, version
	e, err := event.NewFailed(f)
	if err != nil {
		t.Fatal(err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	return header, data
}

// UID returns one of many UIDs.
func UID(i int) string { return fmt.Sprintf("44444444-0000-4000-8000-%012d", i) }

// A Call is a run of the program without a terminal.
type Call struct {
	In  string
	Env map[string]string
	Now func() time.Time // nil: time.Now

	Plugin bool // of kubectl
	Types  bool // In is typed at a terminal
}

// Variables with a call's access key. They are not in the process's environment, so calls with different keys can run in parallel.
const (
	KeyID     = "ALIBABA_CLOUD_ACCESS_KEY_ID"
	KeySecret = "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
)

func (c Call) keys() cloud.Credentials {
	if c.Env[KeyID] == "" {
		return cloud.DefaultChain()
	}
	return cloud.Static(cloud.Key{ID: c.Env[KeyID], Secret: c.Env[KeySecret]})
}

// With returns the call with a changed variable.
func (c Call) With(name, value string) Call {
	c.Env = maps.Clone(c.Env)
	c.Env[name] = value
	return c
}

// Said is the result of a call.
type Said struct {
	Code     int
	Out, Err string
}

// Home returns an environment with a home directory of the test.
func Home(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"HOME": t.TempDir()}
}

// Program returns the program of a call, with its outputs.
func (c Call) Program(out, errs io.Writer) *cli.Program {
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	in := io.Reader(strings.NewReader(c.In))
	terminal := func(stream any) int {
		if c.Types && stream == any(in) {
			return 80
		}
		return 0
	}
	return &cli.Program{
		In: in, Out: out, Err: errs, Now: now, Version: "dev",
		Getenv: func(name string) string { return c.Env[name] }, Terminal: terminal, Keys: c.keys(), Plugin: c.Plugin,
	}
}

// Run calls the program with arguments.
func (c Call) Run(ctx context.Context, args ...string) Said {
	var out, errs bytes.Buffer
	p := c.Program(&out, &errs)
	code := root.Run(ctx, p, args)
	return Said{code, out.String(), errs.String()}
}

// Write writes a file to a folder of the test and returns its path.
func Write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// CloudEvent returns a failure of the Service shop/web as a JSON CloudEvent.
func CloudEvent(t *testing.T, f event.Failure, cluster string) string {
	t.Helper()
	e, err := event.NewFailed(fill(f, cluster))
	if err != nil {
		t.Fatal(err)
	}
	data, err := event.EncodeJSON(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func fill(f event.Failure, cluster string) event.Failure {
	f.Cluster, f.Reason, f.Type, f.Component = cluster, "SyncLoadBalancerFailed", "Warning", "service-controller"
	f.Service = event.Service{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"}
	f.Event = event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: "7"}
	f.Count, f.First, f.Last = 1, time.Unix(1_700_000_000, 0), time.Unix(1_700_000_000, 0)
	if f.Message == "" {
		f.Message = Message
	}
	return f
}

// Message is the controller's message about a full vSwitch.
const Message = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."

// Seed stores records in CASES, in order, and the documents of the engine that would have written them.
func Seed(ctx context.Context, s *stream.Stream, records ...event.Record) error {
	docs := map[string]*event.Document{}
	for _, r := range records {
		id, header, data, err := event.EncodeRecord(r)
		if err != nil {
			return err
		}
		key := event.StateKey(r.Cluster, r.Service.UID)
		d := docs[key]
		if d == nil {
			d = &event.Document{V: event.DocumentVersion}
			stored, err := s.Get(ctx, key)
			if err == nil {
				*d, err = event.ReadDocument(stored)
			}
			if err != nil && !errors.Is(err, stream.ErrNotFound) {
				return err
			}
			docs[key] = d
		}
		c := d.Case(r.Class)
		if c.Journaled, err = s.AppendRecord(ctx, r.Cluster, r.Service.UID, r.Class, id+"."+rand.Text(), header, data, c.Journaled); err != nil {
			return err
		}
		if err := d.Append(r); err != nil {
			return err
		}
		d.Outbox = nil
		decide(d, r)
		if r.Phase == event.Settled {
			c.Repeats, c.First, c.Last, c.Event, c.Wait, c.Errors = 1, r.At, r.At, r.Event, r.Wait, r.Errors
		}
	}
	for key, d := range docs {
		data, err := json.Marshal(d)
		if err == nil {
			err = s.Put(ctx, key, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decide(d *event.Document, r event.Record) {
	c := d.State.Case(r.Class)
	if c == nil {
		d.State.Cases = append(d.State.Cases, machine.Case{Class: r.Class})
		slices.SortFunc(d.State.Cases, func(a, b machine.Case) int { return cmp.Compare(a.Class, b.Class) })
		c = d.State.Case(r.Class)
	}
	c.Event, c.Attempt, c.Attempts, c.Plan, c.Wait = r.Event, max(c.Attempt, r.Attempt), r.Attempts, nil, machine.Wait{}
	plan := machine.Plan{Steps: len(r.Steps), Next: r.Next, Begun: r.First, Written: r.Written, Proof: time.Minute}
	over := r.Phase == event.Settled && r.Result != event.Waiting
	switch {
	case r.Result == event.Undone:
		c.Done, c.Own = nil, 0
	case r.Undoing || len(r.Made()) == 0:
	case !over:
		c.Plan = &plan
	case len(c.Done) == 0 || c.Done[len(c.Done)-1].Number != r.Attempt:
		c.Done = append(c.Done, machine.Attempt{Number: r.Attempt, Steps: r.Next, Begun: r.First})
		c.Own++
	}
	switch {
	case !over:
		c.State, c.Wait = machine.Waiting, machine.Wait{Until: r.At.Add(r.Wait), Why: machine.ForSync}
	case r.Result == event.Asked, r.Result == event.Planned, r.Result == event.Failed:
		c.State, c.Outcome = machine.Asked, machine.Outcome(r.Result)
	default:
		c.State, c.Outcome = machine.Idle, machine.Outcome(r.Result)
	}
	d.Keep(r.Class, r)
}

func record(data []byte) (event.Record, error) {
	var c journal.Case
	if err := json.Unmarshal(data, &c); err != nil {
		return event.Record{}, err
	}
	r := c.Record
	switch c.Result {
	case event.NeedsApproval, event.NeedsAction:
		r.Result = event.Asked
	case event.Recovered:
		r.Result = event.Gone
	case event.NotOurs:
		r.Result = event.OutOfScope
	case event.Writing, event.Erred:
	default:
		r.Result = event.Result(c.Result)
	}
	return r, nil
}
