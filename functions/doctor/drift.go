package doctor

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// drift looks for settings that the next full sync overwrites.
var drift = &doctor.Check{
	ID:    "drift",
	Doc:   page("drift"),
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Controller},
	Find:  findDrift,
}

func findDrift(s *doctor.Snapshot, r *doctor.Report) {
	runs, versionErr := versionOf(s)
	for _, svc := range s.OfType() {
		if !ccm.Synced(svc) {
			continue // the first sync sets everything
		}
		about := doctor.OfService(svc)
		if s.Time.Sub(s.Marks[svc.UID].Changed) < settling {
			r.Settling(about)
			continue
		}
		b, err := s.Balancer(svc)
		if err != nil {
			r.Unknown(about, err)
			continue
		}
		if b == nil {
			continue
		}
		if names := ccm.Unfamiliar(svc); len(names) > 0 {
			switch {
			case versionErr != nil:
				r.Unknown(about, say.Errorf("whether the controller reads the annotations %s, which were not compared: %w", say.List(names, shown), versionErr))
			case runs.TooNew():
				r.Unknown(about, say.Errorf("what the annotations %s ask for was not compared: CCM %s is newer than %s and may read them", say.List(names, shown),
					runs, ccm.Newest()))
			}
		}
		evidence := map[string]string{"load balancer": b.ID, "address": b.Address}
		add := func(severity doctor.Severity, key string, text, do say.Text) {
			r.Add(doctor.Finding{Severity: severity, About: about, Key: key, Text: text, Do: do, Evidence: evidence})
		}
		fails, settings := split(ccm.Differences(svc, &b.Instance), func(d ccm.Difference) bool { return d.Fails })
		id, _ := ccm.Annotation(svc, "id")
		fails, _ = split(fails, func(d ccm.Difference) bool { return d.Keep != "" && (id == "" || d.Keep != "address-type") })
		// No sync changes the charge type of a CLB that is billed by LCU (charge-types).
		_, settings = split(settings, func(d ccm.Difference) bool {
			return d.Keep == ccm.ChargeType && b.CLB != nil && b.CLB.ChargeType == ccm.PayByLCU
		})
		if len(fails) > 0 {
			add(doctor.Warning, "fails",
				say.F("The next full sync of the Service fails, because it cannot change these settings of %s: %s.", b.ID, clauses(fails)),
				keep(svc, fails).And("To change them, recreate the Service."))
		}
		if len(settings) > 0 {
			add(doctor.Warning, "",
				say.F("The next full sync of the Service changes settings of %s that differ from the annotations: %s.", b.ID, clauses(settings)),
				keep(svc, settings).Then(putBack(svc)))
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
			add(doctor.Critical, "down",
				say.F("Ports of the Service take no traffic on %s until the next full sync: %s.", b.ID, clauses(down)),
				say.F("Trigger a resync to fix them now: %s.", ccm.ResyncCommand(svc)))
		}
		if len(ports) > 0 {
			add(doctor.Warning, "listeners",
				say.F("The next full sync of the Service changes listeners of %s that differ from the annotations: %s.", b.ID, clauses(ports)),
				keep(svc, ports).Then(putBack(svc)))
		}
	}
}

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

func clauses(list []ccm.Difference) say.Text {
	var texts []say.Text
	for _, d := range list {
		texts = append(texts, d.Text)
	}
	return say.Clauses(texts, shown)
}

// keep returns no text if no annotation keeps the present values.
func keep(svc *corev1.Service, list []ccm.Difference) say.Text {
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
		return nil
	}
	shell := make([]say.Text, len(commands))
	for i, c := range commands {
		shell[i] = say.Literal(c)
	}
	return say.F("To keep the present values: %s.", say.Clauses(shell, shown))
}

func putBack(svc *corev1.Service) say.Text {
	return say.F("To restore the annotated values now instead of at the next full sync: %s.", ccm.ResyncCommand(svc))
}
