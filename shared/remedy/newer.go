package remedy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

// mostNamed is how many annotations a note names.
const mostNamed = 10

// Weigh returns a plan, of which so many steps are made, with what the sync after the others changes, see Compare, and with the risk of that
// under the release of the controller that runs.
func (c *Case) Weigh(ctx context.Context, p Plan, made int) (Plan, error) {
	if slices.ContainsFunc(p.Steps[min(max(made, 0), len(p.Steps)):], Syncs) {
		var err error
		if p, err = c.Compare(ctx, p); err != nil {
			return Plan{}, fmt.Errorf("compare what the sync would change: %w", err)
		}
	}
	return c.caution(ctx, p)
}

// caution returns the plan as it is where the controller is a release that is known here. What a newer one does is not known: it may
// read annotations that no known one reads, and its sync may change what was not compared. So the risk of every plan with steps rises
// by one step, here and nowhere else, and the plan names what was not compared. A cluster whose controller's version cannot be
// determined is none with a newer one; a read that fails is an error.
func (c *Case) caution(ctx context.Context, p Plan) (Plan, error) {
	if len(p.Steps) == 0 {
		return p, nil
	}
	runs, err := c.Crowd.Release(ctx, &c.View)
	switch {
	case errors.Is(err, cloud.ErrNotFound): // a cluster that the container service does not know
		return p, nil
	case err != nil:
		return Plan{}, fmt.Errorf("find out the version of the controller: %w", err)
	case !runs.TooNew():
		return p, nil
	}
	p.Risk = p.Highest().Raised()
	p.Note = p.Note.And("The controller is %s, and lbremedy knows releases up to %s, so the risk is one step higher.", runs, ccm.Newest())
	if !slices.ContainsFunc(p.Steps, Syncs) {
		return p, nil
	}
	unread := say.F("what only releases after %s do", ccm.Newest())
	if names := ccm.Unfamiliar(c.Service); len(names) > 0 {
		unread = say.F("what only releases after %s do, and what these annotations ask for: %s", ccm.Newest(), say.List(names, mostNamed))
	}
	p.Note = p.Note.And("Of what the full sync changes, this was not compared: %s.", unread)
	how := say.F("this was not compared: %s", unread)
	p.Changes = append(slices.Clip(p.Changes), event.Change{What: "newer controller", How: how, Unknown: true})
	return p, nil
}
