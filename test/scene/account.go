package scene

import (
	"context"
	"maps"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Classes of these scenes.
const (
	arrears     = "arrearage"
	balance     = "insufficient-balance"
	throttled   = "throttling"
	halted      = "shared-instance-discontinued"
	quota       = "quota"
	gate        = "account-gate"
	credentials = "credentials"
	busy        = "busy"
	soldOut     = "zone-shortage"
	blocked     = "deletion-blocked"
)

// accountScenes are those of an account that can't or may not do what is asked.
func accountScenes() []Scene {
	owing := Setting{Own: "unpaid bills"}
	slow := Setting{Own: "flow control", Speed: 50}
	roles := Setting{Own: "no service roles"}
	unpaid := account(func(st *sim.State) { st.Account.Arrearage = true })
	paid := account(func(st *sim.State) { st.Account.Arrearage = false })
	poor := account(func(st *sim.State) { st.Account.Balance = "56.78" })
	rich := account(func(st *sim.State) { st.Account.Balance = "1,056.78" })
	// One call in a quarter of an hour, and each sync needs two.
	crawling := func(product, action string) deed {
		return account(func(st *sim.State) {
			q := sim.Quota{Product: product, Name: action, Code: "q_" + product + "_flow", Category: "FlowControl", Total: 1, Period: sim.Duration(15 * time.Minute)}
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
	acknowledge := func(_ context.Context, s *Stage, _ string) error {
		s.Cloud.Edit(func(st *sim.State) {
			st.Callers[s.key.AccessKeyID] = &sim.Caller{Name: controllerName, Secret: s.key.Secret, Role: masterRole}
		})
		return nil
	}
	return []Scene{
		{
			Name: "unpaid", Class: arrears, Says: "The account is arrearage.", Ends: event.Asked, On: owing,
			Story: "It is created while bills of the account are unpaid.",
			spoil: inTurn(unpaid, created()), mend: paid,
		},
		{
			Name: "unpaid-nlb", Class: arrears, Says: "The operation failed because of UnpaidBill.", Ends: event.Asked, On: owing,
			Story: "It is created with an NLB while bills of the account are unpaid.",
			spoil: inTurn(unpaid, created(network)), mend: paid,
		},
		{
			Name: "broke", Class: balance, Says: "Your account does not have enough balance.", Ends: event.Asked, On: Setting{Own: "empty account"},
			Story: "It is created while the account has less than CNY 100.",
			spoil: inTurn(poor, created()), mend: rich,
		},
		{
			// All that NLB says of it is that the order was refused.
			Name: "broke-nlb", Class: balance, Says: "Operation failed because CreateOrderError.", Ends: event.Asked, On: Setting{Own: "empty account"},
			Story: "It is created with an NLB while the account has less than CNY 100.",
			spoil: inTurn(poor, created(network)), mend: rich,
		},
		{
			Name: "throttled", Class: throttled, Says: "Request was denied due to user flow control.", Ends: event.Waiting, On: slow,
			Story: "It is created while the account has made as many calls as it may.",
			spoil: inTurn(crawling("slb", "DescribeLoadBalancers"), created()), mend: running,
		},
		{
			Name: "throttled-nlb", Class: throttled, Says: "Request was denied due to api flow control.", Ends: event.Waiting, On: slow,
			Story: "It is created with an NLB while the account has made as many calls as it may.",
			spoil: inTurn(crawling("nlb", "ListLoadBalancers"), created(network)), mend: running,
		},
		{
			Name: "shared-halted", Class: halted, Says: "The share instance has been discontinued.", Ends: event.Asked, On: Setting{Version: "v1.9.3.376", Terway: true},
			Story: "It is created, and the controller is one of 2021 that asks for a shared-resource instance.",
			spoil: inTurn(account(func(st *sim.State) { st.Account.ShareInstanceHalt = true }), created()),
			mend:  annotated("spec", "slb.s1.small"),
		},
		{
			Name: "quota-balancers", Class: quota, Says: "Instance num exceeded Quota.", Ends: event.Asked, On: limits,
			Story: "It is created while the account has as many load balancers as it may.",
			spoil: inTurn(account(func(st *sim.State) { limit(st, quotaBalancers, len(st.LoadBalancers)) }), created()),
			mend:  account(func(st *sim.State) { limit(st, quotaBalancers, 60) }),
		},
		{
			Name: "quota-listeners", Class: quota, Says: "The maximum number of listeners is exceeded.", Ends: event.Asked,
			Story: "It is created to use its owner's load balancer with all that is on it, which has 50 listeners.",
			spoil: inTurn(lent(func(lb *sim.LoadBalancer) { lb.Listeners = listeners(50) }), created(borrows, with("force-override-listeners", "true"))),
			mend:  balancer(func(lb *sim.LoadBalancer) { lb.Listeners = lb.Listeners[:49] }),
		},
		{
			Name: "quota-listeners-nlb", Class: quota, Says: "The quota of " + quotaNetworkListeners + " is exceeded", Ends: event.Asked,
			Story: "It is created to use its owner's NLB with all that is on it, which has 50 listeners.",
			spoil: inTurn(lentNetwork(func(n *sim.NLB) { n.Listeners = networkListeners(50) }), created(network, bare, borrows, with("force-override-listeners", "true"))),
			mend:  networkBalancer(func(_ *sim.State, n *sim.NLB) { n.Listeners = n.Listeners[:49] }),
		},
		{
			Name: "gate-name", Class: gate, Says: "The account is not real name authentication.", Ends: event.Asked, On: Setting{Own: "account gated"},
			Story: "It is created for an account whose owner has not said who they are.",
			spoil: inTurn(account(func(st *sim.State) { st.Account.Gate = "ORDER.NO_REAL_NAME_AUTHENTICATION" }), created()),
			mend:  account(func(st *sim.State) { st.Account.Gate = "" }),
		},
		{
			Name: "gate-roles-nlb", Class: gate, Says: "because of ServiceLinkedRoleNotExist", Ends: event.Asked, On: roles,
			Story: "It is the first with an NLB, and nobody has made the role that the service needs.",
			spoil: inTurn(account(func(st *sim.State) { st.RAM.NoServiceRoles = true }), created(network)),
			mend:  account(func(st *sim.State) { st.RAM.NoServiceRoles = false }),
		},
		{
			// Of an NLB there is none: its errors name no zone that is sold out, and no
			// action lists what zones have:
			// https://www.alibabacloud.com/help/en/slb/api-createloadbalancer
			Name: "zone-sold-out", Class: soldOut, Says: "The operation failed because of resource limit of the specified zone.", Ends: event.Asked,
			Story: "It is created in a zone in which no load balancer can be made any more.",
			spoil: created(with("master-zoneid", soldZone)),
			mend:  annotated("master-zoneid", ""),
		},
		{
			Name: "key-deleted", Class: credentials, Says: "Specified access key is not found.", Ends: event.Asked, On: Setting{Own: "no access key"},
			Story: "It is created after somebody has deleted the controller's access key.",
			spoil: inTurn(disown, created()), mend: acknowledge,
		},
		{
			Name: "key-deleted-nlb", Class: credentials, Says: "code: 404, Specified access key is not found.", Ends: event.Asked, On: Setting{Own: "no access key"},
			Story: "It is created with an NLB after somebody has deleted the controller's access key.",
			spoil: inTurn(disown, created(network)), mend: acknowledge,
		},
		{
			// How long a load balancer takes to be configured is no state of the simulated cloud.
			Name: "busy", Class: busy, Says: "A previous configuration is pending; please try again later.", Ends: event.Waiting,
			Story:   "It is to have another name while its load balancer takes time to be configured.",
			prepare: created(),
			spoil:   inTurn(refused("SetLoadBalancerName", "ServiceIsConfiguring", ""), annotated("name", "shop")),
			mend:    accepted,
		},
		{
			Name: "busy-nlb", Class: busy, Says: "is being configured, please try again later", Ends: event.Waiting,
			Story:   "Its NLB is to have another name while somebody changes it in the console.",
			prepare: created(network),
			spoil:   inTurn(networkBalancer(func(_ *sim.State, n *sim.NLB) { n.Status = "Configuring" }), annotated("name", "shop")),
			mend:    networkBalancer(func(_ *sim.State, n *sim.NLB) { n.Status = "Active" }),
		},
	}
}

// deletionScenes are those of a Service that is to go and can't.
func deletionScenes() []Scene {
	return []Scene{
		{
			Name: "deletion-subscribed", Class: blocked, Says: "The prepay loadBalancer does not support this action.", Ends: event.Asked,
			Story:   "It is deleted after somebody has made its load balancer a subscription.",
			prepare: created(),
			spoil:   inTurn(balancer(func(lb *sim.LoadBalancer) { lb.PayType = "PrePay" }), deleted),
			mend:    balancer(func(lb *sim.LoadBalancer) { lb.PayType = "PayOnDemand" }),
		},
		{
			// Since v2.9.1 the controller turns the protection off before it deletes.
			Name: "deletion-protected-nlb", Class: blocked, Says: "The operation is not allowed because of DeletionProtectionEnabled.", Ends: event.Asked, On: Setting{Version: "v2.6.0"},
			Story:   "It is deleted after somebody has protected its NLB against that, and the controller is an old one.",
			prepare: created(network),
			spoil:   inTurn(networkBalancer(func(_ *sim.State, n *sim.NLB) { n.DeletionProtection = true }), deleted),
			mend:    networkBalancer(func(_ *sim.State, n *sim.NLB) { n.DeletionProtection = false }),
		},
	}
}

// Unheard is a Service that the cloud refuses for a reason that nobody has ever
// seen: such an answer is no state of the cloud, so here it is a fault. Of the
// scenes of a stage, only this one makes HTTP listeners.
func Unheard() Scene {
	const says = "The listener profile does not match the generation of the instance."
	return Scene{
		Name: "unheard", Class: event.Unclassified, Says: says, Ends: event.Asked,
		Story: "It is created with an HTTP port, and the cloud refuses it for a reason that nobody has ever seen.",
		spoil: inTurn(refused("CreateLoadBalancerHTTPListener", "ListenerProfileMismatch", says), created(with("protocol-port", "http:80"))),
		mend:  accepted,
	}
}
