package root_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A platform engineer works with two clusters. Flags go before variables, these before the
// context, and that before the top of the file.
func TestContexts(t *testing.T) {
	t.Parallel()
	env := operator.Home(t)
	file := filepath.Join(env["HOME"], ".config", "lbremedy", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const old = "# mine\nregion: cn-top # the usual one\nlog-level: error\n"
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	c := operator.Call{Env: env}
	run := func(code int, out, errs string, args ...string) operator.Said {
		t.Helper()
		got := c.Run(t.Context(), args...)
		if got.Code != code || !strings.Contains(got.Out, out) || !strings.Contains(got.Err, errs) {
			t.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.Code, got.Out, got.Err, code, out, errs)
		}
		return got
	}
	run(0, "", "No context. To add one: lbremedy context add NAME", "context", "ls")
	run(command.CodeWrong, "", `there is no context "prod": add one with "lbremedy context add"`, "context", "use", "prod")
	run(0, "Added context prod to "+file, "lbremedy context use prod", "context", "add", "prod", "--cluster", "c-prod", "--region", "cn-hangzhou",
		"--nats", "tls://nats.example:4222", "--cloud-vpc", "--nats-creds", "prod.creds")
	run(0, "Added context test", "", "context", "add", "test", "--cluster", "c-test", "--nats", "nats://127.0.0.1:1", "-o", "table")
	here, err := filepath.Abs("prod.creds")
	if err != nil {
		t.Fatal(err)
	}
	want := `# mine
region: cn-top # the usual one
log-level: error
contexts:
  prod:
    cloud-vpc: true
    cluster: c-prod
    nats: tls://nats.example:4222
    nats-creds: ` + here + `
    region: cn-hangzhou
  test:
    cluster: c-test
    nats: nats://127.0.0.1:1
`
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("the file is %v\n%s\nwant\n%s", err, text, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the file: %v, %v", info.Mode(), err)
	}

	// What is chosen shows in whom a command asks.
	const none = "start \"lbremedy up\""
	run(command.CodeWrong, "", none, "ls")
	run(command.CodeFailed, "", "127.0.0.1:1", "ls", "--use", "test")
	run(0, "Using context test: cluster c-test.", "", "context", "use", "test")
	run(command.CodeFailed, "", "127.0.0.1:1", "ls")
	run(command.CodeFailed, "", "127.0.0.1:2", "ls", "--nats", "nats://127.0.0.1:2")
	env["LBREMEDY_NATS"] = "nats://127.0.0.1:3"
	run(command.CodeFailed, "", "127.0.0.1:3", "ls")
	run(command.CodeFailed, "", "127.0.0.1:2", "ls", "--nats", "nats://127.0.0.1:2")
	delete(env, "LBREMEDY_NATS")
	env["LBREMEDY_USE"] = "prod"
	run(command.CodeWrong, "", here, "ls")
	run(command.CodeFailed, "", "127.0.0.1:1", "ls", "--use", "test")
	delete(env, "LBREMEDY_USE")

	run(0, "CURRENT   NAME   CLUSTER   REGION        NATS\n          prod   c-prod    cn-hangzhou   tls://nats.example:4222\n"+
		"*         test   c-test    -             nats://127.0.0.1:1\n", "", "context", "ls")
	run(0, `"name": "test",
    "current": true,`, "", "context", "ls", "-o", "json")
	run(0, "prod\ntest\n:4", "", "__complete", "context", "use", "")
	run(0, "prod\ntest\n:4", "", "__complete", "ls", "--use", "")

	// Mistakes, each with the way out.
	run(command.CodeWrong, "", `there is no context "prd" in `+file+": did you mean prod?", "ls", "--use", "prd")
	run(command.CodeWrong, "", `there is no context "zebra" in `+file+"; there are prod, test", "context", "rm", "zebra")
	run(command.CodeWrong, "", `there is no command "context lst": did you mean context ls?`, "context", "lst")
	run(command.CodeWrong, "", "there already is a context prod", "context", "add", "prod", "--cluster", "c2")
	run(command.CodeWrong, "", "give at least one", "context", "add", "empty")
	run(command.CodeWrong, "", "is no name for a context", "context", "add", "a b", "--cluster", "c2")
	run(command.CodeWrong, "", "use --nats-creds or --nats-nkey, or set LBREMEDY_NATS_TOKEN", "context", "add", "safe", "--nats-token", "s3cret")
	run(command.CodeWrong, "", "leave the user out of the URL", "context", "add", "safe", "--nats", "nats://me:s3cret@a:4222")
	run(command.CodeWrong, "", "leave the user out of the URL", "context", "add", "safe", "--nats", "me:s3cret@a:4222")
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "s3cret") {
		t.Errorf("a secret lies in the file: %v\n%s", err, text)
	}

	run(0, "Removed context test", "It was the chosen one", "context", "rm", "test")
	run(command.CodeWrong, "", none, "ls")
	run(0, "Removed context prod", "", "context", "rm", "prod")
	if text, err := os.ReadFile(file); err != nil || string(text) != old+"contexts: {}\n" {
		t.Errorf("the file is %v\n%s", err, text)
	}

	// A current context that is gone stops all but what can put it right.
	if err := os.WriteFile(file, []byte(old+"current-context: lost\ncontexts: {found: {cluster: c1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(command.CodeWrong, "", `there is no context "lost"`, "ls")
	run(0, "Using context found", "", "context", "use", "found")
	run(command.CodeWrong, "", none, "ls")

	// The file of a call is the one that is written.
	named := filepath.Join(t.TempDir(), "mine.yaml")
	run(0, "Added context one", "", "context", "add", "one", "--cluster", "c1", "--config", named)
	run(command.CodeWrong, "", "there is no configuration file", "ls", "--config", named+".none")
	run(0, "one ", "", "context", "ls", "--config", named)
	for text, says := range map[string]string{
		"contexts: {a: {colour: blue}}":       "contexts.a.colour: there is no such field; there are cloud-endpoint,",
		"contexts: {a: {cloud-vpc: perhaps}}": "contexts.a.cloud-vpc: it must be true or false",
		"contexts: {a: {config: b}}":          "contexts.a.config: there is no such field",
		"contexts: [a]":                       "contexts: it must be a list of fields",
		"use: a":                              "use: there is no such field",
	} {
		run(command.CodeWrong, "", says, "ls", "--config", operator.Write(t, "config.yaml", text))
	}
}

// Who has written secrets into the configuration file does not meet them in what the commands print.
func TestContextSecrets(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		file := operator.Write(t, "config.yaml", `nats-token: s3cret
contexts:
  prod: {cluster: c1, nats: "tls://ops:s3cret@nats-1:4222, ops:s3cret@nats-2:4222", nats-token: s3cret}
`)
		for _, args := range [][]string{{"context", "ls"}, {"context", "use", "prod"}, {"context", "rm", "prod"}} {
			got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), append(args, "--config", file, "-o", format)...)
			if got.Code != 0 || strings.Contains(got.Out+got.Err, "s3cret") {
				t.Errorf("%v as %s: %+v", args, format, got)
			}
			if args[1] == "ls" && !strings.Contains(got.Out, "tls://nats-1:4222,nats://nats-2:4222") {
				t.Errorf("%v as %s names no address: %s", args, format, got.Out)
			}
		}
	}
}
