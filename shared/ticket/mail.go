package ticket

import (
	"bytes"
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

// Open sends a message.
func (e *email) Open(ctx context.Context, t Ticket) (string, error) { return "", e.send(ctx, t) }

// Update sends a message.
func (e *email) Update(ctx context.Context, t Ticket) error { return e.send(ctx, t) }

// Close sends a message.
func (e *email) Close(ctx context.Context, t Ticket) error { return e.send(ctx, t) }

func (e *email) send(ctx context.Context, t Ticket) error {
	u, err := url.Parse(e.sink.URL)
	if err != nil {
		return fmt.Errorf("%w: the address is no URL", ErrRefused)
	}
	err = e.deliver(ctx, u, e.message(t))
	var said *textproto.Error
	if errors.As(err, &said) {
		err = fmt.Errorf("mail over %s: code %d%s", u.Host, said.Code, quote([]byte(said.Msg)))
		if said.Code >= 500 {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("mail over %s: %w", u.Host, err)
	}
	return nil
}

// deliver hands a message over.
func (e *email) deliver(ctx context.Context, u *url.URL, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	secure := &tls.Config{ServerName: u.Hostname(), RootCAs: e.roots, MinVersion: tls.VersionTLS12}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return err
		}
	}
	if u.Scheme == "smtps" {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, u.Hostname())
	if err != nil {
		return err
	}
	if u.Scheme == "smtp" {
		if err := c.StartTLS(secure); err != nil {
			return fmt.Errorf("begin TLS: %w", err)
		}
	}
	if e.sink.SecretFrom != (policy.Reference{}) {
		secret, err := e.sink.SecretFrom.Read()
		if err != nil {
			return err
		}
		user := e.sink.User
		if user == "" {
			user = bareAddress(e.sink.From)
		}
		if err := c.Auth(smtp.PlainAuth("", user, secret, u.Hostname())); err != nil {
			return err
		}
	}
	if err := c.Mail(bareAddress(e.sink.From)); err != nil {
		return err
	}
	for _, to := range e.sink.To {
		if err := c.Rcpt(bareAddress(to)); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(message); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // it has the message
	return nil
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
