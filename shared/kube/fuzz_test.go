package kube

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const listed = `{"kind":"EventList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"web.1","uid":"u",` +
	`"resourceVersion":"6"},"involvedObject":{"kind":"Service"},"firstTimestamp":"2026-01-02T15:04:05Z","lastTimestamp":null,"count":3}]}`

// A truncated list is an error: what it lacks must not appear absent.
func FuzzList(f *testing.F) {
	f.Add(listed)
	for i := 0; i < len(listed); i += 7 {
		f.Add(listed[:i])
	}
	f.Add(`{"items":null}`)
	f.Add(`{"items":[null,1,"x"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		from := func(body string) *bounded { return &bounded{from: strings.NewReader(body), object: largest} }
		seen := 0
		err := items(from(body), new(metav1.ListMeta), func() any { return new(wireEvent) }, func(item any) error {
			w := item.(*wireEvent)
			seen++
			if e := w.event(); e.Count < 1 {
				t.Errorf("an Event with the count %d", e.Count)
			}
			return nil
		})
		serviceErr := items(from(body), new(metav1.ListMeta), func() any { return new(corev1.Service) }, func(any) error { return nil })
		if err == nil && serviceErr != nil && seen == 0 {
			t.Errorf("an empty list is one of Events and not of Services: %v", serviceErr)
		}
		var whole map[string]json.RawMessage
		if err == nil && json.Unmarshal([]byte(body), &whole) != nil && !json.Valid(firstValue(body)) {
			t.Errorf("%q was read as a list of %d", body, seen)
		}
	})
}

func firstValue(s string) []byte {
	var v json.RawMessage
	if json.NewDecoder(strings.NewReader(s)).Decode(&v) != nil {
		return nil
	}
	return v
}

func FuzzWatch(f *testing.F) {
	frame := `{"type":"ADDED","object":{"metadata":{"name":"web","resourceVersion":"6"}}}`
	for _, s := range []string{frame, frame + "\n" + frame, frame[:20], `{"type":"ERROR","object":{"code":410,"reason":"Expired"}}`,
		`{"type":"ERROR","object":1}`, `{"type":"BOOKMARK","object":null}`, `null`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		_ = frames(strings.NewReader(body), "watch", func(_ string, w *wireEvent) error { _ = w.event(); return nil })
		err := frames(strings.NewReader(body), "watch", func(string, *corev1.Service) error { return nil })
		if err == nil && strings.Contains(body, `"type":"ERROR"`) && json.Valid([]byte(body)) && strings.HasPrefix(body, `{"type":"ERROR"`) &&
			strings.Count(body, `"type"`) == 1 {
			t.Errorf("%q ends the watch as if all were well", body)
		}
	})
}
