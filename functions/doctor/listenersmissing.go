package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// listenersMissing looks for ports without a listener, and for redirects to such ports.
var listenersMissing = &doctor.Check{
	ID:    "listeners-missing",
	Doc:   page("listeners-missing"),
	Needs: []doctor.Part{doctor.Services, doctor.Listeners},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Groups, doctor.Detail},
	Find:  findListenersMissing,
}

func findListenersMissing(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		owns, away := ccm.OwnsListeners(svc), ccm.RedirectsAway(svc)
		if owns && len(away) == 0 {
			continue // the controller creates them
		}
		b, err := s.Balancer(svc)
		if err == nil && b != nil {
			err = b.Err(doctor.Listeners)
		}
		switch {
		case err != nil:
			r.Unknown(about(svc), err)
		case b == nil:
		case owns:
			if none := slices.DeleteFunc(away, func(port int) bool { return answers(s, b, port) }); len(none) > 0 {
				r.Add(nowhere(svc, b, none))
			}
		default:
			missing(s, r, svc, b)
		}
	}
}

// answers reports whether a redirect can lead to a port of a CLB: it has a listener, or a Service for which the controller creates one.
func answers(s *doctor.Snapshot, b *doctor.LoadBalancer, port int) bool {
	if slices.ContainsFunc(b.Listeners, func(l cloud.Listener) bool { return l.Port == port && l.Protocol != "udp" }) {
		return true
	}
	return slices.ContainsFunc(s.OfType(), func(svc *corev1.Service) bool {
		other, err := s.Balancer(svc)
		return err == nil && other == b && ccm.OwnsListeners(svc) && serves(svc, port)
	})
}

func serves(svc *corev1.Service, port int) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == port && p.Protocol != corev1.ProtocolUDP })
}

func nowhere(svc *corev1.Service, b *doctor.LoadBalancer, ports []int) doctor.Finding {
	value, _ := ccm.Annotation(svc, ccm.ForwardPort)
	return doctor.Finding{Severity: doctor.Warning, About: about(svc), Key: "redirect", Evidence: map[string]string{"load balancer": b.ID, "value": cut(value)},
		Text: say.F("The annotation %s redirects to %s that neither the Service nor its load balancer %s has: %s.",
			ccm.ForwardPort, say.Count(len(ports), "port"), b.ID, numbers(ports)).
			And("Clients that follow the redirect reach nothing there."),
		Do: say.F("Add the port to the Service, with https in the annotation protocol-port, or redirect to a port that has an HTTPS listener: %s.",
			set(svc, ccm.ForwardPort))}
}

func numbers(ports []int) say.Text {
	var list []string
	for _, port := range ports {
		list = append(list, strconv.Itoa(port))
	}
	return say.List(list, shown)
}

func listenersOf(b *doctor.LoadBalancer) ([]ccm.Listener, error) {
	var list []ccm.Listener
	for _, l := range b.Listeners {
		list = append(list, ccm.ClassicListener(l))
	}
	for _, l := range b.NetworkListeners {
		of, err := ccm.NetworkListener(l)
		if err != nil {
			return nil, err
		}
		list = append(list, of)
	}
	return list, nil
}

// on returns the listener of a port, otherwise one that excludes it, or nil.
func on(listeners []ccm.Listener, want ccm.Listener) *ccm.Listener {
	for _, fits := range []func(ccm.Listener) bool{
		func(l ccm.Listener) bool { return l.String() == want.String() },
		want.Excludes,
	} {
		if i := slices.IndexFunc(listeners, fits); i >= 0 {
			return &listeners[i]
		}
	}
	return nil
}

func missing(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	listeners, err := listenersOf(b)
	if err != nil {
		r.Unknown(about(svc), err)
		return
	}
	idle := ccm.IdlePorts(svc, listeners)
	ranges, _ := ccm.Annotation(svc, ccm.PortRange)
	override := say.F("Or let the controller set the listeners: %s.", ccm.SetCommand(svc, ccm.ForceOverride, "true"))
	if replaced := overridden(s, svc, b, listeners); len(replaced) > 0 {
		override = override.And("This replaces what is there now: %s.", say.Clauses(replaced, shown))
	} else {
		override = override.And("There is nothing that this would replace.")
	}
	var lacks, groups []string
	for _, p := range svc.Spec.Ports {
		if i := slices.IndexFunc(idle, func(g ccm.IdlePort) bool { return g.Port == p }); i >= 0 && !idle[i].There {
			if ranges == "" {
				lacks = append(lacks, idle[i].Key)
				groups = append(groups, groupFor(s, svc, p))
			}
			continue
		}
		want := ccm.ListenerOf(svc, p)
		if at := on(listeners, want); at != nil && want.Port == want.Last {
			leads(s, r, svc, b, p, at, override)
		}
	}
	if len(lacks) == 0 {
		return
	}
	ports := strings.Join(lacks, ", ")
	r.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Evidence: map[string]string{"load balancer": b.ID, "address": b.Address, "ports": ports},
		Text: say.F("The reused %s has no listener for %s of the Service, so no traffic arrives there.", b.ID, ports).
			And(`Without force-override-listeners: "true", the controller creates none.`),
		Do: say.F("Create each missing listener in the console, with the group of the Service (%s).", strings.Join(groups, ", ")).Then(override)})
}

