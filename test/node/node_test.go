package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

// TestMain prepares the tests, which use one release of the chart in sequence; the last one removes it.
func TestMain(m *testing.M) {
	if os.Getenv("LBREMEDY_NODE") == "" {
		fmt.Fprintln(os.Stderr, "These tests run on a node: make node-test.")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

var joined = sync.OnceValues(func() (*node, error) {
	ctx := context.Background()
	n, err := join(ctx)
	if err != nil {
		return nil, err
	}
	return n, n.up(ctx, &screen{out: os.Stderr})
})

func installed(t *testing.T) *node {
	t.Helper()
	n, err := joined()
	if err != nil {
		t.Fatal(err)
	}
	if err := rolledOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (n *node) pods(t *testing.T) int {
	t.Helper()
	return len(must(n.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items)
}

func (n *node) pod(t *testing.T) corev1.Pod {
	t.Helper()
	pods := must(n.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=up"}))(t)
	if len(pods.Items) != 1 {
		t.Fatalf("%d Pods, want one", len(pods.Items))
	}
	return pods.Items[0]
}

func ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

func (n *node) fixedOnce(t *testing.T, service string) {
	t.Helper()
	must(n.works(t.Context(), service))(t)
	records := must(n.records(t.Context(), service))(t)
	if last := records[len(records)-1]; last.Result != event.Fixed {
		t.Errorf("the case of %s ended as %s: %s", service, last.Result, last.Error)
	}
	if count := must(n.writes(service))(t); count != 1 {
		t.Errorf("the Pod wrote to the Service %s %d times, want once", service, count)
	}
}

func confined(t *testing.T, pid int, user string) {
	t.Helper()
	status := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	want := []string{"Uid:\t" + strings.TrimSuffix(strings.Repeat(user+"\t", 4), "\t"), "NoNewPrivs:\t1", "Seccomp:\t2"}
	for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
		want = append(want, "Cap"+set+":\t0000000000000000")
	}
	for _, line := range want {
		if !strings.Contains(status, line+"\n") {
			t.Errorf("its status has no line %q:\n%s", line, status)
		}
	}
	for line := range strings.Lines(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid)))(t))) {
		if f := strings.Fields(line); f[1] == "/" && !slices.Contains(strings.Split(f[3], ","), "ro") {
			t.Errorf("its root is mounted as %s, want it read-only", f[3])
		}
	}
}

// TestImage: the kubelet pulled the release's image from the registry by the chart's digest.
func TestImage(t *testing.T) {
	n := installed(t)
	digest := must(n.has(t.Context(), "lbremedy", n.version))(t)
	pod := n.pod(t)
	if got, want := pod.Spec.Containers[0].Image, images+"/lbremedy@"+digest; got != want || digest != n.digests["lbremedy"] {
		t.Errorf("the Pod has the image %s, want %s; the release was built with %s", got, want, n.digests["lbremedy"])
	}
	if got := pod.Status.ContainerStatuses[0].ImageID; !strings.HasSuffix(got, "@"+digest) {
		t.Errorf("the kubelet runs %s, want %s", got, digest)
	}
	eventually(t, "the kubelet says that it has pulled the image", func() bool {
		said := must(n.kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Pulled,involvedObject.name=" + pod.Name}))(t)
		return slices.ContainsFunc(said.Items, func(e corev1.Event) bool { return strings.HasPrefix(e.Message, "Successfully pulled image") })
	})

	// Images that the registry lacks are not pulled from elsewhere.
	_, err := run(t.Context(), nil, "helm", append([]string{"show", "chart"}, chartOf("99.9.9")...)...)
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a chart that nobody has pushed: %v, want it not found", err)
	}
	absent := images + "/lbremedy@sha256:" + strings.Repeat("0", 64)
	must(kubectl(t.Context(), "-n", "shop", "run", "absent", "--image="+absent, "--restart=Never"))(t)
	defer kubectl(context.WithoutCancel(t.Context()), "-n", "shop", "delete", "pod", "absent", "--wait=false")
	eventually(t, "the kubelet does not find an image that nobody has pushed", func() bool {
		p := must(n.kube.CoreV1().Pods("shop").Get(t.Context(), "absent", metav1.GetOptions{}))(t)
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && c.State.Waiting.Reason == "ErrImagePull" && strings.Contains(c.State.Waiting.Message, "not found")
		})
	})
}

// TestProcess checks with the kernel that the Pod runs as the image and the chart say.
func TestProcess(t *testing.T) {
	n := installed(t)
	pid := must(n.process(t.Context()))(t)
	confined(t, pid, "65532")
	options := map[string][]string{}
	for line := range strings.Lines(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid)))(t))) {
		f := strings.Fields(line)
		options[f[1]] = strings.Split(f[3], ",")
	}
	const disk = "/var/lib/lbremedy"
	want := map[string]bool{disk: false}
	for _, m := range n.pod(t).Spec.Containers[0].VolumeMounts {
		want[m.MountPath] = m.MountPath != disk
	}
	for dir, readOnly := range want {
		if got := slices.Contains(options[dir], "ro"); got != readOnly {
			t.Errorf("%s is read-only: %v, want %v; its mount has %v", dir, got, readOnly, options[dir])
		}
	}
}

