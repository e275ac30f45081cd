package doctor

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ErrNoCluster says that the parts of a cluster are unknown without a cluster.
var ErrNoCluster = errors.New("no cluster was named")

// afterwards are the parts that a Service has only once it is in the cluster.
var afterwards = []Part{Endpoints, Events, Failures, Guards, Nodes, Rights, Routes}

// ManifestParts returns the parts that the checks read for Services not yet in the cluster.
func ManifestParts(checks []*Check) []Part {
	return slices.DeleteFunc(PartsOf(checks), func(p Part) bool { return slices.Contains(afterwards, p) })
}

// Alone returns a snapshot of Services without a cluster.
func Alone(services []corev1.Service, list []Part) *Snapshot {
	s := &Snapshot{Services: services, Given: closure(list), Failed: map[Part]error{}}
	for _, p := range s.Given {
		if p != Services {
			s.Failed[p] = ErrNoCluster
		}
	}
	return s
}

// apply replaces Services by manifests of the same names, which are examined even if the others could not be read.
func (g *snapshotReader) apply(err error) {
	g.s.Others = err
	g.s.Replaced = map[string]corev1.Service{}
	names := map[string]bool{}
	for i := range g.Manifests {
		names[g.Manifests[i].Namespace+"/"+g.Manifests[i].Name] = true
	}
	kept := slices.Clone(g.Manifests)
	for _, svc := range g.s.Services {
		if name := svc.Namespace + "/" + svc.Name; names[name] {
			g.s.Replaced[name] = svc
		} else {
			kept = append(kept, svc)
		}
	}
	g.s.Services = kept
}

// Planned returns the Services of type LoadBalancer that are new to the cluster or about to be replaced.
func (s *Snapshot) Planned() []*corev1.Service {
	return slices.DeleteFunc(s.OfType(), func(svc *corev1.Service) bool { return svc.UID != "" })
}
