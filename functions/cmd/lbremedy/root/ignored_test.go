package root_test

import (
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A flag without an effect is refused.
func TestIgnoredFlags(t *testing.T) {
	t.Parallel()
	const running = "preflight --cluster c1 --region cn-hangzhou --running http://127.0.0.1:1 "
	for args, want := range map[string]string{
		"dead ls 17 --class quota":      "lbremedy dead ls takes numbers of dead letters or flags that choose them, not both",
		"dead ls 17 --reason unknown":   "lbremedy dead ls takes numbers of dead letters or flags that choose them, not both",
		"show shop/web --patch -o json": "show --patch prints YAML: leave out --output",
		running + "--fix-mode":          "--running checks a running lbremedy: leave out --fix-mode and --policy",
		running + "--policy a.yaml":     "--running checks a running lbremedy: leave out --fix-mode and --policy",
	} {
		got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), strings.Fields(args)...)
		if got.Code != command.CodeWrong || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}
