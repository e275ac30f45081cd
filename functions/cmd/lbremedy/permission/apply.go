package permission

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An agreement is how a person puts a policy in force: who, why, and whether to ask.
type agreement struct {
	by, why  string
	yes, new bool
}

func (a *agreement) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.by, "by", cli.Whoami(), "`who` puts it in force, for the history")
	cmd.Flags().StringVar(&a.why, "why", "", "the `reason`, for the history")
	cmd.Flags().BoolVar(&a.yes, "yes", false, "don't ask")
}

const asks = `It first shows what changes, what it loosens before all else, and asks at a terminal. --yes
answers the question. Without a terminal, a policy that loosens something needs --yes.`

func apply(p *cli.Program) *cobra.Command {
	var a agreement
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Put a policy file in force in the cluster that --cluster names",
		Long: `Put a policy file in force in the cluster that --cluster names.

` + asks + `

NATS must know the cluster, from "lbremedy setup", an exporter or an earlier policy.
--new-cluster puts a policy in force for one that it does not know yet. "lbremedy policy
history" shows who put which policy in force.`,
		Example: `  lbremedy policy apply fix.yaml --cluster c1234 --why 'fix tags in the sandbox'`,
		Args:    command.Exactly(1, 1, "a policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := cli.PolicyVersion(args[0])
			if err != nil {
				return err
			}
			NotePeople(p, v)
			return a.run(cmd.Context(), p, func(*stream.Stream, string) (policy.Version, error) { return v, nil })
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&a.new, "new-cluster", false, "the cluster may be one that NATS has never seen")
	return cmd
}

func rollback(p *cli.Program) *cobra.Command {
	var a agreement
	cmd := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Put an older policy in force again",
		Long: `Put a version of "lbremedy policy history" in force again, by default the one before the
policy in force. It becomes the newest version.

` + asks,
		Example: `  lbremedy policy rollback --cluster c1234
  lbremedy policy rollback 3 --cluster c1234 --why 'too many fixes at once'`,
		Args: command.Exactly(0, 1, "a version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.run(ctx, p, func(s *stream.Stream, cluster string) (policy.Version, error) {
				v, err := older(ctx, s, cluster, args)
				if err != nil {
					return policy.Version{}, err
				}
				// It is read like a file: by the rules of today, with the offsets of its zones.
				text, err := policyfile.Document(v, cli.Sections()...)
				if err != nil {
					return policy.Version{}, err
				}
				again, err := policyfile.ParseVersion(text, cli.PolicyClasses(), cli.Sections()...)
				if err != nil {
					return policy.Version{}, command.Wrong("version %d cannot be put in force by this release: %w", v.Number, err)
				}
				if a.why == "" {
					a.why = fmt.Sprintf("rollback to version %d", v.Number)
				}
				return again, nil
			})
		},
	}
	a.flags(cmd)
	return cmd
}

// NotePeople says of a file that somebody puts in force that its people do not come with it.
func NotePeople(p *cli.Program, v policy.Version) {
	if len(v.People) > 0 {
		p.Note("The section people is not put in force: the clicks count of those in the file that \"lbremedy up --policy\" reads.")
	}
}

// older returns the version that is named, or the one before the policy in force.
func older(ctx context.Context, s *stream.Stream, cluster string, args []string) (policy.Version, error) {
	all, err := policy.History(ctx, s, cluster)
	if err != nil && !policy.Unreadable(err) {
		return policy.Version{}, err
	}
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if i := slices.IndexFunc(all, func(v policy.Version) bool { return v.Number == n }); err == nil && i >= 0 {
			return all[i], nil
		}
		return policy.Version{}, command.Wrong("there is no version %q of the policy in cluster %s: \"lbremedy policy history\" lists them", args[0], cluster)
	}
	now, err := policy.InForceNow(ctx, s, cluster)
	if err != nil && !policy.Unreadable(err) {
		return policy.Version{}, err
	}
	for _, v := range all {
		if (now.Number == 0 || v.Number < now.Number) && !v.Same(now) {
			return v, nil
		}
	}
	return policy.Version{}, command.Wrong("the history has no policy before the one in force in cluster %s", cluster)
}

// An applied policy is what "apply" and "rollback" print as data.
type applied struct {
	Cluster string          `json:"cluster"`
	Version int             `json:"version"`
	Changes []policy.Change `json:"changes"`
	Policy  remedy.Policy   `json:"policy"`
}

