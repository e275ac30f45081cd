package ccm

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A ValueRule says which values the controller accepts for an annotation (docs/zh/usage.md and pkg/controller/service).
type ValueRule struct {
	Name    string            // short, or the whole key if it has another prefix
	Allowed say.Text          // for people
	Takes   func(string) bool // reports whether a value is allowed
	Calls   []string          // how error messages name it, in lower case
	Unit    string            // of a number; empty without one
	Param   string            // the API's parameter of a CLB listener; empty if it has no such parameter
	of      kind
}

type kind int

const (
	both kind = iota
	clb
	nlb
)

// Reads reports whether NLBs (network) or CLBs read the annotation.
func (r ValueRule) Reads(network bool) bool {
	return r.of == both || (r.of == nlb) == network
}

// either lists words for a sentence: "on or off", "a, b or c".
func either(list []string) say.Text {
	if len(list) < 2 {
		return say.Literal(strings.Join(list, ""))
	}
	last := len(list) - 1
	return say.F("%s or %s", strings.Join(list[:last], ", "), list[last])
}

func number(name string, of kind, low, high int, unit, param string, calls ...string) ValueRule {
	allowed := say.F("a whole number from %d to %d", low, high)
	switch unit {
	case "":
	case "seconds":
		allowed = say.F("a whole number of seconds from %d to %d", low, high)
	default: // a symbol, the same in every language
		allowed = say.F("a whole number of %s from %d to %d", unit, low, high)
	}
	calls = append(calls, "loadbalancer-"+name+" must be integer")
	if param != "" {
		calls = append(calls, "annotation "+strings.ToLower(param)+" must be integer", strings.ToLower(param)+" parse error")
	}
	return ValueRule{
		Name: name, of: of, Unit: unit, Param: param,
		Allowed: allowed,
		Takes: func(v string) bool {
			n, err := strconv.Atoi(v)
			return err == nil && n >= low && n <= high
		},
		Calls: calls,
	}
}

func like(name string, of kind, allowed say.Text, pattern string, calls ...string) ValueRule {
	fits := regex.New(`^(?:` + pattern + `)$`)
	return ValueRule{Name: name, of: of, Allowed: allowed, Takes: func(v string) bool { return fits().MatchString(v) }, Calls: calls}
}

func listOf(pattern string) string { return `(?:` + pattern + `)(?:,(?:` + pattern + `))*` }

// ports returns a rule like like's for pairs whose numbers are ports.
func ports(name string, of kind, allowed say.Text, pattern string, calls ...string) ValueRule {
	r := like(name, of, allowed, pattern, calls...)
	fits := r.Takes
	r.Takes = func(v string) bool {
		if !fits(v) {
			return false
		}
		for word := range strings.FieldsFuncSeq(v, func(c rune) bool { return c == ',' || c == ':' }) {
			if n, err := strconv.Atoi(word); err == nil && (n < 1 || n > 65535) {
				return false
			}
		}
		return true
	}
	return r
}

