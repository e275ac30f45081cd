package answer_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/operator"
)

// What is read from a file, as "namespace/name class".
func TestReadFile(t *testing.T) {
	ev := func(name, uid, message, last string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"namespace":"shop","name":"%s.1",
			"uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"7"},
			"involvedObject":{"kind":"Service","namespace":"shop","name":"%[1]s","uid":"%s"},"reason":"SyncLoadBalancerFailed","type":"Warning","message":"%s",
			"source":{"component":"service-controller"},"firstTimestamp":null,"lastTimestamp":"%s","eventTime":null,"series":null,"count":3}`, name, uid, message, last)
	}
	one := ev("web", "22222222-2222-2222-2222-222222222222", operator.Message, "2026-01-02T15:04:05Z")
	newer := ev("web", "22222222-2222-2222-2222-222222222222", operator.Message, "2026-01-02T15:14:05Z")
	two := ev("api", "33333333-3333-3333-3333-333333333333", "Error syncing load balancer []: nobody knows this", "2026-01-02T15:04:05Z")
	other := `{"kind":"Event","involvedObject":{"kind":"Pod"},"reason":"Pulled"}`
	tests := []struct {
		name, text string
		want       []string
	}{
		{"CloudEvent", operator.CloudEvent(t, event.Failure{Class: "tag-missing"}, "c1"), []string{"shop/web tag-missing 2023-11-14T22:13:20Z"}},
		{"Event", one, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:04:05Z"}},
		{"list", `{"kind":"List","items":[` + one + "," + other + "," + two + "," + newer + `]}`,
			[]string{"shop/web vswitch-ip-exhausted 2026-01-02T15:14:05Z", "shop/api unclassified 2026-01-02T15:04:05Z"}},
		{"array", "[" + newer + "," + one + "]", []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:14:05Z"}},
		{"one behind the other", one + "\n" + two, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:04:05Z", "shop/api unclassified 2026-01-02T15:04:05Z"}},
		{"YAML", `apiVersion: v1
kind: List
items:
- kind: Event
  metadata: {namespace: shop, name: web.1, uid: 11111111-1111-1111-1111-111111111111, resourceVersion: "7", creationTimestamp: "2026-01-02T15:04:05Z"}
  involvedObject: {kind: Service, namespace: shop, name: web, uid: 22222222-2222-2222-2222-222222222222}
  reason: SyncLoadBalancerFailed
  type: Warning
  message: |-
    Error syncing load balancer []: Message: The specified
    VSwitch has no available ip.
  source: {component: service-controller}
---
---
` + two, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:04:05Z", "shop/api unclassified 2026-01-02T15:04:05Z"}},
		{"events.k8s.io", `kind: Event
apiVersion: events.k8s.io/v1
metadata: {namespace: shop, name: web.1, uid: 11111111-1111-1111-1111-111111111111, resourceVersion: "7"}
regarding: {kind: Service, namespace: shop, name: web, uid: 22222222-2222-2222-2222-222222222222}
reason: SyncLoadBalancerFailed
type: Warning
note: "Error syncing load balancer []: Message: The specified VSwitch has no available ip."
reportingController: service-controller
eventTime: "2026-01-02T15:04:05.123456Z"
series: {count: 4, lastObservedTime: "2026-01-02T15:09:05.123456Z"}
`, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:09:05.123456Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var errs bytes.Buffer
			p := &cli.Program{Err: &errs, Getenv: func(string) string { return "" }, Settings: cli.Settings{Cluster: "c1"}}
			items, err := answer.ReadFile(p, operator.Write(t, "events", tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, it := range items {
				f := it.Event.Failure
				got = append(got, f.Service.String()+" "+it.Remedy.Class+" "+f.Last.UTC().Format(time.RFC3339Nano))
				if it.Event.ID == "" || f.Cluster != "c1" {
					t.Errorf("event %q of cluster %q", it.Event.ID, f.Cluster)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
