package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/identity"
)

type rogue struct {
	step.Annotate
	try func(context.Context, *remedy.Case, *remedy.Writers) error
}

func (r rogue) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return r.try(ctx, c, w)
}

func (r rogue) as(s remedy.Step) remedy.Step { return rogue{s.(step.Annotate), r.try} }

// TestRogue: API server, admission policy and RAM refuse a function that bypasses the engine, and name the right; nothing is written.
func TestRogue(t *testing.T) {
	on := newGround(t, lawful().Class)
	if err := identity.Admit(t.Context(), on.cluster); err != nil {
		t.Fatal(err)
	}
	annotate := func(key string) func(context.Context, *remedy.Case, *remedy.Writers) error {
		return func(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
			value := "rogue"
			_, err := w.Kube.PatchService(ctx, c.Service.Namespace, c.Service.Name, c.Service.ResourceVersion,
				kube.ServicePatch{Annotations: map[string]*string{key: &value}})
			return err
		}
	}
	for _, tt := range []struct {
		name string
		try  func(context.Context, *remedy.Case, *remedy.Writers) error
		kind error
		says string
	}{
		{"another's verb", func(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
			_, err := w.Kube.PatchStatus(ctx, c.Service.Namespace, c.Service.Name, c.Service.ResourceVersion, corev1.LoadBalancerStatus{})
			return err
		}, hand.ErrDenied, `cannot patch resource "services/status"`},
		{"another's eviction", func(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
			return w.Kube.Evict(ctx, c.Service.Namespace, "web-0", "u")
		}, hand.ErrDenied, `cannot create resource "pods/eviction"`},
		{"another's annotation", annotate(ccm.Prefix + "id"), hand.ErrDenied, "may not change the annotation " + ccm.Prefix + "id"},
		{"nobody's annotation", annotate("example.com/rogue"), hand.ErrDenied, "may not change the annotation example.com/rogue"},
		{"another's field", func(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
			_, err := w.Kube.PatchService(ctx, c.Service.Namespace, c.Service.Name, c.Service.ResourceVersion,
				kube.ServicePatch{Spec: []byte(`{"externalTrafficPolicy":"Local"}`)})
			return err
		}, hand.ErrDenied, "may not change spec."},
		{"another's tag", func(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
			return w.Cloud.SLB.Tag(ctx, "lb-1", ccm.NameTag, "rogue")
		}, hand.ErrDenied, "slb:TagResources"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := lawful()
			r.Steps = []remedy.Step{rogue{try: tt.try}}
			s := file(t, strings.Replace(example, "vswitches:", "loadBalancers:\n- {id: lb-1, address: 192.168.0.9, addressType: intranet}\nvswitches:", 1))
			w := build(t, on, r, s)
			w.env.Hand = w.hands.Hand // the engine would reject the answer of a function that reports such a call
			before := w.snapshot(t)
			rec, err := engine.Run(t.Context(), w.env, r, w.event)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(rec.Error, tt.says) {
				t.Errorf("got %v, and the record says %q; want %q", err, rec.Error, tt.says)
			}
			if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
				t.Errorf("it wrote (-before +after):\n%s", diff)
			}
		})
	}
}
