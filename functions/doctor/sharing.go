package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// This part of the check reuse looks for other Services that use the same load balancer.

func (l *reuseLook) ports(sharing []*corev1.Service) {
	for _, other := range sharing {
		if other == l.svc {
			continue
		}
		for _, p := range l.svc.Spec.Ports {
			key := ccm.ListenerKey(l.svc, p)
			if !slices.ContainsFunc(other.Spec.Ports, func(q corev1.ServicePort) bool {
				// Services that name the same group of a person share the listener on purpose.
				shared := ccm.AdoptedGroup(l.svc, p)
				return alike(key, ccm.ListenerKey(other, q)) && (shared == "" || shared != ccm.AdoptedGroup(other, q))
			}) {
				continue
			}
			severity := doctor.Warning
			text := say.F("The Services %s and %s both have %s on %s.", name(l.svc), name(other), key, ccm.Quote(l.id))
			if ccm.OwnsListeners(l.svc) && ccm.OwnsListeners(other) {
				severity, text = doctor.Critical, text.And("Both override its listeners and take the listener from each other.")
			} else {
				text = text.And("Only one of them can have the listener.")
			}
			l.add(severity, "port/"+strings.ToLower(key)+"/"+name(other), text,
				say.F("Give one of them another port or another load balancer: %s.", set(l.svc, "id")))
		}
	}
}

// listeners looks for other clusters' Services on the same listener ports.
func (l *reuseLook) listeners(b *doctor.LoadBalancer) {
	var names []string
	for _, at := range standings(b) {
		names = append(names, at.trace)
		t, ok := ccm.ParseTrace(at.trace)
		if mine := ok && t.Cluster == l.Cluster && t.String() == name(l.svc); l.svc.UID == "" && !mine && ccm.OwnsListeners(l.svc) {
			l.replaces(b, at)
		}
		if !ok || t.Cluster == l.Cluster {
			continue
		}
		for _, p := range l.svc.Spec.Ports {
			// Clusters that use the same group of a person share the listener on purpose.
			if key := ccm.ListenerKey(l.svc, p); alike(key, at.key) && (at.group == "" || at.group != ccm.AdoptedGroup(l.svc, p)) {
				l.add(doctor.Warning, "port/"+strings.ToLower(key)+"/"+t.Cluster,
					say.F("The listener %s of %s belongs to the Service %s of the cluster %s. Only one of the two Services can have it.", at.key, b.ID, t, t.Cluster),
					say.F("Give one of them another port or another load balancer: %s.", set(l.svc, "id")))
			}
		}
	}
	if b.NLB != nil {
		l.namesakes(b, names)
	}
}

// replaces reports a listener that a manifest with force-override-listeners takes over.
func (l *reuseLook) replaces(b *doctor.LoadBalancer, at existing) {
	for _, p := range l.svc.Spec.Ports {
		if key := ccm.ListenerKey(l.svc, p); alike(key, at.key) {
			l.add(doctor.Warning, "replaces/"+strings.ToLower(at.key),
				say.F("The controller takes over the listener %s of %s: the settings and backends of the Service replace those that it has.", at.key, b.ID),
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
