package remedy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A section stands beside the fields of the policy where that is printed.
func TestSectionsPrinted(t *testing.T) {
	t.Parallel()
	p := remedy.Policy{Mode: remedy.Fix, Budgets: remedy.Budgets{Share: 50}, Sections: map[string]json.RawMessage{
		"payBySpec": json.RawMessage("true"), "vswitches": json.RawMessage(`{"allow":["vsw-1"],"reserve":0}`),
	}}
	const text = `{"mode":"fix","risk":"low","budgets":{"share":50},"payBySpec":true,"vswitches":{"allow":["vsw-1"],"reserve":0}}`
	if got, err := json.Marshal(p); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if v := remedy.VSwitchRules.Of(p); v.Reserve != 0 || !v.Allowed("vsw-1") {
		t.Errorf("%+v", v)
	}
	// Its own class does not run by one that it can't read.
	p.Sections = map[string]json.RawMessage{"vswitches": json.RawMessage(`{"reserve":"all"}`)}
	if err := remedy.VSwitchRules.Read(p); err == nil || remedy.VSwitchRules.Of(p).Reserve != 8 {
		t.Errorf("%+v, %v", remedy.VSwitchRules.Of(p), err)
	}
}

func TestSetting(t *testing.T) {
	t.Parallel()
	s := &remedy.Setting[remedy.Duration]{Key: "patience", Doc: "how long it waits", Default: remedy.Duration(time.Minute)}
	p, err := s.With(remedy.Policy{}, remedy.Duration(time.Second))
	if err != nil || s.Of(p) != remedy.Duration(time.Second) || s.Of(remedy.Policy{}) != remedy.Duration(time.Minute) {
		t.Errorf("%v, %v", s.Of(p), err)
	}
	if p, err = s.With(p, s.Default); err != nil || p.Sections != nil {
		t.Errorf("the default is written: %v, %v", p.Sections, err)
	}
	type hidden struct {
		Most int `json:"most,omitzero"`
		Free int
	}
	for want, s := range map[string]remedy.Section{
		"is no name":       &remedy.Setting[bool]{Key: "Pay By", Doc: "x"},
		"all classes have": &remedy.Setting[bool]{Key: "unsettled", Doc: "x"},
		"Doc is empty":     &remedy.Setting[bool]{Key: "free"},
		"has no tag json":  &remedy.Setting[hidden]{Key: "free", Doc: "x"},
		"its zero value":   &remedy.Setting[hidden]{Key: "free", Doc: "x", Default: hidden{Most: 3}},
		"make it a section": &remedy.Setting[struct {
			In hidden `json:"in"`
		}]{Key: "free", Doc: "x"},
		"its default is": &remedy.Setting[int]{Key: "free", Doc: "x", Check: func(_ int, bad func(field, format string, args ...any)) { bad("", "never") }},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %s", err, want)
		}
	}
	if got := cmp.Diff([]remedy.Section{s}, remedy.Sections(&remedy.Remedy{Sections: []remedy.Section{s}}, &remedy.Remedy{Sections: []remedy.Section{s}}),
		cmp.Comparer(func(a, b remedy.Section) bool { return a == b })); got != "" {
		t.Error(got)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}
