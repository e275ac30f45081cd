package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process waits for the Pod's program and returns its process. Containers are in child namespaces of the node, which sees them.
func (n *node) process(ctx context.Context) (int, error) {
	for {
		all, err := processes()
		if err != nil {
			return 0, err
		}
		for _, p := range all {
			if p.name == "lbremedy" && len(p.args) > 1 && p.args[1] == "up" {
				return p.pid, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("find the Pod's process: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

type proc struct {
	pid      int
	name     string
	args     []string
	resident int // kB
}

// processes returns the node's processes: /proc shows only these.
func processes() ([]proc, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, dir := range dirs {
		line, lineErr := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, statusErr := os.ReadFile(filepath.Join(dir, "status"))
		if errors.Join(lineErr, statusErr) != nil || len(line) == 0 {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		p := proc{pid: pid, args: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")}
		p.name = filepath.Base(p.args[0])
		for l := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(l, "VmRSS:"); ok {
				if p.resident, err = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kb), " kB")); err != nil {
					return nil, fmt.Errorf("read the memory of process %d: %w", pid, err)
				}
			}
		}
		all = append(all, p)
	}
	return all, nil
}

func footprint(s *screen) error {
	all, err := processes()
	if err != nil {
		return err
	}
	sums := map[string]int{}
	total := 0
	for _, p := range all {
		name := p.name
		switch {
		case p.pid == os.Getpid():
			name = "this program, with cloud and controller"
		case name == "lbremedy" && len(p.args) > 1 && p.args[1] == "up":
			name = "the Pod's lbremedy"
		case name == "crane":
			name = "the registry"
		case strings.HasPrefix(name, "containerd"):
			name = "containerd, with its shims"
		case name == "sandbox" || name == "pause":
			name = "sandbox, with pause"
		}
		sums[name] += p.resident
		total += p.resident
	}
	type part struct {
		name     string
		resident int
	}
	var parts []part
	for name, kb := range sums {
		parts = append(parts, part{name, kb})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(b.resident-a.resident, cmp.Compare(a.name, b.name)) })
	s.say("\nMemory, resident:\n")
	for _, p := range parts {
		if mib := p.resident / 1024; mib > 0 {
			s.say("%6d MiB  %s", mib, p.name)
		}
	}
	s.say("%6d MiB  all", total/1024)
	return nil
}
