package doctor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

const manifest = `# two Services and something else
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {service.beta.kubernetes.io/alibaba-cloud-loadbalancer-adress-type: intranet}}
spec: {type: LoadBalancer}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {namespace: shop, name: api, annotations: {service.beta.kubernetes.io/alibaba-cloud-loadbalancer-bandwidth: 10M}}
  spec: {type: LoadBalancer}
`

func TestDoctorMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		in   string
		want string
	}{
		"no severity":      {[]string{"doctor", "--severity", "bad"}, "", `"bad" is not a severity: want info, warning or critical`},
		"no check":         {[]string{"doctor", "--checks", "annotation"}, "", `the check "annotation" is unknown; the checks are annotations`},
		"no check to show": {[]string{"doctor", "checks", "x"}, "", `the check "x" is unknown`},
		"no Service":       {[]string{"doctor", "Shop"}, "", `"Shop" is not a Service: name one as NAMESPACE/NAME`},
		"apply of nothing": {[]string{"doctor", "--apply"}, "", "name a check with --fix"},
		"no fix":           {[]string{"doctor", "--fix", "deletion"}, "", "cannot be fixed automatically"},
		"fix of checks":    {[]string{"doctor", "--fix", "finalizers", "--checks", "room"}, "", "leave out --checks"},
		"fix of the cluster's rights for a Service": {[]string{"doctor", "--fix", "permissions", "shop/web"}, "", "about the cluster"},
		"in a namespace": {[]string{"doctor", "--fix", "permissions", "-n", "shop"}, "", "about the cluster"},
		"by labels":      {[]string{"doctor", "--fix", "permissions", "-l", "app=web"}, "", "about the cluster"},
		"fix of a file":  {[]string{"doctor", "-f", "-", "--fix", "finalizers"}, manifest, "writes nothing"},
		"no file":        {[]string{"doctor", "-f", "nowhere.yaml"}, "", "nowhere.yaml"},
		"no manifest":    {[]string{"doctor", "-f", "-"}, "kind: Pod\n", "standard input holds no Service"},
		"an empty file":  {[]string{"doctor", "-f", "-"}, "", "standard input holds no Service"},
		"broken YAML": {[]string{"doctor", "-f", "-"}, "kind: ConfigMap\n---\nkind: Service\nmetadata:\n  name: web\n bad: x\n",
			"standard input: near line 5: "},
		"a tab":       {[]string{"doctor", "-f", "-"}, "kind: Service\nmetadata:\n\tname: web\n", "standard input: near line 3: "},
		"a key twice": {[]string{"doctor", "-f", "-"}, "kind: Service\nkind: Service\n", `"kind" already set`},
		"no object": {[]string{"doctor", "-f", "-"}, "kind: Service\nmetadata: {name: a}\n---\njust words\n",
			"the document that starts in line 4 is not a Kubernetes object"},
		"no kind":            {[]string{"doctor", "-f", "-"}, "metadata: {name: a}\n", "the document that starts in line 1 has no kind"},
		"no name":            {[]string{"doctor", "-f", "-"}, "kind: Service\n", "has no name"},
		"a port of letters":  {[]string{"doctor", "-f", "-"}, "kind: Service\nmetadata: {name: a}\nspec: {ports: [{port: http}]}\n", "should be a int32"},
		"checks of clusters": {[]string{"doctor", "-f", "-", "--checks", "silent"}, manifest, "applies to manifests"},
		"a cluster and no configuration": {[]string{"doctor", "--cluster", "c1", "--region", "cn-hangzhou", "--kubeconfig", "nowhere"}, "",
			"there is no kubeconfig nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := operator.Call{In: tt.in, Env: operator.Home(t)}.Run(t.Context(), tt.args...)
			if got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.want) || got.Out != "" || strings.Count(got.Err, "\n") > 2 {
				t.Errorf("code %d, wrote %q, said %q; want %q", got.Code, got.Out, got.Err, tt.want)
			}
		})
	}
}

