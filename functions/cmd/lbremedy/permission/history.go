package permission

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A past policy is what "history" prints of a version as data.
type past struct {
	Version  int             `json:"version"`
	InForce  bool            `json:"inForce"`
	At       time.Time       `json:"at"`
	By       string          `json:"by"`
	Identity string          `json:"identity,omitempty"`
	Host     string          `json:"host,omitempty"`
	Why      string          `json:"why,omitempty"`
	Changes  []policy.Change `json:"changes"` // since the version before
	Policy   remedy.Policy   `json:"policy"`
}

func history(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "Show who put which policy in force in the cluster that --cluster names",
		Long: `Show the versions of the policy in the cluster that --cluster names, the newest first: when
it came into force, by whom, why, and what changed. "lbremedy policy rollback" puts one of
them in force again. The last 100 versions are kept.`,
		Example: `  lbremedy policy history --cluster c1234`,
		Args:    command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cluster, err := ofCluster(p)
			if err != nil {
				return err
			}
			s, err := p.Stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			all, err := policy.History(ctx, s, cluster)
			if err != nil && !policy.Unreadable(err) {
				return err
			}
			if err != nil {
				p.Note("Left out: %s.", command.Clean(err.Error()))
			}
			now, err := policy.InForceNow(ctx, s, cluster)
			if err != nil && !policy.Unreadable(err) {
				return err
			}
			if len(all) == 0 {
				if err := p.NoteNone(ctx, s, say.F("version of the policy")); err != nil {
					return err
				}
			} else if now.Number == 0 {
				p.Note("The policy in force was put there by an older release, which keeps no history.")
			}
			list := []past{}
			for i, v := range all {
				before := policy.Version{}
				if i+1 < len(all) {
					before = all[i+1]
				}
				list = append(list, past{v.Number, v.Number == now.Number, v.At, v.By, v.Identity, v.Host, v.Why, policy.Compare(before, v, known()), v.Policy})
			}
			return p.Print(list, func() {
				for i, one := range list {
					if i > 0 {
						fmt.Fprintln(p.Out)
					}
					head := command.Clean(p.Tell(Origin(all[i])))
					if one.InForce {
						head += p.Phrase(" It is in force.")
					}
					fmt.Fprintln(p.Out, p.Paint(cli.Bold, strings.TrimSuffix(cli.Wrap(head, "", p.Width()), "\n")))
					changeList(p, p.Out, one.Changes)
				}
			})
		},
	}
}

// Origin says who put a version in force, when and why.
func Origin(v policy.Version) say.Text {
	by := event.Person{Name: v.By, Identity: v.Identity, Host: v.Host}
	if v.Why != "" {
		return say.F("Version %d, put in force at %s by %s: %s.", v.Number, cli.Clock(v.At), by, v.Why)
	}
	return say.F("Version %d, put in force at %s by %s.", v.Number, cli.Clock(v.At), by)
}
