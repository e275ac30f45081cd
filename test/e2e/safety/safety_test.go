// Package safety tries what limits lbremedy on a testbed with all that is real: policy, pause, freeze, budgets, breaker and
// approval. A test that needs the end of a budget's window removes its keys.
package safety

import (
	"testing"

	"github.com/lbremedy/lbremedy/test/rig"
)

func TestMain(m *testing.M) { rig.Tests(m) }
