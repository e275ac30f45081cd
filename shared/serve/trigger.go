package serve

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// trigger reads the request in a payload of an HTTP trigger; nil if the payload is something else.
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
	r := request(cmp.Or(strings.ToUpper(event.Triggered.HTTP.Method), http.MethodPost), path.Path, body)
	if path.Path == "/initialize" || path.Path == "/pre-stop" { // the platform sends its own another way; here each would wait for itself
		r.URL.Path = "/not-found"
	}
	for name, value := range event.Headers {
		// The platform's statements come beside the payload; inside it they would be the caller's.
		if !strings.HasPrefix(strings.ToLower(name), "x-fc-") {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

func request(method, path string, body []byte) *http.Request {
	r := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}
