package doctor

import (
	"bytes"
	std "cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/advice"
)

var update = flag.Bool("update", false, "write the want sections of the scenarios")

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// A world is the section snapshot of a scenario: omitted values are empty.
type world struct {
	Controller   string `json:"controller"` // version; v2.12.1 if empty, "unknown" for none
	AccessKey    bool   `json:"accessKey"`
	Detail       cloud.Cluster
	CLBs         []clb                                  `json:"clbs"`
	NLBs         []nlb                                  `json:"nlbs"`
	ServerGroups []doctor.Group                         `json:"serverGroups"`
	Guards       []cloud.SecurityGroup                  `json:"guards"` // those of NLBs of Services with source ranges, and those with their name tag
	Named        map[string]string                      `json:"named"`  // ID to the API's answer: "exists", "gone" or an error
	VSwitches    []cloud.VSwitch                        `json:"vswitches"`
	Routes       map[string]int                         `json:"routes"` // route table to number of custom entries
	Quotas       map[string]float64                     `json:"quotas"` // name to total
	Nodes        []corev1.Node                          `json:"nodes"`
	Slices       map[string][]discoveryv1.EndpointSlice `json:"slices"` // by Service
	Moved        map[string]time.Time                   `json:"moved"`  // by Service
	Events       map[string][]doctor.Event              `json:"events"` // by Service
	Unkept       map[string]int                         `json:"unkept"` // by Service
	Marks        map[string]doctor.Mark                 `json:"marks"`  // by Service
	Claims       []claim                                `json:"claims"`
	Unclaimed    int                                    `json:"unclaimed"`
	Writers      kube.Binding                           `json:"writers"`   // a denying policy if omitted
	Guard        kube.Binding                           `json:"guard"`     // a denying policy if omitted
	Protected    map[string]bool                        `json:"protected"` // by namespace, or namespace/name
	Policies     []string                               `json:"policies"`
	Failures     map[string]time.Time                   `json:"failures"` // by Service, as kept in the stream; omitted: no stream is configured
	Ingress      string                                 `json:"ingress"`  // workload of ACK's ingress controller and its number of ready Pods: "Deployment 2"
	Delays       []int                                  `json:"delays"`   // measured, in seconds; omitted: no stream is configured
	Heard        time.Time                              `json:"heard"`    // last sign of life of an exporter
	Role         string                                 `json:"role"`
	RoleBy       string                                 `json:"roleBy"` // how the role was found; through the cluster if empty
	Policy       remedy.Policy                          `json:"policy"`
	PayBySpec    bool                                   `json:"payBySpec"`
	Failed       map[doctor.Part]string                 `json:"failed"`
	Manifest     bool                                   `json:"manifest"` // Services without a UID are not in the cluster yet
	Replaced     []string                               `json:"replaced"` // Services with a load balancer that manifests replace
	Others       string                                 `json:"others"`   // why the Services besides the manifests are unknown
}

type claim struct {
	doctor.Claim
	About string `json:"about"`
}

type clb struct {
	cloud.LoadBalancer
	Used      *bool // true if omitted
	Near      bool
	Gone      bool
	Listeners []cloud.Listener
	Groups    []doctor.Group
	Failed    map[doctor.Part]string
}

type nlb struct {
	cloud.NetworkLoadBalancer
	Used      *bool
	Marked    []string
	Listeners []cloud.NetworkListener
	Failed    map[doctor.Part]string
}

func uid(name string) types.UID {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	return types.UID(strings.Join([]string{sum[:8], sum[8:12], sum[12:16], sum[16:20], sum[20:32]}, "-"))
}

var (
	uids  = regexp.MustCompile(`\$\{uid ([a-z0-9-]+/[a-z0-9-]+)\}`)
	named = regexp.MustCompile(`\$\{name ([a-z0-9-]+/[a-z0-9-]+)\}`)
	times = regexp.MustCompile(`\$\{(\w+) ago\}`)
)

