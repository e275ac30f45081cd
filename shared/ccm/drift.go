package ccm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// DriftReads is what telling the differences of listeners reads. A class that calls
// Elsewhere declares it.
var DriftReads = []grant.Grant{grant.DescribeLoadBalancerListeners}

// A Difference is one thing that a full sync of a Service would change on its load
// balancer.
type Difference struct {
	What string   // as in event.Change; empty: nothing is changed
	Text say.Text // a clause: what it is, and what it would be
	// Keep and Is are the short name of the annotation that decides it and the value
	// that would keep what is there; empty if there is no such annotation.
	Keep, Is string
	Down     bool // until the sync a listener takes no traffic
	Fails    bool // no sync changes it: it fails
	Makes    bool // what is not there is made
	Cuts     bool // what takes traffic now takes none any more, for good or for a while
	Quiet    bool // what is there is not overwritten, or is the controller's own
	Unknown  bool // it could not be compared
}

// OwnsListeners reports whether the controller sets the listeners of the Service's
// load balancer: without force-override it leaves those of one that is reused alone.
func OwnsListeners(svc *corev1.Service) bool {
	id, _ := Annotation(svc, "id")
	force, _ := Annotation(svc, ForceOverride)
	return id == "" || force == "true"
}

// Differences returns what a full sync of the Service would change on its load
// balancer, of either kind, but for its listeners.
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
	if lb.ChargeType != PayByLCU { // the controller leaves the spec of these alone
		differ(say.F("the spec"), lb.Spec, ChargeSpec)
	}
	if lb.AddressType == "internet" { // no other pays for its traffic
		differ(say.F("the charge for traffic"), lb.InternetCharge, "charge-type")
		if value("charge-type") == "paybybandwidth" {
			differ(say.F("the bandwidth"), fmt.Sprint(lb.Bandwidth), "bandwidth")
		}
	}
	differ(say.F("the name"), lb.Name, "name")
	// What protects a load balancer is on by default when it is made, and left
	// alone after that unless an annotation says how it is to be.
	differ(say.F("deletion protection"), onOff(lb.DeleteProtection), "delete-protection")
	protection := "NonProtection"
	if lb.Protected {
		protection = "ConsoleProtection"
	}
	differ(say.F("modification protection"), protection, "modification-protection")
	return append(drift, tagDrift(svc, lb.Tags)...)
}

// tagsOf returns the tags that an annotation says the load balancer is to have.
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

// tagDrift returns the tags that the controller would take away: with additional
// tags annotated, it removes all that are not listed but its own and the system's.
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

// ListenerDifferences returns what a full sync of the Service of this cluster would
// change on the listeners of its CLB, if it sets them.
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
		if l := listeners[i]; l.Config["ListenerForward"] != "on" { // one that redirects is left alone otherwise
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

// forwardOf returns where the annotation forward-port, such as "80:443,88:6443", has an HTTP
// listener redirect to; 0 if it says nothing of the port.
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

// RedirectsAway returns the ports that HTTP ports of the Service redirect to and that are not its own, each once. The controller passes
// them on as they are: a listener there may be another Service's, or a person's.
func RedirectsAway(svc *corev1.Service) []int {
	if NLB(svc) {
		return nil // the annotation is for CLBs
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

// forwards returns how an HTTP listener redirects in another way than the annotation says,
// as the end of a clause; empty if it doesn't. That can't be changed: v2.14.0 deletes the
// listener and makes it anew (clbv1/listeners.go).
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

// ListenerKey returns which listener a port of the Service has, protocol and port as
// they stand in the API: "tcp:80" of a CLB, "TCP:80" of an NLB.
func ListenerKey(svc *corev1.Service, p corev1.ServicePort) string {
	value, _ := Annotation(svc, "protocol-port")
	port := fmt.Sprint(p.Port)
	asked := protocolsOf(value)[port]
	if NLB(svc) {
		return strings.ToUpper(cmp.Or(asked, string(p.Protocol))) + ":" + port
	}
	return cmp.Or(asked, strings.ToLower(string(p.Protocol))) + ":" + port
}

// protocolsOf reads an annotation such as "https:443,http:80": port to protocol.
func protocolsOf(annotation string) map[string]string {
	protocols := map[string]string{}
	for pair := range strings.SplitSeq(annotation, ",") {
		proto, port, ok := strings.Cut(pair, ":")
		if ok {
			protocols[strings.TrimSpace(port)] = strings.TrimSpace(proto)
		}
	}
	return protocols
}

// differs returns what a full sync would change on the load balancer, of either kind, and
// on its listeners, one clause each, without what it fails on.
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

// clipped returns a value as it is, and one that is too long for a sentence cut and
// in quotes.
func clipped(value string) string {
	if len(value) > longest {
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
