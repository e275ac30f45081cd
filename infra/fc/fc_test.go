// Package fc tests the files for Function Compute against our schema. "make check-fc" does the same with the real tool.
package fc

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
)

var files = []string{"../../s.yaml", "go1.yaml", sample}

// sample is the file of the class in another language.
const sample = "../../functions/examples/python/generated/s.yaml"

func environment() map[string]string {
	return map[string]string{
		"LBREMEDY_FC_ACCOUNT": "1234567890123456", "LBREMEDY_REGION": "cn-hangzhou", "LBREMEDY_CLUSTER": "c0ffee",
		"LBREMEDY_ENGINE_KEYS": strings.Repeat("k", 43) + "," + strings.Repeat("_", 43), "LBREMEDY_FC_VPC": "vpc-1", "LBREMEDY_FC_VSWITCH": "vsw-1",
		"LBREMEDY_FC_SECURITY_GROUP": "sg-1", "LBREMEDY_FC_LOG_PROJECT": "logs-of-ours",
	}
}

var (
	envExpression = regexp.MustCompile(`\$\{env\('([A-Z0-9_]+)'(?:, '([^']*)')?\)\}`)
	varExpression = regexp.MustCompile(`\$\{vars\.([A-Za-z.]+)\}`)
)

// render substitutes variables as Serverless Devs does for the two kinds of expression that we use.
func render(text string, env map[string]string) (any, error) {
	var missing []string
	text = envExpression.ReplaceAllStringFunc(text, func(e string) string {
		m := envExpression.FindStringSubmatch(e)
		value, ok := env[m[1]]
		if !ok && !strings.Contains(e, ", '") {
			missing = append(missing, m[1])
		}
		if !ok {
			value = m[2]
		}
		quoted, _ := json.Marshal(value) // a string can always be encoded
		if strings.Contains(text, ": "+e+"\n") || strings.Contains(text, "- "+e+"\n") {
			return string(quoted)
		}
		return value
	})
	if len(missing) > 0 {
		return nil, fmt.Errorf("not set: %v", missing)
	}
	var data map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &data); err != nil {
		return nil, err
	}
	vars, _ := data["vars"].(map[string]any)
	return fill(data, vars)
}

