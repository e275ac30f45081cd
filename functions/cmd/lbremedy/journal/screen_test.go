package journal_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

func standing() []event.Record {
	record := func(i int, class, name string, change func(*event.Record)) event.Record {
		r := operator.Journalled()[2]
		uid := fmt.Sprintf("a%07d-0000-4000-8000-000000000000", i)
		r.Case, r.Class, r.Service = uid[:8]+"-20260102T150405", class, event.Service{Namespace: "shop", Name: name, UID: uid}
		r.Next, r.Written, r.Attempt, r.Attempts, r.Undoing = 0, time.Time{}, 0, nil, false
		change(&r)
		return r
	}
	result := func(result event.Result) func(*event.Record) {
		return func(r *event.Record) { r.Result, r.Rule = result, say.Literal("The policy says so.") }
	}
	return []event.Record{
		record(1, "vswitch-ip-exhausted", "planned", result(event.Planned)),
		record(2, "vswitch-ip-exhausted", "a-name-that-is-longer-than-others-and-more", func(r *event.Record) {
			result(event.Asked)(r)
			// It failed repeatedly, and each run answered the newest failure.
			r.EventTime, r.At = r.EventTime.Add(2*time.Hour), r.At.Add(2*time.Hour)
		}),
		record(3, "ram-permission", "act", func(r *event.Record) {
			result(event.Asked)(r)
			r.Steps, r.Digest, r.Ask = nil, "", say.Literal("Attach the policy.")
		}),
		record(4, "throttling", "held", func(r *event.Record) { result(event.Waiting)(r); r.Held = event.HeldByPause }),
		record(5, "throttling", "later", func(r *event.Record) { result(event.Waiting)(r); r.Wait = 90 * time.Second }),
		record(6, "sync-not-proven", "unproven", func(r *event.Record) { result(event.Unsettled)(r); r.Wait = 5 * time.Minute }),
		record(7, "busy", "writing", func(r *event.Record) { r.Phase, r.Result = event.Step, "" }),
	}
}

// screen runs a command eight hours after the failures, and compares its output with a file.
func screen(t *testing.T, c operator.Call, file string, width int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	p := c.With("NO_COLOR", "1").Program(&out, &errs)
	p.Now = func() time.Time { return operator.Began.Add(8 * time.Hour) }
	p.Terminal = func(of any) int {
		if of == io.Writer(&out) {
			return width
		}
		return 0
	}
	if code := root.Run(t.Context(), p, args); code != 0 {
		t.Fatalf("%v: code %d, %s", args, code, errs.String())
	}
	if file == "" {
		return out.String()
	}
	golden := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%v prints something else; go test -update takes it over: %s", args, diff)
	}
	return out.String()
}

