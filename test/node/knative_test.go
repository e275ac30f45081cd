package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These tests run on a separate node with Knative and NATS: two Pods of lbremedy up call the functions of some classes. They use
// one release in sequence, and the last one removes it.

var joinedPlatform = sync.OnceValues(func() (*platformNode, error) {
	ctx := context.Background()
	s := &screen{out: os.Stderr}
	p, err := joinPlatform(ctx, s)
	if err != nil {
		return nil, err
	}
	values, err := p.withFunctions("values", nil)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := p.installFunctions(ctx, values); err != nil {
		return nil, err
	}
	s.fact("Chart", "functions of %d classes on Knative: all ready %.1f s after helm began", len(chosen), time.Since(began).Seconds())
	return p, nil
})

func onKnative(t *testing.T) *platformNode {
	t.Helper()
	return must(joinedPlatform())(t)
}

func (p *platformNode) broken(t *testing.T, prefix string) (stop func() []string) {
	ctx, cancel := context.WithCancel(t.Context())
	var names []string
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("%s-%d", prefix, i)
			if failed = p.breakService(context.WithoutCancel(ctx), name); failed != nil {
				return
			}
			names = append(names, name)
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(cancel)
	return func() []string {
		t.Helper()
		cancel()
		<-ended
		if failed != nil {
			t.Fatal(failed)
		}
		return names
	}
}

func (p *platformNode) nothingLost(t *testing.T, services []string) {
	t.Helper()
	if len(services) == 0 {
		t.Fatal("no Service was broken meanwhile")
	}
	for _, s := range services {
		p.fixedOnce(t, s)
	}
	eventually(t, "the ledger balances", func() bool {
		return p.unaccounted(t.Context()) == nil
	})
	t.Logf("%d Services were broken meanwhile; each was fixed by one write", len(services))
}

// unaccounted returns an error if failures are unaccounted for. The exit code of status also reports cases that wait for a person.
func (p *platformNode) unaccounted(ctx context.Context) error {
	out, err := p.lbremedy(ctx, "status", "-o", "json")
	var st struct {
		Backlog *struct {
			Lost     int
			Problems []string
		}
	}
	if json.Unmarshal([]byte(out), &st) != nil || st.Backlog == nil {
		return fmt.Errorf("the ledger can't be read: %w: %s", err, out)
	}
	if st.Backlog.Lost+len(st.Backlog.Problems) > 0 {
		return fmt.Errorf("it does not balance: %s", out)
	}
	return nil
}

func (p *platformNode) call(ctx context.Context, class, path string) (int, time.Duration, error) {
	began := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, 0, err
	}
	r.Host = "lbremedy-" + class + "." + namespace + ".svc.cluster.local"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, time.Since(began), err
}

// TestKnativeReady: the chosen functions are ready, with the registry's images of the release, in Pods that the standard
// restricted admits, with the RAM roles from the webhook.
func TestKnativeReady(t *testing.T) {
	p := onKnative(t)
	out := must(kubectl(t.Context(), "-n", namespace, "get", "services.serving.knative.dev", "-o",
		`jsonpath={range .items[*]}{.metadata.labels.lbremedy\.io/class} {.status.conditions[?(@.type=="Ready")].status} `+
			`{.spec.template.spec.containers[0].image}{"\n"}{end}`))(t)
	got := strings.Split(strings.TrimSpace(out), "\n")
	var want []string
	for _, class := range chosen {
		want = append(want, class+" True "+images+"/"+class+"@"+must(p.has(t.Context(), class, p.version))(t))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the functions are %q, want %q", got, want)
	}
	if err := p.unaccounted(t.Context()); err != nil {
		t.Errorf("the ledger of an installation that has seen nothing: %v", err)
	}
}

func find(t *testing.T, what string, is func(proc) bool) (found proc) {
	t.Helper()
	eventually(t, "a process is "+what, func() bool {
		for _, q := range must(processes())(t) {
			if is(q) {
				found = q
				return true
			}
		}
		return false
	})
	return found
}

