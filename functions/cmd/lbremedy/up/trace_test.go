package up_test

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/operator"
)

// From the Kubernetes Event to the fix, everything is one trace at a collector, and lbremedy show names it.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	spans := map[string]*otlp.Span{} // by ID
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var req coltrace.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(data, &req)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					id := hex.EncodeToString(s.SpanId)
					if spans[id] != nil {
						t.Errorf("the span %s came twice", s.Name)
					}
					spans[id] = s
				}
			}
		}
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)

	sc := operator.NewTestbed(t)
	u := sc.Up(t, "--policy", operator.Write(t, "fix.yaml", sc.Fixes()+"risk: medium\n"))
	fixed := u.Until(t, func(r event.Record) bool { return r.Result == event.Fixed })
	if got := sc.Run(t.Context(), "show", fixed.Case, "-o", "wide"); got.Code != 0 || !strings.Contains(got.Out, "\nTrace      "+event.TraceID(fixed.Trace)+"\n") {
		t.Errorf("show names no trace: %+v", got)
	}
	u.End(t) // sends what waits

	trace := event.TraceID(fixed.Trace)
	if want := event.TraceID(event.TraceOf("c-cli", fixed.Event)); trace != want {
		t.Errorf("the record is of trace %q, want %q", trace, want)
	}
	said := func(s *otlp.Span, key string) string {
		i := slices.IndexFunc(s.Attributes, func(a *common.KeyValue) bool { return a.Key == key })
		if i < 0 {
			return ""
		}
		return s.Attributes[i].Value.GetStringValue()
	}
	names := func(s *otlp.Span) []string {
		var up []string
		for ; s != nil; s = spans[hex.EncodeToString(s.ParentSpanId)] {
			up = append(up, s.Name)
			if got := hex.EncodeToString(s.TraceId); got != trace {
				t.Errorf("%s is in trace %s, want %s", s.Name, got, trace)
			}
			if s.EndTimeUnixNano < s.StartTimeUnixNano {
				t.Errorf("%s ends before it begins", s.Name)
			}
			if above := spans[hex.EncodeToString(s.ParentSpanId)]; above != nil && (s.StartTimeUnixNano < above.StartTimeUnixNano || above.Name != "event" &&
				s.EndTimeUnixNano > above.EndTimeUnixNano) {
				t.Errorf("%s is not within %s", s.Name, above.Name)
			}
			if len(s.ParentSpanId) > 0 && spans[hex.EncodeToString(s.ParentSpanId)] == nil {
				t.Errorf("the parent of %s never came", s.Name)
			}
		}
		slices.Reverse(up)
		return up
	}
	const run = "run vswitch-ip-exhausted"
	// Another delivery can have its own run, and one run may have written what a later one proved.
	inRun := func(s *otlp.Span) *otlp.Span {
		for ; s != nil && s.Name != run; s = spans[hex.EncodeToString(s.ParentSpanId)] {
		}
		return s
	}
	var wrote, ran *otlp.Span
	for _, s := range spans {
		switch {
		case said(s, "lbremedy.case") != fixed.Case: // others use the cluster too
		case s.Name == "step annotate":
			wrote = inRun(s)
		case s.Name == run && said(s, "lbremedy.outcome") == "fixed":
			ran = s
		}
	}
	if wrote == nil || ran == nil {
		t.Fatalf("a span is missing: the run that wrote has %v, the run that proved it has %v", wrote, ran)
	}
	got := map[string]*otlp.Span{}
	for _, s := range spans {
		if said(s, "lbremedy.case") != fixed.Case {
			continue
		}
		path := strings.Join(names(s), " > ")
		switch of := inRun(s); {
		case of == nil && s.StartTimeUnixNano <= wrote.StartTimeUnixNano, of == wrote && s.Name != "verify", of == ran && s.Name == "verify":
			got[path] = s
		}
	}
	order := []string{
		"event", "event > queue", "event > " + run, "event > " + run + " > diagnose", "event > " + run + " > decide",
		"event > " + run + " > apply", "event > " + run + " > apply > step annotate", "event > " + run + " > verify",
	}
	var before uint64
	for _, path := range order {
		s := got[path]
		if s == nil {
			t.Errorf("there is no span %s", path)
			continue
		}
		if s.StartTimeUnixNano < before {
			t.Errorf("%s begins before what comes before it", path)
		}
		before = s.StartTimeUnixNano
	}
	root := spans[fixed.Trace[36:52]]
	if root == nil || root.Name != "event" || len(root.ParentSpanId) > 0 {
		t.Errorf("the traceparent of the event names %v", root)
	}
	if ran.GetStatus().GetCode() != otlp.Status_STATUS_CODE_OK {
		t.Errorf("the run that fixed it says %v", ran)
	}
}

func TestTracesWrong(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
	got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), "up", "--cluster", "c1", "--region", "cn-hangzhou", "--kubeconfig", "nowhere")
	if got.Code != 2 || !strings.Contains(got.Err, "OTEL_EXPORTER_OTLP_ENDPOINT has the scheme") {
		t.Errorf("got %+v", got)
	}
}
