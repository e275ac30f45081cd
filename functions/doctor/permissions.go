package doctor

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// permissions looks for RAM actions that the controller calls and its role does not allow, now and after an upgrade.
var permissions = &doctor.Check{
	ID:    "permissions",
	Doc:   page("permissions"),
	Needs: []doctor.Part{doctor.Services, doctor.Nodes, doctor.Detail, doctor.Controller},
	Uses:  []doctor.Part{doctor.Rights, doctor.Policy},
	Find:  findPermissions,
}

var (
	errAccessKey = say.Errorf("the controller signs with its own access key, whose permissions cannot be read from here")
	errNoRole    = say.Errorf("the cluster names no RAM role of its masters, which the controller would use")
)

func doubtful(why say.Text) error {
	return say.Errorf("it is not known under which RAM role the controller runs: %s", why)
}

func findPermissions(s *doctor.Snapshot, r *doctor.Report) {
	about := s.OfCluster()
	if s.Detail.Managed() {
		return // Alibaba Cloud maintains the policies of the roles
	}
	err := s.Err(doctor.Rights)
	switch {
	case s.Controller.AccessKey:
		err = errAccessKey
	case s.Controller.Version == (ccm.Version{}):
		err = errNoVersion
	case err != nil:
	case len(s.Role.Doubt(s.Controller.Version)) > 0:
		err = doubtful(s.Role.Doubt(s.Controller.Version))
	case s.Role.Name == "":
		err = errNoRole
	}
	if err != nil {
		r.Unknown(about, err)
		return
	}
	use, runs := ccm.InUse(s.Detail, s.Services, s.Nodes), s.Controller.Version
	gap(s, r, s.Role.Lacks(ccm.Needs(runs, use)), doctor.Finding{Severity: doctor.Warning, Text: say.F("CCM %s is running.", runs)}, runs)

	if err := s.Err(doctor.Policy); err != nil {
		r.Unknown(about, say.Errorf("to which version an upgrade is planned: %w", err))
		return
	}
	target := s.Policy.Doctor.Target
	if target == (ccm.Version{}) {
		target = ccm.Newest()
	}
	if runs.Before(target) {
		f := doctor.Finding{Severity: doctor.Warning, Key: "target/", Text: say.F("CCM %s is running, and an upgrade may lead to %s.", runs, target)}
		gap(s, r, s.Role.Lacks(ccm.Gains(runs, target, use)), f, target)
	}
	later := target
	if later.Before(runs) {
		later = runs
	}
	if asked := s.Role.Lacks(ccm.Asked(later, use)).Missing; len(asked) > 0 {
		r.Add(doctor.Finding{
			About: about, Severity: doctor.Warning, Key: "asked",
			Text: say.F("The RAM role %s does not allow %s. ACK asks for it in every cluster from CCM v2.11.2 on, and the first NLB needs it.",
				s.Role.Name, strings.Join(asked, ", ")),
			Do:       say.F("Allow it: %s.", s.Role.Allow(asked)),
			Evidence: map[string]string{"role": s.Role.Name, "actions": strings.Join(asked, ", ")},
		})
	}
}

// gap reports the permissions that the role lacks for a release. The finding holds the beginning of the key and of the text.
func gap(s *doctor.Snapshot, r *doctor.Report, g ccm.Gap, of doctor.Finding, v ccm.Version) {
	role := s.Role.Name
	add := func(key string, actions []string, text, do say.Text) {
		if len(actions) == 0 {
			return
		}
		f := of
		f.About, f.Key, f.Text, f.Do = s.OfCluster(), of.Key+key, of.Text.Then(text), do
		f.Evidence = map[string]string{"role": role, "actions": strings.Join(actions, ", ")}
		r.Add(f)
	}
	add("missing", g.Absent,
		say.F("The controller's RAM role %s does not allow %s that CCM %s calls: %s.", role, say.Count(len(g.Absent), "action"), v, say.List(g.Absent, mostActions)),
		say.F("Allow them: %s.", s.Role.Allow(g.Absent)))
	add("limited", g.Limited,
		say.F("The controller's RAM role %s allows %s that CCM %s calls, but only under conditions or for some resources: %s.",
			role, say.Count(len(g.Limited), "action"), v, say.List(g.Limited, mostActions)),
		say.F("Find out what the limits are for. If they need not apply to the controller: %s.", s.Role.Allow(g.Limited)))
	var policies []string
	for _, p := range s.Role.Policies {
		policies = append(policies, p.Name)
	}
	slices.Sort(policies)
	add("denied", g.Denied,
		say.F("A Deny statement of the controller's RAM role %s forbids %s that CCM %s calls, and an Allow would not help: %s.",
			role, say.Count(len(g.Denied), "action"), v, say.List(g.Denied, mostActions)),
		say.F("Find out who wrote the Deny statement, in one of the policies %s, and remove these actions from it.", strings.Join(policies, ", ")))
}

const mostActions = 8
