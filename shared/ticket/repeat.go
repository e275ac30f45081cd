package ticket

import "context"

// repeat sends open tickets again. It leaves a ticket whose failures are over to the record that says so.
func (o *outlet) repeat(ctx context.Context) error {
	heads, err := o.c.Stream.Entries(ctx, headRoot+o.Name+".>")
	if err != nil {
		return err
	}
	for _, e := range heads {
		h, err := decodeHead(e)
		now := o.c.Now()
		if err != nil || h.Status != Open || now.Before(h.Notified.Add(o.again)) || now.Before(h.RefusedAt.Add(refusals)) ||
			o.early(h, false) > 0 {
			continue
		}
		v, err := o.view(ctx, h.incident, h.incident.all(), h, o.since)
		if err != nil {
			return err
		}
		if len(v.open) == 0 || v.open[0].Cluster != o.c.Cluster {
			continue
		}
		if _, err := o.deliver(ctx, h.incident, h.uid, h, v, Open); err != nil {
			return err
		}
	}
	return nil
}