// expand fills in ${name shop/web}, the default name of the load balancer, ${uid shop/web}, and ${10m ago}.
func expand(text []byte) []byte {
	text = named.ReplaceAllFunc(text, func(m []byte) []byte {
		svc := corev1.Service{}
		svc.UID = uid(string(named.FindSubmatch(m)[1]))
		return []byte(ccm.DefaultName(&svc))
	})
	text = uids.ReplaceAllFunc(text, func(m []byte) []byte { return []byte(uid(string(uids.FindSubmatch(m)[1]))) })
	return times.ReplaceAllFunc(text, func(m []byte) []byte {
		d, err := time.ParseDuration(string(times.FindSubmatch(m)[1]))
		if err != nil {
			return m
		}
		return []byte(now.Add(-d).Format(time.RFC3339))
	})
}

func load(t *testing.T, a *txtar.Archive) *doctor.Snapshot {
	t.Helper()
	var w world
	s := &doctor.Snapshot{Time: now, Cluster: "c1", Region: "cn-hangzhou", Given: doctor.PartsOf(Checks()), Failed: map[doctor.Part]error{}}
	for _, f := range a.Files {
		switch f.Name {
		case "services":
			for _, doc := range bytes.Split(expand(f.Data), []byte("\n---\n")) {
				svc := corev1.Service{}
				if err := yaml.UnmarshalStrict(doc, &svc); err != nil {
					t.Fatal(err)
				}
				if svc.Spec.Type == "" {
					svc.Spec.Type = corev1.ServiceTypeLoadBalancer
				}
				s.Services = append(s.Services, svc)
			}
		case "replaced":
			s.Replaced = map[string]corev1.Service{}
			for _, doc := range bytes.Split(expand(f.Data), []byte("\n---\n")) {
				old := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
				if err := yaml.UnmarshalStrict(doc, &old); err != nil {
					t.Fatal(err)
				}
				s.Replaced[name(&old)] = old
			}
		case "snapshot":
			if err := yaml.UnmarshalStrict(expand(f.Data), &w); err != nil {
				t.Fatal(err)
			}
		case "want", "plans":
		default:
			t.Fatalf("there is a section %s, which means nothing", f.Name)
		}
	}
	for i := range s.Services {
		if svc := &s.Services[i]; svc.UID == "" && !w.Manifest {
			svc.UID = uid(name(svc))
		}
	}
	w.fill(t, s)
	return s
}

