package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
)

func (p *program) runCommand() *cobra.Command {
	var file string
	var a answering
	cmd := &cobra.Command{
		Use:   "run NAMESPACE/SERVICE|FILE|-...",
		Short: "Answer a failure here and now, under the journal; writes with --apply",
		Long: `Answer the newest failure of Services, or failures from a file, here and now with
your own credentials, and under the journal, so that no other run on the same Service
gets in the way. The policy in force decides what is done, or the one of --policy.

Without --apply it only says what would be done. With it a case that waits is looked
at again until it is settled or --wait is over; a worker goes on from there.`,
		Example: `  lbremedy run shop/web
  lbremedy run shop/web --policy fix.yaml --apply`,
		Args: command.Exactly(1, -1, "a Service as NAMESPACE/NAME, a file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			items, env, err := p.items(cmd.Context(), args, func() (*engine.Env, error) { return p.connect(cmd.Context(), file) })
			if env != nil {
				defer env.Stream.Close()
			}
			if err != nil {
				return err
			}
			return p.answer(cmd.Context(), env, items, a)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` instead of the policy in force")
	a.flags(cmd)
	return cmd
}

// connect connects to the cluster, the cloud and the stream.
func (p *program) connect(ctx context.Context, policyPath string) (*engine.Env, error) {
	if policyPath != "" {
		if _, err := policyFile(policyPath); err != nil {
			return nil, err
		}
	}
	s, err := p.stream(ctx)
	if err != nil {
		return nil, err
	}
	env, err := p.look(ctx, p.host())
	if err == nil {
		env.Stream = s
		err = setPolicy(env, policyPath, s)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return env, nil
}

// An answering says how failures are answered.
type answering struct {
	apply  bool
	wait   time.Duration
	replay bool
}

func (a *answering) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.apply, "apply", false, "apply what the policy allows; without it nothing is written")
	cmd.Flags().DurationVar(&a.wait, "wait", 5*time.Minute, "how long a case that waits is looked at again")
}

// A verdict is what is said of a failure, and in a replay what was said before.
type verdict struct {
	Was *verdictThen `json:"was,omitempty"`
	event.Record
	err error
}

// A verdictThen is what was said of a failure when it happened.
type verdictThen struct {
	Class  string       `json:"class"`
	Result event.Result `json:"result,omitempty"` // empty: nobody has answered it
}

const atOnce = 8 // failures that are answered at a time

// answer answers the failures, prints what came of them, and returns what the exit
// code follows from.
func (p *program) answer(ctx context.Context, env *engine.Env, items []item, a answering) error {
	verdicts := make([]verdict, len(items))
	g := p.progress()
	var mu sync.Mutex
	done, free := 0, make(chan struct{}, atOnce)
	tell := func() {
		mu.Lock()
		defer mu.Unlock()
		doing := "looked at"
		if a.apply {
			doing = "answered"
		}
		g.say("%s %d of %d", doing, done, len(items))
	}
	stop := p.every(time.Second, tell)
	var wait sync.WaitGroup
	for i, it := range items {
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			rec, err := p.one(ctx, env, it, a)
			if err != nil {
				rec.Service, rec.Class, rec.Cluster, rec.Event = it.event.Failure.Service, it.remedy.Class, env.Cluster, it.event.ID
				rec.Error = event.Redact(err.Error())
			}
			verdicts[i] = verdict{it.was, rec, err}
			mu.Lock()
			done++
			mu.Unlock()
		})
	}
	wait.Wait()
	stop()
	g.done()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.print(verdicts, func() { p.verdicts(verdicts, a) }); err != nil {
		return err
	}
	return p.code(verdicts, a)
}

// every calls f now and then until the function that it returns is called.
func (p *program) every(d time.Duration, f func()) (stop func()) {
	end := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-end:
				return
			}
		}
	})
	return func() { close(end); wait.Wait() }
}

// one answers one failure. A case that waits is looked at again while there is time.
func (p *program) one(ctx context.Context, env *engine.Env, it item, a answering) (event.Record, error) {
	if !a.apply {
		return engine.Look(ctx, env, it.remedy, it.event)
	}
	it.event.Again = true
	end := time.Now().Add(a.wait)
	for {
		rec, err := engine.Run(ctx, env, it.remedy, it.event)
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

// verdicts prints one verdict as a report and several as a table.
func (p *program) verdicts(all []verdict, a answering) {
	switch {
	case len(all) == 0, len(all) == 1 && all[0].err != nil:
		return // nothing to show, or an error that says it all
	case len(all) == 1 && !a.replay:
		p.report(all[0].Record)
		return
	}
	columns := []any{"service", "class", "verdict", "plan", "finding"}
	if a.replay {
		columns = []any{"service", "class then", "verdict then", "class", "verdict", "plan", "finding"}
	}
	t := p.table(columns...)
	for _, v := range all {
		plan := strings.Join(steps(v.Record), "; ")
		if plan == "" {
			plan = v.Ask
		}
		finding := v.Finding
		if v.err != nil {
			finding = v.Error
		}
		name := command.Clean(v.Service.String())
		row := []any{name, v.Class, p.outcome(v.Record), p.cell(plan, 80), p.cell(finding, 80)}
		if a.replay {
			row = slices.Insert(row, 1, any(v.Was.Class), any(string(v.Was.Result)))
			if v.Was.Result == "" {
				row[2] = "none"
			}
		}
		t.AppendRow(row)
	}
	t.Render()
	if !a.apply {
		p.note("Nothing was written.")
	}
}

// steps returns the steps of a record in words.
func steps(r event.Record) []string {
	var texts []string
	for _, s := range r.Steps {
		texts = append(texts, s.Text)
	}
	return texts
}

// code returns the error that the exit code of an answer follows from.
func (p *program) code(all []verdict, a answering) error {
	failed, open := false, false
	for _, v := range all {
		switch {
		case v.err != nil:
			failed = true
			fmt.Fprintf(p.err, "%s %s: %s\n", p.paintOn(p.err, red, "error:"), v.Service, command.Clean(v.Error))
		case v.Result == event.Failed:
			failed = true
		case v.Result == event.Planned && !a.apply:
		case isOpen(v.Record):
			open = true
		}
	}
	switch {
	case failed:
		return command.Exit(command.CodeFailed)
	case open:
		return command.Exit(codeOpen)
	}
	return nil
}
