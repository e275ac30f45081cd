package ram_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/ram"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// dedicated makes the cluster of a testbed one whose masters have a RAM role with a policy.
func dedicated(sc *operator.Testbed, document string) {
	sc.Cloud.Edit(func(s *sim.State) {
		s.Cluster.Type, s.Cluster.MasterRole = "Kubernetes", "masters"
		s.Roles["masters"] = &sim.Role{Name: "masters", Policies: []string{"k8sMasterRolePolicy-Ccm-1"}}
		s.Policies["k8sMasterRolePolicy-Ccm-1"] = &sim.Policy{Name: "k8sMasterRolePolicy-Ccm-1", Type: "Custom",
			Versions: []sim.PolicyVersion{{ID: "v1", Default: true, Document: document}}}
	})
}

// versions returns the IDs of the policy's versions, and which is the default.
func versions(sc *operator.Testbed) (ids []string, in string) {
	for _, p := range sc.Cloud.Snapshot().Policies {
		if p.Name != "k8sMasterRolePolicy-Ccm-1" {
			continue
		}
		for _, v := range p.Versions {
			ids = append(ids, v.ID)
			if v.Default {
				in = v.ID
			}
		}
	}
	return ids, in
}

// What a release lacks is shown, added by a person's word, gone, and taken back.
func TestRAMGap(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	const policy = "k8sMasterRolePolicy-Ccm-1"
	const document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":["slb:*","ecs:*","vpc:Describe*","vpc:CreateRouteEntry",` +
		`"vpc:DeleteRouteEntry"],"Resource":"*"}]}`
	dedicated(sc, document)
	gap := func(code int, args ...string) ram.Gap {
		t.Helper()
		got := sc.Run(t.Context(), append([]string{"ram", "gap", "--target", "v2.12.1", "-o", "json"}, args...)...)
		var g ram.Gap
		if err := json.Unmarshal([]byte(got.Out), &g); err != nil || got.Code != code {
			t.Fatalf("code %d, %v: %s %s", got.Code, err, got.Out, got.Err)
		}
		return g
	}
	shown := gap(cli.CodeWarning)
	if !slices.Contains(shown.Missing, "vpc:CreateRouteEntries") || shown.Policy != policy || !strings.Contains(shown.Document, "vpc:CreateRouteEntries") ||
		len(shown.Would) != 1 || !strings.Contains(shown.Would[0], policy) {
		t.Fatalf("got %+v", shown)
	}
	sc.Wants(t, cli.CodeWarning, "Would", "", "ram", "gap", "--target", "v2.12.1")
	if ids, in := versions(sc); len(ids) != 1 || in != "v1" {
		t.Fatalf("a look has made the versions %v, %s", ids, in)
	}
	sc.Wants(t, command.CodeWrong, "", "NATS", "ram", "gap", "--target", "v2.12.1", "--apply") // no journal, no write

	server := nats.Start(t, embedded.Options{Token: "sesame"})
	sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
	sc.Wants(t, 0, "", "", "up", "--setup")
	apply := []string{"ram", "gap", "--target", "v2.12.1", "--apply", "--policy", operator.Write(t, "policy.yaml", "mode: fix\n")}

	sc.In = "web\n"
	if got := sc.Wants(t, command.CodeWrong, "", "nothing was done", apply...); !strings.Contains(got.Err, "vpc:CreateRouteEntries") || got.Out != "" {
		t.Errorf("asked, it printed %q and said %q", got.Out, got.Err)
	}
	sc.In = ""
	sc.Wants(t, command.CodeWrong, "", "not confirmed: type "+policy, apply...)
	if ids, in := versions(sc); len(ids) != 1 || in != "v1" {
		t.Fatalf("without a word there are the versions %v, %s", ids, in)
	}

	// The guards of the class.
	for name, tt := range map[string]struct {
		edit func(*sim.State)
		want string
	}{
		"another role": {func(s *sim.State) {
			s.Roles["other"] = &sim.Role{Name: "other", Policies: []string{policy}}
		}, "also attached to other"},
		"a Deny": {func(s *sim.State) {
			s.Policies[policy].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Deny","Action":"vpc:CreateRouteEntries","Resource":"*"}]}`
		}, "A Deny statement forbids"},
		"a condition": {func(s *sim.State) {
			s.Policies[policy].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*",` +
				`"Condition":{"StringEquals":{"acs:SourceIp":"10.0.0.1"}}}]}`
		}, "This looks intentional"},
		"too long": {func(s *sim.State) {
			s.Policies[policy].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":["` + strings.Repeat("x", 6100) + `"],"Resource":"*"}]}`
		}, "RAM allows only 6144"},
		"no policy": {func(s *sim.State) { s.Roles["masters"].Policies = nil }, "no policy named k8sMasterRolePolicy-*"},
	} {
		t.Run(name, func(t *testing.T) {
			defer sc.Cloud.Edit(func(s *sim.State) { delete(s.Roles, "other") })
			defer dedicated(sc, document)
			sc.Cloud.Edit(tt.edit)
			got := sc.Wants(t, command.CodeWrong, "", "can't be added", append(apply, "--yes")...)
			if !strings.Contains(got.Err, tt.want) || got.Out != "" || strings.Count(got.Err, "\n") != 1 {
				t.Errorf("printed %q, said %q; want %q", got.Out, got.Err, tt.want)
			}
			if ask := gap(cli.CodeWarning).Ask; !strings.Contains(ask, tt.want) {
				t.Errorf("a look says %q; want %q", ask, tt.want)
			}
		})
	}

	sc.In = policy + "\n"
	sc.Wants(t, 0, "fixed", "To go on, type "+policy, apply...)
	ids, in := versions(sc)
	if len(ids) != 2 || in == "v1" {
		t.Fatalf("the versions are %v, the default is %s", ids, in)
	}
	if g := gap(0); len(g.Missing) != 0 {
		t.Errorf("still missing: %v", g.Missing)
	}
	sc.Wants(t, 0, "nothing", "", append(apply, "--yes")...)

	var cases []event.Record
	got := sc.Run(t.Context(), "ls", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &cases); err != nil || len(cases) != 1 || cases[0].Class != "ram-permission" || cases[0].Approved == nil ||
		cases[0].Service.Kind != "cluster" || cases[0].Service.Name != "c-cli" {
		t.Fatalf("the journal has %s %s, %v", got.Out, got.Err, err)
	}
	shows := sc.Wants(t, 0, "cluster c-cli  fixed", "", "show", cases[0].Case)
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
	if back := gap(cli.CodeWarning); !slices.Equal(back.Missing, shown.Missing) {
		t.Errorf("after the undo %v are missing, before %v were", back.Missing, shown.Missing)
	}

	// The release that runs, and five versions: the oldest that is not the default makes room.
	sc.Cloud.Edit(func(s *sim.State) {
		p := s.Policies[policy]
		p.Versions = nil
		for _, id := range []string{"v1", "v2", "v3", "v4", "v5"} {
			p.Versions = append(p.Versions, sim.PolicyVersion{ID: id, Default: id == "v1", Document: document})
		}
	})
	sc.Wants(t, 0, "in place of its old version", "", "ram", "gap", "--apply", "--yes", "--policy", apply[len(apply)-1])
	if ids, in := versions(sc); len(ids) != 5 || in == "v1" || !slices.Contains(ids, "v1") {
		t.Errorf("the versions are %v, the default is %s", ids, in)
	}

	sc.Cloud.Edit(func(s *sim.State) { s.Cluster.Type = "ManagedKubernetes" })
	sc.Wants(t, command.CodeWrong, "", "authorize them again in the ACK console", append(apply, "--yes")...)
}

