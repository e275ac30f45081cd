package ccm_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// Each annotation has one rule for each kind of load balancer.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range ccm.ValueRules() {
		if r.Name == "" || len(r.Allowed) == 0 || r.Takes == nil {
			t.Errorf("the rule of %q says nothing", r.Name)
		}
		for _, network := range []bool{false, true} {
			key := r.Name
			if network {
				key += " of NLB"
			}
			if r.Reads(network) && seen[key] {
				t.Errorf("%s has two rules", key)
			}
			seen[key] = seen[key] || r.Reads(network)
		}
		for _, call := range r.Calls {
			if call != strings.ToLower(call) || strings.Contains(call, "  ") {
				t.Errorf("%s: no message that is folded has %q", r.Name, call)
			}
		}
	}
}

func annotated(network bool, name, value string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + name: value, ccm.Prefix + "zone-maps": "z-a:vsw-a"}}}
	svc.Annotations[ccm.Prefix+name] = value
	if strings.Contains(name, "/") {
		svc.Annotations[name] = value
	}
	if network {
		class := ccm.NLBClass
		svc.Spec.LoadBalancerClass = &class
	}
	return svc
}

func TestFaults(t *testing.T) {
	for name, values := range map[string][2][]string{
		"bandwidth":                {{"1", "5120"}, {"0", "5121", "10M", " 10", "1e2", "0x10", strings.Repeat("9", 100)}},
		"address-type":             {{"internet", "intranet"}, {"Internet", "public"}},
		"protocol-port":            {{"tcp:80", "https:443,http:80"}, {"tcp", "80:tcp", "https:443,", "tcpssl:443", "HTTP:80"}},
		"forward-port":             {{"80:443", "80:443,81:444"}, {"80", "80-443"}},
		"health-check-interval":    {{"1", "50"}, {"2s", "51"}},
		"health-check-httpcode":    {{"http_2xx", "http_2xx,http_3xx"}, {"200", "http_6xx"}},
		"scheduler":                {{"wrr", "RR"}, {"random"}},
		"instance-charge-type":     {{"PayByCLCU"}, {"paybyclcu"}},
		"force-override-listeners": {{"true", "false"}, {"True", "yes"}},
		"ip":                       {{"10.0.0.1", "2001:db8::1"}, {"10.0.0", "web.example.com"}},
		"id":                       {{"lb-1"}, {"lb 1", "lb-" + strings.Repeat("x", 300)}},
		"additional-resource-tags": {{"a=b", "a=b,c="}, {"a", "=b"}},
		"backend-label":            {{"a=b", "a=b,c=d"}, {"a", "a:b", "a=b,"}},
		"domain-extensions":        {{"a.io:1", "*.a.io:1, b.io:2_3"}, {"a.io", "a.io:", "a.io:1,", "a.io:1:2"}},
		"service.beta.kubernetes.io/backend-type": {{"eni", "ecs"}, {"pod"}},
		"no-such-annotation":                      {{"", "anything"}, nil},
	} {
		for _, v := range append(values[0], "") {
			if got := ccm.Faults(annotated(false, name, v)); len(got) > 0 {
				t.Errorf("%s=%s: it takes %s", name, v, got[0].Allowed)
			}
		}
		for _, v := range values[1] {
			if got := ccm.Faults(annotated(false, name, v)); len(got) != 1 || got[0].Name != name || got[0].Value != v {
				t.Errorf("%s=%s is no fault", name, v)
			}
		}
	}
	for name, values := range map[string][2][]string{
		"zone-maps":          {{"cn-a:vsw-1", "cn-a:vsw-1,cn-b:vsw-2:10.0.0.1:eip-1"}, {"cn-a", "vsw-1", "cn-a:vsw-1,", "cn-a:10.0.0.1", ""}},
		"address-type":       {{"Internet", "intranet"}, {"public"}},
		"protocol-port":      {{"TCPSSL:443", "udp:53"}, {"https:443"}},
		"ip-version":         {{"dualstack", "ipv4"}, {"ipv6"}},
		"bandwidth":          {{"ten"}, nil}, // not on an NLB
		"security-group-ids": {{"sg-1,sg-2"}, {"web"}},
		"vgroup-port":        {{"sgp-1:443"}, {"sgp-1"}},
		"cross-zone-enabled": {{"on"}, {"true", "ON"}},
		"listener-port-range": {
			{"1000-2000:80", "1-65535:80", "1000-2000:80,3000-4000:81"},
			{"1000-2000", "2000:80", "2000-1000:80", "80-80:80", "0-80:80", "1-65536:80", "1000-2000:80,", "a-b:80", "1000-2000:80,5-4:81"},
		},
	} {
		for _, v := range values[0] {
			if got := ccm.Faults(annotated(true, name, v)); len(got) > 0 {
				t.Errorf("NLB: %s=%s: it takes %s", name, v, got[0].Allowed)
			}
		}
		for _, v := range values[1] {
			if got := ccm.Faults(annotated(true, name, v)); len(got) != 1 || got[0].Name != name {
				t.Errorf("NLB: %s=%s is no fault", name, v)
			}
		}
	}
}

