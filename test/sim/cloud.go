// Package sim is a simulated Alibaba Cloud: one HTTP server on loopback that serves the OpenAPI. It checks signatures, time stamps, nonces
// and access keys, and rejects every action that RAM does not allow, so an undeclared permission fails a test. Error codes and texts are
// those of the public API reference and of recorded answers, and documented limits of parameters, pages and documents apply.
//
// Begin with [New] and a [World]. Tests can read the calls ([Cloud.Calls]), compare the state ([Cloud.Snapshot]), change it outside the API
// ([Cloud.Edit]) and inject faults ([Cloud.Fault]).
//
// Each product is a package below this one with a table of actions and a state; core has their common parts. Handlers run with the state
// locked, so each action is atomic. A product that needs another's state comes after it in newState. To add a product, add its table to the
// list in wire.go and its state to [State]; another kind of signature also needs a case in [Cloud.ServeHTTP].
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Cloud is a running simulator.
type Cloud struct {
	addr   string
	server *http.Server
	stop   context.CancelFunc
	now    func() time.Time
	keep   int
	admin  bool

	clients []*Caller // callers of every World
	first   *World    // initial World; for the admin API only

	mu        sync.Mutex
	state     *State
	regions   map[string]*State // other regions that were requested
	calls     []Call
	forgotten int           // number of dropped calls
	news      chan struct{} // closed at the next call; nil: nobody waits
	inHand    int           // requests in progress
	idle      chan struct{} // closed when there are no more; nil: nobody waits
	faults    []*standing
	stood     int // number of faults so far
	nonces    nonces
	dice      dice
}

// An Option configures a Cloud.
type Option func(*Cloud)

// WithClock sets the clock of the Cloud.
func WithClock(now func() time.Time) Option { return func(c *Cloud) { c.now = now } }

// WithListener sets a loopback address instead of a free port of 127.0.0.1.
func WithListener(addr string) Option { return func(c *Cloud) { c.addr = addr } }

// WithCallLimit limits the recorded calls to the last n; the default is 100,000, and 0 records none.
func WithCallLimit(n int) Option { return func(c *Cloud) { c.keep = n } }

// WithClient adds a caller with these RAM actions to every World that has none with this name or key.
func WithClient(name string, actions ...string) Option {
	return func(c *Cloud) {
		k := &Caller{Name: name, Allow: slices.Clone(actions)}
		k.Fill()
		c.clients = append(c.clients, k)
	}
}

// WithAdmin enables the admin API at /sim/, which shows and changes the whole state. See [AdminHelp].
func WithAdmin() Option { return func(c *Cloud) { c.admin = true } }

// New starts a Cloud that stops with the test. A nil World is empty.
func New(t testing.TB, w *World, opts ...Option) *Cloud {
	t.Helper()
	c, err := Start(w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Start starts a Cloud; Close stops it. A nil World is empty. Start does not change w.
func Start(w *World, opts ...Option) (*Cloud, error) {
	if w == nil {
		w = &World{}
	}
	c := &Cloud{addr: "127.0.0.1:0", now: time.Now, keep: 100_000}
	for _, o := range opts {
		o(c)
	}
	if host, _, err := net.SplitHostPort(c.addr); err != nil {
		return nil, fmt.Errorf("start simulated cloud: %w", err)
	} else if !here(host) {
		return nil, fmt.Errorf("start simulated cloud: %s is not a loopback address", c.addr)
	}
	s, err := newState(w.Clone(), c.now)
	if err != nil {
		return nil, fmt.Errorf("start simulated cloud: %w", err)
	}
	c.state = s
	c.addClients()
	if c.admin {
		c.first = w.Clone()
	}
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("start simulated cloud: %w", err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("start simulated cloud: %s is not a loopback address", l.Addr())
	}
	c.addr = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.server = &http.Server{
		Handler:           c.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() {
		if err := c.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			stop()
		}
	}()
	return c, nil
}

// here reports whether a host is this machine and cannot be reached from others.
func here(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// addClients needs c.mu.
func (c *Cloud) addClients() {
	for _, k := range c.clients {
		has := false
		for _, other := range c.state.Callers {
			has = has || other.Name == k.Name || other.AccessKeyID == k.AccessKeyID
		}
		if !has {
			again := *k
			c.state.Callers[k.AccessKeyID] = &again
		}
	}
}

func (c *Cloud) handler() http.Handler {
	if !c.admin {
		return c
	}
	admin := c.adminHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sim" || strings.HasPrefix(r.URL.Path, "/sim/") {
			admin.ServeHTTP(w, r)
			return
		}
		c.ServeHTTP(w, r)
	})
}

// Close stops the Cloud and closes its connections.
func (c *Cloud) Close() {
	c.stop()
	_ = c.server.Close()
}