// TestKnativeProcesses checks with the kernel that each program runs as its image and the chart say.
func TestKnativeProcesses(t *testing.T) {
	p := onKnative(t)
	for _, program := range []struct {
		name, arg string
	}{{"lbremedy", "--routes=/etc/lbremedy/routes.yaml"}, {"busy", ""}, {"nats-server", ""}} {
		t.Run(program.name, func(t *testing.T) {
			if program.name == "busy" {
				if status, _, err := p.call(t.Context(), "busy", "/health/readiness"); err != nil || status != http.StatusOK {
					t.Fatalf("the function answered %d, %v", status, err)
				}
			}
			q := find(t, program.name, func(q proc) bool {
				return q.name == program.name && (program.arg == "" || slices.Contains(q.args, program.arg))
			})
			user := "65532"
			if program.name == "nats-server" {
				user = "1000" // infra/nats/values.yaml
			}
			confined(t, q.pid, user)
		})
	}
}

// TestKnativeEnds checks that programs end within their grace period after SIGTERM.
func TestKnativeEnds(t *testing.T) {
	p := onKnative(t)
	const component = "up"
	pods := must(p.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component}))(t)
	if len(pods.Items) == 0 {
		t.Fatal("there is no Pod of it")
	}
	pod := pods.Items[0]
	watch := must(p.kube.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name}))(t)
	defer watch.Stop()
	began := time.Now()
	if err := p.kube.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	code := int32(-1)
	for e := range watch.ResultChan() {
		q, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watch the Pod: %v", e.Object)
		}
		if c := q.Status.ContainerStatuses; len(c) > 0 && c[0].State.Terminated != nil {
			code = c[0].State.Terminated.ExitCode
		}
		if e.Type == "DELETED" {
			break
		}
	}
	grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	if took := time.Since(began); code != 0 || took >= grace {
		t.Errorf("it ended after %s with exit code %d; want 0, within %s", took, code, grace)
	} else {
		t.Logf("it ended after %.1f s, of %s", took.Seconds(), grace)
	}
	if err := rollout(t.Context(), namespace, "deployment/lbremedy-"+component); err != nil {
		t.Fatal(err)
	}
}

