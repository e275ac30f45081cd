// Package console shows in a browser what the other commands show in a terminal, and keeps it current. Its server runs on a person's machine
// with their kubeconfig and NATS user, or in the cluster, where people log in with their own tokens. Begin with Command and [server].
//
// The server writes only people's answers: Approvals created with their credentials. It needs no right to write. A login is checked with the
// person's own token by SelfSubjectReview and SelfSubjectAccessReview; TokenReview and SubjectAccessReview would require the right to create them.
//
// Pages are rendered with html/template: text from a controller, a cloud or a person stays text. The Content-Security-Policy allows only
// what is embedded. A short script follows one stream of server-sent events and replaces the parts that changed.
//
// An [index] follows the journal, and a [reading] holds the last reading of the cluster and the account: pages read neither whole. The
// index polls NATS for news, since a read-only user may not create a consumer.
package console

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/serve"
)

type consoleRun struct {
	*cli.Program
	listen, address string
	login           bool
	cert, certKey   string
	aliases         map[string]string
}

// Command returns the command console.
func Command(p *cli.Program) *cobra.Command {
	c := consoleRun{Program: p}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show cases, questions, findings and the policy in a browser, and answer there",
		Long: `Start a server that shows lbremedy in a browser, until Ctrl-C: its current status, the
questions that wait for a person, each case, the findings of the doctor, the policy and the
classes. Pages change by themselves when the journal does.

It only reads, but for your answers: to approve or reject a plan creates an Approval with
your kubeconfig, as "lbremedy approve" does. Without --cluster it shows the cases of all
clusters in NATS; the doctor, and links to Alibaba Cloud's console, need --cluster and --region.

The printed address holds a key, which is new for each start. Anyone on this machine who has it
can read what you can, and answer in your name.

With --login it is for others: people log in with a token that the API server accepts. A
user who may list the Services of all namespaces may look, and one who may create Approvals
in a namespace may answer there.`,
		Example: `  lbremedy console
  lbremedy console --listen 127.0.0.1:9000 --cluster c1234 --region cn-hangzhou
  lbremedy console --login --listen :8383 --url https://lbremedy.example.com --cluster c1234 --region cn-hangzhou`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&c.listen, "listen", "127.0.0.1:8383", "`address` to listen on; port 0 takes a free one. Without --login it is one of this machine")
	cmd.Flags().BoolVar(&c.login, "login", false, "people log in with a token of their own")
	cmd.Flags().StringVar(&c.address, "url", "", "with --login: `URL` at which browsers reach it, if that is not where it listens")
	cmd.Flags().StringToStringVar(&c.aliases, "alias", nil, "`ID=NAME` of clusters: pages show the name, with the ID as its title")
	cmd.Flags().StringVar(&c.cert, "tls-cert", "", "with --login: `file` with the certificate to serve HTTPS with; it is read again when it changes")
	cmd.Flags().StringVar(&c.certKey, "tls-key", "", "with --login: `file` with the certificate's key")
	return cmd
}

func (c consoleRun) run(ctx context.Context) error {
	quiet := *c.Program // the pages show the messages of the parts
	quiet.Err = io.Discard
	at, err := c.at()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return command.Wrong("--listen: %w", err)
	}
	if at.Host == "" {
		at.Host = listener.Addr().String()
	}
	if c.cert != "" {
		pair := &pair{cert: c.cert, key: c.certKey}
		if _, err := pair.get(nil); err != nil {
			return errors.Join(command.Wrong("--tls-cert and --tls-key: %w", err), listener.Close())
		}
		listener = tls.NewListener(listener, &tls.Config{GetCertificate: pair.get, NextProtos: []string{"http/1.1"}})
	}
	s, err := newServer(&quiet, at, c.aliases)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if c.login {
		s.auth = newLogins(s, quiet.KubeAs)
		fmt.Fprintf(c.Out, "%s/\n", at)
		c.Note("People log in at this address with a token that the API server accepts. Ctrl-C ends the console.")
		return s.serve(ctx, listener)
	}
	cluster, err := quiet.Kube()
	key := rand.Text()
	s.auth = keyed{s, key, newPerson(cluster, "", err)}
	fmt.Fprintf(c.Out, "%s/?key=%s\n", at, key)
	c.Note("Open this address in a browser. It is for you alone: anyone who has it can read what you can, and answer in your name. Ctrl-C ends the console.")
	return s.serve(ctx, listener)
}

// at returns an address without a host if that is only known after listening.
func (c consoleRun) at() (*url.URL, error) {
	host, _, err := net.SplitHostPort(c.listen)
	if err != nil || !c.login && !loopback(host) {
		return nil, command.Wrong("--listen: %q is not a loopback address with a port, such as 127.0.0.1:8383", c.listen)
	}
	for id := range c.aliases {
		if event.ValidCluster(id) != nil {
			return nil, command.Wrong("--alias: %q is not a cluster ID, as in c1234=production", id)
		}
	}
	at := &url.URL{Scheme: "http"}
	if c.cert != "" {
		at.Scheme = "https"
	}
	switch {
	case !c.login && (c.address != "" || c.cert != "" || c.certKey != ""):
		return nil, command.Wrong("--url, --tls-cert and --tls-key are for a console with --login")
	case c.login && c.Cluster == "":
		return nil, command.Wrong("--login needs --cluster: people log in at the API server of one")
	case (c.cert == "") != (c.certKey == ""):
		return nil, command.Wrong("--tls-cert and --tls-key belong together")
	case c.address != "":
		at, err = url.Parse(c.address)
		if err != nil || at.Host == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" {
			return nil, command.Wrong("--url: %q is not the address of a server, such as https://lbremedy.example.com", c.address)
		}
		at.Path = ""
	case c.login && !loopback(host):
		return nil, command.Wrong("--login: --url has to say at which address browsers reach %s", c.listen)
	}
	if at.Scheme != "https" && (at.Scheme != "http" || at.Host != "" && !loopback(at.Hostname())) {
		return nil, command.Wrong("--url: %q is not https. Tokens are typed into this console, so only a loopback address goes without", c.address)
	}
	return at, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

type pair struct {
	cert, key string
	last      atomic.Pointer[tls.Certificate]
}

// get keeps the previous certificate if the new one can't be read.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	fresh, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err == nil {
		p.last.Store(&fresh)
	}
	if last := p.last.Load(); last != nil {
		return last, nil
	}
	return nil, err
}

const (
	sending = 30 * time.Second // timeout of sending a form
	silent  = 2 * time.Minute  // timeout of an idle connection
)

// limited closes silent connections, which anybody can open without a login. Answers have no timeout, since the stream of changes is one.
func limited(h http.Handler, sending, idle time.Duration) *http.Server {
	return &http.Server{Handler: serve.Timed(h, sending), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idle, MaxHeaderBytes: 64 << 10}
}

func (s *server) serve(ctx context.Context, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.index.run(ctx); return nil })
	g.Go(func() error { s.reading.run(ctx); return nil })
	h := limited(s.handler(), sending, silent)
	h.BaseContext = func(net.Listener) context.Context { return ctx }
	g.Go(func() error {
		<-ctx.Done()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		if h.Shutdown(last) != nil { // a browser that doesn't hang up
			_ = h.Close()
		}
		return nil
	})
	g.Go(func() error {
		if err := h.Serve(listener); ctx.Err() == nil {
			return fmt.Errorf("serve the console: %w", err)
		}
		return nil
	})
	return g.Wait()
}
