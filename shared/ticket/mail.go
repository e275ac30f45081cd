package ticket

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/lbremedy/lbremedy/shared/mail"
	"github.com/lbremedy/lbremedy/shared/policy"
)

type email struct {
	sink  policy.Sink
	roots *x509.CertPool // to verify certificates; nil: the system's
}

func (e *email) Send(ctx context.Context, t Ticket) (string, error) {
	u, err := url.Parse(e.sink.URL)
	if err != nil {
		return "", fmt.Errorf("%w: the address is not a URL", ErrRefused)
	}
	to := mail.Server{Address: u, User: e.sink.User, Roots: e.roots}
	if e.sink.SecretFrom != (policy.Reference{}) {
		to.Secret = e.sink.SecretFrom.Read
	}
	without, err := to.Send(ctx, mail.Message{From: e.sink.From, To: e.sink.To, Title: t.Title, Text: t.Text, At: t.At, ID: t.Message, Thread: t.Key})
	var said *textproto.Error
	switch {
	case errors.As(err, &said):
		err = fmt.Errorf("mail over %s: %s", u.Host, mail.Answered(said))
		if said.Code >= 500 {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return "", err
	case err != nil:
		return "", fmt.Errorf("mail over %s: %w", u.Host, err)
	case len(without) > 0:
		return "", partlyError{fmt.Errorf("mail over %s went to the others, not to %s", u.Host, strings.Join(without, ", "))}
	}
	return "", nil
}
