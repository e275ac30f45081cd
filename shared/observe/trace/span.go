package trace

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/lbremedy/lbremedy/shared/event"
)

const scope = "github.com/lbremedy/lbremedy"

// A named generates span IDs from the span's subject in the context.
type named struct{}

type ids struct {
	trace otel.TraceID
	span  otel.SpanID
}

type key struct{}

func (named) NewIDs(ctx context.Context) (otel.TraceID, otel.SpanID) {
	id, _ := ctx.Value(key{}).(ids)
	return id.trace, id.span
}

func (named) NewSpanID(ctx context.Context, _ otel.TraceID) otel.SpanID {
	id, _ := ctx.Value(key{}).(ids)
	return id.span
}

func digest(parts ...string) (id otel.SpanID) {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	copy(id[:], sum[:])
	return id
}

func parse(parent string) otel.SpanContext {
	if event.TraceID(parent) == "" {
		return otel.SpanContext{}
	}
	of := otel.SpanContextConfig{Remote: true}
	of.TraceID, _ = otel.TraceIDFromHex(parent[3:35])
	of.SpanID, _ = otel.SpanIDFromHex(parent[36:52])
	if flags, err := strconv.ParseUint(parent[53:], 16, 8); err == nil {
		of.TraceFlags = otel.TraceFlags(flags) & otel.FlagsSampled
	}
	return otel.NewSpanContext(of)
}

type making struct {
	*Sender
	r     event.Record
	trace otel.TraceID
	attrs []attribute.KeyValue // that all its spans have
}

// make makes the spans of a record:
//
//	event                 from the Kubernetes Event's time until the exporter published it
//	├ queue               from then, or the end of the run before, until the run began
//	└ run <class>         with the outcome
//	  ├ resume, diagnose, decide
//	  ├ apply
//	  │ └ step <kind>     one for each step that this run applied or failed at
//	  │   └ <action>      one for each call of the step
//	  └ verify
//
// The event is the root of its trace if the exporter named the trace, and otherwise a child of another sender's span. Each run on it
// adds a queue and a run. If a function handles the class, diagnose and each step have a span "invoke <function>", with the calls in it.
func (s *Sender) make(ctx context.Context, r event.Record) {
	if r.Began.IsZero() || r.At.Before(r.Began) { // impossible times of a run
		return
	}
	if r.EventTime.IsZero() {
		r.EventTime = r.Began
	}
	r.EventTime = earlier(r.EventTime, r.Began)
	m := making{Sender: s, r: r, attrs: []attribute.KeyValue{str("lbremedy.class", r.Class), str("lbremedy.case", r.Case)}}
	id := []string{r.Cluster, r.Case, r.Class, r.Event, strconv.FormatInt(r.At.UnixNano(), 10)}
	run := digest(append(id, "run")...)
	if s.known[run.String()] {
		return
	}
	if len(s.known) >= most {
		clear(s.known)
	}

	own := event.TraceOf(r.Cluster, r.Event)
	parent := parse(r.Trace)
	if !parent.IsValid() {
		parent = parse(own)
	}
	m.trace = parent.TraceID()
	ev := parent.SpanID()
	if m.trace.String() != event.TraceID(own) {
		ctx = otel.ContextWithRemoteSpanContext(ctx, parent)
		ev = digest(m.trace.String(), parent.SpanID().String(), r.Event, "event")
	}
	published := within(r.Recorded, r.EventTime, r.Began)
	ctx, end := m.span(ctx, ev, "event", r.EventTime, otel.WithSpanKind(otel.SpanKindProducer), otel.WithAttributes(m.event()...))
	end(published)

	waits := published
	if r.Prior.After(waits) {
		waits = earlier(r.Prior, r.Began)
	}
	_, end = m.span(ctx, digest(append(id, "queue")...), "queue", waits)
	end(r.Began)

	ctx, end = m.span(ctx, run, "run "+r.Class, r.Began, otel.WithSpanKind(otel.SpanKindConsumer), otel.WithAttributes(m.run()...), m.links())
	span := otel.SpanFromContext(ctx)
	switch {
	case r.Error != "":
		span.SetStatus(codes.Error, clip(r.Error))
	case r.Result == event.Failed, r.Result == event.Unsettled:
		span.SetStatus(codes.Error, clip(r.Rule.String()))
	case r.Result.Worked():
		span.SetStatus(codes.Ok, "")
	}
	for _, p := range phases(r) {
		in, over := m.span(ctx, digest(append(id, p.name)...), p.name, p.from)
		switch p.name {
		case "apply":
			m.steps(in, p)
		case "diagnose":
			_, answered := m.invoke(in, digest(append(id, "invoke")...), p.from)
			answered(p.to)
		}
		over(p.to)
	}
	end(r.At)
}

