package scene

import (
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const permission = "ram-permission"

const (
	saysDenied        = "User not authorized to operate on the specified resource, or this API doesn't support RAM."
	saysNetworkDenied = "Authentication is failed for NoPermission."
)

// allowed gives the controller's role back what it has lost.
func allowed() deed {
	return account(func(st *sim.State) {
		p := st.Policies[rolePolicy]
		for i := range p.Versions {
			p.Versions[i].Default = p.Versions[i].ID == wholeVersion
		}
	})
}

// NoListener is a new Service for which the controller may not make the
// listener, since its role's policy was set back to an older document.
func NoListener() Scene {
	return Scene{
		Name: "denied-listener", Class: permission, Says: saysDenied, Ends: event.Fixed, Heals: true,
		Story: "It is created with a UDP port, and the controller's RAM role has lost the right to UDP listeners.",
		spoil: inTurn(account(impoverish), created(datagrams)),
		mend:  allowed(),
	}
}

// NoTagging is a synced Service whose load balancer lost the tag and kept its
// name: the controller would put the tag back, and may not.
func NoTagging() Scene {
	return Scene{
		Name: "denied-tag", Class: permission, Says: saysDenied, Ends: event.Fixed, Heals: true,
		Story:   "Its load balancer loses the tag, and the controller's RAM role has lost the right to put it back.",
		prepare: created(),
		spoil:   inTurn(account(impoverish), balancer(func(lb *sim.LoadBalancer) { delete(lb.Tags, nameTag) }), touched),
		mend:    allowed(),
	}
}

func permissionScenes() []Scene {
	poor := Setting{Own: "older policy"}
	scenes := []Scene{
		NoListener(), NoTagging(),
		{
			// Whoever extends the policy lets the addresses change, which is of high risk.
			On:   Setting{Own: "older policy, and a change that waits"},
			Name: "denied-type-nlb", Class: permission, Says: saysNetworkDenied, Ends: event.Asked,
			Story:   "Its NLB is to have private addresses, and the controller's RAM role has lost the right to change that.",
			prepare: created(network),
			spoil:   inTurn(account(impoverish), annotated("address-type", "intranet")),
			mend:    allowed(),
		},
		{
			Name: "denied-upgrade-nlb", Class: permission, Says: saysNetworkDenied, Ends: event.Fixed, Heals: true, restarts: true,
			On:    Setting{Version: "v2.11.2", Upgrade: "v2.12.1", Own: "policy of before"},
			Story: "It is created with an NLB after an upgrade of the controller, whose RAM policy stayed as it was.",
			spoil: inTurn(account(func(st *sim.State) {
				p := st.Policies[rolePolicy]
				p.Versions[0].Document = document(without(newInUse))
				impoverish(st)
			}), created(network)),
			mend: allowed(),
		},
	}
	scenes[0].On, scenes[1].On = poor, poor
	return scenes
}
