package root_test

import (
	"slices"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/fixture"
)

func TestPiecesKnowCommands(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range root.Commands(cli.New("dev")).Commands() {
		if !slices.Contains([]string{"help", "completion", "options", "version"}, c.Name()) {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	fixture.Equal(t, slices.Sorted(slices.Values(say.Commands)), names)
}
