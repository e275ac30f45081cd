package ticket

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A mailServer is one with TLS, as in RFC 5321 and 3207.
type mailServer struct {
	testing.TB
	at     net.Listener
	secure *tls.Config
	roots  *x509.CertPool

	mu      sync.Mutex
	answers map[string]string // instead of a good one, to a command or a line
	plain   bool              // lacks STARTTLS
	mails   []string          // envelope and message
}

func newMailServer(t testing.TB, implicit bool) *mailServer {
	web := httptest.NewTLSServer(nil)
	web.Close()
	m := &mailServer{TB: t, secure: web.TLS, roots: x509.NewCertPool(), answers: map[string]string{}}
	m.roots.AddCert(web.Certificate())
	var err error
	if m.at, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := m.at.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				if implicit {
					m.serve(tls.Server(conn, m.secure), true)
					return
				}
				m.serve(conn, false)
			})
		}
	})
	t.Cleanup(func() { m.at.Close(); wait.Wait() })
	return m
}

func (m *mailServer) serve(conn net.Conn, secure bool) {
	say := func(text string) { fmt.Fprintf(conn, "%s\r\n", text) }
	in := bufio.NewReader(conn)
	say("220 mail.example ESMTP")
	envelope, known := "", false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		m.mu.Lock()
		answer, plain := cmp.Or(m.answers[line], m.answers[word]), m.plain
		m.mu.Unlock()
		switch {
		case answer != "":
			say(answer)
		case word == "EHLO" && !secure && !plain:
			say("250-mail.example\r\n250 STARTTLS")
		case word == "EHLO" && secure:
			say("250-mail.example\r\n250 AUTH PLAIN")
		case word == "EHLO":
			say("250 mail.example")
		case word == "STARTTLS" && !plain:
			say("220 go ahead")
			m.serve2(tls.Server(conn, m.secure))
			return
		case word == "STARTTLS":
			say("502 unknown command")
		case word == "AUTH":
			want := "PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00ops\x00p4ss"))
			if known = rest == want && secure; known {
				say("235 welcome")
			} else {
				say("535 who are you? " + rest)
			}
		case !known:
			say("530 authentication required")
		case word == "MAIL" || word == "RCPT":
			envelope += line + "\n"
			say("250 ok")
		case word == "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			m.mu.Lock()
			m.mails = append(m.mails, envelope+"\n"+text.String())
			m.mu.Unlock()
			say("250 queued")
		case word == "QUIT":
			say("221 bye")
			return
		default:
			say("502 what?")
		}
	}
}

func (m *mailServer) serve2(conn net.Conn) {
	m.serve(&quiet{Conn: conn}, true)
}

type quiet struct {
	net.Conn
	greeted bool
}

func (q *quiet) Write(p []byte) (int, error) {
	if !q.greeted {
		q.greeted = true
		return len(p), nil
	}
	return q.Conn.Write(p)
}

func (m *mailServer) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.mails
	m.mails = nil
	return all
}

func (m *mailServer) answer(word, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = map[string]string{word: text}
}

func TestMail(t *testing.T) {
	for _, scheme := range []string{"smtps", "smtp"} {
		t.Run(scheme, func(t *testing.T) {
			w := newWorld(t)
			m := newMailServer(t, scheme == "smtps")
			f := w.follower(nil, policy.Sink{Name: "mail", Kind: policy.Mail, URL: scheme + "://" + m.at.Addr().String(), From: "lbremedy 值班 <lb@example.com>",
				To: []string{"ops@example.com", "Ann <ann@example.com>"}, User: "ops", SecretFrom: secret(t, "p4ss")})
			f.outlets[0].to.(*email).roots = m.roots
			q := w.queue(f, 0)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
				r.Cause, r.Finding = "值\r\nBcc: eve@example.com", say.Literal("The vSwitch is full.\n.\r\n.\nQUIT 漏")
			})))
			mails := m.take()
			if len(mails) != 1 {
				t.Fatalf("got %q: %s", mails, w.log.String())
			}
			envelope, text, _ := strings.Cut(mails[0], "\n\n")
			if envelope != "MAIL FROM:<lb@example.com>\nRCPT TO:<ops@example.com>\nRCPT TO:<ann@example.com>" {
				t.Errorf("got %s", envelope)
			}
			got, err := mail.ReadMessage(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
			body, err2 := io.ReadAll(base64.NewDecoder(base64.StdEncoding, got.Body))
			if err != nil || err2 != nil || subject != "The vSwitch is full (值 Bcc: eve@example.com), 1 Service" ||
				got.Header.Get("Bcc") != "" || !strings.Contains(string(body), "QUIT 漏") || strings.Contains(text, "\r\n.\r\n") {
				t.Errorf("got %v, %v: %s: %s", err, err2, subject, body)
			}
			if from, err := got.Header.AddressList("From"); err != nil || from[0].Name != "lbremedy 值班" {
				t.Errorf("got %v, %v", from, err)
			}
			q.pass(time.Hour)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
			q.pass(time.Hour)
			again := m.take()
			if len(again) == 0 || !slices.ContainsFunc(strings.Split(again[0], "\r\n"), func(line string) bool {
				return line == "References: "+got.Header.Get("References")
			}) {
				t.Errorf("got %q", again)
			}
			q.empty()
		})
	}
}

