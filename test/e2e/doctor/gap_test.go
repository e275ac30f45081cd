package doctor

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/sim"
)

// gaps removes each permission of the checks, one by one in the cluster and by product in the cloud, and then makes half of the
// calls to a product fail. Each finding is either the same as with all permissions, or unknown with a reason.
func (r *rig) gaps() {
	r.Helper()
	whole := lines(r.run(r.env), doctor.Info)
	var all []string
	for _, g := range scheduledGrants() {
		all = append(all, place(g))
	}
	slices.Sort(all)
	for _, gap := range slices.Compact(all) {
		if gap == place(grant.GetNamespaces) {
			continue // no check reads it
		}
		env := r.as("lbremedy-doctor-gap", slices.DeleteFunc(scheduledGrants(), func(g grant.Grant) bool { return place(g) == gap }))
		env.Policy = r.env.Policy
		r.lacks("without "+gap, whole, r.run(env), true)
	}
	for _, product := range []string{"slb", "nlb"} {
		lift := r.testbed.Cloud.Fault(sim.Fault{Product: product, Caller: caller, Code: "Forbidden.RAM", Status: 403, Rate: 0.5})
		r.lacks("with half of the calls to "+product, whole, r.run(r.env), true)
		lift()
	}
	r.lacks("with all of it again", whole, r.run(r.env), false)
}

func place(g grant.Grant) string {
	if g.RAM() {
		return g.Product()
	}
	return strings.TrimPrefix(g.Group+"/"+g.Resource, "/")
}

func (r *rig) lacks(what string, whole []string, result doctor.Result, unknown bool) {
	r.Helper()
	blind := map[string]bool{}
	for _, u := range result.Unknown {
		blind[u.Check] = true
		if len(u.Why) == 0 {
			r.Errorf("%s: %s is unknown for no reason", what, u.Check)
		}
	}
	if len(blind) > 0 != unknown {
		r.Errorf("%s: unknown is %q", what, unknowns(result))
	}
	got := lines(result, doctor.Info)
	for _, line := range got {
		if !slices.Contains(whole, line) {
			r.Errorf("%s: it finds what is not there: %s", what, line)
		}
	}
	for _, line := range whole {
		if check := strings.Fields(line)[1]; !slices.Contains(got, line) && !blind[check] {
			r.Errorf("%s: it finds no more, and says that all is known: %s", what, line)
		}
	}
	if len(result.Checks) != len(blind) && len(got) == 0 {
		r.Errorf("%s: %d checks are known, and nothing is found", what, len(result.Checks)-len(blind))
	}
}
