package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type file struct {
	Mode  string           `json:"mode,omitempty"`
	On    bool             `json:"on,omitempty"`
	Most  int              `json:"most,omitempty"`
	Keep  *int64           `json:"keep,omitempty"`
	Names []string         `json:"names,omitempty"`
	Rules []rule           `json:"rules,omitempty"`
	By    map[string]*rule `json:"by,omitempty"`
}

type rule struct {
	From   string            `json:"from"`
	Labels map[string]string `json:"labels,omitempty"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	keep := int64(0)
	for text, want := range map[string]file{
		"":                 {},
		"# a comment\n":    {},
		"---\n":            {},
		"null":             {},
		"{}":               {},
		`{"mode": "fix"}`:  {Mode: "fix"},
		"mode: !!str 12":   {Mode: "12"},
		"names: []":        {Names: []string{}},
		"---\nmode: fix\n": {Mode: "fix"},
		"mode: fix\non: true\nmost: 3\nkeep: 0\nnames: [a, '1']": {
			Mode: "fix", On: true, Most: 3, Keep: &keep, Names: []string{"a", "1"}},
		"rules:\n- from: 2026-01-02T00:00:00+08:00\n- {from: '09:00', labels: {a/b.c: d}}\nby: {x.y: {from: z}}": {
			Rules: []rule{{From: "2026-01-02T00:00:00+08:00"}, {From: "09:00", Labels: map[string]string{"a/b.c": "d"}}}, By: map[string]*rule{"x.y": {From: "z"}}},
	} {
		var got file
		d, err := Decode([]byte(text), &got)
		if err == nil {
			err = d.Err()
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
}

type level int

func (l *level) ReadText(text string) error {
	if text != "high" {
		return fmt.Errorf("%q is no level", text)
	}
	*l = 9
	return nil
}

func TestDecodeText(t *testing.T) {
	t.Parallel()
	type levels struct {
		First  level   `json:"first"`
		Second *level  `json:"second"`
		All    []level `json:"all"`
	}
	high := level(9)
	for text, want := range map[string]struct {
		levels
		says string
	}{
		"first: high\nsecond: high\nall: [high]": {levels{9, &high, []level{9}}, ""},
		"first: ''\nsecond: ''":                  {levels{First: 1}, ""},
		"\nsecond: low":                          {says: `line 2: second: "low" is no level`},
		"all: [high, 5]":                         {says: "line 1: all[1]: it must be a text: put it in quotes"},
		"firsts: low":                            {says: "line 1: firsts: the field is unknown; the fields are first, second, all"},
	} {
		got := levels{First: 1}
		d, err := Decode([]byte(text), &got)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Err(); want.says != "" {
			if err == nil || err.Error() != want.says {
				t.Errorf("%q: got %v, want %s", text, err, want.says)
			}
			continue
		}
		if diff := cmp.Diff(want.levels, got); d.Err() != nil || diff != "" {
			t.Errorf("%q: %v: -want +got:\n%s", text, d.Err(), diff)
		}
	}
}

// Each error names the line, and the field if known. All errors of a file are reported at once.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mode: fix\nmod: a":                   "line 2: mod: the field is unknown; the fields are mode, on, most, keep, names, rules, by",
		"Mode: fix":                           "line 1: Mode: the field is unknown",
		"rules:\n- from: a\n- fro: b":         "line 3: rules[1].fro: the field is unknown; the fields are from, labels",
		"mode: a\non: true\nmode: b":          "line 3: mode: it is there twice",
		"by:\n  a: {}\n  b: {}\n  a: {}":      "line 4: by.a: it is there twice",
		"by: {'': {from: a}}":                 "line 1: by.: it must have a name",
		"\nmode: [a]":                         "line 2: mode: it must be a text",
		"mode: 12":                            "line 1: mode: it must be a text: put it in quotes",
		"mode: 0123":                          "line 1: mode: it must be a text: put it in quotes",
		"mode: true":                          "line 1: mode: it must be a text",
		"mode:":                               "line 1: mode: it must be a text",
		"mode: ~":                             "line 1: mode: it must be a text",
		"mode: !!binary aGk=":                 "line 1: mode: it must be a text",
		"on: yes":                             "line 1: on: it must be true or false",
		"most: 1.5":                           "line 1: most: it must be a whole number",
		"most: many":                          "line 1: most: it must be a whole number",
		"most: 99999999999999999999":          "line 1: most: it must be a whole number",
		"\n\nkeep: x":                         "line 3: keep: it must be a whole number",
		"names: a":                            "line 1: names: it must be a list",
		"names:\n- a\n- 5":                    "line 3: names[1]: it must be a text: put it in quotes",
		"rules: {}":                           "line 1: rules: it must be a list",
		"rules:\n- a":                         "line 2: rules[0]: it must be a list of fields",
		"by:":                                 "line 1: by: it must be a list of fields",
		"- a":                                 "line 1: it must be a list of fields",
		"\ntext":                              "line 2: it must be a list of fields",
		"mode: &a fix":                        "line 1: mode: anchors are not read: write it out",
		"rules:\n- &a {from: x}\n- *a":        "line 2: rules[0]: anchors are not read: write it out\nline 3: rules[1]: anchors are not read: write it out",
		"by:\n  <<: {a: b}":                   "line 2: by.<<: anchors are not read: write it out",
		"? &a mode\n: fix":                    "line 1: mode: anchors are not read: write it out",
		"mode: fix\n---\nmode: observe":       "line 2: a second document begins here: leave one",
		"mode: fix\n---\nmode: [":             "line 3: ",
		"mode: [":                             "line 1: ",
		"mode: fix\n  on: true":               "line 2: ",
		"mode: fix\nnames: {":                 "line 2: ",
		"mode: fix\non: \x00":                 "line 2: control characters are not allowed",
		"mode: fix\non: \xff":                 "line 2: ",
		"mode: {a\nb: c":                      "line ",
		"most: x\nmode: 1":                    "line 1: most: it must be a whole number\nline 2: mode: it must be a text: put it in quotes",
		"mode: " + strings.Repeat("x", 1<<20): "the file has more than 1048576 bytes",
	} {
		d, err := Decode([]byte(text), new(file))
		if err == nil {
			err = d.Err()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}

// A caller's error has the line of its field or of the field's parent. It is reported once, and not for an unreadable field.
func TestFail(t *testing.T) {
	t.Parallel()
	d, err := Decode([]byte("mode: fix\nrules:\n- from: a\n  labels:\n    x.y: z\nmost: many\n"), new(file))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d.Fail("most", "%d is too small", 0)
		d.Fail("rules[0].labels.x.y", "%q is no label", "z")
		d.Fail("rules[0].until", "it is missing")
		d.Fail("on", "it is missing")
	}
	const want = `line 6: most: it must be a whole number
line 5: rules[0].labels.x.y: "z" is no label
line 3: rules[0].until: it is missing
line 1: on: it is missing`
	if diff := cmp.Diff(want, d.Err().Error()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := new(Document).Err(); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "mode: fix", "rules: [{from: a, labels: {b: c}}]", "? [a]\n: b", "!!binary x", "a: &a [*a]", "\x00", "- 1", "<<: {a: b}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Decode([]byte(text), new(file))
		if err == nil {
			err = d.Err()
		}
		if err != nil && len(text) <= most && (!strings.HasPrefix(err.Error(), "line ") || strings.Contains(err.Error(), "line 0")) {
			t.Errorf("%q: no line: %v", text, err)
		}
	})
}
