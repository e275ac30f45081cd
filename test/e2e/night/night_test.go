// Package night plays a night of an on-call engineer: the program's screens in each situation, the number of words before the
// first command, and the effect of each printed command when it is run as printed.
package night

import (
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

var update = flag.Bool("update", false, "write the screens of testdata anew")

const columns = 80

type walk struct {
	*rig.Rig
	n     int
	plain *strings.Replacer // replaces what differs between runs
}

// TestNight walks an on-call engineer through a failure, a mistyped pause, an undo that another case depends on, and a looser
// policy. Each screen, except lists (which a pipe does not cut), fits 80 columns and is compared with a file of testdata/night.
func TestNight(t *testing.T) {
	t.Parallel()
	lacking := testbed.NoListener()
	r := rig.New(t, lacking.Config, rig.Bold)
	lack := []testbed.Fixture{lacking.As("dns-a"), lacking.As("dns-b")}
	r.Must(r.Testbed.Fail(r.Ctx, append(lack, testbed.FullVSwitch(testbed.FullVSwitchH).As("carts"), testbed.Unheard().As("stats"))...))
	// Otherwise it may discover the fix before the worker requests a sync.
	r.Must(r.Testbed.Halt(r.Ctx))
	r.Start()
	r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Touched(lack)) == len(lack) }))
	r.Testbed.Resume(r.Ctx)
	a, b := r.Ends("dns-a", event.Fixed), r.Ends("dns-b", event.Fixed)
	cart, asked := r.Ends("carts", event.Fixed), r.Ends("stats", event.Asked)
	pairs := ofRun(r)
	if a.Steps[0].Found || a.Steps[0].Undo == nil { // the other case was first
		a, b = b, a
		pairs = append(pairs, "dns-a", "dns-b", "dns-b", "dns-a")
	}
	for name, rec := range map[string]event.Record{"a": a, "b": b, "cart": cart, "stats": asked} {
		pairs = append(pairs, rec.Case, "CASE-"+name, rec.Case[:8], "CASE-"+name)
	}
	w := &walk{Rig: r, plain: strings.NewReplacer(pairs...)}
	shop := r.Testbed.Namespace

	for _, args := range [][]string{
		{"status"},
		{"ls"},
		{"show", shop + "/carts"},
		{"show", asked.Case},
		{"pause", "--cluster", "c-dem", "--by", "ann"},
		{"pause", "--by", "ann", "--why", "network change"},
		{"pause", "--by", "bob", "--why", "me too"},
		{"ls", "--namespace", "nowhere"},
		{"undo", a.Case},
		{"undo", a.Case, "--apply"},
		{"undo", a.Case, "--apply", "--shared"},
		{"ls"},
		{"resume"},
		{"policy", "check", shell.File(r, "looser.yaml", "mode: fix\nrisk: medium\n")},
		{"policy", "show"},
		{"ls", "--writes"},
		{"tickets", "ls"},
		{"approve", asked.Case},
		{"undo", shop + "/carts"},
		{"ls", "--namespac", shop},
		{"help", "unod"},
	} {
		w.screen(args...)
	}
}

func ofRun(r *rig.Rig) []string {
	r.Helper()
	host, err := os.Hostname()
	r.Must(err)
	who, err := user.Current()
	r.Must(err)
	return []string{
		r.Testbed.Namespace, "shop", testbed.ClusterID, "CLUSTER",
		who.Username + " on " + host, "USER on HOST", who.Username + " (admin on " + host, "USER (admin on HOST",
	}
}

func (w *walk) screen(args ...string) {
	w.Helper()
	w.n++
	got := w.Call(args...)
	fits(w, got, args...)
	text := shown(w.plain, got, args...)
	compare(w, filepath.Join("testdata", "night", fmt.Sprintf("%02d_%s.txt", w.n, args[0])), text)
}

// fits reports lines that are too wide. Lists, commands to paste and single words may be.
func fits(t testing.TB, got rig.Said, args ...string) {
	t.Helper()
	if slices.Contains(args, "ls") || slices.Contains(args, "doctor") {
		return
	}
	for line := range strings.Lines(got.Out) {
		pieces := say.Segments(strings.TrimSpace(line))
		command := len(pieces) == 1 && pieces[0].Command
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns && !command && len(strings.Fields(line)) > 1 {
			t.Errorf("%v: a line of %d columns: %s", args, n, line)
		}
	}
}

func shown(plain *strings.Replacer, got rig.Said, args ...string) string {
	out := same(plain, got.Out)
	if args[0] == "ls" { // cases that need nobody are sorted by their last change
		if head, rows, ok := strings.Cut(out, "\n"); ok {
			out = head + "\n" + strings.Join(slices.Sorted(strings.Lines(rows)), "")
		}
	}
	return same(plain, "$ lbremedy "+strings.Join(args, " ")+"\n") + out + same(plain, got.Err) + fmt.Sprintf("[exit code %d]\n", got.Code)
}

func compare(t testing.TB, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("what is shown differs from %s (-want +got):\n%s", file, diff)
	}
}

var varying = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`/\S*/looser\.yaml`), "looser.yaml"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-\d{8}T\d{6}\b`), "CASE-OTHER"},
	{regexp.MustCompile(`k8s/\d+/`), "k8s/PORT/"},
	{regexp.MustCompile(`\b\d+ queued\b`), "N queued"},
	{regexp.MustCompile(`nats://[\d.:]+`), "nats://NATS"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST:PORT"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z| ?[A-Z]{3,4}|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b(\d\d-\d\d )?\d\d:\d\d(:\d\d)?( [A-Z]{3,4})?\b`), "TIME"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`), "DATE"},
	{regexp.MustCompile(`\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f-]{22}\b`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{16,64}\b`), "HASH"},
	{regexp.MustCompile(`\b(lb|nlb|rsp|i|vsw)-sim\d+\b`), "$1-sim"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(µs|ms|s)\b|\b\d+m\b`), "AGE"},
	{regexp.MustCompile(`\bv\d+\.\d+\.\d+-\S+`), "VERSION"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`\nTimings  .*`), ""},
	{regexp.MustCompile(`\nSeen  .*`), ""}, // how often the controller has retried
	{regexp.MustCompile(`  SEEN\b`), ""},
	{regexp.MustCompile(`(  AGE)  \d+\b`), "$1"},
}

var broken = regexp.MustCompile(`\n {11,}`)

func same(plain *strings.Replacer, text string) string {
	text = plain.Replace(broken.ReplaceAllLiteralString(text, " "))
	for _, v := range varying {
		text = v.is.ReplaceAllString(text, v.as)
	}
	return text
}
