package testbed

import (
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const permission = "ram-permission"

const (
	saysDenied        = "User not authorized to operate on the specified resource, or this API doesn't support RAM."
	saysNetworkDenied = "Authentication is failed for NoPermission."
)

func allowed() operation {
	return account(func(st *sim.State) {
		p := st.Policies[rolePolicy]
		for i := range p.Versions {
			p.Versions[i].Default = p.Versions[i].ID == wholeVersion
		}
	})
}

// NoListener is a new Service whose listener the controller may not create, because its role's policy was reset to an older document.
func NoListener() Fixture {
	return Fixture{
		Name: "denied-listener", Class: permission, Says: saysDenied, Ends: event.Fixed, Heals: true,
		Story:  "It is created with a UDP port, and the controller's RAM role has lost the right to UDP listeners.",
		inject: inOrder(account(impoverish), created(datagrams)),
		repair: allowed(),
	}
}

// NoTagging is a synced Service whose load balancer lost the tag and kept its name: the controller would restore the tag, but may not.
func NoTagging() Fixture {
	return Fixture{
		Name: "denied-tag", Class: permission, Says: saysDenied, Ends: event.Fixed, Heals: true,
		Story:   "Its load balancer loses the tag, and the controller's RAM role has lost the right to put it back.",
		prepare: created(),
		inject:  inOrder(account(impoverish), balancer(func(lb *sim.LoadBalancer) { delete(lb.Tags, nameTag) }), touched),
		repair:  allowed(),
	}
}

func permissionFixtures() []Fixture {
	poor := Config{Own: "older policy"}
	fixtures := []Fixture{
		NoListener(), NoTagging(),
		{
			// Extending the policy also makes the controller change the addresses, which is of high risk.
			Config: Config{Own: "older policy, and a change that waits"},
			Name:   "denied-type-nlb", Class: permission, Says: saysNetworkDenied, Ends: event.Asked,
			Story:   "Its NLB is to have private addresses, and the controller's RAM role has lost the right to change that.",
			prepare: created(network),
			inject:  inOrder(account(impoverish), annotated("address-type", "intranet")),
			repair:  allowed(),
		},
		{
			Name: "denied-upgrade-nlb", Class: permission, Says: saysNetworkDenied, Ends: event.Fixed, Heals: true, restarts: true,
			Config: Config{Version: "v2.11.2", Upgrade: "v2.12.1", Own: "policy of before"},
			Story:  "It is created with an NLB after an upgrade of the controller, whose RAM policy stayed as it was.",
			inject: inOrder(account(func(st *sim.State) {
				p := st.Policies[rolePolicy]
				p.Versions[0].Document = document(without(newInUse))
				impoverish(st)
			}), created(network)),
			repair: allowed(),
		},
	}
	fixtures[0].Config, fixtures[1].Config = poor, poor
	return fixtures
}
