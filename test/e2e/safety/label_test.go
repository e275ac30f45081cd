package safety

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// Labels on a Service and on its namespace make the policy stricter, and never looser.
func TestLabels(t *testing.T) {
	t.Parallel()
	label := func(key, value string) map[string]any { return map[string]any{key: value} }
	r := newRig(t, testbed.Config{}, careful).start()
	for i, tt := range []struct {
		name            string
		policy          string
		around, service map[string]any // labels of namespace and Service
		result          event.Result
		rule            string
		muted           bool
	}{
		{"none", careful, nil, nil, event.Fixed, "Fix mode applies plans up to low risk", false},
		{"the Service observes", careful, nil, label(remedy.ModeLabel, "observe"), event.Planned, "The Service has the label lbremedy.io/mode=observe.", false},
		{"the namespace observes", careful, label(remedy.ModeLabel, "observe"), label(remedy.ModeLabel, "fix"), event.Planned,
			"The namespace has the label lbremedy.io/mode=observe.", false},
		{"a word that is no mode", careful, nil, label(remedy.ModeLabel, "fixx"), event.Planned, "lbremedy.io/mode=fixx", false},
		{"the Service is muted", careful, nil, label(remedy.MuteLabel, "true"), event.Planned, "The Service has the label lbremedy.io/mute=true.", true},
		{"the namespace is muted", careful, label(remedy.MuteLabel, "true"), label(remedy.MuteLabel, "false"), event.Planned,
			"The namespace has the label lbremedy.io/mute=true.", true},
		{"fix does not loosen", "mode: observe\n", label(remedy.ModeLabel, "fix"), label(remedy.ModeLabel, "fix"), event.Planned, "Observe mode", false},
		{"nor does it a class", careful + "classes: {" + full + ": {mode: observe}}\n", nil, label(remedy.ModeLabel, "fix"), event.Planned, "Observe mode", false},
	} {
		name := "web-" + string(rune('a'+i))
		r.policy(tt.policy)
		r.around(tt.around)
		r.create(name, func(svc *corev1.Service) {
			svc.Labels = map[string]string{}
			for k, v := range tt.service {
				svc.Labels[k], _ = v.(string)
			}
		})
		rec := r.until(name, string(tt.result), func(rec event.Record) bool {
			return rec.Phase == event.Settled && rec.Result != event.Waiting
		})
		if rec.Result != tt.result || !strings.Contains(rec.Rule.String(), tt.rule) || rec.Muted != tt.muted {
			t.Errorf("%s: it ended as %s, muted: %t, by %q", tt.name, rec.Result, rec.Muted, rec.Rule)
		}
		if at := r.vswitch(name); (at == testbed.FullVSwitchH) != (tt.result == event.Planned) {
			t.Errorf("%s: it ended as %s, and the Service is in %s", tt.name, rec.Result, at)
		}
		if tt.around != nil { // labels go one by one
			for k := range tt.around {
				r.around(map[string]any{k: nil})
			}
		}
	}
}

// around changes labels of the namespace; nil removes one.
func (r *rig) around(labels map[string]any) {
	r.Helper()
	if labels == nil {
		return
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	r.must(err)
	_, err = r.testbed.Cluster.Client().CoreV1().Namespaces().Patch(r.ctx, r.testbed.Namespace, types.MergePatchType, data, metav1.PatchOptions{})
	r.must(err)
}
