package console

import (
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
)

// Whatever becomes of the process that reads the cluster, the page can say why nothing was read.
func TestRead(t *testing.T) {
	t.Setenv("LBREMEDY_TEST_AS_PROGRAM", "1") // this test binary is the program
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"it can't read":                   {[]string{"console", "--cluster", "c1"}, "--region"},
		"it is called in a wrong way":     {[]string{"consol"}, "exit status 2"},
		"it prints what nobody asked for": {[]string{"console", "--help"}, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(t.Context(), &cli.Program{Args: c.args}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
