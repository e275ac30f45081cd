package config

import "testing"

// A field is set, added and removed; all else stays as a person wrote it.
func TestSet(t *testing.T) {
	t.Parallel()
	values := map[string]any{"on": true, "id": "0123", "name": "true"}
	for _, tt := range []struct {
		name, text string
		value      any
		path       []string
		want       string
	}{
		{"an empty file", "", "b", []string{"a"}, "a: b\n"},
		{"only comments", "# mine\n", "b", []string{"a"}, "# mine\na: b\n"},
		{"null", "null\n", "b", []string{"a"}, "a: b\n"},
		{"a new field", "# mine\na: b # so\n", "d", []string{"c"}, "# mine\na: b # so\nc: d\n"},
		{"another value", "# mine\na: b\n\n# below\nc: d\n", "x", []string{"a"}, "# mine\na: x\n# below\nc: d\n"},
		{"one further in", "a: b\n", values, []string{"contexts", "prod"}, "a: b\ncontexts:\n  prod:\n    id: \"0123\"\n    name: \"true\"\n    \"on\": true\n"},
		{"beside another", "contexts:\n  test: {a: b}\n", map[string]any{"c": "d"}, []string{"contexts", "prod"}, "contexts:\n  test: {a: b}\n  prod:\n    c: d\n"},
		{"below null", "contexts:\n", "b", []string{"contexts", "a"}, "contexts:\n  a: b\n"},
		{"gone", "a: b\nc: d\n", nil, []string{"a"}, "c: d\n"},
		{"gone further in", "a: {b: c, d: e}\n", nil, []string{"a", "b"}, "a: {d: e}\n"},
		{"never there", "a: b # so\n", nil, []string{"c", "d"}, "a: b # so\n"},
		{"JSON", `{"a": "b"}`, "d", []string{"c"}, "{\"a\": \"b\", c: d}\n"},
	} {
		got, err := Set([]byte(tt.text), tt.value, tt.path...)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
	for _, text := range []string{"[a]", "a: [", "a: b"} {
		if got, err := Set([]byte(text), "x", "a", "b"); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}
