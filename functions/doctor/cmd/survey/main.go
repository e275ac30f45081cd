// Survey looks at the whole cluster whenever a timer calls it.
package main

import (
	"context"

	"github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/serve"
)

func main() { serve.Timer(context.Background(), "survey", doctor.Patrol) }
