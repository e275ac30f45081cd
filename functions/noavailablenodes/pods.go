package noavailablenodes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A condition summarizes Pods of which none is ready.
type condition struct {
	reasons []say.Text // one clause for each Pod
	stuck   bool       // at least one Pod does not become ready without a person
	worst   string     // the name of such a Pod, otherwise of the first
}

func health(pods []corev1.Pod) condition {
	var c condition
	for i := range pods {
		reason, stuck := why(&pods[i])
		c.reasons = append(c.reasons, reason)
		if c.worst == "" || stuck && !c.stuck {
			c.worst = pods[i].Name
		}
		c.stuck = c.stuck || stuck
	}
	return c
}

// why says, as a clause, why a Pod is not a ready endpoint, and whether that lasts.
func why(p *corev1.Pod) (reason say.Text, stuck bool) {
	switch {
	case p.DeletionTimestamp != nil:
		return say.F("%s is terminating", p.Name), false
	case p.Status.Phase == corev1.PodSucceeded:
		return say.F("%s has completed", p.Name), true
	case p.Status.Phase == corev1.PodFailed:
		return say.F("%s has failed%s", p.Name, brackets(p.Status.Reason, p.Status.Message)), true
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return say.F("%s is not scheduled%s", p.Name, brackets(cond.Reason, cond.Message)), cond.Reason == corev1.PodReasonUnschedulable
		}
	}
	if p.Spec.NodeName == "" {
		return say.F("%s is not scheduled yet", p.Name), false
	}
	for _, c := range p.Status.InitContainerStatuses {
		if state, stuck := container(c); len(state) > 0 && (c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			return say.F("%s waits for its init container %s: %s", p.Name, c.Name, state), stuck
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if state, stuck := container(c); len(state) > 0 {
			return say.F("%s waits for its container %s: %s", p.Name, c.Name, state), stuck
		}
	}
	for _, g := range p.Spec.ReadinessGates {
		if !met(p, g.ConditionType) {
			return say.F("%s waits for its readiness gate %s", p.Name, g.ConditionType), false
		}
	}
	if met(p, corev1.PodReady) {
		return say.F("%s is ready, but no EndpointSlice shows it yet", p.Name), false
	}
	return say.F("%s has not reported that it is ready", p.Name), false
}

// starting are the reasons of containers that only wait for a short time.
var starting = []string{"ContainerCreating", "PodInitializing", ""}

// container says why a container is not ready; nothing if it is.
func container(c corev1.ContainerStatus) (state say.Text, stuck bool) {
	switch s := c.State; {
	case s.Waiting != nil && slices.Contains(starting, s.Waiting.Reason):
		return say.F("it is starting"), false
	case s.Waiting != nil:
		return say.F("it is waiting%s after %s", brackets(s.Waiting.Reason, s.Waiting.Message), say.Count(int(c.RestartCount), "restart")), true
	case s.Terminated != nil:
		return say.F("it exited with code %d%s", s.Terminated.ExitCode, brackets(s.Terminated.Reason, "")), false
	case !c.Ready && s.Running != nil:
		return say.F("it is running but fails its readiness probe"), false
	}
	return nil, false
}

func met(p *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// longest is the part of a message that a sentence shows, in bytes.
const longest = 120

// brackets returns a reason and a message in brackets, with a space before them; empty if there is
// neither.
func brackets(reason, message string) string {
	message = strings.TrimRight(strings.Join(strings.Fields(message), " "), ". ")
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "…"
	}
	if text := strings.Trim(reason+": "+message, ": "); text != "" {
		return " (" + text + ")"
	}
	return ""
}
