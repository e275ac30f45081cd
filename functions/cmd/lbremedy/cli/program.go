// Package cli holds what lbremedy's commands share: a call with its global flags, connections to NATS, the cluster and the cloud, the
// meaning of arguments and files, and output forms. Begin with Program.
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
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Program is one call of lbremedy: its inputs and outputs.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	Terminal func(stream any) int // width; 0: not a terminal
	Keys     cloud.Credentials    // for Alibaba Cloud
	Version  string
	Plugin   bool                             // called as "kubectl lbremedy"
	Declared []*remedy.Remedy                 // of --declarations: classes whose code is in functions only
	Noted    func(format string, args ...any) // takes notes, as Phrase does; nil: they are printed to Err
	Settings
}

// New returns a call with the process's inputs and outputs.
func New(version string) *Program {
	return &Program{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Terminal: terminal,
		Keys: cloud.DefaultChain(), Version: version,
		Plugin: strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-"),
	}
}

// Call returns the program for one call, and a function that returns the first error of writing its output.
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

// An output remembers the first write error: tables and reports ignore it.
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

// An input ends with the context: nothing else ends a read from a terminal.
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
		data := make([]byte, len(to)) // the caller may reuse to once the context has ended
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

// terminal returns 0 if the stream is not a terminal.
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

// Exit codes of lbremedy, besides those of all programs.
const (
	CodeOpen     = 3 // all went well, but a case is not settled
	CodeWarning  = 4 // the worst finding is a warning
	CodeCritical = 5 // the worst finding is critical
	CodeUnknown  = 6 // no critical finding, but something is unknown
)
