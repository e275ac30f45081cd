package journal

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Want says which cases a command is for that does something to one case.
type Want struct {
	What say.Text // such as "waits for an approval"
	Is   func(History) bool
}

// Single returns the one case that a name means: an ID, or the beginning of one, of which the
// newest case of a Service and class counts, or a Service of which one case is wanted, or the ID
// of two cases if one of them is. Where that leaves several they are listed, as ID/CLASS.
func (w Want) Single(ctx context.Context, p *cli.Program, s *stream.Stream, name string) (History, error) {
	found, err := find(ctx, p, s, name)
	if err != nil {
		return nil, err
	}
	if !service(name) {
		if found = newest(found); len(found) == 1 {
			return found[0], nil
		}
		if slices.ContainsFunc(found, func(h History) bool { return h.Last().Case != name }) {
			return nil, command.Wrong("%d cases begin with %s, give a whole ID:\n%s", len(found), name, others(p, found))
		}
	}
	wanted := slices.DeleteFunc(slices.Clone(found), func(h History) bool { return !w.Is(h) })
	switch len(wanted) {
	case 0:
		return nil, command.Wrong("no case of %s %s. Its cases are:\n%s", name, w.What, others(p, found))
	case 1:
		return wanted[0], nil
	}
	return nil, command.Wrong("%d cases of %s: each %s. Name one by its ID:\n%s", len(wanted), name, w.What, others(p, wanted))
}

// Complete completes the IDs of the cases that are wanted, and their Services.
func (w Want) Complete(p *cli.Program) cobra.CompletionFunc {
	return cli.OnlyFirst(p.CompleteFrom(func(ctx context.Context, s *stream.Stream, _ []string) ([]cobra.Completion, error) {
		latest, err := latestCases(ctx, p, s, &Filter{})
		wanted := slices.DeleteFunc(latest, func(h History) bool { return !w.Is(h) })
		var services []cobra.Completion
		for _, h := range wanted {
			if r := h.Last(); r.Service.Kind == "" {
				services = append(services, cobra.CompletionWithDesc(r.Service.String(), r.Class+" "+string(r.Status())))
			}
		}
		return append(ids(wanted), services...), err
	}))
}
