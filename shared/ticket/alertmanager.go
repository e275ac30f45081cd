package ticket

import (
	"context"
	"net/http"
	"time"
)

// alertmanager posts one alert for each incident by the API v2 of Prometheus' Alertmanager, POST /api/v2/alerts (api/v2/openapi.yaml
// of its v0.35.0). ARMS' Alert Management accepts the same at https://alerts.aliyuncs.com, with a bearer token (ARMS documentation,
// "Integrate a self-managed Prometheus instance into Alert Management").
//
// Alertmanager keeps alerts in memory and drops them at their end, so open ones are sent repeatedly. Labels identify an alert and
// never change; the severity is an annotation.
type alertmanager struct{ endpoint }

const (
	// ARMS clears an alert not repeated within its auto-clear period, by default 300 s (ARMS documentation, "UpdateIntegration").
	resendAlert = 2 * time.Minute
	// An alert ends this long after it was last sent: longer than a restart, and the last ones end when lbremedy is removed.
	keepAlert = 30 * time.Minute
)

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt"`
}

func (a *alertmanager) Send(ctx context.Context, t Ticket) (string, error) {
	u, token, err := a.read()
	if err != nil {
		return "", err
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	one := alert{
		Labels:      map[string]string{"alertname": "LBRemedyIncident", "class": t.Facts.Class, "cluster": a.cluster, "incident": t.Key},
		Annotations: map[string]string{"summary": t.Title, "description": t.Text, "impact": string(t.Facts.Impact)},
		StartsAt:    t.Facts.Since, EndsAt: t.At,
	}
	if t.Status == Open {
		one.EndsAt = t.At.Add(keepAlert)
	}
	return "", a.postJSON(ctx, u.JoinPath("api/v2/alerts"), header, []alert{one}, token)
}
