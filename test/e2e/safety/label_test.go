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
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	label := func(key, value string) map[string]any { return map[string]any{key: value} }
	r := rig.New(t, testbed.Config{}, rig.Careful).Start()
	for i, tt := range []struct {
		name            string
		policy          string
		around, service map[string]any // labels of namespace and Service
		result          event.Result
		rule            string
		muted           bool
	}{
		{"none", rig.Careful, nil, nil, event.Fixed, "Fix mode applies plans up to low risk", false},
		{"the Service observes", rig.Careful, nil, label(remedy.ModeLabel, "observe"), event.Planned, "The Service has the label lbremedy.io/mode=observe.", false},
		{"the namespace observes", rig.Careful, label(remedy.ModeLabel, "observe"), label(remedy.ModeLabel, "fix"), event.Planned,
			"The namespace has the label lbremedy.io/mode=observe.", false},
		{"a word that is not a mode", rig.Careful, nil, label(remedy.ModeLabel, "fixx"), event.Planned, "lbremedy.io/mode=fixx", false},
		{"the Service is muted", rig.Careful, nil, label(remedy.MuteLabel, "true"), event.Planned, "The Service has the label lbremedy.io/mute=true.", true},
		{"the namespace is muted", rig.Careful, label(remedy.MuteLabel, "true"), label(remedy.MuteLabel, "false"), event.Planned,
			"The namespace has the label lbremedy.io/mute=true.", true},
		{"fix does not loosen", "mode: observe\n", label(remedy.ModeLabel, "fix"), label(remedy.ModeLabel, "fix"), event.Planned, "Observe mode", false},
		{"nor does it a class", rig.Careful + "classes: {" + rig.Full + ": {mode: observe}}\n", nil, label(remedy.ModeLabel, "fix"),
			event.Planned, "Observe mode", false},
	} {
		name := "web-" + string(rune('a'+i))
		r.Policy(tt.policy)
		around(r, tt.around)
		r.Create(name, func(svc *corev1.Service) {
			svc.Labels = map[string]string{}
			for k, v := range tt.service {
				svc.Labels[k], _ = v.(string)
			}
		})
		rec := r.Until(name, string(tt.result), func(rec event.Record) bool {
			return rec.Phase == event.Settled && rec.Result != event.Waiting
		})
		if rec.Result != tt.result || !strings.Contains(rec.Rule.String(), tt.rule) || rec.Muted != tt.muted {
			t.Errorf("%s: it ended as %s, muted: %t, by %q", tt.name, rec.Result, rec.Muted, rec.Rule)
		}
		if at := r.VSwitch(name); (at == testbed.FullVSwitchH) != (tt.result == event.Planned) {
			t.Errorf("%s: it ended as %s, and the Service is in %s", tt.name, rec.Result, at)
		}
		if tt.around != nil { // labels are removed one by one
			for k := range tt.around {
				around(r, map[string]any{k: nil})
			}
		}
	}
}

func around(r *rig.Rig, labels map[string]any) {
	r.Helper()
	if labels == nil {
		return
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	r.Must(err)
	_, err = r.Testbed.Cluster.Client().CoreV1().Namespaces().Patch(r.Ctx, r.Testbed.Namespace, types.MergePatchType, data, metav1.PatchOptions{})
	r.Must(err)
}
