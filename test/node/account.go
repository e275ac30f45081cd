package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const (
	region    = "cn-hangzhou"
	clusterID = "c0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	accountID = "1298765432101234"
	vpc       = "vpc-node"
	full      = "vsw-full" // it has no free address
	roomy     = "vsw-roomy"
	provider  = "ack-rrsa-" + clusterID
	operator  = "cloud-controller-manager"

	issuer = "https://kubernetes.default.svc"
	// address is the node's: its DNS resolves all of Alibaba Cloud to it.
	address = "10.250.0.1"
)

// An account is a simulated Alibaba Cloud that Pods use like the real one: by its host names, over TLS, with the RAM role of
// their ServiceAccount. It includes the controller.
type account struct {
	*sim.Cloud
	outside net.Listener
	options controller.Options

	mu    sync.Mutex
	end   func() // stops the controller; nil: it does not run
	died  chan error
	names map[string]int // number of calls by host name
}

// roles returns the RAM roles of all programs and classes, each with its policy of infra/ram. A role can be assumed with a token
// of its ServiceAccount, signed by the node's API server.
func roles(root string) ([]sim.Policy, []sim.Role, error) {
	files, err := filepath.Glob(filepath.Join(root, "infra/ram/generated/class/*.json"))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("find the RAM policies: %d files: %w", len(files), err)
	}
	var policies []sim.Policy
	var all []sim.Role
	for _, f := range files {
		document, err := os.ReadFile(f)
		if err != nil {
			return nil, nil, fmt.Errorf("read a RAM policy: %w", err)
		}
		name := "lbremedy-" + strings.TrimSuffix(filepath.Base(f), ".json")
		policies = append(policies, sim.Policy{Name: name, Versions: []sim.PolicyVersion{{Document: string(document), Default: true}}})
		all = append(all, sim.Role{
			Name: name, Policies: []string{name}, OIDC: []sim.OIDCTrust{{Provider: provider, Subject: "system:serviceaccount:" + namespace + ":" + name}},
		})
	}
	return policies, all, nil
}

func openAccount(dir, root string, kube *rest.Config) (*account, error) {
	policies, roles, err := roles(root)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(dir, "run/pki/tokens.pub"))
	if err != nil {
		return nil, fmt.Errorf("read the key of tokens: %w", err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "run/pki/cloud.crt"), filepath.Join(dir, "run/pki/cloud.key"))
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the cloud: %w", err)
	}
	_, version := controller.Real()
	zone := func(letter string) string { return region + "-" + letter }
	cloud, err := sim.Start(&sim.World{
		Region: region, AccountID: accountID,
		Cluster: sim.Cluster{ID: clusterID, Name: "node", VPC: vpc, VSwitches: []string{full, roomy}, Addons: map[string]string{operator: version}},
		VPCs:    []sim.VPC{{ID: vpc, CIDR: "10.0.0.0/8"}},
		VSwitches: []sim.VSwitch{
			{ID: full, Zone: zone("h"), Free: new(0)},
			{ID: roomy, Zone: zone("i"), Free: new(250)},
		},
		Instances:     []sim.Instance{{ID: "i-node", Name: "node", VPC: vpc, VSwitch: roomy, Zone: zone("i"), Status: "Running"}},
		OIDCProviders: []sim.OIDCProvider{{Name: provider, Issuer: issuer, Key: string(key)}},
		Policies:      policies,
		Roles:         roles,
	}, sim.WithClient(operator, "*"))
	if err != nil {
		return nil, err
	}
	// All load balancers use the one node: by default, a server may be a backend of 50.
	cloud.Edit(func(st *sim.State) {
		for i := range st.Quotas {
			st.Quotas[i].Total *= 100
		}
	})
	a := &account{Cloud: cloud, died: make(chan error, 1), names: map[string]int{}, options: controller.Options{
		Kube: kube, Cloud: cloud.Addr(), Region: region, ClusterID: clusterID, VPC: vpc, VSwitches: []string{zone("h") + ":" + full, zone("i") + ":" + roomy},
	}}
	for _, k := range cloud.Snapshot().Callers {
		if k.Name == operator {
			a.options.Credentials = k.Credentials()
		}
	}
	a.outside, err = tls.Listen("tcp", net.JoinHostPort(address, "443"), &tls.Config{
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.names[h.ServerName]++
			return &cert, nil
		},
	})
	if err != nil {
		cloud.Close()
		return nil, fmt.Errorf("listen as Alibaba Cloud: %w", err)
	}
	go a.forward()
	return a, nil
}

// forward forwards TLS connections to the cloud, which listens only on loopback.
func (a *account) forward() {
	for {
		in, err := a.outside.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", a.Addr())
			if err != nil {
				return
			}
			defer out.Close()
			go func() {
				io.Copy(out, in)
				out.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(in, out)
		}()
	}
}

func (a *account) called() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.names))
}

func (a *account) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := controller.Play(ctx, a.options); err != nil {
			a.died <- err
		}
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = func() { cancel(); <-ended }
}

func (a *account) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end != nil {
		a.end()
	}
	a.end = nil
}

func (a *account) Close() {
	a.stop()
	a.outside.Close()
	a.Cloud.Close()
}
