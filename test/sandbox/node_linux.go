package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A cluster with a node consists of three of our processes and its programs. The first one stays outside. It starts the machine,
// which is PID 1 of its own namespaces, so the kernel ends all processes, mounts and networks in them with it. It also starts the
// sweeper, which removes remaining cgroups and a directory when the first process has ended in any way. The machine starts the
// third process, which runs the cluster.
var nodeCommands = map[string]func(context.Context, []string) (int, error){
	"node": node, "node-sweeper": sweeper, "node-machine": machine, "node-cluster": inCluster, "node-try": try, "pause": pause,
}

// Helm and the DNS have separate module files, because they need other versions of Kubernetes' dependencies.
var (
	//go:embed tools.mod
	toolsMod string
	//go:embed tools.sum
	toolsSum string
	//go:embed dns.go.txt
	dnsGo string
	//go:embed platform.mod
	platformMod string
	//go:embed platform.sum
	platformSum string
)

var nodeSets = []set{
	{mod: goMod, sum: goSum, programs: []program{
		kubernetes("kubelet", "about 4 CPU-minutes, once"),
		kubernetes("kube-controller-manager", "about 3 CPU-minutes, once"),
		kubernetes("kube-scheduler", "about 20 CPU-seconds, once"),
		kubernetes("kube-proxy", "about 30 CPU-seconds, once"),
	}},
	{mod: toolsMod, sum: toolsSum, files: map[string]string{"dns.go": dnsGo}, programs: []program{
		{
			name: "helm", module: "helm.sh/helm/v4", pkg: "helm.sh/helm/v4/cmd/helm", effort: "about 3 CPU-minutes, once",
			ldflags: func(version string) string { return "-s -w -X helm.sh/helm/v4/internal/version.version=" + version },
		},
		{
			name: "coredns", module: "github.com/coredns/coredns", pkg: ".", effort: "about 1 CPU-minute, once",
			ldflags: func(string) string { return "-s -w" },
		},
	}},
}

// platform are the programs for functions on Knative, each an image beside lbremedy: NATS, and Knative Serving with its objects.
var platform = set{mod: platformMod, sum: platformSum, programs: []program{
	{
		name: "nats-server", module: "github.com/nats-io/nats-server/v2", pkg: "github.com/nats-io/nats-server/v2", effort: "about 40 CPU-seconds, once",
		ldflags: func(string) string { return "-s -w" },
	},
	knative("controller", "about 4 CPU-minutes, once"),
	knative("webhook", "some CPU-seconds, once"),
	knative("autoscaler", "some CPU-seconds, once"),
	knative("activator", "some CPU-seconds, once"),
	knative("queue", "some CPU-seconds, once"),
}, manifests: []manifest{
	{"knative-kinds.yaml", []string{
		"knative.dev/serving:config/core/100-namespace.yaml", "knative.dev/networking:config/certificate.yaml",
		"knative.dev/networking:config/domain-claim.yaml", "knative.dev/networking:config/ingress.yaml",
		"knative.dev/networking:config/serverlessservice.yaml", "knative.dev/caching:config/image.yaml",
		"knative.dev/serving:config/core/300-resources/*.yaml",
	}},
	{"knative.yaml", []string{
		"knative.dev/serving:config/core/200-roles/*.yaml", "knative.dev/serving:config/core/200-serviceaccount.yaml",
		"knative.dev/networking:config/config-network.yaml", "knative.dev/serving:config/core/configmaps/*.yaml",
		"knative.dev/serving:config/core/webhooks/*.yaml", "knative.dev/serving:config/core/999-cache.yaml",
		"knative.dev/serving:config/core/deployments/activator.yaml", "knative.dev/serving:config/core/deployments/autoscaler.yaml",
		"knative.dev/serving:config/core/deployments/controller.yaml", "knative.dev/serving:config/core/deployments/webhook.yaml",
	}},
}}

func knative(name, effort string) program {
	return program{
		name: knativePrefix + name, module: "knative.dev/serving", pkg: "knative.dev/serving/cmd/" + name, effort: effort,
		ldflags: func(string) string { return "-s -w" },
	}
}

// nodePrograms builds missing programs and returns the paths of all programs of a cluster with a node, with the platform's if requested.
func nodePrograms(ctx context.Context, withPlatform bool, progress io.Writer) ([]string, error) {
	sets := append([]set{servers}, nodeSets...)
	if withPlatform {
		sets = append(sets, platform)
	}
	var all []string
	for _, s := range sets {
		dir, err := s.folder(ctx, progress)
		if err != nil {
			return nil, err
		}
		for _, name := range s.names() {
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all, nil
}

var needed = []struct{ file, pkg string }{
	{"containerd", "containerd"}, {"ctr", "containerd"}, {"containerd-shim-runc-v2", "containerd"}, {"runc", "runc"},
	{cniPlugins + "/bridge", "containernetworking-plugins"}, {"iptables", "iptables"}, {"nft", "nftables"}, {"conntrack", "conntrack"}, {"ip", "iproute2"},
}

const cniPlugins = "/usr/lib/cni"

func lacking() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: it makes namespaces and cgroups")
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // some systems have it only for logins
	var packages []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.file); err != nil && !slices.Contains(packages, n.pkg) {
			packages = append(packages, n.pkg)
		}
	}
	if len(packages) > 0 {
		return fmt.Errorf("a node needs more programs: apt-get install %s", strings.Join(packages, " "))
	}
	return tryOut()
}

