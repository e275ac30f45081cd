// Package trace turns the records of runs into OpenTelemetry spans, from the Kubernetes Event of a failure to the proof that it is
// over, and sends them to a collector over OTLP. Begin with [New] and [Sender].
//
// It makes spans from records alone. Function programs pass on the trace context of their event and record their durations; the reader
// of the records, up, calls OnRun. A span's ID is a digest of its subject: a record that comes twice, or to two readers, yields the
// same spans.
//
// It is separate from observe because OTLP includes gRPC: the exporter, which makes no spans, would grow from 18.6 to 26.3 MB, and
// begin with 21 MB of memory instead of 16.
//
// Spans are made and sent in the background. A collector that hangs, refuses or is away costs spans, which are counted, and never
// delays a run. The SDK's batch processor doesn't report the result of each span, so the queue is one of records, and OTEL_BSP_* have
// no effect.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/lbremedy/lbremedy/shared/event"
)

const (
	waiting  = 4096             // records that may wait to be sent; more are dropped
	together = 64               // records that are sent at once
	most     = 10_000           // spans that are remembered as sent; then all are forgotten
	patience = 15 * time.Second // with one request and its retries
)

// A Sender makes spans of records and sends them; nil sends nothing. Its methods are safe for concurrent use.
type Sender struct {
	log      *slog.Logger
	exporter sdk.SpanExporter
	provider *sdk.TracerProvider
	made     *made
	function map[string]Function // by class
	queue    chan event.Record
	stop     context.CancelFunc // ends a request in progress
	done     chan struct{}      // closed when everything is sent or dropped

	mu     sync.RWMutex // of the end of the queue
	closed bool

	sent, dropped, lost atomic.Int64
	failing             bool            // the last request failed, and that was logged
	known               map[string]bool // spans that were sent, by ID
}

// Stats count the results of spans.
type Stats struct {
	Sent    int64 // spans that the collector has taken
	Dropped int64 // spans that it has not taken
	Lost    int64 // records whose spans were never made, since too many waited
}

// New returns a Sender to the collector in OpenTelemetry's variables, or nil if they name none. Invalid variables are an error. The
// resource is the program in that version; the cluster's name is its ID on Alibaba Cloud.
func New(ctx context.Context, version, cluster string, log *slog.Logger) (*Sender, error) {
	on, err := configured()
	if err != nil || !on {
		return nil, err
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("lbremedy"), semconv.ServiceVersion(version), semconv.K8SClusterName(cluster)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// Endpoint, headers, certificates, compression and timeout are the environment's.
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: patience,
	}))
	if err != nil {
		return nil, fmt.Errorf("prepare to send traces: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &made{}
	s := &Sender{
		log: log, exporter: exporter, made: m,
		provider: sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithIDGenerator(named{}), sdk.WithSpanProcessor(m)),
		queue:    make(chan event.Record, waiting), done: make(chan struct{}), known: map[string]bool{},
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.run(ctx)
	return s, nil
}

// A Function handles a class instead of this process.
type Function struct {
	Name    string
	Alibaba bool   // it is one of Function Compute
	Region  string // empty: unknown
}

// Functions names the functions of classes, which their spans then name. It is called before OnRun.
func (s *Sender) Functions(of map[string]Function) {
	if s != nil {
		s.function = of
	}
}

// OnRun queues the record of a run that has ended and returns at once. Others are ignored: the last record is complete.
func (s *Sender) OnRun(r event.Record) {
	if s == nil || r.Phase != event.Settled {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		s.lost.Add(1)
		return
	}
	select {
	case s.queue <- r:
	default:
		if s.lost.Add(1) == 1 {
			s.log.Warn("too many records wait to be sent as traces; what comes now is dropped and counted")
		}
	}
}

// Stats returns the results of spans so far.
func (s *Sender) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	return Stats{Sent: s.sent.Load(), Dropped: s.dropped.Load(), Lost: s.lost.Load()}
}

// Shutdown sends waiting spans and ends the sender. It drops spans not sent when ctx ends.
func (s *Sender) Shutdown(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	var late error
	select {
	case <-s.done:
	case <-ctx.Done():
		late = fmt.Errorf("send the last traces: %w", ctx.Err())
		s.stop()
		<-s.done
	}
	s.stop()
	// Nothing is left to do, whatever the state of ctx.
	ctx = context.WithoutCancel(ctx)
	return errors.Join(late, s.provider.Shutdown(ctx), s.exporter.Shutdown(ctx))
}

func (s *Sender) run(ctx context.Context) {
	defer close(s.done)
	for r := range s.queue {
		s.make(ctx, r)
		for n := 1; n < together && len(s.queue) > 0; n++ {
			s.make(ctx, <-s.queue)
		}
		s.send(ctx, s.made.take())
	}
}

// send logs a failure once, until a request succeeds again.
func (s *Sender) send(ctx context.Context, spans []sdk.ReadOnlySpan) {
	if len(spans) == 0 {
		return
	}
	err := ctx.Err()
	if err == nil {
		err = s.exporter.ExportSpans(ctx, spans)
	}
	if err == nil {
		s.sent.Add(int64(len(spans)))
		if s.failing {
			s.failing = false
			s.log.Info("traces get through again")
		}
		return
	}
	s.dropped.Add(int64(len(spans)))
	for _, span := range spans {
		delete(s.known, span.SpanContext().SpanID().String()) // they may be sent again if seen again
	}
	if !s.failing {
		s.failing = true
		s.log.Warn("traces don't get through; they are dropped and counted", "error", clip(err.Error()))
	}
}

// A made keeps ended spans until they are taken, all in the sender's goroutine.
type made struct{ spans []sdk.ReadOnlySpan }

func (*made) OnStart(context.Context, sdk.ReadWriteSpan) {}

func (m *made) OnEnd(s sdk.ReadOnlySpan) { m.spans = append(m.spans, s) }

func (*made) Shutdown(context.Context) error { return nil }

func (*made) ForceFlush(context.Context) error { return nil }

func (m *made) take() []sdk.ReadOnlySpan {
	spans := m.spans
	m.spans = nil
	return spans
}

const longest = 512

func clip(text string) string { return event.Clip(event.Redact(text), longest) }

func str(key, value string) attribute.KeyValue { return attribute.String(key, clip(value)) }
