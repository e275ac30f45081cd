package up

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func sizeFlags(cmd *cobra.Command, s *stream.Settings) {
	size := func(name, usage string, to *int64) {
		cmd.Flags().Func(name, usage, func(text string) error {
			q, err := resource.ParseQuantity(text)
			if err != nil || q.Value() < 64<<10 {
				return say.Errorf("want a size of 64Ki or more, such as 512Mi or 4Gi")
			}
			*to = q.Value()
			return nil
		})
	}
	age := func(name, usage string, to *time.Duration) {
		cmd.Flags().Func(name, usage, func(text string) error {
			d, err := cli.Duration(text)
			if err != nil || d < time.Hour {
				return say.Errorf("want a time of an hour or more, such as 12h or 30d")
			}
			*to = d
			return nil
		})
	}
	size("journal-size", "maximum `bytes` in the journal, such as 4Gi (default 1Gi for a new one)", &s.CasesBytes)
	age("journal-age", "`duration` for which the journal keeps a record (default 30d for a new one)", &s.CasesAge)
	size("failures-size", "maximum `bytes` of stored failures (default 256Mi for a new one)", &s.FailedBytes)
	age("failures-age", "`duration` for which a failure is kept (default 7d for a new one)", &s.FailedAge)
	size("dead-size", "maximum `bytes` of dead letters (default 128Mi for a new one)", &s.DeadBytes)
	age("dead-age", "`duration` for which a dead letter is kept (default 30d for a new one)", &s.DeadAge)
	size("keys-size",
		"maximum `bytes` of what is kept under keys, such as what is known of each Service, and budgets (default 512Mi for a new one)", &s.KeysBytes)
}
