package quota

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// plan says how much of the limit is used, and asks. It waits if there is room by all figures.
func (f found) plan(c *remedy.Case) remedy.Plan {
	if f.limit == nil {
		return f.unknown(c)
	}
	plan := remedy.Plan{
		Finding: say.F("The limit %s is %s.", f.limit.Name, number(f.limit.Total)).Then(f.use.says),
		Cause:   f.limit.Name,
		Ask:     f.use.ways,
	}
	if f.hint.Name == "" {
		plan.Finding = plan.Finding.And("The message names no limit, and this is the only one of the product %s that is used up.", f.hint.Product)
	}
	if f.use.need > f.limit.Total {
		return plan
	}
	plan.Finding = plan.Finding.And("According to these figures, which may lag behind, the limit is not reached.")
	plan.Wait = c.PollInterval()
	plan.Ask = say.F("Compare the figures with the quota center, and check the controller's log for the API that was refused: %s.", c.LogQuery()).Then(plan.Ask)
	return plan
}

// unknown returns the plan for a limit that could not be determined.
func (f found) unknown(c *remedy.Case) remedy.Plan {
	finding := say.F("The message names no limit: %s.", c.Said())
	if f.hint.Name != "" {
		finding = say.F("The message is about the limit %s, which the quota center does not have in this region.", f.hint.Name)
	}
	if len(f.full) > 0 {
		var names []string
		for _, q := range f.full {
			names = append(names, fmt.Sprintf("%s (%s/%s)", q.Name, number(q.Used), number(q.Total)))
		}
		finding = finding.And("According to the quota center, these limits of the product %s are used up: %s.", f.hint.Product, say.List(names, 5))
	} else {
		finding = finding.And("The quota center has %s of the product %s. None is used up.", say.Count(f.all, "limit"), f.hint.Product)
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   f.hint.Name,
		Ask: say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery()).
			And("Then apply for more in the quota center, https://quotas.console.alibabacloud.com, or delete what nobody uses."),
	}
}

// A use is how much of a limit is used.
type use struct {
	need float64  // the least that the limit must be
	says say.Text // the figures
	ways say.Text // what else helps
}

// others are what else helps with limits that only the quota center counts.
var others = map[string]say.Text{
	ccm.LimitCerts.Name: say.F("Delete certificates that no listener uses, or share one between several Services with the annotation cert-id."),
	ccm.LimitACLs.Name:  say.F("Delete access control lists that no listener uses, or share one between several Services with the annotation acl-id."),
	ccm.LimitAttached.Name: say.F("Share a load balancer between several Services with the annotation id.").
		And("Or limit each Service to some of the nodes with the annotation backend-label."),
	ccm.LimitRoutes.Name: say.F("Delete routes that nobody uses. With Flannel, each node needs a route. With Terway, none does."),
}

// counted is the use of a limit that only the quota center counts.
func counted(limit cloud.Quota) use {
	u := use{
		need: limit.Used + 1,
		says: say.F("The quota center counts %s as used.", number(limit.Used)),
		ways: others[limit.Name],
	}
	if len(u.ways) == 0 {
		u.ways = say.F("Delete what nobody uses.")
	}
	return u
}

// oneMore counts load balancers, of which the Service needs one more.
func oneMore(c *remedy.Case, n ccm.Census, limit cloud.Quota) use {
	used := max(n.All, int(limit.Used))
	has := say.Count(used, "CLB")
	if limit.Name == ccm.LimitNLBs.Name {
		has = say.Count(used, "NLB")
	}
	return use{
		need: float64(used) + 1,
		says: say.F("The account has %s in %s. Controllers created %d for this cluster and %d for others.", has, c.Cloud.Region(), n.Here, n.Elsewhere),
		ways: say.F("Delete load balancers that nobody uses.").
			And("Or let the Service use an existing one on which its ports are free: %s.", ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID")),
	}
}

// listeners counts the listeners of the Service's load balancer, and those that it still needs.
func listeners(c *remedy.Case, lb *ccm.Instance, all []ccm.Listener) use {
	ways := say.F("Split the Service into several with fewer ports each.")
	if lb == nil {
		n := len(c.Service.Spec.Ports)
		return use{need: float64(n), says: say.F("The Service has %s. Its load balancer was not found.", say.Count(n, "port")), ways: ways}
	}
	var t ccm.Tally
	for _, l := range all {
		t.Add(l.Description, 1, c.Service, c.Cluster)
	}
	lacks := len(ccm.Unlistened(c.Service, all))
	u := use{
		need: float64(len(all) + lacks),
		says: say.F("The load balancer %s has %s, and the Service needs %d more.", lb.ID, say.Count(len(all), "listener"), lacks),
		ways: ways.And("Or delete listeners that nobody uses."),
	}
	var parts []say.Text
	if t.Manual > 0 {
		parts = append(parts, say.F("%d by hand", t.Manual))
	}
	by := t.Services(c.Service)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, say.F("%d for %s", by[name], name))
	}
	if len(parts) > 0 {
		u.says = u.says.And("The listeners were created: %s.", say.Clauses(parts, 5))
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		u.ways = u.ways.And("Or give the Service its own load balancer: delete it and recreate it without the annotation %sid.", ccm.Prefix).
			And("Its address changes, and the load balancer costs money.")
	}
	return u
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
