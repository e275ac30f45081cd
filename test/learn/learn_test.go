package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func checkout(t *testing.T, old, instead string) string {
	t.Helper()
	files, err := txtar.ParseFile(filepath.Join("testdata", "mini.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir, found := filepath.Join(t.TempDir(), "v2.14.0"), false
	for _, f := range files.Files {
		found = found || bytes.Contains(f.Data, []byte(old))
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, bytes.ReplaceAll(f.Data, []byte(old), []byte(instead)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("no file has %q", old)
	}
	return dir
}

func mini(ccm.Version) (Tables, error) {
	ours := Tables{
		Facts: Facts{}, messages: []string{
			"Error syncing load balancer []: the zone a cannot be changed", "sync of web: no number: x", "Error syncing load balancer [lb-1]: create: Message: No.",
		},
		watched: func(object, reason string) bool { return object+reason == "NodeLookFailed" },
		class:   func(text string) bool { return text == "no number: x" || text == "it failed" },
	}
	for kind, names := range map[string][]string{
		controllers: {"clb", "nlb", "node", "route"},
		annotations: {"clb scheduler", "clb master-zoneid", "clb delete-protection", "clb service.beta.kubernetes.io/class", "nlb scheduler"},
		immutables:  {"clb master-zoneid"},
		defaults:    {"scheduler=rr"},
		events:      {"Service Warning SyncFailed", "Pod Normal Result"},
		actions:     {"clb+node slb:CreateLoadBalancer", "clb+node ecs:DescribeInstances", "nlb nlb:CreateLoadBalancer", "route vpc:CreateRouteEntry"},
	} {
		for _, name := range names {
			ours.add(kind, name, "our table")
		}
	}
	return ours, nil
}

func verdictFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "verdicts.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSame(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	code, err := run([]string{"-verdicts", verdictFile(t, "{}"), checkout(t, "module", "module")}, &out, mini)
	want := `release  kind        source  tables  verdicts  open
v2.14.0  controller  4       4       0         0
v2.14.0  annotation  5       5       0         0
v2.14.0  immutable   1       1       0         0
v2.14.0  default     1       1       0         0
v2.14.0  event       3       2       0         0
v2.14.0  text        4       3       0         0
v2.14.0  action      5       4       0         0
`
	if code != 0 || err != nil {
		t.Fatal(code, err)
	}
	if diff := gocmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestDifferences: each kind of difference is found in both directions, and is open without a verdict.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, instead string       // in the source
		table        func(Tables) // changes the tables
		want         []string     // kind and difference
		verdict      string
	}{
		"controller": {old: "func Add(cloud provider.Provider) error", instead: "func Added(cloud provider.Provider) error",
			want: []string{"action -route vpc:CreateRouteEntry", "controller -route"}, verdict: "{action: {-route *: x}, controller: {-route: x}}"},
		"controller not in the tables": {table: func(o Tables) { delete(o.Facts[controllers], "node") },
			want: []string{"controller +node"}, verdict: "{controller: {+node: x}}"},
		"annotation": {old: "_ = req.Get(notes.Protection)", instead: "_ = req.Get(notes.Unread)",
			want: []string{"annotation +clb unread", "annotation -clb delete-protection"}, verdict: "{annotation: {+clb unread: x, -clb delete-protection: x}}"},
		"annotation that only a default is asked of": {table: func(o Tables) { o.add(annotations, "nlb delete-protection", "our table") },
			want: []string{"annotation -nlb delete-protection"}, verdict: "{annotation: {-nlb delete*: x}}"},
		"annotation by its whole key": {old: "svc.Labels[notes.Hash]", instead: "svc.Annotations[notes.Hash]",
			want: []string{"annotation +clb service.beta.kubernetes.io/hash"}, verdict: "{annotation: {+clb *hash: x}}"},
		"immutable": {table: func(o Tables) {
			delete(o.Facts[immutables], "clb master-zoneid")
			o.add(immutables, "nlb ip", "our table")
		},
			want: []string{"immutable +clb master-zoneid", "immutable -nlb ip"}, verdict: "{immutable: {+clb *: x, -nlb *: x}}"},
		"default": {old: `: "rr"`, instead: `: "wrr"`, want: []string{"default +scheduler=wrr", "default -scheduler=rr"},
			verdict: "{default: {+*: x, -*: x}}"},
		"event of another reason": {old: `"SyncFailed"`, instead: `"SyncBroke"`,
			want: []string{"event +Service Warning SyncBroke", "event -Service Warning SyncFailed"}, verdict: "{event: {+Service * SyncBroke: x, -*: x}}"},
		"event of another object": {old: `Kind: "Node"`, instead: `Kind: "Route"`, want: []string{"event +Route Warning LookFailed"},
			verdict: "{event: {+Route *: x}}"},
		"event of a reason that is not constant": {old: `"LookFailed"`, instead: "name", want: []string{"event +Node Warning ?"},
			verdict: "{event: {'+Node Warning ?': x}}"},
		"event that is written": {old: `Name: "Result"`, instead: `Name: "Outcome"`,
			want: []string{"event +Pod Normal Outcome", "event -Pod Normal Result"}, verdict: "{event: {+*: x, -*: x}}"},
		"text": {old: "the zone %s cannot be changed", instead: "no zone %s cannot be changed",
			want:    []string{"text +no zone %s cannot be changed", "text -Error syncing load balancer []: the zone a cannot be changed"},
			verdict: "{text: {+no zone *: x, -*: x}}"},
		"text of a Node's warning": {old: `"it failed"`, instead: `"it broke"`, want: []string{"text +it broke"}, verdict: "{text: {+it broke: x}}"},
		"text of a wrapped error":  {old: "create: ", instead: "make: "},
		"action": {old: "_ = req.Get(notes.Protection)", instead: "_ = req.Get(notes.Protection); r.cloud.Remove()",
			want: []string{"action +clb+node slb:DeleteLoadBalancer"}, verdict: "{action: {+clb+node slb:Delete*: x}}"},
		"action that is not called": {table: func(o Tables) { o.add(actions, "nlb nlb:StopListener", "our table") },
			want: []string{"action -nlb nlb:StopListener"}, verdict: "{action: {'-nlb nlb:StopListener': x}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := checkout(t, cmp.Or(c.old, "module"), cmp.Or(c.instead, "module"))
			tables := func(v ccm.Version) (Tables, error) {
				ours, err := mini(v)
				if c.table != nil {
					c.table(ours)
				}
				return ours, err
			}
			verdicts := verdictFile(t, cmp.Or(c.verdict, "{}"))
			var out bytes.Buffer
			if code, err := run([]string{"-json", "-verdicts", verdicts, dir}, &out, tables); err != nil || code != 0 {
				t.Errorf("with verdicts: %d, %v", code, err)
			}
			var all []Release
			if err := json.Unmarshal(out.Bytes(), &all); err != nil {
				t.Fatal(err)
			}
			ours, _ := tables(ccm.Version{})
			results, err := compare(all[0].Facts, ours, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			open := 0
			for _, r := range results {
				open += r.Open
				for _, d := range r.Differences {
					got = append(got, r.Kind+" "+d.What)
					if len(d.Where) == 0 {
						t.Errorf("%s is nowhere", d.What)
					}
				}
			}
			slices.Sort(got)
			if diff := gocmp.Diff(c.want, got); diff != "" || open != len(got) {
				t.Error(open, diff)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	verdicts := verdictFile(t, "{text: {+gone: It is gone.}, annotation: {-clb delete-protection: We read it.}}")
	var out strings.Builder
	code, err := run([]string{"-verdicts", verdicts, checkout(t, "_ = req.Get(notes.Protection)", "_ = req.Get(notes.Unread)")}, &out, mini)
	if code != 1 || err != nil {
		t.Fatal(code, err)
	}
	for _, want := range []string{
		"v2.14.0  annotation  +clb unread  pkg/controller/service/clbv1/clb.go:49\n",
		"not needed for these: the verdict on text +gone\n",
		"v2.14.0  annotation  5       5       1         1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	good := verdictFile(t, "{}")
	dir := checkout(t, "module", "module")
	unnamed := filepath.Join(filepath.Dir(dir), "main")
	if err := os.Rename(dir, unnamed); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no folder":             {"-verdicts", good},
		"no tree":               {"-verdicts", good, "-release", "v2.14.0", t.TempDir()},
		"no release":            {"-verdicts", good, unnamed},
		"two of one release":    {"-verdicts", good, "-release", "v2.14.0", unnamed, unnamed},
		"no verdicts":           {"-verdicts", filepath.Join(unnamed, "none"), "-release", "v2.14.0", unnamed},
		"verdict of no kind":    {"-verdicts", verdictFile(t, "{spell: {+a: x}}"), "-release", "v2.14.0", unnamed},
		"verdict of no side":    {"-verdicts", verdictFile(t, "{text: {a: x}}"), "-release", "v2.14.0", unnamed},
		"verdict without a why": {"-verdicts", verdictFile(t, "{text: {+a: ''}}"), "-release", "v2.14.0", unnamed},
		"unknown flag":          {"-releases", "v2.14.0", unnamed},
	} {
		if code, err := run(args, new(strings.Builder), mini); code != 2 || err == nil {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
	if code, err := run([]string{"-verdicts", good, "-release", "v2.14.0", unnamed}, new(strings.Builder), mini); code != 0 || err != nil {
		t.Errorf("with -release: %d, %v", code, err)
	}
}

// TestTables checks this project's tables of each release, and that the verdicts can be read.
func TestTables(t *testing.T) {
	t.Parallel()
	if _, err := readVerdicts("verdicts.yaml"); err != nil {
		t.Fatal(err)
	}
	has := func(release, kind, name string) bool {
		v, _ := ccm.ParseVersion(release)
		ours, err := known(v)
		if err != nil {
			t.Fatal(err)
		}
		return ours.Facts[kind][name] != nil
	}
	for _, c := range []struct {
		release, kind, name string
		want                bool
	}{
		{"v2.14.0", annotations, "clb delete-protection", true},
		{"v2.14.0", annotations, "nlb delete-protection", false},
		{"v2.13.0", annotations, "nlb default-weight", false},
		{"v2.14.0", annotations, "nlb default-weight", true},
		{"v2.11.2", immutables, "clb network-type", false},
		{"v2.12.4", immutables, "clb network-type", true},
		{"v2.14.0", immutables, "nlb ip-version", true},
		{"v2.14.0", defaults, "address-type=internet", true},
		{"v2.14.0", events, "Service Warning SyncLoadBalancerFailed", true},
		{"v2.9.1", actions, "route vpc:CreateRouteEntries", false},
		{"v2.11.2", actions, "route vpc:CreateRouteEntries", true},
		{"v2.14.0", actions, "nlb ecs:CreateSecurityGroup", true},
		{"v2.14.0", actions, "clb+node vpc:DescribeEipAddresses", true},
	} {
		if got := has(c.release, c.kind, c.name); got != c.want {
			t.Errorf("%s: the tables have %s %q: %t", c.release, c.kind, c.name, got)
		}
	}
}
