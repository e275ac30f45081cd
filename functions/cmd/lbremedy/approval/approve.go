// Package approval holds the commands by which a person decides on one case: "approve" accepts its plan, "reject" refuses it, "undo" puts
// back what was written.
//
// An answer is an Approval created with the person's own kubeconfig. In a cluster without the kind Approval, a person applies the plan
// with "lbremedy run" and their own rights.
package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	approvals "github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{approve(p), reject(p), undo(p)}
}

const whoMay = `The answer is an Approval, an object in the namespace of the Service, which is created with
your kubeconfig: RBAC decides who may create one, and Kubernetes proves who did. Where the
cluster has none, a person with the rights applies the plan: lbremedy run NAMESPACE/SERVICE --apply --approve DIGEST.

With --print the answer is not given: the Approval is printed as YAML, for the person of
--user to create it with "kubectl create -f -". A person whose machine does not reach NATS can answer
this way, with lbremedy in its Pod.`

func approve(p *cli.Program) *cobra.Command {
	a := &answer{Program: p, verdict: kube.Approve, of: approvable}
	cmd := a.command(&cobra.Command{
		Use:   "approve CASE|NAMESPACE/SERVICE",
		Short: "Approve the plan of a case that needs approval",
		Long: `Approve the plan of a case that needs approval. The running worker or function diagnoses
the failure again, and applies the plan once if it is still the same. A plan that has
changed needs a new approval. An approval overrides risk, budgets and breakers, but not
a pause, a freeze or the limit of attempts. The policy may require several approvals, or
approvals from certain people.

To take back your rejection of a plan, approve it.

Name a case by its ID or the start of it, or a Service of which one case waits for an
approval.

` + whoMay,
		Example: `  lbremedy approve shop/web
  lbremedy approve 3f9a12bc --digest 0f8e… --for 2h --comment 'CHG-1234'
  lbremedy approve shop/web --print --user ann@example.com --group network | kubectl create -f -`,
	})
	cmd.Flags().DurationVar(&a.life, "for", approvals.Life, "how `long` the approval is valid if the plan can't be applied at once")
	return cmd
}

func reject(p *cli.Program) *cobra.Command {
	a := &answer{Program: p, verdict: kube.Reject, of: waiting, life: approvals.RejectionLife}
	return a.command(&cobra.Command{
		Use:   "reject CASE|NAMESPACE/SERVICE",
		Short: "Reject the plan of a case that needs approval",
		Long: `Reject the plan of a case that needs approval. It is not applied, and nobody is asked about
it again as long as the plan stays the same, for 30 days at most. Another plan for the failure
is asked about. To take a rejection back, approve the plan: nobody else can.

Name a case by its ID or the start of it, or a Service of which one case waits for an
approval.

` + whoMay,
		Example: `  lbremedy reject shop/web --comment 'we are deleting this load balancer'
  lbremedy reject 3f9a12bc --digest 0f8e…`,
	})
}

type answer struct {
	*cli.Program
	verdict         kube.Verdict
	of              journal.Want // the cases that can be answered so
	life            time.Duration
	digest, comment string
	print           bool
	user            kube.User // who creates the printed object
}

// command sets the arguments, flags and action of a command that answers.
func (a *answer) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = command.Exactly(1, 1, "a case ID or NAMESPACE/SERVICE"), a.of.Complete(a.Program)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0]) }
	cmd.Flags().StringVar(&a.digest, "digest", "", "answer only the plan with this `digest`, or one that starts with it")
	cmd.Flags().StringVar(&a.comment, "comment", "", "`why`, for the journal and the ticket")
	cmd.Flags().BoolVar(&a.print, "print", false, "print the Approval as YAML, and create nothing")
	cmd.Flags().StringVar(&a.user.Name, "user", "", "with --print: `name` of who creates it, as kubectl auth whoami says it")
	cmd.Flags().StringSliceVar(&a.user.Groups, "group", nil, "with --print: `groups` of theirs that the policy asks for")
	return cmd
}

