// Package cli is what the commands of lbremedy share: a call with its global flags, the
// connections to NATS, the cluster and the cloud, what arguments and files mean, and the
// forms in which data is printed.
package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
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
	Args     []string // of the process, without its name; nil: this call is a part of another program
	Plugin   bool     // kubectl has called it, as "kubectl lbremedy"
	Settings
}

// New returns a call with what the process has.
func New(version string) *Program {
	return &Program{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Terminal: terminal,
		Keys: cloud.DefaultChain(), Version: version, Args: os.Args[1:],
		Plugin: strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-"),
	}
}

// terminal returns the width of the terminal behind a reader or writer; 0 if there is none.
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
