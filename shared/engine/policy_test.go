package engine_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// A change of the ConfigMap counts for the next order, even between two steps. While it is invalid nothing is written; then the plan goes on.
func TestPolicyConfigMap(t *testing.T) {
	t.Parallel()
	const name, fixes = "p", "mode: fix\nrisk: high\nbudgets: {class: 1000, least: 1000}\n"
	put := func(data map[string]string) func(*rig) {
		return func(r *rig) {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
			_, err := r.kube.Client().CoreV1().ConfigMaps(r.svc.Namespace).Update(r.Context(), m, metav1.UpdateOptions{})
			r.must(err)
		}
	}
	create := func(r *rig) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{policyfile.Key: fixes}}
		_, err := r.kube.Client().CoreV1().ConfigMaps(r.svc.Namespace).Create(r.Context(), m, metav1.CreateOptions{})
		r.must(err)
	}
	text := func(text string) func(*rig) { return put(map[string]string{policyfile.Key: text}) }
	for title, tt := range map[string]struct {
		edit, repair func(*rig)
		wrong        string // empty: the policy is valid
	}{
		"observe":      {text("mode: observe\n"), text(fixes), ""},
		"garbage":      {text("mode: [fix"), text(fixes), "line 1"},
		"no text":      {text(""), text(fixes), "it is empty"},
		"several keys": {put(map[string]string{policyfile.Key: fixes, "b": fixes}), text(fixes), "its keys are b, policy.yaml"},
		"removed": {func(r *rig) {
			r.must(r.kube.Client().CoreV1().ConfigMaps(r.svc.Namespace).Delete(r.Context(), name, metav1.DeleteOptions{}))
		}, create, "not found"},
	} {
		for point, made := range map[string]int64{"diagnose": 0, "after 1": 1} {
			t.Run(title+", "+point, func(t *testing.T) {
				t.Parallel()
				r := build(t)
				create(r)
				source := policyfile.FromConfigMap(r.env.Kube, r.svc.Namespace, name, func(text []byte) (policy.Version, error) {
					return policyfile.Parse(text, []string{class})
				})
				r.env.Policy = func(ctx context.Context) (remedy.Policy, error) {
					v, err := source.Read(ctx)
					return v.Policy, err
				}
				r.steps = []remedy.Step{
					act{Name: "1", Annotate: set("example.com/a", "new", "")},
					act{Name: "2", Annotate: step.Annotate{Set: map[string]string{key: "new"}, Was: map[string]string{key: "old"}}},
				}
				r.once(point, func(context.Context) error { tt.edit(r); return nil })
				r.on("after 2", r.syncs)
				var rec event.Record
				for range 3 {
					if tt.wrong != "" {
						rec = r.fails(tt.wrong)
						if rec.Result != event.Waiting || rec.Errors != 0 {
							t.Fatalf("ended as %q after %d errors", rec.Result, rec.Errors)
						}
					} else if rec = r.run(); rec.Result == event.Fixed {
						t.Fatal("it was fixed")
					}
					r.wrote(made)
					r.advance(rec.Wait)
				}
				tt.repair(r)
				r.event = r.failure(class, r.now())
				r.ends(event.Fixed)
				r.wrote(2)
				if n := r.count("before 1"); n != 1 {
					t.Errorf("the first step was made %d times", n)
				}
			})
		}
	}
}