// A cluster without a Service of type LoadBalancer has its gap closed, and taken back,
// too; a controller with an access key of its own has none.
func TestRAMGapOfCluster(t *testing.T) {
	t.Parallel()
	world := func() *sim.World {
		return &sim.World{
			Cluster: sim.Cluster{ID: "c-cli", Type: "Kubernetes", MasterRole: "masters", Addons: map[string]string{"cloud-controller-manager": "v2.12.1"}},
			Roles:   []sim.Role{{Name: "masters", Policies: []string{"k8sMasterRolePolicy-Ccm-1"}}},
			Policies: []sim.Policy{{Name: "k8sMasterRolePolicy-Ccm-1", Type: "Custom", Versions: []sim.PolicyVersion{
				{ID: "v1", Default: true, Document: `{"Version":"1","Statement":[{"Effect":"Allow","Action":["slb:*","nlb:*"],"Resource":"*"}]}`},
			}}},
		}
	}
	t.Run("no Service", func(t *testing.T) {
		t.Parallel()
		c, account := operator.API{User: "team"}.Against(t, world())
		sc := &operator.Testbed{Call: c, Cloud: account}
		server := nats.Start(t, embedded.Options{Token: "sesame"})
		sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
		sc.Wants(t, 0, "", "", "up", "--setup")
		sc.Wants(t, cli.CodeWarning, "ecs:DescribeInstances", "", "ram", "gap")
		sc.Wants(t, 0, "cluster c-cli  fixed", "", "ram", "gap", "--apply", "--yes", "--policy", operator.Write(t, "policy.yaml", "mode: fix\n"))
		sc.Wants(t, 0, "nothing", "", "ram", "gap")
		got := sc.Wants(t, 0, `"kind": "cluster"`, "", "ls", "-o", "json", "--service", "c-cli")
		var cases []event.Record
		if err := json.Unmarshal([]byte(got.Out), &cases); err != nil || len(cases) != 1 {
			t.Fatalf("%v: %s", err, got.Out)
		}
		sc.Wants(t, 0, "undone", "", "undo", cases[0].Case, "--apply")
		sc.Wants(t, cli.CodeWarning, "ecs:DescribeInstances", "", "ram", "gap")
	})
	t.Run("a pause holds it", func(t *testing.T) {
		t.Parallel()
		c, account := operator.API{User: "team"}.Against(t, world())
		sc := &operator.Testbed{Call: c, Cloud: account}
		server := nats.Start(t, embedded.Options{Token: "sesame"})
		sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
		sc.Wants(t, 0, "", "", "up", "--setup")
		sc.Wants(t, 0, "", "", "pause", "--by", "ann", "--why", "network change")
		sc.Wants(t, cli.CodeOpen, "Paused by ann", "", "ram", "gap", "--apply", "--yes", "--wait", "0s", "--policy", operator.Write(t, "policy.yaml", "mode: fix\n"))
		if ids, in := versions(sc); len(ids) != 1 || in != "v1" {
			t.Errorf("there are the versions %v, %s", ids, in)
		}
	})
	t.Run("an access key", func(t *testing.T) {
		t.Parallel()
		a := operator.API{Lists: map[string][]any{"/apis/apps/v1/namespaces/kube-system/daemonsets": {map[string]any{
			"metadata": map[string]any{"name": "cloud-controller-manager", "namespace": "kube-system"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "ccm", "image": "registry/ccm:v2.12.1", "env": []any{map[string]any{"name": "ACCESS_KEY_ID", "value": "LTAI-secret"}},
			}}}}},
		}}}}
		c, account := a.Against(t, world())
		sc := &operator.Testbed{Call: c, Cloud: account}
		for _, args := range [][]string{{"ram", "gap"}, {"ram", "gap", "--target", "v2.14.0", "-o", "json"}, {"ram", "gap", "--apply", "--yes"}} {
			got := sc.Wants(t, command.CodeWrong, "", "uses an access key of its own", args...)
			if got.Out != "" || strings.Contains(got.Err, "LTAI") || strings.Count(got.Err, "\n") != 1 {
				t.Errorf("%v: printed %q, said %q", args, got.Out, got.Err)
			}
		}
		if ids, in := versions(sc); len(ids) != 1 || in != "v1" {
			t.Errorf("there are the versions %v, %s", ids, in)
		}
	})
	t.Run("no role", func(t *testing.T) {
		t.Parallel()
		w := world()
		w.Cluster.MasterRole, w.Cluster.NoMasterRole = "", true
		c, account := operator.API{}.Against(t, w)
		sc := &operator.Testbed{Call: c, Cloud: account}
		sc.Wants(t, command.CodeWrong, "", "names no RAM role of its masters", "ram", "gap")
	})
	t.Run("a release that nobody knows", func(t *testing.T) {
		t.Parallel()
		c, account := operator.API{}.Against(t, world())
		sc := &operator.Testbed{Call: c, Cloud: account}
		sc.Wants(t, cli.CodeWarning, "is newer than "+ccm.Newest().String(), "", "ram", "gap", "--target", "v9.0.0")
		sc.Wants(t, command.CodeWrong, "", "is not a release of the controller, such as", "ram", "gap", "--target", "latest")
	})
}
