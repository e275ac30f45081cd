package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// An Unused is an annotation that has no effect together with the rest of the Service.
type Unused struct {
	Name      string   // short
	Protocols []string // the protocols whose listeners have the setting, none of them the Service's; nil: With is the reason
	With      string   // the annotation that has to be "on" for it
}

// UnusedSettings returns the annotations that have no effect on listeners or groups: the controller sends a setting only for listeners of
// its protocols, and some only together with another annotation (clbv1/listeners.go, nlbv2/listeners.go and server_groups.go).
func UnusedSettings(svc *corev1.Service) []Unused {
	var has []string
	for _, p := range svc.Spec.Ports {
		protocol, _, _ := strings.Cut(ListenerKey(svc, p), ":")
		has = append(has, protocol)
	}
	list := settings
	if NLB(svc) {
		list = slices.Concat(networkSettings, groupSettings)
	}
	// Listeners of HTTP and HTTPS check health only if health-check-flag is on (setDefaultValueForListener in clbv1/listeners.go).
	flag, _ := Annotation(svc, "health-check-flag")
	unchecked := !NLB(svc) && flag != "on" && len(has) > 0 && !slices.ContainsFunc(has, func(p string) bool { return p != "http" && p != "https" })
	var out []Unused
	for _, s := range list {
		if value, _ := Annotation(svc, s.short); value == "" {
			continue
		}
		of := strings.Fields(s.of)
		lacks := func(p string) bool { return !slices.Contains(has, p) }
		switch on, _ := Annotation(svc, s.with); {
		case s.short == "health-check-type" && !NLB(svc) && slices.ContainsFunc(has, func(p string) bool { return strings.HasPrefix(p, "http") }):
			// HTTP listeners always check in that way.
		case len(has) > 0 && len(of) > 0 && !slices.ContainsFunc(of, func(p string) bool { return !lacks(p) }):
			out = append(out, Unused{Name: s.short, Protocols: of})
		case unchecked && s.short != "health-check-flag" && (strings.HasPrefix(s.short, "health") || s.short == "unhealthy-threshold"):
			out = append(out, Unused{Name: s.short, With: "health-check-flag"})
		case s.with != "" && !strings.EqualFold(on, "on"):
			out = append(out, Unused{Name: s.short, With: s.with})
		}
	}
	return out
}

// ListenerSettings returns the short names of a Service's annotations about its listeners, in the order of the tables.
func ListenerSettings(svc *corev1.Service) []string {
	list := settings
	if NLB(svc) {
		list = networkSettings
	}
	var out []string
	for _, name := range []string{"protocol-port", ForwardPort} {
		if value, _ := Annotation(svc, name); value != "" {
			out = append(out, name)
		}
	}
	for _, s := range list {
		if value, _ := Annotation(svc, s.short); value != "" {
			out = append(out, s.short)
		}
	}
	return out
}
