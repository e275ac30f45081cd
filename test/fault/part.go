package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// An assignment tells a process which part it is.
type assignment struct {
	Role string
	Name string // of this one among those of its role; in the journal, and to cluster and cloud
	Dir  string // for its files

	Cluster, Region string
	Namespace       string // of the Services and the policy
	NATS            string // addresses, with commas between
	Kubeconfig      string
	Cloud           string // host:port
	KeyID, Secret   string // of its caller
	Classes         []string

	Port   int      // where it listens
	Peers  int      // of a node of NATS: its port for the others
	Routes []string // of a node of NATS: the others; of a worker: its function
	Key    string   // of a worker that has a function: the private key; of the function: the public half
}

// roleVariable holds the assignment of a process that is a part, as JSON.
const roleVariable = "LBREMEDY_FAULT_PART"

// clock is the name of the file that says by how much the clock of a part is wrong.
const clock = "clock"

// A part is a process that is started again whenever it ends.
type part struct {
	assignment
	proxies map[string][]*proxy // what carries its connections: to nats, kube or cloud
	log     *os.File

	mu      sync.Mutex
	program string // the file to run
	cmd     *exec.Cmd
	stdin   io.Closer // its end ends the process
	ended   chan struct{}
	runs    int
	cancel  context.CancelFunc
	done    chan struct{}
}

// keep starts a part and keeps it running until end.
func keep(a assignment, program string) (*part, error) {
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(a.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{assignment: a, proxies: map[string][]*proxy{}, program: program, log: log, cancel: cancel, done: make(chan struct{})}
	ended, err := p.start()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", a.Name, err)
	}
	go func() {
		defer close(p.done)
		for {
			<-ended
			select { // one that ends at once must not spin
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			if ended, err = p.start(); err != nil {
				fmt.Fprintf(log, "start %s again: %v\n", a.Name, err)
				ended = closed
			}
		}
	}()
	return p, nil
}

// closed is a channel that is.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (p *part) start() (chan struct{}, error) {
	text, err := json.Marshal(p.assignment)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(p.program)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text), "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is for the one who judges
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	p.cmd, p.stdin, p.ended = cmd, stdin, ended
	p.runs++
	go func() {
		_ = cmd.Wait() // however it ends, it is started again
		close(ended)
	}()
	return ended, nil
}

// signal sends the process a signal; one that has just ended is no error.
func (p *part) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// skew has the part's clock go wrong by d.
func (p *part) skew(d time.Duration) error {
	file := filepath.Join(p.Dir, clock)
	if err := os.WriteFile(file+".new", []byte(d.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// end ends the part, also one that stands still.
func (p *part) end() {
	p.cancel()
	_ = p.signal(syscall.SIGKILL)
	<-p.done
	for _, all := range p.proxies {
		for _, one := range all {
			one.close()
		}
	}
	_ = p.log.Close()
}

// tail returns the last lines of the part's log.
func (p *part) tail() string {
	text, err := os.ReadFile(filepath.Join(p.Dir, "log"))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
