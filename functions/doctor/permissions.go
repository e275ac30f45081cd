package doctor

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed permissions.md
var permissionsDoc string

// permissions looks for RAM actions that the controller calls and its role does not
// allow, now and after an upgrade.
var permissions = &doctor.Check{
	ID:    "permissions",
	Doc:   permissionsDoc,
	Needs: []doctor.Part{doctor.Services, doctor.Detail, doctor.Controller},
	Uses:  []doctor.Part{doctor.Rights, doctor.Policy},
	Find:  findPermissions,
}

// Why permissions can't be told.
var (
	errAccessKey = errors.New("the controller signs with an access key of its own, whose permissions can't be read from here")
	errNoRole    = errors.New("the cluster names no RAM role of its masters, under which the controller would run")
)

func findPermissions(s *doctor.Snapshot, r *doctor.Report) {
	about := s.OfCluster()
	if s.Detail.Managed() {
		return // Alibaba Cloud keeps the policies of the roles
	}
	err := s.Err(doctor.Rights)
	switch {
	case s.Controller.AccessKey:
		err = errAccessKey
	case s.Controller.Version == (ccm.Version{}):
		err = errNoVersion
	case err == nil && s.Role.Name == "":
		err = errNoRole
	}
	if err != nil {
		r.Unknown(about, err)
		return
	}
	use, runs := ccm.InUse(s.Detail, s.Services), s.Controller.Version
	now := s.Role.Lacks(ccm.Needs(runs, use))
	gap(s, r, now, "", doctor.Warning, fmt.Sprintf("CCM %s, which runs, calls", runs))

	if err := s.Err(doctor.Policy); err != nil {
		r.Unknown(about, fmt.Errorf("to which version an upgrade is planned: %w", err))
		return
	}
	target, severity := s.Policy.Survey.Target, doctor.Warning
	if target == (ccm.Version{}) {
		target, severity = ccm.Newest(), doctor.Info
	}
	if !runs.Before(target) {
		return
	}
	gap(s, r, s.Role.Lacks(ccm.Gains(runs, target, use)), "target/", severity, fmt.Sprintf("CCM %s, to which an upgrade may lead, calls", target))
}

// taken ends a command that makes a policy.
const taken = ". If there is a policy of this name already, give it another."

// gap reports what a role lacks of what the controller calls. The key begins with a
// prefix; what is said of the actions begins with the caller.
func gap(s *doctor.Snapshot, r *doctor.Report, g ccm.Gap, prefix string, severity doctor.Severity, calls string) {
	role := s.Role.Name
	add := func(key, how string, actions []string, do string) {
		if len(actions) == 0 {
			return
		}
		r.Add(doctor.Finding{Severity: severity, About: s.OfCluster(), Key: prefix + key,
			Evidence: map[string]string{"role": role, "actions": strings.Join(actions, ", ")},
			Text:     say.F("%s %s that %s: %s.", calls, ccm.Count(len(actions), "action"), fmt.Sprintf(how, role), ccm.Clauses(actions, 8)),
			Do:       say.Literal(do)})
	}
	add("missing", "the masters' RAM role %s does not allow", g.Absent, "Allow them: "+ccm.AllowCommand(role, g.Absent)+taken)
	add("limited", "the masters' RAM role %s allows under conditions or for some resources only", g.Limited,
		"Find out what the limits are for. If the controller may do without them: "+ccm.AllowCommand(role, g.Limited)+taken)
	add("denied", "a statement denies to the masters' RAM role %s, so that no Allow helps", g.Denied,
		fmt.Sprintf("Find out who wrote the Deny statement, in one of the policies %s, and take these actions out of it.", strings.Join(policies(s), ", ")))
}

// policies returns the names of the role's policies.
func policies(s *doctor.Snapshot) []string {
	var names []string
	for _, p := range s.Role.Policies {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
