// Package mail sends messages over SMTP (RFC 5321), always with TLS: from the start or by STARTTLS. Begin with Server.Send.
package mail

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

	"github.com/lbremedy/lbremedy/shared/event"
)

// A Server is an SMTP server and the login for it.
type Server struct {
	Address *url.URL               // smtp://host:port or smtps://host:port
	User    string                 // login name; empty: the sender's address
	Secret  func() (string, error) // password; nil: no login
	Roots   *x509.CertPool         // to verify certificates; nil: the system's
}

// A Message is plain text. Readers show all messages of one thread together.
type Message struct {
	From   string
	To     []string
	Title  string
	Text   string
	At     time.Time
	ID     string
	Thread string
}

const answerIn = 15 * time.Second // timeout of a server's answer

// Answered returns a server's answer as text.
func Answered(said *textproto.Error) string {
	return fmt.Sprintf("code %d%s", said.Code, event.Quote([]byte(said.Msg)))
}

// Send delivers a message and returns the recipients that the server refuses. It fails if all are refused.
func (s Server) Send(ctx context.Context, m Message) (without []string, err error) {
	u := s.Address
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	secure := &tls.Config{ServerName: u.Hostname(), RootCAs: s.Roots, MinVersion: tls.VersionTLS12}
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
	if s.Secret != nil {
		secret, err := s.Secret()
		if err != nil {
			return nil, err
		}
		if err := c.Auth(smtp.PlainAuth("", cmp.Or(s.User, bareAddress(m.From)), secret, u.Hostname())); err != nil {
			return nil, err
		}
	}
	if err := c.Mail(bareAddress(m.From)); err != nil {
		return nil, err
	}
	var none error
	for _, to := range m.To {
		err := c.Rcpt(bareAddress(to))
		var said *textproto.Error
		switch {
		case errors.As(err, &said) && said.Code >= 500: // the server may accept later ones, which then all get it
			without, none = append(without, bareAddress(to)+": "+Answered(said)), cmp.Or(none, err)
		case err != nil:
			return nil, err
		}
	}
	if len(without) == len(m.To) {
		return nil, none
	}
	w, err := c.Data()
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(m.bytes()); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	_ = c.Quit() // the message is delivered
	return without, nil
}

// bytes returns the message in its wire format (RFC 5322), with fields that can't break it.
func (m Message) bytes() []byte {
	var b bytes.Buffer
	field := func(name, text string) { fmt.Fprintf(&b, "%s: %s\r\n", name, text) }
	field("Date", m.At.UTC().Format(time.RFC1123Z))
	field("From", fullAddress(m.From))
	var to []string
	for _, a := range m.To {
		to = append(to, fullAddress(a))
	}
	field("To", strings.Join(to, ",\r\n "))
	field("Subject", mime.BEncoding.Encode("utf-8", m.Title))
	field("Message-ID", "<"+m.ID+"@lbremedy.invalid>")
	field("References", "<"+m.Thread+"@lbremedy.invalid>")
	field("Auto-Submitted", "auto-generated") // suppresses automatic replies (RFC 3834)
	field("MIME-Version", "1.0")
	field("Content-Type", "text/plain; charset=utf-8")
	field("Content-Transfer-Encoding", "base64")
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(m.Text, "\n", "\r\n")))
	for len(text) > 0 {
		n := min(len(text), 76)
		b.WriteString(text[:n] + "\r\n")
		text = text[n:]
	}
	return b.Bytes()
}

// bareAddress needs no error: the policy admits only valid addresses.
func bareAddress(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.Address
	}
	return ""
}

func fullAddress(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.String()
	}
	return ""
}
