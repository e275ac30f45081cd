package main

import (
	"net"
	"sync"
	"time"
)

type mode int

const (
	pass   mode = iota
	hold        // nothing passes in either direction, silently
	drop        // data is lost silently; at the end, connections are reset
	refuse      // connections are reset, and new ones closed at once
	mute        // existing connections receive nothing; new ones work
	double      // received data arrives twice
)

// A proxy connects one part to another, or to the first of several servers that accepts a connection, as behind a load balancer.
type proxy struct {
	listener net.Listener
	to       []string

	mu      sync.Mutex
	changed sync.Cond
	mode    mode
	epoch   int // number of mode changes
	turn    int
	links   map[*link]bool
	closed  bool
}

type link struct {
	client, server net.Conn
	epoch          int  // of its creation
	lost           bool // some data was lost
}

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

// set changes the mode. Connections that lost data are reset.
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
		l.lost = true // it must not be used after the fault
		return 2
	}
	return 1
}
