package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestItemsFromTheWire(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		want    string
		version string
		bad     bool
	}{
		"metadata last":     {text: `{"kind":"EventList","items":[{"reason":"a"},{"reason":"b"}],"metadata":{"resourceVersion":"7"}}`, want: "a b", version: "7"},
		"metadata first":    {text: `{"metadata":{"resourceVersion":"7"},"items":[{"reason":"a"}]}`, want: "a", version: "7"},
		"null":              {text: `{"metadata":{"resourceVersion":"7"},"items":null}`, version: "7"},
		"no items":          {text: `{"metadata":{"resourceVersion":"7"}}`, version: "7", bad: true},
		"an object":         {text: `{}`, bad: true},
		"odd continue":      {text: `{"metadata":{"resourceVersion":"7","continue":5},"items":[{"reason":"a"}]}`, bad: true, version: "7"},
		"one odd item":      {text: `{"items":[{"reason":5,"message":"m"},{"reason":"b"}]}`, want: " b"},
		"cut in an item":    {text: `{"items":[{"reason":"a"},{"rea`, want: "a", bad: true},
		"cut between items": {text: `{"items":[{"reason":"a"}`, want: "a", bad: true},
		"no list":           {text: `[]`, bad: true},
		"nothing":           {text: ``, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			var meta metav1.ListMeta
			err := items(&bounded{from: strings.NewReader(tt.text), object: largest}, &meta, func() any { return new(wireEvent) }, func(item any) error {
				w := item.(*wireEvent)
				got = append(got, w.Reason)
				return nil
			})
			if bad := err != nil; bad != tt.bad {
				t.Errorf("error %v, want one: %v", err, tt.bad)
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("items %q, want %q", text, tt.want)
			}
			if meta.ResourceVersion != tt.version {
				t.Errorf("version %q, want %q", meta.ResourceVersion, tt.version)
			}
		})
	}
}

func TestEventFromTheWire(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		text string
		want Event
	}{
		"nothing": {`{}`, Event{Count: 1}},
		"nulls":   {`{"metadata":null,"involvedObject":null,"source":null,"series":null,"count":null,"firstTimestamp":null,"eventTime":null}`, Event{Count: 1}},
		"of a recorder": {
			`{"metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"9"},"involvedObject":{"kind":"Service","namespace":"s","name":"web","uid":"x"},
			"reason":"R","type":"Warning","message":"m","source":{"component":"c"},"reportingComponent":"d","count":3,
			"firstTimestamp":"2026-11-20T12:00:00Z","lastTimestamp":"2026-11-20T12:01:00Z"}`,
			Event{Namespace: "s", Name: "n", UID: "u", ResourceVersion: "9", Reason: "R", Type: "Warning", Message: "m", Component: "c",
				Object: Object{"Service", "s", "web", "x"}, Count: 3, First: noon, Last: noon.Add(time.Minute)},
		},
		"with its writers": {
			`{"metadata":{"managedFields":[{"manager":"a","operation":"Update","fieldsV1":{"f:x":{}}},{"manager":"b"},{"manager":"a","subresource":"s"},` +
				`{"manager":""},{}]},"source":{"host":"h"},"reportingInstance":"i"}`,
			Event{Count: 1, Writers: []string{"a", "b"}, Host: "h"},
		},
		"with an instance alone": {`{"reportingInstance":"i"}`, Event{Count: 1, Host: "i"}},
		"of events.k8s.io": {
			`{"reportingComponent":"d","eventTime":"2026-11-20T12:00:00.000001Z","lastTimestamp":null,"series":{"count":4,"lastObservedTime":"2026-11-20T12:02:00Z"}}`,
			Event{Component: "d", Count: 4, First: noon.Add(time.Microsecond), Last: noon.Add(2 * time.Minute)},
		},
		"with nothing but a creation": {`{"metadata":{"creationTimestamp":"2026-11-20T12:00:00Z"}}`, Event{Count: 1, First: noon, Last: noon, Created: noon}},
		"with odd times":              {`{"eventTime":"yesterday","lastTimestamp":7,"count":-2}`, Event{Count: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Event
			from := &bounded{from: strings.NewReader(fmt.Sprintf(`{"items":[%s]}`, tt.text)), object: largest}
			err := items(from, new(metav1.ListMeta), func() any { return new(wireEvent) }, func(item any) error {
				w := item.(*wireEvent)
				got = w.event()
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the Event (-want +got):\n%s", diff)
			}
		})
	}
}
