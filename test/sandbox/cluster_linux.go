package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	nodeName = "node"
	// nodeID is the node's ID for a cloud controller manager: an ECS instance.
	nodeID = "cn-hangzhou.i-node"

	podAddresses     = "10.244.0.0/24"
	serviceAddresses = "10.96.0.0/16"
	apiServer        = nodeAddress + ":6443"
)

type nodeCluster struct {
	server
	id   *identity
	data string // their data folder, in memory
}

func inCluster(ctx context.Context, args []string) (int, error) {
	dir, command := args[0], args[1:]
	began := time.Now()
	c := &nodeCluster{data: filepath.Join(dir, "run")}
	c.server = server{Dir: dir, bin: filepath.Join(dir, "bin"), opts: new(options), died: make(chan *child, 16)}
	socket, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		return 1, fmt.Errorf("take over the socket of the API server: %w", err)
	}
	go forward(socket, apiServer)
	if err := c.up(ctx, socket.Addr().String()); err != nil {
		return 1, err
	}
	return c.run(ctx, command,
		"KUBECONFIG="+c.file("kubeconfig"),
		"CONTAINERD_ADDRESS="+c.socket(), "CONTAINERD_NAMESPACE=k8s.io",
		"LBREMEDY_NODE="+dir, "LBREMEDY_NODE_UP="+time.Since(began).Round(100*time.Millisecond).String(),
	)
}

func forward(from net.Listener, to string) {
	for {
		in, err := from.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
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

func (c *nodeCluster) file(name string) string { return filepath.Join(c.data, name) }

func (c *nodeCluster) socket() string { return c.file("containerd.sock") }

func (c *nodeCluster) write(name string, data []byte) error {
	file := c.file(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o600)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (c *nodeCluster) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return c.write(name, data)
}

func (c *nodeCluster) up(ctx context.Context, outside string) error {
	if err := c.identities(outside); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.startContainerd(ctx); err != nil {
		return err
	}
	if err := c.startNode(); err != nil {
		return err
	}
	if err := c.startDNS(ctx); err != nil {
		return err
	}
	for _, child := range c.children {
		c.watch(child)
	}
	return c.nodeReady(ctx)
}

// identities creates the certificates and kubeconfigs of all programs, and a certificate for the simulated Alibaba Cloud on the node.
func (c *nodeCluster) identities(outside string) (err error) {
	if err := os.Mkdir(c.file("pki"), 0o755); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	c.id, err = newIdentity(c.file("pki"), nodeAddress, "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	cert, key, err := c.id.serving("cloud", nodeAddress, "*.aliyuncs.com", "*.cn-hangzhou.aliyuncs.com")
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if err := errors.Join(c.write("pki/cloud.crt", cert), c.write("pki/cloud.key", key), c.write("pki/admin.crt", c.id.adminCert),
		c.write("pki/admin.key", c.id.adminKey)); err != nil {
		return err
	}
	for _, u := range []struct {
		file, name string
		groups     []string
	}{
		{"kubelet", "system:node:" + nodeName, []string{"system:nodes"}}, {"kube-controller-manager", "system:kube-controller-manager", nil},
		{"kube-scheduler", "system:kube-scheduler", nil}, {"kube-proxy", "system:kube-proxy", nil}, {"coredns", "coredns", []string{"system:masters"}},
	} {
		cert, key, err := c.id.user(u.name, u.groups...)
		if err != nil {
			return fmt.Errorf("make certificates: %w", err)
		}
		if err := writeKubeconfig(c.file(u.file+".kubeconfig"), "lbremedy-node", "https://"+apiServer, c.id.ca, cert, key); err != nil {
			return err
		}
	}
	for file, address := range map[string]string{c.file("kubeconfig"): apiServer, filepath.Join(c.Dir, "kubeconfig"): outside} {
		if err := writeKubeconfig(file, "lbremedy-node", "https://"+address, c.id.ca, c.id.adminCert, c.id.adminKey); err != nil {
			return err
		}
	}
	return nil
}

// startControlPlane starts etcd, API server, controllers and scheduler on their usual ports, since they have a network of their own.
func (c *nodeCluster) startControlPlane(ctx context.Context) error {
	client, peer := local("http", 2379), local("http", 2380)
	etcd, err := c.spawn("etcd", "--data-dir="+c.file("etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync=true", "--log-level=warn")
	if err != nil {
		return err
	}
	if err := etcd.ready(ctx, http.DefaultClient, client+"/health"); err != nil {
		return err
	}
	// Tests count writes in the audit log.
	type object = map[string]any
	audit := object{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"}, "rules": []object{
		{"level": "Metadata", "verbs": []string{"create", "update", "patch", "delete"}, "userGroups": []string{"system:serviceaccounts:lbremedy"}},
		{"level": "None"},
	}}
	if err := c.writeJSON("audit.json", audit); err != nil {
		return err
	}
	api, err := c.spawn("kube-apiserver", "--etcd-servers="+client, "--bind-address=0.0.0.0", "--advertise-address="+nodeAddress,
		"--tls-cert-file="+c.id.file("server.crt"), "--tls-private-key-file="+c.id.file("server.key"), "--client-ca-file="+c.id.file("ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.id.file("tokens.pub"),
		"--service-account-signing-key-file="+c.id.file("tokens.key"), "--service-cluster-ip-range="+serviceAddresses, "--allow-privileged=true",
		"--kubelet-client-certificate="+c.id.file("admin.crt"), "--kubelet-client-key="+c.id.file("admin.key"),
		"--kubelet-preferred-address-types=InternalIP", "--audit-policy-file="+c.file("audit.json"), "--audit-log-path="+c.file("audit.log"))
	if err != nil {
		return err
	}
	admin := c.admin()
	defer admin.CloseIdleConnections()
	if err := api.ready(ctx, admin, "https://"+apiServer+"/readyz"); err != nil {
		return err
	}
	as := func(name string) []string {
		file := c.file(name + ".kubeconfig")
		return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
			"--leader-elect=false", "--bind-address=127.0.0.1"}
	}
	if _, err := c.spawn("kube-controller-manager", append(as("kube-controller-manager"), "--service-account-private-key-file="+c.id.file("tokens.key"),
		"--root-ca-file="+c.id.file("ca.crt"), "--use-service-account-credentials=true",
		"--flex-volume-plugin-dir="+c.file("volumeplugins"))...); err != nil { // the default is a folder of the machine
		return err
	}
	_, err = c.spawn("kube-scheduler", as("kube-scheduler")...)
	return err
}

func (c *nodeCluster) admin() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.id.pool, Certificates: []tls.Certificate{c.id.admin}}}}
}

