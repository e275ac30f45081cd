package root_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/pages"
)

func TestMentions(t *testing.T) {
	c := operator.Call{Env: operator.Home(t)}
	all := pages.Mentions(t, "../../../..", "lbremedy")
	for _, m := range all {
		words := strings.Fields(strings.ReplaceAll(m.Text, "'", ""))[1:]
		flags := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
		if flags < 0 {
			flags = len(words)
		}
		got := c.Run(t.Context(), slices.Insert(words, flags, "--help")...)
		if got.Code != 0 && !strings.Contains(got.Err, "flag needs an argument") {
			t.Errorf("%s: code %d, %s", m, got.Code, got.Err)
		}
	}
	if len(all) < 20 {
		t.Errorf("the pages name %d commands", len(all))
	}
}
