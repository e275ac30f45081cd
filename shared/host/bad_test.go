package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An impossible message is dead with a clear reason, delays no other and leaves no record. A wrong date alone does no harm.
func TestBadMessages(t *testing.T) {
	asked := 0
	asks := class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil)
	asks.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		asked++
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil
	}
	r := build(t, asks)
	message := func(change func(*cloudevents.Event), header ...string) stream.Message {
		t.Helper()
		e := r.event("asks")
		change(&e)
		h, data, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			h[header[i]] = []string{header[i+1]}
		}
		return stream.Message{Header: h, Data: data}
	}
	same := func(*cloudevents.Event) {}
	data := func(old, is string) func(*cloudevents.Event) {
		return func(e *cloudevents.Event) {
			text := strings.Replace(string(e.Data()), old, is, 1)
			if text == string(e.Data()) {
				t.Fatalf("the failure has no %s", old)
			}
			e.DataEncoded = []byte(text)
		}
	}
	uid := string(r.svc.UID)
	for name, tt := range map[string]struct {
		m    stream.Message
		says string
	}{
		"of a version of CloudEvents to come": {message(same, "ce-specversion", "2.0"), `version "2.0" of CloudEvents, not 1.0 or 0.3`},
		"of a version of the failure to come": {message(func(e *cloudevents.Event) { e.SetType("io.lbremedy.service.failed.v9") }),
			`has the type "io.lbremedy.service.failed.v9"`},
		"of another type":              {message(func(e *cloudevents.Event) { e.SetType("com.example.other") }), "com.example.other"},
		"without an ID":                {message(same, "ce-id", ""), "id"},
		"with a time that is none":     {message(same, "ce-time", "yesterday"), `time "yesterday"`},
		"of another media type":        {message(func(e *cloudevents.Event) { e.SetDataContentType("text/plain") }), "text/plain"},
		"with data that is cut":        {message(func(e *cloudevents.Event) { e.DataEncoded = e.DataEncoded[:100] }), "read the data"},
		"too large":                    {message(data(`"message":"no"`, `"message":"`+strings.Repeat("x", event.MaxPayload)+`"`)), "too large"},
		"with a UID that is none":      {message(data(uid, "a.b.>")), "UID"},
		"with another UID in its data": {message(data(uid, "00000000-0000-4000-8000-000000000000")), "in its attributes and"},
		"without a name":               {message(data(`"name":"web"`, `"name":""`)), "no name"},
		"of nobody's class": {message(func(e *cloudevents.Event) { data(`"asks"`, `"nobody"`)(e); e.SetExtension(event.ExtClass, "nobody") }),
			`"nobody" is not known here`},
		"empty": {stream.Message{}, "no ce-specversion"},
	} {
		reply := r.message(t.Context(), tt.m)
		if !strings.Contains(reply.Dead, tt.says) || reply.Dead == "" || reply.Retry != 0 {
			t.Errorf("%s: %+v, want it to say %q", name, reply, tt.says)
		}
	}
	if _, err := r.Env.Stream.Last(t.Context(), stream.Cases, ">"); !errors.Is(err, stream.ErrNotFound) || asked != 0 {
		t.Errorf("something was journalled, or diagnosed %d times: %v", asked, err)
	}
	for i, at := range []string{"0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "9999-12-31T23:59:59Z"} {
		e := r.event("asks")
		last := string(e.Data()[strings.Index(string(e.Data()), `"last":"`):])
		last = last[:strings.Index(last[8:], `"`)+9]
		data(last, `"last":"`+at+`"`)(&e)
		e.SetID(fmt.Sprintf("11111111-1111-1111-1111-111111111111.1.%d", 100+i))
		h, d, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		if reply := r.message(t.Context(), stream.Message{Header: h, Data: d}); reply.Dead != "" || asked != i+1 {
			t.Errorf("dated %s: %+v, diagnosed %d times", at, reply, asked)
		}
	}
}

// A full CASES is asked less and less often whether it takes a record.
func TestFullJournal(t *testing.T) {
	r := build(t, class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	setup := func(bytes int64) {
		t.Helper()
		if _, err := r.Env.Stream.Setup(t.Context(), nil, stream.Settings{CasesBytes: bytes}); err != nil {
			t.Fatal(err)
		}
	}
	setup(64 << 10)
	for size := 8 << 10; size > 0; size /= 2 {
		for i := 0; ; i++ {
			uid := fmt.Sprintf("filler-%d-%d", size, i)
			if _, err := r.Env.Stream.AppendRecord(t.Context(), "c-1", uid, "asks", uid, nil, make([]byte, size), 0); errors.Is(err, stream.ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	h, data, err := event.EncodeNATS(r.event("asks"))
	if err != nil {
		t.Fatal(err)
	}
	last := time.Duration(0)
	for n := range uint64(10) {
		reply := r.message(t.Context(), stream.Message{Header: h, Data: data, Deliveries: n + 1})
		if reply.Dead != "" || reply.Retry < last || reply.Retry < time.Second || reply.Retry > time.Minute {
			t.Errorf("delivery %d: %+v after %s", n+1, reply, last)
		}
		last = reply.Retry
	}
	if last != time.Minute {
		t.Errorf("it is asked each %s in the end", last)
	}
	setup(1 << 20)
	if reply := r.message(t.Context(), stream.Message{Header: h, Data: data}); reply.Dead != "" || reply.Retry != 0 {
		t.Errorf("with room: %+v", reply)
	}
}
