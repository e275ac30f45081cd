package scene

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// A Scene is one way for a Service to fail.
//
// What lbremedy makes of it supposes fix mode with a policy that allows low risk,
// high risk for tag-missing and medium for ram-permission.
type Scene struct {
	Name  string       // in short; a Service can be called so
	Class string       // of the failure
	Story string       // what went wrong, as a sentence
	Says  string       // stands in the controller's event
	Ends  event.Result // how lbremedy ends it, or waiting if it first sees whether it passes
	Heals bool         // the Service works in the end
	On    Setting      // what the stage has to be

	until    string // release from which on the controller does not fail so; empty: it always does
	picks    bool   // depends on the vSwitch that the controller picks, which a real one does by chance
	later    bool   // the Service is created in Spoil, although there is something to prepare
	restarts bool   // comes to light with a fresh controller only
	prepare  deed   // nil: there is nothing before
	spoil    deed
	mend     deed // what a person does about it; nil: nothing simple
}

// Playable reports whether the scene can be played with the controller that there
// is. The simulated one plays all; a real one is of one release, and its clock is
// its own.
func (s Scene) Playable() bool {
	bin, version := controller.Real()
	released := s.On.Version == "" || s.On.Version == version
	return bin == "" || released && s.On.Speed == 0 && !s.picks && (s.until == "" || !controller.Since(version, s.until))
}

// A Role is a scene with the name of the Service that plays it.
type Role struct {
	Scene
	Service string
}

// As returns the scene with a Service for it.
func (s Scene) As(service string) Role { return Role{s, service} }

// All returns each scene once: at least one of each class.
func All() []Scene {
	return slices.Concat(
		vswitchScenes(), identityScenes(), reuseScenes(), backendScenes(), nodeScenes(), accountScenes(), permissionScenes(),
		driftScenes(), scripted(), []Scene{Unheard()},
	)
}

// Of returns the roles of all scenes of these classes, each played by a Service
// that is called like the scene.
func Of(classes ...string) []Role {
	var roles []Role
	for _, s := range All() {
		if slices.Contains(classes, s.Class) {
			roles = append(roles, s.As(s.Name))
		}
	}
	return roles
}

// Casts sorts roles by the stage that they need, in the order in which the
// settings are met first.
func Casts(roles []Role) [][]Role {
	var casts [][]Role
	for _, r := range roles {
		i := slices.IndexFunc(casts, func(c []Role) bool { return c[0].On == r.On })
		if i < 0 {
			casts = append(casts, []Role{r})
			continue
		}
		casts[i] = append(casts[i], r)
	}
	return casts
}

// Bulk returns n roles of a scene, for Services with this name and a number.
func Bulk(s Scene, name string, n int) []Role {
	digits := len(fmt.Sprint(n - 1))
	roles := make([]Role, n)
	for i := range roles {
		number := fmt.Sprint(i)
		roles[i] = s.As(name + "-" + strings.Repeat("0", digits-len(number)) + number)
	}
	return roles
}
