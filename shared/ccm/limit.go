package ccm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Limit is one of the account's limits, with the usual value if the quota center does not list it
// (https://www.alibabacloud.com/help/en/slb/classic-load-balancer/product-overview/limits).
type Limit struct {
	Name  string // in the quota center
	Usual float64
}

// The limits on load balancers, and on the routes of a Flannel cluster.
var (
	LimitCLBs         = Limit{"slb_quota_instances_num", 60}
	LimitListeners    = Limit{"slb_quota_listeners_num", 50}
	LimitBackends     = Limit{"slb_quota_backendservers_num", 200}
	LimitAttached     = Limit{"slb_quota_backendserver_attached_num", 50}
	LimitNLBs         = Limit{"nlb_quota_loadbalancers_num", 60}
	LimitNLBListeners = Limit{"nlb_quota_loadbalancer_listeners_num", 50}
	LimitNLBGroups    = Limit{"nlb_quota_servergroups_num", 500}
	LimitNLBBackends  = Limit{"nlb_quota_loadbalancer_noeci_servers_num", 400}
	LimitRoutes       = Limit{"vpc_quota_route_entrys_num", 200}
)

// Limit reads one of the account's limits, or nil if the region has none of this name. It needs ListProductQuotas.
func (c *View) Limit(ctx context.Context, product, name string) (*cloud.Quota, error) {
	limit, err := c.Cloud.Quotas.Named(ctx, product, name)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the limit %s: %w", name, err)
	}
	return &limit, nil
}

// A Shortage is the limit that a failure is about.
type Shortage struct {
	Hint  Hint          // what the message says
	Limit *cloud.Quota  // nil if it could not be determined
	Use   Use           // of the limit
	Full  []cloud.Quota // the limits that are used up, if the hint names no limit of the product
	All   int           // the number of the product's limits, if the hint names none of them
}

// Exceeded reports whether the Service is known to need more than the limit.
func (f Shortage) Exceeded() bool { return f.Limit != nil && f.Use.Need > f.Limit.Total }

// Shortage determines which limit a message, which is only a hint, is about, and its use. It needs ListProductQuotas and what Use needs.
func (c *View) Shortage(ctx context.Context, message string) (Shortage, error) {
	f := Shortage{Hint: HintOf(message, NLB(c.Service))}
	var err error
	if f.Hint.Name != "" {
		f.Limit, err = c.Limit(ctx, f.Hint.Product, f.Hint.Name)
	}
	if err == nil && f.Limit == nil {
		err = c.choose(ctx, &f)
	}
	if err == nil && f.Limit != nil {
		f.Use, err = c.Use(ctx, *f.Limit)
	}
	return f, err
}

// choose takes the limit that the message names in another form, or else the only limit that is used up.
func (c *View) choose(ctx context.Context, f *Shortage) error {
	list, err := c.Cloud.Quotas.List(ctx, f.Hint.Product, cloud.CommonQuota, "")
	if err != nil {
		return fmt.Errorf("list the limits of %s: %w", f.Hint.Product, err)
	}
	for i := range list {
		q := &list[i]
		if of, ok := q.Dimensions["regionId"]; ok && of != c.Cloud.Region() {
			continue
		}
		f.All++
		if f.Hint.Fits(*q) {
			f.Limit = q
			return nil
		}
		if q.Total > 0 && q.Used >= q.Total {
			f.Full = append(f.Full, *q)
		}
	}
	if len(f.Full) == 1 && f.Hint.Name == "" {
		f.Limit = &f.Full[0]
	}
	return nil
}

// Meets reports whether a sync of the Service can exceed the limit: it makes a load balancer unless the Service names one, listeners, and for
// an NLB server groups of the region (nlbv2/server_groups.go). It makes no certificates and no access control lists.
func Meets(svc *corev1.Service, limit string) bool {
	id, _ := Annotation(svc, BalancerID)
	switch limit {
	case LimitCLBs.Name:
		return !NLB(svc) && id == ""
	case LimitNLBs.Name:
		return NLB(svc) && id == ""
	case LimitListeners.Name:
		return !NLB(svc)
	case LimitNLBListeners.Name, LimitNLBGroups.Name:
		return NLB(svc)
	}
	return false
}

