// Package stream gives access to JetStream: failures wait in one stream, the journal of all cases is another, and documents are keys of
// a bucket. No other package imports the NATS client. Begin with [Connect] and [Stream]. It guarantees three things:
//
//   - Nothing is buffered while NATS is away: a call fails at once with [ErrUnavailable]. The connection is restored
//     automatically, however long that takes.
//   - A write whose acknowledgement is lost is sent again with the same identity, or read back, before the call returns.
//   - Order is kept by compare-and-set on the last sequence, never by message IDs: the server forgets those after two minutes, and
//     at a restart sooner.
//
// Batched direct gets and pull requests are implemented here: one direct get is a consistent view of several documents in one round
// trip, even on a replica; and the client mistakes a stored message with a status header and no data for the server's own status.
package stream

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
)

const (
	Failed = "FAILED" // waiting failures: one message per Service and class
	Cases  = "CASES"  // the journal
	Dead   = "DEAD"   // messages that can't be handled, with the reason
)

const deadPrefix = "lbremedy.dead."

// Kinds of errors, for errors.Is.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("another writer was first")
	ErrUnavailable = errors.New("NATS is not available")
	ErrFull        = errors.New("the stream is full")
)

// errLost marks an ErrUnavailable after which the message may be stored.
var errLost = errors.New("no acknowledgement came")

// errFlying marks an ErrUnavailable for a message whose ID the server is still storing.
var errFlying = errors.New("a message of this ID is being stored")

const (
	callTimeout = 5 * time.Second  // of one request, if the caller's context allows more
	dialTimeout = 2 * time.Second  // of one attempt to connect
	returnWait  = 5 * time.Second  // how long a lost acknowledgement waits for the connection
	defaultEnd  = 25 * time.Second // Config.Grace
)

// A Config holds the address of NATS and the user's credentials.
type Config struct {
	URL      string        // "nats://host:port" or "tls://host:port", with user:password@ or without, several separated by commas; empty: nats://127.0.0.1:4222
	Token    string        // the token that the server requires; empty: none
	Creds    string        // file with a user's JWT and key; empty: none
	NKey     string        // file with a user's seed; empty: none
	CA       string        // file with the root certificates of the server; empty: the system's
	Name     string        // name of this client in the server's reports; empty: lbremedy
	Grace    time.Duration // how long Consume lets running handlers finish; zero: 25 s
	Handlers int           // most handlers that Consume runs at once, over all classes together; zero: as many as their workers
	Log      *slog.Logger  // logs the state of the connection and the events of a worker; nil: nothing is logged
}

// A Stream is a connection to JetStream. Its methods are safe for concurrent use. A call without a sooner deadline ends after 5 s.
type Stream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	where   string // the server's address without its secrets
	grace   time.Duration
	beat    time.Duration // between two heartbeats of a message in hand
	words   time.Duration // for handlers that were cancelled
	longest time.Duration // that a handler may take
	link    atomic.Pointer[link]
	slots   chan struct{} // one for each running handler, if Config.Handlers limits them
	cut     atomic.Int64  // handlers that were cancelled at the end
	fulls   sync.Map      // by stream: whether the last try found it full
	changes [64]changes   // of documents, by a hash of their key
	deny    denials
}

// A link is one life of the connection. It holds a context because the client doesn't end its requests when the connection breaks.
type link struct {
	alive    context.Context
	lose     context.CancelFunc
	restored chan struct{} // closed when the next link is up
}

func newLink() *link {
	alive, lose := context.WithCancel(context.Background())
	return &link{alive: alive, lose: lose, restored: make(chan struct{})}
}

// Connect connects to NATS and keeps reconnecting without limit. The error is ErrUnavailable unless the configuration is wrong or ctx has ended.
func Connect(ctx context.Context, c Config) (*Stream, error) {
	c.URL = cmp.Or(c.URL, nats.DefaultURL)
	s := &Stream{
		log:     cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		where:   event.Addresses(c.URL),
		grace:   cmp.Or(c.Grace, defaultEnd),
		beat:    10 * time.Second,
		words:   5 * time.Second,
		longest: 20 * time.Minute, // a route may give a function at most 15
	}
	if c.Handlers > 0 {
		s.slots = make(chan struct{}, c.Handlers)
	}
	for i := range s.changes {
		s.changes[i].turn, s.changes[i].waiting = make(chan struct{}, 1), map[string][]*change{}
	}
	s.link.Store(newLink())
	opts, err := s.options(c)
	if err != nil {
		return nil, err
	}
	wait := dialTimeout
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	if s.nc, err = nats.Connect(c.URL, append(opts, nats.Timeout(wait))...); err != nil {
		return nil, s.refused(ctx, err)
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		s.nc.Close()
		return nil, fmt.Errorf("use JetStream at %s: %w", s.where, err)
	}
	return s, nil
}

func (s *Stream) options(c Config) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(cmp.Or(c.Name, "lbremedy")),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 400*time.Millisecond),
		nats.ReconnectBufSize(-1), // nothing is buffered while NATS is away
		nats.RetryOnFailedConnect(false),
		nats.SyncQueueLen(lastsMost + 16), // for the answers to one query; the client's default of 65,536 costs half a megabyte each time
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(), // a server that starts with old credentials must not end the program
		nats.DisconnectErrHandler(s.disconnected),
		nats.ReconnectHandler(s.reconnected),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if s.deny.met(err) {
				return // the caller logs it
			}
			s.log.Warn("NATS reports an error", "error", err)
		}),
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	if c.Creds != "" {
		if _, err := os.Stat(c.Creds); err != nil {
			return nil, fmt.Errorf("read the NATS credentials: %w", err)
		}
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.NKey != "" {
		seed, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			// The client's error may quote the file.
			return nil, fmt.Errorf("read the NATS key: %s holds no seed of a user", c.NKey)
		}
		opts = append(opts, seed)
	}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("read the root certificates for NATS: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the root certificates for NATS: %s holds no root certificates", c.CA)
		}
		opts = append(opts, nats.RootCAs(c.CA))
	}
	return opts, nil
}