// run shows what a version changes, asks, and puts it in force.
func (a *agreement) run(ctx context.Context, p *cli.Program, which func(*stream.Stream, string) (policy.Version, error)) error {
	cluster, err := ofCluster(p)
	if err != nil {
		return err
	}
	if a.by == "" {
		return command.Wrong("--by: name a person: the user of this machine is not known")
	}
	s, err := p.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if said, err := cli.Unseen(ctx, s, cluster); err != nil {
		return err
	} else if said != nil && !a.new {
		return command.Wrong("%s. For a new cluster, run \"lbremedy setup --cluster %s\" first, or give --new-cluster", said, cluster)
	}
	v, err := which(s, cluster)
	if err != nil {
		return err
	}
	changes, err := changed(ctx, s, cluster, v)
	if err != nil {
		return err
	}
	if err := a.agree(p, cluster, changes); err != nil {
		return err
	}
	// Somebody may have put another policy in force while this one was looked at.
	if now, err := changed(ctx, s, cluster, v); err != nil {
		return err
	} else if !reflect.DeepEqual(now, changes) {
		return command.Wrong("the policy in force has changed meanwhile, so nothing was put in force: run the command again")
	}
	who := p.Person(ctx, a.by)
	v.By, v.Host, v.Identity, v.Why, v.At = a.by, who.Host, who.Identity, a.why, p.Now()
	number, err := policy.PutInForce(ctx, s, cluster, v)
	if err != nil {
		return err
	}
	return p.Print(applied{cluster, number, changes, v.Policy}, func() {
		fmt.Fprintln(p.Out, p.Phrase("In force: %s. This is version %d of the policy in cluster %s.", Describe(v.Policy), number, cluster))
	})
}

// known is what is to be known of the classes to compare policies.
func known() policy.What {
	return policy.What{Sections: cli.Sections(), OptIn: func(class string) bool {
		r, err := cli.ClassOf(class)
		return err == nil && r.OptIn
	}}
}

// changed returns in what a version differs from what is in force. What that is can't be told
// where it is of a newer release.
func changed(ctx context.Context, s *stream.Stream, cluster string, v policy.Version) ([]policy.Change, error) {
	now, err := policy.InForceNow(ctx, s, cluster)
	if policy.Unreadable(err) {
		said := say.F("What changes is not known, and nothing is written now: %v.", err)
		return []policy.Change{{Effect: policy.Loosened, Field: "version", Text: said.String(), Said: policy.Told{Text: said}}}, nil
	}
	if err != nil {
		return nil, err
	}
	return policy.Compare(now, v, known()), nil
}

// agree shows changes, and returns nil if they may be made.
func (a *agreement) agree(p *cli.Program, cluster string, changes []policy.Change) error {
	to := p.Out
	if p.Output != "table" {
		to = p.Err
	}
	if len(changes) == 0 {
		p.Note("Nothing changes: cluster %s already has this policy.", cluster)
		return nil
	}
	fmt.Fprintln(to, p.Phrase("This changes the policy in cluster %s:", cluster))
	changeList(p, to, changes)
	switch {
	case a.yes:
		return nil
	case p.Terminal(p.In) > 0:
		return p.Confirm(p.Phrase("Put it in force in cluster %s?", cluster), say.F("the policy in force stays"), "--yes")
	case policy.Loosens(changes):
		return command.Wrong("the policy in force stays: this one loosens it, and there is no terminal to ask at: give --yes")
	}
	return nil
}

// changeList prints changes, two lines for each.
func changeList(p *cli.Program, to io.Writer, changes []policy.Change) {
	colours := map[policy.Effect]cli.Colour{policy.Loosened: cli.Yellow, policy.Tightened: cli.Green}
	for _, c := range changes {
		value := func(t say.Text) string {
			if t == nil {
				t = say.F("(none)")
			}
			return p.Tell(t)
		}
		word := p.PaintOn(to, colours[c.Effect], fmt.Sprintf("%-9s", c.Effect))
		fmt.Fprintf(to, "  %s  %s: %s -> %s\n", word, command.Clean(c.Field), command.Clean(value(c.Said.Was)), command.Clean(value(c.Said.Is)))
		fmt.Fprint(to, cli.Wrap(p.Tell(c.Said.Text), strings.Repeat(" ", 13), p.Width()))
	}
}