// fill replaces expressions; one that is a whole string may become any type of value.
func fill(value any, vars map[string]any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			filled, err := fill(inner, vars)
			if err != nil {
				return nil, err
			}
			v[key] = filled
		}
	case []any:
		for i, inner := range v {
			filled, err := fill(inner, vars)
			if err != nil {
				return nil, err
			}
			v[i] = filled
		}
	case string:
		for m := varExpression.FindStringSubmatch(v); m != nil; m = varExpression.FindStringSubmatch(v) {
			found, ok := vars[m[1]]
			if !ok {
				return nil, fmt.Errorf("vars has no %s", m[1])
			}
			if m[0] == v {
				return fill(found, vars)
			}
			v = strings.Replace(v, m[0], fmt.Sprint(found), 1)
		}
		return v, nil
	}
	return value, nil
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGenerated(t *testing.T) {
	s := schema(t)
	for _, name := range files {
		data, err := render(read(t, name), environment())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Validate(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		resources := data.(map[string]any)["resources"].(map[string]any)
		all := []string{}
		for _, r := range functions.All {
			all = append(all, r.Class)
		}
		if name == sample {
			all = []string{"x-owner-missing"}
		}
		if len(resources) != len(all) {
			t.Errorf("%s has %d functions, want %d", name, len(resources), len(all))
		}
		for _, class := range all {
			props := resources[class].(map[string]any)["props"].(map[string]any)
			if got, want := props["functionName"], "lbremedy-"+class; got != want {
				t.Errorf("%s: the function of %s is named %v, want %s", name, class, got, want)
			}
			if got, want := props["role"], "acs:ram::1234567890123456:role/lbremedy-"+class; got != want {
				t.Errorf("%s: the role of %s is %v, want %s", name, class, got, want)
			}
			want := "system:serviceaccount:lbremedy:lbremedy-" + class
			if got := props["environmentVariables"].(map[string]any)["LBREMEDY_KUBECONFIG_AS"]; got != want {
				t.Errorf("%s: %s acts as %v, want %s", name, class, got, want)
			}
			trigger := props["triggers"].([]any)[0].(map[string]any)["triggerType"]
			if trigger != "http" {
				t.Errorf("%s: %s has a trigger of type %v, want http", name, class, trigger)
			}
		}
	}
}

func TestTypos(t *testing.T) {
	s := schema(t)
	replace := func(old, with string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, with, 1) }
	}
	for name, tt := range map[string]struct {
		edit func(string) string
		env  map[string]string
		want string // part of the error
	}{
		"a property":            {edit: replace("memorySize: 128", "memorysize: 128"), want: "memorysize"},
		"a runtime":             {edit: replace("runtime: custom.debian12", "runtime: custom.debian21"), want: "runtime"},
		"memory":                {edit: replace("memorySize: 128", "memorySize: 100"), want: "memorySize"},
		"a time":                {edit: replace("timeout: 90", "timeout: 9"), want: "timeout"},
		"an unknown variable":   {edit: replace("${vars.region}", "${vars.regoin}"), want: "regoin"},
		"a variable of vars":    {edit: replace("  cluster: ", "  clutser: "), want: "vars has no cluster"},
		"no variable":           {edit: replace("LBREMEDY_FC_VPC", "LBREMEDY_FC_VCP"), want: "LBREMEDY_FC_VCP"},
		"an environment name":   {edit: replace("LBREMEDY_CLUSTER: ", "LBREMEDY_CLUTSER: "), want: "LBREMEDY_CLUTSER"},
		"trigger":               {edit: replace("disableURLInternet", "disableUrlInternet"), want: "disableUrlInternet"},
		"open to anybody":       {edit: replace("authType: function", "authType: anonymous"), want: "authType"},
		"open to the Internet":  {edit: replace("disableURLInternet: true", "disableURLInternet: false"), want: "disableURLInternet"},
		"jwt without keys":      {edit: replace("authType: function", "authType: jwt"), want: "authConfig"},
		"twice":                 {edit: replace("      cpu: 0.1\n", "      cpu: 0.1\n      cpu: 0.2\n"), want: "already set"},
		"go1 with a server":     {edit: replace("runtime: custom.debian12", "runtime: go1"), want: "handler"},
		"an account":            {env: map[string]string{"LBREMEDY_FC_ACCOUNT": "me"}, want: "account"},
		"a role of another one": {edit: replace("role: acs:ram::${vars.account}", "role: acs:ram::*"), want: "role"},
		"a secret as a key":     {env: map[string]string{"LBREMEDY_ENGINE_KEYS": "-----BEGIN PRIVATE KEY-----"}, want: "engineKeys"},
		"too many keys": {env: map[string]string{"LBREMEDY_ENGINE_KEYS": strings.Repeat(strings.Repeat("k", 43)+",", 4) + strings.Repeat("k", 43)},
			want: "LBREMEDY_ENGINE_KEYS"},
		"too much environment": {env: map[string]string{"LBREMEDY_KUBECONFIG_FROM": "data", "LBREMEDY_KUBECONFIG_DATA": strings.Repeat("x", 4096)},
			want: "LBREMEDY_KUBECONFIG_DATA"},
		"no kubeconfig":    {env: map[string]string{"LBREMEDY_KUBECONFIG_FROM": "data"}, want: "LBREMEDY_KUBECONFIG_DATA"},
		"kubeconfig from":  {env: map[string]string{"LBREMEDY_KUBECONFIG_FROM": "sc"}, want: "kubeconfigFrom"},
		"nobody to act as": {edit: replace("        LBREMEDY_KUBECONFIG_AS: ", "        LBREMEDY_KUBECONFIG_SA: "), want: "LBREMEDY_KUBECONFIG_AS"},
		"as another":       {edit: replace("AS: system:serviceaccount:", "AS: system:"), want: "LBREMEDY_KUBECONFIG_AS"},
		"a timer":          {edit: replace("        triggerType: http", "        triggerType: timer"), want: "triggerType"},
		"no key":           {edit: replace("        LBREMEDY_ENGINE_KEYS: ", "        LBREMEDY_ENGINE_KEY: "), want: "LBREMEDY_ENGINE_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			text, env := read(t, files[0]), environment()
			if tt.edit != nil {
				edited := tt.edit(text)
				if edited == text {
					t.Fatal("the typo is in no line of s.yaml")
				}
				text = edited
			}
			maps.Copy(env, tt.env)
			data, err := render(text, env)
			if err == nil {
				err = s.Validate(data)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %s", err, tt.want)
			}
		})
	}
}

// Any environment that the schema accepts has less than 4 KB: all names, each with its longest value.
func TestEnvironmentFits(t *testing.T) {
	var doc struct {
		Definitions struct {
			Environment struct {
				Properties map[string]struct {
					Type      string `json:"type"`
					MaxLength int    `json:"maxLength"`
				} `json:"properties"`
			} `json:"environment"`
		} `json:"definitions"`
	}
	if err := json.Unmarshal([]byte(read(t, "schema.json")), &doc); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for name, p := range doc.Definitions.Environment.Properties {
		if p.MaxLength == 0 || p.Type != "string" {
			t.Errorf("%s has no longest value", name)
		}
		sum += len(name) + p.MaxLength
	}
	if sum > 4096 || sum == 0 {
		t.Errorf("the environment may have %d bytes; Function Compute allows 4096", sum)
	}
}

func TestNothingElse(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"README.md", "check.sh", "deploy.sh", "fc_test.go", "go1.yaml", "identities.yaml", "pack", "s.sh", "schema.json", "stub"}
	for _, e := range entries {
		if !slices.Contains(want, e.Name()) {
			t.Errorf("%s is neither generated nor known here", e.Name())
		}
	}
}

