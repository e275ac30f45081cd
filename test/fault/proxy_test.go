package main

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/shell"
)

func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

type caller struct {
	*testing.T
	net.Conn
	lines *bufio.Reader
}

func call(t *testing.T, p *proxy) *caller {
	t.Helper()
	c, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

func (c *caller) says(text string) {
	c.Helper()
	if _, err := c.Write([]byte(text + "\n")); err != nil {
		c.Fatal(err)
	}
}

func (c *caller) hears(text string) {
	c.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		c.Fatal(err)
	}
	line, err := c.lines.ReadString('\n')
	if text == "" && err == nil || text != "" && line != text+"\n" {
		c.Errorf("it hears %q, %v; want %q", line, err, text)
	}
}

func (c *caller) silent() {
	c.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		c.Fatal(err)
	}
	if line, err := c.lines.ReadString('\n'); err == nil {
		c.Errorf("it hears %q", line)
	}
}

func loses(t *testing.T, p *proxy) {
	t.Helper()
	shell.Until(t, "something is lost", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for l := range p.links {
			if l.lost {
				return true
			}
		}
		return false
	})
}

// TestProxy: held data arrives late, lost data ends the connection, and muted connections stay mute while others work.
func TestProxy(t *testing.T) {
	begin := func(t *testing.T) (*proxy, *caller) {
		p, err := newProxy("127.0.0.1:1", echo(t)) // nothing listens at the first address
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.close)
		c := call(t, p)
		c.says("one")
		c.hears("one")
		return p, c
	}
	t.Run("held", func(t *testing.T) {
		p, c := begin(t)
		p.set(hold)
		c.says("two")
		late := call(t, p)
		late.says("three")
		c.silent()
		p.set(pass)
		c.hears("two")
		late.hears("three")
	})
	t.Run("lost", func(t *testing.T) {
		p, c := begin(t)
		p.set(drop)
		c.says("two")
		loses(t, p)
		p.set(pass)
		c.hears("")
	})
	t.Run("refused", func(t *testing.T) {
		p, c := begin(t)
		p.set(refuse)
		c.hears("")
		call(t, p).hears("")
		p.set(pass)
		again := call(t, p)
		again.says("two")
		again.hears("two")
	})
	t.Run("mute", func(t *testing.T) {
		p, c := begin(t)
		p.set(mute)
		c.says("two")
		loses(t, p)
		other := call(t, p)
		other.says("three")
		other.hears("three")
		p.set(pass)
		c.hears("")
	})
	t.Run("twice", func(t *testing.T) {
		p, c := begin(t)
		p.set(double)
		c.says("two")
		c.hears("two")
		c.hears("two")
		p.set(pass)
		c.hears("")
	})
}
