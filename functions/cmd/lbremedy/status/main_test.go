package status_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/test/operator"
)

func TestMain(m *testing.M) { operator.Main(m) }