// ValueRules returns the annotations whose values are known, the ones that fail a sync first.
func ValueRules() []ValueRule {
	rules := []ValueRule{
		like("zone-maps", nlb, say.F("zone:vSwitch pairs with commas between, such as cn-hangzhou-h:vsw-a,cn-hangzhou-i:vsw-b"),
			listOf(`[a-z0-9-]+:vsw-[A-Za-z0-9-]+(?::[^:,]*){0,2}`), "zone mapping", "zonemapping"),
		ports("protocol-port", clb, say.F("protocol:port pairs with commas between, such as https:443,http:80, of tcp, udp, http and https"),
			listOf(`(?:tcp|udp|http|https):\d{1,5}`), "port and protocol format must be like 'https", "port protocol format must be"),
		ports("protocol-port", nlb, say.F("protocol:port pairs with commas between, such as tcpssl:443,udp:53, of tcp, udp and tcpssl"),
			listOf(`(?i:tcp|udp|tcpssl):\d{1,5}`), "port and protocol format must be like 'https", "protocol is not supported"),
		ports(ForwardPort, clb, say.F("pairs of an HTTP and an HTTPS port with commas between, such as 80:443"), listOf(`\d{1,5}:\d{1,5}`),
			"forward port format error", "forward port is not an integer"),
		ports("vgroup-port", clb, say.F("pairs of a vServer group and a port with commas between, such as rsp-1:443"), listOf(`[^:,]+:\d{1,5}`),
			"vgroupid and protocol format"),
		ports("vgroup-port", nlb, say.F("pairs of a server group and a port with commas between, such as sgp-1:443"), listOf(`[^:,]+:\d{1,5}`),
			"server group id and protocol format"),
		like("domain-extensions", clb, say.F("pairs of a domain and a certificate with commas between, such as a.example.com:CERTIFICATE"),
			listOf(`\s*[^\s:,]+:[^\s:,]+\s*`), "parse domainextensions error"),
		portRanges(),
	}
	for _, n := range []struct {
		name        string
		of          kind
		low, high   int
		unit, param string
		calls       []string
	}{
		{"bandwidth", clb, 1, 5120, "Mbit/s", "", []string{"bandwidth must be integer"}},
		{"default-weight", both, 0, 100, "", "", []string{"default weight must be integer", "default weight parse error"}},
		{"weight", both, 0, 100, "", "", []string{"weight must be integer"}},
		{"persistence-timeout", clb, 0, 3600, "seconds", "PersistenceTimeout", []string{"annotation persistence timeout must be integer"}},
		{"established-timeout", clb, 10, 900, "seconds", "EstablishedTimeout", nil},
		{"cookie-timeout", clb, 1, 86400, "seconds", "CookieTimeout", nil},
		{"idle-timeout", clb, 1, 60, "seconds", "IdleTimeout", nil},
		{"request-timeout", clb, 1, 180, "seconds", "RequestTimeout", nil},
		{"connection-drain-timeout", clb, 10, 900, "seconds", "ConnectionDrainTimeout", nil},
		{"healthy-threshold", both, 2, 10, "", "HealthyThreshold", nil},
		{"unhealthy-threshold", both, 2, 10, "", "UnhealthyThreshold", nil},
		{"health-check-connect-timeout", both, 1, 300, "seconds", "HealthCheckConnectTimeout", nil},
		{"health-check-timeout", clb, 1, 300, "seconds", "HealthCheckTimeout", nil},
		{"health-check-interval", both, 1, 50, "seconds", "HealthCheckInterval", nil},
		{"health-check-connect-port", both, 0, 65535, "", "HealthCheckConnectPort", nil},
		{"idle-timeout", nlb, 1, 900, "seconds", "", []string{"parse idletimeout error"}},
		{"connection-drain-timeout", nlb, 0, 900, "seconds", "", []string{"connectiondraintimeout parse error"}},
		{"cps", nlb, 0, 1_000_000, "", "", []string{"parse mss error"}}, // the controller's message says mss
	} {
		rules = append(rules, number(n.name, n.of, n.low, n.high, n.unit, n.param, n.calls...))
	}
	for _, n := range []struct {
		name    string
		of      kind
		allowed say.Text
		pattern string
		list    bool
		calls   []string
	}{
		{"id", both, say.F("the ID of a load balancer"), `[A-Za-z0-9][A-Za-z0-9_-]{0,127}`, false, nil},
		{"vswitch-id", clb, say.F("the ID of a vSwitch"), `vsw-[A-Za-z0-9-]+`, false, nil},
		{"resource-group-id", both, say.F("the ID of a resource group"), `rg-[A-Za-z0-9-]+`, false, nil},
		{"additional-resource-tags", both, say.F("tags with commas between, such as team=shop,stage=test"), `[^=,]+=[^=,]*`, true, nil},
		{"security-group-ids", nlb, say.F("IDs of security groups with commas between"), `(?:sg-[A-Za-z0-9-]+(?:,sg-[A-Za-z0-9-]+)*)?`, false, nil},
		{"backend-label", both, say.F("labels of nodes with commas between, such as pool=shop"), `[^=,]+=[^=,]*`, true, []string{"parse backend label"}},
		{"health-check-httpcode", clb, say.F("HTTP codes with commas between, such as http_2xx,http_3xx"), `http_[1-5]xx`, true, nil},
	} {
		pattern := n.pattern
		if n.list {
			pattern = listOf(pattern)
		}
		rules = append(rules, like(n.name, n.of, n.allowed, pattern, n.calls...))
	}
	for line := range strings.Lines(wordRules) {
		fields := strings.Fields(line)
		name, allowed := fields[2], fields[3:]
		rules = append(rules, ValueRule{
			Name: name, of: map[string]kind{"clb": clb, "nlb": nlb, "both": both}[fields[0]], Allowed: either(allowed), Calls: wordCalls[name],
			Takes: func(v string) bool {
				return slices.ContainsFunc(allowed, func(a string) bool { return a == v || fields[1] == "any" && strings.EqualFold(a, v) })
			},
		})
	}
	return append(rules, ValueRule{Name: "ip", of: clb, Allowed: say.F("an IP address"),
		Takes: func(v string) bool { _, err := netip.ParseAddr(v); return err == nil }})
}

