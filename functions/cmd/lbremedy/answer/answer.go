// Package answer holds the commands that decide by hand: "classify", "plan", "run" and "replay". It reads failures from the cluster and
// the stream, lets the engine answer them, and prints the verdicts. Begin with Failures.
package answer

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{classifyCommand(p), planCommand(p), runCommand(p), replayCommand(p)}
}

// Flags are the flags for answering failures.
type Flags struct {
	Apply   bool
	as      string
	wait    time.Duration
	approve string // digest of a plan, or its beginning
	policy  string // file or ConfigMap; empty: the one in force
	replay  bool
}

// Add adds the flags to a command.
func (a *Flags) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.Apply, "apply", false, "apply what the policy allows; without it nothing is written")
	cmd.Flags().DurationVar(&a.wait, "wait", 5*time.Minute, "how long to retry a waiting case")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case a.wait < 0:
			return command.Wrong("--wait: %s is below 0", a.wait)
		case !cmd.Flags().Changed("approve"):
		case !a.Apply:
			return command.Wrong("--approve is for --apply: \"lbremedy approve\" approves a plan for the engine")
		case len(a.approve) < shortest:
			return command.Wrong("--approve: %q is too short: give the first %d characters of the digest, or more", a.approve, shortest)
		}
		return nil
	}
	cmd.Flags().StringVar(&a.as, "by", cli.Whoami(), "with --apply: `who` does it, for the journal")
}

// shortest is the fewest digits of a digest that identify a plan.
const shortest = 8

// AddApprove adds the flag by which the caller approves the plan.
func (a *Flags) AddApprove(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.approve, "approve", "", "with --apply: approve the plan with this `digest`, or one that starts with it")
}

func (a Flags) sign(ctx context.Context, p *cli.Program, env *host.Connection) {
	if a.Apply && env.Person == nil {
		env.Person = new(p.Person(ctx, a.as))
	}
}

type verdict struct {
	Was *verdictThen
	event.Record
	err error
}

type printedVerdict struct {
	Was *verdictThen `json:"was,omitempty"`
	journal.Case
}

func printed(all []verdict) []printedVerdict {
	out := []printedVerdict{}
	for _, v := range all {
		out = append(out, printedVerdict{v.Was, journal.Printed(v.Record)})
	}
	return out
}

type verdictThen struct {
	Class  string       `json:"class"`
	Result event.Status `json:"result,omitempty"` // empty: unanswered
}

const atOnce = 8 // failures answered concurrently

// Failures answers the failures, prints the verdicts, and returns the error that sets the exit code.
func Failures(ctx context.Context, p *cli.Program, env *host.Connection, items []Item, a Flags) error {
	a.sign(ctx, p, env)
	if a.approve != "" {
		if len(items) != 1 {
			return command.Wrong("--approve: %d plans are to be applied: name one Service", len(items))
		}
		it := items[0]
		it.Event.Again = true
		would, err := engine.Look(ctx, env.Env, it.Remedy, it.Event)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(would.Digest, a.approve) {
			return command.Wrong("--approve: the plan for %s is %q now: look at it again without --apply", it.Event.Failure.Service, would.Digest)
		}
		if err := agree(ctx, env, would); err != nil {
			return err
		}
	}
	verdicts := make([]verdict, len(items))
	g := p.Progress()
	var mu sync.Mutex
	done, free := 0, make(chan struct{}, atOnce)
	doing := "diagnosed"
	if a.Apply {
		doing = "handled"
	}
	var wait sync.WaitGroup
	for i, it := range items {
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			rec, err := one(ctx, p, env, it, a)
			if err != nil {
				rec.Service, rec.Class, rec.Cluster, rec.Event = it.Event.Failure.Service, it.Remedy.Class, env.Cluster, it.Event.ID
				rec.Error = event.Redact(err.Error())
			}
			verdicts[i] = verdict{it.was, rec, err}
			mu.Lock()
			defer mu.Unlock()
			done++
			g.Say("%s %d of %d", doing, done, len(items))
		})
	}
	wait.Wait()
	g.Done()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.Print(printed(verdicts), func() { printVerdicts(p, verdicts, a) }); err != nil {
		return err
	}
	return exitCode(p, verdicts, a)
}

// one looks again at a waiting case while there is time.
func one(ctx context.Context, p *cli.Program, env *host.Connection, it Item, a Flags) (event.Record, error) {
	it.Event.Again = true
	if !a.Apply {
		return engine.Look(ctx, env.Env, it.Remedy, it.Event)
	}
	end := time.Now().Add(a.wait)
	for {
		rec, err := engine.Run(ctx, env.Env, it.Remedy, it.Event)
		again := max(rec.Wait, time.Second)
		if err != nil || rec.Result != event.Waiting || time.Now().Add(again).After(end) {
			return rec, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return rec, ctx.Err()
		}
	}
}

func printVerdicts(p *cli.Program, all []verdict, a Flags) {
	switch {
	case len(all) == 0, len(all) == 1 && all[0].err != nil:
		return // nothing to show, or the error says it all
	case len(all) == 1 && !a.replay:
		journal.Report(p, all[0].Record)
		return
	}
	t := p.Table("service", "class then", "verdict then", "class", "verdict", "plan", "finding")
	t.Show(a.replay, "class then", "verdict then")
	for _, v := range all {
		v.Record = v.In(p.Language())
		plan := strings.Join(steps(v.Record), "; ")
		if plan == "" {
			plan = v.Ask.String()
		}
		finding := v.Finding
		if v.err != nil {
			finding = say.Literal(v.Error)
		}
		var then verdictThen
		if v.Was != nil {
			then = *v.Was
		}
		t.AppendRow([]any{command.Clean(v.Service.String()), then.Class, cmp.Or(string(then.Result), "none"),
			v.Class, journal.Outcome(p, v.Record), cli.Plain(plan), cli.Plain(finding.String())})
	}
	t.Render()
	if !a.Apply {
		p.Note("Nothing was written.")
	}
}

func steps(r event.Record) []string {
	var texts []string
	for _, s := range r.Steps {
		texts = append(texts, s.Text.String())
	}
	return texts
}

func exitCode(p *cli.Program, all []verdict, a Flags) error {
	failed, open := false, false
	for _, v := range all {
		switch {
		case v.err != nil:
			failed = true
			fmt.Fprintf(p.Err, "%s %s: %s\n", p.PaintOn(p.Err, cli.Red, "error:"), v.Service, command.Clean(v.Error))
		case v.Result == event.Failed:
			failed = true
		case v.Result == event.Planned && !a.Apply:
		case journal.IsOpen(v.Record):
			open = true
		}
	}
	switch {
	case failed:
		return command.Exit(command.CodeFailed)
	case open:
		return command.Exit(cli.CodeOpen)
	}
	return nil
}

func agree(ctx context.Context, env *host.Connection, would event.Record) error {
	me, err := env.Kube.Me(ctx)
	switch {
	case err != nil:
		return command.Wrong("the plan needs approval, and the cluster does not say who you are: %w", err)
	case approval.Own(me.Name):
		return command.Wrong("the plan needs approval, and %s is a ServiceAccount of lbremedy: use your own kubeconfig", me.Name)
	}
	env.Agreed = &approval.Agreement{Digest: would.Digest, By: me, Host: cli.Hostname()}
	return nil
}
