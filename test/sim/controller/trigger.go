package controller

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// serviceHandler queues Services that are new (at the start, all), and changes of annotations, spec and deletion, not of labels and status.
func (l *loop) serviceHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			svc := o.(*corev1.Service)
			if l.wants(svc) || l.finalizer != "" && slices.Contains(svc.Finalizers, l.finalizer) {
				l.queue.Add(cache.MetaObjectToName(svc))
			}
		},
		UpdateFunc: func(old, new any) {
			was, svc := old.(*corev1.Service), new.(*corev1.Service)
			n, wake := l.change(was, svc)
			if !wake {
				return
			}
			if n != (note{}) && l.version.since("v1.9.3.239") {
				l.events.Event(svc, n.kind, n.reason, n.message)
			}
			l.queue.Add(cache.MetaObjectToName(svc))
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			svc, ok := o.(*corev1.Service)
			if !ok || l.finalizer != "" || !l.wants(svc) {
				return // a finalizer has made the deletion an update
			}
			name := cache.MetaObjectToName(svc)
			l.mu.Lock()
			l.deleted[name] = svc.DeepCopy()
			l.mu.Unlock()
			l.queue.Add(name)
		},
	}
}

// change reports whether an update queues the Service, and returns the Event about the first difference, if any.
func (l *loop) change(was, svc *corev1.Service) (note, bool) {
	normal := func(reason, what string) (note, bool) {
		return note{corev1.EventTypeNormal, reason, "The service will be updated because the " + what + " has been changed."}, true
	}
	switch {
	case !l.wants(was) && !l.wants(svc):
		return note{}, false
	case l.wants(was) != l.wants(svc):
		if svc.Annotations[annotationClass] != "" {
			return note{}, false
		}
		return note{corev1.EventTypeNormal, reasonTypeChanged, fmt.Sprintf("type change %v - %v", was.Spec.Type, svc.Spec.Type)}, true
	case was.UID != svc.UID:
		return note{}, true
	case !reflect.DeepEqual(was.Annotations, svc.Annotations):
		return normal(reasonAnnotationChanged, "annotations")
	case !reflect.DeepEqual(was.Spec, svc.Spec):
		return normal(reasonSpecChanged, "spec")
	case was.DeletionTimestamp.IsZero() != svc.DeletionTimestamp.IsZero():
		return normal(reasonDeletionTimeChange, "delete timestamp")
	}
	return note{}, false
}

func (l *loop) sliceHandler() cache.ResourceEventHandler {
	wake := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		slice, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			return
		}
		name := slice.Labels[discoveryv1.LabelServiceName]
		if name == "" {
			return
		}
		if svc, err := l.services.Services(slice.Namespace).Get(name); err == nil && l.wants(svc) {
			l.queue.Add(cache.NewObjectName(slice.Namespace, name))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(old, new any) {
			was, slice := old.(*discoveryv1.EndpointSlice), new.(*discoveryv1.EndpointSlice)
			if !reflect.DeepEqual(was.Endpoints, slice.Endpoints) || !reflect.DeepEqual(was.Ports, slice.Ports) {
				wake(slice)
			}
		},
		DeleteFunc: wake,
	}
}

// nodeHandler queues all Services whose backends are nodes when a node joins, leaves, or changes its labels, readiness or schedulability.
func (l *loop) nodeHandler() cache.ResourceEventHandler {
	wake := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if node, ok := o.(*corev1.Node); !ok || l.overlooked(node) {
			return
		}
		all, err := l.services.List(labels.Everything())
		if err != nil {
			l.Log.Error("list services for node", "error", err)
			return
		}
		for _, svc := range all {
			if l.wants(svc) && !l.usesENI(svc) {
				l.queue.Add(cache.MetaObjectToName(svc))
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(old, new any) {
			was, node := old.(*corev1.Node), new.(*corev1.Node)
			if l.overlooked(was) && l.overlooked(node) {
				return
			}
			if !maps.Equal(was.Labels, node.Labels) || was.Spec.Unschedulable != node.Spec.Unschedulable || ready(was) != ready(node) {
				l.wakeEven(wake, was, node)
			}
		},
		DeleteFunc: wake,
	}
}

// wakeEven calls wake for a node that counts or counted before the change.
func (l *loop) wakeEven(wake func(any), was, node *corev1.Node) {
	if l.overlooked(node) {
		node = was
	}
	wake(node)
}

func (l *loop) overlooked(node *corev1.Node) bool {
	_, master := node.Labels[labelMaster]
	return master || ignored(node) || l.version.outside(node)
}

func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionFalse
}
