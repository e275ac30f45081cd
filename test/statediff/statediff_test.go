package statediff

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// shop returns the state of a small world: a synced Service with a CLB, a Service of somebody else, and a RAM policy.
func shop(t *testing.T, change func(objects map[string]any, world *sim.World)) State {
	t.Helper()
	objects := map[string]any{
		"services > shop/web": map[string]any{
			"metadata": map[string]any{
				"annotations": map[string]any{"example.com/team": "blue"},
				"labels":      map[string]any{ccm.HashLabel: "one", ccm.BalancerLabel: "lb-1"},
				"finalizers":  []string{"service.k8s.alibaba/resources"},
			},
			"spec":   map[string]any{"ports": []map[string]any{{"name": "web", "port": 80}}},
			"status": map[string]any{"loadBalancer": map[string]any{"ingress": []map[string]any{{"ip": "203.0.113.2"}}}},
		},
		"services > shop/other": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "other"}}},
		"nodes > worker-1":      map[string]any{"spec": map[string]any{"providerID": "cn-hangzhou.i-1"}},
	}
	world := &sim.World{
		LoadBalancers: []sim.LoadBalancer{{
			ID: "lb-1", Name: "frontend", Bandwidth: 5, Tags: map[string]string{"team": "blue"},
			Listeners: []sim.Listener{
				{Port: 80, Protocol: "tcp", Description: "k8s/80/web/shop/" + testbed.ClusterID},
				{Port: 443, Protocol: "tcp", Description: "by hand"},
			},
			VGroups: []sim.VGroup{
				{ID: "rsp-1", Name: "k8s/30080/web/shop/" + testbed.ClusterID},
				{ID: "rsp-2", Name: "k8s/30080/other/shop/" + testbed.ClusterID},
			},
		}},
		VSwitches: []sim.VSwitch{{ID: "vsw-1", Free: new(10)}},
		Policies:  []sim.Policy{{Name: "Ccm", Versions: []sim.PolicyVersion{{ID: "v1", Document: "{}", Default: true}}}},
	}
	if change != nil {
		change(objects, world)
	}
	s := State{values: map[string]string{}, World: world}
	s.add(t, "cloud", world)
	for path, o := range objects {
		s.add(t, path, o)
	}
	return s
}

func of(object any, way ...string) map[string]any {
	for _, name := range way {
		object = object.(map[string]any)[name]
	}
	return object.(map[string]any)
}

var web = event.Service{Namespace: "shop", Name: "web", UID: "3f9a12bc-1111-2222-3333-444455556666"}

const webName = "a3f9a12bc11112222333344445555666"

var fix = event.Record{Origin: event.Origin{Service: web}, Plan: event.Plan{Steps: []event.StepRecord{
	{Kind: "annotate", Text: say.Literal("annotate"), Step: []byte(`{"set":{"example.com/size":"small"}}`)},
	{Kind: "tag-lb", Text: say.Literal("tag"), Step: []byte(`{"lb":"lb-1","key":"kubernetes.do.not.delete","value":"` + webName + `"}`)},
	{Kind: "policy-version", Text: say.Literal("policy"), Step: []byte(`{"policy":"Ccm","document":"{2}","was":"v1"}`)},
	{Kind: "resync", Text: say.Literal("resync"), Step: []byte(`{}`)},
}}, Progress: event.Progress{Next: 4}}

