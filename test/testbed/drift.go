package testbed

import (
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

func redirected(lb *sim.LoadBalancer) {
	l := &lb.Listeners[0]
	if l.Config == nil {
		l.Config = map[string]string{}
	}
	l.Config["ListenerForward"], l.Config["ForwardPort"] = "on", "443"
}

func diverted(lb *sim.LoadBalancer) {
	group := sim.VGroup{ID: "rsp-by-hand-" + lb.ID, Name: "by hand"}
	lb.VGroups = append(lb.VGroups, group)
	lb.Listeners[0].VGroup = group.ID
}

func extended(_ *sim.State, n *sim.NLB) {
	n.Listeners = append(
		n.Listeners,
		sim.NLBListener{
			ID:          "lsn-by-hand-" + n.ID,
			Port:        8080,
			Protocol:    "TCP",
			Status:      "Running",
			Description: "by hand",
			ServerGroup: n.Listeners[0].ServerGroup,
		},
	)
}

func detuned(lb *sim.LoadBalancer) {
	l := &lb.Listeners[0]
	if l.Config == nil {
		l.Config = map[string]string{}
	}
	l.Config["EstablishedTimeout"], l.Config["HealthCheckInterval"] = "10", "50"
}

func detunedNetwork(s *sim.State, n *sim.NLB) {
	l := &n.Listeners[0]
	l.Config["IdleTimeout"] = "900"
	g := s.ServerGroups[l.ServerGroup]
	g.Scheduler, g.Config["HealthCheckConfig.HealthCheckInterval"] = "Rr", "50"
	n.NoCrossZone = true
}

// driftFixtures are Services whose load balancer a person changed in the console long before syncs fail. A fix triggers a sync
// that reverts the change; with these failures the controller fails before it does so.
func driftFixtures() []Fixture {
	web := created(with("protocol-port", "http:80"))
	reused := Fixture{Class: reuse, Says: saysReuse, Ends: event.Asked, repair: annotated("id", "")}
	lost := Fixture{Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true}
	of := func(f Fixture, name, story string, prepare, inject operation) Fixture {
		f.Name, f.Story, f.prepare, f.inject = name, story, prepare, inject
		return f
	}
	again := starts(pods{n: 1})
	back := of(lost, "drifted-lost-group", "Somebody has its listener send elsewhere; later the load balancer loses its tag.",
		created(), inOrder(balancer(diverted), balancer(strayed), again))
	back.repair = retagged
	anew := of(lost, "drifted-lost-redirect", "Somebody has its listener redirect; later the load balancer loses its tag.",
		web, inOrder(balancer(redirected), balancer(strayed), again))
	anew.repair, anew.Config = retagged, Config{Own: "HTTP listeners are made"} // which Unheard rejects
	tuned := with("established-timeout", "600", "health-check-interval", "5")
	tunedNetwork := with("protocol-port", "tcpssl:80", "cert-id", validCert, "idle-timeout", "30", "scheduler", "wlc",
		"health-check-flag", "on", "health-check-interval", "5", "cross-zone-enabled", "on")
	settings := of(lost, "drifted-lost-settings", "Somebody sets other timeouts of its listener; later the load balancer loses its tag.",
		created(tuned), inOrder(balancer(detuned), balancer(strayed), again))
	settings.repair = retagged
	return []Fixture{
		settings,
		of(reused, "drifted-redirect", "Somebody has its HTTP listener redirect; later its own load balancer is written down in its annotations.",
			web, inOrder(balancer(redirected), takesOver(itself))),
		of(reused, "drifted-group", "Somebody has its listener send elsewhere; later its own load balancer is written down in its annotations.",
			created(), inOrder(balancer(diverted), takesOver(itself))),
		of(reused, "drifted-nlb", "Somebody makes another listener on its NLB; later the NLB is written down in its annotations.",
			created(network), inOrder(networkBalancer(extended), takesOver(itself))),
		back, anew,
		of(lost, "drifted-lost-nlb", "Somebody makes another listener on its NLB; later the NLB loses its tag.",
			created(network), inOrder(networkBalancer(extended), networkBalancer(strayedNetwork), again)),
		of(lost, "drifted-lost-nlb-settings", "Somebody sets its NLB's listener and group otherwise; later the NLB loses its tag.",
			created(network, tunedNetwork), inOrder(networkBalancer(detunedNetwork), networkBalancer(strayedNetwork), again)),
	}
}