// span begins a span and returns the function that ends it. One that was sent before is made only as a parent.
func (m making) span(ctx context.Context, id otel.SpanID, name string, from time.Time, opts ...otel.SpanStartOption) (context.Context, func(time.Time)) {
	ctx = context.WithValue(ctx, key{}, ids{m.trace, id})
	ctx, span := m.provider.Tracer(scope).Start(ctx, name, append(opts, otel.WithTimestamp(from), otel.WithAttributes(m.attrs...))...)
	if m.known[id.String()] {
		return ctx, func(time.Time) {}
	}
	m.known[id.String()] = true
	return ctx, func(to time.Time) {
		if to.Before(from) {
			to = from
		}
		span.End(otel.WithTimestamp(to))
	}
}

func (m making) steps(ctx context.Context, in phase) {
	for i, s := range m.r.Steps {
		if s.Began.IsZero() || s.Began.Before(m.r.Began) {
			continue
		}
		id := digest(m.r.Cluster, m.r.Case, m.r.Class, strconv.Itoa(i), strconv.FormatInt(s.Began.UnixNano(), 10), "step")
		ctx, end := m.span(ctx, id, "step "+s.Kind, s.Began, otel.WithAttributes(
			str("lbremedy.step.kind", s.Kind), str("lbremedy.step.target", s.Target), str("lbremedy.step.risk", s.Risk), str("lbremedy.step.text", s.Text.String()),
		))
		to := s.Ended
		if to.IsZero() {
			to = in.to
			otel.SpanFromContext(ctx).SetStatus(codes.Error, clip(m.r.Error))
		}
		invoked, answered := m.invoke(ctx, digest(id.String(), "invoke"), s.Began)
		m.calls(invoked, s)
		answered(to)
		end(to)
	}
}

// invoke begins the client span of the call of a function; if this process handles the class, it begins none. A record says when a phase
// began and ended, so the span contains what the engine did just before and after the call.
func (m making) invoke(ctx context.Context, id otel.SpanID, from time.Time) (context.Context, func(time.Time)) {
	f, ok := m.function[m.r.Class]
	if !ok {
		return ctx, func(time.Time) {}
	}
	attrs := []attribute.KeyValue{semconv.FaaSInvokedName(f.Name)}
	if f.Alibaba {
		attrs = append(attrs, semconv.FaaSInvokedProviderAlibabaCloud)
	}
	if f.Region != "" {
		attrs = append(attrs, semconv.FaaSInvokedRegion(f.Region))
	}
	return m.span(ctx, id, "invoke "+f.Name, from, otel.WithSpanKind(otel.SpanKindClient), otel.WithAttributes(attrs...))
}

