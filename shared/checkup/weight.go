package checkup

import "github.com/lbremedy/lbremedy/shared/remedy"

// Releases in which the weights of nodes with the policy Local changed (the Service FAQ
// of ACK: v1.9.3.164-g2105d2e and v1.9.3.276-g372aa98).
var (
	weighed = remedy.Version{Major: 1, Minor: 9, Patch: 3, Build: 164}
	counted = remedy.Version{Major: 1, Minor: 9, Patch: 3, Build: 276}
)

// Weights returns the weight that a release of the controller gives to each node with
// the policy Local, by how many Pods are there: 100 each at first, then the percentage
// of the Pods without its fraction, and since v1.9.3.276 the number of Pods.
func Weights(v remedy.Version, pods map[string]int) map[string]int {
	all := 0
	for _, n := range pods {
		all += n
	}
	out := map[string]int{}
	for node, n := range pods {
		switch {
		case n == 0:
		case v.Before(weighed):
			out[node] = 100
		case v.Before(counted):
			out[node] = max(1, n*100/all)
		default:
			out[node] = min(n, 100)
		}
	}
	return out
}
