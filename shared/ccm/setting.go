package ccm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A manner is how the controller compares a setting with what an annotation asks for.
type manner int

const (
	exactly  manner = iota
	folded          // ignores case
	nonzero         // a number; 0 asks for nothing
	numeric         // a number
	flag            // "on" in the annotation is "true" in the API, and anything else "false"
	foldFlag        // a flag whose "on" ignores case
	unsorted        // a comma-separated list in any order
)

// A setting of listeners or groups, which an annotation asks for. A value missing from the answer counts as empty, 0 or false, as in the controller.
type setting struct {
	short string // of the annotation
	name  string // in the API
	of    string // the protocols that have it, separated by spaces; empty: all
	as    manner
	with  string // short name of an annotation that must be "on"; empty without one
}

// settings lists what a full sync sets on listeners of CLBs, by annotations with one value (clbv1/listeners.go).
var settings = []setting{
	{short: "scheduler", name: "Scheduler"},
	{short: "persistence-timeout", name: "PersistenceTimeout", of: "tcp", as: numeric},
	{short: "established-timeout", name: "EstablishedTimeout", of: "tcp", as: nonzero},
	{short: "idle-timeout", name: "IdleTimeout", of: "http https", as: nonzero},
	{short: "request-timeout", name: "RequestTimeout", of: "http https", as: nonzero},
	{short: "cert-id", name: "ServerCertificateId", of: "https"},
	{short: "proxy-protocol", name: "ProxyProtocolV2Enabled", of: "tcp udp", as: flag},
	{short: "xforwardedfor-proto", name: "XForwardedFor_proto", of: "http https"},
	{short: "xforwardedfor-slbport", name: "XForwardedFor_SLBPORT", of: "http https"},
	{short: "xforwardedfor-clientsrcport", name: "XForwardedFor_ClientSrcPort", of: "http https"},
	{short: "tls-cipher-policy", name: "TLSCipherPolicy", of: "https"},
	{short: "http2-enabled", name: "EnableHttp2", of: "https"},
	{short: "acl-status", name: "AclStatus"},
	{short: "acl-type", name: "AclType", with: "acl-status"},
	{short: "acl-id", name: "AclId", as: unsorted, with: "acl-status"},
	{short: "connection-drain", name: "ConnectionDrain", of: "tcp udp"},
	{short: "connection-drain-timeout", name: "ConnectionDrainTimeout", of: "tcp udp", as: nonzero, with: "connection-drain"},
	{short: "sticky-session", name: "StickySession", of: "http https"},
	{short: "sticky-session-type", name: "StickySessionType", of: "http https"},
	{short: "cookie", name: "Cookie", of: "http https"},
	{short: "cookie-timeout", name: "CookieTimeout", of: "http https", as: nonzero},
	{short: "health-check-flag", name: "HealthCheck", of: "http https"},
	{short: "health-check-switch", name: "HealthCheckSwitch", of: "tcp udp"},
	{short: "health-check-type", name: "HealthCheckType", of: "tcp"},
	{short: "health-check-method", name: "HealthCheckMethod", of: "http https"},
	{short: "health-check-uri", name: "HealthCheckURI", of: "tcp http https"},
	{short: "health-check-domain", name: "HealthCheckDomain", of: "tcp http https"},
	{short: "health-check-httpcode", name: "HealthCheckHttpCode", of: "tcp http https"},
	{short: "health-check-connect-port", name: "HealthCheckConnectPort", as: nonzero},
	{short: "health-check-connect-timeout", name: "HealthCheckConnectTimeout", of: "tcp udp", as: nonzero},
	{short: "health-check-timeout", name: "HealthCheckTimeout", of: "http https", as: nonzero},
	{short: "health-check-interval", name: "HealthCheckInterval", as: nonzero},
	{short: "healthy-threshold", name: "HealthyThreshold", as: nonzero},
	{short: "unhealthy-threshold", name: "UnhealthyThreshold", as: nonzero},
}

// networkSettings lists the settings of NLBs' listeners (nlbv2/listeners.go).
var networkSettings = []setting{
	{short: "idle-timeout", name: "IdleTimeout", as: nonzero},
	{short: "cps", name: "Cps", as: numeric},
	{short: "proxy-protocol", name: "ProxyProtocolEnabled", as: foldFlag},
	{short: "ppv2-pvl-ep-id-enabled", name: "Ppv2PrivateLinkEpIdEnabled", as: foldFlag},
	{short: "ppv2-pvl-eps-id-enabled", name: "Ppv2PrivateLinkEpsIdEnabled", as: foldFlag},
	{short: "ppv2-pvl-vpc-id-enabled", name: "Ppv2VpcIdEnabled", as: foldFlag},
	{short: "cert-id", name: "CertificateIds", of: "TCPSSL", as: unsorted},
	{short: "cacert-id", name: "CaCertificateIds", of: "TCPSSL", as: unsorted},
	{short: "cacert", name: "CaEnabled", of: "TCPSSL", as: foldFlag},
	{short: "tls-cipher-policy", name: "SecurityPolicyId", of: "TCPSSL"},
	{short: "alpn", name: "AlpnEnabled", of: "TCPSSL", as: foldFlag},
	{short: "alpn-policy", name: "AlpnPolicy", of: "TCPSSL", with: "alpn"},
}

