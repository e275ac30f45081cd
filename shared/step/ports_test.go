package step_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

func TestTargetPorts(t *testing.T) {
	t.Parallel()
	r := build(t, nil, nil)
	r.patch(`{"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":"http"},{"name":"b","port":80,"protocol":"UDP","targetPort":"dns"},` +
		`{"name":"c","port":81,"protocol":"TCP","targetPort":"x"}]}}`)
	r.read()
	before := r.c.Service.Spec
	set := step.TargetPorts{Ports: []step.TargetPort{
		{Port: 80, Protocol: corev1.ProtocolTCP, To: intstr.FromInt32(8080), Was: intstr.FromString("http")},
		{Port: 81, Protocol: corev1.ProtocolTCP, To: intstr.FromInt32(9090), Was: intstr.FromString("x")},
	}}
	back := r.undo(set)
	r.is(set, remedy.Todo)
	r.is(back, remedy.Done)
	r.does(set)
	r.read()
	r.is(set, remedy.Done)
	r.is(back, remedy.Todo)
	if !r.c.Written() {
		t.Error("it left no mark: the controller isn't woken")
	}
	want := before.DeepCopy()
	want.Ports[0].TargetPort, want.Ports[2].TargetPort = intstr.FromInt32(8080), intstr.FromInt32(9090)
	equal(t, r.c.Service.Spec, *want)
	r.does(back)
	r.read()
	equal(t, r.c.Service.Spec, before)
	r.is(r.undo(back), remedy.Todo)

	equal(t, set.Keys(), []string{remedy.PortsKey})
	equal(t, string(step.TargetPorts{Ports: set.Ports[:1]}.Patch(&remedy.Case{View: ccm.View{Service: &corev1.Service{Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP", TargetPort: intstr.FromString("http"), NodePort: 30080}}}}}})),
		`{"spec":{"ports":[{"protocol":"TCP","port":80,"targetPort":8080,"nodePort":30080}]}}`)

	r.patch(`{"metadata":{"annotations":{"a/b":"c"}}}`)
	if err := set.Apply(t.Context(), r.c, r.w); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("on an old version: %v", err)
	}
	for _, ports := range []string{
		`{"name":"a","port":80,"targetPort":8081},{"name":"c","port":81,"targetPort":"x"}`, // another value
		`{"name":"a","port":80,"targetPort":8080},{"name":"c","port":81,"targetPort":"x"}`, // half of it
		`{"name":"a","port":80,"targetPort":8080}`,                                         // a port is gone
	} {
		r.patch(`{"spec":{"ports":[` + ports + `]}}`)
		r.read()
		r.is(set, remedy.Conflict)
	}
}
