package root_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

var sentence = regexp.MustCompile(`[A-Za-z']{2,}[:;.]? [a-z']{2,}[:;.]? [a-z']{2,}`)

var commands = regexp.MustCompile(`"?(lbremedy|kubectl|aliyun) [^；。，）”]*`)

var folded = regexp.MustCompile(`\n {10,}`)

// TestChinese runs each command in Chinese: the only English sentences left are those of others, such as the controller.
func TestChinese(t *testing.T) {
	t.Parallel()
	c, _ := operator.Small(t)
	s := c.Embed(t)
	c.Run(t.Context(), "up", "--setup")
	records := append(operator.Journalled(), operator.Lately()...)
	r := records[len(records)-1]
	r.Class, r.Service.UID, r.Case = "tag-missing", operator.UID(1), operator.UID(1)[:8]+"-20260101T150405"
	r.Digest, r.Steps = strings.Repeat("0", 32), []event.StepRecord{{Kind: "tag", Text: say.Literal("tag it"), Step: json.RawMessage(`{}`)}}
	records, asked := append(records, r), r.Case
	if err := operator.Seed(t.Context(), s, records...); err != nil {
		t.Fatal(err)
	}
	if err := (ledger.Page{Exporter: "x", Since: time.Now(), At: time.Now(), Last: time.Now()}).Save(t.Context(), s, "c1"); err != nil {
		t.Fatal(err)
	}
	operator.Bury(t, s, "tag-missing", operator.UID(20), "7", "no reason")
	others := []string{
		"no reason", "low to high", "medium to high", "low to medium",
		"Ask whether we may create subjectaccessreviews: not found: it is not there",
		"ask who we are: not found: it is not there", "Ask whether we may create pods: not found: it is not there",
		"refused as invalid: a write needs the resource version that was read",
	}
	for _, r := range records {
		others = append(others, r.Finding.String(), r.Ask.String(), r.Note.String(), r.Rule.String(), r.Error, r.Message, r.Cause)
		for _, s := range r.Steps {
			others = append(others, s.Text.String())
		}
	}
	c = c.With("LBREMEDY_LANGUAGE", "zh")
	fix := operator.Write(t, "fix.yaml", "mode: fix\nrisk: medium\nclasses: {tag-missing: {risk: high}, quota: {mode: observe}}\n"+
		"budgets: {attempts: 5, share: \"50%\"}\n"+
		"approvals: [{needs: 2, from: [\"group:network\"]}]\nrules: [{namespaces: [prod], risk: low}]\nunsettled: undo\n"+
		"freezes: [{name: sale, from: 2020-01-01T00:00:00Z, until: 2100-01-01T00:00:00Z}]\n")
	for _, args := range []string{
		"preflight", "preflight --fix-mode --policy " + fix, "policy check " + fix,
		"policy show", "policy show -o json", "pause --by ann", "status", "resume", "breaker ls", "breaker close quota", "ls", "ls --all -o wide",
		"ls --class quota --open", "ls --writes -o wide", "ls --namespace nope", "show " + asked, "show " + asked + " --history", "show " + asked + " --snapshot",
		"show nope",
		"status -o wide", "approve " + asked, "approve " + asked, "reject " + asked, "undo " + asked, "dead ls", "dead ls 1",
		"dead retry 1", "dead drop 9 --yes", "tickets ls", "tickets show nope", "doctor", "doctor -o wide", "doctor shop/nope", "doctor checks",
		"doctor --fix finalizers", "lb ls", "lb ls -n nope", "lb show shop/own", "doctor --fix permissions",
		"version", "plan shop/own", "run shop/own", "replay", "classify x",
	} {
		got := c.Run(t.Context(), strings.Fields(args)...)
		text := folded.ReplaceAllString(got.Out+got.Err, " ")
		for _, o := range others {
			if o = command.Clean(o); o != "" {
				text = strings.ReplaceAll(text, o, "")
			}
			for n := range o { // a table cuts it off
				if n > 0 {
					text = strings.ReplaceAll(text, o[:n]+"…", "")
				}
			}
		}
		for line := range strings.Lines(text) {
			if sentence.MatchString(commands.ReplaceAllString(line, "")) {
				t.Errorf("lbremedy %s says in English: %s", args, line)
			}
		}
	}
}