func (w *world) fill(t *testing.T, s *doctor.Snapshot) {
	t.Helper()
	switch w.Controller {
	case "unknown":
	case "":
		w.Controller = "v2.12.1"
		fallthrough
	default:
		v, ok := ccm.ParseVersion(w.Controller)
		if !ok {
			t.Fatalf("%q is not a version", w.Controller)
		}
		s.Controller.Version = v
	}
	s.Controller.AccessKey = w.AccessKey
	s.Detail, s.ServerGroups, s.Nodes, s.Slices, s.Moved = w.Detail, w.ServerGroups, w.Nodes, w.Slices, w.Moved
	if s.Detail.ID == "" {
		s.Detail.ID = s.Cluster
	}
	s.Balancers = map[string]*doctor.LoadBalancer{}
	for _, b := range w.CLBs {
		s.Balancers[b.ID] = &doctor.LoadBalancer{
			Instance: *ccm.Classic(b.LoadBalancer), Listeners: b.Listeners, Groups: b.Groups, Near: b.Near, Gone: b.Gone, Used: b.Used == nil ||
				*b.Used, Failed: failed(b.Failed),
		}
	}
	for _, b := range w.NLBs {
		s.Balancers[b.ID] = &doctor.LoadBalancer{
			Instance: *ccm.Network(b.NetworkLoadBalancer), NetworkListeners: b.Listeners, Used: b.Used == nil || *b.Used, Failed: failed(b.Failed),
			Marked: b.Marked,
		}
	}
	s.Guards = map[string]doctor.Guarding{}
	for _, g := range w.Guards {
		s.Guards[g.ID] = doctor.Guarding{SecurityGroup: g}
	}
	s.Named = map[string]error{}
	for id, said := range w.Named {
		s.Named[id] = map[string]error{"exists": nil, "gone": cloud.ErrNotFound}[said]
		if said != "exists" && said != "gone" {
			s.Named[id] = errors.New(said)
		}
	}
	s.VSwitches = map[string]cloud.VSwitch{}
	for _, v := range w.VSwitches {
		s.VSwitches[v.ID] = v
	}
	s.Routes = map[string][]cloud.Route{}
	for table, n := range w.Routes {
		for i := range n {
			s.Routes[table] = append(s.Routes[table], cloud.Route{Block: fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), Type: "Custom"})
		}
		s.Routes[table] = append(s.Routes[table], cloud.Route{Block: "192.168.0.0/24", Type: "System"})
	}
	for _, name := range slices.Sorted(maps.Keys(w.Quotas)) {
		s.Quotas = append(s.Quotas, cloud.Quota{Name: name, Total: w.Quotas[name]})
	}
	s.Events, s.Marks = map[types.UID][]doctor.Event{}, map[types.UID]doctor.Mark{}
	for name, list := range w.Events {
		for _, e := range list {
			if e.Component = std.Or(e.Component, "service-controller"); event.Controller(e.Component) { // as Gather reads them
				s.Events[uid(name)] = append(s.Events[uid(name)], e)
			}
		}
	}
	s.Unkept = map[types.UID]int{}
	for name, n := range w.Unkept {
		s.Unkept[uid(name)] = n
	}
	for name, m := range w.Marks {
		s.Marks[uid(name)] = m
	}
	for _, c := range w.Claims {
		if c.About != "" {
			namespace, name, _ := strings.Cut(c.About, "/")
			c.Object = kube.Object{Kind: "Service", Namespace: namespace, Name: name, UID: std.Or(c.Object.UID, string(uid(c.About)))}
		}
		if c.Writers == nil {
			c.Writers = []string{usualWriter}
		}
		c.Component = std.Or(c.Component, "service-controller")
		s.Claims = append(s.Claims, c.Claim)
	}
	s.Protected = w.Protected
	if s.Unclaimed, s.Writers = w.Unclaimed, w.Writers; s.Writers.Actions == nil {
		s.Writers.Actions = []string{"Deny"}
	}
	if s.Guard = w.Guard; s.Guard.Actions == nil {
		s.Guard.Actions = []string{"Deny", "Audit"}
	}
	if s.ExporterSeen = w.Heard; w.Failures != nil {
		s.Failures = map[types.UID]time.Time{}
		for name, at := range w.Failures {
			s.Failures[uid(name)] = at
		}
	}
	s.Ingress.Kind, _, _ = strings.Cut(w.Ingress, " ")
	fmt.Sscanf(w.Ingress, s.Ingress.Kind+" %d", &s.Ingress.Ready)
	s.Ingress.Service = slices.ContainsFunc(s.Services, func(svc corev1.Service) bool { return name(&svc) == "kube-system/nginx-ingress-lb" })
	if w.Delays != nil {
		s.Delays = []time.Duration{}
		for _, n := range w.Delays {
			s.Delays = append(s.Delays, time.Duration(n)*time.Second)
		}
	}
	if s.Replaced == nil {
		s.Replaced = map[string]corev1.Service{}
	}
	for _, name := range w.Replaced {
		old := corev1.Service{}
		old.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		s.Replaced[name] = old
	}
	if w.Others != "" {
		s.Others = errors.New(w.Others)
	}
	s.Role.Name, s.Role.By = w.Role, say.Literal(w.RoleBy)
	s.Policy = w.Policy
	s.Policy.PayBySpec = w.PayBySpec
	for i, document := range w.Policies {
		rules, err := ccm.ParsePolicy(document)
		if err != nil {
			t.Fatal(err)
		}
		s.Role.Policies = append(s.Role.Policies, cloud.Policy{Name: fmt.Sprintf("k8sMasterRolePolicy-%d", i+1), Type: cloud.CustomPolicy, Document: document})
		s.Role.Rules = append(s.Role.Rules, rules...)
	}
	maps.Copy(s.Failed, failed(w.Failed))
}

