package root_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// A command that lacks permission, an address, or an object says so in one line, with the way out, and prints nothing else.
func TestLookingMistakes(t *testing.T) {
	t.Parallel()
	c, account := operator.Small(t)
	denied, _ := operator.API{Denied: true}.Against(t, &sim.World{Cluster: sim.Cluster{ID: "c1"}})
	few := account.Client("few", "ecs:*")
	for name, tt := range map[string]struct {
		operator.Call
		args string
		code int
		want string
	}{
		"no such Service to show":    {c, "lb show shop/nope", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such Service to examine": {c, "doctor shop/nope -o json", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such Service to fix": {c, "doctor --fix finalizers shop/nope", command.CodeWrong,
			"there is no Service shop/nope in the cluster: correct the name"},
		"no such namespace":              {c, "doctor -n nope -o yaml", command.CodeWrong, "the cluster does not have the namespace nope: correct the name"},
		"a fix without a journal":        {c, "doctor --fix finalizers --apply", command.CodeWrong, "name one with --nats"},
		"an unreadable policy":           {c, "doctor --policy nowhere.yaml", command.CodeWrong, "nowhere.yaml"},
		"a cluster that says no":         {denied, "lb ls", command.CodeFailed, `cannot list resource "services"`},
		"a cluster that says no to show": {denied, "lb show shop/web", command.CodeFailed, "shop/web"},
		"a key that nobody knows": {c.With(operator.KeyID, "LTAI-stranger"), "doctor", command.CodeWrong,
			"Alibaba Cloud refuses the access key: give another one in ALIBABA_CLOUD_ACCESS_KEY_ID"},
		"a wrong secret":       {c.With(operator.KeySecret, "wrong-secret"), "lb ls", command.CodeWrong, "Alibaba Cloud refuses the access key"},
		"a cloud that is away": {c.With("LBREMEDY_CLOUD_ENDPOINT", "127.0.0.1:1"), "doctor", command.CodeFailed, "which must be reachable from here"},
		"another cluster":      {c.With("LBREMEDY_CLUSTER", "c2"), "lb ls", command.CodeWrong, "correct --cluster or --region"},
		"no region":            {c.With("LBREMEDY_REGION", ""), "doctor", command.CodeWrong, "--region"},
		"no cluster":           {c.With("LBREMEDY_CLUSTER", ""), "lb ls", command.CodeWrong, "set --cluster or LBREMEDY_CLUSTER"},
		"an unknown form":      {c, "doctor -o xml", command.CodeWrong, "is not one of table, wide, json, yaml, jsonpath=EXPR or go-template=TEMPLATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.Run(t.Context(), strings.Fields(tt.args)...)
			if got.Code != tt.code || !strings.Contains(got.Err, tt.want) || got.Out != "" || strings.Count(got.Err, "\n") != 1 {
				t.Errorf("%s: code %d, wrote %q, said %q; want %d and %q", tt.args, got.Code, got.Out, got.Err, tt.code, tt.want)
			}
			for _, secret := range []string{c.Env[operator.KeySecret], few.Secret, "wrong-secret"} {
				if strings.Contains(got.Err, secret) {
					t.Errorf("%s: it says a secret: %q", tt.args, got.Err)
				}
			}
		})
	}

	got := denied.Run(t.Context(), "doctor")
	if got.Code != cli.CodeUnknown || strings.Count(got.Out, "cannot list resource") > 5 || !strings.Contains(got.Out, "annotations +28 ") ||
		!strings.Contains(got.Err, " 0 findings, ") {
		t.Errorf("a cluster that says no: %+v", got)
	}
	for _, call := range account.Calls() {
		if !strings.HasPrefix(call.Action, "Describe") && !strings.HasPrefix(call.Action, "List") && !strings.HasPrefix(call.Action, "Get") {
			t.Errorf("it called %s", call.Action)
		}
	}
}

