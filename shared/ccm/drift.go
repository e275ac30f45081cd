package ccm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// DriftReads is what Elsewhere reads to compare listeners; a class that calls it declares it.
var DriftReads = []grant.Grant{grant.DescribeLoadBalancerListeners}

// A Difference is one thing that a full sync of a Service would change on its load balancer.
type Difference struct {
	What string   // as in event.Change; empty if nothing is changed
	Text say.Text // a clause with the present and the future value
	// Keep is the annotation that decides it, and Is the value that would keep the present state; both are empty without such an annotation.
	Keep, Is string
	Down     bool // a listener takes no traffic until the sync
	Fails    bool // the sync fails on it and leaves it as it is
	Makes    bool // the sync makes something that does not exist yet
	Cuts     bool // the sync stops traffic that flows now, for good or for a while
	Quiet    bool // nothing is overwritten, or only what is the controller's own
	Unknown  bool // it could not be compared
}

// OwnsListeners reports whether the controller sets the listeners. On a reused load balancer it does so only with force-override-listeners.
func OwnsListeners(svc *corev1.Service) bool {
	id, _ := Annotation(svc, "id")
	force, _ := Annotation(svc, ForceOverride)
	return id == "" || force == "true"
}

// Differences returns what a full sync would change on the Service's load balancer, without the listeners.
func Differences(svc *corev1.Service, lb *Instance) []Difference {
	var drift []Difference
	if id, _ := Annotation(svc, "id"); id != "" && lb.ByController() {
		drift = append(drift, Difference{Text: say.F("the reuse check fails because %s carries a tag of the controller", lb.ID), Fails: true})
	}
	if lb.NLB != nil {
		return append(drift, networkDifferences(svc, lb.NLB)...)
	}
	return append(drift, classicDifferences(svc, lb.CLB)...)
}

func classicDifferences(svc *corev1.Service, lb *cloud.LoadBalancer) []Difference {
	var drift []Difference
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	differ := func(what say.Text, is, short string) {
		if want := value(short); want != "" && is != want {
			drift = append(drift, Difference{
				What: short, Text: say.F("%s is %s and the annotations say %s", what, say.Or(is, "empty"), clipped(want)), Keep: short, Is: is,
				Fails: short == "address-type" || short == "resource-group-id",
			})
		}
	}
	differ(say.F("the address type"), lb.AddressType, "address-type")
	differ(say.F("the resource group"), lb.ResourceGroup, "resource-group-id")
	differ(say.F("the charge type"), lb.ChargeType, ChargeType)
	if lb.ChargeType != PayByLCU { // the controller ignores the spec of these
		differ(say.F("the spec"), lb.Spec, ChargeSpec)
	}
	if lb.AddressType == "internet" { // only these pay for traffic
		differ(say.F("the charge for traffic"), lb.InternetCharge, "charge-type")
		if value("charge-type") == "paybybandwidth" {
			differ(say.F("the bandwidth"), fmt.Sprint(lb.Bandwidth), "bandwidth")
		}
	}
	differ(say.F("the name"), lb.Name, "name")
	// Protection is on by default when a load balancer is made; later it changes only by annotation.
	differ(say.F("deletion protection"), onOff(lb.DeleteProtection), "delete-protection")
	protection := "NonProtection"
	if lb.Protected {
		protection = "ConsoleProtection"
	}
	differ(say.F("modification protection"), protection, "modification-protection")
	return append(drift, tagDrift(svc, lb.Tags)...)
}

func tagsOf(svc *corev1.Service) map[string]string {
	additional, _ := Annotation(svc, "additional-resource-tags")
	listed := map[string]string{}
	for pair := range strings.SplitSeq(additional, ",") {
		if k, v, _ := strings.Cut(pair, "="); strings.TrimSpace(k) != "" {
			listed[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return listed
}

// tagDrift returns the tags that the controller would remove: if the annotation lists tags, all others except its own and the system's.
func tagDrift(svc *corev1.Service, tags map[string]string) []Difference {
	listed := tagsOf(svc)
	if len(listed) == 0 {
		return nil
	}
	var drift []Difference
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if want, ok := listed[k]; ok && want == tags[k] || k == NameTag || k == ClusterTag || k == ReusedTag || strings.HasPrefix(k, "acs:") {
			continue
		}
		drift = append(drift, Difference{What: "tag " + k, Text: say.F("the tag %s=%s is not in the annotation", k, tags[k])})
	}
	return drift
}

// ListenerDifferences returns what a full sync would change on the listeners of the Service's CLB, if the controller sets them.
func ListenerDifferences(svc *corev1.Service, listeners []cloud.Listener, cluster string) []Difference {
	var drift []Difference
	wanted := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		key := ListenerKey(svc, p)
		wanted[key] = true
		i := slices.IndexFunc(listeners, func(l cloud.Listener) bool { return l.Protocol+":"+fmt.Sprint(l.Port) == key })
		if i < 0 {
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("there is no listener %s", key), Down: true, Makes: true})
			continue
		}
		if text := forwards(svc, p, listeners[i]); len(text) > 0 {
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("listener %s %s and would be deleted and recreated", key, text), Cuts: true})
			continue
		}
		if l := listeners[i]; l.Config["ListenerForward"] != "on" { // a listener that redirects is otherwise left alone
			config := map[string]string{"Scheduler": l.Scheduler}
			maps.Copy(config, l.Config)
			drift = append(drift, apart(settings, svc, l.Protocol, config, "listener "+key, "listener "+key)...)
		}
		if listeners[i].Status != "" && listeners[i].Status != "running" {
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("listener %s is %s and would be started", key, listeners[i].Status),
				Down: listeners[i].Status == "stopped"})
		}
	}
	for _, l := range listeners {
		key := l.Protocol + ":" + fmt.Sprint(l.Port)
		if t, ok := ParseTrace(l.Description); ok && t.Of(svc, cluster) && !wanted[key] {
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("listener %s has no port of the Service and would be deleted", key), Cuts: true})
		}
	}
	return drift
}

