package policyfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// FuzzParse reads anything as a policy file. What it refuses it says in words of the
// file; what it takes is a policy that means the same after its way through the stream.
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
		p, err := Parse([]byte(text), []string{"tag-missing"}, sections...)
		if err != nil {
			if strings.Contains(err.Error(), "json:") || strings.Contains(err.Error(), "remedy.") {
				t.Errorf("%q: it says %q, with the names of Go's types", text, err)
			}
			return
		}
		v, err := ParseVersion([]byte(text), []string{"tag-missing"}, sections...)
		if err != nil {
			t.Errorf("%q: the policy can be read, and its sinks can't: %v", text, err)
		}
		sameAgain(t, v, []string{"tag-missing"})
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%q: what was read can't be written: %v", text, err)
		}
		var again remedy.Policy
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatalf("%q: what was written can't be read: %v", text, err)
		}
		if diff := cmp.Diff(p.Sections, again.Sections, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: sections after the way through the stream: %s", text, diff)
		}
		for _, s := range sections {
			if err := s.Read(again); err != nil {
				t.Errorf("%q: a section can't be read any more: %v", text, err)
			}
		}
		if diff := cmp.Diff(p.Classes, again.Classes, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: after the way through the stream: %s", text, diff)
		}
		for hour := range 24 * 14 {
			at := time.Date(2026, 1, 1, hour, 30, 0, 0, time.UTC)
			a, untilA := p.Frozen(at)
			b, untilB := again.Frozen(at)
			if a.String() != b.String() || !untilA.Equal(untilB) {
				t.Fatalf("%q: at %s it is frozen by %q until %s, and by %q until %s after the way through the stream", text, at, a, untilA, b, untilB)
			}
		}
	})
}
