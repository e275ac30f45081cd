// Package sim is a simulated Alibaba Cloud, at the wire: one HTTP server on
// loopback that speaks the OpenAPI.
//
// Clients talk to it as they talk to the cloud. Signatures, time stamps and
// nonces are checked, access keys looked up, and every action is refused unless
// RAM allows it, so that a permission that nobody declared fails a test.
// What happened is known afterwards ([Cloud.Calls]), the state can be compared
// ([Cloud.Snapshot]) and changed behind everybody's back ([Cloud.Edit]), and
// faults can be put in any call's way ([Cloud.Fault]).
//
// Each product is a package below this one, with a table from action to handler and
// a state of its own: slb, nlb, vpc, ecs, ram (with STS), cs, quotas, billing and
// support. What they share is in core. This package carries requests to them and puts
// their states together. A handler runs with the state locked, so that each action
// is atomic, and answers with the fields that the public API reference names. A
// product that needs another reads its state and comes after it in newState. A
// further product is a further table in the list in wire.go and a further part of
// [State]; one with another way of signing needs a case in [Cloud.ServeHTTP] too.
//
// Error codes and texts are those of the public API reference and of recorded
// answers. The simulator is not generous: a parameter out of its documented
// range, a page too large or a document too long is refused as the API does.
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

	clients []*Caller // that are there whatever World is
	first   *World    // that it started with; for the admin API alone

	mu        sync.Mutex
	state     *State
	regions   map[string]*State // the others, as far as somebody asked for them
	calls     []Call
	forgotten int           // calls that came before these
	news      chan struct{} // closed with the next call; nil: nobody waits for it
	inHand    int           // requests that are being answered
	idle      chan struct{} // closed when none is any more; nil: nobody waits for it
	faults    []*standing
	stood     int // faults so far
	nonces    nonces
	dice      dice
}

// An Option changes how a Cloud runs.
type Option func(*Cloud)

// WithClock makes the Cloud read the time from now.
func WithClock(now func() time.Time) Option { return func(c *Cloud) { c.now = now } }

// WithListener makes the Cloud serve on this loopback address instead of a free
// port of 127.0.0.1.
func WithListener(addr string) Option { return func(c *Cloud) { c.addr = addr } }

// WithCallLimit makes the Cloud forget calls beyond the last n; 100,000 is the
// default, and 0 records none.
func WithCallLimit(n int) Option { return func(c *Cloud) { c.keep = n } }

// WithClient makes the Cloud have a caller of this name that may do these RAM
// actions. It is there again in each World that is put in the place of another,
// unless that one has a caller of this name or with this key.
func WithClient(name string, actions ...string) Option {
	return func(c *Cloud) {
		k := &Caller{Name: name, Allow: slices.Clone(actions)}
		k.Fill()
		c.clients = append(c.clients, k)
	}
}

// WithAdmin makes the Cloud answer its admin API at /sim/ too, which shows and
// changes all that there is. See [AdminHelp].
func WithAdmin() Option { return func(c *Cloud) { c.admin = true } }

// New starts a Cloud that stops with the test. A nil World is an empty one.
func New(t testing.TB, w *World, opts ...Option) *Cloud {
	t.Helper()
	c, err := Start(w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Start starts a Cloud; Close ends it. A nil World is an empty one, and w is
// not changed.
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

// here reports whether a host is this machine, and no other can reach it.
func here(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// addClients adds the callers that the Cloud always has; c.mu is held.
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

// handler answers for the OpenAPI and, if it is wanted, for the admin API.
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

// Close ends the Cloud and all its connections.
func (c *Cloud) Close() {
	c.stop()
	_ = c.server.Close()
}

// Addr returns host:port of the server.
func (c *Cloud) Addr() string { return c.addr }

// Region returns the region that the Cloud plays.
func (c *Cloud) Region() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Region
}

// Client returns credentials of a caller that may do exactly these RAM actions,
// such as "slb:DescribeLoadBalancers" or "vpc:Describe*". The same name gets
// the same key, with the new list in place of the old one.
func (c *Cloud) Client(name string, actions ...string) Credentials {
	k := &Caller{Name: name, Allow: slices.Clone(actions)}
	k.Fill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Callers[k.AccessKeyID] = k
	return k.Credentials()
}

// Holder returns credentials of a caller that may do what a RAM policy document
// allows, on the resources that it names. The same name gets the same key, with the
// new document in place of the old one.
func (c *Cloud) Holder(name, document string) Credentials {
	k := &Caller{Name: name, Allow: []string{"*"}, Policy: document}
	k.Fill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Callers[k.AccessKeyID] = k
	return k.Credentials()
}

// Admin returns credentials of a caller that may do everything.
func (c *Cloud) Admin() Credentials { return c.Client("admin", "*") }

// A Call is a request that the Cloud answered, or cut off.
type Call struct {
	Caller    string            // name of the caller; empty if it was not known
	Product   string            // such as slb; empty if it was not known
	Action    string            // such as DescribeLoadBalancers
	Params    map[string]string // without those of the signature
	At        time.Time
	Code      string // of the error; empty for success, "cut", "hang" or "garbage" for such a fault
	Status    int    // of HTTP
	Done      bool   // the action was carried out, whatever became of the answer
	RequestID string
}

// Calls returns the calls since the start or the last ResetCalls, in the order
// in which they were answered.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// CallsOf returns the calls of the caller with these credentials' name.
func (c *Cloud) CallsOf(caller string) []Call {
	return slices.DeleteFunc(c.Calls(), func(k Call) bool { return k.Caller != caller })
}

// ResetCalls forgets the calls.
func (c *Cloud) ResetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

// forget forgets the calls; c.mu is held.
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

// Snapshot returns a copy of the present state: sorted, so that two of them can
// be compared, and good to start another Cloud with.
func (c *Cloud) Snapshot() *World {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	return c.state.world()
}

// Edit changes the state behind the API's back. Nothing else runs meanwhile;
// do not call the Cloud from inside. What the change adds gets its defaults
// afterwards.
func (c *Cloud) Edit(change func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	change(c.state)
	c.state.settle()
}

// Replace puts a World in place of the present state, behind the API's back.
// IDs, client tokens and jobs go on as they were. An error means that nothing
// changed.
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

// LoseTag takes a tag off a load balancer, as a person in the console would.
func (c *Cloud) LoseTag(loadBalancer, key string) {
	c.Edit(func(s *State) {
		if lb := s.LoadBalancers[loadBalancer]; lb != nil {
			delete(lb.Tags, key)
		}
	})
}

// SetFree says how many free addresses a vSwitch has from now on.
func (c *Cloud) SetFree(vswitch string, free int) {
	c.Edit(func(s *State) {
		if v := s.VSwitches[vswitch]; v != nil {
			v.Free = &free
		}
	})
}

// DropLoadBalancer deletes a load balancer whatever protects it, as if somebody
// had done so by hand.
func (c *Cloud) DropLoadBalancer(id string) {
	c.Edit(func(s *State) { s.slbState.Drop(id) })
}

// Revoke denies RAM actions to a caller, whatever allows them, until Grant
// takes the denial back. It takes effect at once.
func (c *Cloud) Revoke(caller string, actions ...string) {
	c.Edit(func(s *State) {
		for _, k := range s.Callers {
			if k.Name == caller {
				k.Deny = append(slices.Clone(k.Deny), actions...)
			}
		}
	})
}

// Grant allows RAM actions to a caller and takes back what Revoke denied.
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