// Addr returns host:port of the server.
func (c *Cloud) Addr() string { return c.addr }

// Region returns the Cloud's region.
func (c *Cloud) Region() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Region
}

// Client returns credentials for exactly these RAM actions, such as "vpc:Describe*". A repeated name keeps its key and gets the new list.
func (c *Cloud) Client(name string, actions ...string) Credentials {
	k := &Caller{Name: name, Allow: slices.Clone(actions)}
	k.Fill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Callers[k.AccessKeyID] = k
	return k.Credentials()
}

// Holder returns credentials of a caller with the rights of a RAM policy document. A repeated name keeps its key and gets the new one.
func (c *Cloud) Holder(name, document string) Credentials {
	k := &Caller{Name: name, Allow: []string{"*"}, Policy: document}
	k.Fill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Callers[k.AccessKeyID] = k
	return k.Credentials()
}

// Admin returns credentials of a caller with all rights.
func (c *Cloud) Admin() Credentials { return c.Client("admin", "*") }

// A Call is a request that the Cloud answered or interrupted.
type Call struct {
	Caller    string            // caller's name; empty if unknown
	Product   string            // such as slb; empty if unknown
	Action    string            // such as DescribeLoadBalancers
	Params    map[string]string // without parameters of the signature
	At        time.Time
	Code      string // of the error; empty for success; "cut", "hang" or "garbage" for these faults
	Status    int    // HTTP status
	Done      bool   // the action was executed, whatever the answer
	RequestID string
}

// Calls returns the calls since the start or the last ResetCalls, in order of their answers.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// CallsOf returns the calls of the caller with this name.
func (c *Cloud) CallsOf(caller string) []Call {
	return slices.DeleteFunc(c.Calls(), func(k Call) bool { return k.Caller != caller })
}

// ResetCalls discards the recorded calls.
func (c *Cloud) ResetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *Cloud) forget() {
	c.forgotten += len(c.calls)
	c.calls = nil
}

func (c *Cloud) record(k Call) {
	if c.keep <= 0 {
		return
	}
	if len(c.calls) >= 2*c.keep {
		cut := len(c.calls) - c.keep + 1
		c.calls = slices.Clone(c.calls[cut:])
		c.forgotten += cut
	}
	c.calls = append(c.calls, k)
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// Snapshot returns a sorted copy of the state, to compare with another one or to start another Cloud.
func (c *Cloud) Snapshot() *World {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	return c.state.world()
}

// Edit changes the state outside the API, while nothing else runs; change must not call the Cloud. Added objects then get defaults.
func (c *Cloud) Edit(change func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	change(c.state)
	c.state.settle()
}

// Replace replaces the state by a World, outside the API. IDs, client tokens and jobs continue. After an error nothing has changed.
func (c *Cloud) Replace(w *World) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.replace(w); err != nil {
		return err
	}
	c.addClients()
	return nil
}

func (c *Cloud) replace(w *World) error {
	s, err := newState(w.Clone(), c.now)
	if err != nil {
		return fmt.Errorf("replace the world: %w", err)
	}
	s.adopt(c.state)
	c.state = s
	return nil
}

// LoseTag removes a tag from a load balancer, like a person in the console.
func (c *Cloud) LoseTag(loadBalancer, key string) {
	c.Edit(func(s *State) {
		if lb := s.LoadBalancers[loadBalancer]; lb != nil {
			delete(lb.Tags, key)
		}
	})
}

// SetFree sets the number of free addresses of a vSwitch.
func (c *Cloud) SetFree(vswitch string, free int) {
	c.Edit(func(s *State) {
		if v := s.VSwitches[vswitch]; v != nil {
			v.Free = &free
		}
	})
}

// DropLoadBalancer deletes a load balancer despite any protection, like a person.
func (c *Cloud) DropLoadBalancer(id string) {
	c.Edit(func(s *State) { s.slbState.Drop(id) })
}

// Revoke denies RAM actions to a caller, whatever allows them, until Grant removes the denial. It takes effect immediately.
func (c *Cloud) Revoke(caller string, actions ...string) {
	c.Edit(func(s *State) {
		for _, k := range s.Callers {
			if k.Name == caller {
				k.Deny = append(slices.Clone(k.Deny), actions...)
			}
		}
	})
}

// Grant allows RAM actions to a caller and removes denials of Revoke.
func (c *Cloud) Grant(caller string, actions ...string) {
	c.Edit(func(s *State) {
		for _, k := range s.Callers {
			if k.Name == caller {
				k.Deny = slices.DeleteFunc(slices.Clone(k.Deny), func(a string) bool { return slices.Contains(actions, a) })
				k.Allow = append(slices.Clone(k.Allow), actions...)
			}
		}
	})
}