func TestCompare(t *testing.T) {
	t.Parallel()
	type objects = map[string]any
	const mine, theirs = "services > shop/web", "services > shop/other"
	for _, tt := range []struct {
		name   string
		change func(objects, *sim.World)
		// Whether a plan, the controller's sync or an undone plan explains the change. Nodes explain only backends.
		steps, sync, undo bool
	}{
		{"our mark", func(o objects, _ *sim.World) { of(o[mine], "metadata", "annotations")[ccm.Resync] = "1" }, true, false, true},
		{"the annotation of the plan", func(o objects, _ *sim.World) { of(o[mine], "metadata", "annotations")["example.com/size"] = "small" }, true, false, false},
		{"another annotation", func(o objects, _ *sim.World) { of(o[mine], "metadata", "annotations")["example.com/team"] = "red" }, false, false, false},
		{"an annotation whose name begins the same", func(o objects, _ *sim.World) { of(o[mine], "metadata", "annotations")["example.com/sizes"] = "small" },
			false, false, false},
		{"an annotation that is gone", func(o objects, _ *sim.World) { delete(of(o[mine], "metadata", "annotations"), "example.com/team") }, false, false, false},
		{"our mark on another Service", func(o objects, _ *sim.World) {
			of(o[theirs], "metadata")["annotations"] = objects{ccm.Resync: "1"}
		}, false, false, false},
		{"the tag of the plan", func(_ objects, w *sim.World) { w.LoadBalancers[0].Tags["kubernetes.do.not.delete"] = webName }, true, true, false},
		{"another tag", func(_ objects, w *sim.World) { w.LoadBalancers[0].Tags["team"] = "red" }, false, false, false},
		{"a version of the policy", func(_ objects, w *sim.World) {
			p := &w.Policies[0]
			p.Versions[0].Default = false
			p.Versions = append(p.Versions, sim.PolicyVersion{ID: "v2", Document: "{2}", Default: true})
		}, true, false, false},
		{"a version of the policy that is not in force", func(_ objects, w *sim.World) {
			p := &w.Policies[0]
			p.Versions = append(p.Versions, sim.PolicyVersion{ID: "v2", Document: "{2}"})
		}, true, false, true},
		{"another version of the policy", func(_ objects, w *sim.World) {
			p := &w.Policies[0]
			p.Versions = append(p.Versions, sim.PolicyVersion{ID: "v2", Document: "{3}"})
		}, true, false, false},
		{"another policy", func(_ objects, w *sim.World) { w.Policies = append(w.Policies, sim.Policy{Name: "Mine"}) }, false, false, false},
		{"the hash", func(o objects, _ *sim.World) { of(o[mine], "metadata", "labels")[ccm.HashLabel] = "two" }, false, true, false},
		{"the ID of the load balancer", func(o objects, _ *sim.World) { of(o[mine], "metadata", "labels")[ccm.BalancerLabel] = "lb-2" }, false, true, false},
		{"another label", func(o objects, _ *sim.World) { of(o[mine], "metadata", "labels")["app"] = "web" }, false, false, false},
		{"the hash of another Service", func(o objects, _ *sim.World) { of(o[theirs], "metadata", "labels")[ccm.HashLabel] = "two" }, false, false, false},
		{"the address", func(o objects, _ *sim.World) { delete(of(o[mine], "status"), "loadBalancer") }, false, true, false},
		{"the finalizer", func(o objects, _ *sim.World) { delete(of(o[mine], "metadata"), "finalizers") }, false, true, false},
		{"the ports", func(o objects, _ *sim.World) { of(o[mine])["spec"] = objects{} }, false, false, false},
		{"a Service that is gone", func(o objects, _ *sim.World) { delete(o, theirs) }, false, false, false},
		{"a node", func(o objects, _ *sim.World) { of(o["nodes > worker-1"], "spec")["unschedulable"] = true }, false, false, false},
		{"a new object", func(o objects, _ *sim.World) { o["configmaps > shop/settings"] = objects{"data": objects{"a": "b"}} }, false, false, false},
		{"the Service's listener", func(_ objects, w *sim.World) { w.LoadBalancers[0].Listeners[0].Status = "stopped" }, false, true, false},
		{"the Service's listener, which is gone", func(_ objects, w *sim.World) { w.LoadBalancers[0].Listeners = w.LoadBalancers[0].Listeners[1:] }, false,
			true, false},
		{"a person's listener", func(_ objects, w *sim.World) { w.LoadBalancers[0].Listeners[1].Status = "stopped" }, false, false, false},
		{"a backend", func(_ objects, w *sim.World) { w.LoadBalancers[0].VGroups[0].Backends = []sim.Backend{{Server: "i-1"}} }, false, true, false},
		{"a backend of another Service", func(_ objects, w *sim.World) { w.LoadBalancers[0].VGroups[1].Backends = []sim.Backend{{Server: "i-1"}} }, false,
			false, false},
		{"a setting of the load balancer", func(_ objects, w *sim.World) { w.LoadBalancers[0].Bandwidth = 10 }, false, false, false},
		{"a load balancer that is gone", func(_ objects, w *sim.World) { w.LoadBalancers = nil }, false, false, false},
		{"a load balancer that the controller makes", func(_ objects, w *sim.World) {
			w.VSwitches[0].Free = new(9)
			w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{ID: "lb-2", VSwitch: "vsw-1", Tags: map[string]string{"kubernetes.do.not.delete": webName}})
		}, false, true, false},
		{"a load balancer for somebody else", func(_ objects, w *sim.World) {
			w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{ID: "lb-2", Tags: map[string]string{"kubernetes.do.not.delete": "another"}})
		}, false, false, false},
		{"an address of a vSwitch", func(_ objects, w *sim.World) { w.VSwitches[0].Free = new(9) }, false, false, false},
		{"an NLB that the controller makes", func(_ objects, w *sim.World) {
			w.NLBs = []sim.NLB{{ID: "nlb-1", Zones: []sim.NLBZone{{VSwitch: "vsw-1", EIP: "eip-1"}}, Tags: map[string]string{"kubernetes.do.not.delete": webName}}}
			w.EIPs = []sim.EIP{{ID: "eip-1", Instance: "nlb-1"}}
			w.ServerGroups = []sim.ServerGroup{{ID: "sgp-1", Tags: map[string]string{"kubernetes.do.not.delete": webName}}}
			w.VSwitches[0].Free = new(9)
		}, false, true, false},
		{"an EIP", func(_ objects, w *sim.World) { w.EIPs = []sim.EIP{{ID: "eip-1"}} }, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, after := shop(t, nil), shop(t, tt.change)
			if len(Compare(before, after)) == 0 {
				t.Fatal("it is not noticed at all")
			}
			for _, by := range []struct {
				what    string
				allowed []Allowance
				want    bool
			}{
				{"the steps", BySteps(t, fix), tt.steps},
				{"the controller's sync", ByController(before, after, web), tt.sync},
				{"an undo", ByUndo(t, after, fix), tt.undo},
				{"a node", ByNodes(nil, before.World, after.World), strings.HasPrefix(tt.name, "a backend")},
			} {
				if diff := Compare(before, after, by.allowed); (len(diff) == 0) != by.want {
					t.Errorf("that %s explains it is %t:\n%s", by.what, !by.want, strings.Join(diff, "\n"))
				}
			}
		})
	}
	if diff := Compare(shop(t, nil), shop(t, nil)); len(diff) > 0 {
		t.Errorf("nothing has changed, and it says %q", diff)
	}
}

