package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	listener := cloud.Listener{Port: 80, Protocol: "tcp", VServerGroup: "rsp-1"}
	for _, tt := range []struct {
		step remedy.Step
		want []journal.Difference
	}{
		{step.CreateListener{LB: "lb-1", Listener: listener}, []journal.Difference{{Key: "tcp:80", Before: "absent", After: "rsp-1"}}},
		{step.DeleteListener{LB: "lb-1", Listener: listener}, []journal.Difference{{Key: "tcp:80", Before: "rsp-1", After: "absent"}}},
		{step.MoveListener{LB: "lb-1", Port: 80, Protocol: "tcp", Group: "rsp-2", Was: "rsp-1"}, []journal.Difference{{Before: "rsp-1", After: "rsp-2"}}},
		{step.TagLB{LB: "lb-1", Key: "k", Value: "v"}, []journal.Difference{{Key: "k", Before: "absent", After: "v"}}},
		{step.UntagLB{LB: "lb-1", Key: "k", Value: "v"}, []journal.Difference{{Key: "k", Before: "v", After: "absent"}}},
		{step.TargetPorts{Ports: []step.TargetPort{{Port: 80, Protocol: "TCP", To: intstr.FromInt(8080), Was: intstr.FromString("http")}}},
			[]journal.Difference{{Key: "targetPort 80", Before: "http", After: "8080"}}},
		{step.Annotate{Set: map[string]string{"a": "new", "b": "new"}, Was: map[string]string{"a": "old"}},
			[]journal.Difference{{Key: "a", Before: "old", After: "new"}, {Key: "b", Before: "absent", After: "new"}}},
		{step.PolicyVersion{Policy: "p", Adds: []string{"slb:TagResources"}, Was: "v1"},
			[]journal.Difference{{Key: "Allow", Before: "absent", After: "slb:TagResources"}}},
		{step.ClearStatus{Was: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, []journal.Difference{{Before: "203.0.113.1", After: "nothing"}}},
		{step.Protect{LB: "nlb-1"}, []journal.Difference{{Key: "DeleteProtection", Before: "off", After: "on"}}},
		{step.Unprotect{LB: "lb-1"}, []journal.Difference{{Key: "DeleteProtection", Before: "on", After: "off"}}},
		{step.Evict{Namespace: "shop", Pod: "web-1", Node: "n1"}, []journal.Difference{{Key: "Pod shop/web-1", Before: "n1", After: "absent"}}},
		{step.Resync{}, nil},
	} {
		data, err := json.Marshal(tt.step)
		if err != nil {
			t.Fatal(err)
		}
		rec := event.Record{Plan: event.Plan{Steps: []event.StepRecord{{Kind: tt.step.Kind(), Step: data}}}}
		got := journal.Steps(operator.Call{}.Program(nil, nil), rec)
		if diff := cmp.Diff(tt.want, got[0].Changes); diff != "" {
			t.Errorf("%s: %s", tt.step.Kind(), diff)
		}
	}
}
