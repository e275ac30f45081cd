package root_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestSettings(t *testing.T) {
	for _, tt := range []struct{ name, variable, flag, want string }{
		{"default", "", "", "vswitch-ip-exhausted  "},
		{"variable", "json", "", `{"class":"vswitch-ip-exhausted"`},
		{"flag before variable", "json", "yaml", "---\nclass: vswitch-ip-exhausted\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := operator.Home(t)
			env["LBREMEDY_OUTPUT"] = tt.variable
			args := []string{"classify", operator.Message}
			if tt.flag != "" {
				args = append(args, "--output", tt.flag)
			}
			got := operator.Call{Env: env}.Run(t.Context(), args...)
			if got.Code != 0 || !strings.HasPrefix(got.Out, tt.want) {
				t.Errorf("code %d, %q, %q; want %s", got.Code, got.Out, got.Err, tt.want)
			}
		})
	}
	for variable, want := range map[string]string{
		"LBREMEDY_OUTPUT=xml":        `"xml" is not one of`,
		"LBREMEDY_CLOUD_VPC=perhaps": `LBREMEDY_CLOUD_VPC: "perhaps" is not a value for cloud-vpc, which is a bool`,
	} {
		env := operator.Home(t)
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
		got := operator.Call{Env: env}.Run(t.Context(), "version")
		if got.Code != command.CodeWrong || !strings.Contains(got.Err, want) || got.Out != "" {
			t.Errorf("%s: code %d, %q; want %q", variable, got.Code, got.Err, want)
		}
	}
}

// After up ends, its address is still known, but does not answer.
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
