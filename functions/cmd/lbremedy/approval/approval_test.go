package approval_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestMain(m *testing.M) { operator.Main(m) }

const policy = "k8sMasterRolePolicy-Ccm-1"

func masters() *sim.World {
	return &sim.World{
		Cluster: sim.Cluster{ID: "c-cli", Type: "Kubernetes", MasterRole: "masters", Addons: map[string]string{"cloud-controller-manager": "v2.12.1"}},
		Roles:   []sim.Role{{Name: "masters", Policies: []string{policy}}},
		Policies: []sim.Policy{{Name: policy, Type: "Custom", Versions: []sim.PolicyVersion{
			{ID: "v1", Default: true, Document: `{"Version":"1","Statement":[{"Effect":"Allow","Action":["slb:*","nlb:*"],"Resource":"*"}]}`},
		}}},
	}
}

// sharing returns records of two Services that another case's policy version fixes: one found it in place, the other needed only a resync.
func sharing(made event.Record) []event.Record {
	dns, mail := made, made
	dns.Service = event.Service{Namespace: "shop", Name: "dns", UID: "44444444-4444-4444-4444-444444444444"}
	mail.Service = event.Service{Namespace: "shop", Name: "mail", UID: "55555555-5555-5555-5555-555555555555"}
	touch := event.StepRecord{Kind: "resync", Text: say.Literal("trigger a resync"), Risk: "low", ResyncOnly: true, Step: json.RawMessage(`{}`), Ended: made.At}
	found := made.Steps[0]
	found.Found, found.Calls = true, nil
	dns.Case, dns.Steps, dns.Next = "44444444-20260102T150405", []event.StepRecord{found, touch}, 2
	mail.Case, mail.Steps, mail.Next = "55555555-20260102T150405", []event.StepRecord{touch}, 1
	return []event.Record{dns, mail}
}

// An undo affects other cases that rely on the fix only on a person's word. They then report that their fix is gone, and the undo remains visible.
func TestUndoShared(t *testing.T) {
	t.Parallel()
	c, account := operator.API{User: "team"}.Against(t, masters())
	sc := &operator.Testbed{Call: c, Cloud: account}
	server := nats.Start(t, embedded.Options{Token: "sesame"})
	sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
	sc.Wants(t, 0, "", "", "up", "--setup")
	sc.Wants(t, 0, "cluster c-cli  fixed", "", "doctor", "--fix", "permissions", "--apply", "--by", "bob",
		"--policy", operator.Write(t, "policy.yaml", "mode: fix\nclasses: {ram-permission: {risk: medium}}\n"))
	var cases []event.Record
	if err := json.Unmarshal([]byte(sc.Run(t.Context(), "ls", "-o", "json").Out), &cases); err != nil || len(cases) != 1 {
		t.Fatalf("%v: %+v", err, cases)
	}
	made := cases[0]
	if c := made.Steps[0].Calls; len(c) != 1 || c[0].Action != "ram:CreatePolicyVersion" || c[0].Resource != "policy/"+policy || c[0].Request == "" {
		t.Errorf("the calls are %+v", c)
	}
	if made.Person == nil || made.Person.Name != "bob" || made.Person.Host == "" {
		t.Errorf("by %v", made.Person)
	}
	s := nats.Connect(t, stream.Config{URL: server.URL(), Token: "sesame"})
	others := sharing(made)
	if err := operator.Seed(t.Context(), s, others...); err != nil {
		t.Fatal(err)
	}

	got := sc.Wants(t, 0, "make version v1 of the RAM policy", "Nothing was written; --apply --shared undoes the steps.", "undo", made.Case)
	for _, r := range others {
		if !strings.Contains(got.Err, r.Case+"  "+r.Service.String()) {
			t.Errorf("%s is not listed: %s", r.Case, got.Err)
		}
		sc.Wants(t, command.CodeWrong, "", "wrote nothing but a resync, so there is nothing to undo", "undo", r.Case) // it found the version
	}
	got = sc.Wants(t, command.CodeWrong, "", "not confirmed: type "+made.Case+", or give --shared", "undo", made.Case, "--apply")
	if !strings.Contains(got.Err, "Other cases are fixed by the same") || inForce(sc) == "v1" {
		t.Fatalf("without a word it said %s, and %s is in force", got.Err, inForce(sc))
	}
	sc.Wants(t, 0, "fixed", "", "ls", "--result", "fixed")
	// At a terminal, --shared alone doesn't suffice: the person sees the steps and is asked.
	const back = "The failure that was fixed comes back, and its plan then needs approval."
	sc.Wants(t, 0, "", back, "undo", made.Case)
	sc.Types = true
	for _, typed := range []string{"", "no\n", "y\n", made.Case + "\n"} {
		sc.In = typed
		got = sc.Wants(t, command.CodeWrong, "", "To go on, type yes: ", "undo", made.Case, "--apply", "--shared")
		if !strings.Contains(got.Err, "make version v1 of the RAM policy") || !strings.Contains(got.Err, back+"\nOther cases are fixed") || inForce(sc) == "v1" {
			t.Fatalf("after %q it said %s, and %s is in force", typed, got.Err, inForce(sc))
		}
	}
	sc.In = "yes\n"
	sc.Wants(t, command.CodeWrong, "", `"yes" is not `+made.Case, "undo", made.Case, "--apply")
	sc.In = made.Case + "\n"
	sc.Wants(t, 0, "undone", "To go on, type "+made.Case, "undo", made.Case, "--apply", "--by", "ann")
	sc.Types = false
	if inForce(sc) != "v1" {
		t.Fatalf("after the undo %s is in force", inForce(sc))
	}

	shows := sc.Wants(t, 0, "Undone     1 of 1 steps done", "", "show", made.Case, "--history")
	for _, want := range []string{
		"What was undone: attempt 1, fixed", "Plan       medium risk, 1 of 1 steps done", "1. add ", "called by ann (team on ",
		"called by bob (team on ",
		"step 1 of 1 applied: add ", "undo of 1 step begun",
	} {
		if !strings.Contains(shows.Out, want) {
			t.Errorf("show lacks %q: %s", want, shows.Out)
		}
	}
	writes(t, sc, made)
}

