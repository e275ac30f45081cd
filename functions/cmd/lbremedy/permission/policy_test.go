package permission_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// People rely on "never applied": a rule that fixes somewhere is mentioned.
func TestDescribe(t *testing.T) {
	for _, test := range []struct {
		policy remedy.Policy
		want   string
	}{
		{remedy.Policy{}, "observe: plans are shown and never applied"},
		{remedy.Policy{Mode: remedy.Fix}, "fix: plans up to low risk are applied"},
		{remedy.Policy{Rules: []remedy.Rule{{Mode: remedy.Fix}}},
			"observe: plans are shown, and applied only where classes or rules say fix; rules differ for some places or classes"},
		{remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{{Mode: remedy.Observe}, {Mode: remedy.Observe}}},
			"fix: plans up to low risk are applied; rules differ for some places or classes"},
	} {
		if got := permission.Describe(test.policy).String(); got != test.want {
			t.Errorf("describe %+v:\n got %s\nwant %s", test.policy, got, test.want)
		}
	}
}