func TestDoctorFile(t *testing.T) {
	t.Parallel()
	c := operator.Call{In: manifest, Env: operator.Home(t)}
	got := c.Run(t.Context(), "doctor", "-f", "-", "-o", "json")
	var r doctor.Result
	if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
		t.Fatal(err, got.Err)
	}
	var found []string
	for _, f := range r.Findings {
		found = append(found, f.Severity.String()+" "+f.About.String()+" "+f.Key)
	}
	if want := []string{"critical shop/api bandwidth", "warning default/web adress-type"}; got.Code != cli.CodeCritical || !slices.Equal(found, want) {
		t.Errorf("code %d, found %q, want %q", got.Code, found, want)
	}
	if got := c.Run(t.Context(), "doctor", "-f", "-", "default/web"); got.Code != cli.CodeWarning || !strings.Contains(got.Out, "default/web") ||
		strings.Contains(got.Out, "shop/api") {
		t.Errorf("of one Service: code %d, wrote %s", got.Code, got.Out)
	}
	if got := c.Run(t.Context(), "doctor", "-f", "-", "--severity", "critical", "--namespace", "default"); got.Code != 0 ||
		!strings.Contains(got.Err, "Not shown: 2 findings of lower severity.") {
		t.Errorf("of one namespace: code %d, wrote %s, said %s", got.Code, got.Out, got.Err)
	}
	if got := c.Run(t.Context(), "doctor", "-f", "-", "-l", "app=web"); got.Code != command.CodeWrong ||
		!strings.Contains(got.Err, "no Service has the labels app=web") {
		t.Errorf("of labels that no manifest has: %+v", got)
	}
	got = c.Run(t.Context(), "doctor", "-f", "-", "-l", "app!=web", "--sort-by", "line", "-o", "jsonpath={range .findings[*]}{.line} {end}")
	if got.Out != "4 16 " {
		t.Errorf("by lines: %+v", got)
	}
	if got := c.Run(t.Context(), "doctor", "-f", "-", "--explain"); !strings.Contains(got.Out,
		"If service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type is meant") {
		t.Errorf("explained: wrote %s", got.Out)
	}
	ingress := operator.Call{Env: operator.Home(t), In: "kind: Ingress\nmetadata:\n  name: web\n  namespace: shop\n  annotations:\n" +
		"    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id: lb-1\n---\nkind: Ingress\nmetadata: {name: other, annotations: {a: b}}\n"}.
		Run(t.Context(), "doctor", "-f", "-", "-o", "jsonpath={range .findings[*]}{.check} {.about.kind} {.about.name} {.line};{end}")
	if want := "kind ingress web 5;"; ingress.Out != want || ingress.Code != cli.CodeWarning {
		t.Errorf("of an Ingress it says %+v, want %s", ingress, want)
	}
	good := operator.Call{In: "kind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer}\n", Env: operator.Home(t)}.Run(t.Context(), "doctor", "-f", "-")
	if good.Code != 0 {
		t.Errorf("a good one: code %d, wrote %s, said %s", good.Code, good.Out, good.Err)
	}
	port := operator.Call{In: "kind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer, ports: [{port: 80, nodePort: 32768}]}\n", Env: operator.Home(t)}.
		Run(t.Context(), "doctor", "-f", "-", "-o", "wide")
	if port.Code != cli.CodeWarning || !strings.Contains(port.Out, "32768-60999") || !strings.Contains(port.Out, "its nodes may use another one") {
		t.Errorf("a node port beyond the usual ones: code %d, wrote %s, said %s", port.Code, port.Out, port.Err)
	}
}

