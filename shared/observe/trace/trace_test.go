package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

type collector struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []*trace.ResourceSpans
	paths []string
	auth  string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in = z
	}
	data, err := io.ReadAll(in)
	var req coltrace.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(data, &req)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.paths, c.auth = append(c.seen, req.ResourceSpans...), append(c.paths, r.URL.Path), r.Header.Get("Authorization")
}

func (c *collector) spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*trace.Span
	for _, r := range c.seen {
		for _, s := range r.ScopeSpans {
			out = append(out, s.Spans...)
		}
	}
	return out
}

func env(t *testing.T, pairs ...string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
}

func start(t *testing.T) (*Sender, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := New(t.Context(), "v1", "c1", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || s == nil {
		t.Fatalf("got %v, %v", s, err)
	}
	t.Cleanup(func() { _ = end(s, 0) })
	return s, &log
}

func end(s *Sender, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return s.Shutdown(ctx)
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// record returns a run that annotated, failed at a resync step, and was still proven to work.
func record(changes ...func(*event.Record)) event.Record {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	r := event.Record{
		Origin: event.Origin{
			Case: "22222222-20260102T120000", Cluster: "c1", Class: "busy",
			Service: event.Service{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"},
			Event:   "11111111-1111-1111-1111-111111111111.3.700", Message: "it is busy", EventTime: noon, Recorded: at(500),
		},
		Run:      event.Run{Began: at(800), At: at(9000), Phase: event.Settled, Result: event.Fixed, Who: "worker", Attempt: 1},
		Decision: event.Decision{Mode: "fix"},
		Plan: event.Plan{Steps: []event.StepRecord{
			{Kind: "annotate", Text: say.Literal("annotate a=b"), Target: "service/x", Risk: "low", Began: at(1500), Ended: at(1600),
				Calls: []event.Call{
					{At: at(1550), Action: "slb:TagResources", Resource: "lb-1", Request: "R-1"},
					{At: at(1590), Action: "patch services", Resource: "shop/web", Error: "Conflict"},
				}},
			{Kind: "resync", Text: say.Literal("trigger a resync"), Target: "service/x", Risk: "low", Began: at(1700), Ended: at(2000)},
		}},
		Progress: event.Progress{Next: 2},
		Outcome: event.Outcome{Timings: event.Timings{
			Queue: 800 * time.Millisecond, Resume: 50 * time.Millisecond, Diagnose: 400 * time.Millisecond, Decide: 100 * time.Millisecond,
			Apply: 600 * time.Millisecond, Verify: 7 * time.Second,
		}},
	}
	r.Trace = event.TraceOf(r.Cluster, r.Event)
	for _, change := range changes {
		change(&r)
	}
	return r
}

const ofRun = 12

func tree(spans []*trace.Span) []string {
	var out []string
	var below func(parent, indent string)
	known := map[string]bool{}
	for _, s := range spans {
		known[hex.EncodeToString(s.SpanId)] = true
	}
	sorted := slices.SortedStableFunc(slices.Values(spans), func(a, b *trace.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	ms := func(n uint64) int64 { return (int64(n) - noon.UnixNano()) / 1e6 }
	below = func(parent, indent string) {
		for _, s := range sorted {
			of := hex.EncodeToString(s.ParentSpanId)
			if of == parent || parent == "" && !known[of] {
				line := fmt.Sprintf("%s%s %d-%d", indent, s.Name, ms(s.StartTimeUnixNano), ms(s.EndTimeUnixNano))
				if code := s.GetStatus().GetCode(); code == trace.Status_STATUS_CODE_ERROR {
					line += " error: " + s.Status.Message
				}
				out = append(out, line)
				below(hex.EncodeToString(s.SpanId), indent+"  ")
			}
		}
	}
	below("", "")
	return out
}

func attributes(of []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range of {
		if out[a.Key] = a.Value.GetStringValue(); out[a.Key] == "" {
			out[a.Key] = fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return out
}

func TestOnRun(t *testing.T) {
	c := newCollector(t)
	env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL+"/base", "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip",
		"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	s, log := start(t)
	r := record()
	// A record read back from JSON gives the same spans.
	var again event.Record
	if data, err := json.Marshal(r); err != nil || json.Unmarshal(data, &again) != nil {
		t.Fatal(err)
	}
	s.OnRun(record(func(r *event.Record) { r.Phase = event.Step })) // it has not ended
	s.OnRun(r)
	s.OnRun(again)
	s.OnRun(record(func(r *event.Record) {
		r.Prior, r.Began, r.At = r.At, r.At.Add(time.Second), r.At.Add(2*time.Second)
		r.Result, r.Error = event.Waiting, "token=abcdefgh12345678 is invalid"
		r.Timings = event.Timings{Resume: time.Millisecond, Apply: 999 * time.Millisecond}
		r.Steps[1].Began, r.Steps[1].Ended = r.Began.Add(100*time.Millisecond), time.Time{}
	}))
	if err := end(s, time.Minute); err != nil {
		t.Fatal(err)
	}
	spans := c.spans()
	want := []string{
		"event 0-500",
		"  queue 500-800",
		"  run busy 800-9000",
		"    resume 800-850",
		"    diagnose 850-1250",
		"    decide 1250-1350",
		"    apply 1400-2000",
		"      step annotate 1500-1600",
		"        slb:TagResources 1500-1550",
		"        patch services 1550-1590 error: Conflict",
		"      step resync 1700-2000",
		"    verify 2000-9000",
		"  queue 9000-10000",
		"  run busy 10000-11000 error: token=*** is invalid",
		"    resume 10000-10001",
		"    apply 10001-11000",
		"      step resync 10100-11000 error: token=*** is invalid",
	}
	if diff := cmp.Diff(want, tree(spans)); diff != "" {
		t.Errorf("the spans (-want +got):\n%s", diff)
	}
	ids := map[string]bool{}
	for _, span := range spans {
		if got := hex.EncodeToString(span.TraceId); got != event.TraceID(r.Trace) {
			t.Errorf("%s is in trace %s, want %s", span.Name, got, event.TraceID(r.Trace))
		}
		ids[hex.EncodeToString(span.SpanId)] = true
	}
	if len(ids) != len(spans) || !ids[r.Trace[36:52]] {
		t.Errorf("of %d spans %d have an ID of their own; that of the event is there: %t", len(spans), len(ids), ids[r.Trace[36:52]])
	}
	root := slices.IndexFunc(spans, func(s *trace.Span) bool { return s.Name == "event" })
	if spans[root].ParentSpanId != nil || spans[root].Kind != trace.Span_SPAN_KIND_PRODUCER {
		t.Errorf("the event is %v", spans[root])
	}
	run := attributes(spans[slices.IndexFunc(spans, func(s *trace.Span) bool { return s.Name == "run busy" })].Attributes)
	if diff := cmp.Diff(map[string]string{
		"messaging.system": "nats", "messaging.destination.name": event.FailedSubject("c1", "busy", r.Service.UID), "messaging.message.id": r.Event,
		"messaging.operation.name": "process", "messaging.operation.type": "process",
		"lbremedy.class": "busy", "lbremedy.case": r.Case, "lbremedy.outcome": "fixed", "lbremedy.who": "worker", "lbremedy.attempt": "1", "lbremedy.mode": "fix",
		"k8s.namespace.name": "shop", "k8s.service.name": "web", "k8s.service.uid": r.Service.UID,
	}, run); diff != "" {
		t.Errorf("attributes of the run (-want +got):\n%s", diff)
	}
	tag := spans[slices.IndexFunc(spans, func(s *trace.Span) bool { return s.Name == "slb:TagResources" })]
	if diff := cmp.Diff(map[string]string{
		"rpc.method": "slb:TagResources", "cloud.provider": "alibaba_cloud", "aliyun.request_id": "R-1", "lbremedy.call.resource": "lb-1",
		"lbremedy.class": "busy", "lbremedy.case": r.Case,
	}, attributes(tag.Attributes)); diff != "" || tag.Kind != trace.Span_SPAN_KIND_CLIENT {
		t.Errorf("attributes of a call, of kind %v (-want +got):\n%s", tag.Kind, diff)
	}
	resource := attributes(c.seen[0].Resource.Attributes)
	for k, v := range map[string]string{"service.name": "lbremedy", "service.version": "v1", "k8s.cluster.name": "c1", "deployment.environment.name": "test"} {
		if resource[k] != v {
			t.Errorf("the resource has %s=%q, want %q", k, resource[k], v)
		}
	}
	if c.paths[0] != "/base/v1/traces" || c.auth != "Bearer x" || log.Len() > 0 {
		t.Errorf("it asked for %s as %q and logged %s", c.paths[0], c.auth, log)
	}
	if got := (Stats{Sent: int64(len(spans))}); s.Stats() != got {
		t.Errorf("got %+v, want %+v", s.Stats(), got)
	}
	s.OnRun(r) // too late, and no panic
	if got := s.Stats().Lost; got != 1 {
		t.Errorf("%d are lost", got)
	}

	other := newCollector(t)
	env(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", other.URL+"/own", "OTEL_SERVICE_NAME", "mine")
	s, _ = start(t)
	s.OnRun(again)
	if err := end(s, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, span := range other.spans() {
		if !ids[hex.EncodeToString(span.SpanId)] {
			t.Errorf("another process gives %s another ID", span.Name)
		}
	}
	if got := attributes(other.seen[0].Resource.Attributes)["service.name"]; got != "mine" || other.paths[0] != "/own" {
		t.Errorf("it asked for %s as service %q", other.paths[0], got)
	}
}

// The calls of a class that a function handles are in client spans with OpenTelemetry's attributes of a function.
func TestInvoke(t *testing.T) {
	for name, tt := range map[string]struct {
		function Function
		want     map[string]string
	}{
		"Function Compute": {Function{"lbremedy-busy", true, "cn-hangzhou"}, map[string]string{
			"faas.invoked_name": "lbremedy-busy", "faas.invoked_provider": "alibaba_cloud", "faas.invoked_region": "cn-hangzhou",
		}},
		"another platform": {Function{Name: "lbremedy-busy.healing.svc"}, map[string]string{"faas.invoked_name": "lbremedy-busy.healing.svc"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
			s, _ := start(t)
			s.Functions(map[string]Function{"busy": tt.function})
			r := record()
			s.OnRun(r)
			if err := end(s, time.Minute); err != nil {
				t.Fatal(err)
			}
			invoke, got := "invoke "+tt.function.Name, tree(c.spans())
			if diff := cmp.Diff([]string{
				"event 0-500", "  queue 500-800", "  run busy 800-9000", "    resume 800-850",
				"    diagnose 850-1250", "      " + invoke + " 850-1250",
				"    decide 1250-1350", "    apply 1400-2000",
				"      step annotate 1500-1600", "        " + invoke + " 1500-1600",
				"          slb:TagResources 1500-1550", "          patch services 1550-1590 error: Conflict",
				"      step resync 1700-2000", "        " + invoke + " 1700-2000",
				"    verify 2000-9000",
			}, got); diff != "" {
				t.Errorf("the spans (-want +got):\n%s", diff)
			}
			tt.want["lbremedy.class"], tt.want["lbremedy.case"] = "busy", r.Case
			for _, span := range c.spans() {
				if span.Name != invoke {
					continue
				}
				if diff := cmp.Diff(tt.want, attributes(span.Attributes)); diff != "" || span.Kind != trace.Span_SPAN_KIND_CLIENT {
					t.Errorf("attributes of a call, of kind %v (-want +got):\n%s", span.Kind, diff)
				}
			}
		})
	}
}

// A trace from outside is continued, and a case links to the event that opened it.
func TestParents(t *testing.T) {
	const outside, opened = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := record().Trace
	for _, tt := range []struct{ name, trace, opened, want, parent string }{
		{"own", own, "", own, ""},
		{"none", "", "", own, ""},
		{"malformed", "00-xyz-01", "nonsense", own, ""},
		{"outside", outside, opened, outside, "b7ad6b7169203331"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCollector(t)
			env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
			s, _ := start(t)
			s.OnRun(record(func(r *event.Record) { r.Trace, r.Opened = tt.trace, tt.opened }))
			if err := end(s, time.Minute); err != nil {
				t.Fatal(err)
			}
			spans := c.spans()
			if len(spans) != ofRun {
				t.Fatalf("got %d spans", len(spans))
			}
			for _, span := range spans {
				if got := hex.EncodeToString(span.TraceId); got != event.TraceID(tt.want) {
					t.Errorf("%s is in trace %s", span.Name, got)
				}
				switch span.Name {
				case "event":
					if got := hex.EncodeToString(span.ParentSpanId); got != tt.parent {
						t.Errorf("the event is a child of %q, want %q", got, tt.parent)
					}
				case "run busy":
					if linked := len(span.Links) == 1 && hex.EncodeToString(span.Links[0].TraceId) == event.TraceID(tt.opened); linked != (tt.opened == opened) {
						t.Errorf("the run has the links %v", span.Links)
					}
				}
			}
		})
	}
}

func TestNotSampled(t *testing.T) {
	c := newCollector(t)
	env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	s, _ := start(t)
	s.OnRun(record(func(r *event.Record) { r.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" }))
	if err := end(s, time.Minute); err != nil || len(c.spans()) > 0 {
		t.Errorf("got %v, %v", c.spans(), err)
	}
}

// Spans stay within their parents, and no record causes a panic.
func TestTimes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*event.Record)
		want   string // the spans above the phases
	}{
		{"no beginning", func(r *event.Record) { r.Began = time.Time{} }, ""},
		{"not recorded", func(r *event.Record) { r.Recorded = time.Time{} }, "event 0-0, queue 0-800, run busy 800-9000"},
		{"published before it happened", func(r *event.Record) { r.Recorded = noon.Add(-time.Hour) }, "event 0-0, queue 0-800, run busy 800-9000"},
		{"published after the run", func(r *event.Record) { r.Recorded = noon.Add(time.Hour) }, "event 0-800, queue 800-800, run busy 800-9000"},
		{"of the future", func(r *event.Record) { r.EventTime = noon.Add(time.Hour) }, "event 800-800, queue 800-800, run busy 800-9000"},
		{"a clock that jumped back", func(r *event.Record) { r.At = noon.Add(-time.Hour) }, ""},
		{"no time", func(r *event.Record) { r.EventTime = time.Time{} }, "event 800-800, queue 800-800, run busy 800-9000"},
		{"nothing", func(r *event.Record) { *r = event.Record{Run: event.Run{Phase: event.Settled}} }, ""},
		{"phases longer than the run", func(r *event.Record) { r.Timings.Diagnose, r.Timings.Verify = time.Hour, -time.Hour },
			"event 0-500, queue 500-800, run busy 800-9000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCollector(t)
			env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
			s, _ := start(t)
			s.OnRun(record(tt.change))
			if err := end(s, time.Minute); err != nil {
				t.Fatal(err)
			}
			var above []string
			for _, line := range tree(c.spans()) {
				if !strings.HasPrefix(line, "    ") {
					above = append(above, strings.TrimSpace(line))
				}
			}
			if got := strings.Join(above, ", "); got != tt.want {
				t.Errorf("got %s", got)
			}
			for _, span := range c.spans() {
				if span.EndTimeUnixNano < span.StartTimeUnixNano {
					t.Errorf("%s ends before it begins", span.Name)
				}
			}
		})
	}
}

// A refusing collector costs its spans, which is counted and logged once, without trusting its answer.
func TestRefusal(t *testing.T) {
	c := newCollector(t)
	refuse := true
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		no := refuse
		c.mu.Unlock()
		if no {
			http.Error(w, "password=abcdefgh12345678", http.StatusInternalServerError)
			return
		}
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", front.URL)
	s, log := start(t)
	next := func(i int) event.Record {
		return record(func(r *event.Record) { r.At = r.At.Add(time.Duration(i) * time.Second) })
	}
	for i := range 3 {
		s.make(t.Context(), next(i)) // as run does, in turn
		s.send(t.Context(), s.made.take())
	}
	if got := s.Stats(); got.Dropped != 3*ofRun || got.Sent != 0 {
		t.Errorf("got %+v", got)
	}
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "500") || strings.Contains(said, "abcdefgh") {
		t.Errorf("it said %s", said)
	}
	c.mu.Lock()
	refuse = false
	c.mu.Unlock()
	s.make(t.Context(), next(0)) // the dropped one comes again
	s.send(t.Context(), s.made.take())
	if got := s.Stats(); got.Sent != ofRun || len(c.spans()) != ofRun || !strings.Contains(log.String(), "get through again") {
		t.Errorf("got %+v and %d spans; it said %s", got, len(c.spans()), log)
	}
}

func TestHanging(t *testing.T) {
	hangs, over := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hangs <- true
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	s, log := start(t)
	s.OnRun(record())
	<-hangs
	for i := range waiting + 10 {
		s.OnRun(record(func(r *event.Record) { r.At = r.At.Add(time.Duration(i+1) * time.Second) }))
	}
	if got := s.Stats().Lost; got != 10 {
		t.Errorf("of %d records that wait %d are lost, want 10", waiting+10, got)
	}
	if err := end(s, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if got := s.Stats(); got.Sent != 0 || got.Dropped < 10 {
		t.Errorf("got %+v", got)
	}
	if strings.Count(log.String(), "\n") != 2 { // one line for the full queue, one for failed requests
		t.Errorf("it said %s", log)
	}

	away := httptest.NewServer(nil)
	away.Close()
	env(t, "OTEL_EXPORTER_OTLP_ENDPOINT", away.URL)
	s, log = start(t)
	s.OnRun(record())
	if err := end(s, time.Minute); err != nil || s.Stats().Dropped != ofRun || !strings.Contains(log.String(), "don't get through") {
		t.Errorf("got %v, %+v; it said %s", err, s.Stats(), log)
	}
}

// Without a collector nothing is started; a wrong name is an error at once.
func TestNew(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, off := range [][]string{
		nil, {"OTEL_SERVICE_NAME", "x", "OTEL_EXPORTER_OTLP_TIMEOUT", "x"}, {endpoint, "http://x:4318", "OTEL_SDK_DISABLED", "true"}, {endpoint, "http://x:4318",
			"OTEL_TRACES_EXPORTER", "none"},
	} {
		env(t, off...)
		s, err := New(t.Context(), "v1", "c1", nil)
		if s != nil || err != nil {
			t.Errorf("%v: got %v, %v", off, s, err)
		}
		s.OnRun(record())
		if got := s.Stats(); got != (Stats{}) {
			t.Errorf("%v: got %+v", off, got)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("%v: %v", off, err)
		}
	}
	for _, tt := range []struct{ name, value, want string }{
		{endpoint, "collector:4318", `OTEL_EXPORTER_OTLP_ENDPOINT has the scheme "collector" and not http or https: give a URL such as http://collector:4318`},
		{endpoint, "grpc://collector:4317", `has the scheme "grpc"`},
		{endpoint, "http://", "OTEL_EXPORTER_OTLP_ENDPOINT names no host"},
		{endpoint, "http://collector:0", `has the port "0"`},
		{endpoint, "http://collector:99999", `has the port "99999"`},
		{endpoint, "http://collector:x/s3cr3t", "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
		{endpoint, "http://me:s3cr3t@collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT holds a user: put what the collector asks for into OTEL_EXPORTER_OTLP_HEADERS"},
		{endpoint, "http://collector:4318?s3cr3t", "holds more than a path"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector", `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT has the scheme ""`},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": lbremedy speaks http/protobuf and http/json`},
		{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s", `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT is "10s": give a number of milliseconds`},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "nowhere.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE: open nowhere.pem"},
		{"OTEL_TRACES_EXPORTER", "zipkin", `OTEL_TRACES_EXPORTER is "zipkin"`},
		{"OTEL_RESOURCE_ATTRIBUTES", "a", "read OTEL_RESOURCE_ATTRIBUTES: "},
	} {
		env(t, endpoint, "http://collector:4318", tt.name, tt.value)
		s, err := New(t.Context(), "v1", "c1", nil)
		if s != nil || err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s=%s: got %v, %v", tt.name, tt.value, s, err)
		}
	}
}

// No record causes a panic, or a text longer than the limit.
func FuzzMake(f *testing.F) {
	data, err := json.Marshal(record())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"at":"2026-01-02T00:00:00Z","trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-zz","steps":[{}]}`))
	f.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	s, err := New(f.Context(), "v1", "c1", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	f.Fuzz(func(t *testing.T, data []byte) {
		var r event.Record
		if json.Unmarshal(data, &r) != nil {
			return
		}
		clear(s.known)
		s.make(t.Context(), r)
		for _, span := range tracetest.SpanStubsFromReadOnlySpans(s.made.take()) {
			if span.EndTime.Before(span.StartTime) || !span.SpanContext.IsValid() {
				t.Errorf("%s is from %s to %s in %v", span.Name, span.StartTime, span.EndTime, span.SpanContext)
			}
			for _, a := range span.Attributes {
				if len(a.Value.String()) > 2*longest {
					t.Errorf("%s has %s of %d bytes", span.Name, a.Key, len(a.Value.String()))
				}
			}
		}
	})
}
