package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A use is how much of a limit is used.
type use struct {
	need float64 // that the limit must be at least
	says string  // the figures, as a clause
	ways string  // what else helps, as sentences
}

// others are what else helps with limits that only the quota center counts.
var others = map[string]string{
	"slb_quota_certs_num":                  "Delete certificates that no listener uses, or let several Services use one by the annotation cert-id.",
	"slb_quota_acls_num":                   "Delete access control lists that no listener uses, or let several Services use one by the annotation acl-id.",
	"slb_quota_backendserver_attached_num": "Let several Services share a load balancer by the annotation id, or let each use some nodes alone by the annotation backend-label.",
	"vpc_quota_route_entrys_num":           "Delete routes that nobody uses. With Flannel each node needs one: a cluster with Terway needs none.",
}

// count counts how much of a limit is used. What can be listed is counted here: of
// a limit that is for each load balancer the quota center shows nothing as used.
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
		return oneMore(c, "CLB", tags, limit), nil
	case networkBalancers:
		all, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{})
		if err != nil {
			return use{}, fmt.Errorf("list NLBs: %w", err)
		}
		for _, lb := range all {
			tags = append(tags, lb.Tags)
		}
		return oneMore(c, "NLB", tags, limit), nil
	case listeners, networkListeners:
		return ports(ctx, c)
	}
	u := use{
		need: limit.Used + 1,
		says: fmt.Sprintf("the quota center counts %s as used", number(limit.Used)),
		ways: "Delete what nobody uses of it.",
	}
	if ways, ok := others[limit.Name]; ok {
		u.ways = ways
	}
	return u, nil
}

// oneMore counts load balancers, of which the Service needs one more.
func oneMore(c *remedy.Case, kind string, tags []map[string]string, limit cloud.Quota) use {
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
	return use{
		need: float64(used) + 1,
		says: fmt.Sprintf("the account has %s in %s, of which controllers made %d for this cluster and %d for others", ccm.Count(used, kind), c.Cloud.Region(), here, elsewhere),
		ways: fmt.Sprintf("Delete load balancers that nobody uses, or let the Service use one that exists, on which its ports are free: %s.", ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID")),
	}
}

// ports counts the listeners of the Service's load balancer, and those that it is
// to have.
func ports(ctx context.Context, c *remedy.Case) (use, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return use{}, err
	}
	const split = "Split the Service into several with fewer ports each"
	if lb == nil {
		n := len(c.Service.Spec.Ports)
		return use{need: float64(n), says: fmt.Sprintf("the Service has %s, and its load balancer was not found", ccm.Count(n, "port")), ways: split + "."}, nil
	}
	whose := map[string]string{} // what describes a listener, by protocol and port
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
	lacks, by := 0, map[string]int{}
	for _, p := range c.Service.Spec.Ports {
		if !taken[int(p.Port)] {
			lacks++
		}
	}
	for _, description := range whose {
		name := "people"
		if t, ok := ccm.ParseTrace(description); ok {
			name = t.String()
		}
		by[name]++
	}
	u := use{
		need: float64(len(whose) + lacks),
		says: fmt.Sprintf("the load balancer %s has %s, and the Service needs %d more", lb.ID, ccm.Count(len(whose), "listener"), lacks),
		ways: split + ", or delete listeners that nobody uses.",
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", name, by[name]))
	}
	if len(parts) > 0 {
		u.says += "; they are of " + remedy.List(parts, 5)
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		u.ways += fmt.Sprintf(" Or give the Service a load balancer of its own: delete it and create it again without the annotation %sid; its address changes, and the load balancer costs.", ccm.Prefix)
	}
	return u, nil
}