func failed(why map[doctor.Part]string) map[doctor.Part]error {
	out := map[doctor.Part]error{}
	for p, text := range why {
		out[p] = errors.New(text)
		if text == doctor.ErrNoCluster.Error() {
			out[p] = doctor.ErrNoCluster
		}
	}
	return out
}

func render(r doctor.Result) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s", f.Severity, f.About)
		if f.Key != "" {
			fmt.Fprintf(&b, " [%s]", f.Key)
		}
		fmt.Fprintf(&b, ": %s\n  do: %s\n", f.Text, f.Do)
		if len(f.Services) > 0 {
			fmt.Fprintf(&b, "  services: %s\n", strings.Join(f.Services, ", "))
		}
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&b, "unknown %s: %s\n", u.About, u.Why)
	}
	for _, u := range r.Settling {
		fmt.Fprintf(&b, "settling %s\n", u.About)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// TestScenarios runs each check on testdata/<check>/*.txtar. A scenario is one sentence, then the sections services (YAML documents),
// snapshot (a world) and want; plans holds what --fix would do to each Service with findings. -update writes want and plans.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, c := range Checks() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join("testdata", c.ID, "*.txtar"))
			if err != nil {
				t.Fatal(err)
			}
			found, nothing := false, false
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
					a, err := txtar.ParseFile(file)
					if err != nil {
						t.Fatal(err)
					}
					if line := strings.TrimSpace(string(a.Comment)); !strings.HasSuffix(line, ".") {
						t.Errorf("the scenario does not begin with a sentence: %q", line)
					}
					s := load(t, a)
					r := doctor.Examine(t.Context(), s, []*doctor.Check{c})
					got := render(r)
					if len(r.Findings) > 0 {
						found = true
					} else if len(r.Unknown) == 0 {
						nothing = true
					}
					laws(t, c, s, r)
					blind(t, c, a, r)
					compare(t, file, a, "want", got)
					if slices.ContainsFunc(a.Files, func(f txtar.File) bool { return f.Name == "plans" }) {
						compare(t, file, a, "plans", plans(c, s, r))
					}
				})
			}
			if !found || !nothing {
				t.Errorf("check %s has no scenario in which it finds something, or none in which it finds nothing", c.ID)
			}
		})
	}
}

// In an ordinary cluster (testdata/healthy_*.txtar) no check finds anything, and all is known. Synced Services have the controller's hash.
func TestHealthy(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/healthy_*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scenarios", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := load(t, a)
			for i := range s.Services {
				svc := &s.Services[i]
				if svc.Labels[ccm.BalancerLabel] != "" {
					svc.Labels[ccm.HashLabel], _ = ccm.Hash(svc, s.Controller.Version)
				}
			}
			r := doctor.Examine(t.Context(), s, Checks())
			if worst, found := r.Worst(); found && worst > doctor.Info || len(r.Unknown) > 0 {
				t.Error("something is wrong, or not known")
			}
			compare(t, file, a, "want", render(r))
		})
	}
}

func plans(c *doctor.Check, s *doctor.Snapshot, r doctor.Result) string {
	var b strings.Builder
	for i := range s.Services {
		svc := &s.Services[i]
		mine := slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool { return f.About != doctor.OfService(svc) })
		if len(mine) == 0 {
			continue
		}
		p := c.Fix.Plan(s, svc, mine)
		var parts []string
		for _, step := range p.Steps {
			parts = append(parts, step.Says().String())
		}
		if p.Risk > remedy.Low {
			parts = append(parts, "risk "+p.Risk.String())
		}
		if len(p.Ask) != 0 {
			parts = append(parts, "asks")
		}
		fmt.Fprintf(&b, "%s: %s\n", name(svc), strings.Join(parts, ", "))
	}
	return b.String()
}

