package root_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Each mistake is one sentence that names the culprit and the way out, with an exit code, and without output.
func TestMistakes(t *testing.T) {
	here := []string{"--cluster", "c1", "--region", "cn-hangzhou", "--kubeconfig", "nowhere"}
	with := func(args ...string) []string { return append(args, here...) }
	tests := []struct {
		name string
		args []string
		in   string
		want string // part of the sentence
	}{
		{"unknown command", []string{"shw"}, "", `unknown command "shw": did you mean show`},
		{"unknown flag", []string{"ls", "--bar"}, "", "unknown flag: --bar: see lbremedy ls --help"},
		{"unknown flag like another", []string{"ls", "--namespac", "shop"}, "", "unknown flag --namespac: did you mean --namespace?"},
		{"unknown global flag like another", []string{"ls", "--clutser", "c1"}, "", "unknown flag --clutser: did you mean --cluster?"},
		{"unknown command of a group", []string{"lb", "shw"}, "", `unknown command "lb shw": did you mean lb show?`},
		{"help of no command", []string{"help", "aprove"}, "", `unknown command "aprove": did you mean approve?`},
		{"no number", []string{"up", "--setup", "--replicas", "x"}, "", `invalid argument "x" for "--replicas" flag: must be an integer: see`},
		{"no argument", []string{"show"}, "", "show needs a case ID or NAMESPACE/SERVICE"},
		{"one too many", []string{"ls", "x"}, "", `"x"`},
		{"unknown form", []string{"ls", "-o", "xml"}, "", `"xml" is not one of table, wide, json, yaml`},
		{"unknown level", []string{"ls", "--log-level", "loud"}, "", `"loud" is not one of debug`},
		{"unknown class", []string{"ls", "--class", "missing"}, "",
			`unknown class "missing": the nearest are reference-missing, tag-missing, `},
		{"unknown result", []string{"ls", "--result", "nope"}, "", `unknown result "nope": want one of`},
		{"no time to wait", with("run", "shop/web", "--wait", "-5m"), "", "--wait: -5m is below 0"},
		{"no time", []string{"ls", "--since", "soon"}, "", "90m or 7d"},
		{"no NATS", []string{"ls"}, "", `start "lbremedy up", or name one with --nats`},
		{"hostile cluster", []string{"ls", "--cluster", "a.b"}, "", "--cluster:"},
		{"no cluster", []string{"up"}, "", "set --cluster or LBREMEDY_CLUSTER"},
		{"no kubeconfig", with("up"), "", "there is no kubeconfig nowhere"},
		{"the doctor too often", with("up", "--doctor", "1s"), "", "--doctor: 1s is less than 5m"},
		{"no policy file", with("up", "--policy", "nowhere.yaml"), "", "nowhere.yaml"},
		{"no address", with("up", "--listen", "nowhere:x"), "", "--listen:"},
		{"policy with a typo", with("up", "--policy", operator.Write(t, "p.yaml", "mode: fxi\n")), "", `"fxi" is not a mode: want observe or fix`},
		{"policy with an unknown field", with("up", "--policy", operator.Write(t, "p.yaml", "mod: fix\n")), "",
			`line 1: mod: the field is unknown; the fields are mode, risk`},
		{"plan of no Service", with("plan", "Shop"), "", `"Shop" is not a Service`},
		{"plan of a name alone", with("plan", "shop"), "", "there is no kubeconfig nowhere"},
		{"plan of a file", with("plan", "a/b.json"), "", "there is no kubeconfig nowhere"},
		{"replay of everything", with("replay", "--apply"), "", "or give --all"},
		{"undo of nothing", []string{"undo"}, "", "undo needs a case ID or NAMESPACE/SERVICE"},
		{"classify nothing there", []string{"classify", "messages.txt"}, "", "there is no file messages.txt"},
		{"classify a directory", []string{"classify", ".."}, "", ".. is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := operator.Call{In: tt.in, Env: operator.Home(t)}.Run(t.Context(), tt.args...)
			if got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.want) || !strings.HasPrefix(got.Err, "error: ") {
				t.Errorf("%v: code %d, said %q; want code %d and %q", tt.args, got.Code, got.Err, command.CodeWrong, tt.want)
			}
			if strings.Count(got.Err, "\n") > 2 || strings.Contains(got.Err, "Usage:") || strings.Contains(got.Err, "json: ") || strings.Contains(got.Err, "strconv") {
				t.Errorf("%v: more than a sentence: %q", tt.args, got.Err)
			}
			if got.Out != "" && !strings.HasPrefix(tt.name, "classify") {
				t.Errorf("%v: it wrote %q", tt.args, got.Out)
			}
		})
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A failed write of the output is reported once and fails, in every form.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"doctor checks", "doctor checks -o json", "version", "help", "classify x"} {
		var errs bytes.Buffer
		p := operator.Call{Env: operator.Home(t)}.Program(full{}, &errs)
		if code := root.Run(t.Context(), p, strings.Fields(args)); code != command.CodeFailed || strings.Count(errs.String(), "no space left on device") != 1 {
			t.Errorf("%s: code %d, %s", args, code, errs.String())
		}
	}
}

func TestPages(t *testing.T) {
	c := operator.Call{Env: operator.Home(t)}
	if got := c.Run(t.Context(), "doctor", "checks", "room", "--language", "zh"); got.Code != 0 || !strings.HasPrefix(got.Out, "# 配额和余量\n") {
		t.Errorf("doctor checks room in Chinese: code %d, %s%s", got.Code, got.Out, got.Err)
	}
	got, flag := c.Run(t.Context(), "version"), c.Run(t.Context(), "--version")
	if got != flag || flag.Code != 0 || !strings.HasPrefix(flag.Out, "lbremedy dev (go") {
		t.Errorf("version prints %+v, --version %+v", got, flag)
	}
	got = c.Run(t.Context(), "version", "-o", "json")
	var b command.Build
	if err := json.Unmarshal([]byte(got.Out), &b); err != nil || b.Go == "" {
		t.Errorf("version -o json: %v: %s%s", err, got.Out, got.Err)
	}
}

func TestHelp(t *testing.T) {
	c := operator.Call{Env: operator.Home(t)}
	for args, want := range map[string]string{
		"__complete ls --class ram":             "ram-permission\tThe controller's RAM role lacks a permission",
		"__complete ls --class vsw":             "vswitch-ip-exhausted\t",
		"__complete ls --result ":               "needs-approval\n",
		"__complete ls -o ":                     "yaml\n",
		"completion bash":                       "bash completion V2 for lbremedy",
		"help up":                               "lbremedy up --cluster",
		"up --help":                             "--policy file",
		"options":                               "      --kubeconfig file ",
		"ls --help":                             "Use \"lbremedy options\" for the global flags.\n",
		"__complete ls --namespace x --log-le":  "--log-level\t",
		"__complete show ":                      ":4\n",
		"__complete ls --log-format j":          "json\n",
		"__complete replay --class unclassifie": "unclassified\t",
	} {
		got := c.Run(t.Context(), strings.Split(args, " ")...)
		if got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("%s: code %d, %q; want %q", args, got.Code, got.Out, want)
		}
		if strings.Contains(args, "help") && strings.Contains(got.Out, "--kubeconfig file") {
			t.Errorf("%s: it shows the global flags: %s", args, got.Out)
		}
	}
}
