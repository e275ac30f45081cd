package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
)

// others selects the controller's Events about Nodes and the cluster. Events about objects without a namespace are in the namespace default.
func others() []kube.Selection {
	var of []string
	for _, w := range event.Warnings {
		of = append(of, w.Components...)
	}
	slices.Sort(of)
	all := []kube.Selection{{Namespace: metav1.NamespaceSystem, Fields: "metadata.name=" + event.Precheck}}
	for _, component := range slices.Compact(of) {
		all = append(all, kube.Selection{Namespace: metav1.NamespaceDefault, Fields: "source=" + component})
	}
	return all
}

// other publishes all such Events again with every list; NATS stores the newest once.
func (e *Exporter) other(ctx context.Context, which kube.Selection) {
	see := func(ev kube.Event) error {
		if o, ok := e.classify(ev); ok && o.kind != "" {
			e.enter(o, true)
		}
		return ctx.Err()
	}
	backoff := retry.Backoff(firstWait, lastWait)
	for ctx.Err() == nil {
		version, err := e.accept(e.c.Kube.ListEvents(ctx, which, see))
		if err == nil {
			opened, seen := time.Now(), false
			err = e.c.Kube.WatchEvents(ctx, which, version, spell, func(ch kube.Change) error {
				seen = true
				if ch.Kind == kube.Added || ch.Kind == kube.Modified {
					return see(ch.Event)
				}
				return ctx.Err()
			})
			if seen || time.Since(opened) > steady {
				backoff = retry.Backoff(firstWait, lastWait)
			}
		}
		if err != nil && ctx.Err() == nil && e.logged.first("others "+which.Fields) {
			e.log.Warn("Events about nodes and the cluster can't be read; trying again until they can", "error", err)
		}
		retry.Sleep(ctx, retry.Spread(backoff.Step()))
	}
}

func (e *Exporter) objectOf(ev kube.Event, kind string) (about event.Service, ok bool) {
	switch kind {
	case event.KindNode:
		return event.Service{Kind: kind, Name: ev.Object.Name}, ev.Object.Kind == "Node"
	case event.KindCluster:
		// Both are in administrators' namespaces. Elsewhere a tenant who may create Events could forge them.
		routes := ev.Namespace == metav1.NamespaceDefault && ev.Object.Namespace == "" && ev.Object.Name == event.RouteObject
		precheck := ev.Namespace == metav1.NamespaceSystem && ev.Name == event.Precheck
		return event.Thing(e.c.Cluster, kind, e.c.Cluster), routes || precheck
	}
	return event.Service{Namespace: ev.Object.Namespace, Name: ev.Object.Name, UID: ev.Object.UID}, ev.Object.Kind == "Service"
}

// proves returns noObject if the object doesn't exist, another error if it can't be read now. It sets a Node's UID.
func (e *Exporter) proves(w *waiting) error {
	switch w.kind {
	case event.KindCluster:
		return nil
	case "":
		return e.registry.proves(e.ctx, w.Object)
	}
	node, err := e.c.Kube.Node(e.ctx, w.Object.Name)
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return &noObject{"the node does not exist"}
	case err != nil:
		return err
	case w.Object.UID != node.Name && w.Object.UID != string(node.UID):
		return &noObject{"the node has another UID"}
	}
	w.about.UID = string(node.UID)
	return nil
}

func (o occurrence) invalidOther() error {
	if o.kind == event.KindNode && (!kube.ValidName(o.Object.Name) || o.Object.Namespace != "") {
		return fmt.Errorf("%.100q is not a valid node name", o.Object.Namespace+"/"+o.Object.Name)
	}
	return nil
}