// The list fits the terminal, with a finding in each line, and is complete in a pipe and in wide form. Ages count from the first failure.
func TestScreens(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, append(standing(), operator.Journalled()...)...); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--all"}} {
		if out := screen(t, c, "", 0, args...); strings.Contains(out, "…") {
			t.Errorf("%v is cut in a pipe: %s", args, out)
		}
		for line := range strings.Lines(screen(t, c, "", 80, args...)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 || !strings.Contains(line, "FINDING") && !strings.Contains(line, "The ") {
				t.Errorf("%v: a line of %d columns: %q", args, n, line)
			}
		}
	}
	list := screen(t, c, "ls.txt", 0, "ls")
	screen(t, c, "ls-80.txt", 80, "ls")
	screen(t, c, "ls-120.txt", 120, "ls")
	wide := screen(t, c, "ls-wide.txt", 80, "ls", "-o", "wide")
	for _, r := range standing() {
		if strings.Contains(list, r.Case) || !strings.Contains(wide, r.Case+"   "+r.Service.String()) || !strings.Contains(list, r.Case[:8]+" ") {
			t.Errorf("%s is not short in\n%s or not whole in\n%s", r.Case, list, wide)
		}
	}
	// Every command accepts the listed IDs, even of cases that differ only in time or class.
	other := standing()[2]
	other.Service, other.Case, other.Class = operator.Journalled()[2].Service, "22222222-20260102T150406", "busy"
	if err := operator.Seed(t.Context(), s, other); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"ls --service shop/web": 2, "ls --all --service shop/web": 3} {
		list := screen(t, c, "", 0, strings.Fields(args)...)
		ids := regexp.MustCompile(`(?m)^22222222-\S*`).FindAllString(list, -1)
		if len(ids) != want {
			t.Errorf("%s: want %d cases with long IDs: %s", args, want, list)
		}
		for _, id := range ids {
			if got := c.Run(t.Context(), "undo", id); strings.Contains(got.Err, "begin with") {
				t.Errorf("%s of %s means several cases: %s", id, args, got.Err)
			}
		}
	}
	if got := c.Run(t.Context(), "undo", "22222222"); got.Code != command.CodeWrong || !strings.Contains(got.Err, "2 cases begin with 22222222") {
		t.Errorf("what means two classes: %+v", got)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, standing()...); err != nil {
		t.Fatal(err)
	}
	for _, r := range standing() {
		want := map[string]string{
			"planned":  "lbremedy run shop/planned --policy FILE --apply",
			"act":      "lbremedy plan shop/act",
			"held":     "lbremedy resume",
			"later":    "Wait: retried at 2026-01-02 15:05:39 UTC",
			"unproven": "Wait: retried at 2026-01-02 15:09:09 UTC",
			"writing":  "",
		}[r.Service.Name]
		if r.Digest != "" && r.Result == event.Asked {
			want = "lbremedy approve " + r.Case
		}
		shown := screen(t, c, "", 200, "show", r.Case)
		step := screen(t, c, "", 0, "show", r.Case, "-o", "jsonpath={.nextStep}")
		if (want == "") != (step == "") || !strings.Contains(step, want) || strings.Contains(shown, "Next ") != (want != "") || !strings.Contains(shown, want) {
			t.Errorf("%s: want %q, got %q in\n%s", r.Service.Name, want, step, shown)
		}
	}
	screen(t, c, "show-approval.txt", 80, "show", standing()[1].Case)
}

