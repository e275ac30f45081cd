package journal

import (
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

// next returns what a person does next, with the command; empty if nothing, or if the case is over.
func next(l *say.Language, r event.Record, seen *Repeats) string {
	name := r.Service.String()
	check, found := strings.CutPrefix(r.Class, doctor.ClassPrefix)
	byHand := strings.HasPrefix(r.Message, ByPerson) // nothing repeats it
	other := r.Service.Kind != ""                    // the commands that look again take Services
	switch r.Status() {
	case event.NeedsApproval:
		if found {
			return "lbremedy approve " + r.Case + "\nlbremedy doctor --fix " + check + " " + name + " --apply"
		}
		return "lbremedy approve " + r.Case
	case event.NeedsAction, event.Status(event.Failed):
		var above say.Text
		if names(r.Ask.String()) {
			above = say.F("Run one of the commands above.")
		}
		switch {
		case found:
			return above.And("To look again: lbremedy doctor --checks %s", check).In(l)
		case byHand && r.Digest != "":
			return "lbremedy doctor --fix permissions --apply --approve " + r.Digest
		case byHand:
			return above.And("Then run the command again that began the case.").In(l)
		case other:
			return above.In(l)
		}
		return above.And("The case ends by itself when the failure is over. To look again: lbremedy plan %s", name).In(l)
	case event.Rejected:
		return l.Phrase("You will not be asked again about this plan, only about another one.") + "\n" +
			l.Phrase("The person who rejected it can approve it after all: lbremedy approve %s", r.Case)
	case event.Status(event.Planned):
		switch {
		case found:
			return l.Phrase("To apply the plan, with mode: fix in FILE: lbremedy doctor --fix %s %s --policy FILE --apply", check, name)
		case byHand, other:
			return l.Phrase("To apply plans, set mode: fix in the policy. To see what that allows: lbremedy policy check FILE")
		}
		return l.Phrase("To apply plans from now on, set mode: fix in the policy. To see what that allows: lbremedy policy check FILE") + "\n" +
			l.Phrase("To apply this one alone: lbremedy run %s --policy FILE --apply", name)
	case event.Status(event.Waiting), event.Status(event.Unsettled):
		return waits(l, r, seen)
	}
	return ""
}

func waits(l *say.Language, r event.Record, seen *Repeats) string {
	switch r.Held {
	case event.HeldByPause:
		return l.Phrase("To end the pause: lbremedy resume")
	case event.HeldByFreeze:
		return l.Phrase("Wait until the freeze is over: lbremedy policy show")
	}
	ended := r.At
	if seen != nil && seen.Last.After(ended) {
		ended = seen.Last
	}
	if r.Wait <= 0 && r.Service.Kind != "" {
		return l.Phrase("Wait: the case is retried with the next failure.")
	}
	if r.Wait <= 0 {
		return l.Phrase("Wait: the case is retried with the next failure. To look now: lbremedy plan %s", r.Service)
	}
	budget := ""
	if r.Held == event.HeldByBudget {
		budget = "\n" + l.Phrase("To apply the plan now, raise the budget in the policy file.")
	}
	at := cli.Clock(ended.Add(r.Wait).Truncate(time.Second))
	if r.Held == event.TakenBack {
		return l.Phrase("Wait: undone at %s", at)
	}
	return l.Phrase("Wait: retried at %s", at) + budget
}
