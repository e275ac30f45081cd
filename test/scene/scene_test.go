package scene

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/events/table"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// TestScenes plays each scene and looks whether the controller's own event is of
// the scene's class.
func TestScenes(t *testing.T) {
	c := cluster.Join(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{Cluster: c, Namespace: c.Namespace(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var roles []Role
	for i, scene := range All() {
		roles = append(roles, scene.As(fmt.Sprintf("s%d", i)))
	}
	if err := s.Play(ctx, roles...); err != nil {
		t.Fatal(err)
	}
	classes := events.NewClassifier(table.Table())
	for _, r := range roles {
		at, message := s.Failed(r.Service)
		got := classes.Classify(events.Input{Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: message})
		if got.Class != r.Class || at.IsZero() {
			t.Errorf("%s: %q is of class %s, want %s", r.Story, message, got.Class, r.Class)
		}
		if s.Healed(r.Service) {
			t.Errorf("%s: it works all the same", r.Story)
		}
	}
}

func TestBulk(t *testing.T) {
	roles := Bulk(AnyVSwitch(), "web", 11)
	if first, last := roles[0].Service, roles[10].Service; first != "web-00" || last != "web-10" {
		t.Errorf("from %s to %s", first, last)
	}
}
