package doctor

import (
	_ "embed"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed scale.md
var scaleDoc string

// scale looks for numbers beyond what the controller handles well.
var scale = &doctor.Check{
	ID:    "scale",
	Doc:   scaleDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Endpoints},
	Find:  findScale,
}

// Numbers above these are findings. They are this project's own thresholds: we found no
// page of Alibaba Cloud with figures for the controller. The last is what ACK
// states for the mappings between Services and Pods of a Pro cluster with Terway and
// IPvlan: https://www.alibabacloud.com/help/en/ack/product-overview/limits
const (
	mostBalanced  = 500    // Services of type LoadBalancer
	mostEndpoints = 3000   // of one Service
	mostInAll     = 64_000 // endpoints
)

func findScale(s *doctor.Snapshot, r *doctor.Report) {
	services := s.OfType()
	add := func(f doctor.Finding, n, most int, text, do string) {
		if n <= most {
			return
		}
		f.Severity, f.Text, f.Do = doctor.Warning, say.Literal(fmt.Sprintf(text, n, most)), say.Literal(do)
		f.Evidence = map[string]string{"number": fmt.Sprint(n), "threshold": fmt.Sprint(most)}
		r.Add(f)
	}
	add(doctor.Finding{About: s.OfCluster(), Key: "services"}, len(services), mostBalanced,
		"The cluster has %d Services of type LoadBalancer, more than %d: a restart of the controller syncs all of them in full, three at a time.",
		"Put an Ingress before Services that speak HTTP, or spread them over clusters.")
	if err := s.Err(doctor.Endpoints); err != nil {
		r.Unknown(doctor.About{}, fmt.Errorf("how many endpoints there are: %w", err))
		return
	}
	all := 0
	for i := range s.Services {
		svc := &s.Services[i]
		n, of := 0, map[discoveryv1.AddressType]int{}
		for _, slice := range s.Slices[name(svc)] {
			of[slice.AddressType] += len(slice.Endpoints)
			n = max(n, of[slice.AddressType]) // a Pod of both families is one
		}
		all += n
		if doctor.Ours(svc) {
			add(doctor.Finding{About: about(svc), Key: "endpoints"}, n, mostEndpoints,
				"The Service has %d endpoints, more than %d: each change of one is a sync of all its groups.",
				"Split the workload into several Services.")
		}
	}
	add(doctor.Finding{About: s.OfCluster(), Key: "endpoints"}, all, mostInAll,
		"The Services that can be reached from outside have %d endpoints, more than %d: what follows all of them takes long to catch up.",
		"Spread the workloads over clusters, or put an Ingress before them.")
}
