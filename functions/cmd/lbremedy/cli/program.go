// Package cli is what the commands of lbremedy share: a call with its global flags, the
// connections to NATS, the cluster and the cloud, what arguments and files mean, and the
// forms in which data is printed.
package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// A Program is one call of lbremedy: what it is given, and where it writes.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	Terminal func(stream any) int // width; 0: no terminal
	Keys     cloud.Credentials    // for Alibaba Cloud
	Version  string
	Plugin   bool // kubectl has called it, as "kubectl lbremedy"
	Settings
}

// New returns a call with what the process has.
func New(version string) *Program {
	return &Program{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Terminal: terminal,
		Keys: cloud.DefaultChain(), Version: version,
		Plugin: strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-"),
	}
}

// Call returns the program for one call, and what tells at its end why its output could not be
// written, if so.
func (p *Program) Call(ctx context.Context) (*Program, func() error) {
	own, in, out := *p, &input{ctx, p.In}, &output{to: p.Out}
	own.In, own.Out = in, out
	own.Terminal = func(stream any) int {
		switch stream {
		case in:
			return p.Terminal(p.In)
		case out:
			return p.Terminal(p.Out)
		}
		return p.Terminal(stream)
	}
	return &own, func() error {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.err
	}
}

// An output remembers the first error of a write: tables and reports don't look at it.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(data []byte) (int, error) {
	n, err := o.to.Write(data)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = cmp.Or(o.err, err)
	return n, err
}

// An input ends with the context: nothing else ends the wait for somebody who sits at a terminal.
type input struct {
	ctx context.Context
	io.Reader
}

func (i *input) Read(to []byte) (int, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		data := make([]byte, len(to)) // to is the caller's again once the context has ended
		n, err := i.Reader.Read(data)
		done <- read{data[:n], err}
	}()
	select {
	case r := <-done:
		return copy(to, r.data), r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}

// terminal returns the width of the terminal behind a reader or writer; 0 if none exists.
func terminal(stream any) int {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// The exit codes of lbremedy, beside those of all programs.
const (
	CodeOpen     = 3 // all went well, and a case is not settled
	CodeWarning  = 4 // the worst finding is a warning
	CodeCritical = 5 // there is a critical finding
	CodeUnknown  = 6 // no critical finding, and something could not be determined
)