// TestKnativeFromZero: an unused function has no instance, and a failure starts one, which fixes it.
func TestKnativeFromZero(t *testing.T) {
	p := onKnative(t)
	for _, class := range []string{"busy", "vswitch-ip-exhausted"} {
		if err := p.asleep(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	status, cold, err := p.call(t.Context(), "busy", "/health/readiness")
	if err != nil || status != http.StatusOK {
		t.Fatalf("a call of a function without an instance: %d, %v", status, err)
	}
	var warm []time.Duration
	for range 5 {
		status, took, err := p.call(t.Context(), "busy", "/health/readiness")
		if err != nil || status != http.StatusOK {
			t.Fatalf("a call of a function with an instance: %d, %v", status, err)
		}
		warm = append(warm, took)
	}
	slices.Sort(warm)
	t.Logf("a call that had to start an instance took %.2f s, others %.0f ms", cold.Seconds(), float64(warm[len(warm)/2].Microseconds())/1000)
	memory := func(name string) int {
		return find(t, name, func(q proc) bool { return q.name == name }).resident / 1024
	}
	t.Logf("a function takes %d MiB, its queue-proxy %d MiB", memory("busy"), memory("knative-queue"))

	if count := must(p.instances(t.Context(), "vswitch-ip-exhausted"))(t); count != 0 {
		t.Fatalf("the function has %d instances before its failure", count)
	}
	if err := p.breakService(t.Context(), "zero"); err != nil {
		t.Fatal(err)
	}
	p.fixedOnce(t, "zero")
	log := must(kubectl(t.Context(), "-n", namespace, "logs", "-l", "serving.knative.dev/service=lbremedy-vswitch-ip-exhausted", "-c", "function", "--tail=-1"))(t)
	if !strings.Contains(log, `"call answered"`) {
		t.Errorf("the function's log has no line of a call:\n%s", log)
	}
	records := must(p.records(t.Context(), "zero"))(t)
	t.Logf("from the failure to the proof that it is over: %.1f s, with the start of an instance",
		records[len(records)-1].At.Sub(records[0].Recorded).Seconds())
}

func TestKnativeRoles(t *testing.T) {
	p := onKnative(t)
	roles := map[string]string{} // by session name
	for _, c := range p.Snapshot().Callers {
		roles[c.Name] = c.Role
	}
	used := map[string]bool{}
	for _, c := range p.Calls() {
		switch role := roles[c.Caller]; {
		case c.Caller == operator || c.Action == "AssumeRoleWithOIDC":
		case role == "":
			t.Errorf("%s was called by %q, who has no role", c.Action, c.Caller)
		default:
			used[role] = true
		}
	}
	p.insideVPC(t)
	if !used["lbremedy-vswitch-ip-exhausted"] {
		t.Errorf("the roles %v were used, want that of the function which has fixed something", used)
	}
}

func TestKnativeNotifies(t *testing.T) {
	p := onKnative(t)
	if err := p.breakWith(t.Context(), "question", "vsw-does-not-exist"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the question is on the Service", func() bool {
		events := must(p.kube.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=question"}))(t)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.HasPrefix(e.Reason, "LBRemedyNeeds") })
	})
	if count := must(p.writes("question"))(t); count != 0 {
		t.Errorf("the Service of which a person was asked was written %d times", count)
	}
}

// TestKnativeStranger: a function reads and writes nothing without the engine's signature.
func TestKnativeStranger(t *testing.T) {
	p := onKnative(t)
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", strings.NewReader("e30.e30.c2lnbmF0dXJl")))(t)
	r.Host = "lbremedy-busy." + namespace + ".svc.cluster.local"
	r.Header.Set("Content-Type", "application/jose")
	answer := must(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	text := must(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusBadRequest {
		t.Errorf("it answers %d: %s", answer.StatusCode, text)
	}
	pods := must(p.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=function"}))(t)
	for _, pod := range pods.Items {
		for _, v := range pod.Spec.Volumes {
			if v.Secret != nil {
				t.Errorf("%s has the Secret %s", pod.Name, v.Secret.SecretName)
			}
		}
	}
}

// TestKnativeEnginesKilled kills the engines one by one while Services fail: nothing is lost or written twice.
func TestKnativeEnginesKilled(t *testing.T) {
	p := onKnative(t)
	stop := p.broken(t, "engine")
	for range 4 {
		pods := must(p.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=up"}))(t)
		if len(pods.Items) == 0 {
			t.Fatal("there is no engine")
		}
		if err := p.kube.CoreV1().Pods(namespace).Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		if err := rolledOut(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.nothingLost(t, stop())
}

// TestKnativeNATSDeleted deletes the Pods of NATS one by one while Services fail: nothing is lost or written twice.
func TestKnativeNATSDeleted(t *testing.T) {
	p := onKnative(t)
	stop := p.broken(t, "nats")
	for i := range 3 {
		began := time.Now()
		pod := fmt.Sprintf("nats-%d", i)
		before := must(p.kube.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{}))(t)
		if _, err := kubectl(t.Context(), "-n", namespace, "delete", "pod", pod); err != nil {
			t.Fatal(err)
		}
		eventually(t, pod+" is back", func() bool {
			after, err := p.kube.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
			return err == nil && after.UID != before.UID && ready(*after)
		})
		t.Logf("%s was away for %.1f s", pod, time.Since(began).Seconds())
	}
	p.nothingLost(t, stop())
}

// TestKnativeRevisionReplaced changes settings while Services fail, which makes Knative replace the revision.
func TestKnativeRevisionReplaced(t *testing.T) {
	p := onKnative(t)
	revision := func() string {
		return must(kubectl(t.Context(), "-n", namespace, "get", "services.serving.knative.dev", "lbremedy-vswitch-ip-exhausted",
			"-o", "jsonpath={.status.latestReadyRevisionName}"))(t)
	}
	before := revision()
	stop := p.broken(t, "revision")
	values := must(p.withFunctions("values", map[string]any{"env": []map[string]string{{"name": "GOGC", "value": "90"}}}))(t)
	if err := p.installFunctions(t.Context(), values); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is another revision", func() bool { return revision() != before })
	p.nothingLost(t, stop())
}