func tools(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bash", "cat", "dirname", "mkdir", "mktemp", "rm", "tar"} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(found, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/usr/bin/env bash\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTool(t *testing.T) {
	const npm = `while [ "$1" != --pack-destination ]; do shift; done; echo forged >"$2/s.tgz"`
	for name, tt := range map[string]struct {
		scripts map[string]string
		want    string
	}{
		"no node":    {nil, "node is not installed"},
		"no npm":     {map[string]string{"node": "exit 9"}, "npm is not installed"},
		"no way":     {map[string]string{"node": "exit 9", "npm": "echo offline >&2; exit 1"}, "npm could not fetch"},
		"forged":     {map[string]string{"node": "echo -n else", "npm": npm}, "is not @serverless-devs/s@3.1.10"},
		"node fails": {map[string]string{"node": "exit 9", "npm": npm}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			c := exec.CommandContext(t.Context(), "./s.sh", "preview")
			c.Env = []string{"PATH=" + tools(t, tt.scripts), "HOME=" + cache, "XDG_CACHE_HOME=" + cache}
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("got %v, %s; want an error about %q", err, out, tt.want)
			}
			left, err := filepath.Glob(filepath.Join(cache, "lbremedy", "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("it leaves %v, %v", left, err)
			}
		})
	}
}

func TestDeployBadInput(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a flag":    {[]string{"--aply"}, "unknown flag --aply"},
		"a runtime": {[]string{"--runtime", "go2"}, "custom.debian12 or go1"},
		"no class":  {[]string{"--class"}, "--class needs a value"},
		"no zips":   {nil, "make build-fc"},
	} {
		c := exec.CommandContext(t.Context(), "./deploy.sh", tt.args...)
		c.Env = append(os.Environ(), "LBREMEDY_FC_ZIPS="+t.TempDir())
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: got %v, %s; want an error about %q", name, err, out, tt.want)
		}
	}
}

func TestDeploys(t *testing.T) {
	work := t.TempDir()
	folder := func(name string) string {
		dir := filepath.Join(work, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	zips, cache, seen := folder("zips"), folder("cache/lbremedy/serverless-devs-3.1.10/package/bin"), filepath.Join(work, "seen")
	write(cache, "s", "")
	write(zips, "SHA256SUMS", "")
	var all []string
	for _, r := range functions.All {
		all = append(all, r.Class)
	}
	const node = `[ "$1" = - ] && exit
shift; printf '%s\n' "$*" >>"$SEEN"
echo '{}'`
	path := tools(t, map[string]string{"node": node, "npm": "exit 9"})
	for _, name := range []string{"grep", "sed"} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(found, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		args    []string
		classes []string
		command string
	}{
		"one class": {[]string{"--class", "busy", "--apply"}, []string{"busy"}, "deploy"},
		"all":       {[]string{"--apply"}, all, "deploy"},
		"a dry run": {[]string{"--class", "busy", "--class", "quota"}, []string{"busy", "quota"}, "plan"},
		"of go1":    {[]string{"--runtime", "go1", "--class", "busy", "--apply"}, []string{"busy"}, "deploy"},
	} {
		if err := os.WriteFile(seen, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "./deploy.sh", tt.args...)
		c.Env = []string{"PATH=" + path, "HOME=" + work, "XDG_CACHE_HOME=" + filepath.Join(work, "cache"), "LBREMEDY_FC_ZIPS=" + zips, "SEEN=" + seen}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		var got []string
		for line := range strings.Lines(read(t, seen)) {
			words := strings.Fields(line)
			if words[0] == "preview" || words[0] == "verify" {
				continue
			}
			if got = append(got, words[0]); words[1] != tt.command {
				t.Errorf("%s: the tool is run as %q, want %s", name, line, tt.command)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(tt.classes)); !slices.Equal(got, want) {
			t.Errorf("%s: the tool is run for %v, want %v", name, got, want)
		}
	}
	for _, name := range files {
		if text := read(t, name); regexp.MustCompile(`(?i)nats|seed|token|password|private`).MatchString(text) {
			t.Errorf("%s names a secret: %s", name, regexp.MustCompile(`(?i).*(nats|seed|token|password|private).*`).FindString(text))
		}
	}
}

// Variables that a page exports are visible to every program started afterwards.
func TestPageExportsNoSeed(t *testing.T) {
	pages, err := filepath.Glob("../*/README*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("got %v, %v", pages, err)
	}
	for _, page := range pages {
		for i, line := range strings.Split(read(t, page), "\n") {
			if strings.Contains(line, "export") && (strings.Contains(line, "_SEED") || regexp.MustCompile(`(cat|<) *"?[^ ]*seed`).MatchString(line)) {
				t.Errorf("%s:%d: %s: hand a key to the one program that needs it", page, i+1, line)
			}
		}
	}
}
