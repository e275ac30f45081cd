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

const mostNamed = 10

// Weigh returns a plan after made steps, with the changes of the next sync (see Compare), and their risk under the running controller.
func (c *Case) Weigh(ctx context.Context, p Plan, made int) (Plan, error) {
	if slices.ContainsFunc(p.Steps[min(max(made, 0), len(p.Steps)):], Syncs) {
		var err error
		if p, err = c.Compare(ctx, p); err != nil {
			return Plan{}, fmt.Errorf("compare what the sync would change: %w", err)
		}
	}
	return c.caution(ctx, p)
}

// caution raises the risk of every plan with steps by one if the controller is newer than the releases known here: it may read other
// annotations and change what was not compared, which the plan names. A version that cannot be determined does not count as newer; a
// failed read is an error.
func (c *Case) caution(ctx context.Context, p Plan) (Plan, error) {
	if len(p.Steps) == 0 {
		return p, nil
	}
	runs, err := c.PeerCache.Release(ctx, &c.View)
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
