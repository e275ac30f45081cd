package event

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
)

func TestEncodeNATS(t *testing.T) {
	e := mustFailed(t, failure(func(f *Failure) { f.Reason, f.Trace = `Euro € 😀 "100%"`, testTrace }))
	e.SetDataSchema("https://example.com/failed.v1.json")
	e.SetExtension("number", 42)
	e.SetExtension("flag", true)
	e.SetExtension("bytes", []byte("hi"))
	e.SetExtension("empty", "")
	header, data, err := EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"Nats-Msg-Id":        {"0a1b2c3d-0000-4000-8000-000000000001.1234"},
		"ce-specversion":     {"1.0"},
		"ce-id":              {"0a1b2c3d-0000-4000-8000-000000000001.3.1234"},
		"ce-source":          {"/clusters/c1"},
		"ce-type":            {"io.lbremedy.service.failed.v1"},
		"ce-subject":         {"namespaces/shop/services/web"},
		"ce-time":            {"2026-11-20T08:09:10Z"},
		"ce-datacontenttype": {"application/json"},
		"ce-dataschema":      {"https://example.com/failed.v1.json"},
		"ce-class":           {"vswitch-ip-exhausted"},
		"ce-reason":          {"Euro%20%E2%82%AC%20%F0%9F%98%80%20%22100%25%22"},
		"ce-cluster":         {"c1"},
		"ce-serviceuid":      {testUID},
		"ce-partitionkey":    {testUID},
		"ce-traceparent":     {testTrace},
		"ce-number":          {"42"},
		"ce-flag":            {"true"},
		"ce-bytes":           {"aGk="},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if string(data) != string(e.Data()) {
		t.Errorf("data %s", data)
	}
	back, err := DecodeNATS(header, data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadFailed(back)
	if err != nil {
		t.Fatal(err)
	}
	if got.Reason != `Euro € 😀 "100%"` || back.Subject() != e.Subject() || TraceParent(back) != testTrace {
		t.Errorf("got %+v, subject %s", got, back.Subject())
	}
	if _, _, err := EncodeNATS(event.Event{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("of no event: got %v", err)
	}
}

// A header that only NATS may write shows that the writer pretended to be the server.
func TestForgedHeaders(t *testing.T) {
	header, data, err := EncodeNATS(mustFailed(t, failure()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Nats-Subject", "nats-sequence", "NATS-TIME-STAMP", "Nats-Rollup", "Nats-TTL", "Nats-Anything", "Status", "status"} {
		forged := maps.Clone(header)
		forged[name] = []string{"1"}
		if _, err := DecodeNATS(forged, data); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("with %s: %v", name, err)
		}
		structured, err := EncodeJSON(mustFailed(t, failure()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeNATS(map[string][]string{name: {"1"}}, structured); !errors.Is(err, ErrInvalid) {
			t.Errorf("a structured one with %s: %v", name, err)
		}
	}
	if got := Forged(map[string][]string{"Nats-TTL": nil, "Nats-Msg-Id": nil, "Statuses": nil, "Natsy": nil}, "Nats-TTL"); got != "" {
		t.Errorf("%s is forged", got)
	}
}

func TestPercentEncoding(t *testing.T) {
	for _, tt := range []struct{ plain, encoded string }{
		{"Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"},
		{`"q" 100%`, "%22q%22%20100%25"},
		{"a\x00\n\x7f~!", "a%00%0A%7F~!"},
		{"plain-text/with:all,of{it}", "plain-text/with:all,of{it}"},
		{"", ""},
	} {
		if got := percentEncode(tt.plain); got != tt.encoded {
			t.Errorf("percentEncode(%q) = %q, want %q", tt.plain, got, tt.encoded)
		}
		if got := percentDecode(tt.encoded); got != tt.plain {
			t.Errorf("percentDecode(%q) = %q, want %q", tt.encoded, got, tt.plain)
		}
	}
	for encoded, want := range map[string]string{
		"%e2%82%ac":     "€",
		"Euro €":        "Euro €",
		"100%":          "100%",
		"100%2":         "100%2",
		"%zz%4":         "%zz%4",
		`"quoted text"`: "quoted text",
		`"a\"b\\c%20d"`: `a"b\c d`,
		`"`:             `"`,
		`"open`:         `"open`,
		"%ff":           "�",
		"\xff":          "�",
		`"end\"`:        `end\`,
	} {
		if got := percentDecode(encoded); got != want {
			t.Errorf("percentDecode(%q) = %q, want %q", encoded, got, want)
		}
	}
}

func TestDecodeNATS(t *testing.T) {
	e := mustFailed(t, failure())
	text, err := EncodeJSON(e)
	if err != nil {
		t.Fatal(err)
	}
	binary, data, err := EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	with := func(changes ...string) map[string][]string {
		header := maps.Clone(binary)
		for i := 0; i < len(changes); i += 2 {
			header[changes[i]] = []string{changes[i+1]}
		}
		return header
	}
	upper := map[string][]string{}
	for name, values := range binary {
		upper[strings.ToUpper(name)] = values
	}
	old, err := json.Marshal(map[string]any{
		"specversion": "0.3", "id": "a.1.2", "type": TypeFailed, "source": "/clusters/c1", "datacontenttype": "application/json",
		"data": json.RawMessage(data),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		header map[string][]string
		data   []byte
		want   string // error; empty: the failure above
	}{
		{"binary", binary, data, ""},
		{"binary, upper case", upper, data, ""},
		{"binary with a content type", with("Content-Type", "application/json"), data, ""},
		{"binary with the content type instead of the attribute", with("ce-datacontenttype", "", "content-type", "application/json; charset=utf-8"), data, ""},
		{"binary in both spellings", with("CE-Id", "other"), data, ""},
		{"binary, quoted", with("ce-class", `"vswitch-ip-exhausted"`), data, ""},
		{"binary of version 0.3", with("ce-specversion", "0.3", "ce-schemaurl", "https://example.com/x"), data, ""},
		{"structured", map[string][]string{"Content-Type": {"application/cloudevents+json; charset=UTF-8"}}, text, ""},
		{"structured, any case", map[string][]string{"content-type": {" Application/CloudEvents+JSON"}}, text, ""},
		{"structured, no format", map[string][]string{"Content-Type": {"application/cloudevents"}}, text, ""},
		{"structured beside binary headers", with("Content-Type", "application/cloudevents+json", "ce-id", "other"), text, ""},
		{"structured without a header", nil, text, ""},
		{"structured with another header", map[string][]string{"Content-Type": {"application/octet-stream"}, "X": nil}, text, ""},
		{"structured of version 0.3", nil, old, ""},
		{"a batch", map[string][]string{"Content-Type": {"application/cloudevents-batch+json"}}, []byte("[]"),
			"invalid event: a batch of events in one NATS message"},
		{"another format", map[string][]string{"Content-Type": {"application/cloudevents+avro"}}, nil,
			`invalid event: a structured event in the format "application/cloudevents+avro", not JSON`},
		{"nothing", nil, nil, "invalid event: the message has no ce-specversion header and its data is not a structured event"},
		{"other JSON", nil, []byte(`{"a":1}`), "invalid event: the message has no ce-specversion header"},
		{"a list", nil, []byte(`[]`), "invalid event: the message has no ce-specversion header"},
		{"an unknown version", with("ce-specversion", "2.0"), data, `invalid event: the event has version "2.0" of CloudEvents, not 1.0 or 0.3`},
		{"an unknown version, structured", nil, []byte(`{"specversion":"2.0"}`), "invalid event: read a structured event: specversion: unknown value: 2.0"},
		{"no id", with("ce-id", ""), data, "invalid event: not a CloudEvent: id: MUST be a non-empty string"},
		{"no id, structured", nil, []byte(`{"specversion":"1.0","type":"a","source":"b"}`), "invalid event: not a CloudEvent: id: MUST be a non-empty string"},
		{"a wrong time", with("ce-time", "yesterday"), data, `invalid event: the event has the time "yesterday", not one of RFC 3339`},
		{"a wrong extension", with("ce-a_b", "x"), data, `invalid event: the event has the header "ce-a_b"`},
		{"a wrong source", with("ce-source", ":"), data, "invalid event: not a CloudEvent: source"},
		{"not JSON", map[string][]string{"Content-Type": {"application/cloudevents+json"}}, []byte("{"), "invalid event: read a structured event"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeNATS(tt.header, tt.data)
			if tt.want != "" {
				if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := ReadFailed(got)
			if err != nil {
				t.Fatal(err)
			}
			want := failure(func(f *Failure) { f.Trace = TraceOf(f.Cluster, got.ID()) })
			if diff := cmp.Diff(want, f); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.ID() == "other" {
				t.Error("the other spelling of the ID counted")
			}
		})
	}
}

// A record counts only for the cluster, Service and class of its subject.
func TestDecodeRecord(t *testing.T) {
	const other = "b32ada40-ffff-ffff-ffff-ffffffffffff"
	e, err := NewRecord(record())
	if err != nil {
		t.Fatal(err)
	}
	header, data, err := EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	for subject, ok := range map[string]bool{
		CaseSubject("c1", testUID, "vswitch-ip-exhausted"):        true,
		CaseSubject("c2", testUID, "vswitch-ip-exhausted"):        false,
		CaseSubject("c1", other, "vswitch-ip-exhausted"):          false,
		CaseSubject("c1", testUID, "tag-missing"):                 false,
		CaseSubject("c1", testUID, "vswitch-ip-exhausted") + ".a": false,
		KeptSubject("c1", testUID, "vswitch-ip-exhausted"):        false,
		"": false,
	} {
		r, err := DecodeRecord(subject, header, data)
		if ok != (err == nil) || !ok && (!errors.Is(err, ErrInvalid) || r.Case != "") {
			t.Errorf("%q: got %q, %v", subject, r.Case, err)
		}
	}
}

func TestEncodeJSON(t *testing.T) {
	e := mustFailed(t, failure())
	data, err := EncodeJSON(e)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if _, ok := got["data"].(map[string]any); !ok || got["specversion"] != "1.0" || got["class"] != "vswitch-ip-exhausted" {
		t.Errorf("got %s", data)
	}
	if _, err := EncodeJSON(event.Event{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("of no event: got %v", err)
	}
	e.DataEncoded = []byte("{")
	if _, err := EncodeJSON(e); !errors.Is(err, ErrInvalid) {
		t.Errorf("of broken data: got %v", err)
	}
}

func TestAttribute(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{nil, ""}, {"a", "a"}, {true, "true"}, {int32(7), "7"}, {testTime, "2026-11-20T08:09:10Z"},
		{struct{ A int }{1}, "{1}"},
	} {
		if got := attribute(tt.value); got != tt.want {
			t.Errorf("attribute(%v) = %q, want %q", tt.value, got, tt.want)
		}
	}
}

func FuzzPercentDecode(f *testing.F) {
	for _, s := range []string{"Euro%20%E2%82%AC", `"a\"b"`, "100%", "%zz", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain := percentDecode(s)
		if strings.HasPrefix(plain, `"`) && strings.HasSuffix(plain, `"`) && len(plain) > 1 {
			plain = percentDecode(percentEncode(plain))
		}
		if again := percentDecode(percentEncode(plain)); again != plain {
			t.Errorf("%q: decoded %q, encoded and decoded %q", s, plain, again)
		}
	})
}

func FuzzDecodeNATS(f *testing.F) {
	e := mustFailed(f, failure())
	text, err := EncodeJSON(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("application/cloudevents+json", "", "", "", "", "", "", text)
	f.Add("", "1.0", "a.1.2", "/clusters/c1", TypeFailed, "2026-11-20T08:09:10Z", "x%20y", e.Data())
	f.Add("", "", "", "", "", "", "", []byte(`{"specversion":"0.3","datacontentencoding":"base64","data":"e30="}`))
	f.Add("", "", "", "", "", "", "", []byte(`{"specversion":"1.0","id":"1","type":"t","source":"s","data_base64":"e30=","x":1.5}`))
	f.Fuzz(func(t *testing.T, media, version, id, source, kind, at, other string, data []byte) {
		header := map[string][]string{
			"Content-Type": {media}, "ce-specversion": {version}, "ce-id": {id}, "ce-source": {source}, "ce-type": {kind}, "ce-time": {at}, "ce-other": {other},
		}
		e, err := DecodeNATS(header, data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, not an ErrInvalid of one line", err)
			}
			return
		}
		header, data, err = EncodeNATS(e)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		back, err := DecodeNATS(header, data)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if back.ID() != e.ID() || back.Type() != e.Type() || !back.Time().Equal(e.Time()) || string(back.Data()) != string(e.Data()) {
			t.Errorf("got %v, want %v", back, e)
		}
	})
}
