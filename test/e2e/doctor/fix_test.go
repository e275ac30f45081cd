package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/statediff"
)

const (
	fixes  = policyText + "\nmode: fix\nrisk: high\nbudgets: {class: 100, share: 100%, least: 100}\nclasses: {doctor-lb-gone: {risk: high, oneWay: true}}\n"
	frozen = fixes + "freezes: [{name: always, days: [mon, tue, wed, thu, fri, sat, sun], from: \"00:00\", until: \"24:00\"}]\n"
	looks  = policyText + "\nmode: observe\n"
)

type fix struct {
	check, service string
	again          func(*rig)                            // breaks it again; nil: it is still broken
	also           func(lb string) []statediff.Allowance // what the controller's sync changes, besides its usual marks
	oneWay         bool                                  // the fix cannot be undone
	touch          bool                                  // the fix only triggers a sync, so there is nothing to undo
}

func (r *rig) fixable() []fix {
	inCLB := func(why, field string) func(string) []statediff.Allowance {
		return func(lb string) []statediff.Allowance {
			return []statediff.Allowance{statediff.Allow(why, append([]string{"cloud", "loadBalancers", lb}, strings.Fields(field)...)...)}
		}
	}
	return []fix{
		{check: "annotations", service: "both-prefixes"},
		{check: "charge-types", service: "by-spec", again: func(r *rig) {
			before := r.counted("by-spec", "SyncLoadBalancerFailed")
			r.annotate("by-spec", "instance-charge-type", "PayBySpec")
			r.until("wait for by-spec to fail again", func() bool { return r.counted("by-spec", "SyncLoadBalancerFailed") > before })
		}},
		{check: "cordoned", service: "cordoned"},
		{check: "lb-deletion-protection", service: "unprotected", also: inCLB("the annotation turns it on, and nothing turns it off", "deleteProtection"),
			again: func(r *rig) {
				r.balancer("unprotected", func(lb *sim.LoadBalancer) { lb.DeleteProtection = false })
			}},
		{check: "lb-deletion-protection", service: "unprotected-nlb", again: func(r *rig) { r.protect("unprotected-nlb", false) }},
		{check: "finalizers", service: "unguarded", touch: true, again: func(r *rig) {
			r.patch("unguarded", `{"metadata":{"finalizers":null}}`)
		}},
		{check: "lb-gone", service: "gone", oneWay: true},
		{check: "not-renamable", service: "untagged", again: func(r *rig) {
			r.testbed.Cloud.LoseTag(r.balancerOf("untagged"), ccm.NameTag)
		}},
		{check: "reuse", service: "retyped", also: inCLB("the mark of a reused one", "tags kubernetes.reused.by.user")},
		{check: "silent", service: "unheeded", touch: true, again: func(r *rig) {
			r.patch("unheeded", `{"metadata":{"labels":{"`+ccm.HashLabel+`":"00"}}}`)
		}},
		{check: "source-ranges", service: "ranged", touch: true, also: func(lb string) []statediff.Allowance {
			return []statediff.Allowance{statediff.Allow("the sync puts it into the security group again", "cloud", "nlbs", lb, "securityGroups")}
		}, again: func(r *rig) { r.open("ranged") }},
	}
}

// fixed repairs a finding of each check that has a fix, while the controller runs, through plan, policy, journal and engine. Only
// the journalled steps and the controller's sync change the state of cluster and cloud, and undo reverts the steps. Fixes that
// the policy forbids are not made.
func (r *rig) fixed() {
	r.Helper()
	all := r.fixable()
	for _, c := range checks.Checks() {
		if there := slices.ContainsFunc(all, func(f fix) bool { return f.check == c.ID }); there != (c.Fix != nil) {
			r.Errorf("the check %s has a fix: %t; it is fixed here: %t", c.ID, c.Fix != nil, there)
		}
	}
	r.testbed.Resume(r.ctx)
	r.until("wait for the controller", func() bool { // every Service has been synced
		full := true
		r.testbed.Cloud.View(func(st *sim.State) {
			for _, lb := range st.LoadBalancers {
				for _, g := range lb.VGroups {
					full = full && (len(g.Backends) > 1 || !strings.Contains(g.Name, "/stale/") && !strings.Contains(g.Name, "/empty/"))
				}
			}
			for _, g := range st.ServerGroups {
				full = full && (len(g.Servers) > 0 || !strings.Contains(g.Name, ".empty-nlb."))
			}
		})
		return full
	})
	r.rested()
	for _, f := range all {
		if f.again != nil {
			f.again(r)
		}
	}
	files := map[string]string{"fix": shell.File(r, "fix.yaml", fixes), "frozen": shell.File(r, "frozen.yaml", frozen), "look": shell.File(r, "look.yaml", looks)}
	r.stopped(all[0], files)
	for _, f := range all {
		r.fix(f, files)
	}
}

