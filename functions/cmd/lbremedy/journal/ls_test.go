package journal_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestTerminal(t *testing.T) {
	c, s := operator.Embed(t)
	r := operator.Journalled()[2]
	r.Class, r.Service.Namespace, r.Service.Name, r.Finding = "lb-gone", "a", "b", say.Literal(strings.Repeat("word ", 30))
	if err := operator.Seed(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	for _, quiet := range []string{"", "1"} {
		var out bytes.Buffer
		p := c.With("NO_COLOR", quiet).Program(&out, io.Discard)
		p.Terminal = func(any) int { return 60 }
		if code := root.Run(t.Context(), p, []string{"ls"}); code != 0 || !strings.Contains(out.String(), "fixed") {
			t.Errorf("code %d, %q", code, out.String())
		}
		if got := strings.Contains(out.String(), string(cli.Green)+"fixed"); got != (quiet == "") {
			t.Errorf("NO_COLOR=%q: colours: %v in %q", quiet, got, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if quiet != "" && len(line) > 90 {
				t.Errorf("a line of %d bytes: %q", len(line), line)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, append(standing(), operator.Journalled()...)...); err != nil {
		t.Fatal(err)
	}
	const names = "jsonpath={range [*]}{.service.name} {end}"
	for _, tt := range []struct {
		args, want, errs string
	}{
		{"", "a-name-that-is-longer-than-others-and-more api act planned held later unproven writing web ", ""},
		{"--open -A", "a-name-that-is-longer-than-others-and-more api act planned held later unproven writing ", ""},
		{"-n pay", "api ", ""},
		{"--sort-by service --open -n shop", "a-name-that-is-longer-than-others-and-more act held later planned unproven writing ", ""},
		{"--sort-by age", "api a-name-that-is-longer-than-others-and-more act planned held later unproven writing web ", ""},
		{"--sort-by time -n shop --result fixed,waiting", "held later web ", ""},
		{"--sort-by finding --class ram-permission", "api act ", ""},
		{"--sort-by name", "", "want age, case, class, cluster, finding, result, service, time"},
		{"--sort-by age --watch", "", "--sort-by sorts cases: leave out --watch and --writes"},
		{"--sort-by age --writes", "", "--sort-by sorts cases: leave out --watch and --writes"},
		{"-A -n shop", "", "--all-namespaces contradicts --namespace shop"},
	} {
		got := c.Run(t.Context(), append(strings.Fields("ls "+tt.args), "-o", names)...)
		if got.Out != tt.want || !strings.Contains(got.Err, tt.errs) || tt.errs != "" && got.Code != command.CodeWrong {
			t.Errorf("%q: code %d, %q, %q; want %q and %q", tt.args, got.Code, got.Out, got.Err, tt.want, tt.errs)
		}
	}
}

// Unreadable records are counted and omitted, and so are those that a class wrote as if they were another's.
func TestUnreadable(t *testing.T) {
	c, s := operator.Embed(t)
	records := operator.Lately()
	if err := operator.Seed(t.Context(), s, records...); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AppendRecord(t.Context(), "c1", operator.UID(1), "tag-missing", "x", nil, []byte("no record"), 0); err != nil {
		t.Fatal(err)
	}
	e, err := event.NewRecord(records[0])
	if err != nil {
		t.Fatal(err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AppendRecord(t.Context(), "c1", operator.UID(9), "rogue", "y", header, data, 0); err != nil {
		t.Fatal(err)
	}
	if got := c.Run(t.Context(), "ls"); strings.Count(got.Out, "\n") != 3 || !strings.Contains(got.Err, "2 records of the journal can't be read") {
		t.Errorf("ls with a forged record: %+v", got)
	}
}
