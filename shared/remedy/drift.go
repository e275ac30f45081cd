package remedy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// DriftReads is what Drift reads. A class that calls it declares it.
var DriftReads = []grant.Grant{grant.DescribeLoadBalancerListeners}

// Drift returns what a full sync of the Service would change on its load
// balancer, one clause each. A touch is such a sync: it puts changes that were
// made in the console back to what the annotations say, and runs checks that
// backend-only syncs skip; what no annotation says it leaves alone
// (pkg/controller/service/clbv1/loadbalancer.go, Update). A class that touches a
// Service which was synced before looks here first, and says what it finds.
func (c *Case) Drift(ctx context.Context, lb *cloud.LoadBalancer) ([]string, error) {
	var drift []string
	differ := func(what, is, want string) {
		if want != "" && is != want {
			drift = append(drift, fmt.Sprintf("%s is %s and the annotations say %s", what, or(is, "empty"), clipped(want)))
		}
	}
	svc := c.Service
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	reused := value("id") != ""
	if reused && (lb.Tags[NameTag] != "" || lb.Tags[ClusterTag] != "") {
		drift = append(drift, fmt.Sprintf("the reuse check fails, because %s carries a tag of the controller", lb.ID))
	}
	differ("the address type", lb.AddressType, value("address-type"))
	differ("the resource group", lb.ResourceGroup, value("resource-group-id"))
	differ("the charge type", lb.ChargeType, value("instance-charge-type"))
	if lb.ChargeType != "PayByCLCU" { // the controller leaves the spec of these alone
		differ("the spec", lb.Spec, value("spec"))
	}
	if lb.AddressType == "internet" { // no other pays for its traffic
		charge := value("charge-type")
		differ("the charge for traffic", lb.InternetCharge, charge)
		if charge == "paybybandwidth" {
			differ("the bandwidth", fmt.Sprint(lb.Bandwidth), value("bandwidth"))
		}
	}
	differ("the name", lb.Name, value("name"))
	// What protects a load balancer is on by default when it is made, and left
	// alone after that unless an annotation says how it is to be.
	differ("deletion protection", onOff(lb.DeleteProtection), value("delete-protection"))
	protection := "NonProtection"
	if lb.Protected {
		protection = "ConsoleProtection"
	}
	differ("modification protection", protection, value("modification-protection"))
	drift = append(drift, tagDrift(lb, value("additional-resource-tags"))...)

	// Without force-override the controller leaves the listeners of a reused LB alone.
	if reused && value("force-override-listeners") != "true" {
		return drift, nil
	}
	listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	return append(drift, c.listenerDrift(listeners, value)...), nil
}

