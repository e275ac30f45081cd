package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

const (
	templateAccount = "1234567890123456"
	templateCluster = "c0ffee"
)

// made is the roles that roles.sh makes with some arguments: their trust policies by role, and the documents of each one's policies.
type made struct {
	Trust    map[string]any
	Policies map[string][]any
}

func rolesOf(t *testing.T, runs ...[]string) made {
	t.Helper()
	out := made{map[string]any{}, map[string][]any{}}
	documents := map[string]any{}
	for _, args := range runs {
		args = append([]string{"--account", templateAccount, "--region", "cn-hangzhou", "--cluster", templateCluster}, args...)
		said, err := exec.CommandContext(t.Context(), filepath.Join(root, "infra/ram/roles.sh"), args...).Output()
		if err != nil {
			t.Fatalf("roles.sh %q: %v", args, err)
		}
		for line := range strings.Lines(string(said)) {
			flag := func(name string) string {
				m := regexp.MustCompile(` --` + name + ` (?:'([^']*)'|(\S+))`).FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("%q has no %s", line, name)
				}
				return m[1] + m[2]
			}
			switch strings.Fields(line)[2] {
			case "CreateRole":
				out.Trust[flag("RoleName")] = decoded(t, flag("AssumeRolePolicyDocument"))
			case "CreatePolicy":
				documents[flag("PolicyName")] = decoded(t, flag("PolicyDocument"))
			case "AttachPolicyToRole":
				out.attach(flag("RoleName"), documents[flag("PolicyName")])
			}
		}
	}
	return out
}

func (m made) attach(role string, document any) {
	m.Policies[role] = append(m.Policies[role], document)
}

func (m made) diff(want made) string {
	for _, all := range []made{m, want} {
		for _, policies := range all.Policies {
			slices.SortFunc(policies, func(a, b any) int { return strings.Compare(string(encoded(a)), string(encoded(b))) })
		}
	}
	return cmp.Diff(want, m)
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it comes of JSON
	}
	return text
}

func decoded(t *testing.T, text string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// The Terraform module makes the same roles and policies as roles.sh, with documented arguments of the provider. The provider
// itself is not available here: Terraform's own parser evaluates the expressions.
func TestTerraform(t *testing.T) {
	for name, tt := range map[string]struct {
		roles []string
		trust map[string]string
		extra map[string][]string
		same  [][]string
	}{
		"one Pod": {
			roles: []string{"up"}, same: [][]string{{"--trust", "rrsa", "--class", "up"}},
		},
		"one Pod with the doctor": {
			roles: []string{"up"}, extra: map[string][]string{"up": {"doctor"}}, same: [][]string{{"--trust", "rrsa", "--class", "up", "--doctor"}},
		},
		"Function Compute": {
			roles: []string{"engine", "busy", "precheck-failed"}, trust: map[string]string{"busy": "fc", "precheck-failed": "fc"},
			extra: map[string][]string{"engine": {"invoke"}, "busy": {"kubeconfig"}, "precheck-failed": {"kubeconfig"}},
			same: [][]string{
				{"--trust", "rrsa", "--class", "engine", "--invoke"}, {"--trust", "fc", "--class", "busy", "--class", "precheck-failed", "--kubeconfig"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := module(t)
			set := func(names []string) cty.Value {
				out := cty.SetValEmpty(cty.String)
				for _, n := range names {
					out = cty.SetVal(append(out.AsValueSlice(), cty.StringVal(n)))
				}
				return out
			}
			extra := cty.MapValEmpty(cty.Set(cty.String))
			if len(tt.extra) > 0 {
				all := map[string]cty.Value{}
				for role, names := range tt.extra {
					all[role] = set(names)
				}
				extra = cty.MapVal(all)
			}
			trust := cty.MapValEmpty(cty.String)
			if len(tt.trust) > 0 {
				all := map[string]cty.Value{}
				for role, by := range tt.trust {
					all[role] = cty.StringVal(by)
				}
				trust = cty.MapVal(all)
			}
			got := m.roles(t, map[string]cty.Value{
				"account": cty.StringVal(templateAccount), "region": cty.StringVal("cn-hangzhou"), "cluster": cty.StringVal(templateCluster),
				"namespace": cty.StringVal("lbremedy"), "name": cty.StringVal("lbremedy"), "issuer": cty.StringVal(""),
				"roles": set(tt.roles), "trust": trust, "extra": extra,
			})
			if diff := got.diff(rolesOf(t, tt.same...)); diff != "" {
				t.Errorf("(-roles.sh +Terraform):\n%s", diff)
			}
		})
	}
}

type tfModule struct{ blocks map[string]hcl.Attributes }

var documented = map[string][]string{
	"alicloud_ram_role":                   {"assume_role_policy_document", "description", "force", "max_session_duration", "role_name", "tags"},
	"alicloud_ram_policy":                 {"description", "force", "policy_document", "policy_name", "rotate_strategy", "tags"},
	"alicloud_ram_role_policy_attachment": {"policy_name", "policy_type", "role_name"},
}

func module(t *testing.T) tfModule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "infra/ram/generated/terraform/main.tf.json"))
	if err != nil {
		t.Fatal(err)
	}
	file, problems := hcljson.Parse(text, "main.tf.json")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	content, problems := file.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "terraform"}, {Type: "variable", LabelNames: []string{"name"}}, {Type: "locals"},
		{Type: "resource", LabelNames: []string{"type", "name"}}, {Type: "output", LabelNames: []string{"name"}},
	}})
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	m := tfModule{map[string]hcl.Attributes{}}
	for _, b := range content.Blocks {
		attributes, problems := b.Body.JustAttributes()
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		m.blocks[strings.Join(append([]string{b.Type}, b.Labels...), ".")] = attributes
		if b.Type != "resource" {
			continue
		}
		for name := range attributes {
			if name != "for_each" && !slices.Contains(documented[b.Labels[0]], name) {
				t.Errorf("%s has no argument %s", b.Labels[0], name)
			}
		}
	}
	return m
}