func TestRestricted(t *testing.T) {
	installed(t)
	_, err := kubectl(t.Context(), "-n", namespace, "run", "root", "--image="+images+"/lbremedy")
	if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("a Pod that may be root: %v, want it refused", err)
	}
}

func TestRole(t *testing.T) {
	n := installed(t)
	lent := func() (calls int, others []string) {
		roles := map[string]string{} // by session name
		for _, c := range n.Snapshot().Callers {
			roles[c.Name] = c.Role
		}
		for _, c := range n.Calls() {
			switch {
			case c.Caller == operator:
			case c.Action == "AssumeRoleWithOIDC":
				calls++
				if got := c.Params["RoleArn"]; got != "acs:ram::"+accountID+":role/lbremedy-up" {
					t.Errorf("the role %s was asked for", got)
				}
			case roles[c.Caller] != "lbremedy-up":
				others = append(others, c.Caller+" "+c.Action)
			}
		}
		return calls, others
	}
	if err := n.breakService(t.Context(), "role"); err != nil {
		t.Fatal(err)
	}
	n.fixedOnce(t, "role")
	if calls, others := lent(); calls == 0 || len(others) > 0 {
		t.Errorf("the role was lent %d times; without it there were the calls %v", calls, others)
	}

	n.insideVPC(t)

	// If another ServiceAccount is trusted, STS rejects this one.
	trust := func(subject string) {
		n.Edit(func(st *sim.State) {
			st.Roles["lbremedy-up"].OIDC = []sim.OIDCTrust{{Provider: provider, Subject: subject}}
		})
	}
	trust("system:serviceaccount:other:lbremedy-up")
	defer trust("system:serviceaccount:" + namespace + ":lbremedy-up")
	out, err := inPod(t.Context(), "preflight")
	if err == nil || !strings.Contains(out+err.Error(), "role/lbremedy-up") || !strings.Contains(out+err.Error(), "There is no permission") {
		t.Errorf("preflight without a role: %v, want it to name the role and what STS answered:\n%s", err, out)
	}
}

// TestReadiness: an unresponsive process gets no traffic until it responds again.
func TestReadiness(t *testing.T) {
	n := installed(t)
	pid := must(n.process(t.Context()))(t)
	defer syscall.Kill(pid, syscall.SIGCONT)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod is not ready any more", func() bool { return !ready(n.pod(t)) })
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the Pod is ready again", func() bool { return ready(n.pod(t)) })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s until the Pod was ready again", took)
	}
	if again := must(n.process(t.Context()))(t); again != pid {
		t.Errorf("process %d was replaced by %d, though it was not dead", pid, again)
	}
}

func (n *node) insideVPC(t *testing.T) {
	t.Helper()
	called := n.called()
	sts := "sts-vpc." + region + ".aliyuncs.com"
	if !slices.Contains(called, sts) {
		t.Errorf("the cloud was called at %v, want %s", called, sts)
	}
	for _, name := range called {
		if strings.HasPrefix(name, "sts") && name != sts {
			t.Errorf("the cloud was called at %s, which is outside the VPC", name)
		}
	}
}

// inTheMiddle breaks a Service and waits until the Pod has written to it, in the middle of its plan. No controller runs that could react.
func (n *node) inTheMiddle(t *testing.T, service string) (pid int) {
	t.Helper()
	pid = must(n.process(t.Context()))(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	if err := n.breakService(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the controller reports the failure of "+service, func() bool {
		events := must(n.kube.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + service}))(t)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == "SyncLoadBalancerFailed" })
	})
	n.stop()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod writes to "+service, func() bool { return must(n.writes(service))(t) > 0 })
	return pid
}

// TestKilledInTheMiddle: a Pod killed in the middle of a plan finishes it after its restart, and writes nothing twice.
func TestKilledInTheMiddle(t *testing.T) {
	n := installed(t)
	pid := n.inTheMiddle(t, "killed")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kubelet starts the Pod again", func() bool { return n.pod(t).Status.ContainerStatuses[0].RestartCount > 0 && ready(n.pod(t)) })
	n.start(t.Context())
	n.fixedOnce(t, "killed")
}

