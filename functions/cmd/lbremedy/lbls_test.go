package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim"
)

// serviceOn returns a Service of type LoadBalancer, with the load balancer that a label
// or the annotation id names, if any.
func serviceOn(name, label, id string) corev1.Service {
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", len(name)+1000*len(label)))},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
	if label != "" {
		svc.Labels = map[string]string{ccm.BalancerLabel: label}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
	}
	if id != "" {
		svc.Annotations = map[string]string{ccm.Prefix + "id": id}
	}
	return svc
}

// small is a cluster with a Service for each thing that can be said of a load balancer.
func small(t *testing.T) (call, *sim.Cloud) {
	t.Helper()
	own := serviceOn("own", "lb-own", "")
	return api{lists: map[string][]any{"/api/v1/services": {
		own, serviceOn("lent", "lb-lent", "lb-lent"), serviceOn("nowhere", "lb-nowhere", "lb-nowhere"), serviceOn("lost-it", "lb-lost", ""),
		serviceOn("untagged", "lb-untagged", ""), serviceOn("young", "", ""),
	}}}.against(t, &sim.World{
		Cluster: sim.Cluster{ID: "c1"},
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-own", Address: "203.0.113.9", Tags: map[string]string{ccm.NameTag: ccm.DefaultName(&own)}, Listeners: []sim.Listener{{Port: 80}}},
			{ID: "lb-lent", Address: "203.0.113.10", AddressType: "intranet"},
			{ID: "lb-untagged", Address: "203.0.113.11"},
		},
	})
}

// The inventory says of each Service what its load balancer is, also where that is none.
func TestInventory(t *testing.T) {
	t.Parallel()
	c, account := small(t)
	got := c.run(t.Context(), "lb", "ls", "-o", "json")
	var list []balancing
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || got.code != 0 || got.err != "" {
		t.Fatalf("code %d, %v: %s %s", got.code, err, got.out, got.err)
	}
	var said []string
	for _, b := range list {
		said = append(said, strings.Join([]string{b.Name, b.name(), b.Made, b.AddressType, b.ofLimit(), strings.Join(b.Listeners, " ")}, "|"))
	}
	if diff := cmp.Diff([]string{
		"lent|lb-lent|reused|intranet|0 of 200|",
		"lost-it|lb-lost (gone)|own|||",
		"nowhere|lb-nowhere (gone)|reused|||",
		"own|lb-own|own|internet|0 of 200|tcp:80",
		"untagged|lb-untagged (untagged)|own|||",
		"young|||||",
	}, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.run(t.Context(), "lb", "ls"); got.code != 0 || !strings.Contains(got.out, "lb-lost (gone)") || strings.Contains(got.out, "?") {
		t.Errorf("code %d: %s", got.code, got.out)
	}
	if got := c.run(t.Context(), "lb", "ls", "-n", "other", "-o", "yaml"); got.code != 0 || got.out != "[]\n" {
		t.Errorf("of another namespace: %+v", got)
	}
	if got := c.run(t.Context(), "lb", "ls", "-n", "other"); got.code != 0 || !strings.Contains(got.err, "no Service of type LoadBalancer in the namespace other") {
		t.Errorf("of another namespace: %+v", got)
	}

	// What can't be told is a question mark, and no number.
	lift := account.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Code: "Forbidden.RAM", Status: 403, Count: 1})
	got = c.run(t.Context(), "lb", "ls", "-o", "json")
	lift()
	if got.code != codeUnknown || !strings.Contains(got.out, `"unknown"`) || strings.Count(got.err, "\n") != 1 || !json.Valid([]byte(got.out)) {
		t.Errorf("a read that failed: %+v", got)
	}
}