// tagDrift returns the tags that the controller would take away: with additional
// tags annotated, it removes all that are not listed but its own and the system's.
func tagDrift(lb *cloud.LoadBalancer, additional string) []string {
	if additional == "" {
		return nil
	}
	listed := map[string]string{}
	for _, pair := range strings.Split(additional, ",") {
		k, v, _ := strings.Cut(pair, "=")
		listed[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	var drift []string
	for k, v := range lb.Tags {
		if want, ok := listed[k]; ok && want == v || k == NameTag || k == ClusterTag || k == ReusedTag || strings.HasPrefix(k, "acs:") {
			continue
		}
		drift = append(drift, fmt.Sprintf("the tag %s=%s is not in the annotation", k, v))
	}
	slices.Sort(drift)
	return drift
}

// listenerDrift compares the Service's ports with the listeners of its load balancer.
func (c *Case) listenerDrift(listeners []cloud.Listener, value func(string) string) []string {
	svc := c.Service
	protocols := protocolsOf(value("protocol-port"))
	var drift []string
	wanted := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		port := fmt.Sprint(p.Port)
		proto := or(protocols[port], strings.ToLower(string(p.Protocol)))
		key := proto + ":" + port
		wanted[key] = true
		i := slices.IndexFunc(listeners, func(l cloud.Listener) bool { return l.Protocol+":"+fmt.Sprint(l.Port) == key })
		if i < 0 {
			drift = append(drift, fmt.Sprintf("there is no listener %s", key))
			continue
		}
		if want := value("scheduler"); want != "" && listeners[i].Scheduler != want {
			drift = append(drift, fmt.Sprintf("the scheduler of listener %s is %s and the annotations say %s", key, listeners[i].Scheduler, clipped(want)))
		}
		for _, of := range settings {
			if is, want, ok := of.differs(listeners[i], value); ok {
				drift = append(drift, fmt.Sprintf("%s of listener %s is %s and the annotations say %s", of.name, key, or(is, "empty"), clipped(want)))
			}
		}
		if listeners[i].Status != "" && listeners[i].Status != "running" {
			drift = append(drift, fmt.Sprintf("listener %s is %s and would be started", key, listeners[i].Status))
		}
	}
	for _, l := range listeners {
		key := l.Protocol + ":" + fmt.Sprint(l.Port)
		if t, ok := ParseTrace(l.Description); ok && t.Of(svc, c.Event.Cluster) && !wanted[key] {
			drift = append(drift, fmt.Sprintf("listener %s has no port of the Service and would be deleted", key))
		}
	}
	return drift
}

// A setting of listeners, which an annotation asks for.
type setting struct {
	short string // of the annotation
	name  string // in the API
	for7  bool   // counts for HTTP and HTTPS only
	with  string // short name of the annotation that has to be "on"; empty: none
}

// settings are what a full sync sets on listeners by annotations of one value
// (pkg/controller/service/clbv1/listeners.go). Which protocol has which of them
// shows in what the API says of a listener.
var settings = []setting{
	{short: "persistence-timeout", name: "PersistenceTimeout"},
	{short: "established-timeout", name: "EstablishedTimeout"},
	{short: "idle-timeout", name: "IdleTimeout"},
	{short: "request-timeout", name: "RequestTimeout"},
	{short: "cert-id", name: "ServerCertificateId"},
	{short: "tls-cipher-policy", name: "TLSCipherPolicy"},
	{short: "http2-enabled", name: "EnableHttp2"},
	{short: "acl-status", name: "AclStatus"},
	{short: "acl-type", name: "AclType", with: "acl-status"},
	{short: "acl-id", name: "AclId", with: "acl-status"},
	{short: "connection-drain", name: "ConnectionDrain"},
	{short: "connection-drain-timeout", name: "ConnectionDrainTimeout", with: "connection-drain"},
	{short: "sticky-session", name: "StickySession", for7: true},
	{short: "sticky-session-type", name: "StickySessionType", for7: true, with: "sticky-session"},
	{short: "cookie", name: "Cookie", for7: true, with: "sticky-session"},
	{short: "cookie-timeout", name: "CookieTimeout", for7: true, with: "sticky-session"},
	{short: "health-check-flag", name: "HealthCheck", for7: true},
	{short: "health-check-switch", name: "HealthCheckSwitch"},
	{short: "health-check-type", name: "HealthCheckType"},
	{short: "health-check-method", name: "HealthCheckMethod"},
	{short: "health-check-uri", name: "HealthCheckURI"},
	{short: "health-check-domain", name: "HealthCheckDomain"},
	{short: "health-check-httpcode", name: "HealthCheckHttpCode"},
	{short: "health-check-connect-port", name: "HealthCheckConnectPort"},
	{short: "health-check-connect-timeout", name: "HealthCheckConnectTimeout"},
	{short: "health-check-timeout", name: "HealthCheckTimeout"},
	{short: "health-check-interval", name: "HealthCheckInterval"},
	{short: "healthy-threshold", name: "HealthyThreshold"},
	{short: "unhealthy-threshold", name: "UnhealthyThreshold"},
}

// differs returns what a listener has and what is asked for, and whether a full
// sync would change it. What is no number where one is wanted fails the sync, and
// a setting that the API does not show is not compared.
func (s setting) differs(l cloud.Listener, value func(string) string) (is, want string, ok bool) {
	want = value(s.short)
	is, shown := l.Config[s.name]
	switch {
	case want == "" || !shown || is == want:
	case s.with != "" && value(s.with) != "on":
	case s.for7 && l.Protocol != "http" && l.Protocol != "https":
	default:
		if _, err := strconv.Atoi(is); err == nil {
			n, err := strconv.Atoi(want)
			return is, want, err == nil && strconv.Itoa(n) != is && (n != 0 || s.name == "PersistenceTimeout") // 0 is none
		}
		return is, want, true
	}
	return "", "", false
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

// WithDrift returns the plan with what the full sync that follows it would also
// change on the Service's load balancer: that stands in its note, and makes its
// risk high. A Service that was never synced has nothing that such a sync would
// overwrite. What the plan's own steps write is not compared, and neither is what
// no sync ever changes, but fails on: those are failures of their own. It needs
// DriftReads, or NetworkReads for an NLB.
func (c *Case) WithDrift(ctx context.Context, lb *Instance, p Plan) (Plan, error) {
	if !Synced(c.Service) {
		return p, nil
	}
	after, err := c.after(p.Steps)
	if err != nil {
		return Plan{}, err
	}
	drift, err := after.differs(ctx, lb)
	if err != nil {
		return Plan{}, err
	}
	if len(drift) > 0 {
		p.Risk = High
		p.Note = join(p.Note, fmt.Sprintf("The full sync that follows also changes what differs now on %s: %s.", lb.ID, strings.Join(drift, "; ")))
	}
	return p, nil
}

// WithBoundDrift returns the plan with what WithDrift says of the load balancer that
// Bound finds. Where there is none it can't be told, which the note says and makes
// the risk high. It needs what both need.
func (c *Case) WithBoundDrift(ctx context.Context, p Plan) (Plan, error) {
	if !Synced(c.Service) {
		return p, nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return Plan{}, err
	}
	if lb == nil {
		p.Risk = High
		p.Note = join(p.Note, "The Service's load balancer was not found, so that what the full sync would change on it can't be told.")
		return p, nil
	}
	return c.WithDrift(ctx, lb, p)
}

// differs returns what a full sync would change on the load balancer, of either
// kind, without what it fails on. It may change the annotations of the case.
func (c *Case) differs(ctx context.Context, lb *Instance) ([]string, error) {
	fixed := []string{"resource-group-id"}
	if lb.CLB != nil {
		fixed = append(fixed, "address-type") // an NLB's can be changed, and would be
	}
	for _, name := range fixed {
		delete(c.Service.Annotations, Prefix+name)
		delete(c.Service.Annotations, LegacyPrefix+name)
	}
	if lb.NLB != nil {
		return c.networkDrift(ctx, lb.NLB)
	}
	return c.Drift(ctx, lb.CLB)
}

// after returns the case with its Service's annotations as the steps will leave
// them, but for a charge type and a spec that a step sets: who sets those means
// the load balancer to change, and says so.
func (c *Case) after(steps []Step) (*Case, error) {
	out := *c
	out.Service = c.Service.DeepCopy()
	for _, s := range steps {
		k, ok := s.(Keyed)
		if !ok {
			continue
		}
		var patch struct {
			Metadata struct{ Annotations map[string]*string }
		}
		if err := json.Unmarshal(k.Patch(c), &patch); err != nil {
			return nil, fmt.Errorf("read the patch of step %s: %w", s.Kind(), err)
		}
		for key, v := range patch.Metadata.Annotations {
			if v == nil {
				delete(out.Service.Annotations, key)
				continue
			}
			if out.Service.Annotations == nil {
				out.Service.Annotations = map[string]string{}
			}
			out.Service.Annotations[key] = *v
			for _, short := range []string{"instance-charge-type", "spec"} {
				if strings.HasSuffix(key, "-loadbalancer-"+short) {
					delete(out.Service.Annotations, Prefix+short)
					delete(out.Service.Annotations, LegacyPrefix+short)
				}
			}
		}
	}
	return &out, nil
}

// clipped returns a value as it is, and one that is too long for a sentence cut and
// in quotes.
func clipped(value string) string {
	if len(value) > longest {
		return Quote(value)
	}
	return value
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
