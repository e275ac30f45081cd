package ticket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// EventGrants are the permissions of the sink "event", which only the notifier has.
var EventGrants = []grant.Grant{grant.CreateEvents, grant.PatchEvents}

// eventSink writes a Kubernetes Event on the Service, one for each class, replacing the previous one; "kubectl describe service" shows
// it. Its component is not the controller's, so our exporter ignores it.
type eventSink struct {
	to      *kube.Writer
	cluster string
}

var reasons = map[event.Status]string{
	event.NeedsApproval: "LBRemedyNeedsApproval", event.NeedsAction: "LBRemedyNeedsAction", event.Recovered: "LBRemedyRecovered",
	event.Status(event.Failed): "LBRemedyFailed", event.Status(event.Unsettled): "LBRemedyUnsettled", event.Status(event.Planned): "LBRemedyPlanned",
	event.Status(event.Fixed): "LBRemedyFixed", event.Status(event.Synced): "LBRemedySynced", event.Status(event.Undone): "LBRemedyUndone",
	event.Rejected: "LBRemedyRejected",
}

func (e *eventSink) Send(ctx context.Context, t Ticket) (string, error) {
	m, key := t.Facts.Lead, strings.TrimPrefix(t.Key, "lbr-")
	name := m.Service.Name[:min(len(m.Service.Name), 252-len(key))] + "." + key
	if m.Service.Name == "" || m.Service.Kind != "" || m.Cluster != e.cluster {
		return name, nil // not a Service, or another cluster's worker writes it, or nothing is known about the Service any more
	}
	kind := corev1.EventTypeNormal
	if !m.Over && m.Result != event.Planned {
		kind = corev1.EventTypeWarning
	}
	err := e.to.PutEvent(ctx, corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Service.Namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Service", APIVersion: "v1", Namespace: m.Service.Namespace, Name: m.Service.Name, UID: types.UID(m.Service.UID),
		},
		Reason: cmp.Or(reasons[m.Status()], "LBRemedyOver"), Type: kind, Message: t.Text,
		Count: int32(t.Number + 1), FirstTimestamp: metav1.NewTime(m.Since), LastTimestamp: metav1.NewTime(m.At),
		Source: corev1.EventSource{Component: kube.Manager}, ReportingController: kube.Manager, ReportingInstance: kube.Manager,
	})
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return name, nil // the Service was deleted with its namespace
	case errors.Is(err, kube.ErrDenied), errors.Is(err, kube.ErrInvalid):
		return name, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return name, err
}
