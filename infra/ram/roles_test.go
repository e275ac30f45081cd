package ram

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/pages"
	"github.com/lbremedy/lbremedy/test/sim"
)

// aliyun simulates the command line of that name, and no other with it: it stores its input in files, and answers that everything else
// does not exist.
const aliyun = `#!/usr/bin/env bash
set -euo pipefail
echo "$*" >>"$STATE/log"
verb=$2; shift 2
while [ $# -gt 0 ]; do declare "${1#--}=$2"; shift 2; done
say() { if [ -e "$1" ]; then cat "$1"; else echo "ErrorCode: EntityNotExist"; exit 3; fi; }
quoted() { printf '"%s"' "${1//\"/\\\"}"; }
case $verb in
GetRole) say "$STATE/role-$RoleName" ;;
CreateRole) quoted "$AssumeRolePolicyDocument" >"$STATE/role-$RoleName" ;;
UpdateRole) quoted "$NewAssumeRolePolicyDocument" >"$STATE/role-$RoleName" ;;
GetPolicy) say "$STATE/policy-$PolicyName" ;;
CreatePolicy | CreatePolicyVersion) quoted "$PolicyDocument" >"$STATE/policy-$PolicyName" ;;
ListPoliciesForRole) say "$STATE/attached-$RoleName" ;;
AttachPolicyToRole) [ "${BREAK:-}" != attach ] || { echo 'ErrorCode: NoPermission' >&2; exit 3; }
	echo "{\"PolicyName\": \"$PolicyName\"}" >>"$STATE/attached-$RoleName" ;;
DetachPolicyFromRole) grep -v "\"$PolicyName\"" "$STATE/attached-$RoleName" >"$STATE/rest" || true; mv "$STATE/rest" "$STATE/attached-$RoleName" ;;
ListPolicyVersions) printf '{"All": [\n {"IsDefaultVersion": true, "VersionId": "v3"},\n {\n"IsDefaultVersion": false,\n"VersionId": "v2"}]}' ;;
DeletePolicyVersion) [ "$VersionId" = v2 ] ;;
DeletePolicy) ! grep -q "\"$PolicyName\"" "$STATE"/attached-* || { echo 'ErrorCode: DeleteConflict.Policy.Role'; exit 3; }
	rm "$STATE/policy-$PolicyName" ;;
DeleteRole) [ ! -s "$STATE/attached-$RoleName" ] || { echo 'ErrorCode: DeleteConflict.Role.Policy'; exit 3; }
	rm -f "$STATE/role-$RoleName" "$STATE/attached-$RoleName" ;;
*) exit 4 ;;
esac
`

