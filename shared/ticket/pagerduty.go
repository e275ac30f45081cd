package ticket

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// pagerDuty uses PagerDuty's Events API v2: 202 accepts an event, 400 refuses it as invalid, 429 and 5xx ask for a later retry, and a
// body has at most 512 KB (PagerDuty developer documentation, "Events API v2 Overview"). The ticket's key is the dedup_key: a trigger
// changes the open alert, or opens one.
type pagerDuty struct {
	endpoint
	cluster string
}

type pagerEvent struct {
	RoutingKey string        `json:"routing_key"`
	Action     string        `json:"event_action"`
	DedupKey   string        `json:"dedup_key"`
	Client     string        `json:"client"`
	Payload    *pagerPayload `json:"payload,omitempty"`
}

type pagerPayload struct {
	Summary   string         `json:"summary"` // at most 1024 characters
	Source    string         `json:"source"`
	Severity  string         `json:"severity"`
	Timestamp time.Time      `json:"timestamp"`
	Component string         `json:"component"`
	Class     string         `json:"class"`
	Details   map[string]any `json:"custom_details"`
}

var severities = map[event.Impact]string{event.NeverUp: "critical", event.Down: "critical", event.Partly: "error"}

func (p *pagerDuty) Send(ctx context.Context, t Ticket) (string, error) {
	u, key, err := p.read()
	if err != nil {
		return "", err
	}
	e := pagerEvent{RoutingKey: key, DedupKey: t.Key, Client: "lbremedy"}
	switch lead := t.Facts.Lead; {
	case t.Status == Closed:
		e.Action = "resolve"
	case t.Was == Open && lead.Result == event.Unsettled && len(lead.By) > 0:
		// An approved plan is being applied: the next escalation level need not be paged.
		e.Action = "acknowledge"
	default:
		e.Action = "trigger"
		var services []string
		for _, m := range t.Facts.Services {
			services = append(services, m.Service.String())
		}
		e.Payload = &pagerPayload{
			Summary: t.Title, Source: "cluster " + p.cluster, Severity: cmp.Or(severities[t.Facts.Impact], "warning"), Timestamp: t.Facts.Since,
			Component: lead.Service.String(), Class: t.Facts.Class,
			Details: map[string]any{"text": t.Text, "impact": t.Facts.Impact, "failing": t.Facts.Failing, "over": t.Facts.Over, "services": services},
		}
	}
	body, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("%w: encode the event: %w", ErrRefused, err)
	}
	return "", p.post(ctx, u.JoinPath("v2/enqueue"), http.Header{"Content-Type": {"application/json"}}, body, key)
}