func (m tfModule) roles(t *testing.T, variables map[string]cty.Value) made {
	t.Helper()
	for name := range m.blocks {
		if name, ok := strings.CutPrefix(name, "variable."); ok && variables[name] == cty.NilVal {
			t.Fatalf("the variable %s has no value", name)
		}
	}
	scope := &hcl.EvalContext{
		Variables: map[string]cty.Value{"var": cty.ObjectVal(variables)},
		Functions: map[string]function.Function{
			"contains": stdlib.ContainsFunc, "format": stdlib.FormatFunc, "jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc,
			"lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "replace": stdlib.ReplaceFunc, "setunion": stdlib.SetUnionFunc,
			"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		},
	}
	value := func(scope *hcl.EvalContext, block, name string) cty.Value {
		t.Helper()
		v, problems := m.blocks[block][name].Expr.Value(scope)
		if problems.HasErrors() {
			t.Fatalf("%s: %s: %v", block, name, problems)
		}
		return v
	}
	locals := map[string]cty.Value{}
	for _, name := range []string{"issuer", "trusts", "policies", "attached"} { // each may use those before it
		locals[name] = value(scope, "locals", name)
		scope.Variables["local"] = cty.ObjectVal(locals)
	}
	each := func(kind, name string, arguments ...string) map[string]map[string]cty.Value {
		block := "resource." + kind + "." + name
		all, out := value(scope, block, "for_each"), map[string]map[string]cty.Value{}
		for it := all.ElementIterator(); it.Next(); {
			key, element := it.Element()
			if all.Type().IsSetType() {
				key = element
			}
			inner := scope.NewChild()
			inner.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": key, "value": element})}
			out[key.AsString()] = map[string]cty.Value{}
			for _, a := range arguments {
				v, err := convert.Convert(value(inner, block, a), cty.String)
				if err != nil {
					t.Fatal(err)
				}
				out[key.AsString()][a] = v
			}
		}
		known := map[string]cty.Value{}
		for key, arguments := range out {
			known[key] = cty.ObjectVal(arguments)
		}
		scope.Variables[kind] = cty.ObjectVal(map[string]cty.Value{name: cty.ObjectVal(known)})
		return out
	}
	out := made{map[string]any{}, map[string][]any{}}
	for _, r := range each("alicloud_ram_role", "role", "role_name", "assume_role_policy_document") {
		out.Trust[r["role_name"].AsString()] = decoded(t, r["assume_role_policy_document"].AsString())
	}
	documents := map[string]any{}
	for _, p := range each("alicloud_ram_policy", "policy", "policy_name", "policy_document") {
		documents[p["policy_name"].AsString()] = decoded(t, p["policy_document"].AsString())
	}
	for _, a := range each("alicloud_ram_role_policy_attachment", "attachment", "role_name", "policy_name") {
		out.attach(a["role_name"].AsString(), documents[a["policy_name"].AsString()])
	}
	return out
}

// The ROS template makes the same roles and policies as roles.sh. Its functions are evaluated as ROS documents them.
func TestROS(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "infra/ram/generated/ros.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 512<<10 {
		t.Errorf("the template has %d bytes, and ROS takes 524,288", len(text))
	}
	for name, tt := range map[string]struct {
		platform, doctor string
		same             [][]string
	}{
		"one Pod":                 {"pod", "no", [][]string{{"--trust", "rrsa", "--class", "up"}}},
		"one Pod with the doctor": {"pod", "yes", [][]string{{"--trust", "rrsa", "--class", "up", "--doctor"}}},
		"Knative":                 {"knative", "no", [][]string{{"--trust", "rrsa", "--class", "engine"}, {"--trust", "rrsa"}}},
		"Function Compute":        {"fc", "no", [][]string{{"--trust", "rrsa", "--class", "engine", "--invoke"}, {"--trust", "fc", "--kubeconfig"}}},
	} {
		t.Run(name, func(t *testing.T) {
			template := decoded(t, string(text)).(map[string]any)
			s := stack{t, map[string]any{
				"Cluster": templateCluster, "Platform": tt.platform, "Doctor": tt.doctor, "ALIYUN::Region": "cn-hangzhou", "ALIYUN::TenantId": templateAccount,
			}, template["Conditions"].(map[string]any)}
			for name, p := range template["Parameters"].(map[string]any) {
				if _, ok := s.values[name]; !ok {
					s.values[name] = p.(map[string]any)["Default"]
				}
			}
			got := made{map[string]any{}, map[string][]any{}}
			for id, r := range template["Resources"].(map[string]any) {
				r := r.(map[string]any)
				if !regexp.MustCompile(`^[A-Za-z0-9]+$`).MatchString(id) || r["Type"] != "ALIYUN::RAM::Role" {
					t.Errorf("the resource %s is a %s", id, r["Type"])
				}
				if !s.holds(r["Condition"]) {
					continue
				}
				p := s.filled(r["Properties"]).(map[string]any)
				if left := slices.Sorted(maps.Keys(p)); !slices.Equal(left, []string{"AssumeRolePolicyDocument", "DeletionForce", "Description", "Policies", "RoleName"}) {
					t.Errorf("%s has the properties %q", id, left)
				}
				role := p["RoleName"].(string)
				got.Trust[role] = p["AssumeRolePolicyDocument"]
				for _, policy := range p["Policies"].([]any) {
					got.attach(role, policy.(map[string]any)["PolicyDocument"])
				}
			}
			if diff := got.diff(rolesOf(t, tt.same...)); diff != "" {
				t.Errorf("(-roles.sh +ROS):\n%s", diff)
			}
		})
	}
}

