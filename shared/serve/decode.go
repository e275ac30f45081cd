package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/lbremedy/lbremedy/shared/event"
)

// mostEvents is how many events a batch may hold.
const mostEvents = 100

// httpEvent is the type of the event that EventBridge makes of a request to one of its
// HTTP event sources. What was sent is in its data.
const httpEvent = "eventbridge:Events:HTTPEvent"

// decode reads the CloudEvents of a request, one or more: in binary mode if its headers
// say so, else from the body's JSON, whatever content type it came under. A JSON array
// is a batch: CloudEvents' own, and what event streams of EventBridge send.
func decode(header http.Header, body []byte) ([]cloudevents.Event, error) {
	list, err := read(header, body)
	if err != nil {
		return nil, err
	}
	for i, e := range list {
		if e.Type() != httpEvent {
			continue
		}
		if list[i], err = sentTo(e); err != nil {
			return nil, fmt.Errorf("the event is EventBridge's of an HTTP request: %w", err)
		}
	}
	return list, nil
}

func read(header http.Header, body []byte) ([]cloudevents.Event, error) {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if header.Get("Ce-Specversion") != "" && !strings.HasPrefix(kind, "application/cloudevents") {
		e, err := event.DecodeNATS(header, body) // the bindings of HTTP and NATS are one in this
		if err != nil {
			return nil, err
		}
		return []cloudevents.Event{e}, nil
	}
	switch kind {
	case cloudevents.ApplicationCloudEventsJSON, cloudevents.ApplicationCloudEventsBatchJSON, cloudevents.ApplicationJSON, "application/octet-stream", "":
	default:
		return nil, fmt.Errorf("the content type %q is not one of a CloudEvent: send application/cloudevents+json, or the ce- headers of the binary mode", kind)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		e, err := event.DecodeJSON(body)
		return []cloudevents.Event{e}, err
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil {
		return nil, errors.New("the batch is no JSON")
	}
	if len(parts) == 0 || len(parts) > mostEvents {
		return nil, fmt.Errorf("the batch has %d events: send 1 to %d", len(parts), mostEvents)
	}
	list := make([]cloudevents.Event, len(parts))
	for i, part := range parts {
		var err error
		if list[i], err = event.DecodeJSON(part); err != nil {
			return nil, fmt.Errorf("event %d of the batch: %w", i+1, err)
		}
	}
	return list, nil
}

// sentTo returns the event that was sent to an HTTP event source of EventBridge.
func sentTo(e cloudevents.Event) (cloudevents.Event, error) {
	var request struct {
		Headers map[string]json.RawMessage `json:"headers"`
		Body    json.RawMessage            `json:"body"`
	}
	if err := json.Unmarshal(e.Data(), &request); err != nil {
		return cloudevents.Event{}, errors.New("its data is no request")
	}
	header := http.Header{}
	for name, value := range request.Headers {
		header.Set(name, oneOf(value))
	}
	body := []byte(request.Body)
	if text := ""; json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	list, err := read(header, body)
	switch {
	case err != nil:
		return cloudevents.Event{}, err
	case len(list) != 1:
		return cloudevents.Event{}, errors.New("its body is a batch: send one event in a request")
	}
	return list[0], nil
}

// oneOf returns a header's value, which is a text or a list of them.
func oneOf(value json.RawMessage) string {
	var one string
	var many []string
	if json.Unmarshal(value, &one) != nil && json.Unmarshal(value, &many) == nil && len(many) > 0 {
		one = many[0]
	}
	return one
}

// trigger reads the request that an HTTP trigger of Function Compute hands to its Go
// runtime as a payload; nil if the payload is something else.
func trigger(payload []byte) (*http.Request, error) {
	var event struct {
		Version   string            `json:"version"`
		Path      string            `json:"rawPath"`
		Body      string            `json:"body"`
		Encoded   bool              `json:"isBase64Encoded"`
		Headers   map[string]string `json:"headers"`
		Triggered *struct {
			HTTP struct{ Method, Path string } `json:"http"`
		} `json:"requestContext"`
	}
	if json.Unmarshal(payload, &event) != nil || event.Triggered == nil || event.Version == "" {
		return nil, nil
	}
	if event.Version != "v1" {
		return nil, fmt.Errorf("the HTTP trigger sends version %q of its events, not v1", event.Version)
	}
	body := []byte(event.Body)
	if event.Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(event.Body); err != nil {
			return nil, errors.New("the HTTP trigger says that the body is Base64, and it is not")
		}
	}
	path, err := url.ParseRequestURI(event.Path)
	if err != nil {
		path = &url.URL{Path: "/"}
	}
	r := &http.Request{
		Method: strings.ToUpper(event.Triggered.HTTP.Method), URL: &url.URL{Path: path.Path},
		Header: http.Header{}, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if len(body) > 0 {
		r.Body, r.ContentLength = readCloser{bytes.NewReader(body)}, int64(len(body))
	}
	for name, value := range event.Headers {
		// What the platform says comes beside the payload; here it would be the caller's word.
		if !strings.HasPrefix(strings.ToLower(name), "x-fc-") {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

type readCloser struct{ *bytes.Reader }

// Close does nothing.
func (readCloser) Close() error { return nil }