func leads(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer, p corev1.ServicePort, at *ccm.Listener, override say.Text) {
	if at.Redirects {
		return // the listener's owner decides
	}
	_, g, err := s.Group(svc, b, p)
	if err != nil {
		r.Unknown(about(svc), say.Errorf("where the listener %s sends to: %w", at.String(), err))
		return
	}
	f := doctor.Finding{Severity: doctor.Warning, About: about(svc), Key: "elsewhere/" + at.String(),
		Evidence: map[string]string{"load balancer": b.ID, "listener": at.String(), "sends to": at.Group}}
	f.Text = say.F("The listener %s of the reused %s sends to the group %s.", at.String(), b.ID, at.Group)
	if at.Group == "" {
		f.Text = say.F("The listener %s of the reused %s sends to no vServer group.", at.String(), b.ID)
	}
	switch {
	case g == nil && !ccm.Synced(svc):
		return // the first sync creates the group
	case g == nil:
		f.Text = f.Text.And("The Service has no group there (%s), so the traffic does not reach it.", groupFor(s, svc, p))
		f.Do = say.F("If the port is meant for the Service, trigger a resync, which creates the group: %s.", ccm.ResyncCommand(svc)).
			And("Then make the listener use the group in the console.").Then(override)
	case g.Rules > 0 || at.Group == g.ID && !strings.EqualFold(at.Status, "stopped"):
		return
	case at.Group == g.ID:
		f.Key = "stopped/" + at.String()
		f.Text = say.F("The listener %s of the reused %s is stopped, so no traffic arrives there.", at.String(), b.ID).
			And(`Without force-override-listeners: "true", the controller does not start it.`)
		f.Do = say.F("If the port should serve traffic, start the listener in the console.").Then(override)
	default:
		f.Evidence["group of the Service"] = g.ID
		f.Text = f.Text.And("The group of the Service is %s (%s), so the traffic does not reach it.", g.ID, g.Name)
		f.Do = say.F("If the port is meant for the Service, make the listener use %s in the console.", g.ID).Then(override)
	}
	r.Add(f)
}

func groupFor(s *doctor.Snapshot, svc *corev1.Service, p corev1.ServicePort) string {
	if id := ccm.AdoptedGroup(svc, p); id != "" {
		return id
	}
	if s.Err(doctor.Detail) != nil {
		return fmt.Sprintf("k8s/…/%s/%s/%s", svc.Name, svc.Namespace, s.Cluster)
	}
	return ccm.GroupName(svc, p, s.Mode(svc), s.Cluster)
}

func overridden(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer, listeners []ccm.Listener) []say.Text {
	var list []say.Text
	for _, l := range listeners {
		if !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return l.Excludes(ccm.ListenerOf(svc, p)) }) {
			continue
		}
		switch t, ok := ccm.ParseTrace(l.Description); {
		case !ok && l.Group == "":
			list = append(list, say.F("%s, which was created by hand and sends to no vServer group", l))
		case !ok:
			list = append(list, say.F("%s, which was created by hand and sends to %s", l, l.Group))
		case !t.Of(svc, s.Cluster):
			list = append(list, say.F("%s of the Service %s of the cluster %s", l, t, t.Cluster))
		}
	}
	for _, d := range listenerDrift(s, svc, b) {
		if !d.Down {
			list = append(list, say.F("%s", d.Text))
		}
	}
	return list
}

func listenerDrift(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) []ccm.Difference {
	if b.NLB != nil {
		return ccm.NetworkListenerDifferences(svc, b.NetworkListeners, s.Cluster)
	}
	return ccm.ListenerDifferences(svc, b.Listeners, s.Cluster)
}
