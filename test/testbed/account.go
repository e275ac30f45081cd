package testbed

import (
	"context"
	"maps"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	throttled   = "throttling"
	quota       = "quota"
	credentials = "credentials"
)

func accountFixtures() []Fixture {
	slow := Config{Own: "flow control", Speed: 50}
	// One call in a quarter of an hour; each sync needs two.
	crawling := func(product, action string) operation {
		return account(func(st *sim.State) {
			q := sim.Quota{
				Product:  product,
				Name:     action,
				Code:     "q_" + product + "_flow",
				Category: "FlowControl",
				Total:    1,
				Period:   sim.Duration(15 * time.Minute),
			}
			st.Quotas = append(st.Quotas, q)
		})
	}
	running := account(func(st *sim.State) {
		for i := range st.Quotas {
			if st.Quotas[i].Category == "FlowControl" {
				st.Quotas[i].Total = 1000
			}
		}
	})
	disown := account(func(st *sim.State) {
		maps.DeleteFunc(st.Callers, func(_ string, c *sim.Caller) bool { return c.Name == controllerName })
	})
	acknowledge := func(_ context.Context, tb *Testbed, _ string) error {
		tb.Cloud.Edit(func(st *sim.State) {
			st.Callers[tb.key.AccessKeyID] = &sim.Caller{Name: controllerName, Secret: tb.key.Secret, Role: masterRole}
		})
		return nil
	}
	return []Fixture{
		{
			Name: "throttled", Class: throttled, Says: "Request was denied due to user flow control.", Ends: event.Waiting, Config: slow,
			Story:  "It is created while the account has made as many calls as it may.",
			inject: inOrder(crawling("slb", "DescribeLoadBalancers"), created()), repair: running,
		},
		{
			Name: "throttled-nlb", Class: throttled, Says: "Request was denied due to api flow control.", Ends: event.Waiting, Config: slow,
			Story:  "It is created with an NLB while the account has made as many calls as it may.",
			inject: inOrder(crawling("nlb", "ListLoadBalancers"), created(network)), repair: running,
		},
		{
			Name: "quota-balancers", Class: quota, Says: "Instance num exceeded Quota.", Ends: event.Asked, Config: limits,
			Story:  "It is created while the account has as many load balancers as it may.",
			inject: inOrder(account(func(st *sim.State) { limit(st, quotaBalancers, len(st.LoadBalancers)) }), created()),
			repair: account(func(st *sim.State) { limit(st, quotaBalancers, 60) }),
		},
		{
			Name: "quota-listeners", Class: quota, Says: "The maximum number of listeners is exceeded.", Ends: event.Asked,
			Story:  "It is created to use its owner's load balancer with all that is on it, which has 50 listeners.",
			inject: inOrder(lent(func(lb *sim.LoadBalancer) { lb.Listeners = listeners(50) }), created(borrows, with("force-override-listeners", "true"))),
			repair: balancer(func(lb *sim.LoadBalancer) { lb.Listeners = lb.Listeners[:49] }),
		},
		{
			Name: "quota-listeners-nlb", Class: quota, Says: "The quota of " + quotaNetworkListeners + " is exceeded", Ends: event.Asked,
			Story: "It is created to use its owner's NLB with all that is on it, which has 50 listeners.",
			inject: inOrder(
				lentNetwork(func(n *sim.NLB) { n.Listeners = networkListeners(50) }),
				created(network, bare, borrows, with("force-override-listeners", "true")),
			),
			repair: networkBalancer(func(_ *sim.State, n *sim.NLB) { n.Listeners = n.Listeners[:49] }),
		},
		{
			Name: "key-deleted", Class: credentials, Says: "Specified access key is not found.", Ends: event.Asked, Config: Config{Own: "no access key"},
			Story:  "It is created after somebody has deleted the controller's access key.",
			inject: inOrder(disown, created()), repair: acknowledge,
		},
		{
			Name: "key-deleted-nlb", Class: credentials, Says: "code: 404, Specified access key is not found.", Ends: event.Asked, Config: Config{Own: "no access key"},
			Story:  "It is created with an NLB after somebody has deleted the controller's access key.",
			inject: inOrder(disown, created(network)), repair: acknowledge,
		},
	}
}

// Unheard is a Service that the cloud rejects with an unknown error: an injected fault, because no state of the cloud has that
// answer. Only this fixture of a testbed creates HTTP listeners.
func Unheard() Fixture {
	const says = "The listener profile does not match the generation of the instance."
	return Fixture{
		Name: "unheard", Class: event.Unclassified, Says: says, Ends: event.Asked,
		Story:  "It is created with an HTTP port, and the cloud refuses it for a reason that nobody has ever seen.",
		inject: inOrder(refused("CreateLoadBalancerHTTPListener", "ListenerProfileMismatch", says), created(with("protocol-port", "http:80"))),
		repair: accepted,
	}
}

func listeners(n int) []sim.Listener {
	var all []sim.Listener
	for i := range n {
		all = append(all, sim.Listener{Port: 1001 + i, Description: "the old shop", Status: "running"})
	}
	return all
}

func networkListeners(n int) []sim.NLBListener {
	var all []sim.NLBListener
	for i := range n {
		all = append(all, sim.NLBListener{Port: 1001 + i, Description: "the old shop"})
	}
	return all
}
