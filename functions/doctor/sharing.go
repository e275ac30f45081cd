package doctor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// This part of the check reuse looks for other Services that use the same load balancer.

// A wish is for a listener. Services that name the same group of a person share it on purpose: they are one party.
type wish struct {
	svc   *corev1.Service
	at    ccm.Listener
	party string
}

// contested reports listeners of a load balancer that several of the Services that name it want, in time linear in their number: anybody can
// create many Services that name one, even one that does not exist.
func contested(r *doctor.Report, id string, sharing []*corev1.Service) {
	all := map[ccm.Listener][]wish{} // by port or range of ports
	for _, svc := range sharing {
		for _, p := range svc.Spec.Ports {
			at := ccm.ListenerOf(svc, p)
			if at.Port == 0 {
				continue // a range that can't be read
			}
			ports := ccm.Listener{Port: at.Port, Last: at.Last}
			if strings.EqualFold(at.Protocol, "udp") { // all other protocols share ports
				ports.Protocol = "udp"
			}
			all[ports] = append(all[ports], wish{svc, at, cmp.Or(ccm.AdoptedGroup(svc, p), name(svc))})
		}
	}
	for _, wishes := range all {
		size, owners, owning := map[string]int{}, map[string]int{}, 0 // by party
		var some []wish                                               // at most shown of a party, so that few are passed over below
		for _, w := range wishes {
			if ccm.OwnsListeners(w.svc) {
				owners[w.party]++
				owning++
			}
			if size[w.party]++; size[w.party] <= shown {
				some = append(some, w)
			}
		}
		for _, w := range wishes {
			var others []string
			for _, o := range some {
				if len(others) == shown {
					break
				}
				if o.party != w.party {
					others = append(others, name(o.svc))
				}
			}
			if len(others) == 0 {
				continue
			}
			severity := doctor.Warning
			text := say.F("Other Services also want the listener %s of %s: %s.", w.at, ccm.Quote(id), say.First(others, len(wishes)-size[w.party]))
			if ccm.OwnsListeners(w.svc) && owning > owners[w.party] {
				severity, text = doctor.Critical, text.And("Those that override its listeners take the listener from each other.")
			} else {
				text = text.And("Only one of them can have the listener.")
			}
			l := reuseLook{report: r, svc: w.svc, id: id}
			l.add(severity, "port/"+strings.ToLower(w.at.String()), text, say.F("Give one of them another port or another load balancer: %s.", set(w.svc, "id")))
		}
	}
}

// listeners looks for other clusters' Services on the same listener ports.
func (l *reuseLook) listeners(b *doctor.LoadBalancer, listeners []ccm.Listener) {
	var names []string
	for _, at := range listeners {
		names = append(names, at.Description)
		t, ok := ccm.ParseTrace(at.Description)
		if mine := ok && t.Cluster == l.Cluster && t.String() == name(l.svc); l.svc.UID == "" && !mine && ccm.OwnsListeners(l.svc) {
			l.replaces(b, at)
		}
		if !ok || t.Cluster == l.Cluster {
			continue
		}
		for _, p := range l.svc.Spec.Ports {
			// Clusters that use the same group of a person share the listener on purpose.
			if want := ccm.ListenerOf(l.svc, p); want.Excludes(at) && (at.Group == "" || at.Group != ccm.AdoptedGroup(l.svc, p)) {
				l.add(doctor.Warning, "port/"+strings.ToLower(want.String())+"/"+t.Cluster,
					say.F("The listener %s of %s belongs to the Service %s of the cluster %s. Only one of the two Services can have it.", at, b.ID, t, t.Cluster),
					say.F("Give one of them another port or another load balancer: %s.", set(l.svc, "id")))
			}
		}
	}
	if b.NLB != nil {
		l.namesakes(b, names)
	}
}

// replaces reports a listener that a manifest with force-override-listeners takes over.
func (l *reuseLook) replaces(b *doctor.LoadBalancer, at ccm.Listener) {
	for _, p := range l.svc.Spec.Ports {
		if at.Excludes(ccm.ListenerOf(l.svc, p)) {
			l.add(doctor.Warning, "replaces/"+strings.ToLower(at.String()),
				say.F("The controller takes over the listener %s of %s: the settings and backends of the Service replace those that it has.", at, b.ID),
				say.F("Use another port, or leave out the annotation force-override-listeners."))
		}
	}
}

// namesakes looks for Services of the same name in other clusters, by names that the controller has set.
func (l *reuseLook) namesakes(b *doctor.LoadBalancer, names []string) {
	var clusters []string
	for _, text := range names {
		if t, ok := ccm.ParseTrace(text); ok && t.Cluster != l.Cluster && t.String() == name(l.svc) {
			clusters = append(clusters, t.Cluster)
		}
	}
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		l.add(doctor.Warning, "name/"+cluster,
			say.F("A Service %s of the cluster %s also uses %s.", name(l.svc), cluster, b.ID).
				And("Clusters that share a load balancer must not have Services with the same namespace and name."),
			say.F("Rename one of them, or give it another load balancer: %s.", set(l.svc, "id")))
	}
}
