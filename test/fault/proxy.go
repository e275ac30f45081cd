package main

import (
	"net"
	"sync"
	"time"
)

// A mode is what a proxy does to what it carries.
type mode int

const (
	pass   mode = iota
	hold        // nothing goes through in either direction, and nobody is told
	drop        // what is sent is lost; who waits for it learns at the end, when the connections are reset
	refuse      // connections are reset, and new ones closed at once
	mute        // the connections that there are hear nothing more; new ones work
	double      // what comes back comes twice
)

// A proxy carries the connections of one part to one of the others, which may be several
// servers: the first that takes a connection has it, as behind a load balancer.
type proxy struct {
	listener net.Listener
	to       []string

	mu      sync.Mutex
	changed sync.Cond
	mode    mode
	epoch   int // counts the changes of the mode
	turn    int
	links   map[*link]bool
	closed  bool
}

// A link is one connection that a proxy carries.
type link struct {
	client, server net.Conn
	epoch          int  // in which it was made
	lost           bool // something of it was not carried
}

// newProxy starts a proxy to addresses, each host:port.
func newProxy(to ...string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to, links: map[*link]bool{}}
	p.changed.L = &p.mu
	go p.serve()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes the mode. Connections of which something was lost are reset.
func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	p.epoch++
	for l := range p.links {
		if m == refuse || l.lost {
			l.reset()
		}
	}
	p.changed.Broadcast()
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.reset()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close()
}

// reset ends a link as a firewall does that has forgotten it.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.carry(c)
	}
}

func (p *proxy) carry(client net.Conn) {
	p.mu.Lock()
	for (p.mode == hold || p.mode == drop) && !p.closed {
		p.changed.Wait()
	}
	ok, epoch := p.mode != refuse && !p.closed, p.epoch
	p.turn++
	first := p.turn
	p.mu.Unlock()
	if !ok {
		_ = client.Close()
		return
	}
	var server net.Conn
	for i := range p.to {
		var err error
		if server, err = net.DialTimeout("tcp", p.to[(first+i)%len(p.to)], 2*time.Second); err == nil {
			break
		}
	}
	if server == nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server, epoch: epoch}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, server, client, false) })
	both.Go(func() { p.pump(l, client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pump carries one direction until it ends, and then ends the other.
func (p *proxy) pump(l *link, to, from net.Conn, back bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			for range p.copies(l, back) {
				if _, err := to.Write(buffer[:n]); err != nil {
					break
				}
			}
		}
		if err != nil {
			_ = l.client.Close()
			_ = l.server.Close()
			return
		}
	}
}

// copies returns how often what was read is written, and waits while it must.
func (p *proxy) copies(l *link, back bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mode == hold && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.mode == drop, p.mode == mute && back && l.epoch < p.epoch, l.lost:
		l.lost = true
		return 0
	case p.mode == double && back:
		l.lost = true // it must not be used when the fault is over
		return 2
	}
	return 1
}
