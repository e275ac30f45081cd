package controller_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// TestRoutes tests a missing right to create routes: a release with one call writes one Event about all routes, an older one an
// Event for each node, with its name as UID.
func TestRoutes(t *testing.T) {
	reads := []string{"vpc:DescribeRouteTableList", "vpc:DescribeRouteEntryList"}
	for name, tt := range map[string]struct {
		version string
		may     []string
		says    string // beginning of the Event's text; empty: the route is created
		about   string // kind of the Event's object
	}{
		"by one call, without the right": {"v2.14.0", reads, "Reconciling route error: ", "Event"},
		"each alone, without the right":  {"v2.10.0", reads, "Error creating route entry in vtb-1: ", "Node"},
		"by one call":                    {"v2.14.0", append(reads, "vpc:CreateRouteEntries"), "", ""},
		"each alone":                     {"v2.10.0", append(reads, "vpc:CreateRouteEntry"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster.Alone(t) // exporters of other tests would publish its Events
			defer func() {
				_ = c.Client().CoreV1().Events(metav1.NamespaceDefault).DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{FieldSelector: "source=route-controller"})
			}()
			node, nodes := "n-"+c.Namespace(t), c.Client().CoreV1().Nodes()
			if _, err := nodes.Create(t.Context(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"rig": node}},
				Spec:       corev1.NodeSpec{PodCIDR: "172.20.1.0/24", PodCIDRs: []string{"172.20.1.0/24"}, ProviderID: "cn-hangzhou.i-2"},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nodes.Delete(t.Context(), node, metav1.DeleteOptions{}) }()
			cloud := sim.New(t, &sim.World{Instances: []sim.Instance{{ID: "i-2"}}, RouteTables: []sim.RouteTable{{ID: "vtb-1"}}})
			world := cloud.Snapshot()
			if err := controller.SyncRoutes(t.Context(), controller.Options{
				Kube: c.Config, Cloud: cloud.Addr(), Credentials: cloud.Client("ccm", tt.may...), ClusterID: clusterID, VPC: world.Cluster.VPC,
				Version: tt.version, Nodes: "rig=" + node,
			}); err != nil {
				t.Fatal(err)
			}
			if tt.says == "" {
				made := cloud.Snapshot().RouteTables[0].Routes
				got, err := nodes.Get(t.Context(), node, metav1.GetOptions{})
				if err != nil || len(made) != 1 || made[0].NextHop != "i-2" || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Reason != "RouteCreated" {
					t.Fatalf("routes %+v, conditions %+v, %v", made, got.Status.Conditions, err)
				}
				return
			}
			list, err := c.Client().CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "source=route-controller"})
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, e := range list.Items {
				of := e.InvolvedObject
				if of.Kind != tt.about || of.Kind == "Node" && (of.Name != node || string(of.UID) != node) || !strings.HasPrefix(e.Message, tt.says) {
					continue
				}
				found = true
				m := event.NewClassifier(table.Table()).Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Source.Component, Message: e.Message})
				if m.Class != "ram-permission" {
					t.Errorf("it is of class %s: %q", m.Class, e.Message)
				}
			}
			if !found {
				t.Errorf("no such Event in %+v", list.Items)
			}
		})
	}
}
