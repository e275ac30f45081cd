package policyfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy"
)

// A refusal uses the file's terms; an accepted text is a readable policy that equals itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "mode: fix\n", "mode: fix\nrisk: high\nclasses:\n  tag-missing: {mode: observe, risk: low}\nvswitches: {reserve: 8, allow: [vsw-1]}\nattempts: " +
			"3\nramDelay: 1m\npayBySpec: true\n",
		"freezes: [{name: day, days: [mon, fri], from: '09:00', until: '18:30', zone: Asia/Shanghai}, {name: sale, from: 2026-01-10T20:00:00+08:00, until: " +
			"2026-01-12T02:00:00+08:00}]",
		"rules: [{namespaces: [a], mode: fix}]\nbudgets: {attempts: 1, class: 50, share: 100%, least: 10}\nunsettled: undo\n",
		"mode: [", "classes: {nope: {}}", "attempts: -1", "ramDelay: 1", "mode: &a fix\nrisk: *a", "a: &a [*a]", "mode: fix\nmode: observe\n", "\x00", "- 1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse([]byte(text), []string{"tag-missing"})
		if err != nil {
			if strings.Contains(err.Error(), "json:") || strings.Contains(err.Error(), "remedy.") {
				t.Errorf("%q: it says %q, with the names of Go's types", text, err)
			}
			return
		}
		if v.Text != text {
			t.Errorf("%q: it holds %q as its text", text, v.Text)
		}
		p := v.Policy
		if fields := policy.Loosens(p, p, func(string) bool { return true }); len(fields) > 0 {
			t.Errorf("%q: it loosens itself: %q", text, fields)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Errorf("%q: what was read can't be printed: %v", text, err)
		}
		for hour := range 24 * 14 {
			p.Frozen(time.Date(2026, 1, 1, hour, 30, 0, 0, time.UTC))
		}
	})
}