// refused returns the error of a failed connection, with only the address of the URL.
func (s *Stream) refused(ctx context.Context, err error) error {
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(end) {
		return fmt.Errorf("connect to NATS at %s: %w", s.where, cmp.Or(ctx.Err(), context.DeadlineExceeded))
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	why := err.Error()
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		why = "the server refuses these credentials; give the token or the credentials file that it asks for"
	case errors.Is(err, nats.ErrSecureConnWanted):
		why = "the server speaks plain text, and TLS was asked for"
	case errors.As(err, &authority):
		why = "its certificate is of no authority that is trusted here; name the file with its root certificates"
	case errors.As(err, &host):
		why = "its certificate is for another name"
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.As(err, new(interface{ Timeout() bool })): // of package net
		why = "no NATS server answers there; start one or give the address of another"
	}
	return fmt.Errorf("connect to NATS at %s: %s: %w", s.where, why, ErrUnavailable)
}

func (s *Stream) disconnected(_ *nats.Conn, err error) {
	s.link.Load().lose()
	if err != nil {
		s.log.Warn("the connection to NATS is lost", "nats", s.where, "error", err)
	}
}

func (s *Stream) reconnected(*nats.Conn) {
	old := s.link.Swap(newLink())
	old.lose()
	close(old.restored)
	s.log.Info("connected to NATS again", "nats", s.where)
}

// Close ends the connection. Pending calls fail with ErrUnavailable.
func (s *Stream) Close() {
	s.nc.Close()
	s.link.Load().lose()
}

// Where returns the address of NATS without any secrets.
func (s *Stream) Where() string { return s.where }

// Ping asks the server for a reply; ErrUnavailable if none comes.
func (s *Stream) Ping(ctx context.Context) error {
	return s.call(ctx, "ping NATS", "", s.nc.FlushWithContext)
}

func (l *link) back(ctx context.Context, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-l.restored:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// Rest pauses before a retry; while NATS is away, at most until it is back. It reports whether ctx is active.
func (s *Stream) Rest(ctx context.Context, pause time.Duration) bool {
	s.link.Load().back(ctx, pause)
	return ctx.Err() == nil
}

// within returns a context for one request, which ends with ctx, after callTimeout, or with the connection. ErrUnavailable: the connection is down.
func (s *Stream) within(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	l := s.link.Load()
	if l.alive.Err() != nil {
		return nil, nil, fmt.Errorf("%w: no connection to %s", ErrUnavailable, s.where)
	}
	in, cancel := context.WithTimeout(ctx, callTimeout)
	stop := context.AfterFunc(l.alive, cancel)
	return in, func() { stop(); cancel() }, nil
}

// call makes a request in a context of within. Its error says what was being done, and has a kind. If the server refuses a message to
// a subject that begins with api, the request ends with ErrDenied; an empty api disables this.
func (s *Stream) call(ctx context.Context, doing, api string, do func(in context.Context) error) error {
	in, cancel, err := s.within(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	if api != "" {
		var over func()
		in, over = s.deny.within(in, api)
		defer over()
	}
	if err := do(in); err != nil {
		return s.fault(ctx, in, doing, err)
	}
	return nil
}

// fault adds what was being done, and a kind. ctx is the caller's, in the request's.
func (s *Stream) fault(ctx, in context.Context, doing string, err error) error {
	var api *jetstream.APIError
	errors.As(err, &api)
	is := func(codes ...jetstream.ErrorCode) bool { return api != nil && slices.Contains(codes, api.ErrorCode) }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w: %w: %w", doing, ErrUnavailable, errLost, ctx.Err())
	case denied(in) && !errors.Is(err, ErrDenied):
		return fmt.Errorf("%s: %w", doing, ErrDenied)
	case in.Err() != nil && errors.Is(err, in.Err()):
		if errors.Is(in.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%s: %w: %w within %s", doing, ErrUnavailable, errLost, callTimeout)
		}
		return fmt.Errorf("%s: %w: %w: the connection to %s broke", doing, ErrUnavailable, errLost, s.where)
	case is(codeSameIDFlying):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, errFlying)
	case is(jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return fmt.Errorf("%s: %w", doing, ErrConflict)
	case is(codeStoreFailed, codeNoStorage, codeNoResources, codeAccountLimit):
		return fmt.Errorf("%s: %w: %s", doing, ErrFull, api.Description)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%s: %w: the server at %s runs without JetStream; switch it on in its configuration", doing, ErrUnavailable, s.where)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s: %w: no stream at %s answers; run the setup if it never ran", doing, ErrUnavailable, s.where)
	case api != nil && api.Code == 404:
		return fmt.Errorf("%s: %w: %s", doing, ErrNotFound, api.Description)
	case api != nil && api.Code == 503:
		return fmt.Errorf("%s: %w: %s", doing, ErrUnavailable, api.Description)
	case slices.ContainsFunc(unsent, func(kind error) bool { return errors.Is(err, kind) }):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrInvalidJSAck):
		return fmt.Errorf("%s: %w: %w: %w", doing, ErrUnavailable, errLost, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// The client has no names for these codes.
const (
	codeStoreFailed  = 10077
	codeSameIDFlying = 10158
	codeNoStorage    = 10047
	codeNoResources  = 10023
	codeAccountLimit = 10002
)

var unsent = []error{nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrConnectionClosed, nats.ErrDisconnected,
	nats.ErrConnectionDraining}