// wordCalls is how errors name the NLB annotations where a wrong word fails a sync (pkg/controller/service/nlbv2 and provider/alibaba/nlb).
var wordCalls = map[string][]string{
	"cross-zone-enabled": {"cross zone enabled flag error"},
	"ipv6-address-type":  {"invalid ipv6 address type"},
	"server-group-type":  {"unsupport server servergrouptype"},
}

// wordRules has one annotation per line: the load balancers that read it, whether letter case matters ("these") or not ("any";
// nlbv2/server_groups.go, nlbv2/listeners.go), its name and its words.
const wordRules = `clb these address-type internet intranet
nlb any address-type internet intranet
clb these ip-version ipv4 ipv6
nlb any ip-version ipv4 DualStack
nlb any ipv6-address-type internet intranet
nlb any health-check-http-version HTTP1.0 HTTP1.1
clb these charge-type paybytraffic paybybandwidth
clb these instance-charge-type PayByCLCU PayBySpec
clb these network-type vpc classic
clb these slb-network-type vpc classic
clb these delete-protection on off
clb these modification-protection ConsoleProtection NonProtection
both these force-override-listeners true false
clb these external-ip-type eip
both these service.beta.kubernetes.io/backend-type eni ecs
both any scheduler wrr rr sch tch qch wlc
clb these health-check-type tcp http
clb these sticky-session-type insert server
clb these acl-type white black
nlb these alpn-policy HTTP1Only HTTP2Only HTTP2Optional HTTP2Preferred
nlb any server-group-type instance ip
clb these health-check-flag on off
clb these health-check-switch on off
clb these sticky-session on off
clb these acl-status on off
clb these connection-drain on off
clb these proxy-protocol on off
clb these http2-enabled on off
both these remove-unscheduled-backend on off
clb these xforwardedfor-proto on off
clb these xforwardedfor-slbport on off
clb these xforwardedfor-clientsrcport on off
nlb these cross-zone-enabled on off
nlb any health-check-flag on off
nlb any connection-drain on off
nlb any proxy-protocol on off
both any ignore-weight-update on off
nlb any preserve-client-ip on off
nlb any cacert on off
nlb any alpn on off
`

// A KnownKey is an annotation that the controller reads, with its releases. A zero version means every release, as far as is known.
type KnownKey struct {
	Name     string // short, or the whole key if it has another prefix
	CLB, NLB *Span  // nil: not read for this kind of load balancer
}

// A Span is the releases of the controller that read an annotation.
type Span struct {
	From  Version // the first one; zero: all up to Until
	Until Version // the first one that no longer reads it; zero: all from From on
}

// Read returns the releases that read the annotation for NLBs (network) or CLBs, or nil.
func (k KnownKey) Read(network bool) *Span {
	if network {
		return k.NLB
	}
	return k.CLB
}

// Fits reports whether a release reads the annotation.
func (s *Span) Fits(v Version) bool {
	return !v.Before(s.From) && (s.Until == (Version{}) || v.Before(s.Until))
}

// FirstZoneEIP returns the first release that takes an EIP from the annotation zone-maps.
func FirstZoneEIP() Version { return v2121 }

// FirstNLB returns the first release that makes NLBs.
func FirstNLB() Version { return v25 }

