package root_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A flag overrides the variable, the variable the file.
func TestSettings(t *testing.T) {
	tests := []struct {
		name, file, variable, flag string
		want                       string
	}{
		{"default", "", "", "", "table"},
		{"file", "output: yaml", "", "", "yaml"},
		{"variable before file", "output: yaml", "json", "", "json"},
		{"flag before variable", "output: yaml", "json", "table", "table"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := operator.Home(t)
			dir := filepath.Join(env["HOME"], ".config", "lbremedy")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			env["LBREMEDY_OUTPUT"] = tt.variable
			args := []string{"classify", operator.Message}
			if tt.flag != "" {
				args = append(args, "--output", tt.flag)
			}
			got := operator.Call{Env: env}.Run(t.Context(), args...)
			want := map[string]string{
				"table": "vswitch-ip-exhausted  ", "json": `{"class":"vswitch-ip-exhausted"`, "yaml": "---\nclass: vswitch-ip-exhausted\n",
			}[tt.want]
			if got.Code != 0 || !strings.HasPrefix(got.Out, want) {
				t.Errorf("code %d, %q, %q; want %s", got.Code, got.Out, got.Err, tt.want)
			}
		})
	}
	for text, want := range map[string]string{
		"region: a\ncolour: blue":  "config.yaml: line 2: colour: there is no such field; there are cloud-endpoint,",
		"config: a":                "line 1: config: there is no such field",
		"cluster: [a]":             "line 1: cluster: it must be a text",
		"cluster: 0123":            "line 1: cluster: it must be a text, or true or false: put it in quotes",
		"cluster: true":            "line 1: cluster: it must be a text: put it in quotes",
		"cluster:":                 "line 1: cluster: it must be a text",
		"- a":                      "line 1: it must be a list of fields",
		"region: a\nregion: b":     "line 2: region: it is there twice",
		"region: a\n---\n{}":       "line 2: a second document begins here",
		"region: [":                "config.yaml: line 1: ",
		"output: xml":              `"xml" is not one of`,
		"cloud-vpc: perhaps":       "line 1: cloud-vpc: it must be true or false",
		"region: a\nno: b\nnor: c": "line 2: no: there is no such field; there are",
	} {
		got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), "version", "--config", operator.Write(t, "config.yaml", text))
		if got.Code != command.CodeWrong || !strings.Contains(got.Err, want) || got.Out != "" {
			t.Errorf("%q: code %d, %q; want %q", text, got.Code, got.Err, want)
		}
	}
}

// After the end of up, its address is known and nobody answers there.
func TestStreamIsAway(t *testing.T) {
	c := operator.Call{Env: map[string]string{"LBREMEDY_STATE_DIR": t.TempDir()}}
	if err := os.WriteFile(filepath.Join(c.Env["LBREMEDY_STATE_DIR"], "nats.json"), []byte(`{"url":"nats://127.0.0.1:1","token":"t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.Run(t.Context(), "ls"); got.Code != command.CodeFailed || !strings.Contains(got.Err, `"lbremedy up" does not run`) {
		t.Errorf("%+v", got)
	}
	if got := c.Run(t.Context(), "ls", "--nats", "nats://127.0.0.1:1"); got.Code != command.CodeFailed ||
		!strings.Contains(got.Err, "no NATS server answers there") {
		t.Errorf("%+v", got)
	}
	if got := c.Run(t.Context(), "ls", "--nats", "nats://127.0.0.1:1", "--nats-creds", filepath.Join(t.TempDir(), "none")); got.Code != command.CodeWrong {
		t.Errorf("%+v", got)
	}
}
