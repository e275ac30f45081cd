package step_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

func TestTogether(t *testing.T) {
	const p, old = ccm.Prefix, ccm.LegacyPrefix
	c := &remedy.Case{View: ccm.View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		p + "spec": "slb.s1.small", old + "spec": "slb.s2.small", old + "ip-version": "ipv6", "other": "x",
	}}}}}
	for _, tt := range []struct {
		name  string
		edits []step.Edit
		want  remedy.Step
		text  string
		back  remedy.Step
	}{
		{
			"sets and removes", []step.Edit{step.With(c.Service, "instance-charge-type", "PayByCLCU"), step.Without(c.Service, "spec")},
			step.Annotate{
				Set: map[string]string{p + "instance-charge-type": "PayByCLCU"}, Remove: []string{p + "spec", old + "spec"},
				Was: map[string]string{p + "spec": "slb.s1.small", old + "spec": "slb.s2.small"},
			},
			"annotate " + p + "instance-charge-type=PayByCLCU and remove " + p + "spec " + old + "spec",
			step.Annotate{
				Set: map[string]string{p + "spec": "slb.s1.small", old + "spec": "slb.s2.small"}, Remove: []string{p + "instance-charge-type"},
				Was: map[string]string{p + "instance-charge-type": "PayByCLCU"},
			},
		},
		{
			"removes alone", []step.Edit{step.Without(c.Service, "spec"), step.Without(c.Service, "ip-version")},
			step.RemoveAnnotation{
				Names: []string{p + "spec", old + "ip-version", old + "spec"},
				Was:   map[string]string{p + "spec": "slb.s1.small", old + "spec": "slb.s2.small", old + "ip-version": "ipv6"},
			},
			"remove annotation " + p + "spec " + old + "ip-version " + old + "spec",
			step.Annotate{
				Set: map[string]string{p + "spec": "slb.s1.small", old + "spec": "slb.s2.small", old + "ip-version": "ipv6"},
				Was: map[string]string{},
			},
		},
		{
			"the later one counts", []step.Edit{step.With(c.Service, "spec", "a"), step.With(c.Service, "spec", "b")},
			step.Annotate{Set: map[string]string{p + "spec": "b"}, Was: map[string]string{p + "spec": "slb.s1.small"}},
			"annotate " + p + "spec=b",
			step.Annotate{Set: map[string]string{p + "spec": "slb.s1.small"}, Was: map[string]string{p + "spec": "b"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := step.Together(tt.edits...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if got.Says().String() != tt.text {
				t.Errorf("it says %q", got.Says())
			}
			back, ok := got.Undo()
			if diff := cmp.Diff(tt.back, back); diff != "" || !ok {
				t.Error(diff)
			}
			if state, err := got.Check(t.Context(), c); state != remedy.Todo || err != nil {
				t.Errorf("it is %s, %v", state, err)
			}
		})
	}
}

// A permanent change has no undo, and is still an edit.
func TestConvert(t *testing.T) {
	c := &remedy.Case{View: ccm.View{Service: &corev1.Service{}}}
	s := step.Convert{Annotate: step.With(c.Service, "instance-charge-type", "PayByCLCU"), LB: "lb-1"}
	if back, ok := s.Undo(); ok {
		t.Errorf("it is taken back by %s", back.Says())
	}
	if keyed, ok := remedy.Step(s).(remedy.Keyed); !ok || len(keyed.Keys()) != 1 {
		t.Error("nobody can tell which annotation it writes")
	}
	if state, err := s.Check(t.Context(), c); state != remedy.Todo || err != nil {
		t.Errorf("it is %s, %v", state, err)
	}
}
