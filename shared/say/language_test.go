package say_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/say"
)

func TestLanguage(t *testing.T) {
	other := &say.Language{Tag: "x", Twins: map[string]string{
		"%s has %s.": "(%[2]s: %[1]s)", "1 node": "1 N", "%d nodes": "%d N", "Wait.": "W!", "none": "-",
		", ": "+", "; ": "/", " and %d more": "..%d", "; and %d more": "//%d", "%s and %d more": "%s..%d",
	}, Tight: func(end, begin rune) bool { return end == '!' }}
	if other.Name() != "x" || (*say.Language)(nil).Name() != "en" {
		t.Errorf("the languages are called %q and %q", other.Name(), (*say.Language)(nil).Name())
	}
	nodes := []say.Text{say.Count(1, "node"), say.Count(2, "node"), say.Literal("a, b")}
	for _, c := range []struct {
		text         say.Text
		want, nobody string
	}{
		{want: ""},
		{text: say.F("%s has %s.", "lb-1", say.Count(2, "node")), want: "(2 N: lb-1)", nobody: "lb-1 has 2 nodes."},
		{text: say.F("Wait.").And("Wait.").And("Stay.").And("%s has %s.", "1", say.Or("", "none")), want: "W!W!Stay. (-: 1)",
			nobody: "Wait. Wait. Stay. 1 has none."},
		{text: say.Items(nodes, 3), want: "1 N+2 N+a, b", nobody: "1 node, 2 nodes, a, b"},
		{text: say.Items(nodes, 1), want: "1 N..2", nobody: "1 node and 2 more"},
		{text: say.Clauses(nodes, 2), want: "1 N/2 N//1", nobody: "1 node; 2 nodes; and 1 more"},
		{text: say.List([]string{"a", "b"}, 1), want: "a..1", nobody: "a and 1 more"},
		{text: say.Literal("1 node"), want: "1 node", nobody: "1 node"},
	} {
		if got := c.text.In(other); got != c.want {
			t.Errorf("in the language it is %q, not %q", got, c.want)
		}
		if got := c.text.In(nil); got != c.nobody || got != c.text.String() {
			t.Errorf("in English it is %q, not %q", got, c.nobody)
		}
	}
	tight := &say.Language{Tag: "y", Twins: map[string]string{"%s of %s is %s.": "%s 的 %s 是 %s。", "a plan": "计划", "a step": "步骤"},
		Tight: func(end, begin rune) bool { return end > 0x3000 && begin > 0x3000 }}
	if got := say.F("%s of %s is %s.", say.F("a step"), say.F("a plan"), "计 划").In(tight); got != "步骤的计划是 计 划。" {
		t.Errorf("words within a text stand as %q", got)
	}
	if got := say.F("%s of %s is %s.", say.F("lb-1"), say.F("a plan"), "3").In(tight); got != "lb-1 的计划是 3。" {
		t.Errorf("words and an ID within a text stand as %q", got)
	}
	if got := other.Phrase("%s has %s.", say.F("Wait."), "3"); got != "(3: W!)" {
		t.Errorf("a format with arguments of all kinds makes %q", got)
	}
}
