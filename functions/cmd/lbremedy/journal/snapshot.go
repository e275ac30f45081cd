package journal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// showSnapshots prints how the load balancers of a case stood before each attempt.
func showSnapshots(ctx context.Context, p *cli.Program, s *stream.Stream, r event.Record) error {
	list := []hand.Snapshot{}
	err := s.Each(ctx, stream.Cases, event.KeptSubject(r.Cluster, r.Service.UID, r.Class), time.Time{}, func(m stream.Message) error {
		kept, err := engine.ReadSnapshot(m)
		if err != nil {
			return fmt.Errorf("message %d of the journal: %w", m.Sequence, err)
		}
		if kept.Case == r.Case {
			list = append(list, kept)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return command.Wrong("case %s has no snapshot: one is kept before a plan of medium or high risk is applied", r.Case)
	}
	return p.Print(list, func() {
		for i, kept := range list {
			if i > 0 {
				fmt.Fprintln(p.Out)
			}
			printSnapshot(p, kept)
		}
	})
}

func printSnapshot(p *cli.Program, s hand.Snapshot) {
	fmt.Fprintf(p.Out, "%s  %s\n", p.Paint(cli.Bold, command.Clean(s.Service.String())),
		p.Phrase("before attempt %d of %s, at %s", s.Attempt, s.Case, cli.Clock(s.At)))
	if len(s.Balancers) == 0 {
		fmt.Fprintln(p.Out, p.Phrase("No load balancer was found."))
	}
	for _, lb := range s.Balancers {
		switch {
		case lb.CLB != nil:
			p.Field("CLB", words(lb.ID, lb.CLB.Name, lb.CLB.Address, lb.CLB.AddressType, lb.CLB.Status, lb.CLB.ChargeType, lb.CLB.Spec))
			p.Field("Tags", pairs(lb.CLB.Tags))
		case lb.NLB != nil:
			p.Field("NLB", words(lb.ID, lb.NLB.Name, lb.NLB.DNSName, lb.NLB.AddressType, lb.NLB.Status))
			p.Field("Tags", pairs(lb.NLB.Tags))
		default:
			p.Field("Gone", p.Phrase("The API knew no load balancer %s.", lb.ID))
		}
		for _, l := range lb.Listeners {
			p.Field("Listener", words(fmt.Sprintf("%d/%s", l.Port, l.Protocol), l.Status, l.VServerGroup, l.Scheduler, pairs(l.Config)))
		}
		for _, l := range lb.NetworkListeners {
			port := fmt.Sprint(l.Port)
			if l.Port == 0 {
				port = l.First + "-" + l.Last
			}
			p.Field("Listener", words(port+"/"+l.Protocol, l.ID, l.Status, l.ServerGroup))
		}
		for _, g := range lb.Groups {
			p.Field("Group", words(g.ID, g.Name)+backends(g.Backends))
		}
		for _, id := range slices.Sorted(maps.Keys(lb.Servers)) {
			p.Field("Group", id+backends(lb.Servers[id]))
		}
	}
}

// words joins the texts that say something.
func words(all ...string) string {
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

// pairs returns a map as text.
func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, ", ")
}

// backends returns a line for each backend.
func backends(list []cloud.Backend) string {
	var text strings.Builder
	for _, b := range list {
		fmt.Fprintf(&text, "\n  %s %s port %d weight %d", cmp.Or(b.ID, b.IP), b.Type, b.Port, b.Weight)
	}
	return text.String()
}
