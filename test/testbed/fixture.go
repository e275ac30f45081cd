package testbed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// A Fixture is a Service in a testbed with an injected failure, or a node or the cluster. Results assume fix mode with a policy
// that allows low risk, high risk for tag-missing and medium risk for ram-permission, vswitch-not-found and zone-shortage.
type Fixture struct {
	Name    string       // short name of the failure
	Service string       // empty in functions such as [Gone]; As sets it
	Kind    string       // of the failing object, as in package event; empty: a Service. Otherwise Service is a short name of the object
	Class   string       // of the failure
	Story   string       // the cause, as a sentence
	Says    string       // part of the controller's Event
	Ends    event.Result // lbremedy's result, or waiting if it first waits for the failure to pass
	Heals   bool         // the Service works in the end
	Config  Config       // required testbed

	until    string    // first release of the controller that does not fail this way; empty: all do
	picks    bool      // depends on the controller's choice of a vSwitch, which is random in a real one
	later    bool      // inject creates the Service, although it has preparations
	restarts bool      // appears only with a restarted controller
	prepare  operation // nil: no preparation
	inject   operation
	repair   operation // a person's repair; nil: nothing simple
}

// As returns the fixture with another Service name.
func (f Fixture) As(service string) Fixture {
	f.Service = service
	return f
}

// Supported reports whether the controller in use can fail this way. The simulated one can fail in all ways; a real one has one
// release and the real clock.
func (f Fixture) Supported() bool {
	bin, version := controller.Real()
	released := f.Config.Version == "" || f.Config.Version == version
	return bin == "" || released && f.Config.Speed == 0 && !f.picks && (f.until == "" || !controller.Since(version, f.until))
}

// All returns each fixture of a Service once, named like its Service: at least one of each class that handles Services.
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

// Others returns each fixture of nodes and the cluster once. Each needs its own cluster: their Events share a namespace.
func Others() []Fixture {
	return []Fixture{NoRoute().As("denied-route"), NoRoutes().As("denied-routes")}
}

// Of returns all fixtures of these classes.
func Of(classes ...string) []Fixture {
	return slices.DeleteFunc(append(All(), Others()...), func(f Fixture) bool { return !slices.Contains(classes, f.Class) })
}

// ByConfig groups fixtures by the testbed that they need, in order of first occurrence.
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

// Bulk returns a fixture n times, for numbered Services.
func Bulk(f Fixture, name string, n int) []Fixture {
	digits := len(fmt.Sprint(n - 1))
	fixtures := make([]Fixture, n)
	for i := range fixtures {
		number := fmt.Sprint(i)
		fixtures[i] = f.As(name + "-" + strings.Repeat("0", digits-len(number)) + number)
	}
	return fixtures
}
