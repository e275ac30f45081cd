package survey

import (
	"context"
	"errors"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Patrol surveys the cluster once with all checks and opens and closes cases for what
// changed: what a timer calls. It is no error that another process does so now.
func Patrol(ctx context.Context, env *remedy.Env) error {
	_, err := (&checkup.Patrol{Env: env, Checks: Checks()}).Run(ctx)
	if errors.Is(err, checkup.ErrElsewhere) {
		return nil
	}
	return err
}
