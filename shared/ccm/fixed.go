package ccm

import "github.com/lbremedy/lbremedy/shared/say"

// A Fixed is an annotation whose value is fixed when a load balancer is created. A later change fails each sync, or does not do what it seems to.
type Fixed struct {
	Name    string   // short, of the annotation
	What    say.Text // for people
	Made    string   // the value at creation without the annotation; empty if it varies
	Unset   string   // the value that the controller expects later without the annotation; empty: any
	Effect  say.Text // the effect of another value
	Instead say.Text // what to do instead of changing the value
	List    bool     // the value is a list, and no item may be removed
	of      kind
}

// FixedAnnotations returns the fixed annotations of NLBs (network) or CLBs.
func FixedAnnotations(network bool) []Fixed {
	var list []Fixed
	for _, f := range fixed {
		if f.of == both || (f.of == nlb) == network {
			list = append(list, f)
		}
	}
	return list
}

var (
	failing = say.F("The load balancer keeps what it was created as, so every full sync of the Service fails.").
		And("Other changes of its annotations still take effect.").
		And("The controller repeats the full sync at least every 5 minutes, and each one overwrites manual changes.")
	another = say.F("Leave the annotation as it is. To get another one, create a second Service, move the traffic, and delete this one.")
)

// The controller compares these in Update (clbv1/loadbalancer.go, nlbv2/loadbalancer.go, v2.9.1 to v2.14.0), which collects its errors and goes
// on, beside groups and listeners. Only the cleanup, the status and the label with the hash are left out. The controller reads vswitch-id only to create a CLB.
// If zone-maps has a part that the NLB lacks, it sends the whole list (UpdateLoadBalancerZones) without the removed zones.
var fixed = []Fixed{
	{Name: "address-type", What: say.F("address type"), of: clb, Made: "internet", Effect: failing, Instead: another},
	{Name: "resource-group-id", What: say.F("resource group"), of: both, Effect: failing,
		Instead: say.F("Leave the annotation as it is, or remove it. Resource Management moves a load balancer to another resource group.")},
	{Name: ChargeType, What: say.F("charge type"), of: clb,
		Effect:  say.F("A change to %s interrupts the traffic and cannot be undone. After a change to anything else, every full sync fails.", PayByLCU),
		Instead: say.F("Change the charge type at a time when an interruption does no harm.")},
	{Name: VSwitchID, What: say.F("vSwitch"), of: clb, Instead: another,
		Effect: say.F("A load balancer never leaves its vSwitch: the annotation has no effect, and its value is wrong.")},
	{Name: MasterZone, What: say.F("primary zone"), of: clb, Effect: failing, Instead: another},
	{Name: SlaveZone, What: say.F("standby zone"), of: clb, Effect: failing, Instead: another},
	{Name: "ip-version", What: say.F("IP version"), of: clb, Made: "ipv4", Unset: "ipv4", Effect: failing, Instead: another},
	{Name: "ip-version", What: say.F("IP version"), of: nlb, Made: "ipv4", Effect: failing, Instead: another},
	{Name: "network-type", What: say.F("network type"), of: clb, Effect: failing, Instead: another},
	{Name: "ip", What: say.F("address"), of: clb, Effect: failing, Instead: another},
	{Name: ZoneMap, What: say.F("zones"), of: nlb, List: true,
		Effect: say.F("An NLB leaves a zone that is removed here only when another part changes, too.").
			And("Then the address of that zone is lost, with its connections."),
		Instead: say.F("Keep the zones that the NLB has, and only add some.")},
}
