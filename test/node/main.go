// Node installs lbremedy in a cluster with a real kubelet, and shows how the Pod repairs Services there and continues after being killed.
//
// It runs inside "sandbox node", where etcd, API server, controllers, scheduler, kubelet, kube-proxy, DNS and containerd are real. A
// freshly built release is pushed to a registry on the node: Helm installs the chart from it, and the kubelet pulls the chart's images by
// digest. The Pod uses Alibaba Cloud's real host names and gets its RAM role with its ServiceAccount's token. Only the cloud and the
// controller are simulated, by test/sim. The tests beside it do more, and on another node install the chart with functions on Knative, two
// Pods that call them, and NATS of three Pods.
//
// CCM_BIN names a real controller that replaces the simulated one, and CCM_VERSION its release. KEEP=1 leaves the cluster running until
// Ctrl-C and prints how to inspect it. The exit code is 0 only if everything went as expected, 130 after Ctrl-C, else 1.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const patience = 5 * time.Minute

func main() {
	// client-go's messages about the simulated controller's connections are not useful here.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := show(ctx, os.Stdout, os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0")
	code := 0
	switch {
	case ctx.Err() != nil:
		fmt.Println("\nStopped, and cleaned up.")
		if err != nil {
			code = 130
		}
	case err != nil:
		fmt.Fprintln(os.Stderr, "node:", event.Redact(err.Error()))
		code = 1
	}
	stop()
	os.Exit(code)
}

type node struct {
	dir  string // of "sandbox node"
	root string // of the repository
	kube *kubernetes.Client
	*registry
	*account

	lbremedy func(ctx context.Context, args ...string) (string, error)
}

var errOutside = errors.New("it runs on a node: make node")

func join(ctx context.Context) (*node, error) {
	dir := os.Getenv("LBREMEDY_NODE")
	if dir == "" {
		return nil, errOutside
	}
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	n := &node{dir: dir, root: root, lbremedy: inPod}
	if n.kube, err = kubernetes.New(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if n.registry, err = openRegistry(dir, root); err != nil {
		return nil, err
	}
	if n.account, err = openAccount(dir, root, config); err != nil {
		n.registry.Close()
		return nil, err
	}
	n.account.start(ctx)
	return n, nil
}

// Close ends what runs on the node beside the cluster.
func (n *node) Close() {
	n.account.Close()
	n.registry.Close()
}

type screen struct {
	out   io.Writer
	began time.Time
}

func (s *screen) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func (s *screen) fact(name, format string, args ...any) {
	s.say("  %-11s %s", name, fmt.Sprintf(format, args...))
}

func (s *screen) at(t time.Time, who, what, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	s.say("%6.1f s  %-8s %-8s %s", t.Sub(s.began).Seconds(), who, what, cut(text, 140-29))
}

func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

func show(ctx context.Context, out io.Writer, keep bool) error {
	s := &screen{out: out}
	s.say("lbremedy in a Pod, on a real kubelet\n")
	n, err := join(ctx)
	if err != nil {
		return err
	}
	defer n.Close()
	version, err := n.kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	s.fact("Kubernetes", "%s: control plane, kubelet, kube-proxy, containerd and DNS, node ready in %s", version.GitVersion, os.Getenv("LBREMEDY_NODE_UP"))
	s.fact("Cloud", "simulated OpenAPI at *.aliyuncs.com, by DNS and TLS; RAM roles for tokens of the API server")
	if bin, version := controller.Real(); bin != "" {
		s.fact("Controller", "%s, taken for CCM %s", bin, version)
	} else {
		s.fact("Controller", "simulated CCM %s", version)
	}
	if err := n.up(ctx, s); err != nil {
		return err
	}
	s.say("\nHow it goes on:\n")
	s.began = time.Now()
	if err := n.story(ctx, s); err != nil {
		return err
	}
	if err := footprint(s); err != nil {
		return err
	}
	s.say("\nBoth Services work again, each was written once, and the Pod has been killed in between. All as it should be.")
	if !keep {
		return nil
	}
	s.say("\nThe cluster runs until Ctrl-C. In another terminal:\n\n  export KUBECONFIG=%s/kubeconfig PATH=%s/bin:$PATH\n"+
		"  kubectl get pods --all-namespaces\n  kubectl -n %s exec deployment/lbremedy-up -- lbremedy ls\n  helm -n %s list\n\nLogs: %s/*.log",
		n.dir, n.dir, namespace, namespace, n.dir)
	<-ctx.Done()
	return nil
}

func (n *node) up(ctx context.Context, s *screen) error {
	began := time.Now()
	since := func() float64 { return time.Since(began).Seconds() }
	if err := n.push(ctx, ""); err != nil {
		return err
	}
	s.fact("Registry", "%s/lbremedy@%s…, and the chart, pushed in %.1f s", images, n.digests["lbremedy"][:19], since())
	if err := prepare(ctx, n.dir, 1); err != nil {
		return err
	}
	file, err := values(n.dir)
	if err != nil {
		return err
	}
	began = time.Now()
	if err := install(ctx, n.chart(), file); err != nil {
		return err
	}
	s.fact("Chart", "%s %s, into a namespace that enforces restricted: Pod ready %.1f s after helm began", charts, n.chartVersion(), since())
	return nil
}

type written struct {
	Verb string
	User struct{ Username string }
	Ref  struct{ Resource, Namespace, Name, Subresource string } `json:"objectRef"`
	Code struct{ Code int }                                      `json:"responseStatus"`
}

func (n *node) writes(service string) (int, error) {
	f, err := os.Open(n.dir + "/run/audit.log")
	if err != nil {
		return 0, fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var w written
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return 0, fmt.Errorf("read the audit log: %w", err)
		}
		if strings.HasPrefix(w.User.Username, "system:serviceaccount:"+namespace+":") && w.Ref.Resource == "services" && w.Ref.Name == service && w.Code.Code < 300 {
			count++
		}
	}
	return count, nil
}

