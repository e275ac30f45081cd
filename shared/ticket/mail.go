package ticket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy"
)

// email sends messages over SMTP (RFC 5321), with TLS from the start or by STARTTLS. All messages of one ticket
// refer to the same one, by which readers show them together.
type email struct {
	sink  policy.Sink
	roots *x509.CertPool // that certificates are checked by; nil: those of the system
}

func (e *email) send(ctx context.Context, t Ticket) error {
	u, err := url.Parse(e.sink.URL)
	if err != nil {
		return fmt.Errorf("%w: the address is no URL", ErrRefused)
	}
	without, err := e.deliver(ctx, u, e.message(t))
	var said *textproto.Error
	switch {
	case errors.As(err, &said):
		err = fmt.Errorf("mail over %s: %s", u.Host, answered(said))
		if said.Code >= 500 {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	case err != nil:
		return fmt.Errorf("mail over %s: %w", u.Host, err)
	case len(without) > 0:
		return partlyError{fmt.Errorf("mail over %s went to the others, not to %s", u.Host, strings.Join(without, ", "))}
	}
	return nil
}

// answered returns what a server of mail has answered.
func answered(said *textproto.Error) string {
	return fmt.Sprintf("code %d%s", said.Code, quote([]byte(said.Msg)))
}

// deliver hands a message over, and returns those to whom the server does not take it. It is an error if it
// takes it to nobody.
func (e *email) deliver(ctx context.Context, u *url.URL, message []byte) (without []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	secure := &tls.Config{ServerName: u.Hostname(), RootCAs: e.roots, MinVersion: tls.VersionTLS12}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return nil, err
		}
	}
	if u.Scheme == "smtps" {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, u.Hostname())
	if err != nil {
		return nil, err
	}
	if u.Scheme == "smtp" {
		if err := c.StartTLS(secure); err != nil {
			return nil, fmt.Errorf("begin TLS: %w", err)
		}
	}
	if e.sink.SecretFrom != (policy.Reference{}) {
		secret, err := e.sink.SecretFrom.Read()
		if err != nil {
			return nil, err
		}
		user := e.sink.User
		if user == "" {
			user = bareAddress(e.sink.From)
		}
		if err := c.Auth(smtp.PlainAuth("", user, secret, u.Hostname())); err != nil {
			return nil, err
		}
	}
	if err := c.Mail(bareAddress(e.sink.From)); err != nil {
		return nil, err
	}
	var none error
	for _, to := range e.sink.To {
		err := c.Rcpt(bareAddress(to))
		var said *textproto.Error
		switch {
		case errors.As(err, &said) && said.Code >= 500: // later ones may be taken: all get it then
			without, none = append(without, bareAddress(to)+": "+answered(said)), cmp.Or(none, err)
		case err != nil:
			return nil, err
		}
	}
	if len(without) == len(e.sink.To) {
		return nil, none
	}
	w, err := c.Data()
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(message); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	_ = c.Quit() // it has the message
	return without, nil
}

// message returns a ticket as a mail (RFC 5322): a plain text, with nothing that a line could break.
func (e *email) message(t Ticket) []byte {
	var b bytes.Buffer
	field := func(name, text string) { fmt.Fprintf(&b, "%s: %s\r\n", name, text) }
	field("Date", t.At.UTC().Format(time.RFC1123Z))
	field("From", fullAddress(e.sink.From))
	var to []string
	for _, a := range e.sink.To {
		to = append(to, fullAddress(a))
	}
	field("To", strings.Join(to, ",\r\n "))
	field("Subject", mime.BEncoding.Encode("utf-8", t.Title))
	field("Message-ID", "<"+t.Message+"@lbremedy.invalid>")
	field("References", "<"+t.Key+"@lbremedy.invalid>")
	field("Auto-Submitted", "auto-generated") // no reply by a machine (RFC 3834)
	field("MIME-Version", "1.0")
	field("Content-Type", "text/plain; charset=utf-8")
	field("Content-Transfer-Encoding", "base64")
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(t.Text, "\n", "\r\n")))
	for len(text) > 0 {
		n := min(len(text), 76)
		b.WriteString(text[:n] + "\r\n")
		text = text[n:]
	}
	return b.Bytes()
}

// bareAddress returns an address without a name. The policy has been checked for what is none.
func bareAddress(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.Address
	}
	return ""
}

// fullAddress returns an address with its name, as a header has it.
func fullAddress(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.String()
	}
	return ""
}
