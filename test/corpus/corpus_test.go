package corpus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/corpus"
)

// releases are the releases whose source was read, with the minimum number of their texts: known texts are never removed. v2.11.2
// is the first tagged release of v2.11.
var releases = []struct {
	version string
	texts   int
}{
	{"v1.9.3.316", 5}, {"v1.9.3.372", 11}, {"v2.1.0", 8}, {"v2.3.0", 129}, {"v2.4.4", 135}, {"v2.5.1", 189}, {"v2.6.0", 190}, {"v2.7.0", 191},
	{"v2.8.0", 197}, {"v2.9.1", 305}, {"v2.10.0", 317}, {"v2.11.2", 328}, {"v2.12.4", 365}, {"v2.13.0", 380}, {"v2.14.0", 393},
}

func version(t *testing.T, text string) ccm.Version {
	t.Helper()
	v, ok := ccm.ParseVersion(text)
	if !ok {
		t.Errorf("%q is no release", text)
	}
	return v
}

// TestVerdicts checks that each text of the controller has a class, or a reason why not.
func TestVerdicts(t *testing.T) {
	for _, r := range corpus.Rows(t) {
		switch {
		case r.Since == "" && (r.Until != "" || r.Why != ""):
			t.Errorf("%s: only a text of the controller has releases and a reason; say since when", r.Message)
		case r.Since == "":
		case r.Want == event.Unclassified && r.Why == "":
			t.Errorf("%s: say why no class takes it", r.Message)
		case r.Until != "" && !version(t, r.Since).Before(version(t, r.Until)):
			t.Errorf("%s: it is written since %s, and until %s", r.Message, r.Since, r.Until)
		}
	}
}

func TestReleases(t *testing.T) {
	table := []string{fmt.Sprintf("%-11s %6s %6s %9s %8s %8s %8s", "release", "texts", "new", "of class", "no class", "dry run", "ignored")}
	for _, release := range releases {
		v := version(t, release.version)
		var texts, fresh, classless, dry, ignored int
		for _, r := range corpus.Rows(t) {
			if r.Since == "" || v.Before(version(t, r.Since)) || r.Until != "" && !v.Before(version(t, r.Until)) {
				continue
			}
			texts++
			if r.Since == release.version {
				fresh++
			}
			switch {
			case r.Want == event.Ignored:
				ignored++
			case event.DryRun(r.Message):
				dry++
			case r.Want == event.Unclassified:
				classless++
			}
		}
		table = append(table, fmt.Sprintf("%-11s %6d %6d %9d %8d %8d %8d",
			release.version, texts, fresh, texts-classless-dry-ignored, classless, dry, ignored))
		if texts < release.texts {
			t.Errorf("the corpus has %d texts of %s; %d were known once", texts, release.version, release.texts)
		}
	}
	t.Log("\n" + strings.Join(table, "\n"))
}
