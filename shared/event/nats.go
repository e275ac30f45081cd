package event

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/lbremedy/lbremedy/shared/regex"
)

const (
	headerPrefix    = "ce-"
	headerMedia     = "Content-Type"
	headerMessageID = "Nats-Msg-Id"
	mediaStructured = "application/cloudevents"
)

// EncodeNATS returns the event as headers and data of a NATS message in binary mode: attributes as percent-encoded ce- headers, data
// unchanged, MessageID as Nats-Msg-Id. It is an ErrInvalid if the event isn't a CloudEvent.
func EncodeNATS(e event.Event) (header map[string][]string, data []byte, err error) {
	if err := check(e); err != nil {
		return nil, nil, err
	}
	header = map[string][]string{headerMessageID: {MessageID(e)}}
	set := func(name, value string) {
		if value != "" {
			header[headerPrefix+name] = []string{percentEncode(value)}
		}
	}
	set("specversion", e.SpecVersion())
	set("id", e.ID())
	set("source", e.Source())
	set("type", e.Type())
	set("subject", e.Subject())
	set("datacontenttype", e.DataContentType())
	set("dataschema", e.DataSchema())
	if !e.Time().IsZero() {
		set("time", types.FormatTime(e.Time()))
	}
	for name, value := range e.Extensions() {
		set(name, attribute(value))
	}
	return header, e.Data(), nil
}

// OfServer reports whether NATS itself uses a header: for a position, the end of an answer, or an order. Clients differ in letter case.
func OfServer(name string) bool {
	return strings.EqualFold(name, "Status") || len(name) >= 5 && strings.EqualFold(name[:5], "Nats-")
}

// Forged returns the first header, by name, for which a stored message is refused; empty if none exists. Readers remove the server's
// own headers before. lbremedy writes only the message's ID and those in written; all others pretend to be the server's.
func Forged(header map[string][]string, written ...string) string {
	forged := ""
	for name := range header {
		if OfServer(name) && !strings.EqualFold(name, headerMessageID) && !slices.Contains(written, name) && (forged == "" || name < forged) {
			forged = name
		}
	}
	return forged
}

// DecodeRecord returns the record in a NATS message, with the errors of DecodeNATS and ReadRecord. A record of another cluster,
// Service or class than its subject's is an ErrInvalid: a writer may have access to one subject only.
func DecodeRecord(subject string, header map[string][]string, data []byte) (Record, error) {
	e, err := DecodeNATS(header, data)
	if err != nil {
		return Record{}, err
	}
	r, err := ReadRecord(e)
	if err != nil {
		return Record{}, err
	}
	if own := CaseSubject(r.Cluster, r.Service.UID, r.Class); subject != own {
		return Record{}, invalid("the record of %s stands under %q", own, clip(subject))
	}
	return r, nil
}

// EncodeRecord returns the NATS message of a record and the ID of its CloudEvent.
func EncodeRecord(r Record) (id string, header map[string][]string, data []byte, err error) {
	e, err := NewRecord(r)
	if err == nil {
		header, data, err = EncodeNATS(e)
	}
	return e.ID(), header, data, err
}

// DecodeNATS returns the CloudEvent of a NATS message. A Content-Type of application/cloudevents means structured mode; otherwise a
// ce-specversion header means binary mode; otherwise a JSON object with a specversion is structured too. Header names count in any
// case; values may be quoted and need not be encoded. It is an ErrInvalid if the message holds no CloudEvent of version 1.0 or 0.3, or
// several, or has a header that only the server may write.
func DecodeNATS(header map[string][]string, data []byte) (event.Event, error) {
	if name := Forged(header); name != "" {
		return event.Event{}, invalid("the message was stored with the header %q, which only NATS itself may write", clip(name))
	}
	media := strings.ToLower(strings.TrimSpace(get(header, headerMedia)))
	switch {
	case strings.HasPrefix(media, mediaStructured+"-batch"):
		return event.Event{}, invalid("a batch of events in one NATS message")
	case strings.HasPrefix(media, mediaStructured):
		if format, _, _ := strings.Cut(strings.TrimPrefix(media, mediaStructured), ";"); format != "" && strings.TrimSpace(format) != "+json" {
			return event.Event{}, invalid("a structured event in the format %q, not JSON", clip(media))
		}
		return DecodeJSON(data)
	case get(header, headerPrefix+"specversion") != "":
		return decodeBinary(header, data)
	}
	var probe struct {
		SpecVersion *json.RawMessage `json:"specversion"`
	}
	if err := json.Unmarshal(data, &probe); err != nil || probe.SpecVersion == nil {
		return event.Event{}, invalid("the message has no ce-specversion header and its data is not a structured event")
	}
	return DecodeJSON(data)
}

