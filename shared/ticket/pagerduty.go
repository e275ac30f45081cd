package ticket

import (
	"cmp"
	"context"
	"net/http"

	"github.com/lbremedy/lbremedy/shared/event"
)

// pagerDuty uses PagerDuty's Events API v2: 202 accepts an event, 400 refuses it as invalid, 429 and 5xx ask for a later retry, and a
// body has at most 512 KB, a summary 1024 characters (PagerDuty developer documentation, "Events API v2 Overview"). The ticket's
// key is the dedup_key: a trigger changes the open alert, or opens one.
type pagerDuty struct{ endpoint }

var severities = map[event.Impact]string{event.NeverUp: "critical", event.Down: "critical", event.Partly: "error"}

func (p *pagerDuty) Send(ctx context.Context, t Ticket) (string, error) {
	u, key, err := p.read()
	if err != nil {
		return "", err
	}
	e := map[string]any{"routing_key": key, "dedup_key": t.Key, "client": "lbremedy"}
	switch lead := t.Facts.Lead; {
	case t.Status == Closed:
		e["event_action"] = "resolve"
	case t.Was == Open && lead.Result == event.Unsettled && len(lead.By) > 0:
		// An approved plan is being applied: the next escalation level need not be paged.
		e["event_action"] = "acknowledge"
	default:
		var services []string
		for _, m := range t.Facts.Services {
			services = append(services, m.Service.String())
		}
		e["event_action"] = "trigger"
		e["payload"] = map[string]any{
			"summary": t.Title, "source": "cluster " + p.cluster, "severity": cmp.Or(severities[t.Facts.Impact], "warning"),
			"timestamp": t.Facts.Since, "component": lead.Service.String(), "class": t.Facts.Class, "custom_details": map[string]any{
				"text": t.Text, "impact": t.Facts.Impact, "failing": t.Facts.Failing, "over": t.Facts.Over, "services": services,
			},
		}
	}
	return "", p.postJSON(ctx, u.JoinPath("v2/enqueue"), http.Header{}, e, key)
}
