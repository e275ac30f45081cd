// Package probe shows that failures get through: it makes a harmless one of each class and waits for its outcome in the engine's
// document. Begin with [Prober].
//
// A probe is a Kubernetes Event about event.ProbeService, a Service of its own that is not a load balancer and that the person who
// installs lbremedy creates: no part of lbremedy may create Services. The exporter publishes the Event as a failure of its class, a
// worker takes it, and the run reads policy, Service and namespace and writes its outcome. It ends before the class is asked: a probe
// reads nothing of the cloud and writes nothing. It shows that each part runs, is connected and has the permissions to begin;
// "lbremedy preflight" checks whether a class can read its part of the cloud.
//
// Nobody else can claim that a probe came through. A Prober looks in the document for the Event's UID and resource version, which only
// the API server assigns, and only an engine may write a document. Others can only delay a probe by such Events; the next one counts.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Grants are what a Prober needs, only in its Service's namespace.
var Grants = []grant.Grant{grant.GetServices, grant.CreateEvents}

// Patience is how long a probe may take: it waits for its turn like failures.
const Patience = 2 * time.Minute

// A Prober probes the classes of one cluster.
type Prober struct {
	Cluster   string // ID
	Namespace string // of the Service
	Classes   []string
	Kube      *kube.Cluster
	Writer    *kube.Writer
	Stream    *stream.Stream
	Patience  time.Duration // zero: Patience
}

// A Result is the result of the probe of one class.
type Result struct {
	Class string
	Took  time.Duration // from the created Event to the outcome in the document; zero: not in time
	Err   error         // why it could not be made; nil: it was made
}

// Through reports whether the probe came through.
func (r Result) Through() bool { return r.Took > 0 }

const poll = 250 * time.Millisecond

// Run probes each class once and returns the results in order. It fails if the Service is missing, or the API server or NATS can't be read.
func (p *Prober) Run(ctx context.Context) ([]Result, error) {
	svc, err := p.service(ctx)
	if err != nil {
		return nil, err
	}
	results, sent := make([]Result, len(p.Classes)), map[string]int{} // by the ID of the CloudEvent
	began := make([]time.Time, len(p.Classes))
	for i, class := range p.Classes {
		results[i].Class, began[i] = class, time.Now()
		id, err := p.send(ctx, svc, class)
		if err != nil {
			results[i].Err = err
			continue
		}
		sent[id] = i
	}
	patience := cmp.Or(p.Patience, Patience)
	var unread error
	late := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(in context.Context) (bool, error) {
		if len(sent) > 0 {
			unread = p.settled(in, string(svc.UID), func(id string) {
				if i, ok := sent[id]; ok {
					results[i].Took = time.Since(began[i])
					delete(sent, id)
				}
			})
		}
		return unread == nil && len(sent) == 0, nil
	})
	switch {
	case late == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unread != nil && !errors.Is(unread, context.DeadlineExceeded):
		return nil, unread
	}
	return results, nil
}

// ErrNoService means that the Service for probes is missing or unsuitable.
var ErrNoService = errors.New("nothing can be probed")

func (p *Prober) service(ctx context.Context) (*corev1.Service, error) {
	svc, err := p.Kube.Service(ctx, p.Namespace, event.ProbeService)
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return nil, fmt.Errorf("%w: there is no Service %s/%s: create it with kubectl create service clusterip %[3]s -n %[2]s --clusterip=None", ErrNoService,
			p.Namespace, event.ProbeService)
	case err != nil:
		return nil, fmt.Errorf("read the Service of the probes: %w", err)
	case svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
		return nil, fmt.Errorf("%w: the Service %s/%s is of type LoadBalancer: probes are about one that nobody uses, of type ClusterIP", ErrNoService,
			p.Namespace, event.ProbeService)
	}
	return svc, nil
}

func (p *Prober) send(ctx context.Context, svc *corev1.Service, class string) (string, error) {
	now := metav1.Now()
	made, err := p.Writer.CreateEvent(ctx, corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: fmt.Sprintf("%s.%s.%x", event.ProbeService, class, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Service", APIVersion: "v1", Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID,
		},
		Reason: event.ProbeReason, Type: corev1.EventTypeNormal, Message: event.ProbeMessage(class), Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: event.ProbeComponent}, ReportingController: event.ProbeComponent,
	})
	if err != nil {
		return "", fmt.Errorf("make the probe of %s: %w", class, err)
	}
	return event.Failure{Count: made.Count, Event: event.Reference{UID: made.UID, ResourceVersion: made.ResourceVersion}}.ID(), nil
}

// settled calls see with the ID of the CloudEvent about the Service that each class answered last.
func (p *Prober) settled(ctx context.Context, uid string, see func(id string)) error {
	data, err := p.Stream.Get(ctx, event.StateKey(p.Cluster, uid))
	if errors.Is(err, stream.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which probes were answered: %w", err)
	}
	d, err := event.ReadDocument(data)
	if err != nil {
		return nil // an unreadable document answers nothing
	}
	for _, c := range d.Cases {
		if c.Record == nil {
			continue
		}
		if r := c.Since(*c.Record); r.Phase == event.Settled && r.Result.Settled() {
			see(r.Event)
		}
	}
	return nil
}
