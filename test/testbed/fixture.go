package testbed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// A Fixture is a Service in a testbed with the failure that it gets, or a node, or the cluster.
//
// What it says of lbremedy supposes fix mode with a policy that allows low risk,
// high risk for tag-missing and medium for ram-permission, vswitch-not-found and zone-shortage.
type Fixture struct {
	Name    string       // of the failure, in short
	Service string       // empty in what a function such as [Gone] returns: As names it
	Kind    string       // of what fails, as event has them; empty: a Service. What stands as Service is then a short name of it
	Class   string       // of the failure
	Story   string       // what went wrong, as a sentence
	Says    string       // stands in the controller's event
	Ends    event.Result // how lbremedy ends it, or waiting if it first sees whether it passes
	Heals   bool         // the Service works in the end
	Config  Config       // of the testbed that it needs

	until    string    // release from which on the controller does not fail so; empty: it always does
	picks    bool      // depends on the vSwitch that the controller picks, which a real one does by chance
	later    bool      // inject creates the Service, although there is something to prepare
	restarts bool      // comes to light with a fresh controller only
	prepare  operation // nil: there is nothing before
	inject   operation
	repair   operation // what a person does about it; nil: nothing simple
}

// As returns the fixture with another Service.
func (f Fixture) As(service string) Fixture {
	f.Service = service
	return f
}

// Supported reports whether the controller that there is can fail so. The simulated
// one can fail in all ways; a real one is of one release, and its clock is its own.
func (f Fixture) Supported() bool {
	bin, version := controller.Real()
	released := f.Config.Version == "" || f.Config.Version == version
	return bin == "" || released && f.Config.Speed == 0 && !f.picks && (f.until == "" || !controller.Since(version, f.until))
}

// All returns each fixture of a Service once, with its name for the Service: at least one of
// each class that answers for Services.
func All() []Fixture {
	all := slices.Concat(
		vswitchFixtures(), identityFixtures(), reuseFixtures(), backendFixtures(), nodeFixtures(), accountFixtures(), permissionFixtures(),
		driftFixtures(), declared(), []Fixture{Unheard()},
	)
	for i, f := range all {
		all[i] = f.As(f.Name)
	}
	return all
}

// Others returns each fixture of nodes and of the cluster once, as All does. Each needs a cluster of its own: Events about them
// lie in one namespace.
func Others() []Fixture {
	return []Fixture{NoRoute().As("denied-route"), NoRoutes().As("denied-routes")}
}

// Of returns all fixtures of these classes.
func Of(classes ...string) []Fixture {
	return slices.DeleteFunc(append(All(), Others()...), func(f Fixture) bool { return !slices.Contains(classes, f.Class) })
}

// ByConfig groups fixtures by the testbed that they need, in the order in which the
// configs are met first.
func ByConfig(fixtures []Fixture) [][]Fixture {
	var groups [][]Fixture
	for _, f := range fixtures {
		i := slices.IndexFunc(groups, func(g []Fixture) bool { return g[0].Config == f.Config })
		if i < 0 {
			groups = append(groups, []Fixture{f})
			continue
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// Bulk returns a fixture n times, for Services with this name and a number.
func Bulk(f Fixture, name string, n int) []Fixture {
	digits := len(fmt.Sprint(n - 1))
	fixtures := make([]Fixture, n)
	for i := range fixtures {
		number := fmt.Sprint(i)
		fixtures[i] = f.As(name + "-" + strings.Repeat("0", digits-len(number)) + number)
	}
	return fixtures
}