// TestForeignChange makes changes of each sort in a real cluster and the simulated cloud: a comparison reports exactly these.
func TestForeignChange(t *testing.T) {
	c := cluster.Alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tb, err := testbed.Start(ctx, testbed.Options{Cluster: c, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if err := tb.Prepare(ctx, testbed.LostTag().As("web")); err != nil {
		t.Fatal(err)
	}
	if err := tb.Halt(ctx); err != nil {
		t.Fatal(err)
	}
	before := Read(t, tb)
	if diff := Compare(before, Read(t, tb)); len(diff) > 0 {
		t.Errorf("nothing has changed, and it says %q", diff)
	}
	patch := func(kind, namespace, name, change string, subresources ...string) {
		t.Helper()
		of := c.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: kind}).Namespace(namespace)
		if _, err := of.Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresources...); err != nil {
			t.Fatal(err)
		}
	}
	patch("services", tb.Namespace, "web", `{"metadata":{"labels":{"team":"red"},"annotations":{"team":"red"}},"spec":{"sessionAffinity":"ClientIP"}}`)
	patch("services", tb.Namespace, "web", `{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.77"}]}}}`, "status")
	patch("nodes", "", "shop-worker-1", `{"spec":{"unschedulable":true}}`)
	if err := c.Client().DiscoveryV1().EndpointSlices(tb.Namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "b"}}
	if _, err := c.Client().CoreV1().ConfigMaps(tb.Namespace).Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tb.Cloud.Edit(func(st *sim.State) {
		st.Account.Balance = "5.00"
		for _, lb := range st.LoadBalancers {
			lb.Bandwidth = 77
		}
	})
	want := []string{
		"services > shop/web > metadata > labels > team", "services > shop/web > metadata > annotations > team", "services > shop/web > spec > sessionAffinity",
		"services > shop/web > status > loadBalancer > ingress > 0 > ip", "nodes > shop-worker-1 > spec > unschedulable",
		"endpointslices.discovery.k8s.io > shop/web > endpoints", "configmaps > shop/settings > data > a", "cloud > account > balance", "> bandwidth",
	}
	diff := Compare(before, Read(t, tb))
	for _, part := range want {
		if !strings.Contains(strings.Join(diff, "\n"), part) {
			t.Errorf("%s has changed, and nothing tells it", part)
		}
	}
	changed := []string{
		"services > shop/web > ", "nodes > shop-worker-1 > spec > ", "endpointslices.discovery.k8s.io > shop/web > ", "configmaps > shop/settings > ",
		"cloud > account > ", "cloud > loadBalancers > ",
	}
	for _, line := range diff {
		if !slices.ContainsFunc(changed, func(p string) bool { return strings.HasPrefix(line, p) }) {
			t.Errorf("nobody has changed this: %s", line)
		}
	}
}

