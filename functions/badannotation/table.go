package badannotation

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule says which values of an annotation the controller takes, from its
// documentation and its code (github.com/kubernetes/cloud-provider-alibaba-cloud,
// docs/zh/usage.md and pkg/controller/service).
type rule struct {
	name    string // short, or the whole key where it has another prefix
	of      kind
	allowed string            // for people
	takes   func(string) bool // what is allowed
	calls   []string          // how errors call it, in lower case
	unit    string            // of a number; empty: none
	param   string            // what a CLB's listeners call it in the API; empty: it is none of theirs
}

// A kind is the kind of load balancer that reads an annotation.
type kind int

const (
	both kind = iota
	clb
	nlb
)

// reads reports whether the annotation is one for such a load balancer.
func (r rule) reads(network bool) bool {
	return r.of == both || (r.of == nlb) == network
}

// words returns a rule for an annotation that takes one of these words as they are.
func words(name string, of kind, allowed ...string) rule {
	return rule{name: name, of: of, allowed: either(allowed), takes: func(v string) bool { return slices.Contains(allowed, v) }}
}

// anyCase returns a rule for an annotation that takes one of these words in any letters.
func anyCase(name string, of kind, allowed ...string) rule {
	return rule{name: name, of: of, allowed: either(allowed), takes: func(v string) bool {
		return slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, v) })
	}}
}

