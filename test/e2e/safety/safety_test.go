// Package safety tests the limits of lbremedy on a testbed of real parts: policy, pause, freeze, budgets, breaker and approval.
// Tests that need the end of a budget's window remove its keys.
package safety

import (
	"testing"

	"github.com/lbremedy/lbremedy/test/rig"
)

func TestMain(m *testing.M) { rig.Tests(m) }