// A terminal gets lines that fit, colours unless NO_COLOR is set, and progress on standard error; a script gets only data.
func TestLookingTerminal(t *testing.T) {
	t.Parallel()
	c, account := operator.Small(t)
	account.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Delay: 400 * time.Millisecond})
	run := func(args ...string) (string, string) {
		var out, errs bytes.Buffer
		p := c.Program(&out, &errs)
		p.Terminal = func(any) int { return 120 }
		root.Run(t.Context(), p, args)
		return out.String(), errs.String()
	}
	const escape = "\x1b"
	out, errs := run("doctor", "--checks", "lb-gone,deletion,listeners-missing")
	if !strings.Contains(out, escape) || !strings.Contains(errs, "reading ") {
		t.Errorf("printed %q, said %q", out, errs)
	}
	for _, args := range [][]string{{"doctor", "-o", "json"}, {"lb", "ls", "-o", "json"}, {"doctor", "checks", "-o", "json"}} {
		if out, _ := run(args...); !json.Valid([]byte(out)) || strings.Contains(out, escape) {
			t.Errorf("%v printed %q", args, out)
		}
	}
	c = c.With("NO_COLOR", "1")
	out, _ = run("doctor", "--severity", "info", "--checks", "lb-gone,deletion,listeners-missing")
	for line := range strings.Lines(out) {
		if strings.Contains(line, escape) || len(strings.TrimRight(line, " \n")) > 130 {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
	if out == "" {
		t.Error("nothing was found")
	}
}

// A row is one line and shows its finding; in a pipe, and with -o wide, nothing is cut.
func TestLookingNarrow(t *testing.T) {
	t.Parallel()
	c, _ := operator.Small(t)
	run := func(width int, args ...string) string {
		var out bytes.Buffer
		p := c.With("NO_COLOR", "1").Program(&out, io.Discard)
		p.Terminal = func(any) int { return width }
		root.Run(t.Context(), p, args)
		return out.String()
	}
	for _, tt := range []struct {
		args  []string
		tells string // what is shown about shop/lost-it
	}{
		{[]string{"doctor", "--severity", "info"}, "The load balancer"},
		{[]string{"lb", "ls"}, "gone"},
	} {
		whole := run(0, tt.args...)
		if strings.Contains(whole, "…") || strings.Contains(run(80, append(tt.args, "-o", "wide")...), "…") {
			t.Errorf("%v is cut in a pipe, or with -o wide: %s", tt.args, whole)
		}
		for _, width := range []int{72, 80, 120} {
			out := run(width, tt.args...)
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%v, at %d: a line of %d columns: %q", tt.args, width, n, line)
				}
			}
			if strings.Count(out, "\n") != strings.Count(whole, "\n") || width >= 80 && !strings.Contains(out, tt.tells) || !strings.Contains(out, "shop/l") {
				t.Errorf("%v, at %d: %s", tt.args, width, out)
			}
		}
	}
	if wide, narrow := run(0, "lb", "ls", "-o", "wide"), run(0, "lb", "ls"); !strings.Contains(wide, "CHARGE") || strings.Contains(narrow, "CHARGE") {
		t.Errorf("wide: %s, not wide: %s", wide, narrow)
	}
}

