package doctor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/sim"
)

var flawed = size{services: 24, balancers: 6, pods: 2}

// flaws returns an account for that cluster that lacks a load balancer, some listeners and some backends, and is close to its limits.
func flaws() *sim.World {
	w := flawed.world()
	w.Cluster.VSwitches = []string{"vsw-a"}
	w.VSwitches = []sim.VSwitch{{ID: "vsw-a", Free: new(1)}}
	w.LoadBalancers = w.LoadBalancers[:5]
	w.LoadBalancers[0].Listeners = w.LoadBalancers[0].Listeners[1:]
	w.LoadBalancers[1].VGroups[0].Backends = w.LoadBalancers[1].VGroups[0].Backends[1:]
	w.Quotas = []sim.Quota{{Product: "slb", Name: "slb_quota_instances_num", Total: 5, Max: 5}}
	return w
}

func look(t *testing.T, api http.Handler, account *sim.Cloud, key sim.Credentials) (*doctor.Snapshot, doctor.Result) {
	t.Helper()
	return lookAt(t, api, account, account.Addr(), key)
}

func lookAt(t *testing.T, api http.Handler, account *sim.Cloud, endpoint string, key sim.Credentials) (*doctor.Snapshot, doctor.Result) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	cluster, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	reader, _, err := cloud.New(cloud.Config{Region: account.Region(), ClusterID: "c1", Endpoint: endpoint, Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret})})
	if err != nil {
		t.Fatal(err)
	}
	s, r, err := doctor.Run(context.Background(), doctor.Source{Cluster: "c1", Kube: cluster, Cloud: reader,
		Now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}, checks.Checks())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range r.Unknown {
		if strings.Contains(u.Why.String(), "broke down") {
			t.Errorf("%s: %s", u.Check, u.Why)
		}
	}
	return s, r
}

func unknown(r doctor.Result) []string {
	var list []string
	for _, u := range r.Unknown {
		list = append(list, u.Check)
	}
	return slices.Compact(list)
}

func ids(list []doctor.Finding) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.ID())
	}
	slices.Sort(out)
	return out
}

// honest fails the test if a run that could not read everything finds something false, or hides what it misses.
func honest(t *testing.T, whole, r doctor.Result) {
	t.Helper()
	all, found, silent := ids(whole.Findings), ids(r.Findings), unknown(r)
	for _, id := range found {
		if !slices.Contains(all, id) {
			t.Errorf("found what is not so: %s", id)
		}
	}
	for _, f := range whole.Findings {
		if !slices.Contains(found, f.ID()) && !slices.Contains(silent, f.Check) {
			t.Errorf("%s is not found, and %s says of nothing that it can't tell", f.ID(), f.Check)
		}
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	account := sim.New(t, flaws())
	_, whole := look(t, flawed.api(), account, account.Admin())
	if len(whole.Unknown) > 0 || len(whole.Findings) < 5 {
		t.Fatalf("found %q, unknown %+v", ids(whole.Findings), whole.Unknown)
	}
	products := []string{"slb", "nlb", "vpc", "cs", "ram", "quotas", "ecs"}
	for product, want := range map[string][]string{
		"slb": {"charge-types", "deletion", "drift", "groups-not-built", "lb-gone", "listeners-missing", "reuse", "room", "stale-groups",
			"unreachable-inside"},
		"nlb": {"lb-gone", "room"},
		"vpc": {"room"},
		"cs": {"annotations", "charge-types", "cordoned", "groups-not-built", "lb-gone", "listeners-missing", "no-events", "node-weights", "permissions", "reuse",
			"room", "stale-groups", "unreachable-inside"},
		"quotas": {"room"},
	} {
		t.Run(product, func(t *testing.T) {
			t.Parallel()
			var may []string
			for _, p := range products {
				if p != product {
					may = append(may, p+":*")
				}
			}
			_, r := look(t, flawed.api(), account, account.Client("no-"+product, may...))
			honest(t, whole, r)
			if d := cmp.Diff(want, unknown(r)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHalf(t *testing.T) {
	t.Parallel()
	for _, actions := range []string{"*", "List*", "DescribeVServerGroup*", "DescribeLoadBalancerListeners"} {
		t.Run(actions, func(t *testing.T) {
			t.Parallel()
			account := sim.New(t, flaws())
			_, whole := look(t, flawed.api(), account, account.Admin())
			lift := account.Fault(sim.Fault{Action: actions, Code: "Forbidden.RAM", Status: http.StatusForbidden, Rate: 0.5})
			for range 2 {
				_, r := look(t, flawed.api(), account, account.Admin())
				honest(t, whole, r)
				if len(r.Unknown) == 0 {
					t.Error("all is known")
				}
			}
			lift()
			if _, r := look(t, flawed.api(), account, account.Admin()); cmp.Diff(ids(whole.Findings), ids(r.Findings)) != "" || len(r.Unknown) > 0 {
				t.Errorf("afterwards found %q, unknown %+v", ids(r.Findings), r.Unknown)
			}
		})
	}
}

func TestPageFails(t *testing.T) {
	t.Parallel()
	z := size{services: 1200, balancers: 6, pods: 1}
	account := sim.New(t, flawed.world())
	for path, want := range map[string]doctor.Part{"/api/v1/services": doctor.Services, "/apis/discovery.k8s.io/v1/endpointslices": doctor.Endpoints} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			api := z.api()
			s, r := look(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == path && r.URL.Query().Get("continue") != "" {
					http.Error(w, "etcd leader changed", http.StatusInternalServerError)
					return
				}
				api.ServeHTTP(w, r)
			}), account, account.Admin())
			if s.Failed[want] == nil {
				t.Errorf("the %s are taken for read", want)
			}
			for _, c := range checks.Checks() {
				if slices.Contains(c.Needs, want) && (!slices.Contains(unknown(r), c.ID) ||
					slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == c.ID })) {
					t.Errorf("%s says something", c.ID)
				}
			}
		})
	}
}

