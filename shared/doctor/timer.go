package doctor

import (
	"context"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
)

// OnTimer examines the cluster once with these checks and opens and closes cases for what
// changed: what a timer calls. It is no error that some checks can't tell how things stand; it is
// one that no check can say anything of the Services, and ErrElsewhere that another process
// examines the cluster: that may have died, and whoever calls again must not take it for done.
func OnTimer(ctx context.Context, env *engine.Env, account *cloud.Reader, checks []*Check) error {
	out, err := (&ScheduledRun{Env: env, Cloud: account, Checks: checks}).Run(ctx)
	if err == nil {
		err = blinded(out.Result)
	}
	if err == nil && env.Log != nil {
		env.Log.Info("scheduled run ended", "cases", fmt.Sprintf("%d opened, %d closed, %d stand", out.Opened, out.Closed, out.Stands), "unknown",
			len(out.Result.Unknown))
	}
	return err
}

// blinded returns why no check could tell anything of the Services, or nil.
func blinded(r Result) error {
	whole := map[string]bool{}
	for _, u := range r.Unknown {
		if u.About.Covers(All(Service)) {
			whole[u.Check] = true
		}
	}
	if len(whole) < len(r.Checks) {
		return nil
	}
	return fmt.Errorf("check the cluster: no check could determine the state of the Services: %s", r.Unknown[0].Why)
}