func compare(t *testing.T, file string, a *txtar.Archive, section, got string) {
	t.Helper()
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == section })
	if i < 0 {
		a.Files = append(a.Files, txtar.File{Name: section})
		i = len(a.Files) - 1
	}
	if *update {
		a.Files[i].Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(a.Files[i].Data), got); d != "" {
		t.Error(d)
	}
}

func laws(t *testing.T, c *doctor.Check, s *doctor.Snapshot, r doctor.Result) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if seen[f.ID()] {
			t.Errorf("two findings are known as %s: give them keys", f.ID())
		}
		seen[f.ID()] = true
		for what, text := range map[string]string{"text": f.Text.String(), "do": f.Do.String()} {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "  ") {
				t.Errorf("the %s of %s is no sentence: %q", what, f.ID(), text)
			}
		}
		if f.About.Kind == "" || f.About.Name == "" {
			t.Errorf("%s is about nothing", f.ID())
		}
	}
	for i := range s.Services {
		for _, f := range r.Findings {
			heeded(t, &s.Services[i], nil, f.Text.String(), f.Do.String())
		}
	}
	if c.Fix == nil {
		return
	}
	for i := range s.Services {
		svc := &s.Services[i]
		mine := slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool { return f.About != doctor.OfService(svc) })
		if len(mine) == 0 {
			continue
		}
		plan := c.Fix.Plan(s, svc, mine)
		if len(plan.Finding) == 0 || len(plan.Steps) == 0 && len(plan.Ask) == 0 {
			t.Errorf("the plan for %s does nothing, or says nothing: %+v", name(svc), plan)
		}
		heeded(t, svc, plan.Steps, plan.Finding.String(), plan.Ask.String())
		for _, step := range plan.Steps {
			if !slices.ContainsFunc(c.Fix.Steps, func(k remedy.Step) bool { return k.Kind() == step.Kind() }) {
				t.Errorf("the plan for %s holds the step %s, which the check does not declare", name(svc), step.Kind())
			}
			if k, ok := step.(remedy.Keyed); ok {
				for _, key := range k.Keys() {
					if !slices.Contains(doctor.Remedy(c).Keys(), key) {
						t.Errorf("the plan for %s writes the annotation %s, which the check does not declare, so that the engine refuses it", name(svc), key)
					}
				}
			}
		}
	}
}

// heeded fails unless the controller reads the annotations that steps and texts set, for the Service's kind of load balancer.
func heeded(t *testing.T, svc *corev1.Service, steps []remedy.Step, texts ...string) {
	t.Helper()
	if unread, err := advice.Unread(svc, steps, texts...); err != nil || len(unread) > 0 {
		t.Errorf("on %s is to be set what its controller does not read: %v, %v", name(svc), unread, err)
	}
}

// blind removes each part in turn. Without a needed part a check is unknown. Without a used part it finds nothing new, and reports what
// it misses as unknown: a scheduled run would close the case otherwise.
func blind(t *testing.T, c *doctor.Check, a *txtar.Archive, whole doctor.Result) {
	t.Helper()
	for _, p := range c.Parts() {
		s := load(t, a)
		if s.Failed[p] != nil {
			continue
		}
		s.Failed[p] = errors.New("no answer")
		r := doctor.Examine(t.Context(), s, []*doctor.Check{c})
		if slices.Contains(c.Needs, p) {
			if len(r.Findings) > 0 || len(r.Unknown) != 1 {
				t.Errorf("without the %s, which it needs, the check says:\n%s", p, render(r))
			}
			continue
		}
		for _, f := range r.Findings {
			if !slices.ContainsFunc(whole.Findings, func(o doctor.Finding) bool { return o.ID() == f.ID() }) {
				t.Errorf("without the %s the check finds what it does not find with them: %s", p, f.Text)
			}
		}
		for _, f := range whole.Findings {
			found := slices.ContainsFunc(r.Findings, func(o doctor.Finding) bool { return o.ID() == f.ID() })
			untold := slices.ContainsFunc(r.Unknown, func(u doctor.Unknown) bool { return u.About.Covers(f.About) })
			if !found && !untold {
				t.Errorf("without the %s the check does not find of %s: %s\nand does not say that it can't tell:\n%s", p, f.About, f.Text, render(r))
			}
		}
	}
}