// groupSettings lists what a full sync sets on an NLB's groups that the controller made (nlbv2/server_groups.go).
var groupSettings = []setting{
	{short: "scheduler", name: "Scheduler", as: folded},
	{short: "connection-drain", name: "ConnectionDrainEnabled", as: foldFlag},
	{short: "connection-drain-timeout", name: "ConnectionDrainTimeout", as: nonzero},
	{short: "preserve-client-ip", name: "PreserveClientIpEnabled", as: foldFlag},
	{short: "health-check-flag", name: "HealthCheckEnabled", as: foldFlag},
	{short: "health-check-type", name: "HealthCheckType", as: folded, with: "health-check-flag"},
	{short: "health-check-connect-port", name: "HealthCheckConnectPort", as: nonzero, with: "health-check-flag"},
	{short: "healthy-threshold", name: "HealthyThreshold", as: nonzero, with: "health-check-flag"},
	{short: "unhealthy-threshold", name: "UnhealthyThreshold", as: nonzero, with: "health-check-flag"},
	{short: "health-check-connect-timeout", name: "HealthCheckConnectTimeout", as: nonzero, with: "health-check-flag"},
	{short: "health-check-interval", name: "HealthCheckInterval", as: nonzero, with: "health-check-flag"},
	{short: "health-check-domain", name: "HealthCheckDomain", with: "health-check-flag"},
	{short: "health-check-uri", name: "HealthCheckUrl", with: "health-check-flag"},
	{short: "health-check-method", name: "HttpCheckMethod", as: folded, with: "health-check-flag"},
	{short: "health-check-httpcode", name: "HealthCheckHttpCode", as: unsorted, with: "health-check-flag"},
}

// apart returns which of the settings a full sync changes on a listener or group. what is its name in the record, called its name in a sentence.
func apart(list []setting, svc *corev1.Service, protocol string, config map[string]string, what, called string) []Difference {
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	var out []Difference
	for _, s := range list {
		if s.of != "" && !slices.Contains(strings.Fields(s.of), protocol) || s.with != "" && !strings.EqualFold(value(s.with), "on") {
			continue
		}
		is, want, ok := s.differs(config[s.name], value(s.short))
		if !ok {
			continue
		}
		d := Difference{What: what, Text: say.F("%s of %s is %s and the annotations say %s", s.name, called, say.Or(clipped(is), "empty"), clipped(want)),
			Keep: s.short, Is: is}
		if s.as == flag || s.as == foldFlag {
			d.Is = onOff(is == "true")
		}
		out = append(out, d)
	}
	return out
}

// differs returns the present and the asked-for value, and whether a full sync would change it. A text in place of a number fails the sync.
func (s setting) differs(is, asks string) (_, want string, ok bool) {
	if asks == "" {
		return "", "", false
	}
	switch s.as {
	case folded:
		return is, asks, !strings.EqualFold(is, asks)
	case nonzero, numeric:
		n, err := strconv.Atoi(asks)
		return cmp.Or(is, "0"), strconv.Itoa(n), err == nil && (n != 0 || s.as == numeric) && strconv.Itoa(n) != cmp.Or(is, "0")
	case flag, foldFlag:
		on := asks == "on" || s.as == foldFlag && strings.EqualFold(asks, "on")
		return cmp.Or(is, "false"), strconv.FormatBool(on), on != (is == "true")
	case unsorted:
		return is, asks, !slices.Equal(sortedParts(is), sortedParts(asks))
	}
	return is, asks, is != asks
}

func sortedParts(text string) []string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	slices.Sort(parts)
	return parts
}

func groupDifferences(svc *corev1.Service, p corev1.ServicePort, g cloud.ServerGroup) []Difference {
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	what, called := "group "+g.Name, "the group "+g.Name
	is := g.Config["ServerGroupType"]
	// The controller turns "ip" in any case into "Ip" (nlbv2/server_groups.go).
	if want := value("server-group-type"); want != "" && is != "" && !strings.EqualFold(is, want) {
		return []Difference{{What: what, Text: say.F("%s is of the type %s and would be recreated, since the annotations say %s", called, is, clipped(want)),
			Cuts: true}}
	}
	out := apart(groupSettings, svc, "", g.Config, what, called)
	sets := func(s setting, want string) {
		if is, want, ok := s.differs(g.Config[s.name], want); ok {
			out = append(out, Difference{What: what, Text: say.F("%s of %s is %s and would be set to %s", s.name, called, say.Or(is, "empty"), want), Quiet: is == ""})
		}
	}
	if _, ports, _ := strings.Cut(networkKey(svc, p), ":"); strings.Contains(ports, "-") {
		// A range is checked at the single port of its Pods, unless annotations say otherwise.
		checks := strings.EqualFold(value("health-check-flag"), "on")
		if value("health-check-flag") == "" {
			sets(setting{name: "HealthCheckEnabled", as: flag}, "on")
		}
		if !checks || value("health-check-connect-port") == "" {
			sets(setting{name: "HealthCheckConnectPort", as: nonzero}, strconv.Itoa(int(p.TargetPort.IntVal)))
		}
	}
	switch backends := value("backend-ip-version"); {
	case strings.EqualFold(backends, "dualstack"):
		sets(setting{name: "IpVersionAffinityMode", as: folded}, "Affinity")
	case strings.EqualFold(backends, "ipv6"):
		sets(setting{name: "IpVersionAffinityMode", as: folded}, "NonAffinity")
	}
	return out
}