// DecodeJSON returns a CloudEvent from the JSON format. It is an ErrInvalid if the text isn't one of version 1.0 or 0.3.
func DecodeJSON(data []byte) (event.Event, error) {
	var e event.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return event.Event{}, invalid("read a structured event: %s", clip(oneLine(err.Error())))
	}
	if err := check(e); err != nil {
		return event.Event{}, err
	}
	return e, nil
}

// EncodeJSON returns the CloudEvent in the JSON format. It is an ErrInvalid if the event isn't one, or its JSON data isn't JSON.
func EncodeJSON(e event.Event) ([]byte, error) {
	if err := check(e); err != nil {
		return nil, err
	}
	data, err := json.Marshal(e)
	if err != nil {
		return nil, invalid("write event %q: %v", clip(e.ID()), err)
	}
	return data, nil
}

func decodeBinary(header map[string][]string, data []byte) (event.Event, error) {
	attributes := map[string]string{}
	for name, values := range header {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, headerPrefix) || len(values) == 0 {
			continue
		}
		// The binding's own spelling counts.
		if _, twice := attributes[lower]; !twice || name == lower {
			attributes[lower] = percentDecode(values[0])
		}
	}
	take := func(name string) string {
		value := attributes[headerPrefix+name]
		delete(attributes, headerPrefix+name)
		return value
	}
	version := take("specversion")
	if version != event.CloudEventsVersionV1 && version != event.CloudEventsVersionV03 {
		return event.Event{}, invalid("the event has version %q of CloudEvents, not 1.0 or 0.3", clip(version))
	}
	e := event.New(version)
	e.DataEncoded = data
	set := func(value string, set func(string)) {
		if value != "" {
			set(value)
		}
	}
	set(take("id"), e.SetID)
	set(take("type"), e.SetType)
	set(take("source"), e.SetSource)
	set(take("subject"), e.SetSubject)
	set(take("dataschema"), e.SetDataSchema)
	set(take("schemaurl"), e.SetDataSchema)
	media := take("datacontenttype")
	if media == "" {
		media = get(header, headerMedia)
	}
	set(media, e.SetDataContentType)
	if text := take("time"); text != "" {
		at, err := types.ParseTime(text)
		if err != nil {
			return event.Event{}, invalid("the event has the time %q, not one of RFC 3339", clip(text))
		}
		e.SetTime(at)
	}
	for name, value := range attributes {
		if err := e.Context.SetExtension(strings.TrimPrefix(name, headerPrefix), value); err != nil {
			return event.Event{}, invalid("the event has the header %q: %v", clip(name), clip(err.Error()))
		}
	}
	if err := check(e); err != nil {
		return event.Event{}, err
	}
	return e, nil
}

func get(header map[string][]string, name string) string {
	if values := header[name]; len(values) > 0 {
		return values[0]
	}
	for other, values := range header {
		if strings.EqualFold(other, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

func attribute(value any) string {
	if value == nil {
		return ""
	}
	if s, ok := value.(string); ok {
		return s
	}
	text, err := types.Format(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return text
}

func percentEncode(s string) string {
	var out strings.Builder
	for i := range len(s) {
		if b := s[i]; b > ' ' && b <= '~' && b != '"' && b != '%' {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

var (
	quotedPair = regex.New(`\\(.)`)
	encoded    = regex.New(`%[0-9A-Fa-f]{2}`)
)

// percentDecode is the inverse of percentEncode; it also takes values that are quoted or were never encoded.
func percentDecode(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = quotedPair().ReplaceAllString(s[1:len(s)-1], "$1")
	}
	s = encoded().ReplaceAllStringFunc(s, func(code string) string {
		b, _ := hex.DecodeString(code[1:]) // two hex digits
		return string(b)
	})
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
