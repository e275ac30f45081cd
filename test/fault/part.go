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

type assignment struct {
	Role string
	Name string // of this instance of its role; in the journal, and in cluster and cloud
	Dir  string // folder of its files

	Cluster, Region string
	Namespace       string // of the Services and the policy
	NATS            string // comma-separated addresses
	Kubeconfig      string
	Cloud           string // host:port
	KeyID, Secret   string // of its caller
	Classes         []string

	Port   int      // where it listens
	Peers  int      // of a node of NATS: its port for other nodes
	Routes []string // of a node of NATS: the other nodes; of a worker: its function
	Key    string   // of a worker with a function: the private key; of the function: the public key
}

const roleVariable = "LBREMEDY_FAULT_PART"

const clock = "clock"

type part struct {
	assignment
	proxies map[string][]*proxy // its connections: to nats, kube or cloud
	log     *os.File

	mu      sync.Mutex
	program string // executable
	cmd     *exec.Cmd
	stdin   io.Closer // closing it ends the process
	ended   chan struct{}
	runs    int
	cancel  context.CancelFunc
	done    chan struct{}
}

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
			select { // avoid a busy loop if it ends at once
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is for the judge only
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
		_ = cmd.Wait() // it is restarted in any case
		close(ended)
	}()
	return ended, nil
}

func (p *part) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

func (p *part) skew(d time.Duration) error {
	file := filepath.Join(p.Dir, clock)
	if err := os.WriteFile(file+".new", []byte(d.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// end ends the part, even a stopped one.
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
