package ticket

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

func (o *outlet) repeats(ctx context.Context) {
	tick := time.NewTicker(o.again / 4)
	defer tick.Stop()
	for {
		if err := o.repeat(ctx); err != nil && ctx.Err() == nil {
			o.c.Log.Warn("open tickets are sent again later", "sink", o.Name, "error", event.Redact(err.Error()))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// repeat leaves a ticket whose failures are over to the record that says so.
func (o *outlet) repeat(ctx context.Context) error {
	heads, err := o.c.Stream.Entries(ctx, headRoot+o.Name+".>")
	if err != nil {
		return err
	}
	for _, e := range heads {
		_, i, uid, ok := parseHead(e.Key)
		h, now := Head{}, o.c.Now()
		if !ok || json.Unmarshal(e.Value, &h) != nil || h.Status != Open || now.Before(h.Notified.Add(o.again)) || now.Before(h.RefusedAt.Add(refusals)) ||
			o.early(e.Key, h, false) > 0 {
			continue
		}
		h.entry = e
		v, err := o.view(ctx, i, i.all(), h, o.since)
		if err != nil {
			return err
		}
		if len(v.open) == 0 || v.open[0].Cluster != o.c.Cluster {
			continue
		}
		if _, err := o.deliver(ctx, e.Key, i, uid, h, v, Open); err != nil {
			return err
		}
	}
	return nil
}