// TestDeletedInTheMiddle: the successor of a Pod deleted in the middle of a plan has its disk and finishes the plan.
func TestDeletedInTheMiddle(t *testing.T) {
	n := installed(t)
	n.inTheMiddle(t, "deleted")
	name := n.pod(t).Name
	began := time.Now()
	// As in a hurried drain, SIGKILL follows two seconds after SIGTERM.
	if _, err := kubectl(t.Context(), "-n", namespace, "delete", "pod", name, "--grace-period=2"); err != nil {
		t.Fatal(err)
	}
	t.Logf("the Pod was gone after %.1f s", time.Since(began).Seconds())
	eventually(t, "another Pod is ready", func() bool {
		pods := must(n.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t)
		return len(pods.Items) == 1 && pods.Items[0].Name != name && ready(pods.Items[0])
	})
	n.start(t.Context())
	n.fixedOnce(t, "deleted")
}

// TestEnds checks that a Pod ends within its grace period after SIGTERM.
func TestEnds(t *testing.T) {
	n := installed(t)
	pod := n.pod(t)
	watch := must(n.kube.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name}))(t)
	defer watch.Stop()
	began := time.Now()
	if err := n.kube.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var end *corev1.ContainerStateTerminated
	for e := range watch.ResultChan() {
		p, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watch the Pod: %v", e.Object)
		}
		if c := p.Status.ContainerStatuses; len(c) > 0 && c[0].State.Terminated != nil {
			end = c[0].State.Terminated
		}
		if e.Type == "DELETED" {
			break
		}
	}
	took := time.Since(began)
	if end == nil || end.ExitCode != 0 || took > 15*time.Second {
		t.Errorf("it ended after %.1f s with %+v, want exit code 0 soon", took.Seconds(), end)
	}
	t.Logf("the Pod ended after %.1f s", took.Seconds())
	if err := rolledOut(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func cases(t *testing.T) []string {
	t.Helper()
	out := must(inPod(t.Context(), "ls", "--all", "-o", `jsonpath={range [*]}{.case}{"\n"}{end}`))(t)
	list := strings.Fields(out)
	slices.Sort(list)
	return list
}

// TestUpgradeAndRollback: other values create a new Pod, and a rollback restores the previous one, with all cases.
func TestUpgradeAndRollback(t *testing.T) {
	n := installed(t)
	before := cases(t)
	if len(before) == 0 {
		t.Fatal("there are no cases yet")
	}
	image := n.pod(t).Spec.Containers[0].Image
	// Referenced by its tag: the same image.
	if err := n.push(t.Context(), "next"); err != nil {
		t.Fatal(err)
	}
	tag := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(tag, []byte("{image: {tag: next, digests: {lbremedy: null}}, logLevel: debug}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := install(t.Context(), n.chart(), must(values(n.dir))(t), tag); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod before is gone", func() bool { return n.pods(t) == 1 })
	if got := n.pod(t).Spec.Containers[0].Image; got != images+"/lbremedy:next" {
		t.Errorf("after the upgrade the image is %s", got)
	}
	if got := cases(t); !slices.Equal(got, before) {
		t.Errorf("after the upgrade the cases are %v, before they were %v", got, before)
	}
	if err := n.breakService(t.Context(), "upgraded"); err != nil {
		t.Fatal(err)
	}
	n.fixedOnce(t, "upgraded")
	before = cases(t)
	if _, err := run(t.Context(), nil, "helm", "rollback", release, "--namespace", namespace); err != nil {
		t.Fatal(err)
	}
	if err := rolledOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod of the upgrade is gone", func() bool { return n.pods(t) == 1 })
	if got := n.pod(t).Spec.Containers[0].Image; got != image {
		t.Errorf("after the rollback the image is %s, want %s", got, image)
	}
	if got := cases(t); !slices.Equal(got, before) {
		t.Errorf("after the rollback the cases are %v, before they were %v", got, before)
	}
}

// TestUninstall: Helm removes everything except the disk, and a new installation continues with it.
func TestUninstall(t *testing.T) {
	n := installed(t)
	before := cases(t)
	if _, err := run(t.Context(), nil, "helm", "uninstall", release, "--namespace", namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod is gone", func() bool { return n.pods(t) == 0 })
	left := must(kubectl(t.Context(), "get", "-o", "name", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"))(t)
	left += must(kubectl(t.Context(), "get", "-o", "name", "-n", namespace,
		"deployments,services,serviceaccounts,configmaps,networkpolicies,roles,rolebindings,poddisruptionbudgets"))(t)
	for line := range strings.Lines(left) {
		if strings.Contains(line, "lbremedy") {
			t.Errorf("Helm left %s", line)
		}
	}
	claim := must(n.kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "lbremedy-state", metav1.GetOptions{}))(t)
	if claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the disk's claim is %s, want it bound", claim.Status.Phase)
	}
	if files := must(filepath.Glob(filepath.Join(n.dir, "run/disk-0/*")))(t); len(files) == 0 {
		t.Error("the disk is empty")
	}
	if err := install(t.Context(), n.chart(), must(values(n.dir))(t)); err != nil {
		t.Fatal(err)
	}
	if got := cases(t); !slices.Equal(got, before) {
		t.Errorf("after it was installed again the cases are %v, before they were %v", got, before)
	}
}