func (a *answer) run(ctx context.Context, name string) error {
	switch {
	case a.life < time.Minute || a.life > 30*24*time.Hour:
		return command.Wrong("--for: %s is not between a minute and 30 days", a.life)
	case len(a.comment) > 1024:
		return command.Wrong("--comment: it has %d bytes; the limit is 1024", len(a.comment))
	case a.print && a.user.Name == "":
		return command.Wrong("--print: name who creates the Approval with --user, as kubectl auth whoami says it")
	case !a.print && (a.user.Name != "" || len(a.user.Groups) > 0):
		return command.Wrong("--user and --group are for --print: else Kubernetes says who answers")
	}
	s, err := a.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	a.NotePause(ctx, s)
	h, err := a.of.Single(ctx, a.Program, s, name)
	if err != nil {
		return err
	}
	r := h.Last()
	if a.digest != "" && !strings.HasPrefix(r.Digest, a.digest) {
		return command.Wrong("the plan of case %s is %s now: look at it again with \"lbremedy show %s\"", r.Case, r.Digest, r.Case)
	}
	finding := strings.HasPrefix(r.Class, doctor.ClassPrefix)
	if finding && (r.Service.Kind != "" || len(r.Steps) == 0) {
		return command.Wrong("case %s is a finding of the doctor without a plan to approve: \"lbremedy show %s\" says what to do", r.Case, r.Case)
	}
	if !finding && r.Service.Kind != "" {
		return command.Wrong("case %s was started by hand, and no failure repeats it. To apply its plan: lbremedy doctor --fix permissions --apply --approve %s",
			r.Case, r.Digest)
	}
	if err := approvals.Asks(r); err != nil && (r.Rejected == nil || a.verdict == kube.Reject) {
		return command.Mistake{Err: err}
	}
	if a.print {
		return a.show(r)
	}
	if a.verdict == kube.Approve && !finding { // no event delivers a finding again
		_, err := s.Last(ctx, stream.Failed, event.FailedSubject(r.Cluster, r.Class, r.Service.UID))
		if errors.Is(err, stream.ErrNotFound) {
			return command.Wrong("the plan of case %s cannot be applied: NATS has deleted its failure, and it has not occurred again", r.Case)
		}
		if err != nil {
			return err
		}
	}
	return a.give(ctx, r)
}

func (a *answer) show(r event.Record) error {
	if err := approvals.Takes(r, a.verdict, a.user.Name); err != nil {
		return command.Mistake{Err: err}
	}
	made := approvals.To(r, a.user, a.reply()).Manifest()
	made.Name, made.GenerateName = "", made.Name+"-" // allows another answer when this one no longer counts
	var err error
	if wrong := a.Print(made, func() { err = command.YAML(a.Out, made) }); wrong != nil {
		return wrong
	}
	return err
}

func (a *answer) reply() approvals.Reply {
	return approvals.Reply{Verdict: a.verdict, Comment: a.comment, Lasts: a.life}
}

const patience = 10 * time.Second

func (a *answer) give(ctx context.Context, r event.Record) error {
	cluster, err := a.Kube()
	if err != nil {
		return command.Mistake{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made, err := approvals.Answer(ctx, cluster, r, a.reply())
	switch {
	case errors.As(err, new(approvals.NotTaken)) && a.verdict == kube.Approve:
		return command.Wrong("%s. If you have the rights, apply the plan yourself: %s", say.Of(err).Map(command.Clean), byHand(r))
	case errors.Is(err, approvals.ErrNotAsked):
		return command.Mistake{Err: err}
	case errors.Is(err, kube.ErrDenied), errors.As(err, new(approvals.Answered)), errors.As(err, new(approvals.NotTaken)):
		return command.Wrong("%s", say.Of(err).Map(command.Clean))
	case err != nil:
		return err
	}
	return a.Print(made, func() {
		by, until := command.Clean(made.Spec.User), made.CreationTimestamp.Add(time.Duration(made.Spec.ExpirationSeconds)*time.Second)
		if a.verdict == kube.Reject {
			fmt.Fprintln(a.Out, a.Phrase("%s rejected the plan %s of %s.", by, r.Digest, r.Case))
		} else {
			fmt.Fprintln(a.Out, a.Phrase("%s approved the plan %s of %s, until %s.", by, r.Digest, r.Case, cli.Clock(until)))
		}
		a.Note("The answer is the Approval %s/%s.", made.Namespace, made.Name)
		a.next(r)
	})
}

func byHand(r event.Record) string {
	if check, finding := strings.CutPrefix(r.Class, doctor.ClassPrefix); finding {
		return fmt.Sprintf("lbremedy doctor --fix %s %s --apply --approve %s", check, r.Service, r.Digest)
	}
	return fmt.Sprintf("lbremedy run %s --apply --approve %s", r.Service, r.Digest)
}

func (a *answer) next(r event.Record) {
	check, finding := strings.CutPrefix(r.Class, doctor.ClassPrefix)
	switch {
	case a.verdict == kube.Reject:
		a.Note("You will not be asked again about this plan: see lbremedy show %s. To approve it after all: lbremedy approve %s", r.Case, r.Case)
	case finding:
		a.Note("To apply it if it is still the same: lbremedy doctor --fix %s %s --apply", check, r.Service)
	default:
		a.Note("It is diagnosed again, and applied if it is still the same: see lbremedy show %s.", r.Case)
	}
}

var waiting = journal.Want{What: say.F("waits for an approval"), Is: func(h journal.History) bool { return waits(h.Last()) }}

// approvable also has rejected plans: the person may change their mind.
var approvable = journal.Want{What: say.F("waits for an approval or was rejected"), Is: func(h journal.History) bool {
	r := h.Last()
	return waits(r) || r.Status() == event.Rejected && r.Digest != ""
}}

func waits(r event.Record) bool {
	return r.Phase == event.Settled && r.Result == event.Asked && r.Digest != "" && len(r.Steps) > 0
}
