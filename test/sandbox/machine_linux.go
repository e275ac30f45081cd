package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const nodeAddress = "10.250.0.1"

// machine is PID 1 of a node: it sets up mounts, cgroups and network, starts the process that runs the cluster, and reaps
// orphans. All other processes end with it.
func machine(ctx context.Context, args []string) (int, error) {
	dir, command := args[0], args[1:]
	if err := syscall.Sethostname([]byte(nodeName)); err != nil {
		return 1, fmt.Errorf("name the node: %w", err)
	}
	if err := errors.Join(mounts(dir), joinGroups(filepath.Base(dir)), network()); err != nil {
		return 1, fmt.Errorf("set up the node: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("start the cluster: %w", err)
	}
	child, err := os.StartProcess(self, append([]string{self, "node-cluster", dir}, command...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(3, "socket")},
	})
	if err != nil {
		return 1, fmt.Errorf("start the cluster: %w", err)
	}
	defer context.AfterFunc(ctx, func() { child.Signal(syscall.SIGTERM) })()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for the cluster: %w", err)
		case pid == child.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child.Pid && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// mounts creates the node's own mount tree, which is invisible outside and ends with the node. /run, /var/lib, /var/log and the
// cluster's data are in memory.
func mounts(dir string) error {
	run := filepath.Join(dir, "run")
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	todo := []mount{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NOEXEC | syscall.MS_NODEV, ""},
		{"tmpfs", "/run", "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV, "mode=755"},
		{"tmpfs", run, "tmpfs", 0, "mode=755"},
	}
	for _, m := range todo {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, target := range []string{"/var/lib", "/var/log"} {
		layer := filepath.Join(run, "over", filepath.Base(target))
		upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
		if err := syscall.Mount("overlay", target, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", target, upper, work)); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
	}
	// Containers see mounts of the kubelet.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts of the node: %w", err)
	}
	return nil
}

// network sets up the node's network. A bridge is up only if something is attached.
func network() error {
	for _, line := range []string{
		"link set lo up",
		"link add node0 type bridge",
		"addr add " + nodeAddress + "/24 dev node0",
		"link add node0p type veth peer name node0q",
		"link set node0p master node0 up",
		"link set node0q up",
		"link set node0 up",
		"route add default dev node0",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	for _, setting := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"} {
		// Without the second's module, Pods cannot reach Pods on the same node through a Service's address.
		if err := os.WriteFile(filepath.Join("/proc/sys", setting), []byte("1"), 0o644); err != nil {
			return fmt.Errorf("set %s: %w", setting, err)
		}
	}
	return nil
}
