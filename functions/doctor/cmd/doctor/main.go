// Doctor checks the whole cluster whenever a timer calls it: a scheduled run.
package main

import (
	"context"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/serve"
)

func main() {
	serve.Timer(context.Background(), "doctor", func(ctx context.Context, env *host.Connection) error {
		return doctor.OnTimer(ctx, env.Env, env.Clients.Cloud, checks.Checks())
	})
}
