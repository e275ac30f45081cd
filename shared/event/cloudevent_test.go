package event

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/say"
)

const testTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var testTime = time.Date(2026, 11, 20, 8, 9, 10, 0, time.UTC)

func failure(changes ...func(*Failure)) Failure {
	f := Failure{
		Cluster: "c1", Class: "vswitch-ip-exhausted", Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller",
		Message: "Error syncing load balancer []: Message: The specified VSwitch has no available ip.",
		Service: Service{Namespace: "shop", Name: "web", UID: testUID},
		Event:   Reference{Name: "web.17a", UID: "0a1b2c3d-0000-4000-8000-000000000001", ResourceVersion: "1234"},
		Count:   3, First: testTime.Add(-time.Minute), Last: testTime,
	}
	for _, change := range changes {
		change(&f)
	}
	if f.Trace == "" {
		f.Trace = TraceOf(f.Cluster, f.ID())
	}
	return f
}

func record(changes ...func(*Record)) Record {
	r := Record{
		Origin: Origin{
			Case: "b32ada40-20261120T080910", Cluster: "c1", Class: "vswitch-ip-exhausted",
			Service: Service{Namespace: "shop", Name: "web", UID: testUID}, Event: "0a1b.3.1234",
			Message: "Message: The specified VSwitch has no available ip.", EventTime: testTime, Recorded: testTime, Trace: testTrace,
			Opened: testTrace,
		},
		Run: Run{
			Phase: Settled, Result: Fixed, At: testTime.Add(time.Second), Who: "worker", Attempt: 1, Attempts: []time.Time{testTime},
			Prior: testTime, Began: testTime, First: testTime, Impact: NeverUp,
		},
		Decision: Decision{Mode: "fix", Rule: say.Literal("Risk low is applied by default.")},
		Plan: Plan{Finding: say.Literal("The vSwitch is full; vsw-b has 41 free addresses."), Cause: "vsw-a", Risk: "low", Steps: []StepRecord{{
			Kind: "annotate", Text: say.Literal("annotate a=b"), Target: "service/" + testUID, Risk: "low",
			Step: json.RawMessage(`{"key":"a"}`), Began: testTime, Ended: testTime,
			Undo: &Undo{Kind: "annotate", Text: say.Literal("annotate a=")},
		}}},
		Progress: Progress{Next: 1, Written: testTime, Hash: "h", Left: "l"},
		Outcome: Outcome{
			Ask: say.Literal("Free addresses."), Wait: time.Minute, Digest: strings.Repeat("0a", 16), Note: say.Literal("n"), Error: "e", Ticket: "t", Errors: 1,
			Crashes: 2, Timings: Timings{Queue: time.Millisecond, Verify: time.Second},
		},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func mustFailed(t testing.TB, f Failure) event.Event {
	t.Helper()
	e, err := NewFailed(f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestNewFailed(t *testing.T) {
	made := failure(func(f *Failure) { f.Trace, f.Recorded = testTrace, testTime.Add(time.Second) })
	e := mustFailed(t, made)
	got := map[string]string{
		"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "subject": e.Subject(), "type": e.Type(),
		"time": e.Time().Format(time.RFC3339), "datacontenttype": e.DataContentType(),
	}
	for name, value := range e.Extensions() {
		got[name] = value.(string)
	}
	want := map[string]string{
		"specversion": "1.0", "id": "0a1b2c3d-0000-4000-8000-000000000001.3.1234", "source": "/clusters/c1",
		"subject": "namespaces/shop/services/web", "type": "io.lbremedy.service.failed.v1", "time": "2026-11-20T08:09:10Z",
		"datacontenttype": "application/json", "class": "vswitch-ip-exhausted", "reason": "SyncLoadBalancerFailed", "cluster": "c1",
		"serviceuid": testUID, "partitionkey": testUID, "traceparent": testTrace, "recordedtime": "2026-11-20T08:09:11Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	back, err := ReadFailed(e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, back); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}
	if id, want := MessageID(e), "0a1b2c3d-0000-4000-8000-000000000001.1234"; id != want {
		t.Errorf("message ID %q, want %q", id, want)
	}
	if got := TraceParent(e); got != testTrace {
		t.Errorf("trace %q", got)
	}
}

func TestNewFailedCleans(t *testing.T) {
	f := failure(func(f *Failure) {
		f.Message = "at https://x/?AccessKeyId=" + testKey + " " + strings.Repeat("\x01", 3*MaxMessage) + "\xff"
		f.Count, f.Reason, f.Last = 0, "a\nb", time.Time{}
	})
	e := mustFailed(t, f)
	if len(e.Data()) > MaxPayload {
		t.Errorf("the data has %d bytes", len(e.Data()))
	}
	back, err := ReadFailed(e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(back.Message, "LTAI") || len(back.Message) > MaxMessage || back.Count != 1 {
		t.Errorf("got %+v", back)
	}
	if got := e.Extensions()[ExtReason]; got != "ab" {
		t.Errorf("reason %q", got)
	}
	if _, timed := e.Context.AsV1().Time, e.Time(); !timed.IsZero() {
		t.Errorf("time %v", timed)
	}
	if _, ok := mustFailed(t, failure(func(f *Failure) { f.Reason = "" })).Extensions()[ExtReason]; ok {
		t.Error("an empty reason became an attribute")
	}
}

func TestNewFailedRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Failure)
		want   string
	}{
		{"no UID", func(f *Failure) { f.Service.UID = "" }, "invalid event: the Service has no UID"},
		{"a hostile UID", func(f *Failure) { f.Service.UID = "a.>" }, `invalid event: service UID "a.>" is not a UUID`},
		{"no cluster", func(f *Failure) { f.Cluster = "" }, "invalid event: the cluster ID is empty"},
		{"no class", func(f *Failure) { f.Class = "" }, "invalid event: the class is empty"},
		{"no name", func(f *Failure) { f.Service.Name = "" }, "invalid event: the Service with UID " + testUID + " has no namespace or no name"},
		{"no Event", func(f *Failure) { f.Event = Reference{Name: "web.17a"} }, `invalid event: the Event "web.17a" has no UID or no resourceVersion`},
		{"a huge name", func(f *Failure) { f.Service.Name = strings.Repeat("x", MaxPayload) },
			"invalid event: event too large: its data has 66017 bytes, the limit is 65536"},
		{"an impossible time", func(f *Failure) { f.Last = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
			"invalid event: encode the data of io.lbremedy.service.failed.v1: json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year outside " +
				"of range [0,9999]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewFailed(failure(tt.change))
			if !errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) != (tt.name == "a huge name") {
				t.Fatalf("got %v", err)
			}
			if err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestTrace(t *testing.T) {
	first, again := mustFailed(t, failure()), mustFailed(t, failure(func(f *Failure) { f.Trace = "nonsense" }))
	other := mustFailed(t, failure(func(f *Failure) { f.Count++ }))
	if TraceParent(first) == "" || TraceParent(first) != TraceParent(again) || TraceParent(first) == TraceParent(other) {
		t.Errorf("got %q, %q and %q", TraceParent(first), TraceParent(again), TraceParent(other))
	}
	if TraceID(TraceParent(first)) != TraceID(TraceParent(other)) {
		t.Error("a Kubernetes Event that is counted on begins another trace")
	}
	next := mustFailed(t, failure(func(f *Failure) { f.Event.UID = "0a1b2c3d-0000-4000-8000-000000000002" }))
	if TraceID(TraceParent(first)) == TraceID(TraceParent(next)) {
		t.Error("two Kubernetes Events are one trace")
	}
	for _, bad := range []string{
		"", "00-x", strings.ToUpper(testTrace), "ff" + testTrace[2:], "00-" + strings.Repeat("0", 32) + testTrace[35:],
		testTrace[:36] + strings.Repeat("0", 16) + "-01", testTrace + "-x", "0" + testTrace,
	} {
		first.SetExtension(ExtTrace, bad)
		if got := TraceParent(first); got != "" || TraceID(bad) != "" {
			t.Errorf("%q: got %q and %q", bad, got, TraceID(bad))
		}
		// An event with an unreadable trace begins a new one.
		if f, err := ReadFailed(first); err != nil || f.Trace != TraceParent(again) {
			t.Errorf("%q: got %q, %v", bad, f.Trace, err)
		}
	}
	if got := TraceParent(event.Event{}); got != "" {
		t.Errorf("of no event: %q", got)
	}
}

func rebuilt(t *testing.T, e event.Event, change func(map[string]any)) event.Event {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(e.Data(), &data); err != nil {
		t.Fatal(err)
	}
	change(data)
	e.DataEncoded, _ = json.Marshal(data)
	return e
}

func TestReadFailedIsTolerant(t *testing.T) {
	e := rebuilt(t, mustFailed(t, failure()), func(data map[string]any) {
		for _, name := range []string{"cluster", "class", "reason", "last", "count"} {
			delete(data, name)
		}
		delete(data["service"].(map[string]any), "uid")
		data["unknown"] = map[string]any{"a": 1}
	})
	e.SetExtension("other", true)
	got, err := ReadFailed(e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(failure(func(f *Failure) { f.Count, f.Trace = 1, TraceOf(f.Cluster, e.ID()) }), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bare := mustFailed(t, failure())
	bare.SetDataContentType("")
	if _, err := ReadFailed(bare); err != nil {
		t.Error(err)
	}
}

func TestReadFailedRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*event.Event)
		want   string
	}{
		{"another type", func(e *event.Event) { e.SetType("io.lbremedy.other.v1") }, `has the type "io.lbremedy.other.v1", not io.lbremedy.service.failed.v1`},
		{"a version to come", func(e *event.Event) { e.SetType("io.lbremedy.service.failed.v2") }, "has the type"},
		{"an outcome", func(e *event.Event) { e.SetType(TypeSettled) }, "has the type"},
		{"no CloudEvent", func(e *event.Event) { e.SetID("") }, "invalid event: not a CloudEvent: id: "},
		{"nothing", func(e *event.Event) { *e = event.Event{} }, "invalid event: not a CloudEvent: specversion: missing Event.Context"},
		{"two faults", func(e *event.Event) { e.SetID(""); e.SetType("") }, "; type: MUST be a non-empty string"},
		{"no data", func(e *event.Event) { e.DataEncoded = nil }, "read the data of event"},
		{"no JSON", func(e *event.Event) { e.DataEncoded = []byte("{") }, "read the data of event"},
		{"other JSON", func(e *event.Event) { e.DataEncoded = []byte(`{"count":"many"}`) }, "read the data of event"},
		{"other data", func(e *event.Event) { e.SetDataContentType("text/plain") }, `has data of type "text/plain", not application/json`},
		{"huge data", func(e *event.Event) { e.DataEncoded = []byte(strings.Repeat(" ", MaxPayload+1)) }, "event too large"},
		{"a contradiction", func(e *event.Event) { e.SetExtension(ExtClass, "arrearage") },
			`says class "arrearage" in its attributes and "vswitch-ip-exhausted" in its data`},
		{"another Service", func(e *event.Event) { e.SetExtension(ExtServiceUID, "x") }, "says serviceuid"},
		{"another cluster", func(e *event.Event) { e.SetExtension(ExtCluster, "x") }, "says cluster"},
		{"a hostile UID", func(e *event.Event) {
			e.DataEncoded = []byte(strings.ReplaceAll(string(e.DataEncoded), testUID, "*"))
		}, "is not a UUID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := mustFailed(t, failure())
			tt.change(&e)
			_, err := ReadFailed(e)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want an ErrInvalid with %q", err, tt.want)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	for _, tt := range []struct {
		name     string
		record   Record
		kind, id string
	}{
		{"settled", record(), TypeSettled, "b32ada40-20261120T080910.vswitch-ip-exhausted.settled.1.1.1795162151000000000"},
		{"intent", record(func(r *Record) { r.Phase, r.Attempts, r.Result = Intent, nil, "" }), TypeIntent,
			"b32ada40-20261120T080910.vswitch-ip-exhausted.intent.1.1.1795162151000000000"},
		{"of the doctor", record(func(r *Record) {
			r.Service = Service{Kind: "load balancer", Name: "lb-1", UID: r.Service.UID}
			r.Found = []Found{{Key: "a", Severity: "warning", Text: say.F("So."), Do: say.F("Do.")}}
		}), TypeSettled, "b32ada40-20261120T080910.vswitch-ip-exhausted.settled.1.1.1795162151000000000"},
		{"step", record(func(r *Record) { r.Phase = Step }), TypeIntent, "b32ada40-20261120T080910.vswitch-ip-exhausted.step.1.1.1795162151000000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := NewRecord(tt.record)
			if err != nil {
				t.Fatal(err)
			}
			if e.Type() != tt.kind || e.ID() != tt.id || MessageID(e) != tt.id || !e.Time().Equal(tt.record.At) {
				t.Errorf("got type %s, ID %s, message ID %s, time %v", e.Type(), e.ID(), MessageID(e), e.Time())
			}
			want := []string{ExtClass, ExtCluster, ExtPartition, ExtServiceUID, ExtTrace}
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(e.Extensions()))); diff != "" {
				t.Errorf("extensions (-want +got):\n%s", diff)
			}
			if tt.record.Attempts == nil && !strings.Contains(string(e.Data()), `"attempts":[]`) {
				t.Error("no attempts are not an empty list")
			}
			got, err := ReadRecord(e)
			if err != nil {
				t.Fatal(err)
			}
			if subject := map[bool]string{true: "load-balancers/lb-1", false: "namespaces/shop/services/web"}[tt.name == "of the doctor"]; e.Subject() != subject {
				t.Errorf("got the subject %q", e.Subject())
			}
			if diff := cmp.Diff(tt.record, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Steps stay unchanged, since an undo is worked out from them.
func TestNewRecordRedacts(t *testing.T) {
	secret := "with AccessKeySecret=" + testSecret
	e, err := NewRecord(record(func(r *Record) {
		r.Message, r.Cause, r.Error = secret, secret, secret+"\xff"
		r.Rule, r.Finding, r.Ask, r.Note = say.Literal(secret), say.Literal(secret), say.Literal(secret), say.Literal(secret)
		r.Steps[0].Step = json.RawMessage(`{"value":"a=b"}`)
		r.Found = []Found{{Text: say.Literal(secret), Do: say.F("Do it %s", secret)}}
		r.Steps[0].Calls = []Call{{Action: secret, Resource: secret, Request: secret, Version: secret, Error: secret}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if data := string(e.Data()); strings.Contains(data, testSecret) || !strings.Contains(data, `"step":{"value":"a=b"}`) {
		t.Errorf("got %s", data)
	}
}

func TestRecordsRefuse(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"no case":     func(r *Record) { r.Case = "" },
		"no phase":    func(r *Record) { r.Phase = "" },
		"no time":     func(r *Record) { r.At = time.Time{} },
		"no UID":      func(r *Record) { r.Service.UID = "" },
		"no name":     func(r *Record) { r.Service = Service{Kind: "load balancer", UID: r.Service.UID} },
		"no cluster":  func(r *Record) { r.Cluster = "." },
		"a huge text": func(r *Record) { r.Note = say.Literal(strings.Repeat("x", MaxRecord)) },
		"no JSON":     func(r *Record) { r.Steps[0].Step = json.RawMessage("{") },
	} {
		if _, err := NewRecord(record(change)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want an ErrInvalid", name, err)
		}
	}
	good, err := NewRecord(record())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]any){
		"no case":       func(data map[string]any) { data["case"] = "" },
		"a command":     func(data map[string]any) { data["case"] = "$(id)" },
		"more than one": func(data map[string]any) { data["case"] = "b32ada40-20261120T080910; id" },
		"a line":        func(data map[string]any) { data["case"] = "b32ada40-20261120T080910\n" },
		"a digest":      func(data map[string]any) { data["digest"] = "`id`" },
		"a namespace":   func(data map[string]any) { data["service"].(map[string]any)["namespace"] = "shop$(id)" },
		"a name":        func(data map[string]any) { data["service"].(map[string]any)["name"] = "--all" },
		"a kind":        func(data map[string]any) { data["service"].(map[string]any)["kind"] = "$(id)" },
		"a time":        func(data map[string]any) { data["at"] = "$(id)" },
		"another class": func(data map[string]any) { data["class"] = "arrearage" },
		"a wrong type":  func(data map[string]any) { data["attempt"] = "x" },
	} {
		if _, err := ReadRecord(rebuilt(t, good, change)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want an ErrInvalid", name, err)
		}
	}
	if _, err := ReadRecord(mustFailed(t, failure())); !errors.Is(err, ErrInvalid) {
		t.Errorf("of a failure: got %v, want an ErrInvalid", err)
	}
}

func TestMessageIDOfStrangeEvents(t *testing.T) {
	for id, want := range map[string]string{"": "", "a": "a", "a.b": "a.b", "a.b.c": "a.c", "a.b.c.d": "a.d"} {
		e := event.New()
		e.SetType(TypeFailed)
		e.SetID(id)
		if got := MessageID(e); got != want {
			t.Errorf("MessageID of %q = %q, want %q", id, got, want)
		}
	}
	if got := MessageID(event.Event{}); got != "" {
		t.Errorf("of no event: %q", got)
	}
}

func TestResults(t *testing.T) {
	for result, want := range map[Result]bool{
		Gone: true, Superseded: true, Planned: true, Asked: true, Fixed: true, Failed: true, OutOfScope: true, Waiting: false, Unsettled: false,
	} {
		if got := result.Settled(); got != want {
			t.Errorf("%s: settled = %v", result, got)
		}
	}
	if r := record(); !r.Done() || (Record{}).Done() || record(func(r *Record) { r.Next = 0 }).Done() {
		t.Error("a record is done when all of its steps are applied")
	}
	if got := (Service{Namespace: "a", Name: "b"}).String(); got != "a/b" {
		t.Errorf("got %s", got)
	}
}

func FuzzReadFailed(f *testing.F) {
	e := mustFailed(f, failure())
	f.Add(e.Type(), e.ID(), e.Data())
	f.Add(TypeFailed, "a.b.c", []byte(`{"service":{}}`))
	f.Fuzz(func(t *testing.T, kind, id string, data []byte) {
		e := event.New()
		e.SetType(kind)
		e.SetID(id)
		e.SetSource("/clusters/c1")
		e.DataEncoded = data
		if _, err := ReadRecord(e); err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v, not an ErrInvalid", err)
		}
		got, err := ReadFailed(e)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, not an ErrInvalid", err)
			}
			return
		}
		again, err := NewFailed(got)
		if errors.Is(err, ErrTooLarge) || got.Last.Year() > 9999 {
			return
		}
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := ReadFailed(again); err != nil {
			t.Errorf("what was written can't be read: %v", err)
		}
	})
}