func TestLookingFlags(t *testing.T) {
	t.Parallel()
	c, _ := operator.Small(t)
	const own, name = "service.k8s.alibaba/loadbalancer-id=lb-own", "jsonpath={range [*]}{.name} {end}"
	for _, tt := range []struct {
		args      []string
		code      int
		out, errs string // all of standard output, part of standard error
	}{
		{[]string{"lb", "ls", "-o", name}, 0, "lent lost-it nowhere own untagged young ", ""},
		{[]string{"lb", "ls", "-A", "-o", name}, 0, "lent lost-it nowhere own untagged young ", ""},
		{[]string{"lb", "ls", "-l", own, "-o", name}, 0, "own ", ""},
		{[]string{"lb", "ls", "-l", "!service.k8s.alibaba/loadbalancer-id", "-n", "shop", "-o", name}, 0, "young ", ""},
		{[]string{"lb", "ls", "-l", "app=web"}, 0, "", "No Service of type LoadBalancer with --selector app=web."},
		{[]string{"lb", "ls", "--sort-by", "load balancer", "-o", name}, 0, "young lent lost-it nowhere own untagged ", ""},
		{[]string{"lb", "ls", "--sort-by", "STATE", "-o", name}, 0, "untagged lost-it nowhere lent own young ", ""},
		{[]string{"lb", "ls", "--sort-by", "colour"}, command.CodeWrong, "", "want address, backends, load balancer, service, state"},
		{[]string{"lb", "ls", "--sort-by", ""}, command.CodeWrong, "", "want address"},
		{[]string{"lb", "ls", "-l", "app in"}, command.CodeWrong, "", `"app in" for "-l, --selector"`},
		{[]string{"lb", "ls", "-l", ""}, command.CodeWrong, "", "--selector is empty"},
		{[]string{"lb", "ls", "-A", "-n", "shop"}, command.CodeWrong, "", "--all-namespaces contradicts --namespace shop"},
		{[]string{"doctor", "-A", "-n", "shop"}, command.CodeWrong, "", "--all-namespaces contradicts --namespace shop"},
		{[]string{"doctor", "-l", "app=web"}, command.CodeWrong, "", "no Service has the labels app=web"},
		{[]string{"doctor", "-l", own, "--checks", "finalizers", "-o", "jsonpath={range .findings[*]}{.about.name} {end}"}, cli.CodeCritical, "own ", ""},
		{[]string{"doctor", "--sort-by", "about", "--checks", "finalizers,lb-gone", "-o", "jsonpath={range .findings[*]}{.about.name}:{.check} {end}"},
			cli.CodeCritical, "lent:finalizers lost-it:finalizers lost-it:lb-gone nowhere:finalizers nowhere:lb-gone own:finalizers untagged:finalizers ", ""},
		{[]string{"doctor", "--fix", "finalizers", "-l", "app=web"}, command.CodeWrong, "", "no Service has the labels app=web"},
	} {
		got := c.Run(t.Context(), tt.args...)
		if got.Code != tt.code || got.Out != tt.out || !strings.Contains(got.Err, tt.errs) {
			t.Errorf("%q: code %d, %q, %q; want %d, %q and %q", tt.args, got.Code, got.Out, got.Err, tt.code, tt.out, tt.errs)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	c, _ := operator.Small(t)
	away := c.With("LBREMEDY_KUBECONFIG", "nowhere")
	for name, tt := range map[string]struct {
		operator.Call
		args  []string
		want  string
		never string
	}{
		"a check":               {c, []string{"doctor", "--checks", ""}, "room\tQuotas and room\n", "-\n"},
		"the next check":        {c, []string{"doctor", "--checks", "room,"}, "room,scale\tScale\n", "room,room"},
		"a check with a fix":    {c, []string{"doctor", "--fix", ""}, "finalizers\t", "room\t"},
		"the page of a check":   {c, []string{"doctor", "checks", ""}, "room\t", "-\n"},
		"no second page":        {c, []string{"doctor", "checks", "room", ""}, ":4\n", "scale"},
		"a namespace":           {c, []string{"doctor", "--namespace", ""}, "shop\n:4", "own"},
		"a namespace of lb":     {c, []string{"lb", "ls", "-n", ""}, "shop\n:4", "own"},
		"a Service":             {c, []string{"doctor", ""}, "shop/own\t203.0.113.9\n", "-\n"},
		"another Service":       {c, []string{"doctor", "shop/own", ""}, "shop/lent\t", "shop/own"},
		"a Service to show":     {c, []string{"lb", "show", ""}, "shop/own\t", "-\n"},
		"no second one":         {c, []string{"lb", "show", "shop/own", ""}, ":4\n", "shop/"},
		"nothing without a way": {away, []string{"doctor", ""}, ":4\n", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.Run(t.Context(), append([]string{"__complete"}, tt.args...)...)
			if got.Code != 0 || !strings.Contains(got.Out, tt.want) || strings.Contains(got.Out, tt.never) {
				t.Errorf("code %d: %q; want %q and no %q", got.Code, got.Out, tt.want, tt.never)
			}
		})
	}
}
