package doctor

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed drift.md
var driftDoc string

// drift looks for settings that the next full sync overwrites.
var drift = &doctor.Check{
	ID:    "drift",
	Doc:   driftDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners},
	Find:  findDrift,
}

func findDrift(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if !ccm.Synced(svc) || s.Time.Sub(s.Marks[svc.UID].Changed) < settling {
			continue // its first sync makes all of it; and that of a change is on its way
		}
		about := doctor.OfService(svc)
		b, err := s.Balancer(svc)
		if err != nil {
			r.Unknown(about, err)
			continue
		}
		if b == nil {
			continue
		}
		evidence := map[string]string{"load balancer": b.ID, "address": b.Address}
		add := func(severity doctor.Severity, key, text, do string) {
			r.Add(doctor.Finding{Severity: severity, About: about, Key: key, Text: say.Literal(text), Do: say.Literal(do), Evidence: evidence})
		}
		fails, settings := split(ccm.Differences(svc, &b.Instance), func(d ccm.Difference) bool { return d.Fails })
		// What keeps a load balancer from being reused is another check's.
		id, _ := ccm.Annotation(svc, "id")
		fails, _ = split(fails, func(d ccm.Difference) bool { return d.Keep != "" && (id == "" || d.Keep != "address-type") })
		// And what no sync does: a CLB that pays by LCU goes on to (charge-types).
		_, settings = split(settings, func(d ccm.Difference) bool {
			return d.Keep == chargeType && b.CLB != nil && b.CLB.ChargeType == byLCU
		})
		if len(fails) > 0 {
			add(doctor.Warning, "fails", fmt.Sprintf("The next full sync of the Service fails on %s, which it can't change: %s.", b.ID, clauses(fails)),
				keeping(svc, fails)+" To have it otherwise, the Service has to be made again.")
		}
		if len(settings) > 0 {
			add(doctor.Warning, "", fmt.Sprintf("The next full sync of the Service changes on %s what differs from the annotations: %s.", b.ID, clauses(settings)), putBack(svc, settings))
		}
		if !ccm.OwnsListeners(svc) {
			continue
		}
		if err := cmp.Or(s.Err(doctor.Listeners), b.Err(doctor.Listeners)); err != nil {
			r.Unknown(about, err)
			continue
		}
		down, ports := split(listenerDrift(s, svc, b), func(d ccm.Difference) bool { return d.Down })
		if len(down) > 0 {
			add(doctor.Critical, "down", fmt.Sprintf("Ports of the Service take no traffic on %s until the next full sync: %s.", b.ID, clauses(down)),
				"Have the controller put them right now: "+ccm.WakeCommand(svc)+".")
		}
		if len(ports) > 0 {
			add(doctor.Warning, "listeners", fmt.Sprintf("The next full sync of the Service changes the listeners of %s where they differ from the annotations: %s.", b.ID, clauses(ports)), putBack(svc, ports))
		}
	}
}

// split returns the differences that are so, and the others.
func split(list []ccm.Difference, so func(ccm.Difference) bool) (yes, no []ccm.Difference) {
	for _, d := range list {
		if so(d) {
			yes = append(yes, d)
		} else {
			no = append(no, d)
		}
	}
	return yes, no
}

// shown is how many clauses or commands a sentence holds.
const shown = 5

func clauses(list []ccm.Difference) string {
	var texts []string
	for _, d := range list {
		texts = append(texts, d.Text)
	}
	return ccm.Clauses(texts, shown)
}

// putBack says both ways to end differences that a sync would change.
func putBack(svc *corev1.Service, list []ccm.Difference) string {
	return strings.TrimSpace(keeping(svc, list) + " To put it back now, rather than at some later change: " + ccm.WakeCommand(svc) + ".")
}

// keeping says how a person keeps what is there now; empty where no annotation can say so.
func keeping(svc *corev1.Service, list []ccm.Difference) string {
	var commands []string
	for _, d := range list {
		switch {
		case d.Keep == "":
			continue
		case d.Is == "":
			commands = append(commands, ccm.RemoveCommand(svc, d.Keep))
		default:
			commands = append(commands, ccm.SetCommand(svc, d.Keep, d.Is))
		}
	}
	commands = slices.Compact(commands)
	if len(commands) == 0 {
		return ""
	}
	return "To keep what is there now: " + ccm.Clauses(commands, shown) + "."
}
