package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// A mending is a command that answers, of its own accord, what the class tag-missing
// answers when the controller complains.
type mending struct {
	use, short, long string
	kinds            []string // of the steps that its plan may begin with
	otherwise        string   // what is said of another plan
	name             string   // to type; empty: the Service's
}

func (p *program) lbTag() *cobra.Command {
	return p.mend(mending{
		use: "tag", short: "Give the load balancer of a Service its lost name tag back",
		long: `Give the load balancer that the controller made for a Service the tag back by which it
is found: kubernetes.do.not.delete with the first 32 characters of "a" and the UID of
the Service without dashes. Without --apply it only says what would be done. With it
you are asked first: the controller deletes what carries the tag when the Service goes.`,
		kinds: []string{step.TagLB{}.Kind()}, otherwise: "there is no load balancer of its own without its tag",
	})
}

func (p *program) lbRecreate() *cobra.Command {
	return p.mend(mending{
		use: "recreate", short: "Have the controller make a new load balancer for a Service whose own is gone",
		long: `Have the controller make a new load balancer in the place of one that is gone: the
addresses in the status of the Service are cleared, and the controller is woken. The
new one has another address. It is done only when the API says of the known ID that
there is no such load balancer. Without --apply it only says what would be done. With
it you are asked first.`,
		kinds: []string{step.ClearStatus{}.Kind(), step.Touch{}.Kind()}, otherwise: "no load balancer of its own is shown to be gone",
	})
}

func (p *program) mend(m mending) *cobra.Command {
	var file string
	var sure bool
	var a answering
	cmd := &cobra.Command{
		Use: m.use + " NAMESPACE/SERVICE", Short: m.short, Long: m.long,
		Example:           fmt.Sprintf("  lbremedy lb %[1]s shop/web\n  lbremedy lb %[1]s shop/web --apply", m.use),
		ValidArgsFunction: p.completeService,
		Args:              command.Exactly(1, 1, "a Service as NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, ok, err := serviceArg(args[0])
			if err != nil || !ok {
				return command.Wrong("%q is no Service: one is named NAMESPACE/NAME", args[0])
			}
			env, err := p.fixing(cmd.Context(), examining{policy: file, answering: a})
			if err != nil {
				return err
			}
			if env.Stream != nil {
				defer env.Stream.Close()
			}
			it, err := p.lost(cmd.Context(), env, ref)
			if err != nil {
				return err
			}
			return p.mended(cmd.Context(), env, m, it, a, sure)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` instead of the policy in force")
	cmd.Flags().BoolVar(&sure, "yes", false, "with --apply: don't ask")
	a.flags(cmd)
	return cmd
}

// lost returns the failure that a Service is said to have.
func (p *program) lost(ctx context.Context, env *engine.Env, ref event.Service) (item, error) {
	svc, err := service(ctx, env, ref)
	if err != nil {
		return item{}, err
	}
	ref.UID = string(svc.UID)
	class, err := classOf("tag-missing")
	if err != nil {
		return item{}, err
	}
	return p.byHand(env, class, ref, "the load balancer of the Service."), nil
}

// byPerson begins the message of a case that a person begins and no failure.
const byPerson = "A person asks for "

// byHand returns the failure that a person has a class answer for a Service or for the
// cluster. The message says for what.
func (p *program) byHand(env *engine.Env, class *remedy.Remedy, ref event.Service, message string) item {
	now := p.now().Truncate(time.Second)
	return item{remedy: class, event: engine.Event{
		ID: fmt.Sprintf("%s.%s.%s", ref.UID, class.Class, now.UTC().Format("20060102T150405")), Again: true,
		Failure: event.Failure{
			Cluster: env.Cluster, Class: class.Class, Reason: "ByHand", Component: "lbremedy", Count: 1, Service: ref, First: now, Last: now,
			Message: byPerson + message,
		},
	}}
}

// mended says what would be done, asks, and does it.
func (p *program) mended(ctx context.Context, env *engine.Env, m mending, it item, a answering, sure bool) error {
	would, err := engine.Look(ctx, env, it.remedy, it.event)
	if err != nil {
		return err
	}
	if len(would.Steps) == 0 || !slices.Contains(m.kinds, would.Steps[0].Kind) {
		why := m.otherwise
		if would.Result != event.Gone { // then nothing was found but that all is well
			why = strings.TrimSpace(why + ". " + would.Finding + " " + would.Ask)
		}
		return command.Wrong("%s is not for %s: %s", cmp.Or(m.name, it.event.Failure.Service.String()), m.use, command.Clean(why))
	}
	if !a.apply {
		return p.answer(ctx, env, []item{it}, a)
	}
	if !sure {
		asking := *p
		asking.out = p.err // it belongs to the question, and is not the data that is asked for
		asking.report(would)
		if err := p.typed(cmp.Or(m.name, it.event.Failure.Service.String())); err != nil {
			return err
		}
	}
	rec, err := engine.Run(ctx, env, it.remedy, it.event)
	switch {
	case err != nil:
		return err
	case rec.Result == event.Asked && rec.Digest == would.Digest && rec.Digest != "":
		// The policy leaves it to a person, and one has just agreed to this plan.
		if _, err := engine.Approve(ctx, env.Stream, rec, whoami(), p.now(), time.Hour); err != nil {
			return err
		}
	case rec.Result.Settled():
		all := []verdict{{Record: rec}}
		if err := p.print(all, func() { p.verdicts(all, a) }); err != nil {
			return err
		}
		return p.code(all, a)
	}
	return p.answer(ctx, env, []item{it}, a)
}

// typed asks whoever sits at the terminal to type a name.
func (p *program) typed(name string) error {
	fmt.Fprintf(p.err, "To go on, type %s: ", name)
	line, err := bufio.NewReader(p.in).ReadString('\n')
	if strings.TrimSpace(line) == name {
		return nil
	}
	if err != nil && line == "" {
		return command.Wrong("nobody agreed: type %s, or say --yes", name)
	}
	return command.Wrong("%q is not %s: nothing was done", strings.TrimSpace(line), name)
}
