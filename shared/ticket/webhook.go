package ticket

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Types of a webhook's CloudEvents; data is a Notice.
const (
	TypeOpened = "io.lbremedy.ticket.opened.v1" // also for one that is over already, and for a reopened one
	TypeUpdate = "io.lbremedy.ticket.updated.v1"
	TypeClosed = "io.lbremedy.ticket.closed.v1"
)

// webhook posts signed CloudEvents in structured mode. The signature is that of Standard Webhooks 1.0, symmetric
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). A retry has the same webhook-id.
type webhook struct{ endpoint }

func (w *webhook) Send(ctx context.Context, t Ticket) (string, error) {
	u, secret, err := w.read()
	if err != nil {
		return "", err
	}
	kind := TypeUpdate
	switch {
	case t.Opens, t.Reopened:
		kind = TypeOpened
	case t.Status == Closed:
		kind = TypeClosed
	}
	signer, err := standard.NewWebhook(secret)
	if err != nil { // its text may contain a part of the secret
		return "", fmt.Errorf("%w: the value of %s is not a key in base64, with or without whsec_ before it", ErrRefused, w.sink.SecretFrom)
	}
	e := cloudevents.New()
	e.SetID(t.Message)
	e.SetType(kind)
	e.SetSource("/lbremedy")
	e.SetSubject(t.Incident)
	e.SetTime(t.At)
	if err := e.SetData(cloudevents.ApplicationJSON, t.Notice); err != nil {
		return "", fmt.Errorf("%w: encode the message: %w", ErrRefused, err)
	}
	body, err := event.EncodeJSON(e)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	now := w.now()
	signature, err := signer.Sign(t.Message, now, body)
	if err != nil {
		return "", fmt.Errorf("%w: sign the message", ErrRefused)
	}
	header := http.Header{"Content-Type": {cloudevents.ApplicationCloudEventsJSON + "; charset=utf-8"}}
	header.Set(standard.HeaderWebhookID, t.Message)
	header.Set(standard.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standard.HeaderWebhookSignature, signature)
	return t.Key, w.post(ctx, u, header, body, secret)
}
