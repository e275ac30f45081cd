package noavailablenodes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// A condition is the state of Pods.
type condition struct {
	texts []string // one clause for each Pod
	stuck bool     // at least one won't become ready by itself
	worst string   // the name of such a one, else of the first
}

// health says why Pods are not ready.
func health(pods []corev1.Pod) condition {
	var c condition
	for i := range pods {
		text, stuck := why(&pods[i])
		c.texts = append(c.texts, pods[i].Name+" "+text)
		if c.worst == "" || stuck && !c.stuck {
			c.worst = pods[i].Name
		}
		c.stuck = c.stuck || stuck
	}
	return c
}

// starting are the waiting reasons of containers that are about to start.
var starting = []string{"ContainerCreating", "PodInitializing", ""}

// why says why a Pod is not a ready endpoint, as text that follows its name, and
// whether that lasts.
func why(p *corev1.Pod) (text string, stuck bool) {
	switch {
	case p.DeletionTimestamp != nil:
		return "is about to end", false
	case p.Status.Phase == corev1.PodSucceeded:
		return "has ended", true
	case p.Status.Phase == corev1.PodFailed:
		return "has failed" + reason(p.Status.Reason, p.Status.Message), true
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return "is on no node" + reason(cond.Reason, cond.Message), cond.Reason == corev1.PodReasonUnschedulable
		}
	}
	if p.Spec.NodeName == "" {
		return "is on no node yet", false
	}
	for _, c := range p.Status.InitContainerStatuses {
		if text, stuck := container(c); text != "" && (c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			return "waits for its init container " + c.Name + text, stuck
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if text, stuck := container(c); text != "" {
			return "waits for its container " + c.Name + text, stuck
		}
	}
	for _, g := range p.Spec.ReadinessGates {
		if !met(p, g.ConditionType) {
			return fmt.Sprintf("waits for its readiness gate %s", g.ConditionType), false
		}
	}
	if met(p, corev1.PodReady) {
		return "is ready, and no EndpointSlice says so yet", false
	}
	return "has not said that it is ready", false
}

// container says why a container is not ready; empty if it is.
func container(c corev1.ContainerStatus) (text string, stuck bool) {
	switch s := c.State; {
	case s.Waiting != nil:
		for _, r := range starting {
			if s.Waiting.Reason == r {
				return ", which is starting", false
			}
		}
		return fmt.Sprintf(", which waits%s after %s", reason(s.Waiting.Reason, s.Waiting.Message), ccm.Count(int(c.RestartCount), "restart")), true
	case s.Terminated != nil:
		return fmt.Sprintf(", which ended with exit code %d%s", s.Terminated.ExitCode, reason(s.Terminated.Reason, "")), false
	case !c.Ready && s.Running != nil:
		return ", which runs and fails its readiness probe", false
	}
	return "", false
}

func met(p *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// longest is how much of a message a sentence shows.
const longest = 120

// reason returns a reason and a message in brackets, with a space before them;
// empty if there is neither.
func reason(word, message string) string {
	message = strings.TrimRight(strings.Join(strings.Fields(message), " "), ". ")
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "…"
	}
	switch {
	case word == "" && message == "":
		return ""
	case message == "":
		return " (" + word + ")"
	case word == "":
		return " (" + message + ")"
	}
	return " (" + word + ": " + message + ")"
}
