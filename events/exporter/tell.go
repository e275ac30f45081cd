package exporter

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/observe"
)

const (
	tellEvery = 10 * time.Second // while something changes
	tellLeast = time.Minute      // otherwise: silence means that the exporter doesn't run
)

// Page returns the exporter's counters for the ledger.
func (e *Exporter) Page() ledger.Page {
	n := &e.stats
	p := ledger.Page{
		Since: e.began, At: time.Now(), Lag: e.Lag(),
		// Outcomes are read first: what is counted as seen meanwhile shows as waiting.
		Ignored: n.Ignored.Load(), Reported: n.Reported.Load(), Overtaken: n.Overtaken.Load(), Published: n.Published.Load(),
		Kept: n.Kept.Load(), Dead: n.Dead.Load(), Strange: n.Strange.Load(), Released: n.Released.Load(), Events: n.Events.Load(),
	}
	if last := e.last.Load(); last > 0 {
		p.Last = time.Unix(0, last)
	}
	return p
}

// Export returns the exporter's counters for its metrics.
func (e *Exporter) Export() observe.Export {
	n := &e.stats
	return observe.Export{Page: e.Page(), Relists: n.Relists.Load(), Retries: n.Retries.Load(), Saves: n.Saves.Load(), Slowed: n.Slowed.Load(),
		Unread: n.Unread.Load(), Posted: n.Posted.Load(), Refused: n.Refused.Load(), Ready: e.Ready()}
}

// tell stores the exporter's page in NATS until ctx ends, and once more then. The next page replaces one that can't be stored.
func (e *Exporter) tell(ctx context.Context) {
	who := strings.ToLower(rand.Text()[:8])
	var told ledger.Page
	each(ctx, tellEvery, func(ctx context.Context) {
		p := e.Page()
		p.Exporter = who
		same := p
		same.At, same.Lag = told.At, told.Lag
		if same == told && p.At.Sub(told.At) < tellLeast && p.Waiting() == 0 {
			return
		}
		if err := p.Save(ctx, e.c.Stream, e.c.Cluster); err != nil {
			e.log.Debug("the ledger isn't saved yet", "error", err)
			return
		}
		told = p
	})
}