// A value is corrected only if it can only mean what the load balancer has.
func TestMeans(t *testing.T) {
	const zones = "cn-a:vsw-1,cn-b:vsw-2"
	for _, tt := range []struct {
		name, value, is string
		missing         bool
		want            bool
	}{
		{name: "bandwidth", value: "10M", is: "10", want: true},
		{name: "bandwidth", value: " 10 Mbit/s ", is: "10", want: true},
		{name: "bandwidth", value: "10.00", is: "10", want: true},
		{name: "bandwidth", value: "10.5", is: "10"},
		{name: "bandwidth", value: "10 or 20", is: "10"},
		{name: "bandwidth", value: "-10", is: "10"},
		{name: "bandwidth", value: "1000", is: "10"},
		{name: "bandwidth", value: "ten", is: "10"},
		{name: "bandwidth", value: "10M", is: ""},
		{name: "bandwidth", value: "10 Gbit/s", is: "10"},
		{name: "bandwidth", value: "10k", is: "10"},
		{name: "bandwidth", value: "10s", is: "10"},
		{name: "health-check-interval", value: "2s", is: "2", want: true},
		{name: "health-check-interval", value: "2 Seconds", is: "2", want: true},
		{name: "health-check-interval", value: "2m", is: "2"},
		{name: "health-check-interval", value: "2ms", is: "2"},
		{name: "healthy-threshold", value: "3.0", is: "3", want: true},
		{name: "healthy-threshold", value: "3 minutes", is: "3"},
		{name: "protocol-port", value: "https 443, 80/http", is: "http:80,https:443", want: true},
		{name: "protocol-port", value: "HTTPS443", is: "https:443", want: true},
		{name: "protocol-port", value: "https", is: "https:443"},
		{name: "protocol-port", value: "https:443,http", is: "https:443,http:80"},
		{name: "protocol-port", value: "tcp 443", is: "https:443"},
		{name: "protocol-port", value: "tcp:80 http:443", is: "tcp:443,http:80"},
		{name: "protocol-port", value: "http,tcp:80,443", is: "http:80,tcp:443"},
		{name: "forward-port", value: "80 -> 443", is: "80:443", want: true},
		{name: "forward-port", value: "443 -> 80", is: "80:443"},
		{name: "forward-port", value: "443", is: "80:443"},
		{name: "zone-maps", missing: true, is: zones, want: true},
		{name: "zone-maps", missing: true, is: ""},
		{name: "zone-maps", value: "vsw-1 vsw-2", is: zones, want: true},
		{name: "zone-maps", value: "cn-b,cn-a", is: zones, want: true},
		{name: "zone-maps", value: "cn-a:vsw-1,vsw-2", is: zones, want: true},
		{name: "zone-maps", value: "vsw-1", is: zones},
		{name: "zone-maps", value: "vsw-1,vsw-3", is: zones},
		{name: "zone-maps", value: "vsw-1,vsw-2,vsw-3", is: zones},
		{name: "zone-maps", value: "cn-a:vsw-1:10.0.0.9,vsw-2", is: zones},
		{name: "zone-maps", value: ",", is: zones},
		{name: "zone-maps", value: strings.Repeat("vsw-1,", 40000), is: zones},
	} {
		all := ccm.ValueRules()
		of := all[slices.IndexFunc(all, func(r ccm.ValueRule) bool { return r.Name == tt.name })]
		if got := (ccm.Fault{ValueRule: of, Value: tt.value, There: !tt.missing}).Means(tt.is); got != tt.want {
			t.Errorf("%s=%.40q where there is %q: got %t", tt.name, tt.value, tt.is, got)
		}
	}
}

