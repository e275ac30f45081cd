package identity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
)

// TestExporterRights: the exporter needs all declared rights to publish, except listing Services, which is for counting them.
func TestExporterRights(t *testing.T) {
	c := cluster.Join(t)
	all, err := identity.Of("exporter")
	if err != nil {
		t.Fatal(err)
	}
	for _, without := range append([]grant.Grant{{}}, exporter.Grants...) {
		if without == grant.WatchEvents {
			continue // existing objects are listed without it
		}
		t.Run("without "+without.String(), func(t *testing.T) {
			ns := c.Namespace(t) // waits while another test uses the cluster exclusively
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			svc, err := c.Client().CoreV1().Services(ns).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			failure := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: "web.1"},
				InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: ns, Name: "web", UID: svc.UID},
				Reason:         "SyncLoadBalancerFailed", Type: "Warning", Source: corev1.EventSource{Component: "service-controller"},
				Message: "Error syncing load balancer []: Message: The specified VSwitch has no available ip.",
			}
			subject := event.FailedSubject("c1", "vswitch-ip-exhausted", string(svc.UID))
			if without == grant.GetNodes {
				nodes, name := c.Client().CoreV1().Nodes(), "n-"+ns
				node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
				failure.Namespace, failure.Name = metav1.NamespaceDefault, name+".1"
				failure.InvolvedObject = corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
				failure.Reason, failure.Source.Component, failure.Message = "SyncNodeFailed", "node-controller", "odd"
				subject = event.FailedSubject("c1", event.Unclassified, string(node.UID))
			}
			if _, err := c.Client().CoreV1().Events(failure.Namespace).Create(ctx, failure, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = c.Client().CoreV1().Events(failure.Namespace).Delete(context.WithoutCancel(t.Context()), failure.Name, metav1.DeleteOptions{})
			})
			config, err := all.Without(without).Cluster(ctx, c, "exporter")
			if err != nil {
				t.Fatal(err)
			}
			k, err := kube.New(config)
			if err != nil {
				t.Fatal(err)
			}
			s := nats.Connect(t, stream.Config{URL: nats.Start(t, embedded.Options{}).URL()})
			if _, err := s.Setup(ctx, nil, stream.Settings{}); err != nil {
				t.Fatal(err)
			}
			rows := []event.Row{{Class: "vswitch-ip-exhausted", Texts: []string{"VSwitch has no available ip"}}}
			e, err := exporter.New(exporter.Config{Cluster: "c1", Kube: k, Stream: s, Classifier: event.NewClassifier(rows)})
			if err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- e.Run(running) }()
			stored := func() bool {
				_, err := s.Last(ctx, stream.Failed, subject)
				return err == nil
			}
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for e.Stats().Unread.Load() < 3 && !stored() && ctx.Err() == nil {
				select {
				case err := <-ended:
					if without != grant.ListEvents || !errors.Is(err, kube.ErrDenied) {
						t.Errorf("the exporter ended with %v", err)
					}
					return
				case <-tick.C:
				}
			}
			// Listing Services saves reading each one.
			spared := without == grant.Grant{} || without == grant.ListServices
			if published := stored(); published != spared {
				t.Errorf("published: %t", published)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
