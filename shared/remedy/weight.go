package remedy

// Releases at which the controller changed how it weighs the nodes of a Service with
// externalTrafficPolicy Local: v1.9.3.164-g2105d2e and v1.9.3.276-g372aa98.
var (
	weighsPercent = Version{1, 9, 3, 164}
	weighsPods    = Version{1, 9, 3, 276}
)

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
