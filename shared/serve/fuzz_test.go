package serve

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/lbremedy/lbremedy/shared/host"
)

// FuzzDoor sends anything to the door. It answers, and hands on nothing but valid
// CloudEvents.
func FuzzDoor(f *testing.F) {
	structured := `{"specversion":"1.0","id":"1","type":"t","source":"/s","datacontenttype":"application/json","data":{"a":1}}`
	f.Add("POST", "/", "application/cloudevents+json", "", "", []byte(structured))
	f.Add("POST", "/invoke", "", "", "", []byte(structured[:40]))
	f.Add("POST", "/", "application/json", "1.0", "1", []byte(`{"a":1}`))
	f.Add("POST", "/", "application/cloudevents-batch+json", "", "", []byte(`[`+structured+`]`))
	f.Add("POST", "/", "text/plain; charset=\"", "0.3", "%", []byte{0xff})
	f.Add("GET", "/healthz", "", "", "", []byte{})
	d := &Door{Handle: func(_ context.Context, e cloudevents.Event) host.Reply {
		if err := e.Validate(); err != nil {
			panic(err)
		}
		return host.Reply{}
	}}
	h := d.Handler()
	f.Fuzz(func(t *testing.T, method, path, media, version, id string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Method, r.URL.Path = method, path
		r.Header = http.Header{"Content-Type": {media}, "Ce-Type": {"t"}, "Ce-Source": {"/s"}, "Ce-Id": {id}}
		if version != "" {
			r.Header["Ce-Specversion"] = []string{version}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 || w.Code == http.StatusInternalServerError {
			t.Errorf("%s %q: status %d", method, path, w.Code)
		}
		if _, err := d.Invoke(t.Context(), body); err == nil && len(body) == 0 {
			t.Error("an empty payload was answered")
		}
	})
}
