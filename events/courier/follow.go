package courier

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// reread is how often the routes file is read again. A watch of the file would miss what
// a mounted ConfigMap does to it.
const reread = time.Second

// Watch reads the routes file again until ctx ends, and hands each cluster on its channel
// what has changed since the text that is in force. A file that is wrong, or can't be
// read, changes nothing: the last good one stays, and that is said once.
func Watch(ctx context.Context, path, inForce string, clusters, classes []string, log *slog.Logger) map[string]chan Routes {
	changed := map[string]chan Routes{}
	for _, cluster := range clusters {
		changed[cluster] = make(chan Routes)
	}
	go func() {
		tick := time.NewTicker(reread)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			text, err := os.ReadFile(path)
			if err == nil && string(text) == inForce {
				said = ""
				continue
			}
			var routes map[string]Routes
			if err == nil {
				routes, err = Parse(text, clusters, classes)
			}
			if err != nil {
				if err.Error() != said {
					said = err.Error()
					log.Error("the routes file is not taken; the last good one stays in force", "file", path, "error", err)
				}
				continue
			}
			for _, cluster := range clusters {
				select {
				case <-ctx.Done():
					return
				case changed[cluster] <- routes[cluster]: // taken at once, whatever its lanes do
				}
			}
			inForce, said = string(text), ""
			log.Info("the routes have changed", "file", path)
		}
	}()
	return changed
}

// Follow hands the records of a cluster's runs outside to seen, each to one of its
// couriers, until ctx ends. What keeps it from following is tried again, and said when it changes:
// deliveries go on without it.
func Follow(ctx context.Context, s *stream.Stream, cluster string, seen func(event.Record), log *slog.Logger) {
	told := ""
	for ctx.Err() == nil {
		name := stream.CourierFollower(cluster)
		_, err := s.SetupFollower(ctx, name, cluster)
		if err == nil {
			err = s.ConsumeCases(ctx, name, 1, func(_ context.Context, m stream.Message) stream.Reply {
				switch r, err := event.DecodeRecord(m.Subject, m.Header, m.Data); {
				case err != nil:
					log.Warn("a record of the journal can't be read and is not counted", "subject", m.Subject, "sequence", m.Sequence,
						"error", event.Redact(err.Error()))
				case outside(r):
					seen(r)
				}
				return stream.Reply{}
			})
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			log.Warn("the journal can't be followed, so that runs are not counted; trying again", "error", err)
		}
		timer := time.NewTimer(10 * time.Second)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// outside reports whether a record is that of a run that has ended in a function outside. Workers
// count their own.
func outside(r event.Record) bool {
	return r.Phase == event.Settled && (r.Who == "http" || r.Who == "fc")
}
