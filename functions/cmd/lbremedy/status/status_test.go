package status_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/status"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	named := func(name string) any { return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	c, _ := operator.API{Lists: map[string][]any{"/api/v1/namespaces": {named("pay"), named("quiet")}}}.
		Against(t, &sim.World{Cluster: sim.Cluster{ID: "c1"}})
	s := c.Embed(t)
	run := func(code int, want ...string) string {
		t.Helper()
		got := c.Run(t.Context(), "status")
		for _, text := range want {
			if !strings.Contains(got.Out, text) {
				t.Errorf("it does not say %q", text)
			}
		}
		if got.Code != code || got.Err != "" || t.Failed() {
			t.Fatalf("code %d, want %d: %s%s", got.Code, code, got.Out, got.Err)
		}
		fits(t, got.Out)
		return got.Out
	}
	tell := func(at time.Time) {
		t.Helper()
		if err := (ledger.Page{Exporter: "x", Since: at, At: at, Last: at}).Save(t.Context(), s, "c1"); err != nil {
			t.Fatal(err)
		}
	}

	if got := c.Run(t.Context(), "status"); got.Code != command.CodeFailed || strings.Contains(got.Out, "All is well") ||
		!strings.Contains(got.Out, "Cases       unknown: ") {
		t.Errorf("before the setup: %+v", got)
	}
	c.Run(t.Context(), "up", "--setup")
	run(command.CodeFailed, "lbremedy    The exporter is silent: failures are not seen.\n", "Exporter    silent for more than an hour\n")

	tell(time.Now())
	out := run(0)
	want := `lbremedy    All is well.
Version     dev, controller VERSION
Cluster     c1 in cn-hangzhou
NATS        connected to nats://ADDRESS
Exporter    alive, last reported AGE ago
Policy      observe: plans are shown and never applied.
Pauses      None.
Breakers    None is open.
Queue       0 queued, 0 not delivered
Cases       None is open.
Last 24 h   0 fixed, 0 synced (traffic not proven), 0 recovered, 0 failed
`
	if diff := cmp.Diff(want, masked(out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	if got := c.With("LBREMEDY_CLUSTER", "").Run(t.Context(), "status"); got.Code != 0 || !strings.Contains(got.Out, "Cluster     c1 in ") {
		t.Errorf("without a name, of the only cluster: %+v", got)
	}

	records := operator.Lately()
	add := func(class string, i int, change func(*event.Record)) {
		r := records[len(records)-1]
		r.Class, r.Service.UID, r.Case = class, operator.UID(i), operator.UID(i)[:8]+fmt.Sprintf("-2026010%dT150405", i)
		r.Finding, r.Ask = nil, nil
		change(&r)
		records = append(records, r)
	}
	add("tag-missing", 1, func(r *event.Record) {
		r.Digest, r.Steps = strings.Repeat("0", 32), []event.StepRecord{{Kind: "tag", Text: say.Literal("tag it"), Step: json.RawMessage(`{}`)}}
	})
	add("tag-missing", 2, func(r *event.Record) { r.Result = event.Planned })
	add("tag-missing", 3, func(r *event.Record) { r.Result = event.Waiting })
	add("tag-missing", 4, func(r *event.Record) { r.Result = event.Unsettled })
	add("tag-missing", 5, func(r *event.Record) { r.Result = event.Failed })
	add("tag-missing", 6, func(r *event.Record) { r.Result = event.Synced })
	add("tag-missing", 7, func(r *event.Record) { r.Phase, r.Result = event.Intent, "" })
	add("tag-missing", 8, func(r *event.Record) { r.Result, r.Cluster = event.Failed, "c2" })
	if err := operator.Seed(t.Context(), s, records...); err != nil {
		t.Fatal(err)
	}
	out = run(cli.CodeOpen, "lbremedy    Something waits for a person.\n")
	want = `Cases       1 need approval: lbremedy ls --result needs-approval
            2 need action: lbremedy ls --result needs-action,failed
            1 planned and only observed: lbremedy ls --result planned
            2 waiting: lbremedy ls --result waiting,unsettled
            1 in progress: lbremedy ls --watch
Last 24 h   1 fixed, 1 synced (traffic not proven), 0 recovered, 1 failed
`
	if got := out[strings.Index(out, "Cases "):]; got != want {
		t.Errorf("-want +got:\n%s", cmp.Diff(want, got))
	}

	if got := c.Run(t.Context(), "status", "-n", "nowhere"); got.Code != command.CodeWrong || got.Out != "" ||
		!strings.Contains(got.Err, "the cluster does not have the namespace nowhere") {
		t.Errorf("of a namespace that is not there: %+v", got)
	}
	lonely := c.With("LBREMEDY_KUBECONFIG", "nowhere")
	if got := lonely.Run(t.Context(), "status", "-n", "quiet"); got.Code != command.CodeFailed ||
		!strings.Contains(got.Out, "Cases       unknown: whether the cluster has the namespace quiet: ") {
		t.Errorf("of a namespace without cases, and no cluster to ask: %+v", got)
	}
	if got := lonely.Run(t.Context(), "status", "-n", "pay"); got.Code != cli.CodeOpen || !strings.Contains(got.Out, "Cases       1 need approval: ") {
		t.Errorf("of a namespace with cases, and no cluster to ask: %+v", got)
	}
	elsewhere := c.Run(t.Context(), "status", "-n", "quiet")
	if !strings.Contains(elsewhere.Out, "Cases       None is open.\nLast 24 h   0 fixed, ") || elsewhere.Code != 0 {
		t.Errorf("of a namespace without cases: %+v", elsewhere)
	}
	if got := c.Run(t.Context(), "status", "-n", "pay"); !strings.Contains(got.Out, ": lbremedy ls --result needs-approval -n pay\n") {
		t.Errorf("of the namespace with all cases: %+v", got)
	}

	operator.PutInForce(t, s, "c1", "mode: fix\nrisk: medium\nclasses: {tag-missing: {risk: high}}\nrules: [{namespaces: [prod], mode: observe}]\n"+
		"freezes: [{name: "+strings.Repeat("sale ", 20)+", from: 2020-01-01T00:00:00Z, until: 2100-01-01T00:00:00Z}]\n")
	for _, args := range [][]string{
		{"pause", "--all-clusters", "--by", "ann", "--why", strings.Repeat("network change ", 20)}, {"pause", "--by", "bob"},
		{"pause", "--by", "eve", "--cluster", "c2"},
	} {
		if got := c.Run(t.Context(), args...); got.Code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	for i, class := range []string{"address-type-immutable", "quota", "busy", "credentials"} {
		if _, err := control.RecordFailedFix(t.Context(), s, "c1", class, "test.1", 1, say.F("It is a test.")); err != nil {
			t.Fatal(err)
		}
		operator.Bury(t, s, class, operator.UID(20+i), "7", "no reason")
	}
	places := func(class string, n int) {
		for i := range n {
			if _, err := control.Spend(t.Context(), s, false, "c1", class, operator.UID(100+i), 1000, 1000); err != nil {
				t.Fatal(err)
			}
		}
	}
	places("tag-missing", 40)
	places("backend-quota", 3)
	out = run(cli.CodeOpen, "Policy      fix: plans up to medium risk are applied; with rules of their own\n            for 1 class; rules", "Freeze      ",
		"Budgets     tag-missing is spent until ", "            Others: 1. To write earlier, raise the budget in the policy file.\n",
		"            To end the pause: lbremedy resume\n",
		"Pauses      All clusters: Paused by ann", "            Paused by bob",
		"Breakers    address-type-immutable is stopped:\n            lbremedy breaker close address-type-immutable --cluster c1\n",
		"            and 3 more: lbremedy breaker ls\n", "Queue       0 queued, 0 not delivered, 4 dead letters: lbremedy dead ls\n")
	if strings.Contains(out, "eve") {
		t.Errorf("it shows the pause of another cluster: %s", out)
	}
	got := c.Run(t.Context(), "status", "-o", "json")
	var st status.Status
	if err := json.Unmarshal([]byte(got.Out), &st); err != nil || got.Code != cli.CodeOpen {
		t.Fatalf("%v: %+v", err, got)
	}
	if st.Verdict != status.Waits || st.Mode != "fix" || len(st.Pauses) != 2 || len(st.Breakers) != 4 ||
		len(st.Budgets) != 2 || st.Budgets[0].Class != "tag-missing" || !st.Budgets[0].Until.After(time.Now()) ||
		st.Cases.NeedsApproval != 1 || st.Cases.NeedsAction != 2 || st.Backlog.Dead != 4 || !st.Exporter.Alive || len(st.Unknown) != 0 {
		t.Errorf("in JSON: %+v", st)
	}

	tell(time.Now().Add(-10 * time.Minute))
	run(command.CodeFailed, "lbremedy    The exporter is silent", "Exporter    silent for 10m\n")
	tell(time.Now())

	alone := c
	c = alone.With("LBREMEDY_KUBECONFIG", "nowhere")
	run(cli.CodeOpen, "controller unknown\n")
	c = alone.With("LBREMEDY_CLUSTER", "")
	if got := c.Run(t.Context(), "status"); got.Code != command.CodeWrong || !strings.Contains(got.Err, "several clusters, c1, c2: name one with --cluster") {
		t.Errorf("with two clusters: %+v", got)
	}
}

func TestStatusWithoutNATS(t *testing.T) {
	t.Parallel()
	c := operator.Call{Env: operator.Home(t)}
	for _, args := range [][]string{{"status"}, {"status", "--cluster", "c1", "--nats", "nats://me:s3cret@127.0.0.1:1"}} {
		got := c.Run(t.Context(), args...)
		fits(t, got.Out)
		if got.Code != command.CodeFailed || !strings.Contains(got.Out, "lbremedy    NATS cannot be reached.\n") || strings.Contains(got.Out, "s3cret") {
			t.Errorf("%v: %+v", args, got)
		}
		if !strings.Contains(got.Out, "\nNATS        NATS is not configured: start ") && !strings.Contains(got.Out, "no NATS server answers there") {
			t.Errorf("%v: it does not say why:\n%s", args, got.Out)
		}
		for _, name := range []string{"Exporter", "Policy", "Pauses", "Breakers", "Budgets", "Queue", "Cases"} {
			if !strings.Contains(got.Out, fmt.Sprintf("\n%-12sunknown\n", name)) {
				t.Errorf("%v: %s is not unknown:\n%s", args, name, got.Out)
			}
		}
	}
	if got := c.Run(t.Context(), "status", "--nats-creds", "nowhere", "--nats", "nats://127.0.0.1:1"); got.Code != command.CodeWrong || got.Out != "" {
		t.Errorf("with credentials that are not there: %+v", got)
	}
}

// fits allows at most 24 lines of at most 80 columns.
func fits(t *testing.T, text string) {
	t.Helper()
	if n := strings.Count(text, "\n"); n > 24 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func masked(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		for begin, end := range map[string]string{
			"Version     dev, controller ": "VERSION\n", "NATS        connected to nats://": "ADDRESS\n", "Exporter    alive, last reported ": "AGE ago\n",
		} {
			if strings.HasPrefix(line, begin) {
				line = begin + end
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}
