package doctor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// An unknown beside a plan shows in the exit code.
func TestFixUnknown(t *testing.T) {
	t.Parallel()
	w := masters()
	w.Policies[0].Versions[0].Document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":"slb:*","Resource":"*"}]}`
	c, _ := operator.API{User: "team"}.Against(t, w)
	s := c.Embed(t)
	if got := c.Run(t.Context(), "up", "--setup"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	if err := (policy.InForce{Wrong: "policy.yaml: it is empty", Source: "policy.yaml"}).Put(t.Context(), s, w.Cluster.ID); err != nil {
		t.Fatal(err)
	}
	got := c.Run(t.Context(), "doctor", "--fix", "permissions")
	if got.Code != cli.CodeUnknown || !strings.Contains(got.Out, ramPolicy) || !strings.Contains(got.Err, "could not determine") {
		t.Errorf("code %d: %s %s", got.Code, got.Out, got.Err)
	}
}

// Without a cluster the given policy is known, and only what needs a cluster is left open.
func TestDoctorFilePolicy(t *testing.T) {
	t.Parallel()
	c := operator.Call{In: "kind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer, ports: [{port: 80, nodePort: 32768}]}\n", Env: operator.Home(t)}
	args := []string{"doctor", "-f", "-", "--checks", "node-ports", "-o", "json", "--policy"}
	for text, want := range map[string]int{"mode: observe\n": cli.CodeWarning, "doctor: {localPorts: 40000-60999}\n": 0} {
		if got := c.Run(t.Context(), append(args, operator.Write(t, "policy.yaml", text))...); got.Code != want {
			t.Errorf("with %q: %+v, want %d", text, got, want)
		}
	}
	if got := c.Run(t.Context(), append(args, "nowhere.yaml")...); got.Code != command.CodeWrong || !strings.Contains(got.Err, "nowhere.yaml") {
		t.Errorf("without the file: %+v", got)
	}
}

// If the policy in force is unknown, so is what it wants protected. The policy in a file is known.
func TestUnknownPolicy(t *testing.T) {
	t.Parallel()
	account := func() operator.Call {
		c, _ := operator.API{Lists: map[string][]any{"/api/v1/services": {operator.ServiceOn("web", "", "")}}}.
			Against(t, &sim.World{Cluster: sim.Cluster{ID: "c1"}})
		return c
	}
	ended := account()
	if err := os.WriteFile(filepath.Join(ended.Env["LBREMEDY_STATE_DIR"], "nats.json"), []byte(`{"url":"nats://127.0.0.1:1","token":"t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	unusable := account()
	s := unusable.Embed(t)
	if got := unusable.Run(t.Context(), "up", "--setup"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	if err := (policy.InForce{Wrong: "policy.yaml: it is empty", Source: "policy.yaml"}).Put(t.Context(), s, "c1"); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		call operator.Call
		why  string
	}{"up has ended": {ended, "does not run on the state directory"}, "an unusable policy": {unusable, "policy.yaml: it is empty"}} {
		args := []string{"doctor", "--checks", "lb-deletion-protection", "-o", "json"}
		got := tt.call.Run(t.Context(), args...)
		var r doctor.Result
		if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
			t.Fatalf("%s: %v: %s", name, err, got.Err)
		}
		if got.Code != cli.CodeUnknown || !slices.ContainsFunc(r.Unknown, func(u doctor.Unknown) bool { return strings.Contains(u.Why.String(), tt.why) }) {
			t.Errorf("%s: code %d: %s %s", name, got.Code, got.Out, got.Err)
		}
		if got := tt.call.Run(t.Context(), append(args, "--policy", operator.Write(t, "policy.yaml", "mode: observe\n"))...); got.Code != 0 {
			t.Errorf("%s, with a file: code %d: %s %s", name, got.Code, got.Out, got.Err)
		}
	}
}
