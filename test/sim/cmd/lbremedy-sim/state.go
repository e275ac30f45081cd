package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
)

type record struct {
	Name       string    `json:"name"`
	Address    string    `json:"address"` // host:port
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Controller string    `json:"controller"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
	Context    string    `json:"context,omitempty"`
}

func (p *program) stateDir() (string, error) {
	if p.state != "" {
		return p.state, nil
	}
	if dir := p.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "lbremedy-sim"), nil
	}
	if home := p.getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "lbremedy-sim"), nil
	}
	return "", command.Wrong("there is no home directory: name one for the state with --state-dir")
}

func (p *program) recordFile() (string, error) {
	dir, err := p.stateDir()
	return filepath.Join(dir, p.name+".json"), err
}

// claim reserves a simulation's name until release is called. It fails if one runs, and overwrites the record of a killed one.
func (p *program) claim() (write func(record) error, release func(), err error) {
	file, err := p.recordFile()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the state directory: %w", err)
	}
	lock, err := os.OpenFile(strings.TrimSuffix(file, ".json")+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the name %s: %w", p.name, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil, fmt.Errorf("a simulation %q runs already: use it, or give this one another --name", p.name)
		}
		return nil, nil, fmt.Errorf("lock the name %s: %w", p.name, err)
	}
	write = func(r record) error {
		b, err := json.Marshal(r)
		if err == nil { // atomically
			err = os.WriteFile(file+".new", b, 0o600)
		}
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			return fmt.Errorf("write the address of the simulation: %w", err)
		}
		return nil
	}
	return write, func() {
		_ = os.Remove(file) // none yet, or ours
		_ = lock.Close()
	}, nil
}

var errNone = errors.New("no simulation")

// find returns the simulation of the flags and the environment. A record adds details if it has the same address.
func (p *program) find() (record, error) {
	if p.server == "" {
		return p.recorded()
	}
	addr, err := loopbackAddress(p.server)
	if err != nil {
		return record{}, err
	}
	if r, err := p.recorded(); err == nil && r.Address == addr {
		return r, nil
	}
	return record{Name: p.name, Address: addr}, nil
}

func (p *program) recorded() (record, error) {
	file, err := p.recordFile()
	if err != nil {
		return record{}, err
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("%w %q runs: start one with \"lbremedy-sim up\", or name it with --name or --server", errNone, p.name)
	}
	if err != nil {
		return record{}, fmt.Errorf("read the address of the simulation: %w", err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("read the address of the simulation in %s: %w", file, err)
	}
	r.Address, err = loopbackAddress(r.Address)
	return r, err
}

// loopbackAddress returns the host:port of an address or URL on this machine, and rejects any other.
func loopbackAddress(s string) (string, error) {
	addr := strings.TrimSuffix(strings.TrimPrefix(s, "http://"), "/")
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", command.Wrong("%q is not the host:port of a simulation", s)
	}
	if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
		return "", command.Wrong("%s is not a loopback address: a simulation is never on another machine", s)
	}
	return addr, nil
}

func (p *program) connect() (*client, error) {
	r, err := p.find()
	if err != nil {
		return nil, err
	}
	return newClient(r), nil
}

func (p *program) await(ctx context.Context, limit time.Duration) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := p.connect()
		if err == nil {
			_, err = c.text(ctx, "")
		}
		if err == nil || errors.As(err, new(command.Mistake)) {
			return c, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("waited %v: %w", limit, err)
		}
	}
}

func (p *program) completeNames(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if p.settle(cmd.Root().PersistentFlags()) == nil {
		dir, err := p.stateDir()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.json")) // an absent directory has none
		for _, f := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
