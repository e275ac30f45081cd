package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// combinations looks for settings that are valid one by one and wrong together.
var combinations = &doctor.Check{
	ID:       "combinations",
	Doc:      page("combinations"),
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.Controller, doctor.Detail},
	Manifest: true,
	Find: func(s *doctor.Snapshot, r *doctor.Report) {
		for _, svc := range s.OfType() {
			for _, c := range together {
				c.find(svc, func(severity doctor.Severity, key string, text, do say.Text) {
					r.Add(doctor.Finding{Severity: severity, About: about(svc), Key: key, Text: text, Do: do})
				})
			}
			if svc.Annotations[ccm.BackendType] == "eni" {
				podBackends(s, r, svc)
			}
		}
	},
}

func podBackends(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	if err := s.Err(doctor.Detail); err != nil {
		r.Unknown(about(svc), say.Errorf("whether the network plug-in of the cluster gives Pods network interfaces: %w", err))
	} else if s.Detail.Network == "flannel" {
		r.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: ccm.BackendType,
			Text: say.F("Pods are to be the backends, and the cluster has Flannel, whose Pods have no network interfaces: the sync fails."),
			Do:   say.F("Remove the annotation, and nodes are the backends: %s.", remove(svc, ccm.BackendType))})
		return
	}
	if len(ccm.NamedPorts(svc)) == 0 {
		return
	}
	if v, err := versionOf(s); err != nil {
		r.Unknown(about(svc), say.Errorf("whether the controller resolves the names of target ports: %w", err))
	} else if v.Before(ccm.FirstNamedPorts()) {
		r.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: "targetPort",
			Text: say.F("Pods are to be the backends, a target port is a name, and CCM %s sends the number 0 for it: the sync fails.", v),
			Do:   say.F("Use the number of the port, or upgrade the controller to %s or newer.", ccm.FirstNamedPorts())})
	}
}

type combination struct {
	when, then say.Text // for the page
	find       func(svc *corev1.Service, add func(severity doctor.Severity, key string, text, do say.Text))
}

// Combinations returns when each rule applies and what it means, for the page.
func Combinations() (rows [][2]say.Text) {
	for _, c := range together {
		rows = append(rows, [2]say.Text{c.when, c.then})
	}
	return rows
}

func value(svc *corev1.Service, short string) string {
	v, _ := ccm.Annotation(svc, short)
	return v
}

func isOn(svc *corev1.Service, short string) bool { return strings.EqualFold(value(svc, short), "on") }