// rested waits until the controller has been idle for a while. A starting controller syncs every Service, and a real one many of
// them twice, for the Service and for a node. Until then, a sync may still repair things.
func (r *rig) rested() {
	r.Helper()
	const rest = 2 * time.Second
	for {
		calls := r.testbed.Cloud.CallsOf(ccm.DaemonSet) // the controller's name in the simulated cloud
		left := rest
		if len(calls) > 0 {
			left -= time.Since(calls[len(calls)-1].At)
		}
		if len(calls) > 0 && left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-r.ctx.Done():
			r.Fatalf("wait for the controller to rest: %v", context.Cause(r.ctx))
		}
	}
}

func (r *rig) stopped(f fix, files map[string]string) {
	r.Helper()
	d := r.person("lbremedy-person-"+f.check, rightsOf(f.class()))
	before := statediff.Read(r.T, r.testbed)
	d.says(codeFine, f.args(files["fix"])...)
	d.says(codeOpen, f.args(files["look"], "--apply")...)
	d.says(codeOpen, f.args(files["frozen"], "--apply")...)
	if diff := statediff.Compare(before, statediff.Read(r.T, r.testbed)); len(diff) > 0 {
		r.Errorf("a look, a policy that only observes or a freeze has changed this:\n%s", strings.Join(diff, "\n"))
	}
}

func (f fix) class() *remedy.Remedy {
	return checks.Remedies()[slices.IndexFunc(checks.Checks(), func(c *doctor.Check) bool { return c.ID == f.check })]
}

func (f fix) args(policy string, more ...string) []string {
	return append([]string{"doctor", "--fix", f.check, namespace + "/" + f.service, "-o", "json", "--policy", policy, "--wait", "0s"}, more...)
}

func (r *rig) fix(f fix, files map[string]string) {
	r.Helper()
	d := r.person("lbremedy-person-"+f.check, rightsOf(f.class()))
	name := namespace + "/" + f.service
	before := statediff.Read(r.T, r.testbed)
	out, errs := d.says(codeFine, f.args(files["fix"], "--apply")...)
	var records []event.Record
	if err := json.Unmarshal([]byte(out), &records); err != nil || len(records) != 1 || records[0].Result != event.Fixed ||
		records[0].Next != len(records[0].Steps) {
		r.Errorf("%s of %s is not fixed: %v %s %s", f.check, name, err, out, errs)
		return
	}
	rec := records[0]
	found := d.finds(codeFine, "--checks", f.check, "--policy", files["fix"], name)
	if len(found.Unknown) > 0 {
		r.Errorf("%s of %s: after the fix it can't be told: %q", f.check, name, unknowns(found))
	}
	after := statediff.Read(r.T, r.testbed)
	may := statediff.ByController(before, after, rec.Service)
	if f.also != nil {
		may = append(may, f.also(r.balancerOf(f.service))...)
	}
	if diff := statediff.Compare(before, after, may, statediff.BySteps(r.T, rec)); len(diff) > 0 {
		r.Errorf("%s of %s: neither the journal's steps nor the controller's sync explain this:\n%s", f.check, name, strings.Join(diff, "\n"))
	}
	switch {
	case f.oneWay:
		d.says(1, "undo", rec.Case)
		d.says(1, "undo", rec.Case, "--apply")
	case f.touch:
		d.says(command.CodeWrong, "undo", rec.Case)
		d.says(command.CodeWrong, "undo", rec.Case, "--apply")
	default:
		d.says(codeFine, "undo", rec.Case)
		d.says(codeFine, "undo", rec.Case, "--apply")
		restored := statediff.Read(r.T, r.testbed)
		syncs := statediff.ByController(before, restored, rec.Service)
		if diff := statediff.Compare(before, restored, may, syncs, statediff.ByUndo(r.T, restored, rec)); len(diff) > 0 {
			r.Errorf("%s of %s: this is not as it was before the fix:\n%s", f.check, name, strings.Join(diff, "\n"))
		}
	}
}

func rightsOf(r *remedy.Remedy) []grant.Grant {
	all := [][]grant.Grant{r.Grants(), approval.Grants}
	for _, s := range r.Steps {
		if undo, ok := s.Undo(); ok {
			all = append(all, undo.Grants())
		}
	}
	return grant.Set(all...)
}