func shell(t *testing.T, state string, args ...string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "aliyun"), []byte(aliyun), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "./roles.sh", args...)
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "STATE="+state)
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestRoles(t *testing.T) {
	base := []string{"--account", "1234567890123456", "--region", "cn-hangzhou", "--cluster", "c0ffee"}
	args := append(base, "--class", "busy", "--class", "credentials", "--kubeconfig")

	state := t.TempDir()
	dry, err := shell(t, state, args...)
	if err != nil {
		t.Fatalf("%v: %s", err, dry)
	}
	if entries, _ := os.ReadDir(state); len(entries) != 0 {
		t.Errorf("a dry run made %v", entries)
	}
	said := regexp.MustCompile(`'[^']*'`).ReplaceAllString(dry, "…")
	const want = `aliyun ram CreatePolicy --PolicyName lbremedy-kubeconfig --PolicyDocument …
aliyun ram CreateRole --RoleName lbremedy-busy --AssumeRolePolicyDocument …
aliyun ram CreatePolicy --PolicyName lbremedy-busy --PolicyDocument …
aliyun ram AttachPolicyToRole --PolicyType Custom --PolicyName lbremedy-busy --RoleName lbremedy-busy
aliyun ram AttachPolicyToRole --PolicyType Custom --PolicyName lbremedy-kubeconfig --RoleName lbremedy-busy
aliyun ram CreateRole --RoleName lbremedy-credentials --AssumeRolePolicyDocument …
aliyun ram CreatePolicy --PolicyName lbremedy-credentials --PolicyDocument …
aliyun ram AttachPolicyToRole --PolicyType Custom --PolicyName lbremedy-credentials --RoleName lbremedy-credentials
aliyun ram AttachPolicyToRole --PolicyType Custom --PolicyName lbremedy-kubeconfig --RoleName lbremedy-credentials
Nothing was done: --apply runs these commands.
`
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("dry run (-want +got):\n%s", d)
	}

	if out, err := shell(t, state, append(args, "--apply")...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.ReadFile("generated/class/busy.json")
	if err != nil {
		t.Fatal(err)
	}
	same(t, state, "policy-lbremedy-busy", sim.Narrow(string(file), "1234567890123456", "cn-hangzhou", "c0ffee"))
	same(t, state, "role-lbremedy-busy", trustFC)

	if out, err := shell(t, state, append(args, "--apply")...); err != nil || out != "" {
		t.Errorf("the second time: %v, %q", err, out)
	}

	if err := os.WriteFile(filepath.Join(state, "policy-lbremedy-busy"), []byte(`"{}"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := shell(t, state, append(args, "--apply")...); err != nil ||
		!strings.HasPrefix(out, "aliyun ram CreatePolicyVersion --PolicyName lbremedy-busy ") || strings.Count(out, "\n") != 1 {
		t.Errorf("a changed policy: %v, %q", err, out)
	}

	if out, err := shell(t, state, append(args, "--apply", "--trust", "rrsa", "--namespace", "healing")...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	same(t, state, "role-lbremedy-busy", strings.NewReplacer("ACCOUNT", "1234567890123456", "CLUSTER", "c0ffee", "NAMESPACE", "healing", "ROLE", "lbremedy-busy",
		"ISSUER", "https://oidc-ack-cn-hangzhou.oss-cn-hangzhou.aliyuncs.com/c0ffee").Replace(trustRRSA))

	// Only a program that also runs the doctor gets the doctor's rights beside its own.
	const attached = "--PolicyName lbremedy-doctor --RoleName "
	out, err := shell(t, t.TempDir(), append(base, "--trust", "rrsa", "--class", "up", "--class", "busy", "--class", "doctor", "--doctor")...)
	if err != nil || strings.Count(out, attached+"lbremedy-up") != 1 || strings.Count(out, attached) != 2 {
		t.Errorf("with --doctor: %v: %s", err, out)
	}
	if out, err := shell(t, t.TempDir(), append(base, "--class", "up")...); err != nil || strings.Contains(out, "doctor") {
		t.Errorf("without the doctor: %v: %s", err, out)
	}

	// Only the engine may call functions, and only those with our prefix.
	made := t.TempDir()
	out, err = shell(t, made, append(base, "--trust", "rrsa", "--class", "engine", "--class", "busy", "--name", "heal", "--invoke", "--apply")...)
	if err != nil || strings.Count(out, "--PolicyName heal-invoke --RoleName ") != 1 || !strings.Contains(out, "--PolicyName heal-invoke --RoleName heal-engine") {
		t.Errorf("the engine: %v: %s", err, out)
	}
	same(t, made, "policy-heal-invoke", `{"Version": "1", "Statement": [{"Effect": "Allow", "Action": ["fc:InvokeFunction"],
		"Resource": ["acs:fc:cn-hangzhou:1234567890123456:functions/heal-*"]}]}`)

	out, err = shell(t, t.TempDir(), append(base, "--class", "notifier")...)
	if err != nil || !strings.Contains(out, "CreateRole --RoleName lbremedy-notifier") || !strings.Contains(out, "CreatePolicy --PolicyName lbremedy-notifier") {
		t.Errorf("the notifier: %v: %s", err, out)
	}

	if out, err := shell(t, t.TempDir(), base...); err != nil || strings.Count(out, " CreateRole ") < 30 {
		t.Errorf("all classes: %v, %d roles", err, strings.Count(out, " CreateRole "))
	}
}

// A removal removes only what was made, with older versions of policies; a dry run removes nothing.
func TestRemove(t *testing.T) {
	state := t.TempDir()
	base := []string{"--account", "1234567890123456", "--region", "cn-hangzhou", "--cluster", "c0ffee"}
	both := append(base, "--class", "busy", "--class", "up", "--doctor", "--kubeconfig")
	if out, err := shell(t, state, append(both, "--apply")...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"policy-theirs", "role-theirs"} {
		if err := os.WriteFile(filepath.Join(state, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (names []string) {
		entries, err := os.ReadDir(state)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "log" {
				names = append(names, e.Name())
			}
		}
		return names
	}
	before := names()
	dry, err := shell(t, state, append(both, "--remove")...)
	if d := cmp.Diff(before, names()); err != nil || d != "" || !strings.Contains(dry, "DeleteRole --RoleName lbremedy-up\n") {
		t.Errorf("dry run: %v: %s\n%s", err, dry, d)
	}
	out, err := shell(t, state, append(both, "--remove", "--apply")...)
	if d := cmp.Diff([]string{"policy-theirs", "role-theirs"}, names()); err != nil || d != "" {
		t.Errorf("%v: %s\n%s", err, out, d)
	}
	if !strings.Contains(out, "DeletePolicyVersion --PolicyName lbremedy-busy --VersionId v2\n") {
		t.Errorf("an older version stayed: %s", out)
	}
	if out, err := shell(t, state, append(both, "--remove", "--apply")...); err != nil || out != "" {
		t.Errorf("the second time: %v, %q", err, out)
	}
}

// The pages' commands make or remove roles in the simulation. A command for all roles, which takes a while, is limited to one.
func TestPages(t *testing.T) {
	set := strings.NewReplacer("$LBREMEDY_FC_ACCOUNT", "1234567890123456", "$ACCOUNT", "1234567890123456",
		"$LBREMEDY_REGION", "cn-hangzhou", "$REGION", "cn-hangzhou", "$LBREMEDY_CLUSTER", "c0ffee", "$CLUSTER", "c0ffee")
	for _, c := range pages.Of(t, "../..", "infra/ram") {
		text, _, _ := strings.Cut(set.Replace(c.Text), " #")
		if !strings.Contains(text, " --class ") {
			text += " --class busy"
		}
		state, args := t.TempDir(), strings.Fields(text)[1:]
		want := " CreateRole "
		if slices.Contains(args, "--remove") { // made before
			want = " DeleteRole "
			made := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--remove" })
			if out, err := shell(t, state, append(made, "--apply")...); err != nil {
				t.Fatalf("%s: %v: %s", c, err, out)
			}
		}
		if out, err := shell(t, state, args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", c, err, out)
		}
	}
}

func same(t *testing.T, state, name, want string) {
	t.Helper()
	quoted, err := os.ReadFile(filepath.Join(state, name))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var g, w any
	if err := json.Unmarshal(quoted, &text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		t.Fatalf("%s: %v: %s", name, err, text)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestRolesBadInput(t *testing.T) {
	good := []string{"--account", "1234567890123456", "--region", "cn-hangzhou", "--cluster", "c0ffee"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no account":    {nil, "--account"},
		"account":       {[]string{"--account", "me"}, "number of the account"},
		"no region":     {good[:2], "--region"},
		"no cluster":    {good[:4], "--cluster"},
		"unknown flag":  {append(good, "--aply"), "unknown flag --aply"},
		"no value":      {append(good, "--class"), "--class needs a value"},
		"quotes":        {append(good, "--name", "a'b"), "--name"},
		"unknown class": {append(good, "--class", "no-such"), "no class no-such"},
		"trust":         {append(good, "--trust", "ecs"), "fc or rrsa"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := shell(t, t.TempDir(), tt.args...)
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("got %v, %q, want an error about %q", err, out, tt.want)
			}
		})
	}
	t.Setenv("BREAK", "attach")
	if out, err := shell(t, t.TempDir(), append(good, "--class", "busy", "--apply")...); err == nil || !strings.Contains(out, "NoPermission") {
		t.Errorf("got %v, %q for a refusal, want it passed on", err, out)
	}
}
