package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func showSnapshots(ctx context.Context, p *cli.Program, s *stream.Stream, r event.Record) error {
	list := []hand.Snapshot{}
	err := s.Each(ctx, stream.Cases, event.KeptSubject(r.Cluster, r.Service.UID, r.Class), time.Time{}, func(m stream.Message) error {
		kept, err := hand.ReadSnapshot(m.Data)
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
	as := *p
	if p.ForPeople() {
		as.Output = "yaml" // too much for a table
	}
	return as.Print(list, nil)
}
