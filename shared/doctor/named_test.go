package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/sim"
)

func gathered(t *testing.T, w *sim.World, services []corev1.Service, parts ...doctor.Part) *doctor.Snapshot {
	t.Helper()
	return wanted(t, w, services, remedy.Policy{}, parts...)
}

func wanted(t *testing.T, w *sim.World, services []corev1.Service, policy remedy.Policy, parts ...doctor.Part) *doctor.Snapshot {
	t.Helper()
	account := sim.New(t, w)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/services", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: services})
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	cluster, err := kube.New(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	admin := account.Admin()
	reader, _, err := cloud.New(cloud.Config{Region: account.Region(), ClusterID: "c1", Endpoint: account.Addr(), Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: admin.AccessKeyID, Secret: admin.Secret})})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := doctor.Gather(t.Context(), doctor.Source{Cluster: "c1", Kube: cluster, Cloud: reader, Now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC),
		Policy: func(context.Context) (remedy.Policy, error) { return policy, nil }}, parts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func balanced(name, address, label, id string) corev1.Service {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	if label != "" {
		svc.Labels = map[string]string{ccm.BalancerLabel: label}
	}
	if id != "" {
		svc.Annotations = map[string]string{ccm.Prefix + "id": id}
	}
	if address != "" {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
	return svc
}

// Only load balancers that a Service names and no list contains are read by ID; one that the controller no longer finds is read in full.
func TestNamed(t *testing.T) {
	t.Parallel()
	w := &sim.World{Cluster: sim.Cluster{ID: "c1"}, LoadBalancers: []sim.LoadBalancer{
		{ID: "lb-1", Address: "203.0.113.1", AddressType: "internet"},
		{ID: "lb-2", Address: "203.0.113.2", AddressType: "internet"},
	}}
	net := balanced("net", "", "", "nlb-gone")
	class := ccm.NLBClass
	net.Spec.LoadBalancerClass = &class
	s := gathered(t, w, []corev1.Service{
		balanced("lost", "203.0.113.1", "lb-1", ""), balanced("gone", "203.0.113.9", "lb-gone", ""),
		balanced("reused", "", "", "lb-gone-too"), balanced("nonsense", "", "", "no; ID"), net, balanced("new", "", "", ""),
	}, doctor.Named, doctor.Listeners)
	for _, p := range s.Given {
		if err := s.Err(p); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"lb-gone", "lb-gone-too", "no; ID", "nlb-gone"} {
		if !errors.Is(s.Named[id], cloud.ErrNotFound) {
			t.Errorf("of %s the API said: %v", id, s.Named[id])
		}
	}
	if len(s.Named) != 4 {
		t.Errorf("asked for %v", s.Named)
	}
	if !s.Balancers["lb-1"].Used || s.Balancers["lb-2"].Used {
		t.Error("lb-1, which the controller has lost sight of, is to be read, and lb-2 is not")
	}
}

// For private CLBs of the VPC that nobody names, the backends behind their listeners are read; others' and the API server's are skipped.
func TestPrivate(t *testing.T) {
	t.Parallel()
	private := func(id, address string, tags map[string]string) sim.LoadBalancer {
		return sim.LoadBalancer{ID: id, Address: address, AddressType: "intranet", VSwitch: "vsw-1", VPC: "vpc-1", Tags: tags}
	}
	near := private("lb-near", "192.168.0.8", nil)
	near.Listeners = []sim.Listener{{Port: 80, Protocol: "tcp", VGroup: "rsp-1"}, {Port: 81, Protocol: "tcp"}}
	near.VGroups = []sim.VGroup{{ID: "rsp-1", Name: "by hand", Backends: []sim.Backend{{Server: "i-1", Type: "ecs", Port: 80}}}, {ID: "rsp-2", Name: "idle"}}
	w := &sim.World{
		Cluster: sim.Cluster{ID: "c1", VPC: "vpc-1", APIServer: "lb-api"}, VPCs: []sim.VPC{{ID: "vpc-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}},
		LoadBalancers: []sim.LoadBalancer{near, private("lb-other", "192.168.0.9", map[string]string{ccm.ClusterTag: "c2"})},
	}
	s := gathered(t, w, nil, doctor.Private)
	if err := s.Err(doctor.Private); err != nil {
		t.Fatal(err)
	}
	b := s.Balancers["lb-near"]
	if !b.Near || len(b.Listeners) != 2 || b.Listeners[0].VServerGroup != "rsp-1" || b.Listeners[1].VServerGroup != "" || len(b.Groups) != 1 ||
		len(b.Groups[0].Backends) != 1 {
		t.Errorf("of lb-near was read: %+v", b)
	}
	for _, id := range []string{"lb-api", "lb-other"} {
		if b := s.Balancers[id]; b.Near || b.Listeners != nil {
			t.Errorf("%s was read: %+v", id, b)
		}
	}
}

// Security groups are read for NLBs whose Service has source ranges, the NLB's and those the controller would find; for others none.
func TestGuards(t *testing.T) {
	t.Parallel()
	ranged := func(name, id string) corev1.Service {
		svc := balanced(name, "", "", id)
		class := ccm.NLBClass
		svc.Spec.LoadBalancerClass = &class
		svc.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"}
		return svc
	}
	mine := func(name string) map[string]string {
		svc := ranged(name, "")
		return map[string]string{ccm.NameTag: ccm.DefaultName(&svc)}
	}
	free := ranged("free", "")
	free.Spec.LoadBalancerSourceRanges = nil
	w := &sim.World{
		Cluster: sim.Cluster{ID: "c1", VPC: "vpc-1"}, VPCs: []sim.VPC{{ID: "vpc-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}},
		NLBs: []sim.NLB{
			{ID: "nlb-1", Tags: mine("web"), SecurityGroups: []string{"sg-1"}, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}},
			{ID: "nlb-2", SecurityGroups: []string{"sg-2"}, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}},
			{ID: "nlb-3", Tags: mine("free"), SecurityGroups: []string{"sg-3"}, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}},
		},
		SecurityGroups: []sim.SecurityGroup{
			{ID: "sg-1", Rules: []sim.SecurityRule{{Source: "0.0.0.0/0", Policy: "Drop", Priority: 100}}}, {ID: "sg-2"}, {ID: "sg-3"}, {ID: "sg-4", Tags: mine("web")},
		},
	}
	s := gathered(t, w, []corev1.Service{ranged("web", ""), ranged("reused", "nlb-2"), ranged("gone", ""), free}, doctor.Guards)
	if err := s.Err(doctor.Guards); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(s.Guards)); !slices.Equal(got, []string{"sg-1", "sg-2", "sg-4"}) {
		t.Errorf("read %q", got)
	}
	for id, want := range map[string][]string{"nlb-1": {"sg-4"}, "nlb-2": nil, "nlb-3": nil} {
		if got := s.Balancers[id].Marked; !slices.Equal(got, want) {
			t.Errorf("with the tag of the Service of %s there are %q, not %q", id, got, want)
		}
	}
	if groups, err := s.GuardsOf(s.Balancers["nlb-1"]); err != nil || len(groups) != 1 || len(groups[0].Rules) != 1 || !groups[0].Rules[0].Drop {
		t.Errorf("nlb-1 is in %+v, %v", groups, err)
	}
	if groups, err := s.GuardsOf(s.Balancers["nlb-3"]); err == nil {
		t.Errorf("of nlb-3 nothing was read, and it is in %+v", groups)
	}
}

func TestProtection(t *testing.T) {
	t.Parallel()
	w := &sim.World{Cluster: sim.Cluster{ID: "c1", Protected: []string{"shop", "shop/web"}}}
	services := []corev1.Service{balanced("web", "", "", ""), balanced("other", "", "", "")}
	elsewhere := balanced("web", "", "", "")
	elsewhere.Namespace = "test"
	services = append(services, elsewhere)
	for protect, want := range map[string]map[string]bool{"shop": {"shop": true, "shop/web": true, "shop/other": false}, "": {}} {
		s := wanted(t, w, services, remedy.Policy{Doctor: remedy.Doctor{Protect: []string{protect}}}, doctor.Protection, doctor.Guard)
		if err := errors.Join(s.Err(doctor.Protection), s.Err(doctor.Guard)); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(s.Protected, want) {
			t.Errorf("of %q was read: %v, want %v", protect, s.Protected, want)
		}
		if len(s.Guard.Actions) > 0 {
			t.Errorf("a guard is in force: %+v", s.Guard)
		}
	}
}
