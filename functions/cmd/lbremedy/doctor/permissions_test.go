package doctor_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	ramPolicy = "k8sMasterRolePolicy-Ccm-1"
	rights    = `{"Version":"1","Statement":[{"Effect":"Allow","Action":["slb:*","nlb:*"],"Resource":"*"}]}`
)

func masters() *sim.World {
	return &sim.World{
		Cluster: sim.Cluster{ID: "c-cli", Type: "Kubernetes", MasterRole: "masters", Addons: map[string]string{"cloud-controller-manager": "v2.11.0"}},
		Roles:   []sim.Role{{Name: "masters", Policies: []string{ramPolicy}}},
		Policies: []sim.Policy{{Name: ramPolicy, Type: "Custom", Versions: []sim.PolicyVersion{
			{ID: "v1", Default: true, Document: rights},
		}}},
	}
}

func versions(sc *operator.Testbed) (ids []string, in string) {
	for _, v := range sc.Cloud.Snapshot().Policies[0].Versions {
		if ids = append(ids, v.ID); v.Default {
			in = v.ID
		}
	}
	return ids, in
}

// RAM actions that the controller lacks now or after an upgrade are added with a person's approval, and removed again.
func TestFixPermissions(t *testing.T) {
	t.Parallel()
	testbed := func(t *testing.T, edit func(*sim.World)) *operator.Testbed {
		w := masters()
		edit(w)
		c, account := operator.API{User: "team"}.Against(t, w)
		sc := &operator.Testbed{Call: c, Cloud: account}
		server := nats.Start(t, embedded.Options{Token: "sesame"})
		sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
		sc.Wants(t, 0, "", "", "up", "--setup")
		return sc
	}
	file := func(text string) string { return operator.Write(t, "policy.yaml", text) }
	upgrade := file("mode: fix\ndoctor: {target: v2.12.1}\n")
	look := []string{"doctor", "--fix", "permissions", "-o", "json", "--policy"}

	t.Run("with an approval", func(t *testing.T) {
		t.Parallel()
		sc := testbed(t, func(*sim.World) {})
		var would []event.Record
		got := sc.Run(t.Context(), append(look, upgrade)...)
		if err := json.Unmarshal([]byte(got.Out), &would); err != nil || got.Code != cli.CodeOpen || len(would) != 1 || would[0].Digest == "" ||
			len(would[0].Steps) != 1 || !strings.Contains(would[0].Steps[0].Text.String(), ramPolicy) ||
			!strings.Contains(string(would[0].Steps[0].Step), "ecs:DescribeInstances") {
			t.Fatalf("code %d, %v: %s %s", got.Code, err, got.Out, got.Err)
		}
		apply := []string{"doctor", "--fix", "permissions", "--apply", "--by", "bob", "--wait", "0s", "--policy", upgrade}
		sc.Wants(t, cli.CodeOpen, "--apply --approve "+would[0].Digest, "", apply...)
		if ids, in := versions(sc); len(ids) != 1 || in != "v1" {
			t.Fatalf("without an approval there are the versions %v, %s", ids, in)
		}
		sc.Wants(t, 0, "cluster c-cli  fixed", "", append(apply, "--approve", would[0].Digest)...)
		if ids, in := versions(sc); len(ids) != 2 || in == "v1" {
			t.Fatalf("the versions are %v, the default is %s", ids, in)
		}
		sc.Wants(t, 0, "", "There is nothing to fix.", apply...)

		var cases []event.Record
		got = sc.Run(t.Context(), "ls", "-o", "json")
		if err := json.Unmarshal([]byte(got.Out), &cases); err != nil || len(cases) != 1 || cases[0].Class != "ram-permission" || cases[0].Approved == nil ||
			cases[0].Service.Kind != "cluster" || cases[0].Service.Name != "c-cli" {
			t.Fatalf("the journal has %s %s, %v", got.Out, got.Err, err)
		}
		shows := sc.Wants(t, 0, "cluster c-cli  fixed", "", "show", cases[0].Case, "-o", "wide")
		for _, word := range []string{"Begun ", "A person asks for the RAM actions", "lbremedy undo " + cases[0].Case} {
			if !strings.Contains(shows.Out, word) {
				t.Errorf("shown: %s; want %q", shows.Out, word)
			}
		}
		if strings.Contains(shows.Out, "Impact") {
			t.Errorf("an impact on no Service: %s", shows.Out)
		}
		sc.Wants(t, command.CodeWrong, "", "was started by hand", "approve", cases[0].Case)
		sc.Wants(t, 0, "undone", "", "undo", cases[0].Case, "--apply")
		if ids, in := versions(sc); in != "v1" || len(ids) != 2 {
			t.Errorf("after the undo: %v, %s", ids, in)
		}
		sc.Wants(t, cli.CodeOpen, ramPolicy, "", append(look, upgrade)...)
	})

	t.Run("guards", func(t *testing.T) {
		t.Parallel()
		for name, tt := range map[string]struct {
			edit func(*sim.World)
			want string
		}{
			"another role": {func(w *sim.World) {
				w.Roles = append(w.Roles, sim.Role{Name: "other", Policies: []string{ramPolicy}})
			}, "also attached to other"},
			"a Deny": {func(w *sim.World) {
				w.Policies[0].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Deny","Action":"ecs:DescribeInstances","Resource":"*"}]}`
			}, "A Deny statement forbids"},
			"a condition": {func(w *sim.World) {
				w.Policies[0].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*",` +
					`"Condition":{"StringEquals":{"acs:SourceIp":"10.0.0.1"}}}]}`
			}, "This looks intentional"},
			"too long": {func(w *sim.World) {
				w.Policies[0].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":["` + strings.Repeat("x", 6100) + `"],"Resource":"*"}]}`
			}, "RAM allows only 6144"},
			"no policy": {func(w *sim.World) { w.Roles[0].Policies = nil }, "no policy named k8sMasterRolePolicy-*"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sc := testbed(t, tt.edit)
				sc.Wants(t, cli.CodeOpen, tt.want, "", "doctor", "--fix", "permissions", "-o", "json", "--apply", "--wait", "0s", "--policy", upgrade)
				if ids, in := versions(sc); len(ids) != 1 || in != "v1" {
					t.Errorf("there are the versions %v, %s", ids, in)
				}
			})
		}
	})

	t.Run("a policy that names the class", func(t *testing.T) {
		t.Parallel()
		sc := testbed(t, func(w *sim.World) { // the oldest of five versions that is not the default makes room
			v := w.Policies[0].Versions[0]
			for _, id := range []string{"v2", "v3", "v4", "v5"} {
				w.Policies[0].Versions = append(w.Policies[0].Versions, sim.PolicyVersion{ID: id, Document: v.Document})
			}
		})
		named := file("mode: fix\nclasses: {ram-permission: {risk: medium}}\n")
		apply := []string{"doctor", "--fix", "permissions", "--apply", "--wait", "0s", "--policy", named}
		sc.Wants(t, 0, "", "", "pause", "--by", "ann", "--why", "network change")
		sc.Wants(t, cli.CodeOpen, "Paused by ann", "", apply...)
		if ids, in := versions(sc); len(ids) != 5 || in != "v1" {
			t.Errorf("in a pause there are the versions %v, %s", ids, in)
		}
		sc.Wants(t, 0, "", "", "resume")
		sc.Wants(t, 0, "in place of its old version", "", apply...)
		if ids, in := versions(sc); len(ids) != 5 || in == "v1" || !slices.Contains(ids, "v1") {
			t.Errorf("the versions are %v, the default is %s", ids, in)
		}
	})

	t.Run("nothing to add", func(t *testing.T) {
		t.Parallel()
		sc := testbed(t, func(w *sim.World) { w.Cluster.Type = "ManagedKubernetes" })
		sc.Wants(t, 0, "", "There is nothing to fix.", "doctor", "--fix", "permissions", "--policy", upgrade)
		sc.Wants(t, 0, "[]\n", "There is nothing to fix.", "doctor", "--fix", "permissions", "--policy", upgrade, "-o", "json")
		sc = testbed(t, func(w *sim.World) { w.Cluster.MasterRole, w.Cluster.NoMasterRole = "", true })
		sc.Wants(t, cli.CodeUnknown, "", "names no RAM role of its masters", "doctor", "--fix", "permissions", "--apply", "--policy", upgrade)
	})
}
