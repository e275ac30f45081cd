package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/lbremedy/lbremedy/shared/event"
)

const (
	hashLabel     = "service.beta.kubernetes.io/hash"
	balancerLabel = "service.k8s.alibaba/loadbalancer-id"
)

// A watch follows a testbed's Services and the controller's Events, and notifies the testbed of deleted Pods.
type watch struct {
	end     func()
	cluster event.Service // failures of the cluster

	mu       sync.Mutex
	seen     sync.Cond
	services map[string]*corev1.Service
	nodes    map[string]*corev1.Node // of a testbed with routes
	failures map[string][]failure    // of each Service in order of arrival; of nodes and the cluster by Testbed.keyOf
	last     map[string]last         // of each Service
	events   int                     // number of Events so far
	tally    int                     // successful syncs of the controller
	changes  int                     // number of changes so far, to miss none
	err      error                   // of the controller
}

type failure struct {
	event.Input
	at time.Time
}

type last struct {
	succeeded bool      // it reported a success
	failed    time.Time // not before the last failure, on this process's clock
}

var reasons = []string{
	"SyncLoadBalancerFailed", "CleanLoadBalancerFailed", "DeleteLoadBalancerFailed", "CreatingLoadBalancerFailed", "DeletingLoadBalancerFailed",
	"UnAvailableLoadBalancer", "NoBackend", "SkipSyncBackends", "Failed",
	"FailedAddFinalizer", "FailedAddHash", "FailedUpdateReadinessGate", "FailedUpdateStatus", "FailedRemoveFinalizer", "FailedRemoveHash",
}

func newWatch(ctx context.Context, tb *Testbed) (*watch, error) {
	w := &watch{services: map[string]*corev1.Service{}, nodes: map[string]*corev1.Node{}, failures: map[string][]failure{}, last: map[string]last{}}
	w.seen.L, w.cluster = &w.mu, event.Thing(tb.ID, event.KindCluster, tb.ID)
	namespace := tb.Namespace
	f := tb.kube.Informers(namespace, "")
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    w.note,
		UpdateFunc: func(_, o any) { w.note(o) },
		DeleteFunc: w.forget,
	}
	var synced []cache.InformerSynced
	informers := []cache.SharedIndexInformer{f.Services(), f.Events()}
	beside, wide := tb.kube.Informers(metav1.NamespaceDefault, ""), tb.kube.Informers("", NodesOf(namespace))
	if tb.opts.Routes {
		informers = append(informers, beside.Events(), wide.Nodes())
	}
	for _, i := range informers {
		h, err := i.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("watch namespace %s: %w", namespace, err)
		}
		synced = append(synced, h.HasSynced)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	gone := cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		if pod, ok := o.(*corev1.Pod); ok && running.Err() == nil {
			if err := tb.replace(running, pod); err != nil && running.Err() == nil {
				w.fail(err)
			}
		}
	}}
	if _, err := f.Pods().AddEventHandler(gone); err != nil {
		cancel()
		return nil, fmt.Errorf("watch namespace %s: %w", namespace, err)
	}
	w.end = func() { cancel(); f.Wait(); beside.Wait(); wide.Wait() }
	f.Start(running)
	beside.Start(running)
	wide.Start(running)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		w.end()
		return nil, ctx.Err()
	}
	return w, nil
}

func (w *watch) close() { w.end() }

func (w *watch) note(o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		w.services[o.Name] = o
	case *corev1.Node:
		w.nodes[o.Name] = o
	case *corev1.Event:
		w.events++
		name := o.InvolvedObject.Name
		in := event.Input{Reason: o.Reason, Type: o.Type, Component: o.Source.Component, Message: o.Message}
		switch kind, _ := event.FailureOf(o.Reason); {
		case kind == event.KindNode:
			name = event.Service{Kind: kind, Name: name}.String()
		case kind == event.KindCluster:
			name = w.cluster.String()
		case o.InvolvedObject.Kind != "Service":
			w.changed()
			return
		}
		switch kind, failed := event.FailureOf(o.Reason); {
		case slices.Contains(reasons, o.Reason), failed && kind != "":
			known := slices.ContainsFunc(w.failures[name], func(f failure) bool { return f.Input == in })
			if !known {
				w.failures[name] = append(w.failures[name], failure{in, time.Now()})
			}
			w.last[name] = last{failed: ended(o)}
		case o.Reason == event.Ensured:
			w.last[name] = last{succeeded: true, failed: w.last[name].failed}
		}
	}
	w.changed()
}

// ended returns a time that is not before an Event, whose time Kubernetes stores in whole seconds.
func ended(e *corev1.Event) time.Time {
	now := time.Now()
	if next := e.LastTimestamp.Add(time.Second); !e.LastTimestamp.IsZero() && next.Before(now) {
		return next
	}
	return now
}

func (w *watch) forget(o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		delete(w.services, o.Name)
	case *corev1.Node:
		delete(w.nodes, o.Name)
	}
	w.changed()
}

func (w *watch) changed() {
	w.changes++
	w.seen.Broadcast()
}

func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed()
}

// fail makes all waiting calls fail: the controller has ended unexpectedly.
func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
	w.changed()
}

// until waits until ok returns true; ok runs without the lock.
func (w *watch) until(ctx context.Context, ok func() bool) error {
	defer context.AfterFunc(ctx, w.wake)()
	for {
		w.mu.Lock()
		asked := w.changes
		w.mu.Unlock()
		if ok() {
			return nil
		}
		w.mu.Lock()
		for ctx.Err() == nil && w.err == nil && w.changes == asked {
			w.seen.Wait()
		}
		err := w.err
		w.mu.Unlock()
		switch {
		case err != nil:
			return fmt.Errorf("the controller has ended: %w", err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

func (w *watch) synced(ctx context.Context, name string) (*corev1.Service, error) {
	var svc *corev1.Service
	err := w.until(ctx, func() bool {
		svc = w.service(name)
		return svc != nil && marked(svc)
	})
	if err != nil {
		return nil, fmt.Errorf("wait for it to be synced: %w%s", err, w.said(name))
	}
	return svc, nil
}

// marked reports whether a Service has the marks of a successful sync in all releases; the load balancer's ID exists since v2.4.0.
func marked(svc *corev1.Service) bool {
	return svc.Labels[hashLabel] != "" && len(svc.Status.LoadBalancer.Ingress) > 0
}

func (w *watch) service(name string) *corev1.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.services[name]
}

func (w *watch) allNodes() []*corev1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.nodes))
}

// failure returns a Service's first failure with this text, or else its first one, and whether one exists.
func (w *watch) failure(name, text string) (failure, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.failures[name]
	if len(all) == 0 {
		return failure{}, false
	}
	return all[max(0, slices.IndexFunc(all, saying(text)))], true
}

func (w *watch) hasFailed(name, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.failures[name], saying(text))
}

func saying(text string) func(failure) bool {
	return func(f failure) bool { return strings.Contains(f.Message, text) }
}

// recovered returns a time between a failure and a later success that the controller's last Event about a Service reports.
func (w *watch) recovered(name string) (since time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.last[name]
	return l.failed, l.succeeded && !l.failed.IsZero()
}

func (w *watch) said(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all strings.Builder
	for _, f := range w.failures[name] {
		fmt.Fprintf(&all, "; the controller says %q", f.Message)
	}
	return all.String()
}