// A message names an annotation by its key or by its name in the controller's code.
func TestNamed(t *testing.T) {
	for message, want := range map[string]string{
		"Annotation service.beta.kubernetes.io/alicloud-loadbalancer-health-check-timeout must be integer, but got [x]": "health-check-timeout",
		"ANNOTATION HEALTHCHECKCONNECTTIMEOUT MUST BE INTEGER, BUT GOT [X]":                                             "health-check-connect-timeout",
		"Annotation persistence\ntimeout must be integer, but got [x]":                                                  "persistence-timeout",
		"bandwidth must be integer, got [Annotation x]":                                                                 "bandwidth",
		"default weight must be integer in range [0,100] , got [x]":                                                     "default-weight weight",
		"forward port is not an integer, x":                                                                             "forward-port",
		"Annotation x must be integer, but got [bandwidth]":                                                             "",
		"set it: HealthyThreshold parse error: [x]":                                                                     "healthy-threshold",
		"set it: UnhealthyThreshold parse error: [x]":                                                                   "unhealthy-threshold",
	} {
		var got []string
		for _, r := range ccm.ValueRules() {
			if r.Reads(false) && r.Named(message) {
				got = append(got, r.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q names %v, want %s", message, got, want)
		}
	}
}

func TestNamedFault(t *testing.T) {
	const about = "Annotation service.beta.kubernetes.io/alibaba-cloud-loadbalancer-bandwidth must be integer, but got [x]"
	svc := annotated(false, "bandwidth", "x")
	svc.Annotations[ccm.Prefix+"address-type"] = "public"
	for message, want := range map[string]struct {
		named, others string
		known         bool
	}{
		about: {named: "bandwidth", others: `address-type is "public" and takes internet or intranet`, known: true},
		"Annotation health-check-timeout must be integer": {
			others: `bandwidth is "x" and takes a whole number of Mbit/s from 1 to 5120; address-type is "public" and takes internet or intranet`,
		},
		"loadbalancer-health-check-timeout must be integer": {
			others: `bandwidth is "x" and takes a whole number of Mbit/s from 1 to 5120; address-type is "public" and takes internet or intranet`, known: true,
		},
	} {
		f, rest := ccm.NamedFault(svc, message)
		named := ""
		if f != nil {
			named = f.Name
		}
		others, known := ccm.DescribeFaults(rest).String(), ccm.NamesValue(svc, message)
		if named != want.named || others != want.others || known != want.known {
			t.Errorf("%q: got %q, then %q, known %t", message, named, others, known)
		}
	}
}

func TestMisfitOf(t *testing.T) {
	const (
		nodes   = "listener port range can only be used for eni backend type service"
		overlap = "port of listener [1000-2000] overlaps with listener [1500]"
	)
	tcp := func(port int32) corev1.ServicePort {
		return corev1.ServicePort{Port: port, Protocol: corev1.ProtocolTCP}
	}
	udp := corev1.ServicePort{Port: 1500, Protocol: corev1.ProtocolUDP}
	for _, tt := range []struct {
		message, ranges, protocols, backends string
		ports                                []corev1.ServicePort
		want                                 string // a part of the finding; empty without one
		other                                bool   // the message names no misfit
	}{
		{message: nodes, ranges: "1-2:80", want: "are nodes"},
		{message: nodes, ranges: "1-2:80", backends: "ecs", want: "are nodes"},
		{message: nodes, ranges: "1-2:80", backends: "eni"},
		{message: nodes},
		{message: overlap, ranges: "1000-2000:80", ports: []corev1.ServicePort{tcp(80), tcp(1500)}, want: "tcp:1000-2000 and tcp:1500"},
		{message: overlap, ranges: "1-9:80,9-12:81", ports: []corev1.ServicePort{tcp(80), tcp(81)}, want: "tcp:1-9 and tcp:9-12"},
		{message: overlap, ranges: "1-9:80,10-12:81", ports: []corev1.ServicePort{tcp(80), tcp(81)}},
		{message: overlap, ranges: "1000-2000:80", ports: []corev1.ServicePort{tcp(80), udp}},
		{message: overlap, ranges: "nonsense:80", ports: []corev1.ServicePort{tcp(80), tcp(81)}},
		{message: overlap, protocols: "udp:1500", ports: []corev1.ServicePort{tcp(1500), udp}, want: "udp:1500 and udp:1500"},
		{message: overlap, ports: []corev1.ServicePort{tcp(1500), udp}},
		{message: "The port of listener [80] is in use", ranges: "1-2:80", other: true},
	} {
		svc := annotated(true, ccm.PortRange, tt.ranges)
		svc.Annotations[ccm.Prefix+"protocol-port"], svc.Annotations[ccm.BackendType] = tt.protocols, tt.backends
		svc.Spec.Ports = tt.ports
		m, named := ccm.MisfitOf(svc, tt.message)
		if named == tt.other || (m != nil) != (tt.want != "") || m != nil && !strings.Contains(m.Finding.String(), tt.want) {
			t.Errorf("%+v: got %+v, named %t", tt, m, named)
		}
		if got := ccm.ValueFails(svc, tt.message); got != (m != nil || tt.other) {
			t.Errorf("%+v: still fails: %t", tt, got)
		}
	}
}
