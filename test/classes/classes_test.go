// Package classes runs the scenarios of all classes in one program, because linking one for each class takes minutes. "go test
// ./functions/busy" runs those of one class.
package classes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/test/scenario"
)

// Test runs the scenarios of classes whose only test is generated; the other classes' tests run in their folders.
func Test(t *testing.T) {
	for _, r := range functions.All {
		dir := filepath.Join("../../functions", strings.ReplaceAll(r.Class, "-", ""))
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(tests) == 0 {
			t.Fatalf("class %s has no test in %s: %v", r.Class, dir, err)
		}
		if len(tests) > 1 {
			continue
		}
		t.Run(r.Class, func(t *testing.T) {
			t.Parallel()
			scenario.RunIn(t, r, filepath.Join(dir, "testdata"))
		})
	}
}
