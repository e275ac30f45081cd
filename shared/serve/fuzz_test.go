package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

func plan(context.Context, *remedy.Case) (remedy.Plan, error) {
	return remedy.Plan{Finding: say.F("Ask."), Ask: say.F("Ask.")}, nil
}

// The endpoint answers everything, and every POST to the path of calls gets an Answer.
func FuzzEndpoint(f *testing.F) {
	key := newKey(f)
	w := &world{engine: key, svc: &corev1.Service{}}
	good := w.call(f, same)
	f.Add("POST", "/", []byte(good))
	f.Add("POST", "/invoke", []byte(good[:40]))
	f.Add("GET", "/healthz", []byte{})
	f.Add("POST", "/", fcTrigger(f, "POST", "/", nil, string(good), false))
	f.Add("POST", "/", fcTrigger(f, "GE T", "%", map[string]string{"a b": "\n"}, "=", true))
	d := bare(f, key, class(plan))
	h := d.Handler()
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Method, r.URL.Path = method, path
		a := httptest.NewRecorder()
		h.ServeHTTP(a, r)
		var said hand.Answer
		if a.Code < 200 || a.Code >= 500 || method == http.MethodPost && (path == "/" || path == "/invoke") && json.Unmarshal(a.Body.Bytes(), &said) != nil {
			t.Errorf("%s %q: status %d: %s", method, path, a.Code, a.Body)
		}
		if got, err := d.Invoke(t.Context(), body); err != nil || !json.Valid(got) {
			t.Errorf("invoked: %s, %v", got, err)
		}
	})
}

// FuzzAnswer has the engine's key and signs anything: an event, its data, or both. The hand does not panic, and the answer to a call
// that was not accepted contains only a problem.
func FuzzAnswer(f *testing.F) {
	key := newKey(f)
	w := &world{engine: key, svc: &corev1.Service{}}
	annotate := hand.Step{Kind: "annotate", Step: json.RawMessage(`{"set":{"a":"b"}}`)}
	look, err := json.Marshal(hand.LookRequest{About: w.about(), For: hand.Diagnose, Steps: []hand.Step{annotate}})
	if err != nil {
		f.Fatal(err)
	}
	order, err := json.Marshal(hand.Order{About: w.about(), Step: annotate, Undo: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hand.TypeLook, look, []byte(nil))
	f.Add(hand.TypeApply, order, []byte(nil))
	f.Add(hand.TypeLook, []byte(`{"service":{},"now":0,"steps":[null],"idle":-1,"made":-9}`), []byte(nil))
	f.Add("", []byte("[]"), []byte(`{"specversion":"1.0","data_base64":"AA","id":7}`))
	f.Add(hand.TypeLook, []byte(strings.Repeat("[", 10_000)), []byte(nil))
	for _, purpose := range []hand.Purpose{hand.Check, hand.Bars, hand.Cause} {
		f.Add(hand.TypeLook, bytes.Replace(look, []byte(hand.Diagnose), []byte(purpose), 1), []byte(nil))
	}
	served := bare(f, key, class(plan)).Hand
	f.Fuzz(func(t *testing.T, kind string, data, payload []byte) {
		call := w.call(t, func(c *call) {
			c.event["type"] = kind
			c.seal = nil
		})
		parts := strings.Split(string(call), ".")
		if payload == nil { // these data in a valid event
			var e map[string]json.RawMessage
			text, err := base64.RawURLEncoding.DecodeString(parts[1])
			if err == nil {
				err = json.Unmarshal(text, &e)
			}
			if err != nil {
				t.Fatal(err)
			}
			e["data"] = data
			if payload, err = json.Marshal(e); err != nil {
				return // the data are not JSON
			}
		}
		signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
		call = sign(t, key, signed)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		status, text := served.Answer(ctx, call)
		var a hand.Answer
		if err := json.Unmarshal(text, &a); err != nil || len(text) > hand.MaxAnswer || status < 200 || status >= 500 {
			t.Fatalf("status %d, %d bytes: %v", status, len(text), err)
		}
		if status != http.StatusOK && (a.Problem == nil || a.Answer != nil || a.ID != "") || status == http.StatusOK && a.ID == "" {
			t.Errorf("status %d: %s", status, text)
		}
	})
}