// Checking a manifest finds conflicts with the cluster's limits, addresses, Services and listeners, with lines and advice to edit the file.
func TestDoctorFileInCluster(t *testing.T) {
	t.Parallel()
	there, other := operator.ServiceOn("there", "lb-there", ""), operator.ServiceOn("other", "lb-1", "lb-1")
	world := &sim.World{
		Cluster: sim.Cluster{ID: "c1", VPC: "vpc-1", VSwitches: []string{"vsw-full"}}, VPCs: []sim.VPC{{ID: "vpc-1"}},
		VSwitches: []sim.VSwitch{{ID: "vsw-full", VPC: "vpc-1", Free: new(0)}, {ID: "vsw-free", VPC: "vpc-1"}},
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-1", Address: "203.0.113.9", Listeners: []sim.Listener{{Port: 80}}},
			{ID: "lb-there", Address: "203.0.113.10", Tags: map[string]string{ccm.NameTag: ccm.DefaultName(&there), ccm.ClusterTag: "c1"}},
		},
		Quotas: []sim.Quota{{Product: "slb", Name: "slb_quota_instances_num", Total: 60, Max: 60}},
	}
	c, account := operator.API{Lists: map[string][]any{"/api/v1/services": {there, other}}}.Against(t, world)
	const text = `# Services of the shop
apiVersion: v1
kind: Service
metadata:
  namespace: shop
  name: web
  annotations:
    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-bandwidth: 10M
    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id: vsw-full
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: Service, metadata: {namespace: shop, name: there, annotations: {
    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id: vsw-full}}, spec: {type: LoadBalancer}},
  {apiVersion: v1, kind: Service, metadata: {namespace: shop, name: api, annotations: {
    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id: lb-1}},
   spec: {type: LoadBalancer, ports: [{port: 80}]}}]}
`
	file := operator.Write(t, "service.yaml", text)
	examine := func(c operator.Call, args ...string) (r doctor.Result, got operator.Said) {
		t.Helper()
		got = c.Run(t.Context(), append([]string{"doctor", "-f", file, "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
			t.Fatal(err, got.Err)
		}
		return r, got
	}
	r, got := examine(c)
	var found []string
	for _, f := range r.Findings {
		if f.File != file {
			t.Errorf("%s is in %q", f.ID(), f.File)
		}
		if strings.Contains(f.Do.String(), "kubectl") {
			t.Errorf("%s: of what is not there yet: %s", f.ID(), f.Do)
		}
		found = append(found, fmt.Sprintf("%d %s %s %s", f.Line, f.Check, f.About, f.Key))
	}
	want := []string{"8 annotations shop/web bandwidth", "9 room shop/web vswitch-id/vsw-full", "14 edits shop/there ports",
		"16 reuse shop/api port/tcp:80"}
	if !slices.Equal(found, want) || got.Code != cli.CodeCritical || len(r.Unknown) != 0 {
		t.Errorf("code %d, found %q, want %q, unknown %+v", got.Code, found, want, r.Unknown)
	}
	for _, f := range r.Findings {
		const want = `in the manifest, write service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id: "vsw-free" under metadata.annotations`
		if f.Check == "room" && !strings.Contains(f.Do.String(), want) {
			t.Errorf("advice: %s", f.Do)
		}
	}
	if got := c.Run(t.Context(), "doctor", "-f", file, "--checks", "room"); !strings.Contains(got.Out, file+":9 ") {
		t.Errorf("the table: %s", got.Out)
	}
	if got := c.Run(t.Context(), "doctor", "-f", file, "--checks", "room", "--explain"); !strings.Contains(got.Out, "shop/web  critical  room  "+file+":9\n") {
		t.Errorf("explained: %s", got.Out)
	}
	for _, call := range account.Calls() {
		if call.Action == "DescribeVServerGroups" && call.Params["LoadBalancerId"] != "lb-1" {
			t.Errorf("it read %s, which no manifest names", call.Params["LoadBalancerId"])
		}
	}

	denied, _ := operator.API{Denied: true}.Against(t, world)
	r, got = examine(denied, "--checks", "annotations,reuse,room")
	if got.Code != cli.CodeCritical || !slices.ContainsFunc(r.Unknown, func(u doctor.Unknown) bool { return u.Check == "room" }) ||
		!slices.ContainsFunc(r.Unknown, func(u doctor.Unknown) bool {
			return u.Check == "reuse" && strings.Contains(u.Why.String(), "which other Services")
		}) {
		t.Errorf("code %d, found %+v, unknown %+v", got.Code, r.Findings, r.Unknown)
	}
}

// All Services of a file are examined, however its documents are separated, and no other objects; a folder is read as kubectl does.
func TestDoctorFiles(t *testing.T) {
	t.Parallel()
	c := operator.Call{Env: operator.Home(t)}
	service := func(name string) string {
		return "kind: Service\napiVersion: v1\nmetadata: {name: " + name + "}\nspec: {type: LoadBalancer}\n"
	}
	dir, empty := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"a.yaml": service("a"), "b.yml": "kind: ConfigMap\n", "c.json": `{"kind":"Service","metadata":{"name":"c"}}`,
		"notes.txt": "kind: [", "sub": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		in   string
		args []string
		want int // number of Services; 0: invalid
		err  string
	}{
		"a comment behind the mark":  {in: service("a") + "--- # the next\n" + service("b"), want: 2},
		"an object behind the mark":  {in: service("a") + "--- {kind: Service, metadata: {name: b}}\n", want: 2},
		"an end mark":                {in: service("a") + "...\n" + service("b"), want: 2},
		"lines of Windows":           {in: strings.ReplaceAll(service("a")+"---\n"+service("b"), "\n", "\r\n"), want: 2},
		"hyphens in a text":          {in: "kind: Service\nmetadata:\n  name: a\n  annotations:\n    note: |\n      x\n      ---\n      y\n", want: 1},
		"a mark in front":            {in: "---\n---\n" + service("a") + "---\n", want: 1},
		"a ServiceList":              {in: `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, want: 2},
		"a list in a list":           {in: "kind: List\nitems:\n- kind: List\n  items:\n  - {kind: Service, metadata: {name: a}}\n- {kind: Pod}\n", want: 1},
		"a Service of Knative":       {in: service("a") + "---\nkind: Service\napiVersion: serving.knative.dev/v1\nmetadata: {name: b}\n", want: 1},
		"only Knative's":             {in: "kind: Service\napiVersion: serving.knative.dev/v1\nmetadata: {name: b}\n", err: "standard input holds no Service"},
		"an empty list":              {in: "kind: List\nitems: []\n", err: "standard input holds no Service"},
		"the line behind a mark":     {in: service("a") + "--- # two\nkind: Service\nmetadata:\n  name: b\n bad: x\n", err: "near line 8: "},
		"a file that is not there":   {args: []string{"-f", filepath.Join(empty, "x.yaml")}, err: "no such file"},
		"a Service that is not in":   {in: service("a"), args: []string{"-f", "-", "shop/a"}, err: "no manifest has the Service shop/a"},
		"a namespace that is not in": {in: service("a"), args: []string{"-f", "-", "-n", "shop"}, err: "no manifest has a Service in the namespace shop"},
		"many":                       {in: strings.Repeat(service("a")+"---\n", 2000), want: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.args == nil {
				tt.args = []string{"-f", "-"}
			}
			got := operator.Call{In: tt.in, Env: c.Env}.Run(t.Context(), append([]string{"doctor", "-o", "json"}, tt.args...)...)
			if tt.want == 0 {
				if got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.err) || got.Out != "" || strings.Count(got.Err, "\n") != 1 {
					t.Errorf("code %d: %q, %q; want %q", got.Code, got.Out, got.Err, tt.err)
				}
				return
			}
			var r doctor.Result
			if err := json.Unmarshal([]byte(got.Out), &r); err != nil || r.Services != tt.want {
				t.Errorf("code %d, %v: %d Services, want %d: %s", got.Code, err, r.Services, tt.want, got.Err)
			}
		})
	}
}

func TestDoctorChecks(t *testing.T) {
	t.Parallel()
	c := operator.Call{Env: operator.Home(t)}
	if got := c.Run(t.Context(), "doctor", "checks"); got.Code != 0 || !strings.Contains(got.Out, "finalizers") {
		t.Errorf("code %d: %s", got.Code, got.Out)
	}
	if got := c.Run(t.Context(), "doctor", "checks", "room"); got.Code != 0 || !strings.HasPrefix(got.Out, "# Quotas and room\n") {
		t.Errorf("code %d: %s", got.Code, got.Out)
	}
	for _, check := range checks.Checks() {
		if page := functions.CheckPage(cli.Tongue("zh"), check.ID, check.Doc); page == check.Doc {
			t.Errorf("%s: the page for readers of Chinese is in English", check.ID)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	client := sc.Kube.Client().CoreV1().Services(sc.Namespace)
	patch := func(name, text string) {
		t.Helper()
		if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	examine := func(args ...string) (doctor.Result, operator.Said) {
		t.Helper()
		if !slices.Contains(args, "--checks") { // findings of other tests don't matter
			args = append(args, "--checks", "annotations,finalizers,room")
		}
		got := sc.Run(t.Context(), append([]string{"doctor", "--namespace", sc.Namespace, "-o", "json"}, args...)...)
		var r doctor.Result
		if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
			t.Fatalf("%v: %s", err, got.Err)
		}
		return r, got
	}
	until := func(name string, is func(*corev1.Service) bool) {
		t.Helper()
		if err := operator.WatchService(t, sc, name, is); err != nil {
			t.Fatal(err)
		}
	}
	patch("web", `{"metadata":{"annotations":{"`+operator.Annotation+`vswitch-id":"vsw-b","`+operator.Annotation+`adress-type":"intranet"}}}`)
	until("web", func(svc *corev1.Service) bool { return len(svc.Status.LoadBalancer.Ingress) > 0 })

	r, got := examine()
	if got.Code != cli.CodeWarning || len(r.Findings) != 1 || r.Findings[0].Key != "adress-type" || len(r.Unknown) != 0 {
		t.Errorf("code %d: %s", got.Code, got.Out)
	}

	t.Run("denied", func(t *testing.T) {
		key := sc.Cloud.Client("short", "slb:*", "cs:*", "vpc:*")
		all := sc.Call
		sc.Call = sc.With(operator.KeyID, key.AccessKeyID).With(operator.KeySecret, key.Secret)
		r, got := examine()
		sc.Call = all
		if got.Code != cli.CodeUnknown || len(r.Findings) != 1 || len(r.Unknown) != 1 || r.Unknown[0].Check != "room" ||
			!strings.Contains(r.Unknown[0].Why.String(), "NoPermission") && !strings.Contains(r.Unknown[0].Why.String(), "not authorized") {
			t.Errorf("code %d: %s", got.Code, got.Out)
		}
	})
	t.Run("half the pages", func(t *testing.T) {
		defer sc.Cloud.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Code: "InternalError", Status: 500})()
		r, got := examine("--checks", "deletion,room", "--severity", "info")
		unknown := slices.ContainsFunc(r.Unknown, func(u doctor.Unknown) bool { return u.Check == "deletion" && u.About.Name == "web" })
		if got.Code != cli.CodeUnknown || !unknown {
			t.Errorf("code %d: %s", got.Code, got.Out)
		}
	})
	t.Run("half the pages of a list", func(t *testing.T) {
		sc.Cloud.Edit(func(s *sim.State) {
			for i := range 250 {
				id := fmt.Sprintf("lb-more-%03d", i)
				s.LoadBalancers[id] = &sim.LoadBalancer{ID: id, Name: id, Status: "active", AddressType: "intranet"}
			}
		})
		lift := sc.Cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Code: "Forbidden.RAM", Status: 403, Rate: 0.5})
		r, got := examine("--checks", "lb-gone,room", "--severity", "info")
		lift()
		of := func(check string) bool {
			return slices.ContainsFunc(r.Unknown, func(u doctor.Unknown) bool { return u.Check == check })
		}
		if got.Code != cli.CodeUnknown || !of("lb-gone") || !of("room") || len(r.Findings) != 0 {
			t.Errorf("code %d: %s", got.Code, got.Out)
		}
		if r, got := examine("--checks", "lb-gone", "--severity", "info"); got.Code != 0 || len(r.Unknown) != 0 {
			t.Errorf("with all pages: code %d: %s", got.Code, got.Out)
		}
		sc.Cloud.Edit(func(s *sim.State) {
			for id := range s.LoadBalancers {
				if strings.HasPrefix(id, "lb-more-") {
					delete(s.LoadBalancers, id)
				}
			}
		})
	})
	t.Run("no annotations", func(t *testing.T) {
		bare := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 81, Protocol: corev1.ProtocolTCP}}}}
		if _, err := client.Create(t.Context(), bare, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until("bare", func(svc *corev1.Service) bool { return len(svc.Status.LoadBalancer.Ingress) > 0 })
		got := sc.Run(t.Context(), "doctor", sc.Namespace+"/bare", "--severity", "info", "-o", "json")
		var r doctor.Result
		if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
			t.Fatalf("%v: %s", err, got.Err)
		}
		for _, f := range r.Findings {
			if f.Check == "annotations" || f.Check == "drift" || f.Check == "listeners-missing" || f.Severity == doctor.Critical {
				t.Errorf("found %+v", f)
			}
		}
		for _, u := range r.Unknown {
			if u.About.Name == "bare" {
				t.Errorf("unknown: %+v", u)
			}
		}
	})
	t.Run("gone meanwhile", func(t *testing.T) {
		defer sc.Cloud.Fault(sim.Fault{Action: "DescribeLoadBalancerListeners", Code: "InvalidLoadBalancerId.NotFound", Status: 404})()
		r, got := examine("--checks", "deletion", "--severity", "info")
		if got.Code != 0 || len(r.Findings) != 0 || len(r.Unknown) != 0 {
			t.Errorf("code %d: %s", got.Code, got.Out)
		}
	})
	t.Run("failures", func(t *testing.T) {
		server := nats.Start(t, embedded.Options{Token: "sesame"})
		if got := sc.Run(t.Context(), "doctor", "--checks", "silent", sc.Namespace+"/web"); got.Code != 0 ||
			!strings.Contains(got.Err, "The failures were left out: no NATS is named in which they are kept.") {
			t.Errorf("without a NATS: code %d: %s %s", got.Code, got.Out, got.Err)
		}
		sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
		defer func() { sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = "", "" }()
		if r, got := examine("--checks", "silent"); got.Code != cli.CodeUnknown || len(r.Unknown) != 1 ||
			!strings.Contains(r.Unknown[0].Why.String(), "the failures could not be read") {
			t.Errorf("with one that holds no streams: code %d: %s %s", got.Code, got.Out, got.Err)
		}
		if got := sc.Run(t.Context(), "up", "--setup"); got.Code != 0 {
			t.Fatal(got.Err)
		}
		if got := sc.Run(t.Context(), "doctor", "--checks", "silent", sc.Namespace+"/web"); got.Code != 0 || strings.Contains(got.Err, "left out") {
			t.Errorf("with a NATS: code %d: %s %s", got.Code, got.Out, got.Err)
		}
	})
	t.Run("fix", func(t *testing.T) {
		server := nats.Start(t, embedded.Options{Token: "sesame"})
		sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
		if got := sc.Run(t.Context(), "up", "--setup"); got.Code != 0 {
			t.Fatal(got.Err)
		}
		patch("web", `{"metadata":{"finalizers":null}}`)
		r, got := examine("--checks", "finalizers")
		if got.Code != cli.CodeCritical || len(r.Findings) != 1 || !r.Findings[0].Fixable {
			t.Fatalf("code %d: %s", got.Code, got.Out)
		}
		web := sc.Namespace + "/web"
		policy := operator.Write(t, "policy.yaml", "mode: fix\nrisk: high\n")
		if got := sc.Run(t.Context(), "doctor", "--fix", "finalizers", web, "--policy", policy); got.Code != 0 || !strings.Contains(got.Out, "trigger a resync") {
			t.Fatalf("code %d: %s %s", got.Code, got.Out, got.Err)
		}
		// Without a file the plan is judged by the policy in force, or by none if that is unknown.
		sc.Wants(t, 0, "Observe mode", "", "doctor", "--fix", "finalizers", web)
		operator.PutInForce(t, nats.Connect(t, stream.Config{URL: server.URL(), Token: "sesame"}), "c-cli", "mode: fix\nrisk: high\n")
		sc.Wants(t, 0, "Fix mode applies plans up to high risk", "", "doctor", "--fix", "finalizers", web)
		all := sc.Call
		sc.Call = sc.With("LBREMEDY_NATS", "nats://127.0.0.1:1")
		sc.Wants(t, 0, "Observe mode", "The policy in force is unknown, so observe mode is assumed", "doctor", "--fix", "finalizers", web)
		sc.Call = all
		if got := sc.Run(t.Context(), "doctor", "--fix", "finalizers", web, "--apply"); got.Code != 0 || !strings.Contains(got.Out, "fixed") {
			t.Fatalf("code %d: %s %s", got.Code, got.Out, got.Err)
		}
		svc, err := client.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(svc.Finalizers) == 0 {
			t.Errorf("the finalizers are %v, %v", svc.Finalizers, err)
		}
		if got := sc.Run(t.Context(), "doctor", "--fix", "finalizers", web, "--policy", policy, "--apply"); got.Code != 0 ||
			!strings.Contains(got.Err, "nothing to fix") {
			t.Errorf("again: code %d: %s %s", got.Code, got.Out, got.Err)
		}
	})
}
