package testbed

import (
	"fmt"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	full     = "vswitch-ip-exhausted"
	notFound = "vswitch-not-found"
)

const saysFull = "The specified VSwitch has no available ip."

var lateConfig = Config{Version: "v2.14.0", Terway: true}

// FullVSwitch is a Service that requests an address in a full vSwitch.
func FullVSwitch(vswitch string) Fixture {
	return Fixture{
		Name: "vswitch-full", Class: full, Says: saysFull, Ends: event.Fixed, Heals: true,
		Story:  fmt.Sprintf("It is created in the vSwitch %s, which has no free address.", vswitch),
		inject: created(with("address-type", "intranet", "vswitch-id", vswitch)),
		repair: annotated("vswitch-id", RoomyVSwitchI),
	}
}

// AnyVSwitch is a Service for which the controller chooses a full vSwitch. Since v2.13.0 the controller then tries another one.
func AnyVSwitch() Fixture {
	return Fixture{
		Name: "vswitch-any", Class: full, Says: saysFull, Ends: event.Fixed, Heals: true,
		Story: "It is created without a vSwitch, and the controller picks one that is full.",
		until: "v2.13.0", picks: true,
		inject: created(with("address-type", "intranet")),
		repair: annotated("vswitch-id", RoomyVSwitchI),
	}
}

// FixedAddress is a Service that requests a particular address of a full vSwitch, which other vSwitches cannot have.
func FixedAddress() Fixture {
	return Fixture{
		Name: "vswitch-address", Class: full, Says: saysFull, Ends: event.Asked,
		Story:  fmt.Sprintf("It asks for one certain address in %s, which is full.", FullVSwitchH),
		inject: created(with("address-type", "intranet", "vswitch-id", FullVSwitchH, "ip", "10.0.0.40")),
		repair: annotated("vswitch-id", RoomyVSwitchI, "ip", ""),
	}
}

func vswitchFixtures() []Fixture {
	return []Fixture{
		FullVSwitch(FullVSwitchH), AnyVSwitch(), FixedAddress(),
		{
			Name: "vswitch-full-nlb", Class: full, Says: "The specified resource of VSwitchIp is not enough.", Ends: event.Fixed, Heals: true,
			Story:  "Its NLB is to have an address in a vSwitch that is full.",
			inject: created(with("zone-maps", zoneI+":"+FullVSwitchI), network),
			repair: annotated("zone-maps", zoneI+":"+RoomyVSwitchI),
		},
		{
			Name: "vswitch-full-all", Class: full, Says: "no available vsw found", Ends: event.Asked, Config: lateConfig,
			Story: "It is created without a vSwitch, and all that the controller knows are full.",
			inject: inOrder(account(func(st *sim.State) {
				st.VSwitches[SmallVSwitchH].Free, st.VSwitches[RoomyVSwitchI].Free = new(0), new(0)
			}), created(with("address-type", "intranet"))),
			repair: account(func(st *sim.State) { st.VSwitches[RoomyVSwitchI].Free = new(50) }),
		},
		{
			Name: "vswitch-gone", Class: notFound, Says: "The specified VSwitch does not exist.", Ends: event.Asked,
			Story:  "It is created in a vSwitch that does not exist.",
			inject: created(with("address-type", "intranet", "vswitch-id", "vsw-of-yesteryear")),
			repair: annotated("vswitch-id", RoomyVSwitchI),
		},
		{
			Name: "vswitch-gone-zone", Class: notFound, Says: "The specified VSwitch does not exist.", Ends: event.Fixed, Heals: true,
			Story:  "It is created in a vSwitch that does not exist, and names its zone.",
			inject: created(with("address-type", "intranet", "vswitch-id", "vsw-of-last-spring", "master-zoneid", zoneI)),
			repair: annotated("vswitch-id", RoomyVSwitchI),
		},
		{
			Name: "vswitch-gone-nlb", Class: notFound, Says: "The specified resource of vSwitch is not found.", Ends: event.Fixed, Heals: true,
			Story:  "Its NLB is to have an address in a vSwitch that does not exist.",
			inject: created(with("zone-maps", zoneI+":vsw-of-last-autumn"), network),
			repair: annotated("zone-maps", zoneI+":"+RoomyVSwitchI),
		},
		{
			Name: "vswitch-deleted", Class: notFound, Says: "The specified VSwitch does not exist.", Ends: event.Fixed, Heals: true,
			Config: Config{Own: "default vSwitch deleted"},
			picks:  true,
			Story:  "It is created without a vSwitch, and somebody has deleted the one that the controller puts load balancers into.",
			inject: inOrder(account(func(st *sim.State) { delete(st.VSwitches, FullVSwitchH) }), created(with("address-type", "intranet"))),
			repair: annotated("vswitch-id", RoomyVSwitchI),
		},
	}
}