func inForce(sc *operator.Testbed) string {
	versions := sc.Cloud.Snapshot().Policies[0].Versions
	return versions[slices.IndexFunc(versions, func(v sim.PolicyVersion) bool { return v.Default })].ID
}

func writes(t *testing.T, sc *operator.Testbed, made event.Record) {
	t.Helper()
	var list []struct {
		event.Call
		Case   string
		Person event.Person
	}
	got := sc.Wants(t, 0, "", "", "ls", "--writes", "--since", "1h", "-o", "json", "--class", made.Class, "--case", made.Case)
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v: %s", err, got.Out)
	}
	for i, want := range []struct{ action, resource, by string }{
		{"ram:SetDefaultPolicyVersion", "policy/" + policy + "/v1", "ann"}, {"ram:CreatePolicyVersion", "policy/" + policy, "bob"},
	} {
		w := list[i]
		if w.Action != want.action || w.Resource != want.resource || w.Person.Name != want.by || w.Request == "" || w.Case != made.Case || w.At.IsZero() {
			t.Errorf("write %d is %+v, want %+v", i, w, want)
		}
	}
	table := sc.Wants(t, 0, "TIME ", "", "ls", "--writes", "-o", "wide")
	if !strings.Contains(table.Out, list[0].Request) || strings.Contains(table.Out, "shop/dns  ram:") {
		t.Errorf("ls --writes prints %s", table.Out)
	}
	sc.Wants(t, 0, "[]\n", "No write with --service none", "ls", "--writes", "--service", "none", "-o", "json")
	sc.Wants(t, command.CodeWrong, "", "--writes lists writes and not cases", "ls", "--writes", "--open")
}

// A Service name selects its case if the command has only one; otherwise its cases are listed.
func TestService(t *testing.T) {
	c, s := operator.Embed(t)
	records := operator.Journalled()
	fixed, asked := records[2], records[3]
	twice := fixed
	twice.Class, twice.Case = "zone-shortage", "22222222-20260102T150500"
	waits := fixed
	waits.Service = event.Service{Namespace: "shop", Name: "api", UID: operator.UID(1)}
	waits.Case, waits.Result, waits.Next, waits.Written = "44444444-20260102T150405", event.Asked, 0, time.Time{}
	if err := operator.Seed(t.Context(), s, fixed, asked, waits); err != nil {
		t.Fatal(err)
	}
	says := func(code int, want string, args ...string) {
		t.Helper()
		if got := c.Run(t.Context(), args...); got.Code != code || !strings.Contains(got.Out+got.Err, want) {
			t.Errorf("%v: %+v; want %d, %q", args, got, code, want)
		}
	}
	says(command.CodeWrong, "no region is named", "undo", "shop/web") // the one case, whose cluster is read next
	says(command.CodeWrong, "no case of pay/api has steps to undo. Its cases are:", "undo", "pay/api")
	says(command.CodeWrong, asked.Case, "undo", "pay/api")
	says(command.CodeWrong, "no case of shop/web waits for an approval", "approve", "shop/web")
	says(command.CodeWrong, `no case of a Service "shop/none"`, "undo", "shop/none")
	says(0, "shop/web\tvswitch-ip-exhausted fixed", "__complete", "undo", "")
	says(0, waits.Case+"\tshop/api vswitch-ip-exhausted needs-approval\nshop/api\tvswitch-ip-exhausted needs-approval\n", "__complete", "approve", "")

	header, data := operator.Failure(t, waits.Class, waits.Service.UID, "7")
	subject := event.FailedSubject("c1", waits.Class, waits.Service.UID)
	if _, _, err := s.PublishNewer(t.Context(), subject, "m", header, data, func(stream.Message) bool { return true }); err != nil {
		t.Fatal(err)
	}
	says(0, `"service": "api"`, "approve", "shop/api", "--print", "--user", "ann", "-o", "json")
	says(0, `"host": "`, "pause", "--all-clusters", "--by", "ann", "-o", "json")

	if err := operator.Seed(t.Context(), s, twice); err != nil {
		t.Fatal(err)
	}
	says(command.CodeWrong, "2 cases of shop/web: each has steps to undo. Name one by its ID:", "undo", "shop/web")
	says(command.CodeWrong, twice.Case, "undo", "shop/web")
}