func TestNextOfFindings(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	records := standing()[:3]
	for i := range records {
		records[i].Class = "doctor-finalizers"
	}
	records[2].Service = event.Service{Kind: "cluster", Name: "c1", UID: records[2].Service.UID}
	byHand := records[2]
	byHand.Class, byHand.Case = "ram-permission", byHand.Case[:9]+"20260102T150406"
	node := byHand
	byHand.Message = journal.ByPerson + "the RAM actions that the controller lacks."
	node.Class, node.Case, node.Ask = "route-quota", byHand.Case[:9]+"20260102T150407", say.Literal("Free entries: aliyun vpc DeleteRouteEntry.")
	node.Service.Kind, node.Digest = event.KindNode, strings.Repeat("0", 32)
	records = append(records, byHand, node)
	if err := operator.Seed(t.Context(), s, records...); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"lbremedy doctor --fix finalizers shop/planned --policy FILE --apply", "lbremedy doctor --fix finalizers " + records[1].Service.String() + " --apply",
		"lbremedy doctor --checks finalizers", "run the command again", "Run one of the commands above.",
	} {
		id := records[i].Case
		got := screen(t, c, "", 0, "show", id, "-o", "jsonpath={.nextStep}")
		if !strings.Contains(got, want) || records[i].Service.Kind == event.KindNode && got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// Programs get what the schema says: people's words, RFC 3339, milliseconds, and no zero times.
func TestPrinted(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, append(standing(), operator.Journalled()...)...); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("case.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("case.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("case.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, one := range list {
			if err := schema.Validate(one); err != nil {
				t.Error(err)
			}
			for _, name := range []string{"wait", "timings"} {
				if _, has := one.(map[string]any)[name]; has {
					t.Errorf("it has %q: %v", name, one)
				}
			}
		}
		if strings.Contains(text, "0001-01-01") {
			t.Errorf("a time that is none: %s", text)
		}
	}
	check(screen(t, c, "", 0, "ls", "--all", "-o", "json"))
	for _, r := range standing() {
		check(screen(t, c, "", 0, "show", r.Case, "-o", "json"))
		check(screen(t, c, "", 0, "show", r.Case, "--history", "-o", "json"))
	}
	if err := schema.Validate(map[string]any{"result": "asked"}); err == nil {
		t.Error("the schema takes a word of the journal")
	}

	later := standing()[4].Case
	fixed := operator.Journalled()[2].Case
	for _, tt := range []struct{ args, want string }{
		{"show " + later + " -o jsonpath={.waitMs}", "90000"},
		{"show " + fixed + " -o jsonpath={.timingsMs.diagnose}", "300"},
		{"show " + fixed + " -o jsonpath=.result", "fixed"},
		{"show " + fixed + " -o go-template={{.result}}{{\"\\n\"}}{{.firstSeen}}", "fixed\n2026-01-02T15:04:05Z"},
		{"ls --service web -o jsonpath={[*].service.name}", "web"},
		{"ls --service web -o jsonpath={[0].nothing}", ""},
		{"ls --service web -o go-template={{range_.}}{{.class}}{{end}}", "vswitch-ip-exhausted"},
		{"ls --open --result writing -o jsonpath={range_[*]}{.case}{end}", standing()[6].Case},
		{"ls --result needs-action -o jsonpath={range_[*]}{.case}{end}", standing()[2].Case},
	} {
		args := strings.Fields(tt.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "range_", "range ")
		}
		if tt.args[:6] == "ls --r" {
			args = append(args, "--service", "act")
		}
		if got := c.Run(t.Context(), args...); got.Code != 0 || got.Out != tt.want {
			t.Errorf("%s: %+v, want %q", tt.args, got, tt.want)
		}
	}
	for args, want := range map[string]string{
		"ls -o jsonpath={": "the JSONPath expression {", "ls -o go-template={{": "the template: ", "ls -o jsonpath=": "is not one of table",
		"ls -o jsonpath={[99].case}": "array index out of bounds", "ls -o custom-columns=A": "is not one of table",
	} {
		if got := c.Run(t.Context(), strings.Fields(args)...); got.Code != command.CodeWrong || !strings.Contains(got.Err, want) || got.Out != "" {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}

func TestCompleteFromJournal(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, operator.Journalled()...); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"show", "33333333-20260102T150505\tpay/api ram-permission needs-action\n"},
		{"ls --result", "fixed\nsynced\nplanned\nneeds-approval\nneeds-action\n"}, {"ls -o", "table\nwide\njson\nyaml\njsonpath=\ngo-template=\n:"},
		{"show x -o", "table\nwide\njson\nyaml\njsonpath=\ngo-template=\n"},
	} {
		args := append([]string{"__complete"}, strings.Fields(tt.args)...)
		if got := c.Run(t.Context(), append(args, "")...); got.Code != 0 || !strings.HasPrefix(got.Out, tt.want) {
			t.Errorf("%s: %+v, want %q", tt.args, got, tt.want)
		}
	}
}

func TestUntold(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	const note = `Nobody is told about cluster c1: "tell" is empty in its policy.`
	if got := c.Run(t.Context(), "tickets", "ls", "--cluster", "c1"); got.Code != 0 || got.Out != "" || !strings.Contains(got.Err, note) {
		t.Errorf("%+v", got)
	}
	operator.PutInForce(t, s, "c1", "tell: [{name: events, kind: event}]\n")
	if got := c.Run(t.Context(), "tickets", "ls", "--cluster", "c1"); got.Code != 0 || strings.Contains(got.Err, "Nobody") ||
		!strings.HasPrefix(got.Err, "No incident in cluster c1.\n") {
		t.Errorf("%+v", got)
	}
}
