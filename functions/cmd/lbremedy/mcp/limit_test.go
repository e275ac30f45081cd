package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An answer that is too long is cut, and says so. Secrets are removed. A short and clean answer is unchanged.
func TestBound(t *testing.T) {
	t.Parallel()
	type data struct {
		Text  string   `json:"text"`
		List  []string `json:"list"`
		Inner *data    `json:"inner,omitempty"`
	}
	whole := data{Text: "a vSwitch is full: <vsw-a>", List: []string{"x"}, Inner: &data{Text: "满", List: []string{}}}
	got := whole
	if cut := bound(&got); cut != "" {
		t.Errorf("of a short one: %q", cut)
	}
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Errorf("a short one is changed: %s", diff)
	}
	for name, long := range map[string]data{
		"a text":                {Text: strings.Repeat("满", mostText)},
		"signs that JSON marks": {Text: strings.Repeat("<", mostText)},
		"a list":                {List: make([]string, 10*mostList)},
		"a list of texts":       {List: strings.Split(strings.Repeat(strings.Repeat("y", 2000)+" ", 90), " ")},
		"in the depth":          {Inner: &data{Inner: &data{List: []string{strings.Repeat("z", 2*mostAll), "w"}}}},
	} {
		cut := bound(&long)
		text, err := json.Marshal(long)
		if most := mostAll + 10*mostList; err != nil || cut == "" || len(text) > most {
			t.Errorf("%s: %d bytes, at most %d; %q, %v", name, len(text), most, cut, err)
		}
	}
	for _, secret := range []string{"AccessKeySecret=kV9sJ2mQx7LrT4wZ8bNcY1dF6hPg3a", "\x1b[2Jx", "\u202ex"} {
		hidden := data{List: []string{secret}}
		bound(&hidden)
		if hidden.List[0] == secret {
			t.Errorf("%q stays", secret)
		}
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	got := shell("lbremedy", "approve", "3f9a12bc-20260101T150405", "", "a b", "it's", "$(x)", "`x`", "a\nb")
	if want := "lbremedy approve 3f9a12bc-20260101T150405 '' 'a b' 'it'\\''s' '$(x)' '`x`' 'a\nb'"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}
