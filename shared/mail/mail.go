// Package mail sends messages over SMTP (RFC 5321), with TLS from the start or by STARTTLS.
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

// A Server is one that takes mail.
type Server struct {
	Address *url.URL               // smtp://host:port or smtps://host:port
	User    string                 // who sends; empty: the address that a message is from
	Secret  func() (string, error) // of the user; nil: no login
	Roots   *x509.CertPool         // that certificates are checked by; nil: those of the system
}

// A Message is a plain text. Readers show all messages of one thread together.
type Message struct {
	From   string
	To     []string
	Title  string
	Text   string
	At     time.Time
	ID     string
	Thread string
}

const answerIn = 15 * time.Second // of a server, to the end of the answer

// Answered returns what a server has answered.
func Answered(said *textproto.Error) string {
	return fmt.Sprintf("code %d%s", said.Code, event.Quote([]byte(said.Msg)))
}

// Send hands a message over, and returns the recipients that the server refuses. It is an error if it refuses all.
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
		case errors.As(err, &said) && said.Code >= 500: // later ones may be taken: all get it then
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
	_ = c.Quit() // it has the message
	return without, nil
}

// bytes returns the message as it is sent (RFC 5322), with nothing that a line could break.
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
	field("Auto-Submitted", "auto-generated") // no reply by a machine (RFC 3834)
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

// bareAddress returns an address without a name. The policy admits only valid addresses.
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