// either lists words for a sentence: "on or off", "a, b or c".
func either(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// number returns a rule for an annotation that takes whole numbers.
func number(name string, of kind, low, high int, unit, param string, calls ...string) rule {
	ofUnit := ""
	if unit != "" {
		ofUnit = "of " + unit + " "
	}
	calls = append(calls, "loadbalancer-"+name+" must be integer")
	if param != "" {
		calls = append(calls, "annotation "+strings.ToLower(param)+" must be integer")
	}
	return rule{
		name: name, of: of, unit: unit, param: param,
		allowed: "a whole number " + ofUnit + "from " + strconv.Itoa(low) + " to " + strconv.Itoa(high),
		takes: func(v string) bool {
			n, err := strconv.Atoi(v)
			return err == nil && n >= low && n <= high
		},
		calls: calls,
	}
}

// like returns a rule for an annotation that takes what fits a pattern.
func like(name string, of kind, allowed, pattern string, calls ...string) rule {
	return rule{name: name, of: of, allowed: allowed, takes: regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString, calls: calls}
}

// list is a pattern for one or more of what fits the pattern, with commas between.
func list(pattern string) string { return `(?:` + pattern + `)(?:,(?:` + pattern + `))*` }

// Names of the annotations that can be set right by themselves.
const (
	bandwidth    = "bandwidth"
	zoneMaps     = "zone-maps"
	protocolPort = "protocol-port"
	forwardPort  = "forward-port"
)

// rules are the annotations whose values are known, those that fail a sync first.
func rules() []rule {
	return []rule{
		number(bandwidth, clb, 1, 5120, "Mbit/s", "", "bandwidth must be integer"),
		like(zoneMaps, nlb, "zone:vSwitch pairs with commas between, such as cn-hangzhou-h:vsw-a,cn-hangzhou-i:vsw-b", list(`[a-z0-9-]+:vsw-[A-Za-z0-9-]+(?::[^:,]*){0,2}`), "zone mapping", "zonemapping"),
		like(protocolPort, clb, "protocol:port pairs with commas between, such as https:443,http:80, of tcp, udp, http and https", list(`(?:tcp|udp|http|https):\d{1,5}`), "port and protocol format must be like 'https", "port protocol format must be"),
		like(protocolPort, nlb, "protocol:port pairs with commas between, such as tcpssl:443,udp:53, of tcp, udp and tcpssl", list(`(?i:tcp|udp|tcpssl):\d{1,5}`), "port and protocol format must be like 'https", "protocol is not supported"),
		like(forwardPort, clb, "pairs of an HTTP and an HTTPS port with commas between, such as 80:443", list(`\d{1,5}:\d{1,5}`), "forward port format error", "forward port is not an integer"),
		like("vgroup-port", both, "pairs of a vServer group and a port with commas between, such as rsp-1:443", list(`[^:,]+:\d{1,5}`), "vgroupid and protocol format"),
		number("default-weight", both, 0, 100, "", "", "default weight must be integer"),
		number("weight", both, 0, 100, "", "", "weight must be integer"),

		number("persistence-timeout", clb, 0, 3600, "seconds", "PersistenceTimeout", "annotation persistence timeout must be integer"),
		number("established-timeout", clb, 10, 900, "seconds", "EstablishedTimeout"),
		number("cookie-timeout", clb, 1, 86400, "seconds", "CookieTimeout"),
		number("idle-timeout", clb, 1, 60, "seconds", "IdleTimeout"),
		number("request-timeout", clb, 1, 180, "seconds", "RequestTimeout"),
		number("connection-drain-timeout", clb, 10, 900, "seconds", "ConnectionDrainTimeout"),
		number("healthy-threshold", both, 2, 10, "", "HealthyThreshold"),
		number("unhealthy-threshold", both, 2, 10, "", "UnhealthyThreshold"),
		number("health-check-connect-timeout", both, 1, 300, "seconds", "HealthCheckConnectTimeout"),
		number("health-check-timeout", clb, 1, 300, "seconds", "HealthCheckTimeout"),
		number("health-check-interval", both, 1, 50, "seconds", "HealthCheckInterval"),
		number("health-check-connect-port", both, 0, 65535, "", "HealthCheckConnectPort"),
		number("idle-timeout", nlb, 1, 900, "seconds", ""),
		number("connection-drain-timeout", nlb, 0, 900, "seconds", ""),
		number("cps", nlb, 0, 1_000_000, "", ""),

		words("address-type", clb, "internet", "intranet"),
		anyCase("address-type", nlb, "internet", "intranet"),
		words("ip-version", clb, "ipv4", "ipv6"),
		anyCase("ip-version", nlb, "ipv4", "DualStack"),
		anyCase("ipv6-address-type", nlb, "internet", "intranet"),
		words("charge-type", clb, "paybytraffic", "paybybandwidth"),
		words("instance-charge-type", clb, "PayByCLCU", "PayBySpec"),
		words("network-type", clb, "vpc", "classic"),
		words("slb-network-type", clb, "vpc", "classic"),
		words("delete-protection", both, "on", "off"),
		words("modification-protection", both, "ConsoleProtection", "NonProtection"),
		words("force-override-listeners", both, "true", "false"),
		words("external-ip-type", clb, "eip"),
		rule{name: "ip", of: clb, allowed: "an IP address", takes: func(v string) bool { _, err := netip.ParseAddr(v); return err == nil }},
		like("id", both, "the ID of a load balancer", `[A-Za-z0-9][A-Za-z0-9_-]{0,127}`),
		like("vswitch-id", clb, "the ID of a vSwitch", `vsw-[A-Za-z0-9-]+`),
		like("resource-group-id", both, "the ID of a resource group", `rg-[A-Za-z0-9-]+`),
		like("additional-resource-tags", both, "tags with commas between, such as team=shop,stage=test", list(`[^=,]+=[^=,]*`)),
		like("security-group-ids", nlb, "IDs of security groups with commas between", `(?:`+list(`sg-[A-Za-z0-9-]+`)+`)?`),
		like("backend-label", both, "labels of nodes with commas between, such as pool=shop", list(`[^=,]+=[^=,]*`)),
		words("service.beta.kubernetes.io/backend-type", both, "eni", "ecs"),

		anyCase("scheduler", both, "wrr", "rr", "sch", "tch", "qch", "wlc"),
		words("health-check-type", clb, "tcp", "http"),
		words("sticky-session-type", clb, "insert", "server"),
		words("acl-type", clb, "white", "black"),
		like("health-check-httpcode", clb, "HTTP codes with commas between, such as http_2xx,http_3xx", list(`http_[1-5]xx`)),
		words("alpn-policy", nlb, "HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred"),
		anyCase("server-group-type", nlb, "instance", "ip"),
		flag("health-check-flag", both), flag("health-check-switch", clb), flag("sticky-session", clb), flag("acl-status", clb),
		flag("connection-drain", both), flag("proxy-protocol", both), flag("http2-enabled", clb), flag("remove-unscheduled-backend", both),
		flag("xforwardedfor-proto", clb), flag("xforwardedfor-slbport", clb), flag("xforwardedfor-clientsrcport", clb), flag("ignore-weight-update", both),
		flag("preserve-client-ip", nlb), flag("cacert", nlb), flag("alpn", nlb), flag("cross-zone-enabled", nlb),
	}
}

// flag returns a rule for an annotation that is on or off.
func flag(name string, of kind) rule { return words(name, of, "on", "off") }
