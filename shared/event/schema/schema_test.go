package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

var update = flag.Bool("update", false, "write the schemas")

func TestFresh(t *testing.T) {
	files, err := Files("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the types say; run make gen, or go test ./shared/event/schema -update (-want +got):\n%s", name, diff)
		}
	}
}

func TestFilesNeedsTheSource(t *testing.T) {
	if _, err := Files(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no Go source in ") {
		t.Errorf("got %v", err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(root+"/shared/event", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/shared/event/broken.go", []byte("pack"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Files(root); err == nil || !strings.Contains(err.Error(), "broken.go") {
		t.Errorf("got %v", err)
	}
}

func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte, change func(map[string]any)) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(value.(map[string]any))
	}
	return s.Validate(value)
}

var at = time.Date(2026, 11, 20, 8, 9, 10, 11, time.UTC)

var service = event.Service{Namespace: "shop", Name: "web", UID: "b32ada40-f984-4606-a1e9-9e67a58ba421"}

func named(t *testing.T, e cloudevents.Event, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal(text, &schema); err != nil || e.DataSchema() != schema.ID {
		t.Errorf("%s has the dataschema %q, want %q, %v", e.Type(), e.DataSchema(), schema.ID, err)
	}
}

func TestFailedValidates(t *testing.T) {
	s := compiled(t, Failed)
	e, err := event.NewFailed(event.Failure{
		Cluster: "c1", Class: "arrearage", Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller",
		Message: "Error syncing load balancer []: Message: The account is arrearage.", Service: service,
		Event: event.Reference{Name: "web.17a", UID: "e", ResourceVersion: "1"}, Count: 1, First: at, Last: at,
	})
	if err != nil {
		t.Fatal(err)
	}
	named(t, e, Failed)
	for _, tt := range []struct {
		name   string
		change func(map[string]any)
		good   bool
	}{
		{"as it is", nil, true},
		{"a field to come", func(v map[string]any) { v["new"] = []any{} }, true},
		{"no message", func(v map[string]any) { delete(v, "message") }, false},
		{"no Service", func(v map[string]any) { delete(v, "service") }, false},
		{"no UID", func(v map[string]any) { delete(v["service"].(map[string]any), "uid") }, false},
		{"a count in words", func(v map[string]any) { v["count"] = "many" }, false},
	} {
		if err := validate(t, s, e.Data(), tt.change); (err == nil) != tt.good {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestRecordValidates(t *testing.T) {
	s := compiled(t, Record)
	least := event.Record{
		Origin: event.Origin{
			Case: "b32ada40-20261120T080910", Cluster: "c1", Class: "arrearage", Service: service, Event: "e.1.1", Message: "m",
			EventTime: at,
		},
		Run: event.Run{Phase: event.Intent, At: at, Who: "worker", First: at},
	}
	full := least
	full.Phase, full.Result, full.Impact, full.Written, full.Wait = event.Settled, event.Fixed, event.NeverUp, at, time.Minute
	full.Attempt, full.Attempts, full.Next, full.Timings = 1, []time.Time{at}, 1, event.Timings{Queue: time.Second}
	step := json.RawMessage(`{"key":"a","value":"b"}`)
	full.Steps = []event.StepRecord{{
		Kind: "annotate", Text: say.Literal("annotate a=b"), Target: "service/x", Risk: "low", Step: step,
		Undo:  &event.Undo{Kind: "annotate", Text: say.Literal("annotate a=")},
		Found: true, Calls: []event.Call{{At: at, Action: "slb:TagResources", Resource: "lb-1", Request: "r", Version: "1", Error: "e"}},
	}}
	full.Person = &event.Person{Name: "ann", Identity: "ann@example.com", Host: "laptop"}
	full.Approved = &event.Approved{By: "ann", At: at, Identity: "ann@example.com", Host: "laptop"}
	for _, tt := range []struct {
		name   string
		record event.Record
		change func(map[string]any)
		good   bool
	}{
		{"the least", least, nil, true},
		{"the most", full, nil, true},
		{"a field to come", full, func(v map[string]any) { v["new"] = true }, true},
		{"no phase", least, func(v map[string]any) { delete(v, "phase") }, false},
		{"an unknown result", full, func(v map[string]any) { v["result"] = "wonderful" }, false},
		{"an unknown impact", full, func(v map[string]any) { v["impact"] = "none" }, false},
		{"a step without a kind", full, func(v map[string]any) { delete(v["steps"].([]any)[0].(map[string]any), "kind") }, false},
		{"a call without an action", full, func(v map[string]any) {
			delete(v["steps"].([]any)[0].(map[string]any)["calls"].([]any)[0].(map[string]any), "action")
		}, false},
		{"a wait in words", full, func(v map[string]any) { v["wait"] = "1m" }, false},
	} {
		e, err := event.NewRecord(tt.record)
		if err != nil {
			t.Fatal(err)
		}
		named(t, e, Record)
		if err := validate(t, s, e.Data(), tt.change); (err == nil) != tt.good {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestDescribed(t *testing.T) {
	for _, name := range []string{Failed, Record} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var s struct{ Title, Description string }
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if s.Title == "" || !strings.HasSuffix(s.Description, ".") {
			t.Errorf("%s: title %q, description %q", name, s.Title, s.Description)
		}
	}
}
