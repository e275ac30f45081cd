package step

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Evict evicts a Pod from its node: its owner creates another one, which the scheduler puts elsewhere, and disruption budgets count.
type Evict struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"` // for people
}

// Says describes the step.
func (e Evict) Says() say.Text {
	return say.F("evict the Pod %s/%s from the node %s", e.Namespace, e.Pod, e.Node)
}

// Kind is "evict".
func (Evict) Kind() string { return "evict" }

// Target is all evictions of the namespace, made one at a time.
func (e Evict) Target() string { return "evict/" + e.Namespace }

// Risk is high: the Pod's work ends.
func (Evict) Risk() remedy.Risk { return remedy.High }

// Grants are reading and evicting Pods.
func (Evict) Grants() []grant.Grant { return []grant.Grant{grant.GetPods, grant.EvictPods} }

// Check reads the Pod. Done means that the Pod is gone or terminating.
func (e Evict) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	pod, err := c.Kube.Pod(ctx, e.Namespace, e.Pod)
	if errors.Is(err, kube.ErrNotFound) {
		return remedy.Done, nil
	}
	if err != nil {
		return remedy.Todo, fmt.Errorf("read Pod %s/%s: %w", e.Namespace, e.Pod, err)
	}
	if pod.UID != e.UID || pod.DeletionTimestamp != nil {
		return remedy.Done, nil
	}
	return remedy.Todo, nil
}

// Apply evicts the Pod if it is the one that was read.
func (e Evict) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, e, func() error {
		if err := w.Kube.Evict(ctx, e.Namespace, e.Pod, e.UID); err != nil && !errors.Is(err, kube.ErrNotFound) {
			return err
		}
		return nil
	})
}

// Undo returns no step: the Pod is gone.
func (Evict) Undo() (remedy.Step, bool) { return nil, false }
