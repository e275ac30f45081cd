package config

import "testing"

func TestLine(t *testing.T) {
	t.Parallel()
	const text = "# a list\nkind: List\nitems:\n- kind: Service\n  metadata:\n    name: web\n    annotations: {a.b/c: x,\n      d: y}\n" +
		"- &two\n  metadata: {name: api}\n- *two\n"
	for _, tt := range []struct {
		text string
		path []string
		want int
	}{
		{text, nil, 2},
		{text, []string{"items", "0"}, 4},
		{text, []string{"items", "0", "metadata", "name"}, 6},
		{text, []string{"items", "0", "metadata", "annotations", "a.b/c"}, 7},
		{text, []string{"items", "0", "metadata", "annotations", "d"}, 8},
		{text, []string{"items", "0", "metadata", "labels", "d"}, 5},
		{text, []string{"items", "0", "spec"}, 4},
		{text, []string{"items", "2", "metadata"}, 10},
		{text, []string{"items", "9"}, 3},
		{text, []string{"items", "-1"}, 3},
		{text, []string{"items", "x"}, 3},
		{text, []string{"kind", "x"}, 2},
		{"{\n\"a\": {\"b\": 1}}", []string{"a", "b"}, 2},
		{"", []string{"a"}, 1},
		{"# nothing\n", []string{"a"}, 1},
		{"a: [", []string{"a"}, 1},
		{"\ttab", []string{"a"}, 1},
		{"just words", []string{"a"}, 1},
	} {
		if got := Parse([]byte(tt.text)).Line(tt.path...); got != tt.want {
			t.Errorf("%q in %q: line %d, want %d", tt.path, tt.text, got, tt.want)
		}
	}
}