type stack struct {
	t          *testing.T
	values     map[string]any
	conditions map[string]any
}

func (s stack) holds(c any) bool {
	s.t.Helper()
	switch c := c.(type) {
	case string:
		of, ok := s.conditions[c]
		if !ok {
			s.t.Fatalf("there is no condition %s", c)
		}
		return s.holds(of)
	case map[string]any:
		if not, ok := c["Fn::Not"]; ok {
			return !s.holds(not)
		}
		if equals, ok := c["Fn::Equals"].([]any); ok {
			return s.filled(equals[0]) == s.filled(equals[1])
		}
	}
	s.t.Fatalf("not a condition: %v", c)
	return false
}

var rosVariable = regexp.MustCompile(`\$\{([A-Za-z:]+)\}`)

func (s stack) filled(v any) any {
	s.t.Helper()
	ref := func(name string) any {
		value, ok := s.values[name]
		if !ok && name != "ALIYUN::NoValue" {
			s.t.Fatalf("there is no parameter %s", name)
		}
		return value
	}
	switch v := v.(type) {
	case []any:
		var out []any
		for _, e := range v {
			if e := s.filled(e); e != nil {
				out = append(out, e)
			}
		}
		return out
	case map[string]any:
		if name, ok := v["Ref"].(string); ok {
			return ref(name)
		}
		if text, ok := v["Fn::Sub"].(string); ok {
			return rosVariable.ReplaceAllStringFunc(text, func(m string) string { return ref(m[2 : len(m)-1]).(string) })
		}
		if branches, ok := v["Fn::If"].([]any); ok {
			if s.holds(branches[0]) {
				return s.filled(branches[1])
			}
			return s.filled(branches[2])
		}
		out := map[string]any{}
		for key, value := range v {
			if value := s.filled(value); value != nil {
				out[key] = value
			}
		}
		return out
	}
	return v
}