// forwardOf returns the port to which the annotation forward-port, such as "80:443,88:6443", redirects an HTTP listener; 0 if none.
func forwardOf(svc *corev1.Service, p corev1.ServicePort) int {
	value, _ := Annotation(svc, ForwardPort)
	for pair := range strings.SplitSeq(value, ",") {
		if from, to, ok := strings.Cut(pair, ":"); ok && from == fmt.Sprint(p.Port) {
			n, err := strconv.Atoi(to)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// RedirectsAway returns the ports outside of the Service to which its HTTP ports redirect, unchecked by the controller: others may use them.
func RedirectsAway(svc *corev1.Service) []int {
	if NLB(svc) {
		return nil // only CLBs read the annotation
	}
	var away []int
	for _, p := range svc.Spec.Ports {
		to := forwardOf(svc, p)
		own := slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == to })
		if to != 0 && !own && !slices.Contains(away, to) && strings.HasPrefix(ListenerKey(svc, p), "http:") {
			away = append(away, to)
		}
	}
	return away
}

// forwards says how an HTTP listener's redirect differs from the annotation, for which it is deleted and made anew (clbv1/listeners.go).
func forwards(svc *corev1.Service, p corev1.ServicePort, l cloud.Listener) say.Text {
	is, shown := l.Config["ListenerForward"]
	if l.Protocol != "http" || !shown {
		return nil
	}
	want, to := forwardOf(svc, p), l.Config["ForwardPort"]
	switch {
	case want == 0 && is == "on":
		return say.F("redirects to port %s without an annotation", say.Or(to, "unknown"))
	case want != 0 && is != "on":
		return say.F("does not redirect although the annotations say to port %d", want)
	case want != 0 && to != fmt.Sprint(want):
		return say.F("redirects to port %s although the annotations say to port %d", say.Or(to, "unknown"), want)
	}
	return nil
}

// ListenerKey returns protocol and port of the listener of a Service's port, as the API writes them: "tcp:80" on a CLB, "TCP:80" on an NLB.
func ListenerKey(svc *corev1.Service, p corev1.ServicePort) string {
	value, _ := Annotation(svc, "protocol-port")
	port := fmt.Sprint(p.Port)
	asked := protocolsOf(value)[port]
	if NLB(svc) {
		return strings.ToUpper(cmp.Or(asked, string(p.Protocol))) + ":" + port
	}
	return cmp.Or(asked, strings.ToLower(string(p.Protocol))) + ":" + port
}

// protocolsOf returns the protocol of each port in the annotation protocol-port; the first entry for a port counts, as in the controller.
func protocolsOf(annotation string) map[string]string {
	protocols := map[string]string{}
	for pair := range strings.SplitSeq(annotation, ",") {
		proto, port, ok := strings.Cut(pair, ":")
		port = strings.TrimSpace(port)
		if _, there := protocols[port]; ok && !there {
			protocols[port] = strings.TrimSpace(proto)
		}
	}
	return protocols
}

// differs returns what a full sync would change on the load balancer and its listeners, one clause each, without differences on which it fails.
func (c *View) differs(ctx context.Context, lb *Instance) ([]say.Text, error) {
	list := Differences(c.Service, lb)
	if OwnsListeners(c.Service) {
		read := c.classicListeners
		if lb.NLB != nil {
			read = c.networkListeners
		}
		drift, _, err := read(ctx, lb.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, drift...)
	}
	var out []say.Text
	for _, d := range list {
		if !d.Fails || d.What == "" {
			out = append(out, d.Text)
		}
	}
	return out, nil
}

// clipped quotes a value that is long, or has words that could be taken for the sentence's own.
func clipped(value string) string {
	if len(value) > longest || strings.ContainsFunc(value, unicode.IsSpace) {
		return Quote(value)
	}
	return value
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