// A Use is how much of a limit is used.
type Use struct {
	Need float64  // the least limit with which the Service fits
	Text say.Text // the figures
	Ways say.Text // what helps besides a higher limit
}

// Use counts how much of a limit is used, and what the Service needs. It counts what can be listed: the quota center shows limits per load
// balancer as unused. It needs BoundReads and DescribeLoadBalancerListeners, and NetworkReads.
func (c *View) Use(ctx context.Context, limit cloud.Quota) (Use, error) {
	switch limit.Name {
	case LimitCLBs.Name, LimitNLBs.Name:
		n, err := c.Census(ctx, limit.Name == LimitNLBs.Name)
		return c.oneMore(n, limit), err
	case LimitListeners.Name, LimitNLBListeners.Name:
		lb, err := c.Bound(ctx)
		if err != nil || lb == nil {
			return c.listening(nil, nil), err
		}
		all, err := c.Listeners(ctx, lb)
		return c.listening(lb, all), err
	}
	return counted(limit), nil
}

var savings = map[string]say.Text{
	LimitCerts.Name: say.F("Delete certificates that no listener uses, or share one between several Services with the annotation cert-id."),
	LimitACLs.Name:  say.F("Delete access control lists that no listener uses, or share one between several Services with the annotation acl-id."),
	LimitAttached.Name: say.F("Share a load balancer between several Services with the annotation id.").
		And("Or limit each Service to some of the nodes with the annotation backend-label."),
	LimitRoutes.Name: say.F("Delete routes that nobody uses. With Flannel, each node needs a route. With Terway, none does."),
}

func counted(limit cloud.Quota) Use {
	u := Use{
		Need: limit.Used + 1,
		Text: say.F("The quota center counts %s as used.", say.Figure(limit.Used)),
		Ways: savings[limit.Name],
	}
	if len(u.Ways) == 0 {
		u.Ways = say.F("Delete what nobody uses.")
	}
	return u
}

func (c *View) oneMore(n Census, limit cloud.Quota) Use {
	used := max(n.All, int(limit.Used))
	has := say.Count(used, "CLB")
	if limit.Name == LimitNLBs.Name {
		has = say.Count(used, "NLB")
	}
	return Use{
		Need: float64(used) + 1,
		Text: say.F("The account has %s in %s. Controllers created %d for this cluster and %d for others.", has, c.Cloud.Region(), n.Here, n.Elsewhere),
		Ways: say.F("Delete load balancers that nobody uses.").
			And("Or let the Service use an existing one on which its ports are free: %s.", SetCommand(c.Service, "id", "LOAD-BALANCER-ID")),
	}
}

func (c *View) listening(lb *Instance, all []Listener) Use {
	ways := say.F("Split the Service into several with fewer ports each.")
	if lb == nil {
		n := len(c.Service.Spec.Ports)
		return Use{Need: float64(n), Text: say.F("The Service has %s. Its load balancer was not found.", say.Count(n, "port")), Ways: ways}
	}
	var t Tally
	for _, l := range all {
		t.Add(l.Description, 1, c.Service, c.Cluster)
	}
	lacks := len(Unlistened(c.Service, all))
	u := Use{
		Need: float64(len(all) + lacks),
		Text: say.F("The load balancer %s has %s, and the Service needs %d more.", lb.ID, say.Count(len(all), "listener"), lacks),
		Ways: ways.And("Or delete listeners that nobody uses."),
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
		u.Text = u.Text.And("The listeners were created: %s.", say.Clauses(parts, 5))
	}
	if id, _ := Annotation(c.Service, "id"); id != "" {
		u.Ways = u.Ways.And("Or give the Service its own load balancer: delete it and recreate it without the annotation %sid.", Prefix).
			And("Its address changes, and the load balancer costs money.")
	}
	return u
}