// together follows the source of v2.14.0: pkg/controller/service/clbv1 and nlbv2.
var together = []combination{
	{
		when: say.F("A setting belongs to listeners of another protocol than the Service has."),
		then: say.F("It has no effect."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			if !ccm.OwnsListeners(svc) {
				return // another rule
			}
			for _, u := range ccm.UnusedSettings(svc) {
				if u.Protocols == nil {
					continue
				}
				of := strings.ToUpper(strings.Join(u.Protocols, ", "))
				do := say.F("Remove it: %s.", drop(svc, u.Name))
				if other, ok := counterparts[u.Name]; ok {
					do = say.F("The protocols of the Service have the annotation %s for this. Remove this one: %s.", other, drop(svc, u.Name))
				} else if value(svc, "protocol-port") == "" {
					do = say.F("Give a port one of these protocols with the annotation protocol-port, for example %s. Or remove the annotation: %s.",
						setTo(svc, "protocol-port", example(svc, u.Protocols)), drop(svc, u.Name))
				}
				add(doctor.Warning, u.Name, say.F("The annotation %s has no effect: it is for listeners with the protocol %s, and the Service has none.", u.Name, of), do)
			}
		},
	},
	{
		when: say.F("A setting needs another annotation that is not on."),
		then: say.F("It has no effect."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			if !ccm.OwnsListeners(svc) {
				return
			}
			for _, u := range ccm.UnusedSettings(svc) {
				if u.With == "" {
					continue
				}
				text := say.F("The annotation %s has no effect: it needs %s with the value on.", u.Name, u.With)
				if strings.HasPrefix(u.Name, "acl-") {
					text = text.And("Every address gets through.")
				}
				add(doctor.Warning, u.Name, text, say.F("Turn it on: %s.", setTo(svc, u.With, "on")))
			}
		},
	},
	{
		when: say.F("A load balancer is reused by id without force-override-listeners, and settings of listeners are given."),
		then: say.F("The controller makes and changes no listener, and the settings have no effect."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			if ccm.OwnsListeners(svc) {
				return
			}
			given := ccm.ListenerSettings(svc)
			if len(given) == 0 {
				return
			}
			add(doctor.Warning, "id", say.F("The Service reuses %s without force-override-listeners, so the controller makes no listener on it, and these "+
				"annotations have no effect: %s.", ccm.Quote(value(svc, "id")), say.List(given, shown)),
				say.F("If the controller may replace the listeners of the load balancer on these ports: %s. "+
					"Otherwise set up the listeners by hand and remove the annotations.", setTo(svc, ccm.ForceOverride, "true")))
		},
	},
	{
		when: say.F("A listener is HTTPS or TCPSSL, and cert-id is missing."),
		then: say.F("The listener can't be made, and every sync fails."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			if !ccm.OwnsListeners(svc) || value(svc, "cert-id") != "" {
				return
			}
			for _, p := range svc.Spec.Ports {
				key := ccm.ListenerKey(svc, p)
				if protocol, _, _ := strings.Cut(key, ":"); slices.Contains([]string{"https", "TCPSSL"}, protocol) {
					add(doctor.Critical, "cert-id", say.F("The listener %s needs a certificate, and the annotation cert-id is missing: the sync fails.", key),
						say.F("Name a certificate of the region: %s.", set(svc, "cert-id")))
					return
				}
			}
		},
	},
	{
		when: say.F("acl-status is on without acl-id or acl-type."),
		then: say.F("The API refuses the listener, and every sync fails."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			for _, name := range []string{"acl-id", "acl-type"} {
				if ccm.OwnsListeners(svc) && !ccm.NLB(svc) && isOn(svc, "acl-status") && value(svc, name) == "" {
					add(doctor.Critical, name, say.F("Access control is on, and the annotation %s is missing: the API refuses the listener.", name),
						say.F("Set it: %s.", set(svc, name)))
				}
			}
		},
	},
	{
		when: say.F("spec.loadBalancerIP is set."),
		then: say.F("The controller never reads it."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			if svc.Spec.LoadBalancerIP == "" {
				return
			}
			text := say.F("The field spec.loadBalancerIP has no effect: the controller never reads it, and the load balancer gets another address.")
			if ccm.NLB(svc) {
				add(doctor.Warning, "loadBalancerIP", text,
					say.F("Name the address of each zone in the annotation zone-maps, as ZONE:VSWITCH:ADDRESS: %s.", set(svc, ccm.ZoneMap)))
				return
			}
			add(doctor.Warning, "loadBalancerIP", text, say.F("For an address of a vSwitch, set the annotation ip: %s. "+
				"For an existing address, name its load balancer: %s.",
				setTo(svc, "ip", svc.Spec.LoadBalancerIP), set(svc, "id")))
		},
	},
	{
		when: say.F("A bandwidth package is named for an NLB with the address type intranet."),
		then: say.F("The package is for public NLBs only."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			if ccm.NLB(svc) && value(svc, "bandwidth-package-id") != "" && strings.EqualFold(value(svc, "address-type"), "intranet") {
				add(doctor.Warning, "bandwidth-package-id", say.F("The annotation bandwidth-package-id is for public NLBs, and the Service asks for a private one."),
					say.F("Remove it: %s. Or make the NLB public: %s.", drop(svc, "bandwidth-package-id"), setTo(svc, "address-type", "internet")))
			}
		},
	},
	{
		when: say.F("zone-maps names one zone, a zone twice, or an EIP where an address belongs."),
		then: say.F("The NLB can't be created."),
		find: func(svc *corev1.Service, add func(doctor.Severity, string, say.Text, say.Text)) {
			zones, whole := ccm.Zones(value(svc, ccm.ZoneMap))
			if !ccm.NLB(svc) || !whole {
				return // the check annotations reports a broken value
			}
			names, eips := map[string]bool{}, []string(nil)
			for _, z := range zones {
				if names[z.Name] {
					add(doctor.Critical, "zone-maps/twice", say.F("The annotation zone-maps names the zone %s twice: the NLB can't be created.", ccm.Quote(z.Name)),
						say.F("Name each zone once, with one vSwitch: %s.", set(svc, ccm.ZoneMap)))
				}
				names[z.Name] = true
				if strings.HasPrefix(z.Address, "eip-") {
					eips = append(eips, z.Address)
				}
			}
			if len(eips) > 0 {
				corrected := value(svc, ccm.ZoneMap)
				for i, eip := range eips {
					corrected, eips[i] = strings.Replace(corrected, ":"+eip, "::"+eip, 1), ccm.Quote(eip)
				}
				add(doctor.Critical, "zone-maps/address", say.F("The annotation zone-maps has an EIP in the place of a private address: %s.", say.List(eips, shown)),
					say.F("Leave the address empty: %s.", setTo(svc, ccm.ZoneMap, corrected)))
			}
			if len(names) == 1 && value(svc, "id") == "" {
				add(doctor.Critical, "zone-maps/one", say.F("The annotation zone-maps names one zone, and an NLB needs two: it can't be created."),
					say.F("Name a vSwitch in each of two zones: %s.", set(svc, ccm.ZoneMap)))
			}
		},
	},
}

var counterparts = map[string]string{
	"health-check-flag": "health-check-switch", "health-check-switch": "health-check-flag",
	"sticky-session": "persistence-timeout", "persistence-timeout": "sticky-session",
	"request-timeout": "established-timeout", "established-timeout": "request-timeout",
	"health-check-timeout": "health-check-connect-timeout", "health-check-connect-timeout": "health-check-timeout",
}

func example(svc *corev1.Service, protocols []string) string {
	port := "443"
	if len(svc.Spec.Ports) > 0 {
		_, port, _ = strings.Cut(ccm.ListenerKey(svc, svc.Spec.Ports[0]), ":")
	}
	return strings.ToLower(protocols[0]) + ":" + port
}
