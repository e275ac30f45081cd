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
	add := func(about doctor.About, key string, n, most int, text, do say.Text) {
		if n > most {
			r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: key, Text: text, Do: do,
				Evidence: map[string]string{"number": fmt.Sprint(n), "threshold": fmt.Sprint(most)}})
		}
	}
	add(s.OfCluster(), "services", len(services), mostBalanced,
		say.F("The cluster has %d Services of type LoadBalancer, more than %d.", len(services), mostBalanced).
			And("A restart of the controller syncs all of them in full, three at a time."),
		say.F("Put an Ingress in front of Services that speak HTTP, or distribute the Services over several clusters."))
	if err := s.Err(doctor.Endpoints); err != nil {
		r.Unknown(doctor.About{}, say.Errorf("how many endpoints there are: %w", err))
		return
	}
	all := 0
	for i := range s.Services {
		svc := &s.Services[i]
		n, of := 0, map[discoveryv1.AddressType]int{}
		for _, slice := range s.Slices[name(svc)] {
			of[slice.AddressType] += len(slice.Endpoints)
			n = max(n, of[slice.AddressType]) // a Pod with addresses of both families counts once
		}
		all += n
		if doctor.Ours(svc) {
			add(about(svc), "endpoints", n, mostEndpoints,
				say.F("The Service has %d endpoints, more than %d. Each change of one syncs all its groups.", n, mostEndpoints),
				say.F("Split the workload into several Services."))
		}
	}
	add(s.OfCluster(), "endpoints", all, mostInAll,
		say.F("The Services that can be reached from outside have %d endpoints, more than %d.", all, mostInAll).
			And("Whatever watches all of them takes long to catch up."),
		say.F("Distribute the workloads over several clusters, or put an Ingress in front of them."))
}