// KnownKeys returns the annotations that the controller reads. The releases come from its documentation (docs/zh/usage.md of
// github.com/kubernetes/cloud-provider-alibaba-cloud, and
// https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/add-annotations-to-the-yaml-file-of-a-service-to-configure-clb-instances),
// or else are the first whose source has the key; if only an upper bound is known, the earlier one: nobody should upgrade for a key that may
// work.
func KnownKeys() []KnownKey {
	from := func(text string) *Span {
		v, _ := ParseVersion(text)
		return &Span{From: v}
	}
	ever, network := from(""), from("v2.5.0")
	var all []KnownKey
	for _, row := range []struct {
		clb, nlb *Span
		names    string
	}{
		{ever, nil, "vswitch-id charge-type spec external-ip-type"},
		{ever, network, "address-type additional-resource-tags"},
		{from("v1.9.3.59"), network, "id force-override-listeners"},
		{from("v1.9.3.304"), network, "name resource-group-id"},
		// Since v2.9.1 the controller protects an NLB until it deletes it; no annotation changes that (nlbv2/loadbalancer.go, v2.5.1 to v2.14.0).
		{from("v1.9.3.304"), nil, "delete-protection modification-protection"},
		{from("v1.9.3.10"), nil, "master-zoneid slave-zoneid bandwidth"},
		{from("v2.4.0"), nil, "instance-charge-type"},
		{from("v1.9.3.220"), network, "ip-version"},
		{from("v2.3.0"), nil, "hostname"},
		{from("v2.7.0"), nil, "ip"},
		{&Span{Until: v201}, nil, "slb-network-type"}, // later releases declare it and do not read it
		{from("v2.12.0"), nil, "network-type"},
		{from("v2.10.0"), from("v2.10.0"), "preserve-lb-on-delete"},
		{ever, network, "protocol-port scheduler health-check-flag health-check-type health-check-uri health-check-connect-port " +
			"health-check-interval health-check-connect-timeout health-check-domain health-check-httpcode healthy-threshold unhealthy-threshold"},
		{ever, nil, "persistence-timeout sticky-session sticky-session-type cookie cookie-timeout health-check-timeout"},
		{from("v1.9.3.164"), network, "cert-id"},
		{from("v1.9.3.164"), nil, "acl-status acl-id acl-type forward-port"},
		{from("v2.1.0"), network, "idle-timeout"},
		{from("v2.1.0"), nil, "http2-enabled xforwardedfor-proto"},
		{from("v2.3.0"), nil, "established-timeout request-timeout"},
		{from("v2.3.0"), network, "health-check-method tls-cipher-policy"},
		{ever, network, "connection-drain connection-drain-timeout"},
		{from("v2.6.0"), nil, "health-check-switch"},
		{from("v2.6.0"), network, "proxy-protocol"},
		{from("v2.9.1"), nil, "xforwardedfor-slbport xforwardedfor-clientsrcport"},
		{from("v2.13.0"), nil, "domain-extensions"},
		{ever, network, "backend-label backend-ip-version"},
		{from("v1.9.3.164"), network, "service.beta.kubernetes.io/backend-type remove-unscheduled-backend"},
		{from("v2.0.1"), from("v2.9.1"), "vgroup-port weight"},
		{from("v2.11.1"), from("v2.11.1"), "ignore-weight-update"},
		{from("v2.14.0"), from("v2.14.0"), "default-weight"},
		{nil, network, "zone-maps cacert-id cacert cps preserve-client-ip"},
		{nil, from("v2.6.0"), "security-group-ids"},
		{nil, from("v2.8.0"), "server-group-type"},
		{nil, from("v2.9.1"), "bandwidth-package-id ipv6-address-type ppv2-pvl-ep-id-enabled ppv2-pvl-eps-id-enabled ppv2-pvl-vpc-id-enabled"},
		{nil, from("v2.10.0"), "alpn alpn-policy"},
		{nil, from("v2.11.2"), "listener-port-range"},
		{nil, from("v2.13.0"), "cross-zone-enabled additional-cert-ids"},
		// From the release notes of v2.15.0 only: its source is not published.
		{from("v2.15.0"), from("v2.15.0"), gracefulShutdown},
		{nil, from("v2.15.0"), "health-check-http-version"},
		// Edge load balancers, supported from v2.7.0 until v2.9.0.
		{&Span{From: Version{2, 7, 0, 0}, Until: Version{2, 9, 0, 0}}, nil, "network-id associate-eip reuse backend-weight"},
		// These annotations give the Service to another controller.
		{ever, ever, "service.beta.kubernetes.io/class tunnel-type type"},
	} {
		for _, name := range strings.Fields(row.names) {
			all = append(all, KnownKey{name, row.clb, row.nlb})
		}
	}
	return all
}