// Nothing is sent without TLS, and errors say whether a retry can help.
func TestMailErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*mailServer, *policy.Sink)
		trusts  bool
		want    string
		refused bool
	}{
		"no TLS":        {trusts: true, want: "code 502", refused: true, change: func(m *mailServer, _ *policy.Sink) { m.plain = true }},
		"not trusted":   {want: "certificate"},
		"wrong user":    {trusts: true, want: "code 535", refused: true, change: func(_ *mailServer, s *policy.Sink) { s.User = "eve" }},
		"full mailbox":  {trusts: true, want: "code 452", change: func(m *mailServer, _ *policy.Sink) { m.answer("RCPT", "452 mailbox full") }},
		"no such user":  {trusts: true, want: "code 550", refused: true, change: func(m *mailServer, _ *policy.Sink) { m.answer("RCPT", "550 no such user") }},
		"no server":     {trusts: true, want: "refused", change: func(m *mailServer, _ *policy.Sink) { m.at.Close() }},
		"nobody is who": {trusts: true, want: "code 530", refused: true, change: func(_ *mailServer, s *policy.Sink) { s.SecretFrom = policy.Reference{} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newMailServer(t, false)
			sink := policy.Sink{Name: "mail", Kind: policy.Mail, URL: "smtp://" + m.at.Addr().String(), From: "lb@example.com", To: []string{"ops@example.com"},
				User: "ops", SecretFrom: secret(t, "p4ss")}
			if tt.change != nil {
				tt.change(m, &sink)
			}
			f := w.follower(nil, sink)
			if tt.trusts {
				f.outlets[0].to.(*email).roots = m.roots
			}
			w.queue(f, 0).put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
			if st := stats(f); st.Opened > 0 || (st.Refused == 1) != tt.refused || !strings.Contains(w.log.String(), tt.want) || len(m.take()) > 0 ||
				strings.Contains(w.log.String(), "p4ss") || strings.Contains(w.log.String(), base64.StdEncoding.EncodeToString([]byte("\x00ops\x00p4ss"))) {
				t.Errorf("got %+v: %s", st, w.log.String())
			}
		})
	}
}

// When a recipient is refused, the others get the mail, and the ticket says who did not.
func TestMailToSome(t *testing.T) {
	w := newWorld(t)
	m := newMailServer(t, true)
	m.answer("RCPT TO:<b@example.com>", "550 5.1.1 no such user")
	f := w.follower(nil, policy.Sink{Name: "mail", Kind: policy.Mail, URL: "smtps://" + m.at.Addr().String(), From: "lb@example.com",
		To: []string{"a@example.com", "Bo <b@example.com>", "c@example.com"}, User: "ops", SecretFrom: secret(t, "p4ss")})
	f.outlets[0].to.(*email).roots = m.roots
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	mails := m.take()
	if len(mails) != 1 || !strings.HasPrefix(mails[0], "MAIL FROM:<lb@example.com>\nRCPT TO:<a@example.com>\nRCPT TO:<c@example.com>\n\n") {
		t.Fatalf("got %q: %s", mails, w.log.String())
	}
	q.empty()
	list, err := List(w.ctx, w.s)
	if err != nil || len(list) != 1 || len(list[0].Tickets) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	const missed = `b@example.com: code 550: "5.1.1 no such user"`
	if got := list[0].Tickets[0]; got.Status != Open || got.Refused || got.Error != "" || !strings.Contains(got.Missed, missed) {
		t.Errorf("got %+v", got)
	}
	if got := stats(f); got.Refused != 1 {
		t.Errorf("got %+v, want that it was refused for one", got)
	}
	m.answer("", "")
	q.pass(time.Hour)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	if list, err = List(w.ctx, w.s); err != nil || list[0].Tickets[0].Missed != "" || len(m.take()) != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// Deferring is not refusing: all get the mail later.
func TestMailPutOff(t *testing.T) {
	w := newWorld(t)
	m := newMailServer(t, true)
	m.answer("RCPT TO:<b@example.com>", "451 4.7.1 greylisted, try again in 60 s")
	f := w.follower(nil, policy.Sink{Name: "mail", Kind: policy.Mail, URL: "smtps://" + m.at.Addr().String(), From: "lb@example.com",
		To: []string{"a@example.com", "b@example.com"}, User: "ops", SecretFrom: secret(t, "p4ss")})
	f.outlets[0].to.(*email).roots = m.roots
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	if got := m.take(); len(got) != 0 {
		t.Errorf("got %q, want none yet", got)
	}
	m.answer("", "")
	q.pass(10 * time.Minute)
	if got := m.take(); len(got) != 1 || !strings.Contains(got[0], "a@example.com") || !strings.Contains(got[0], "b@example.com") {
		t.Errorf("got %q, want one mail to both", got)
	}
	q.empty()
}