func TestBareServices(t *testing.T) {
	t.Parallel()
	account := sim.New(t, flawed.world())
	s, r := look(t, flawed.serve(func(i int) any {
		svc := corev1.Service{ObjectMeta: flawed.meta(i)}
		svc.ManagedFields = nil
		svc.CreationTimestamp.Time = svc.CreationTimestamp.Add(4*time.Hour - time.Minute)
		svc.Spec.Type = corev1.ServiceTypeLoadBalancer
		switch i % 4 {
		case 1:
			svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		case 2:
			svc.Spec.Type = corev1.ServiceTypeNodePort
		case 3:
			svc.Spec.LoadBalancerClass = new(ccm.NLBClass)
		}
		return svc
	}), account, account.Admin())
	if len(s.Services) != flawed.services || len(r.Unknown) > 0 {
		t.Errorf("%d Services, unknown %+v", len(s.Services), r.Unknown)
	}
	for _, f := range r.Findings {
		if f.Severity == doctor.Critical && f.Key != "zone-maps" { // NLBs can't do without zone-maps
			t.Errorf("found %s: %s", f.ID(), f.Text)
		}
	}
}

// A load balancer deleted while the doctor reads counts as gone, whichever call reports it, and causes nothing else to be found or unknown.
func TestGoneMeanwhile(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"ListTagResources", "DescribeLoadBalancerListeners", "DescribeVServerGroups", "DescribeVServerGroupAttribute"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			account := sim.New(t, flawed.world())
			const going = "lb-0002"
			api := flawed.api()
			_, whole := look(t, api, account, account.Admin())
			var once sync.Once
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("Action") == action {
					once.Do(func() { account.DropLoadBalancer(going) })
				}
				account.ServeHTTP(w, r)
			}))
			t.Cleanup(front.Close)
			s, r := lookAt(t, api, account, front.Listener.Addr().String(), account.Admin())
			if b := s.Balancers[going]; b == nil || !b.Gone {
				t.Errorf("%s is not gone", going)
			}
			var want []string
			for i := 2; i < flawed.services; i += flawed.balancers {
				want = append(want, fmt.Sprintf("lb-gone|service|shop/web-%05d|", i))
			}
			was := ids(whole.Findings)
			var got []string
			for _, id := range ids(r.Findings) {
				if !slices.Contains(was, id) {
					got = append(got, id)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if len(r.Unknown) > 0 {
				t.Errorf("unknown %+v", r.Unknown)
			}
		})
	}
}
