package doctor

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ErrNoCluster is why the facts of a cluster are not known where nobody named one.
var ErrNoCluster = errors.New("no cluster was named")

// Facts returns the parts that do not depend on the Services of the cluster: what a
// Service that is not in it yet is compared with.
func Facts(list []Part) []Part {
	return slices.DeleteFunc(closure(list), func(p Part) bool { return slices.Contains(closure([]Part{p}), Services) })
}

// Manifests returns the snapshot of facts with these Services in place of the
// cluster's. Nil facts are those of no cluster.
func Manifests(facts *Snapshot, services []corev1.Service, list []Part) *Snapshot {
	s := &Snapshot{Given: closure(list), Failed: map[Part]error{}}
	if facts != nil {
		kept := *facts
		kept.Given, kept.Failed, s = s.Given, facts.Failed, &kept
	}
	for _, p := range s.Given {
		switch {
		case p == Services:
			delete(s.Failed, p)
		case facts == nil, !slices.Contains(facts.Given, p):
			s.Failed[p] = ErrNoCluster
		}
	}
	s.Services = services
	return s
}
