// Survey looks at the whole cluster whenever a timer calls it.
package main

import (
	"context"

	"github.com/lbremedy/lbremedy/functions/survey"
	"github.com/lbremedy/lbremedy/shared/serve"
)

func main() { serve.Timer(context.Background(), "survey", survey.Patrol) }
