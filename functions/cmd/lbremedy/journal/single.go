package journal

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Want selects cases for a command that changes one case.
type Want struct {
	What say.Text // such as "waits for an approval"
	Is   func(History) bool
}

// Single returns the one case that a name selects: an ID or its beginning, which selects the newest case of a Service and class; a
// Service with one wanted case; or the ID of two cases if one is wanted. Several are listed as ID/CLASS.
func (w Want) Single(ctx context.Context, p *cli.Program, s *stream.Stream, name string) (History, error) {
	found, name, err := meant(ctx, p, s, name)
	if err != nil {
		return nil, err
	}
	if !service(name) && len(found) == 1 {
		return found[0], nil
	}
	wanted := slices.DeleteFunc(slices.Clone(found), func(h History) bool { return !w.Is(h) })
	switch len(wanted) {
	case 0:
		return nil, command.Wrong("no case of %s %s. Its cases are:\n%s", name, w.What, others(p, found, "  "))
	case 1:
		return wanted[0], nil
	}
	return nil, command.Wrong("%d cases of %s: each %s. Name one by its ID:\n%s", len(wanted), name, w.What, others(p, wanted, "  "))
}

// meant returns the cases with a name, the newest first: all cases of a Service, or the newest of each Service and class with an ID, the
// beginning of one, or ID/CLASS. It also returns the name with its namespace, and refuses an ambiguous beginning or a Service in several
// clusters.
func meant(ctx context.Context, p *cli.Program, s *stream.Stream, name string) ([]History, string, error) {
	if name == "" { // all IDs begin with it
		return nil, "", command.Wrong("%q is not a case: name one by its ID or the start of it, or a Service as NAMESPACE/NAME", name)
	}
	name, subjects, err := serviceNamed(ctx, p, s, name)
	if err != nil {
		return nil, "", err
	}
	id, class, both := strings.Cut(name, "/")
	f, what := &Filter{scope: cli.Scope{Namespace: id, Service: class}}, say.F("case of a Service")
	if !service(name) {
		if f, what = (&Filter{id: id}), say.F("case"); both {
			f.classes = []string{class}
		}
		if subjects, err = subjectsOf(ctx, p, s, id); err != nil {
			return nil, "", err
		}
	}
	found, err := gatherCases(ctx, p, s, slices.Sorted(maps.Keys(subjects)), f)
	if err != nil {
		return nil, "", err
	}
	if len(found) == 0 {
		if err := cli.KnownCluster(ctx, s, p.Cluster); err != nil {
			return nil, "", err
		}
		return nil, "", command.Wrong("the journal holds no %s %q%s: \"lbremedy ls\" lists what it holds", what, name, cli.InCluster(p.Cluster))
	}
	if service(name) {
		clusters := map[string]bool{}
		for _, h := range found {
			clusters[h.Last().Cluster] = true
		}
		if len(clusters) > 1 {
			return nil, "", command.Wrong("%d clusters have cases of %s, %s: name one with --cluster or LBREMEDY_CLUSTER",
				len(clusters), name, strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
		}
		return found, name, nil
	}
	found = newest(found)
	if len(found) > 1 && slices.ContainsFunc(found, func(h History) bool { return h.Last().Case != name }) {
		return nil, "", command.Wrong("%d cases begin with %s, name one of them:\n%s", len(found), name, others(p, found, "  "))
	}
	return found, name, nil
}

var startOfID = regex.New(`^[0-9a-f]{8}(-[0-9]*)?$`)

// serviceNamed returns the subjects of a Service's cases, and completes its name by its namespace; no subjects if the name is not a Service's. It refuses a
// name that several Services have, or that also begins a case ID.
func serviceNamed(ctx context.Context, p *cli.Program, s *stream.Stream, name string) (string, map[string]bool, error) {
	if !service(name) && (!kube.ValidName(name) || startOfID().MatchString(name)) {
		return name, nil, nil
	}
	f := &Filter{scope: cli.Scope{Service: name}}
	if err := f.scope.Check(); err != nil {
		return "", nil, err
	}
	latest, err := latestCases(ctx, p, s, f)
	if err != nil {
		return "", nil, err
	}
	var services []string
	subjects := map[string]bool{}
	for _, h := range latest {
		if r := h.Last(); r.Service.Kind == "" {
			services = append(services, r.Service.String())
			subjects[event.CaseFilter(r.Cluster, r.Service.UID)] = true
		}
	}
	full, err := cli.OneService(name, services)
	switch {
	case err != nil || full == "":
		return name, nil, err
	case len(name) >= 8: // a longer beginning of a case ID has another form
		return full, subjects, nil
	}
	alike, err := subjectsOf(ctx, p, s, name)
	if err == nil && len(alike) > 0 {
		err = command.Wrong("%s is the Service %s and the start of a case ID: name the Service, or give more of the ID", name, full)
	}
	return full, subjects, err
}

func subjectsOf(ctx context.Context, p *cli.Program, s *stream.Stream, id string) (map[string]bool, error) {
	all, err := s.Subjects(ctx, stream.Cases, caseFilter(p, nil))
	subjects := map[string]bool{}
	begin := id[:min(len(id), 8)] // a case ID contains no more of the UID
	for _, subject := range all {
		if parts := strings.Split(subject, "."); len(parts) == 5 && strings.HasPrefix(parts[3], begin) {
			subjects[event.CaseFilter(parts[2], parts[3])] = true
		}
	}
	return subjects, err
}

// Complete completes the IDs of wanted cases, and their Services.
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