// Two classes may have a case of the same second: the ID selects one, or needs the class.
func TestSameID(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	fixed := operator.Journalled()[2]
	busy := fixed
	busy.Class, busy.Result, busy.Next, busy.Written = "busy", event.Asked, 0, time.Time{}
	says := func(code int, want string, args ...string) {
		t.Helper()
		if got := c.Run(t.Context(), args...); got.Code != code || !strings.Contains(got.Out+got.Err, want) {
			t.Errorf("%v: %+v; want %d, %q", args, got, code, want)
		}
	}
	if err := operator.Seed(t.Context(), s, fixed, busy); err != nil {
		t.Fatal(err)
	}
	says(command.CodeWrong, "no region is named", "undo", fixed.Case) // the one case, whose cluster is read next
	says(command.CodeWrong, "the plan of case "+busy.Case+" cannot be applied: NATS has deleted its failure", "approve", busy.Case)
	says(0, "of class vswitch-ip-exhausted in", "show", fixed.Case+"/vswitch-ip-exhausted")
	says(0, "of class busy in", "show", fixed.Case+"/busy")
	says(command.CodeWrong, `holds no case "`+fixed.Case+`/throttling"`, "show", fixed.Case+"/throttling")

	busy.Result, busy.Next, busy.Written = fixed.Result, fixed.Next, fixed.Written
	if err := operator.Seed(t.Context(), s, busy); err != nil {
		t.Fatal(err)
	}
	says(command.CodeWrong, "2 cases of "+fixed.Case+": each has steps to undo. Name one by its ID:", "undo", fixed.Case)
	says(command.CodeWrong, fixed.Case+"/vswitch-ip-exhausted", "undo", fixed.Case)
	says(command.CodeWrong, fixed.Case+"/busy", "undo", "shop/web")
	says(command.CodeWrong, "no region is named", "undo", fixed.Case+"/busy")
	says(command.CodeWrong, "no case of "+fixed.Case+" waits for an approval", "reject", fixed.Case)
}

// An empty or partial name matches nothing, not even the only case.
func TestNoName(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	fixed := operator.Journalled()[2]
	waits := fixed
	waits.Service = event.Service{Namespace: "other", Name: "api", UID: operator.UID(1)}
	waits.Case, waits.Result, waits.Next, waits.Written = "44444444-20260102T150405", event.Asked, 0, time.Time{}
	if err := operator.Seed(t.Context(), s, fixed, waits); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "/", "other/", "/api", "other/api/", "shop/"} {
		for _, args := range [][]string{{"approve"}, {"approve", "-n", ""}, {"reject"}, {"undo", "--apply"}, {"show"}} {
			if got := c.Run(t.Context(), append(args, name)...); got.Code != command.CodeWrong || !strings.Contains(got.Err, strconv.Quote(name)+" is not a ") {
				t.Errorf("%q of %q: %+v", args, name, got)
			}
		}
		for _, args := range []string{"ls", "replay --apply"} {
			want := strconv.Quote(name) + " is not a Service"
			if name == "" {
				want = "--service is empty: leave it out to mean all"
			}
			got := c.Run(t.Context(), append(strings.Fields(args), "--service", name)...)
			if got.Code != command.CodeWrong || !strings.Contains(got.Err, want) {
				t.Errorf("%s of %q: %+v", args, name, got)
			}
		}
	}
	for _, args := range []string{"ls -n", "ls --result", "replay --apply --class", "doctor --checks", "dead drop --reason"} {
		got := c.Run(t.Context(), append(strings.Fields(args), "")...)
		if got.Code != command.CodeWrong || !strings.Contains(got.Err, " is empty: leave it out to mean all") {
			t.Errorf("%s of nothing: %+v", args, got)
		}
	}
	if got := c.Run(t.Context(), "approve", "-n", "other", ""); got.Code != command.CodeWrong || !strings.Contains(got.Err, `"" is not a case`) {
		t.Errorf("a namespace alone: %+v", got)
	}
}