func TestDeclarations(t *testing.T) {
	t.Parallel()
	before := ""
	for _, c := range Checks() {
		if c.ID == "" || c.Title() == "" || c.Find == nil || len(c.Needs) == 0 || c.Fix != nil && (c.Fix.Plan == nil || len(c.Fix.Steps) == 0) {
			t.Errorf("the check %q lacks an ID, a page, Find, Needs, or part of its Fix", c.ID)
		}
		if c.ID <= before {
			t.Errorf("%s stands behind %s: sort Checks by ID", c.ID, before)
		}
		before = c.ID
	}
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.ContainsFunc(Checks(), func(c *doctor.Check) bool { return c.ID == e.Name() }) {
			t.Errorf("testdata/%s has scenarios of no check", e.Name())
		}
	}
	for _, r := range Remedies() {
		if err := errors.Join(r.Validate(), event.ValidClass(r.Class)); err != nil {
			t.Error(err)
		}
	}
}

func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	s := &doctor.Snapshot{Cluster: "c1", Given: doctor.PartsOf(Checks()), Slices: map[string][]discoveryv1.EndpointSlice{}}
	for i, n := range []int{3000, 3001, 58_000} {
		svc := corev1.Service{}
		svc.Namespace, svc.Name, svc.Spec.Type = "shop", fmt.Sprint("web-", i), corev1.ServiceTypeLoadBalancer
		if n > 10_000 {
			svc.Spec.Type = corev1.ServiceTypeNodePort
		}
		s.Services = append(s.Services, svc)
		s.Slices[name(&svc)] = []discoveryv1.EndpointSlice{ // a Pod of both families counts once
			{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: make([]discoveryv1.Endpoint, n-1000)},
			{AddressType: discoveryv1.AddressTypeIPv6, Endpoints: make([]discoveryv1.Endpoint, n-7)},
			{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: make([]discoveryv1.Endpoint, 1000)},
		}
	}
	r := doctor.Examine(t.Context(), s, []*doctor.Check{scale})
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.About.String()+" "+f.Evidence["number"])
	}
	if d := cmp.Diff([]string{"c1 64001"}, got); d != "" {
		t.Error(d)
	}
}

// Any user can create many Services that name one load balancer, even one that does not exist: each gets one finding for a listener.
func TestManySharers(t *testing.T) {
	t.Parallel()
	s := &doctor.Snapshot{Cluster: "c1", Given: doctor.PartsOf(Checks()), Failed: map[doctor.Part]error{}}
	const n = 300
	for i := range n {
		svc := corev1.Service{}
		svc.Namespace, svc.Name, svc.UID, svc.Spec.Type = "shop", fmt.Sprintf("web-%03d", i), types.UID(fmt.Sprint(i)), corev1.ServiceTypeLoadBalancer
		svc.Annotations = map[string]string{ccm.Prefix + "id": "lb-1"}
		svc.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
		s.Services = append(s.Services, svc)
	}
	found := doctor.Examine(t.Context(), s, []*doctor.Check{reuse}).Findings
	if len(found) != n {
		t.Fatalf("%d findings", len(found))
	}
	want := `Other Services also want the listener tcp:80 of "lb-1": shop/web-001, shop/web-002, shop/web-003, shop/web-004, shop/web-005 and 294 more. ` +
		"Only one of them can have the listener."
	if got := found[0].Text.String(); got != want {
		t.Error(got)
	}
}