func (n *node) story(ctx context.Context, s *screen) error {
	if err := n.chapter(ctx, s, "web", func() error { return nil }); err != nil {
		return err
	}
	pid, err := n.process(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the Pod's process: %w", err)
	}
	killed := time.Now()
	s.at(killed, "the Pod", "killed", "kill -9 %d", pid)
	return n.chapter(ctx, s, "api", func() error {
		next, err := n.process(ctx)
		if err != nil {
			return err
		}
		if next == pid {
			return fmt.Errorf("process %d was killed, and is there", pid)
		}
		s.at(time.Now(), "the Pod", "back", "the kubelet has started it again, %.1f s after it was killed", time.Since(killed).Seconds())
		return nil
	})
}

// chapter breaks a Service, calls meanwhile, waits until the Service works, and prints how. It checks that the Pod wrote to it once.
func (n *node) chapter(ctx context.Context, s *screen, service string, meanwhile func() error) error {
	if err := n.breakService(ctx, service); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	address, err := n.works(ctx, service)
	if err != nil {
		return err
	}
	at := time.Now()
	records, err := n.records(ctx, service)
	if err != nil {
		return err
	}
	tell(s, records)
	s.at(at, service, "works", "at %s", address)
	if count, err := n.writes(service); err != nil {
		return err
	} else if count != 1 {
		return fmt.Errorf("the Pod wrote to the Service %s %d times, by the audit log of the API server", service, count)
	}
	return nil
}

func (n *node) breakService(ctx context.Context, name string) error {
	return n.breakWith(ctx, name, full)
}

func (n *node) breakWith(ctx context.Context, name, vswitch string) error {
	const prefix = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	_, err := n.kube.CoreV1().Services("shop").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{prefix + "address-type": "intranet", prefix + "vswitch-id": vswitch}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the Service %s: %w", name, err)
	}
	return nil
}

func (n *node) works(ctx context.Context, service string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		svc, err := n.kube.CoreV1().Services("shop").Get(ctx, service, metav1.GetOptions{})
		if err == nil && len(svc.Status.LoadBalancer.Ingress) > 0 {
			return svc.Status.LoadBalancer.Ingress[0].IP, nil
		}
		select {
		case err := <-n.died:
			return "", fmt.Errorf("the controller ended: %w", err)
		case <-ctx.Done():
			cases, _ := n.lbremedy(context.WithoutCancel(ctx), "ls", "--all")
			return "", fmt.Errorf("wait for the Service %s to work: %w\n%s", service, errors.Join(ctx.Err(), err), cases)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *node) records(ctx context.Context, service string) ([]event.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		text, err := n.lbremedy(ctx, "show", "shop/"+service, "--history", "-o", "json")
		if err == nil {
			var all []event.Record
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				return nil, fmt.Errorf("read the records: %w", err)
			}
			if len(all) > 0 && all[len(all)-1].Phase == event.Settled && all[len(all)-1].Result.Settled() {
				return all, nil
			}
		}
		select { // the journal may be briefly unavailable
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until the case of %s is settled: %w\n%s", service, errors.Join(ctx.Err(), err), text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func tell(s *screen, records []event.Record) {
	first := records[0]
	s.at(first.Recorded, first.Service.Name, "failed", "[%s] %s", first.Class, first.Message)
	for _, r := range records {
		switch r.Phase {
		case event.Intent:
			s.at(r.At, r.Service.Name, "finding", "%s", r.Finding)
		case event.Step:
			s.at(r.At, r.Service.Name, "step", "%s", r.Steps[r.Next-1].Text)
		case event.Settled:
			s.at(r.At, r.Service.Name, string(r.Status()), "%.1f s after the failure", r.At.Sub(first.Recorded).Seconds())
		}
	}
}