// tryOut creates and removes a node's namespaces, mounts, network and cgroup. In a container without all rights one of them fails.
func tryOut() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("try out what a node needs: %w", err)
	}
	dir, err := os.MkdirTemp("", "lbremedy-try-")
	if err != nil {
		return fmt.Errorf("try out what a node needs: %w", err)
	}
	defer os.RemoveAll(dir)
	var log bytes.Buffer
	cmd := exec.Command(self, "node-try", dir)
	cmd.Stderr = &log
	cmd.SysProcAttr = dieWithUs(syscall.SIGKILL)
	cmd.SysProcAttr.Cloneflags = ownNamespaces
	switch err := cmd.Run(); {
	case cmd.ProcessState == nil:
		return fmt.Errorf("a node needs namespaces of its own (mount, pid, net, uts, ipc), which this system refuses: %w; "+
			"a container has to be privileged", err)
	case err != nil:
		return fmt.Errorf("a node needs what this system refuses; a container has to be privileged: %s",
			strings.TrimPrefix(strings.TrimSpace(log.String()), "sandbox: "))
	}
	return tryGroup(filepath.Base(dir))
}

func try(_ context.Context, args []string) (int, error) {
	if err := os.Mkdir(filepath.Join(args[0], "run"), 0o755); err != nil {
		return 1, err
	}
	if err := errors.Join(mounts(args[0]), network()); err != nil {
		return 1, err
	}
	return 0, nil
}

const ownNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

const nodePrefix = "lbremedy-node-"

func node(ctx context.Context, args []string) (int, error) {
	fs := flags("node [--platform] -- CMD ARGS…",
		"Runs CMD in a cluster with a real node, and ends with its exit code. Needs root, and packages of Debian that it names.\n"+
			"CMD is in the namespaces of the node. kubectl, helm and ctr are in its PATH, and these in its environment:\n"+
			"  KUBECONFIG        of an admin\n"+
			"  LBREMEDY_NODE     a directory of the cluster: kubeconfig in it is for who is outside, *.log are the logs; run/pki holds certificates\n"+
			"  LBREMEDY_NODE_UP  how long it took until the node was ready")
	withPlatform := fs.Bool("platform", false, "have the images "+imageRegistry+"/PROGRAM:1 of NATS and Knative Serving, "+
		"and Knative's objects as bin/knative*.yaml in LBREMEDY_NODE")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() == 0 {
		return 2, errors.New("node needs a command")
	}
	if err := lacking(); err != nil {
		return 2, err
	}
	programs, err := nodePrograms(ctx, *withPlatform, os.Stderr)
	if err != nil {
		return 1, err
	}
	dir, lock, err := claimDir(nodePrefix, "", sweep)
	if err != nil {
		return 1, err
	}
	swept, err := startSweeper(dir, lock)
	if err != nil {
		return 1, errors.Join(err, os.RemoveAll(dir))
	}
	code, err := runMachine(ctx, dir, programs, fs.Args())
	return code, errors.Join(err, swept())
}

// startSweeper starts the process that removes a node's remains when this process ends. The returned function does so now and waits.
func startSweeper(dir string, lock *os.File) (func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the sweeper: %w", err)
	}
	cmd := exec.Command(self, "node-sweeper", dir)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{lock} // locks the directory until the sweeper has ended
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the sweeper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sweeper: %w", err)
	}
	return func() error {
		alive.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("remove what is left of the node: %w", err)
		}
		return nil
	}, nil
}

func sweeper(_ context.Context, args []string) (int, error) {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1, err
	}
	if err := sweep(args[0]); err != nil {
		return 1, err
	}
	return 0, nil
}

// sweep removes the cgroups and the directory of a node, retrying until the last process in a cgroup has ended.
func sweep(dir string) error {
	name := filepath.Base(dir)
	deadline := time.Now().Add(time.Minute)
	for {
		err := removeGroups(name)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove the cgroups of %s: %w", name, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the directory of the node: %w", err)
	}
	return nil
}

func runMachine(ctx context.Context, dir string, programs, command []string) (int, error) {
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Mkdir(filepath.Join(dir, "run"), 0o755)); err != nil {
		return 1, fmt.Errorf("make the directory of the node: %w", err)
	}
	for _, name := range []string{"containerd", "ctr"} {
		p, err := exec.LookPath(name)
		if err != nil {
			return 1, err
		}
		programs = append(programs, p)
	}
	for _, p := range programs {
		if err := os.Symlink(p, filepath.Join(bin, filepath.Base(p))); err != nil {
			return 1, fmt.Errorf("make the directory of the node: %w", err)
		}
	}
	// A socket belongs to the network in which it was created: through this one, outside processes reach the API server.
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1, fmt.Errorf("listen for the API server: %w", err)
	}
	defer socket.Close()
	file, err := socket.(*net.TCPListener).File()
	if err != nil {
		return 1, fmt.Errorf("listen for the API server: %w", err)
	}
	defer file.Close()
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("start the machine: %w", err)
	}
	cmd := exec.Command(self, append([]string{"node-machine", dir}, command...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = dieWithUs(syscall.SIGKILL)
	cmd.SysProcAttr.Cloneflags = ownNamespaces
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start the machine: %w", err)
	}
	told := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer told()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 1, fmt.Errorf("run the machine: %w", err)
	}
	return exitCode(cmd.ProcessState), nil
}
