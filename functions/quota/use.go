package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A use is how much of a limit is used.
type use struct {
	need float64  // the least that the limit must be
	says say.Text // the figures
	ways say.Text // what else helps
}

// others are what else helps with limits that only the quota center counts.
var others = map[string]say.Text{
	"slb_quota_certs_num": say.F("Delete certificates that no listener uses, or share one between several Services with the annotation cert-id."),
	"slb_quota_acls_num":  say.F("Delete access control lists that no listener uses, or share one between several Services with the annotation acl-id."),
	"slb_quota_backendserver_attached_num": say.F("Share a load balancer between several Services with the annotation id.").
		And("Or limit each Service to some of the nodes with the annotation backend-label."),
	"vpc_quota_route_entrys_num": say.F("Delete routes that nobody uses. With Flannel, each node needs a route. With Terway, none does."),
}

// count counts how much of a limit is used. It counts what can be listed: for a limit of each load
// balancer, the quota center shows nothing as used.
func count(ctx context.Context, c *remedy.Case, limit cloud.Quota) (use, error) {
	var tags []map[string]string
	switch limit.Name {
	case balancers:
		all, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{})
		if err != nil {
			return use{}, fmt.Errorf("list load balancers: %w", err)
		}
		for _, lb := range all {
			tags = append(tags, lb.Tags)
		}
		return oneMore(c, tags, limit), nil
	case networkBalancers:
		all, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{})
		if err != nil {
			return use{}, fmt.Errorf("list NLBs: %w", err)
		}
		for _, lb := range all {
			tags = append(tags, lb.Tags)
		}
		return oneMore(c, tags, limit), nil
	case listeners, networkListeners:
		return ports(ctx, c)
	}
	u := use{
		need: limit.Used + 1,
		says: say.F("The quota center counts %s as used.", number(limit.Used)),
		ways: others[limit.Name],
	}
	if len(u.ways) == 0 {
		u.ways = say.F("Delete what nobody uses.")
	}
	return u, nil
}

// oneMore counts load balancers, of which the Service needs one more.
func oneMore(c *remedy.Case, tags []map[string]string, limit cloud.Quota) use {
	here, elsewhere := 0, 0
	for _, t := range tags {
		switch t[ccm.ClusterTag] {
		case "":
		case c.Cluster:
			here++
		default:
			elsewhere++
		}
	}
	used := max(len(tags), int(limit.Used))
	has := say.Count(used, "CLB")
	if limit.Name == networkBalancers {
		has = say.Count(used, "NLB")
	}
	return use{
		need: float64(used) + 1,
		says: say.F("The account has %s in %s. Controllers created %d for this cluster and %d for others.", has, c.Cloud.Region(), here, elsewhere),
		ways: say.F("Delete load balancers that nobody uses.").
			And("Or let the Service use an existing one on which its ports are free: %s.", ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID")),
	}
}

// ports counts the listeners of the Service's load balancer, and those that it still needs.
func ports(ctx context.Context, c *remedy.Case) (use, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return use{}, err
	}
	ways := say.F("Split the Service into several with fewer ports each.")
	if lb == nil {
		n := len(c.Service.Spec.Ports)
		return use{need: float64(n), says: say.F("The Service has %s. Its load balancer was not found.", say.Count(n, "port")), ways: ways}, nil
	}
	whose := map[string]string{} // descriptions of the listeners, by protocol and port
	taken := map[int]bool{}
	add := func(protocol string, port int, description string) {
		whose[fmt.Sprint(protocol, port)] = description
		taken[port] = true
	}
	if lb.NLB != nil {
		all, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return use{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range all {
			add(l.Protocol, l.Port, l.Description)
		}
	} else {
		all, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return use{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range all {
			add(l.Protocol, l.Port, l.Description)
		}
	}
	lacks, by := 0, map[string]int{} // by Service; empty: by hand
	for _, p := range c.Service.Spec.Ports {
		if !taken[int(p.Port)] {
			lacks++
		}
	}
	for _, description := range whose {
		name := ""
		if t, ok := ccm.ParseTrace(description); ok {
			name = t.String()
		}
		by[name]++
	}
	u := use{
		need: float64(len(whose) + lacks),
		says: say.F("The load balancer %s has %s, and the Service needs %d more.", lb.ID, say.Count(len(whose), "listener"), lacks),
		ways: ways.And("Or delete listeners that nobody uses."),
	}
	var parts []say.Text
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if name == "" {
			parts = append(parts, say.F("%d by hand", by[name]))
		} else {
			parts = append(parts, say.F("%d for %s", by[name], name))
		}
	}
	if len(parts) > 0 {
		u.says = u.says.And("The listeners were created: %s.", say.Clauses(parts, 5))
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		u.ways = u.ways.And("Or give the Service its own load balancer: delete it and recreate it without the annotation %sid.", ccm.Prefix).
			And("Its address changes, and the load balancer costs money.")
	}
	return u, nil
}