func TestUnapplied(t *testing.T) {
	t.Parallel()
	rec := fix
	rec.Next = 0
	if all := BySteps(t, rec); len(all) > 0 {
		t.Errorf("got %v", all)
	}
}

func TestByChanges(t *testing.T) {
	t.Parallel()
	rec := fix
	rec.Changes = []event.Change{
		{Balancer: "lb-1", What: "listener tcp:80"},
		{Balancer: "lb-1", What: "group k8s/30080/web/shop/" + testbed.ClusterID},
		{Balancer: "lb-1", What: "tag team"},
		{Balancer: "lb-1", What: "bandwidth"},
	}
	for name, tt := range map[string]struct {
		change func(*sim.LoadBalancer)
		want   bool
	}{
		"the listener":            {func(lb *sim.LoadBalancer) { lb.Listeners[0].Status = "stopped" }, true},
		"the listener, gone":      {func(lb *sim.LoadBalancer) { lb.Listeners = lb.Listeners[1:] }, true},
		"another listener":        {func(lb *sim.LoadBalancer) { lb.Listeners[1].Status = "stopped" }, false},
		"another listener, gone":  {func(lb *sim.LoadBalancer) { lb.Listeners = lb.Listeners[:1] }, false},
		"the group":               {func(lb *sim.LoadBalancer) { lb.VGroups[0].Backends = []sim.Backend{{Server: "i-1"}} }, true},
		"another Service's group": {func(lb *sim.LoadBalancer) { lb.VGroups[1].Backends = []sim.Backend{{Server: "i-1"}} }, false},
		"the tag":                 {func(lb *sim.LoadBalancer) { lb.Tags["team"] = "red" }, true},
		"another tag":             {func(lb *sim.LoadBalancer) { lb.Tags["teams"] = "red" }, false},
		"the bandwidth":           {func(lb *sim.LoadBalancer) { lb.Bandwidth = 10 }, true},
		"the spec":                {func(lb *sim.LoadBalancer) { lb.Spec = "slb.s1.small" }, false},
	} {
		before, after := shop(t, nil), shop(t, func(_ map[string]any, w *sim.World) { tt.change(&w.LoadBalancers[0]) })
		if diff := Compare(before, after, ByChanges(t, before, after, rec)); (len(diff) == 0) != tt.want {
			t.Errorf("that the record explains %s is %t:\n%s", name, !tt.want, strings.Join(diff, "\n"))
		}
	}
}
