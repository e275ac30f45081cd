package rules

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRules(t *testing.T) {
	const ours = `import "` + module + `/`
	tests := []struct {
		name string
		rule func(*tree) []string
		file string // its name
		text string
		mode fs.FileMode
		want []string // parts of the complaints, in order
	}{
		{name: "free", rule: imports, file: "functions/busy/busy.go", text: "package busy\n" + ours + `shared/remedy"`},
		{name: "class to class", rule: imports, file: "functions/busy/busy.go", text: "package busy\n" + ours + `functions/quota"`,
			want: []string{"functions/busy must not import functions/quota"}},
		{name: "class to engine", rule: imports, file: "functions/busy/busy.go", text: "package busy\n" + ours + `shared/engine"`,
			want: []string{"functions/busy must not import shared/engine"}},
		{name: "shared to events", rule: imports, file: "shared/host/h.go", text: "package host\n" + ours + `events/exporter"`,
			want: []string{"shared/host must not import events/exporter"}},
		{name: "class to stream", rule: imports, file: "functions/busy/busy.go", text: "package busy\n" + ours + `shared/stream"`,
			want: []string{"functions/busy must not import shared/stream"}},
		{name: "class to a language", rule: imports, file: "functions/busy/busy.go", text: "package busy\n" + ours + `shared/say/chinese"`,
			want: []string{"functions/busy must not import shared/say/chinese"}},
		{name: "engine to a language", rule: imports, file: "shared/engine/r.go", text: "package engine\n" + ours + `shared/say/chinese"`,
			want: []string{"shared/engine must not import shared/say/chinese"}},
		{name: "the doctor is held to it, too", rule: imports, file: "functions/doctor/doctor.go", text: "package doctor\n" + ours + `functions/quota"`,
			want: []string{"functions/doctor must not import functions/quota"}},
		{name: "program of its class", rule: imports, file: "functions/busy/cmd/busy/main.go", text: "package main\n" + ours + `functions/busy"`},
		{name: "program of another class", rule: imports, file: "functions/busy/cmd/busy/main.go", text: "package main\n" + ours + `functions/quota"`,
			want: []string{"another class"}},
		{name: "the operator's program", rule: imports, file: "functions/cmd/lbremedy/up/up.go", text: "package up\n" + ours + `shared/stream/embedded"`},
		{name: "a group of commands", rule: imports, file: "functions/cmd/lbremedy/ram/ram.go", text: "package ram\n" + ours + `functions/cmd/lbremedy/up"`,
			want: []string{"a group of commands knows no other"}},
		{name: "what commands share", rule: imports, file: "functions/cmd/lbremedy/cli/a.go", text: "package cli\n" + ours + `functions/cmd/lbremedy/journal"`,
			want: []string{"knows none of them"}},
		{name: "exporter to class", rule: imports, file: "events/exporter/e.go", text: "package exporter\n" + ours + `functions/busy"`,
			want: []string{"events/exporter must not import functions/busy"}},
		{name: "event to cloud", rule: imports, file: "shared/event/e.go", text: "package event\n" + ours + `shared/cloud"`,
			want: []string{"it may import shared/machine, shared/say"}},
		{name: "host to embedded", rule: imports, file: "shared/host/h.go", text: "package host\n" + ours + `shared/stream/embedded"`,
			want: []string{"shared/host must not import shared/stream/embedded"}},
		{name: "host to observe", rule: imports, file: "shared/host/h.go", text: "package host\n" + ours + `shared/observe"`,
			want: []string{"shared/host must not import shared/observe"}},
		{name: "engine to step", rule: imports, file: "shared/engine/r.go", text: "package engine\n" + ours + `shared/step"`,
			want: []string{"shared/engine must not import shared/step"}},
		{name: "shipped to test", rule: imports, file: "functions/cmd/lbremedy/main.go", text: "package main\n" + ours + `test/sim"`,
			want: []string{"serves tests"}},
		{name: "tests import anything", rule: imports, file: "events/e_test.go", text: "package events\n" + ours + `test/sim"`},
		{name: "first stage to class", rule: imports, file: "infra/gen/stage1/main.go", text: "package main\n" + ours + `functions"`,
			want: []string{"infra/gen/stage1 must not import functions"}},
		{name: "unknown package", rule: imports, file: "shared/new/n.go", text: "package new", want: []string{"no row"}},

		{name: "function to engine", rule: reach, file: "functions/busy/cmd/busy/main.go", text: "package main\n" + ours + `shared/engine"`,
			want: []string{"functions/busy/cmd/busy imports shared/engine"}},
		{name: "function to NATS", rule: reach, file: "functions/busy/cmd/busy/main.go", text: "package main\n" + `import "github.com/nats-io/nats.go/jetstream"`,
			want: []string{"imports github.com/nats-io/nats.go/jetstream"}},
		{name: "function to hand", rule: reach, file: "functions/busy/cmd/busy/main.go", text: "package main\n" + ours + `shared/serve"`},
		{name: "engine to stream", rule: reach, file: "shared/engine/r.go", text: "package engine\n" + ours + `shared/stream"`},

		{name: "home", rule: libraries, file: "shared/stream/s.go", text: "package stream\n" + `import "github.com/nats-io/nats.go/jetstream"`},
		{name: "not home", rule: libraries, file: "shared/host/h.go", text: "package host\n" + `import "github.com/nats-io/nats.go/jetstream"`,
			want: []string{"only shared/stream may"}},
		{name: "no home", rule: libraries, file: "shared/host/h.go", text: "package host\n" + `import "github.com/pkg/errors"`,
			want: []string{"has no home"}},
		{name: "nobody's", rule: libraries, file: "shared/kube/k.go", text: "package kube\n" + `import "k8s.io/client-go/kubernetes/scheme"`,
			want: []string{"nothing that is shipped may import"}},
		{name: "tests import any library", rule: libraries, file: "test/sim/s.go", text: "package sim\n" + `import "k8s.io/client-go/kubernetes"`},
		{name: "types in a class", rule: libraries, file: "functions/busy/busy.go",
			text: "package busy\n" + `import ("k8s.io/api/core/v1"; "k8s.io/apimachinery/pkg/util/intstr")`},
		{name: "machinery in a class", rule: libraries, file: "functions/busy/busy.go", text: "package busy\n" + `import "k8s.io/apimachinery/pkg/util/wait"`,
			want: []string{"functions/busy must not import k8s.io/apimachinery/pkg/util/wait"}},
		{name: "assertions", rule: testLibraries, file: "events/e_test.go", text: "package events\n" + `import "github.com/stretchr/testify/require"`,
			want: []string{"got and want"}},

		{name: "reaches out", rule: classCode, file: "functions/busy/busy.go", text: "package busy\n" + `import ("net/http"; "os"; "net/netip"; "time")
			const pause = time.Second`,
			want: []string{"must not import net/http", "must not import os"}},
		{name: "reads the clock", rule: classCode, file: "functions/busy/busy.go", text: "package busy\n" + `import ("context"; clk "time")
			func f(ctx context.Context) { context.WithTimeout(ctx, clk.Second); clk.Sleep(1); g := clk.Now; g(); go g() }`,
			want: []string{"context.WithTimeout", "time.Sleep", "time.Now", "no goroutine"}},
		{name: "others read the clock", rule: classCode, file: "shared/remedy/r.go", text: "package remedy\n" + `import "time"
			var started = time.Now`},

		{name: "half a class", rule: classFolders, file: "functions/busy/notes.go", text: "package busy",
			want: []string{"no busy.go", "no doc.md", "no testdata"}},
		{name: "page without title", rule: classFolders, file: "functions/busy/doc.md", text: "Busy\n",
			want: []string{"no busy.go", "begin it with", "no testdata"}},
		{name: "large class", rule: classSizes, file: "functions/busy/busy.go", text: "package busy\n" + strings.Repeat("\n", largestClass),
			want: []string{"functions/busy: 301 lines", "the median"}},
		{name: "small class", rule: classSizes, file: "functions/busy/busy.go", text: "package busy\n" + strings.Repeat("\n", medianClass-1)},
		{name: "file of another name", rule: classSizes, file: "functions/busy/words.go", text: "package busy\n",
			want: []string{"functions/busy/words.go: name it busy.go or one of ask.go"}},

		{name: "permission without a name", rule: grants, file: "shared/step/s.go", text: "package step\n" + ours + `shared/grant"
			var a = grant.Grant{Action: "slb:Tag"}
			var b = []grant.Grant{{Verb: "get"}, grant.GetServices}
			var none grant.Grant = grant.Grant{}`,
			want: []string{":3:", ":4:"}},

		{name: "Events of anybody", rule: lists, file: "functions/doctor/d.go", text: "package doctor\nfunc f() { c.Kube.ListEvents(ctx, which, see) }",
			want: []string{"kube.Cluster.Evidence"}},
		{name: "Events to publish", rule: lists, file: "events/exporter/e.go", text: "package exporter\nfunc f() { c.Kube.ListEvents(ctx, which, see) }"},
		{name: "a list without bounds", rule: lists, file: "shared/kube/k.go", text: "package kube\nfunc all() { c.stream(ctx) }",
			want: []string{"they have bounds"}},
		{name: "a list with bounds", rule: lists, file: "shared/kube/k.go", text: "package kube\nfunc read() { c.stream(ctx) }"},

		{name: "vague name", rule: shape, file: "shared/utils/u.go", text: "package utils", want: []string{"shared/utils"}},
		{name: "new root", rule: shape, file: "scripts/run", text: "x", want: []string{"scripts: the root"}},
		{name: "root", rule: shape, file: "infra/fc/s.yaml", text: "x"},

		{name: "package without comment", rule: packageComments, file: "shared/host/h.go", text: "package host", want: []string{"has no comment"}},
		{name: "package comment of another", rule: packageComments, file: "shared/host/h.go", text: "// Package guest takes.\npackage host",
			want: []string{"begin it with \"Package host \""}},
		{name: "program", rule: packageComments, file: "events/cmd/exporter/main.go", text: "// Exporter watches.\npackage main"},
		{name: "program of another name", rule: packageComments, file: "events/cmd/exporter/main.go", text: "// This watches.\npackage main",
			want: []string{"\"Exporter \""}},
		{name: "no full stop", rule: packageComments, file: "shared/host/h.go", text: "// Package host takes\npackage host", want: []string{"no full stop"}},
		{name: "tests only", rule: packageComments, file: "test/fault/f_test.go", text: "// Package fault breaks things.\npackage fault"},
		{name: "tests from outside", rule: packageComments, file: "test/fault/f_test.go", text: "package fault_test", want: []string{"has no comment"}},

		{name: "documented", rule: docs, file: "shared/host/h.go", text: `package host
			// A Host takes events.
			type Host struct{ Name string }
			// Take takes one:
			//   - at once
			func (h *Host) Take() {}
			func (h *Host) give() {}
			type guest struct{}
			func (g guest) String() string { return "" }
			// The ways in.
			const ( Front = 1; Back = 2 )
			var ( Roof = 3 // from above
			)
			// A Set is a set (of any).
			type Set[T any] struct{}
			// Add adds.
			func (s Set[T]) Add() {}`},
		{name: "undocumented", rule: docs, file: "shared/host/h.go", text: `package host
			type Host struct{}
			// This function takes events.
			func (h *Host) Take() {}
			// Give gives
			func Give() {}
			// Hosts are many.
			func HostsOf() {}
			const ( Front = 1 )
			// Ways in
			const ( Back = 1 )
			// Set adds:
			func (s Set[T]) Add() {}
			// Number of guests.
			var Guests int`,
			want: []string{"Host has no comment", "Take begins with", "Give has no full stop", "HostsOf begins with", "Front has no comment",
				"group of Back", "Add begins with", "Guests begins with"}},

		{name: "init", rule: inits, file: "test/sim/s.go", text: "package sim\nfunc init() {}", want: []string{"a function init"}},
		{name: "a method init", rule: inits, file: "test/sim/s.go", text: "package sim\ntype s int\nfunc (s) init() {}"},

		{name: "contexts", rule: contexts, file: "shared/host/h.go", text: `package host
			import "context"
			type h struct { ctx context.Context }
			// A life holds a context, because it ends requests.
			type life struct { ctx context.Context }
			type room struct { ctx context.Context // of the guests
			}
			func Main() { context.Background() }
			func f(n int, ctx context.Context) { context.Background() }
			func g(ctx context.Context, n int) { context.WithoutCancel(ctx) }`,
			want: []string{"not stored", "comes first", "belongs to main"}},
		{name: "main begins", rule: contexts, file: "events/cmd/exporter/main.go", text: `package main
			import "context"
			func main() { context.Background() }`},

		{name: "error texts", rule: errorTexts, file: "shared/host/h.go", text: `package host
			import ("errors"; "fmt")
			var a = errors.New("Failed to open")
			var b = fmt.Errorf("open %s.", "x")
			var c = fmt.Errorf("open %s: %w", "x", a)
			var d = fmt.Sprintf("It is open.")`,
			want: []string{"that it failed is plain", "leave out what ends it"}},

		{name: "log keys", rule: logs, file: "shared/host/h.go", text: `package host
			func (h host) f(log logger) {
				h.log().With("svc", 1).Info("x", "class", 2)
				log.Warn("x", "error", 1, key, 2)
				h.Log.Error("x", list...)
				h.other.Error("x", "svc", 1)
			}`,
			want: []string{"the log key \"svc\"", "the log key \"\""}},

		{name: "patterns", rule: patterns, file: "shared/host/h.go", text: "package host\nvar a = regex.New(`^(?:` + part + `)+$`)\nvar b = regex.New(\"(\")",
			want: []string{"h.go:3"}},

		{name: "sentences", rule: sentences, file: "shared/engine/r.go", text: `package engine
			import "strings"
			var a = prev.Rule == afterOthers || "x" != p.Ask || r.Finding == "" || r.Reason == b
			func f() {
				switch rec.Note {
				}
				use(strings.HasPrefix(h.rule, "x"), known.MatchString(rec.Decided), join(x.rec.Ask, "y"))
			}`,
			want: []string{"r.go:3", "r.go:3", "r.go:5", "r.go:7", "r.go:7"}},
		{name: "sentences for people", rule: sentences, file: "functions/cmd/lbremedy/r.go", text: "package main\nvar a = r.Rule == b"},

		{name: "plain", rule: plain, file: "test/rules/x.go", text: `package rules
			// Who reads it? A reader is no longer alone, and what he wants is no more than this.
			//
			//	Who runs this code
			var a = 1 // so that b is read; it does not matter
			// Holder returns who holds it.
			var b = "Who is none" //nolint:all`},
		{name: "not plain", rule: plain, file: "test/rules/x.go", text: `package rules
			// A reads. Who does not
			// is lost: there is no way.
			var a = 1 // What is left.
			// It ends, so that a
			// stop does not block. Why?
			//   - Whoever waits gets it.
			//   - They are none.
			var b = 1`,
			want: []string{`x.go:2: "Who does not is"`, `x.go:2: "is no way"`, `x.go:4: "What is left`, `x.go:5: "so that a stop does not"`,
				`x.go:5: "Whoever waits gets it`, `x.go:5: "are none"`}},
		{name: "a plain page", rule: plain, file: "test/rules/a.md",
			text: "# What it is for\n\n| What | Who |\n|---|---|\n| What you see | x |\n\n```\nWho is no word\n```\n\n" +
				"**What you see.** `There are no nodes` is an error. Is it? What is it for, and why?\n"},
		{name: "a page not plain", rule: plain, file: "test/rules/a.md", text: "# A\n\nIt is\nno page.\n\n- Who reads. What\n  helps.\n| a | b is none |\n",
			want: []string{`a.md:3: "is no page"`, `a.md:6: "Who reads"`, `a.md:6: "What helps`, `a.md:8: "is none"`}},
		{name: "a page in translation", rule: plain, file: "test/rules/a.zh.md", text: "Who reads.\n"},

		{name: "unfinished", rule: words, file: "a.md", text: "// TO" + "DO: more\nA photo: doTO" + "DOlist\nIt is not implem" + "ented.\nfor n" + "ow\nfor nowhere",
			want: []string{"a.md:1", "a.md:3", "a.md:4"}},
		{name: "left out", rule: words, file: "a_test.go", text: "package a\nfunc f() {\n\tt.Sk" + "ip()\n\ttb.Sk" + "ipf(\"x\")\n\tlist.Sk" + "ip()\n}",
			want: []string{"a_test.go:3", "a_test.go:4"}},
		{name: "one machine", rule: words, file: "a.md",
			text: "cd /ho" + "me/me\nin `/wo" + "rk/x`\nnet" + "/wo" + "rk/x\nhttps://host/ho" + "me/x\n$(HOME)/wo" + "rk/x\n/wo" + "rkers/x",
			want: []string{"a.md:1", "a.md:2"}},
		{name: "registry", rule: words, file: "a.md", text: "https://proxy.golang." + "org/x\npypi." + "org\ncratesXio", want: []string{"a.md:1", "a.md:2"}},

		{name: "long lines", rule: lines, file: "shared/host/h.go",
			text: "package host\n\n// " + strings.Repeat("é", columns-3) + "\n// " + strings.Repeat("e", columns-2) + "\n",
			want: []string{"shared/host/h.go:4: 161 columns"}},
		{name: "long lines of a page", rule: lines, file: "README.md", text: strings.Repeat("word ", columns)},

		{name: "script", rule: scripts, file: "infra/up", text: "#!/bin/sh\n", mode: 0o644, want: []string{"chmod +x infra/up"}},
		{name: "executable script", rule: scripts, file: "infra/up", text: "#!/bin/sh\n", mode: 0o755},

		{name: "Makefile", rule: makefile, file: "Makefile", text: `X := y
help: ## List.
new: bin/x ## New
gen: ## Gen.
check: ## Check.
race: ## Race.
test: ## Test.
demo: ## Demo.
e2e: ## E2E.
bench:
build: ## Build.
bin/x:
	true
`,
			want: []string{"no target clean", "target bench has no help", "target new has no help"}},

		{name: "links", rule: links, file: "shared/README.md",
			text: "# It: is `a`\n\nSee [it](README.md#it-is-a), [it](#no), [us](https://example.com), [them](../events/x.md) and ![it](p.png).\n",
			want: []string{"#no of shared/README.md", "events/x.md, which does not exist", "shared/p.png"}},
		{name: "commands", rule: commands, file: "README.md", text: "# lbremedy\n\n```\nmake demo\nmake test\n```\n\nThen `make tset`; they make sense.\n",
			want: []string{".ci/run: missing", "make demo", "make test", "make tset"}},
		{name: "commands out of order", rule: commands, file: ".ci/run", text: "make test\nmake check\nmake race RACING=./x\n",
			want: []string{".ci/run: no line \"make test\"", "README.md: missing"}},
		{name: "shown", rule: shown, file: "infra/README.md",
			text: "```\nmake x\n```\n\n```sh\n\nmake x\nkubectl apply\n```\n```sh\n# Needs a cluster.\nkubectl apply\n```\n" +
				"```sh\n# It\n# Needs it.\nhelm\n```\n```text\nhelm\n```\n```console\n$ aliyun x\nhelm\n$ make\n```\n",
			want: []string{"infra/README.md:1: a block of no language", "infra/README.md:8: kubectl apply: no test runs it", ":17: helm: no", ":23: aliyun x: no",
				":25: make: no"}},
		{name: "copied", rule: copied, file: "infra/fc/README.md",
			text: "```sh\n# Needs your own values.\nexport ZONE=a HOST=b.$ZONE\n```\n```sh\nmake x HOST=\"$HOST\"\nmake x NAME=\"$NAME\"\nmake x …\n" +
				"x undo CASE\nx --dir=DIR\nexport NAME=c\nx ${NAME} $id 'CASES'\n```\n",
			want: []string{":7: make x NAME=\"$NAME\": nothing on this page sets NAME", ":8: make x …: \"…\" has", ":9: x undo CASE", ":10: x --dir=DIR"}},
		{name: "readers", rule: readers, file: "infra/README.md", text: "# It\n\nIt is good.\n\nFor operators.\n", want: []string{"infra/README.md: the first"}},
		{name: "a reader", rule: readers, file: "infra/README.md", text: "<!-- made -->\n\n# It\n\nIt is\nfor those who read.\n"},
		{name: "a page of a class", rule: readers, file: "functions/busy/doc.md", text: "# It\n\nIt is good.\n"},
		{name: "workflow", rule: workflows, file: ".github/workflows/a.yaml",
			text: "on: push\npermissions: {}\njobs:\n  - uses: a/b@" + strings.Repeat("0a", 20) + " # v1.2.3\n"},
		{name: "open workflow", rule: workflows, file: ".github/workflows/a.yaml", text: "on: [pull_request" + "_target]\njobs:\n  a: {permissions: {}}\n" +
			"  - uses: a/b@v1\n  - {uses: \"a/b@" + strings.Repeat("0a", 20) + "\"}\n  - run: echo ${{ secrets.A }} ${{ github.ref }} ${{ github.event.a }}\n",
			want: []string{"begins with the rights", ":1: pull_request" + "_target", ":4: pin it", ":5: pin it", ":6: ${{ secrets.A }}"}},
		{name: "tags", rule: tags, file: "infra/x.yaml", text: "image: a/b:late" + "st\ntag: late" + "st\nappVersion: \"late" + "st\"\n-tag '$(or $(TAG),late" +
			"st)'\nimage: a/b:v1\nenforce-version: late" + "st\nurl: http://a/late" + "st/b\n",
			want: []string{"infra/x.yaml:1", "infra/x.yaml:2", "infra/x.yaml:3", "infra/x.yaml:4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr, err := read(fstest.MapFS{tt.file: {Data: []byte(tt.text), Mode: tt.mode}})
			if err != nil {
				t.Fatal(err)
			}
			got := tt.rule(tr)
			if len(got) != len(tt.want) {
				t.Fatalf("%d complaints, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("complaint %d is %q, want %q in it", i, got[i], want)
				}
			}
		})
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		path     string
		patterns []string
		want     bool
	}{
		{"events", []string{"events"}, true},
		{"events/table", []string{"events"}, false},
		{"events/table", []string{"events/..."}, true},
		{"events", []string{"events/..."}, true},
		{"eventsx", []string{"events/..."}, false},
		{"functions/busy", []string{"functions/*"}, true},
		{"functions/busy/cmd/busy", []string{"functions/*"}, false},
		{"functions/busy/cmd/busy", []string{"functions/*/cmd/*"}, true},
		{"functions", []string{"functions/*"}, false},
		{"anything/at/all", []string{"..."}, true},
		{"x", nil, false},
		{"x", []string{"y", "x"}, true},
	}
	for _, tt := range tests {
		if got := matches(tt.path, tt.patterns...); got != tt.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tt.path, tt.patterns, got, tt.want)
		}
	}
}

func TestRows(t *testing.T) {
	for _, r := range rows {
		if len(r.who) == 0 || r.why == "" && !slices.Equal(r.may, []string{"..."}) {
			t.Errorf("row %v: a row names packages and a reason", r.who)
		}
	}
}