// No command reads or writes where it may not, is not told where, or is told of what is
// not there: each says so in one line, with the way out, and prints nothing.
func TestLookingMistakes(t *testing.T) {
	t.Parallel()
	c, account := small(t)
	denied, _ := api{denied: true}.against(t, &sim.World{Cluster: sim.Cluster{ID: "c1"}})
	few := account.Client("few", "ecs:*")
	for name, tt := range map[string]struct {
		call
		args string
		code int
		want string
	}{
		"no such Service to show":        {c, "lb show shop/nope", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such Service to tag":         {c, "lb tag shop/nope", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such Service to recreate":    {c, "lb recreate shop/nope --apply", command.CodeWrong, "name one with --nats"},
		"no such Service to weigh":       {c, "lb weights shop/nope", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such Service to examine":     {c, "doctor shop/nope -o json", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such Service to fix":         {c, "doctor --fix finalizers shop/nope", command.CodeWrong, "there is no Service shop/nope in the cluster: correct the name"},
		"no such namespace":              {c, "doctor -n nope -o yaml", command.CodeWrong, "there is no namespace nope in the cluster: correct the name"},
		"a fix without a journal":        {c, "doctor --fix finalizers --apply", command.CodeWrong, "name one with --nats"},
		"a tag without a journal":        {c, "lb tag shop/own --apply --yes", command.CodeWrong, "name one with --nats"},
		"an unreadable policy":           {c, "doctor --policy nowhere.yaml", command.CodeWrong, "nowhere.yaml"},
		"a cluster that says no":         {denied, "lb ls", command.CodeFailed, `cannot list resource "services"`},
		"a cluster that says no to show": {denied, "lb show shop/web", command.CodeFailed, "shop/web"},
		"a cluster that says no to ram":  {denied, "ram gap", command.CodeFailed, `cannot list resource "services"`},
		"a key that nobody knows":        {c.with(keyID, "LTAI-stranger"), "doctor", command.CodeWrong, "Alibaba Cloud refuses the access key: give another one in ALIBABA_CLOUD_ACCESS_KEY_ID"},
		"a wrong secret":                 {c.with(keySecret, "wrong-secret"), "lb ls", command.CodeWrong, "Alibaba Cloud refuses the access key"},
		"a cloud that is away":           {c.with("LBREMEDY_CLOUD_ENDPOINT", "127.0.0.1:1"), "doctor", command.CodeFailed, "which has to be reachable from here"},
		"another cluster":                {c.with("LBREMEDY_CLUSTER", "c2"), "lb ls", command.CodeWrong, "correct --cluster or --region"},
		"no region":                      {c.with("LBREMEDY_REGION", ""), "doctor", command.CodeWrong, "--region"},
		"no cluster":                     {c.with("LBREMEDY_CLUSTER", ""), "ram gap", command.CodeWrong, "set --cluster or LBREMEDY_CLUSTER"},
		"an unknown form":                {c, "doctor -o xml", command.CodeWrong, "is not one of table, json, yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.run(t.Context(), strings.Fields(tt.args)...)
			if got.code != tt.code || !strings.Contains(got.err, tt.want) || got.out != "" || strings.Count(got.err, "\n") != 1 {
				t.Errorf("%s: code %d, wrote %q, said %q; want %d and %q", tt.args, got.code, got.out, got.err, tt.code, tt.want)
			}
			for _, secret := range []string{c.env[keySecret], few.Secret, "wrong-secret"} {
				if strings.Contains(got.err, secret) {
					t.Errorf("%s: it says a secret: %q", tt.args, got.err)
				}
			}
		})
	}

	// Checks that can't tell for one reason are one line, and the exit code says so.
	got := denied.run(t.Context(), "doctor")
	if got.code != codeUnknown || strings.Count(got.out, "cannot list resource") > 5 || !strings.Contains(got.out, " more") || !strings.Contains(got.err, " 0 findings, ") {
		t.Errorf("a cluster that says no: %+v", got)
	}
	for _, call := range account.Calls() {
		if !strings.HasPrefix(call.Action, "Describe") && !strings.HasPrefix(call.Action, "List") && !strings.HasPrefix(call.Action, "Get") {
			t.Errorf("it called %s", call.Action)
		}
	}
}

// A person at a terminal gets lines that fit, colours unless NO_COLOR says otherwise, and
// progress on standard error; a script gets data alone, wherever it runs.
func TestLookingTerminal(t *testing.T) {
	t.Parallel()
	c, account := small(t)
	account.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Delay: 400 * time.Millisecond})
	run := func(args ...string) (string, string) {
		var out, errs bytes.Buffer
		p := &program{in: strings.NewReader(""), out: &out, err: &errs, now: time.Now, getenv: func(name string) string { return c.env[name] },
			terminal: func(any) int { return 120 }, keys: c.keys()}
		p.run(t.Context(), args)
		return out.String(), errs.String()
	}
	const escape = "\x1b"
	out, errs := run("doctor", "--checks", "lb-gone,deletion,listeners-missing")
	if !strings.Contains(out, escape) || !strings.Contains(errs, "reading ") {
		t.Errorf("printed %q, said %q", out, errs)
	}
	for _, args := range [][]string{{"doctor", "-o", "json"}, {"lb", "ls", "-o", "json"}, {"doctor", "checks", "-o", "json"}} {
		if out, _ := run(args...); !json.Valid([]byte(out)) || strings.Contains(out, escape) {
			t.Errorf("%v printed %q", args, out)
		}
	}
	c = c.with("NO_COLOR", "1")
	out, _ = run("doctor", "--severity", "info", "--checks", "lb-gone,deletion,listeners-missing")
	for line := range strings.Lines(out) {
		if strings.Contains(line, escape) || len(strings.TrimRight(line, " \n")) > 130 {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
	if out == "" {
		t.Error("nothing was found")
	}
}

// What a shell asks for is answered from the list of checks and from the cluster.
func TestCompletion(t *testing.T) {
	t.Parallel()
	c, _ := small(t)
	away := c.with("LBREMEDY_KUBECONFIG", "nowhere")
	for name, tt := range map[string]struct {
		call
		args  []string
		want  string
		never string
	}{
		"a check":               {c, []string{"doctor", "--checks", ""}, "room\tQuotas and room\n", "-\n"},
		"the next check":        {c, []string{"doctor", "--checks", "room,"}, "room,scale\tScale\n", "room,room"},
		"a check with a fix":    {c, []string{"doctor", "--fix", ""}, "finalizers\t", "room\t"},
		"the page of a check":   {c, []string{"doctor", "checks", ""}, "room\t", "-\n"},
		"no second page":        {c, []string{"doctor", "checks", "room", ""}, ":4\n", "scale"},
		"a namespace":           {c, []string{"doctor", "--namespace", ""}, "shop\n:4", "own"},
		"a namespace of lb":     {c, []string{"lb", "ls", "-n", ""}, "shop\n:4", "own"},
		"a Service":             {c, []string{"doctor", ""}, "shop/own\t203.0.113.9\n", "-\n"},
		"another Service":       {c, []string{"doctor", "shop/own", ""}, "shop/lent\t", "shop/own"},
		"a Service to show":     {c, []string{"lb", "show", ""}, "shop/own\t", "-\n"},
		"no second one":         {c, []string{"lb", "show", "shop/own", ""}, ":4\n", "shop/"},
		"a Service to tag":      {c, []string{"lb", "tag", ""}, "shop/own\t", "-\n"},
		"a Service to weigh":    {c, []string{"lb", "weights", ""}, "shop/own\t", "-\n"},
		"a release":             {c, []string{"ram", "gap", "--target", ""}, ccm.Newest().String() + "\n:4", "-\n"},
		"nothing without a way": {away, []string{"doctor", ""}, ":4\n", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.run(t.Context(), append([]string{"__complete"}, tt.args...)...)
			if got.code != 0 || !strings.Contains(got.out, tt.want) || strings.Contains(got.out, tt.never) {
				t.Errorf("code %d: %q; want %q and no %q", got.code, got.out, tt.want, tt.never)
			}
		})
	}
}

