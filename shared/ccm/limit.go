package ccm

// A Limit is one of the account's limits, with the usual value for when the quota center does not
// list it (https://www.alibabacloud.com/help/en/slb/classic-load-balancer/product-overview/limits).
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
	LimitNLBBackends  = Limit{"nlb_quota_loadbalancer_noeci_servers_num", 400}
	LimitRoutes       = Limit{"vpc_quota_route_entrys_num", 200}
)
