package ticket

import (
	"context"
	"strings"
)

// slack posts messages through an incoming webhook of Slack. They can't be changed, and
// one in a second is allowed (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
type slack struct{ endpoint }

// Open posts a message.
func (s *slack) Open(ctx context.Context, t Ticket) (string, error) { return "", s.send(ctx, t) }

// Update posts a message.
func (s *slack) Update(ctx context.Context, t Ticket) error { return s.send(ctx, t) }

// escaped are the characters that Slack reads as markup
// (https://docs.slack.dev/messaging/formatting-message-text).
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (s *slack) send(ctx context.Context, t Ticket) error {
	u, err := s.address()
	if err != nil {
		return err
	}
	_, err = s.postJSON(ctx, u, map[string]any{"text": "*" + escaped.Replace(t.Title) + "*\n" + escaped.Replace(t.Text)})
	return err
}
