// Package console is the command that shows in a browser what the other commands show in a
// terminal, and keeps it current. Its server runs on the machine of the person who starts it,
// with their kubeconfig and their NATS user, and writes nothing.
//
// Pages are made on the server by html/template, so that whatever a controller, a cloud or a
// person has put into a text stays text. Everything that the browser loads is embedded; the
// Content-Security-Policy allows nothing else. A few lines of script follow one stream of
// server-sent events, fetch the page again when it says so, and replace the parts that changed.
//
// What changes often is read before anybody asks for it: a [book] follows the journal, and a
// [reading] keeps what was last read of the cluster and the account. So a page of a cluster
// with 5,000 Services takes milliseconds. The book asks NATS again and again for what is new
// instead of taking a consumer: a user who may only read may not have one.
package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
)

// Command returns the command console.
func Command(p *cli.Program) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show cases, questions, load balancers and the policy in a browser",
		Long: `Start a server on this machine that shows lbremedy in a browser, until Ctrl-C: how it stands
now, the questions that wait for a person, each case, the load balancers, the findings of the
doctor, the policy and the classes. Pages change by themselves when the journal does.

It connects as the other commands do, with your kubeconfig, your access key and your NATS
user, and only reads. Without --cluster it shows the cases of all clusters in NATS; load
balancers and the doctor need --cluster and --region. They are read when you first look at
their pages, and again when you ask for it.

The printed address holds a key, which is new for each start. Anyone on this machine who has it
can read what you can.`,
		Example: `  lbremedy console
  lbremedy console --listen 127.0.0.1:9000 --cluster c1234 --region cn-hangzhou`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), p, listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8383", "`address` of this machine to listen on; port 0 takes a free one")
	return cmd
}

// run serves until ctx ends.
func run(ctx context.Context, p *cli.Program, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return command.Wrong("--listen: %q is no loopback address with a port, such as 127.0.0.1:8383", listen)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return command.Wrong("--listen: %w", err)
	}
	quiet := *p // what the parts have to say stands on the pages
	quiet.Err = io.Discard
	s, err := newServer(&quiet, listener.Addr().String(), rand.Text())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Fprintf(p.Out, "http://%s/?key=%s\n", s.host, s.key)
	p.Note("Open this address in a browser. It is for you alone: anyone who has it can read what you can. Ctrl-C ends the console.")
	return s.serve(ctx, listener)
}

// serve answers until ctx ends, and keeps what it answers from current.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() { s.book.run(ctx) })
	wait.Go(func() { s.reading.run(ctx) })
	h := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	wait.Go(func() { ended <- h.Serve(listener) })
	select {
	case err := <-ended:
		return fmt.Errorf("serve the console: %w", err)
	case <-ctx.Done():
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if h.Shutdown(last) != nil { // a browser that does not hang up
		_ = h.Close()
	}
	return nil
}