func (c *nodeCluster) startNode() error {
	type object = map[string]any
	if err := c.write("resolv.conf", []byte("nameserver "+nodeAddress+"\n")); err != nil {
		return err
	}
	err := c.writeJSON("kubelet.json", object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"providerID": nodeID, "address": nodeAddress, "resolvConf": c.file("resolv.conf"), "clusterDNS": []string{nodeAddress},
		"clusterDomain": "cluster.local", "containerRuntimeEndpoint": "unix://" + c.socket(),
		"podLogsDir": c.file("podlogs"), "volumePluginDir": c.file("volumeplugins"),
		"authentication": object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true}, "x509": object{"clientCAFile": c.id.file("ca.crt")}},
		"authorization":  object{"mode": "Webhook"},
		// Version 1 of cgroups is deprecated, but some machines still use it.
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + filepath.Base(c.Dir), "enforceNodeAllocatable": []string{},
		"failSwapOn": false, "makeIPTablesUtilChains": false, "serializeImagePulls": false,
		// The disk belongs to the machine: the cluster's data is in memory.
		"evictionHard":                object{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
	})
	if err != nil {
		return err
	}
	if _, err := c.spawn("kubelet", "--config="+c.file("kubelet.json"), "--kubeconfig="+c.file("kubelet.kubeconfig"), "--hostname-override="+nodeName,
		"--node-ip="+nodeAddress, "--root-dir="+c.file("kubelet"), "--cert-dir="+c.file("kubelet/pki")); err != nil {
		return err
	}
	err = c.writeJSON("kube-proxy.json", object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
		"clientConnection": object{"kubeconfig": c.file("kube-proxy.kubeconfig")}, "clusterCIDR": podAddresses, "hostnameOverride": nodeName,
		// The connection table belongs to the machine's kernel.
		"conntrack":          object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
	})
	if err != nil {
		return err
	}
	_, err = c.spawn("kube-proxy", "--config="+c.file("kube-proxy.json"))
	return err
}

// startDNS starts the DNS on the node, where no Pod needs to be ready first. It resolves Services, and all of Alibaba Cloud to the node.
func (c *nodeCluster) startDNS(ctx context.Context) error {
	err := c.write("Corefile", []byte(`.:53 {
	errors
	ready 127.0.0.1:8181
	template IN A aliyuncs.com {
		answer "{{ .Name }} 60 IN A `+nodeAddress+`"
	}
	template IN AAAA aliyuncs.com {
		rcode NOERROR
	}
	kubernetes cluster.local in-addr.arpa {
		kubeconfig `+c.file("coredns.kubeconfig")+`
	}
}
`))
	if err != nil {
		return err
	}
	d, err := c.spawn("coredns", "-conf="+c.file("Corefile"))
	if err != nil {
		return err
	}
	return d.ready(ctx, http.DefaultClient, local("http", 8181)+"/ready")
}

func (c *nodeCluster) nodeReady(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ; {
		out, err := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), "--kubeconfig="+c.file("kubeconfig"), "get", "node", nodeName,
			`--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`).CombinedOutput()
		if err == nil && string(out) == "True" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case child := <-c.died:
			return child.end()
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the node is not ready after %s: %s; the end of the kubelet's log:\n%s", patience, out, c.endOf("kubelet"))
		}
	}
}

func (c *nodeCluster) endOf(name string) string {
	log, err := os.ReadFile(filepath.Join(c.Dir, name+".log"))
	if err != nil {
		return "\t" + err.Error()
	}
	return tail(string(log))
}
