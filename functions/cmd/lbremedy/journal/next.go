package journal

import (
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
)

// next says what a person does next about a case that is not over, with the command; empty
// if there is nothing to do.
func next(r event.Record, seen *Repeats) string {
	name := r.Service.String()
	check, found := strings.CutPrefix(r.Class, doctor.ClassPrefix)
	// What is no Service and no finding was begun by hand, and nothing repeats it.
	byHand := !found && r.Service.Kind != ""
	switch r.Status() {
	case event.NeedsApproval:
		if found {
			return "lbremedy approve " + r.Case + "\nlbremedy doctor --fix " + check + " " + name + " --apply"
		}
		return "lbremedy approve " + r.Case
	case event.NeedsAction:
		switch {
		case found:
			return "Do what Asks says. To look again: lbremedy doctor --checks " + check
		case byHand:
			return "Do what Asks says, then run the command again that began the case."
		}
		return "Do what Asks says. The case ends by itself when the failure is over. To look again: lbremedy plan " + name
	case event.Rejected:
		return "Nothing: nobody is asked about this plan again. Another plan is asked about."
	case event.Status(event.Planned):
		switch {
		case found:
			return "To apply the plan, with mode: fix in FILE: lbremedy doctor --fix " + check + " " + name + " --policy FILE --apply"
		case byHand:
			return "To apply plans, set mode: fix in the policy file: lbremedy policy apply FILE"
		}
		return "To apply plans from now on, with mode: fix in FILE: lbremedy policy apply FILE\n" +
			"To apply this one alone: lbremedy run " + name + " --policy FILE --apply"
	case event.Status(event.Waiting), event.Status(event.Unsettled):
		return waits(r, seen)
	}
	return ""
}

// waits says what a case waits for that is looked at again by itself.
func waits(r event.Record, seen *Repeats) string {
	switch r.Held {
	case event.HeldByPause:
		return "lbremedy resume"
	case event.HeldByFreeze:
		return "Wait until the freeze is over: lbremedy policy show"
	}
	ended := r.At
	if seen != nil && seen.Last.After(ended) {
		ended = seen.Last
	}
	if r.Wait <= 0 {
		return "Wait: the case is retried with the next failure. To look now: lbremedy plan " + r.Service.String()
	}
	what := "retried"
	if r.Held == event.TakenBack {
		what = "undone"
	}
	return "Wait: " + what + " at " + cli.Clock(ended.Add(r.Wait).Truncate(time.Second))
}
