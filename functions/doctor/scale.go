package doctor

import (
	"fmt"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// scale looks for a controller that does not keep up.
var scale = &doctor.Check{
	ID:    "scale",
	Doc:   page("scale"),
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Delays, doctor.Endpoints},
	Find:  findScale,
}

// mostInAll is ACK's limit of mappings between Services and Pods in a Pro cluster with Terway and IPvlan:
// https://www.alibabacloud.com/help/en/ack/product-overview/limits
const mostInAll = 64_000

func findScale(s *doctor.Snapshot, r *doctor.Report) {
	findDelay(s, r)
	if err := s.Err(doctor.Endpoints); err != nil {
		r.Unknown(doctor.About{}, say.Errorf("how many endpoints there are: %w", err), "endpoints")
		return
	}
	all := 0
	for i := range s.Services {
		n, of := 0, map[discoveryv1.AddressType]int{}
		for _, slice := range s.Slices[name(&s.Services[i])] {
			of[slice.AddressType] += len(slice.Endpoints)
			n = max(n, of[slice.AddressType]) // a Pod with addresses of both families counts once
		}
		all += n
	}
	if all > mostInAll {
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: "endpoints",
			Evidence: map[string]string{"number": fmt.Sprint(all), "threshold": fmt.Sprint(mostInAll)},
			Text: say.F("The Services that can be reached from outside have %d endpoints, more than %d.", all, mostInAll).
				And("Programs that watch all of them take long to catch up."),
			Do: say.F("Distribute the workloads over several clusters, or put an Ingress in front of them."),
		})
	}
}

func findDelay(s *doctor.Snapshot, r *doctor.Report) {
	if err := s.Err(doctor.Delays); err != nil {
		r.Unknown(s.OfCluster(), say.Errorf("how long the controller takes to sync a change: %w", err), "delay")
		return
	}
	services := len(s.OfType())
	if len(s.Delays) == 0 {
		return // the list of what was read says why
	}
	sorted := slices.Sorted(slices.Values(s.Delays))
	half, most := sorted[len(sorted)/2], sorted[len(sorted)-1]
	f := doctor.Finding{
		Severity: doctor.Info, About: s.OfCluster(), Key: "delay",
		Evidence: map[string]string{"measured": fmt.Sprint(len(sorted)), "median": seconds(half), "longest": seconds(most), "services": fmt.Sprint(services)},
		Text: say.F("The controller has synced a changed Service after %s at the median, and after %s at most, in %s.",
			duration.HumanDuration(half), duration.HumanDuration(most), say.Count(len(sorted), "measurement")),
		Do: say.F("Nothing needs to be done."),
	}
	// A failed sync is retried after this time at most: a longer delay means waiting behind others.
	if half > ccm.Retry {
		f.Severity = doctor.Warning
		f.Text = f.Text.And("That is longer than the controller waits before it retries a failed sync (%s): it does not keep up with the changes.",
			duration.HumanDuration(ccm.Retry))
		f.Do = say.F("Put an Ingress in front of Services that speak HTTP, or distribute the Services over several clusters.")
	}
	r.Add(f)
}

func seconds(d time.Duration) string { return fmt.Sprint(int(d.Seconds())) }
