package ccm

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Releases that changed the weights of nodes in Local mode: v1.9.3.164-g2105d2e and v1.9.3.276-g372aa98.
var (
	weighsPercent = Version{1, 9, 3, 164}
	weighsPods    = Version{1, 9, 3, 276}
)

// sharesWeight is the first release that reads the annotation weight.
var sharesWeight = Version{Major: 2, Patch: 1}

// WeighsPods returns the first release in which a node's weight is the number of its Pods.
func WeighsPods() Version { return weighsPods }

// NodeWeight returns the weight of a node in Local mode: 100 in older releases, then its percentage of the ready Pods, then their number.
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

// OwnWeight returns the total weight that a Service gives its nodes, which lets several clusters share a group, or false. The controller
// reads it if the load balancer and its groups are the user's, and divides it by Pods, at least 1 per node (clbv1/vgroups.go,
// nlbv2/server_groups.go).
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

// LocalWeight returns the weight that a release gives in Local mode to a node with this many ready Pods: its part of OwnWeight, or else [NodeWeight].
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