// calls makes client spans. A record has the time of the answer; the call began no earlier than the answer before it.
func (m making) calls(ctx context.Context, s event.StepRecord) {
	from := s.Began
	for i, call := range s.Calls {
		if call.At.Before(from) {
			continue // another run made it
		}
		attrs := []attribute.KeyValue{semconv.RPCMethod(clip(call.Action)), str("lbremedy.call.resource", call.Resource)}
		if call.Request != "" {
			attrs = append(attrs, semconv.CloudProviderAlibabaCloud, str("aliyun.request_id", call.Request))
		}
		if call.Error != "" {
			attrs = append(attrs, semconv.ErrorTypeKey.String(clip(call.Error)))
		}
		id := digest(m.r.Cluster, m.r.Case, m.r.Class, strconv.Itoa(i), strconv.FormatInt(call.At.UnixNano(), 10), "call")
		ctx, end := m.span(ctx, id, call.Action, from, otel.WithSpanKind(otel.SpanKindClient), otel.WithAttributes(attrs...))
		if call.Error != "" {
			otel.SpanFromContext(ctx).SetStatus(codes.Error, clip(call.Error))
		}
		end(call.At)
		from = call.At
	}
}

func (m making) message(operation string, kind attribute.KeyValue) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String("nats"),
		semconv.MessagingDestinationName(event.FailedSubject(m.r.Cluster, m.r.Class, m.r.Service.UID)), semconv.MessagingMessageID(clip(m.r.Event)),
		semconv.MessagingOperationName(operation), kind,
	}
}

func (m making) service() []attribute.KeyValue {
	s := m.r.Service
	return []attribute.KeyValue{
		semconv.K8SNamespaceName(clip(s.Namespace)), semconv.K8SServiceName(clip(s.Name)), semconv.K8SServiceUID(clip(s.UID)),
	}
}

func (m making) event() []attribute.KeyValue {
	return append(append(m.service(), m.message("publish", semconv.MessagingOperationTypeSend)...),
		semconv.CloudEventsEventID(clip(m.r.Event)), semconv.CloudEventsEventSource("/clusters/"+clip(m.r.Cluster)),
		semconv.CloudEventsEventType(event.TypeFailed), str("lbremedy.message", m.r.Message),
	)
}

func (m making) run() []attribute.KeyValue {
	attrs := append(m.service(), m.message("process", semconv.MessagingOperationTypeProcess)...)
	attrs = append(attrs, str("lbremedy.outcome", string(m.r.Status())), str("lbremedy.who", m.r.Who), attribute.Int("lbremedy.attempt", m.r.Attempt))
	for _, a := range []attribute.KeyValue{
		str("lbremedy.mode", m.r.Mode), str("lbremedy.impact", string(m.r.Impact)), str("lbremedy.held", string(m.r.Held)), str("lbremedy.risk", m.r.Risk),
		str("lbremedy.rule", m.r.Rule.String()), str("lbremedy.finding", m.r.Finding.String()), str("lbremedy.ask", m.r.Ask.String()),
	} {
		if a.Value.AsString() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

func (m making) links() otel.SpanStartOption {
	opened := parse(m.r.Opened)
	if !opened.IsValid() {
		return otel.WithLinks()
	}
	return otel.WithLinks(otel.Link{SpanContext: opened, Attributes: []attribute.KeyValue{str("lbremedy.link", "opened the case")}})
}

type phase struct {
	name     string
	from, to time.Time
}

// phases returns the phases that a run reached: the first three consecutive from its beginning, the last two until its end.
func phases(r event.Record) []phase {
	t, at := r.Timings, r.Began
	var out []phase
	for _, p := range []struct {
		name string
		took time.Duration
	}{{"resume", t.Resume}, {"diagnose", t.Diagnose}, {"decide", t.Decide}} {
		if p.took <= 0 {
			continue
		}
		to := earlier(at.Add(p.took), r.At)
		out = append(out, phase{p.name, at, to})
		at = to
	}
	writing := r.At.Add(-max(0, t.Verify))
	if t.Apply > 0 {
		out = append(out, phase{"apply", within(writing.Add(-t.Apply), at, r.At), within(writing, at, r.At)})
	}
	if t.Verify > 0 {
		out = append(out, phase{"verify", within(writing, at, r.At), r.At})
	}
	return out
}

// within clamps a time; zero becomes from.
func within(t, from, to time.Time) time.Time {
	if t.Before(from) {
		return from
	}
	return earlier(t, to)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