// BenchmarkInventory lists 5,000 Services on 500 load balancers, 50 ms a call.
func BenchmarkInventory(b *testing.B) {
	const services, balancers = 5000, 500
	world := &sim.World{Cluster: sim.Cluster{ID: "c1"}, Quotas: []sim.Quota{
		{Product: "slb", Name: "slb_quota_instances_num", Total: 1000, Max: 1000}, {Product: "slb", Name: "slb_quota_backendservers_num", Total: 200, Max: 200},
	}}
	for i := range balancers {
		world.LoadBalancers = append(world.LoadBalancers, sim.LoadBalancer{ID: fmt.Sprintf("lb-%04d", i), Tags: map[string]string{ccm.ReusedTag: "true"}})
	}
	var list []any
	for i := range services {
		lb := &world.LoadBalancers[i%balancers]
		g := sim.VGroup{ID: fmt.Sprintf("rsp-%05d", i), Name: fmt.Sprintf("k8s/8080/web-%05d/shop/c1", i), Backends: []sim.Backend{{Server: "i-1", Port: 8080}}}
		lb.VGroups, lb.Listeners = append(lb.VGroups, g), append(lb.Listeners, sim.Listener{Port: 8000 + i/balancers, VGroup: g.ID})
		svc := serviceOn(fmt.Sprintf("web-%05d", i), lb.ID, lb.ID)
		svc.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
		list = append(list, svc)
	}
	c, account := api{lists: map[string][]any{"/api/v1/services": list}}.against(b, world)
	account.Fault(sim.Fault{Delay: 50 * time.Millisecond})
	for b.Loop() {
		before, began := len(account.Calls()), time.Now()
		got := c.run(b.Context(), "lb", "ls")
		took := time.Since(began)
		calls := account.Calls()[before:]
		if got.code != 0 || strings.Count(got.out, "10 of 200") != services || took > time.Minute {
			b.Fatalf("code %d in %s: %.300s %.300s", got.code, took, got.out, got.err)
		}
		b.ReportMetric(took.Seconds(), "s/list")
		b.ReportMetric(float64(len(calls)), "calls/list")
		second := map[string]int{}
		most := 0
		for _, k := range calls {
			at := k.Product + k.At.Truncate(time.Second).String()
			second[at]++
			most = max(most, second[at])
		}
		b.ReportMetric(float64(most), "calls/s-at-most")
	}
}
