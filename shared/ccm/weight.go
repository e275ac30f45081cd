package ccm

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Releases at which the controller changed how it weighs the nodes of a Service with
// externalTrafficPolicy Local: v1.9.3.164-g2105d2e and v1.9.3.276-g372aa98.
var (
	weighsPercent = Version{1, 9, 3, 164}
	weighsPods    = Version{1, 9, 3, 276}
)

// sharesWeight is the first release that reads the annotation weight.
var sharesWeight = Version{Major: 2, Patch: 1}

// WeighsPods returns the release from which on a node's weight is the number of its Pods.
func WeighsPods() Version { return weighsPods }

// NodeWeight returns the weight that a release of the controller gives in Local mode
// to a node that holds so many of a Service's ready Pods: 100 whatever it holds, then
// its percentage of them, then their number.
func NodeWeight(v Version, pods, all int) int {
	switch {
	case pods <= 0 || all <= 0:
		return 0
	case v.Before(weighsPercent):
		return 100
	case v.Before(weighsPods):
		return max(1, pods*100/all)
	}
	return pods
}

// OwnWeight returns the weight that a Service says its nodes have together, so that
// several clusters can share a group; false if it says none. The controller reads it where
// the load balancer and its groups are the user's, and shares it out by Pods, each node
// getting 1 at least (clbv1/vgroups.go, nlbv2/server_groups.go).
func OwnWeight(svc *corev1.Service, v Version) (int, bool) {
	id, _ := Annotation(svc, "id")
	groups, _ := Annotation(svc, "vgroup-port")
	text, _ := Annotation(svc, "weight")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100 || id == "" || groups == "" || v.Before(sharesWeight) {
		return 0, false
	}
	return n, true
}

// LocalWeight returns the weight that a release of the controller gives in Local mode to
// a node that holds so many of the Service's ready Pods: its part of what the Service says
// itself, else that of [NodeWeight].
func LocalWeight(svc *corev1.Service, v Version, pods, all int) int {
	own, ok := OwnWeight(svc, v)
	switch {
	case !ok:
		return NodeWeight(v, pods, all)
	case own == 0 || pods <= 0 || all <= 0:
		return 0
	}
	return max(1, own*pods/all)
}
