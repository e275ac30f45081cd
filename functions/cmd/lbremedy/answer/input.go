package answer

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An Item is a failure to answer, and the class that answers it.
type Item struct {
	Event  engine.Event
	Remedy *remedy.Remedy
	was    *verdictThen
}

func readItems(ctx context.Context, p *cli.Program, args []string, connect func() (*host.Connection, error)) ([]Item, *host.Connection, error) {
	if err := p.Host().Validate(); err != nil {
		return nil, nil, command.Mistake{Err: err}
	}
	for _, arg := range args { // reports mistakes before it connects; the cluster may be known only afterwards
		if _, err := p.Object(arg); err != nil {
			return nil, nil, err
		}
	}
	env, err := connect()
	if err != nil {
		return nil, nil, err
	}
	var list []Item
	for _, arg := range args {
		ref, err := p.Object(arg)
		if err != nil {
			return nil, env, err
		}
		it, err := newest(ctx, p, env, ref)
		if err != nil {
			return nil, env, err
		}
		if it == nil {
			p.Note("%s: no failure is known from the cluster's Events of the last hour or from the stream; there is nothing to do.", ref)
			continue
		}
		list = append(list, *it)
	}
	return list, env, nil
}

// newest reads an object's newest failure from its Events, otherwise from the stream, which keeps them longer; nil if none exists.
func newest(ctx context.Context, p *cli.Program, env *host.Connection, ref event.Service) (*Item, error) {
	uid, of, err := eventsOf(ctx, env, ref)
	if err != nil {
		return nil, err
	}
	ref.UID = uid
	if err := event.ValidUID(ref.UID); err != nil {
		return nil, err
	}
	by := p.Classifier()
	var newest *Item
	for _, which := range of {
		err = env.Kube.EvidenceOf(ctx, ref.Kind, which, func(e kube.Event) error {
			it, err := fromEvent(p, by, e, ref)
			if err != nil || it == nil {
				return err
			}
			if newest == nil || later(it.Event.Failure, newest.Event.Failure) {
				newest = it
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if newest != nil || env.Stream == nil {
		return newest, nil
	}
	m, err := env.Stream.Last(ctx, stream.Failed, "lbremedy.failed."+env.Cluster+".*."+ref.UID)
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	it, err := Kept(p, m)
	return &it, err
}

func eventsOf(ctx context.Context, env *host.Connection, ref event.Service) (uid string, of []kube.Selection, err error) {
	switch ref.Kind {
	case event.KindCluster:
		return ref.UID, []kube.Selection{
			{Namespace: metav1.NamespaceDefault, Fields: "involvedObject.name=" + event.RouteObject},
			{Namespace: metav1.NamespaceSystem, Fields: "metadata.name=" + event.Precheck},
		}, nil
	case event.KindNode:
		node, err := env.Kube.Node(ctx, ref.Name)
		if errors.Is(err, kube.ErrNotFound) {
			return "", nil, command.Wrong("the cluster has no node %s: correct the name, or --context and --kubeconfig", ref.Name)
		}
		if err != nil {
			return "", nil, err
		}
		return string(node.UID), []kube.Selection{{Namespace: metav1.NamespaceDefault, Fields: "involvedObject.kind=Node,involvedObject.name=" + ref.Name}}, nil
	}
	svc, err := cli.Service(ctx, env, ref)
	switch {
	case err != nil:
		return "", nil, err
	case svc.Spec.Type != "LoadBalancer" && !slices.Contains(svc.Finalizers, ccm.CLBFinalizer) && !slices.Contains(svc.Finalizers, ccm.NLBFinalizer):
		return "", nil, command.Wrong("the Service %s is of type %s: only one of type LoadBalancer has a load balancer that can fail", ref, svc.Spec.Type)
	}
	uid = string(svc.UID)
	return uid, []kube.Selection{{Namespace: ref.Namespace, Fields: "involvedObject.kind=Service,involvedObject.uid=" + uid}}, nil
}

func later(a, b event.Failure) bool {
	if !a.Last.Equal(b.Last) {
		return a.Last.After(b.Last)
	}
	return kube.Later(a.Event.ResourceVersion, b.Event.ResourceVersion)
}

// Kept returns the failure in a message of the stream, with its class there.
func Kept(p *cli.Program, m stream.Message) (Item, error) {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return Item{}, err
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return Item{}, err
	}
	it := Item{Event: engine.Event{ID: e.ID(), Failure: f}}
	it.Remedy, err = p.ClassOf(f.Class)
	return it, err
}

// fromEvent returns nil if the Event reports no failure of the object.
func fromEvent(p *cli.Program, by *event.Classifier, e kube.Event, about event.Service) (*Item, error) {
	if about.Kind == event.KindCluster && e.Name == event.Precheck && event.FailedPrecheck(e.Message) {
		e.Reason, e.Component = event.Precheck, "" // as the exporter does
	}
	kind, fails := event.FailureOf(e.Reason)
	another := kind == event.KindNode && e.Object.UID != about.Name && e.Object.UID != about.UID // a node that left, with the same name
	if !fails || kind != about.Kind || another || event.DryRun(e.Message) {
		return nil, nil
	}
	m := by.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message})
	if m.Class == event.Ignored {
		return nil, nil
	}
	name := e.Namespace + "/" + e.Name
	ce, err := event.NewFailed(event.Failure{
		Cluster: p.Cluster, Class: m.Class, Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message,
		Service: about,
		Event:   event.Reference{Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion},
		Count:   e.Count, First: e.First, Last: e.Last,
	})
	if err != nil {
		return nil, command.Wrong("the Event %s: %w", name, err)
	}
	f, err := event.ReadFailed(ce)
	if err != nil {
		return nil, command.Wrong("the Event %s: %w", name, err)
	}
	r, err := p.ClassOf(m.Class)
	return &Item{Event: engine.Event{ID: ce.ID(), Failure: f}, Remedy: r}, err
}
