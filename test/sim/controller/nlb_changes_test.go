package controller_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/test/sim"
)

const labelSecurityGroup = "service.k8s.alibaba/security-group-id"

func networkWorld() *sim.World {
	return &sim.World{
		VPCs: []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}},
		VSwitches: []sim.VSwitch{
			{ID: "vsw-1"}, {ID: "vsw-2", Zone: "cn-hangzhou-i", CIDR: "10.2.0.0/20"}, {ID: "vsw-6", Zone: "cn-hangzhou-k", CIDR: "10.6.0.0/20", IPv6: "2001:db8:1::/64"},
		},
		EIPs:           []sim.EIP{{ID: "eip-1", IP: "198.51.100.200"}},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}, {ID: "sg-3"}},
		ENIs:           []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}, {ID: "eni-2", IPs: []string{"10.1.5.9"}, VPC: "vpc-1"}},
	}
}

func (r *rig) writes() []string {
	return slices.DeleteFunc(r.actions(), isRead)
}

func isRead(action string) bool {
	return strings.HasPrefix(action, "List") || strings.HasPrefix(action, "Get") || strings.HasPrefix(action, "Describe")
}

// changes returns the successful writes, sorted. Rejected calls vary: a listener with a new protocol is created in parallel with
// the deletion of the old one, and retried if the port is still in use.
func (r *rig) changes() []string {
	var names []string
	for _, c := range r.cloud.CallsOf("ccm") {
		if c.Code == "" {
			names = append(names, c.Action)
		}
	}
	return slices.DeleteFunc(sorted(names), isRead)
}

func (r *rig) wish(name string, pairs ...string) {
	r.Helper()
	said := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		said[prefix+pairs[i]] = pairs[i+1]
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": said}})
	if err != nil {
		r.Fatal(err)
	}
	r.patch(name, string(b))
}

func (r *rig) group(lb string) sim.ServerGroup {
	r.Helper()
	w := r.cloud.Snapshot()
	id := r.nlb(lb).Listeners[0].ServerGroup
	return w.ServerGroups[slices.IndexFunc(w.ServerGroups, func(g sim.ServerGroup) bool { return g.ID == id })]
}

func TestNLBChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, networkWorld(), 1, func(r *rig) { r.opts.Speed = 500 })
	made := r.service("web", zones, network)
	id := r.synced("web", "").Labels[labelID]
	name := ownName(made)
	one := func() *sim.NLB { return r.nlb(id) }
	listener := func() sim.NLBListener { return one().Listeners[0] }
	config := func(of map[string]string, keys ...string) string {
		var list []string
		for _, k := range keys {
			list = append(list, of[k])
		}
		return strings.Join(list, " ")
	}
	wish := func(pairs ...string) func() { return func() { r.wish("web", pairs...) } }
	ranges := func(list string) func() {
		return func() { r.patch("web", `{"spec":{"loadBalancerSourceRanges":`+list+`}}`) }
	}
	source := func() *sim.SecurityGroup {
		w := r.cloud.Snapshot()
		i := slices.IndexFunc(w.SecurityGroups, func(g sim.SecurityGroup) bool { return g.Name == "k8s-nlb-"+name })
		if i < 0 {
			return nil
		}
		return &w.SecurityGroups[i]
	}
	rules := func() string {
		var list []string
		for _, u := range source().Rules {
			list = append(list, fmt.Sprintf("%s %s %d %s %s", u.Policy, u.Source, u.Priority, u.Protocol, u.Ports))
		}
		slices.Sort(list)
		return strings.Join(list, ", ")
	}
	for _, step := range []struct {
		name   string
		change func()
		calls  []string // calls that change something, sorted
		is     func() string
		want   string
	}{
		{name: "a second zone", change: wish("zone-maps", "cn-hangzhou-h:vsw-1,cn-hangzhou-i:vsw-2"), calls: []string{"UpdateLoadBalancerZones"},
			is: func() string { return fmt.Sprintf("%d %s", len(one().Zones), one().Zones[1].VSwitch) }, want: "2 vsw-2"},
		{name: "an EIP in a zone", change: wish("zone-maps", "cn-hangzhou-h:vsw-1::eip-1,cn-hangzhou-i:vsw-2"), calls: []string{"UpdateLoadBalancerZones"},
			is: func() string { return one().Zones[0].EIP + " " + one().Zones[0].Public }, want: "eip-1 198.51.100.200"},
		{name: "the address that a zone has", change: func() {
			r.wish("web", "zone-maps", "cn-hangzhou-h:vsw-1:"+one().Zones[0].Address+",cn-hangzhou-i:vsw-2")
		}},
		{name: "intranet", change: wish("address-type", "intranet"), calls: []string{"UpdateLoadBalancerAddressTypeConfig"},
			is: func() string { return one().AddressType + one().Zones[0].EIP }, want: "Intranet"},
		{name: "internet, with another name", change: wish("address-type", "internet", "name", "shop"), calls: []string{"UpdateLoadBalancerAddressTypeConfig",
			"UpdateLoadBalancerAttribute"},
			is: func() string { return one().AddressType + " " + one().Name }, want: "Internet shop"},
		{name: "zones apart", change: wish("cross-zone-enabled", "off"), calls: []string{"UpdateLoadBalancerAttribute"},
			is: func() string { return fmt.Sprint(one().NoCrossZone) }, want: "true"},
		{name: "zones apart, said again", change: wish("cross-zone-enabled", "off", "touch", "1")},
		{name: "security groups", change: wish("security-group-ids", "sg-1,sg-2"), calls: []string{"LoadBalancerJoinSecurityGroup"},
			is: func() string { return fmt.Sprint(one().SecurityGroups) }, want: "[sg-1 sg-2]"},
		{name: "other security groups", change: wish("security-group-ids", "sg-3,sg-2"), calls: []string{"LoadBalancerJoinSecurityGroup",
			"LoadBalancerLeaveSecurityGroup"},
			is: func() string { return fmt.Sprint(one().SecurityGroups) }, want: "[sg-2 sg-3]"},
		{name: "no security groups", change: wish("security-group-ids", ""), calls: []string{"LoadBalancerLeaveSecurityGroup"},
			is: func() string { return fmt.Sprint(one().SecurityGroups) }, want: "[]"},
		{name: "bandwidth", change: wish("bandwidth-package-id", "cbwp-1"), calls: []string{"AttachCommonBandwidthPackageToLoadBalancer"},
			is: func() string { return one().BandwidthPackage }, want: "cbwp-1"},
		{name: "other bandwidth", change: wish("bandwidth-package-id", "cbwp-2"), calls: []string{"AttachCommonBandwidthPackageToLoadBalancer",
			"DetachCommonBandwidthPackageFromLoadBalancer"},
			is: func() string { return one().BandwidthPackage }, want: "cbwp-2"},
		{name: "no bandwidth", change: wish("bandwidth-package-id", ""), calls: []string{"DetachCommonBandwidthPackageFromLoadBalancer"},
			is: func() string { return one().BandwidthPackage }, want: ""},
		{name: "tags", change: wish("additional-resource-tags", "team=a,stage=b"), calls: []string{"TagResources"},
			is: func() string { return config(one().Tags, "team", "stage", "ack.aliyun.com") }, want: "a b " + clusterID},
		{name: "other tags", change: wish("additional-resource-tags", "team=c"), calls: []string{"TagResources", "UntagResources"},
			is: func() string { return config(one().Tags, "team", "stage", "kubernetes.do.not.delete") }, want: "c  " + name},
		{name: "no tags, which takes none off", change: wish("additional-resource-tags", ""),
			is: func() string { return config(one().Tags, "team") }, want: "c"},

		{name: "source ranges", change: ranges(`["192.0.2.0/24"]`), calls: []string{"AuthorizeSecurityGroup", "CreateSecurityGroup", "LoadBalancerJoinSecurityGroup"},
			is: func() string {
				g := source()
				return fmt.Sprintf("%v %s %s %s %s %s", slices.Equal(one().SecurityGroups, []string{g.ID}), g.Type, g.Description,
					config(g.Tags, "kubernetes.do.not.delete", "ack.aliyun.com"), g.VPC, rules())
			}, want: fmt.Sprintf("true enterprise k8s.%s.web.%s %s %s vpc-1 Accept 192.0.2.0/24 1 ALL -1/-1, Drop 0.0.0.0/0 100 ALL -1/-1", r.ns, clusterID, name,
				clusterID)},
		{name: "label of the security group", change: wish("touch", "2"), is: func() string { return r.get("web").Labels[labelSecurityGroup] + " " + source().ID },
			want: "sg-sim0001 sg-sim0001"},
		{name: "a user's rule and other source ranges", change: func() {
			r.cloud.Edit(func(s *sim.State) {
				g := s.SecurityGroups["sg-sim0001"]
				g.Rules = append(g.Rules, sim.SecurityRule{Source: "203.0.113.7/32"})
				g.Name, g.Rules[0].Priority = "renamed", 5
			})
			ranges(`["192.0.2.0/24","198.51.100.0/24"]`)()
		}, calls: []string{"AuthorizeSecurityGroup", "ModifySecurityGroupAttribute", "ModifySecurityGroupRule"}, is: rules,
			want: "Accept 192.0.2.0/24 1 ALL -1/-1, Accept 198.51.100.0/24 1 ALL -1/-1, Accept 203.0.113.7/32 1 ALL -1/-1, Drop 0.0.0.0/0 100 ALL -1/-1"},
		{name: "a source range less", change: ranges(`["192.0.2.0/24"]`), calls: []string{"RevokeSecurityGroup"}, is: rules,
			want: "Accept 192.0.2.0/24 1 ALL -1/-1, Accept 203.0.113.7/32 1 ALL -1/-1, Drop 0.0.0.0/0 100 ALL -1/-1"},
		{name: "no source ranges", change: ranges(`null`), calls: []string{"DeleteSecurityGroup", "LoadBalancerLeaveSecurityGroup"},
			is: func() string {
				return fmt.Sprint(source(), one().SecurityGroups, r.get("web").Labels[labelSecurityGroup])
			}, want: "<nil> []"},

		{name: "limits of the listener", change: wish("idle-timeout", "30", "cps", "100", "proxy-protocol", "on"), calls: []string{"UpdateListenerAttribute"},
			is: func() string { return config(listener().Config, "IdleTimeout", "Cps", "ProxyProtocolEnabled") }, want: "30 100 true"},
		{name: "what the proxy protocol tells", change: wish("ppv2-pvl-ep-id-enabled", "on", "ppv2-pvl-eps-id-enabled", "on", "ppv2-pvl-vpc-id-enabled", "on"),
			calls: []string{"UpdateListenerAttribute"},
			is: func() string {
				return config(listener().Config, "ProxyProtocolV2Config.Ppv2PrivateLinkEpIdEnabled", "ProxyProtocolV2Config.Ppv2PrivateLinkEpsIdEnabled",
					"ProxyProtocolV2Config.Ppv2VpcIdEnabled", "IdleTimeout")
			}, want: "true true true 30"},
		{name: "a certificate, which only TLS has", change: wish("cert-id", "cert-1", "tls-cipher-policy", "tls_cipher_policy_1_2")},
		{name: "TLS", change: wish("protocol-port", "tcpssl:80", "cacert", "on", "cacert-id", "ca-1", "alpn", "on", "alpn-policy", "HTTP2Only"),
			calls: []string{"AddServersToServerGroup", "CreateListener", "CreateServerGroup", "DeleteListener", "DeleteServerGroup"},
			is: func() string {
				l := listener()
				return fmt.Sprintf("%s %v %v %s", l.Protocol, l.Certificates, l.CAs, config(l.Config, "CaEnabled", "SecurityPolicyId", "AlpnEnabled", "AlpnPolicy",
					"IdleTimeout"))
			}, want: "TCPSSL [cert-1] [ca-1] true tls_cipher_policy_1_2 true HTTP2Only 30"},
		{name: "another certificate", change: wish("cert-id", "cert-2", "alpn-policy", "HTTP2Optional"), calls: []string{"UpdateListenerAttribute"},
			is: func() string {
				return fmt.Sprintf("%v %v %s", listener().Certificates, listener().CAs, config(listener().Config, "AlpnPolicy"))
			}, want: "[cert-2] [ca-1] HTTP2Optional"},
		{name: "no ALPN", change: wish("alpn", "off"), calls: []string{"UpdateListenerAttribute"},
			is: func() string { return config(listener().Config, "AlpnEnabled") }, want: "false"},
		{name: "further certificates", change: wish("additional-cert-ids", "cert-3,cert-4"), calls: []string{"AssociateAdditionalCertificatesWithListener"},
			is: func() string { return fmt.Sprint(listener().Further) }, want: "[cert-3 cert-4]"},
		{name: "other certificates", change: wish("additional-cert-ids", "cert-4,cert-5"), calls: []string{"AssociateAdditionalCertificatesWithListener",
			"DisassociateAdditionalCertificatesWithListener"},
			is: func() string { return fmt.Sprint(listener().Further) }, want: "[cert-4 cert-5]"},
		{name: "a listener that was stopped", change: func() {
			r.cloud.Edit(func(s *sim.State) { s.NLBs[id].Listeners[0].Status = "Stopped" })
			r.touch("web", "3")
		}, calls: []string{"StartListener"}, is: func() string { return listener().Status }, want: "Running"},

		{name: "how the group shares and drains", change: wish("scheduler", "rr", "connection-drain", "on", "connection-drain-timeout", "30",
			"preserve-client-ip", "off"), calls: []string{"UpdateServerGroupAttribute"},
			is: func() string {
				g := r.group(id)
				return g.Scheduler + " " + config(g.Config, "ConnectionDrainEnabled", "ConnectionDrainTimeout", "PreserveClientIpEnabled",
					"HealthCheckConfig.HealthyThreshold")
			}, want: "Rr true 30 false 2"},
		{name: "health check", change: wish("health-check-flag", "on", "health-check-type", "HTTP", "health-check-connect-port", "8081", "healthy-threshold", "3",
			"unhealthy-threshold", "4",
			"health-check-connect-timeout", "6", "health-check-interval", "7", "health-check-domain", "a.example", "health-check-uri", "/ok", "health-check-method",
			"get", "health-check-httpcode", "http_2xx,http_3xx"),
			calls: []string{"UpdateServerGroupAttribute"},
			is: func() string {
				var list []string
				for _, k := range []string{"HealthCheckEnabled", "HealthCheckType", "HealthCheckConnectPort", "HealthyThreshold", "UnhealthyThreshold",
					"HealthCheckConnectTimeout",
					"HealthCheckInterval", "HealthCheckDomain", "HealthCheckUrl", "HttpCheckMethod", "HealthCheckHttpCode.1", "HealthCheckHttpCode.2"} {
					list = append(list, r.group(id).Config["HealthCheckConfig."+k])
				}
				return strings.Join(list, " ")
			}, want: "true HTTP 8081 3 4 6 7 a.example /ok get http_2xx http_3xx"},
		{name: "one code less", change: wish("health-check-httpcode", "http_4xx"), calls: []string{"UpdateServerGroupAttribute"},
			is: func() string { return config(r.group(id).Config, "HealthCheckConfig.HealthCheckHttpCode.1") }, want: "http_4xx"},
		{name: "weight", change: wish("default-weight", "40"), calls: []string{"UpdateServerGroupServersAttribute"},
			is: func() string { return strconv.Itoa(*r.group(id).Servers[0].Weight) }, want: "40"},
		{name: "weight that is left alone", change: wish("ignore-weight-update", "on", "default-weight", "50"),
			is: func() string { return strconv.Itoa(*r.group(id).Servers[0].Weight) }, want: "40"},
		{name: "nothing", change: wish("touch", "4")},
	} {
		was := r.get("web").Labels[labelHash]
		r.cloud.ResetCalls()
		step.change()
		r.synced("web", was)
		calls := r.changes()
		if diff := cmp.Diff(step.calls, calls); diff != "" && len(step.calls)+len(calls) > 0 {
			t.Errorf("%s: %s", step.name, diff)
		}
		if step.is != nil && step.is() != step.want {
			t.Errorf("%s: got %q, want %q", step.name, step.is(), step.want)
		}
	}
}

func TestNLBRefusesWishes(t *testing.T) {
	const (
		local    = "[]: build lb local model error: "
		listener = local + "build nlb listener error: build listener from servicePort 80 error: "
		groups   = local + "builid nlb server group error: "
		port     = groups + "set ServerGroup for port 80 error: "
	)
	reused := []string{"id", "nlb-1"}
	ports := []string{"backend", "eni"}
	for _, rigs := range []struct {
		version string
		wishes  []struct {
			said []string
			want string
		}
	}{
		{"", []struct {
			said []string
			want string
		}{
			{[]string{"cross-zone-enabled", "perhaps"}, local + "build nlb attribute error: ParameterInvalid, cross zone enabled flag error: invalid flag perhaps"},
			{[]string{"protocol-port", "tcpssl"}, listener + "port and protocol format must be like 'https:443' with colon separated. got=[[tcpssl]]"},
			{[]string{"protocol-port", "http:80"}, listener + "port protocol format must be either [TCP|UDP|TCPSSL], protocol not supported with [http]\n"},
			{[]string{"idle-timeout", "x"}, listener + `parse IdleTimeout error: strconv.Atoi: parsing "x": invalid syntax`},
			{[]string{"cps", "x"}, listener + `parse Mss error: strconv.Atoi: parsing "x": invalid syntax`},
			{[]string{"listener-port-range", "1000-2000:80"}, listener + "listener port range can only be used for eni backend type service"},
			{append(ports, "listener-port-range", "1000-2000"), listener + "listener port range must be like 1000-2000:80 with colon separated. got [1000-2000]"},
			{append(ports, "listener-port-range", "1000:80"), listener + "listener port range must be like 1000-2000:80 with colon separated. got [1000:80]"},
			{append(ports, "listener-port-range", "a-2000:80"), listener + `failed to convert port range [a-2000:80] to int: strconv.Atoi: parsing "a": invalid syntax`},
			{append(ports, "listener-port-range", "2000-1000:80"), listener + "start port should be smaller than end port for port range [2000-1000:80]"},
			{append(ports, "listener-port-range", "1000-70000:80"), listener + "port range [1000-70000:80] is invalid"},
			{append(ports, "two", "443", "listener-port-range", "400-500:80"),
				local + "build nlb listener error: port of listener [400-500] overlaps with listener [443]"},
			{append(reused, "vgroup-port", "sgp-1"), listener + "server group id and protocol format must be like 'sg-xxx:443' with colon separated. got=[[sgp-1]]"},
			{append(reused, "vgroup-port", "sgp-nope:80"), port + "cannot find server group id sgp-nope for nlb nlb-1"},
			{append(reused, "vgroup-port", "sgp-own:80"), port + "cannot reuse a ccm created server group sgp-own for nlb nlb-1"},
			{append(reused, "vgroup-port", "sgp-1:80", "weight", "101"), port + "weight must be integer in range [0, 100], got [101]"},
			{append(reused, "backend", "eni", "vgroup-port", "sgp-1:80", "server-group-type", "ip"),
				"[nlb-1]: apply model error: ServerGroupType of user managed server group sgp-1 should be [Ip], but [Instance]"},
			{[]string{"default-weight", "x"}, groups + `default weight parse error: [strconv.Atoi: parsing "x": invalid syntax]`},
			{[]string{"default-weight", "101"}, groups + "default weight must be integer in range [0,100] , got [101]"},
			{[]string{"server-group-type", "other"}, groups + "unsupport server ServerGroupType []"},
			{[]string{"server-group-type", "ip"}, port + "build cluster backends error: get node address err: node NODE has no internal address"},
			{[]string{"connection-drain-timeout", "x"}, groups + `ConnectionDrainTimeout parse error: strconv.Atoi: parsing "x": invalid syntax`},
			{[]string{"health-check-flag", "on", "health-check-connect-port", "x"},
				groups + `HealthCheckConnectPort parse error: [strconv.Atoi: parsing "x": invalid syntax]`},
			{[]string{"health-check-flag", "on", "healthy-threshold", "x"}, groups + `HealthyThreshold parse error: [strconv.Atoi: parsing "x": invalid syntax]`},
			{[]string{"ipv6-address-type", "outer"}, "[LB]: apply model error: update nlb attribute error: UpdateNLBIPv6AddressType error: invalid ipv6 " +
				"address type outer"},
		}},
		{"v2.12.4", []struct {
			said []string
			want string
		}{
			{[]string{"protocol-port", "http:80"}, listener + "port protocol format must be either [TCP|UDP|TCPSSL], protocol not supported wit [http]\n"},
			{append(ports, "pods", "10.1.5.7"), groups + "can not find eniid for ip 10.1.5.7 in vpc vpc-1, target: NS/pod-10-1-5-7, node: NODE"},
		}},
		{"v2.10.0", []struct { // which swapped the two
			said []string
			want string
		}{
			{[]string{"protocol-port", "tcpssl"}, local + "build nlb server group error: build listener from servicePort 80 error: port and protocol format " +
				"must be like 'https:443' with colon separated. got=[[tcpssl]]"},
			{[]string{"server-group-type", "other"}, local + "builid nlb listener error: unsupport server ServerGroupType []"},
		}},
	} {
		t.Run(rigs.version, func(t *testing.T) {
			t.Parallel()
			w := networkWorld()
			w.NLBs = []sim.NLB{{ID: "nlb-1"}}
			w.ServerGroups = []sim.ServerGroup{{ID: "sgp-1", Name: "mine"}, {ID: "sgp-own", Name: "k8s.30000.TCP.web.shop.c1"}}
			r := newRig(t, w, 1, func(r *rig) { r.opts.Version, r.opts.Speed = rigs.version, 200 })
			for i, c := range rigs.wishes {
				name, said := fmt.Sprintf("web-%d", i), map[string]string{}
				change := []func(*corev1.Service){network}
				if !slices.Contains(c.said, "id") {
					maps.Copy(said, zones)
				}
				for j := 0; j < len(c.said); j += 2 {
					switch c.said[j] {
					case "backend":
						change = append(change, eni)
					case "two":
						change = append(change, func(svc *corev1.Service) {
							svc.Spec.Ports[0].Name = "a"
							svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "b", Port: 443, TargetPort: intstr.FromInt32(8443)})
						})
					case "pods":
						r.pods(name, c.said[j+1])
					default:
						said[c.said[j]] = c.said[j+1]
					}
				}
				r.service(name, said, change...)
				lb := ""
				if strings.Contains(c.want, "[LB]") {
					lb = r.failedWith(name)
				}
				r.saw(name, failed+"Error syncing load balancer "+strings.NewReplacer("[LB]", "["+lb+"]", "NODE", r.ns+"-1", "NS", r.ns).Replace(c.want))
			}
		})
	}
}

func (r *rig) failedWith(service string) string {
	r.Helper()
	id := ""
	r.until(service+" to fail", func() bool {
		for _, e := range r.all {
			if _, rest, ok := strings.Cut(e.Message, "Error syncing load balancer ["); ok && e.InvolvedObject.Name == service {
				id, _, _ = strings.Cut(rest, "]")
			}
		}
		return id != ""
	})
	return id
}

func TestNLBReleases(t *testing.T) {
	for _, c := range []struct {
		version string
		said    []string
		ranges  string
		first   []string // actions of the first sync that change something
		change  []string
		calls   []string // actions of a change that change something
		clean   []string // actions of the deletion that change something
	}{
		{version: "v2.14.0", ranges: "192.0.2.0/24",
			first:  []string{"CreateLoadBalancer", "CreateSecurityGroup"},
			change: []string{"security-group-ids", "sg-2"}, calls: []string{"LoadBalancerJoinSecurityGroup"},
			clean: []string{"UpdateLoadBalancerProtection", "DeleteLoadBalancer", "DeleteSecurityGroup", "DeleteServerGroup"}},
		{version: "v2.12.0", said: []string{"alpn", "on"}, ranges: "192.0.2.0/24", first: []string{"CreateLoadBalancer"},
			change: []string{"security-group-ids", "sg-2", "cross-zone-enabled", "off", "additional-cert-ids", "c"}, calls: []string{"LoadBalancerJoinSecurityGroup"},
			clean: []string{"UpdateLoadBalancerProtection", "DeleteLoadBalancer", "DeleteServerGroup"}},
		{version: "v2.10.0", first: []string{"CreateLoadBalancer", "TagResources"},
			change: []string{"additional-resource-tags", "a=b", "bandwidth-package-id", "cbwp-1"}, calls: []string{"AttachCommonBandwidthPackageToLoadBalancer",
				"TagResources"},
			clean: []string{"UpdateLoadBalancerProtection", "DeleteLoadBalancer", "DeleteServerGroup"}},
		{version: "v2.5.0", first: []string{"CreateLoadBalancer", "TagResources"},
			change: []string{"additional-resource-tags", "a=b", "bandwidth-package-id", "cbwp-1", "security-group-ids", "sg-1", "name", "shop"},
			calls:  []string{"UpdateLoadBalancerAttribute"},
			clean:  []string{"DeleteLoadBalancer", "DeleteServerGroup"}},
	} {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, networkWorld(), 1, func(r *rig) { r.opts.Version, r.opts.Speed = c.version, 200 })
			said := maps.Clone(zones)
			for i := 0; i < len(c.said); i += 2 {
				said[c.said[i]] = c.said[i+1]
			}
			r.service("web", said, network, func(svc *corev1.Service) {
				if c.ranges != "" {
					svc.Spec.LoadBalancerSourceRanges = []string{c.ranges}
				}
			})
			svc := r.synced("web", "")
			if diff := cmp.Diff(c.first, r.writes()[:len(c.first)]); diff != "" {
				t.Error(diff)
			}
			if lb := r.nlb(svc.Labels[labelID]); lb.DeletionProtection != (c.version != "v2.5.0") || lb.Tags["kubernetes.do.not.delete"] == "" {
				t.Errorf("made %+v", lb)
			}
			if c.ranges != "" && (svc.Labels[labelSecurityGroup] != "") != (c.version == "v2.14.0") {
				t.Errorf("labels %v", svc.Labels)
			}
			r.cloud.ResetCalls()
			r.wish("web", c.change...)
			r.synced("web", svc.Labels[labelHash])
			if diff := cmp.Diff(c.calls, r.writes()); diff != "" {
				t.Error(diff)
			}
			r.ensured("web", 2)
			r.cloud.ResetCalls()
			r.delete("web")
			r.gone("web")
			if diff := cmp.Diff(c.clean, r.writes()); diff != "" && len(c.clean) == 3 {
				t.Error(diff)
			}
			calls := r.writes()
			slices.Sort(calls)
			slices.Sort(c.clean)
			if diff := cmp.Diff(c.clean, calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNLBPorts tests a range of ports in front of Pods, and groups of addresses that replace groups of instances.
func TestNLBPorts(t *testing.T) {
	t.Parallel()
	r := newRig(t, networkWorld(), 0, func(r *rig) { r.opts.Speed = 500 })
	r.pods("web", "10.1.5.8")
	said := maps.Clone(zones)
	said["listener-port-range"] = "1000-2000:80"
	r.service("web", said, network, eni)
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	l, g := r.nlb(id).Listeners[0], r.group(id)
	got := []any{
		l.Port, l.Config["StartPort"], l.Config["EndPort"], l.Description, g.Name, g.Type, g.Config["AnyPortEnabled"],
		g.Config["HealthCheckConfig.HealthCheckConnectPort"],
		g.Servers[0].ID, g.Servers[0].Type, g.Servers[0].IP, g.Servers[0].Port,
	}
	want := []any{
		0, "1000", "2000", fmt.Sprintf("k8s.1000_2000.TCP.web.%s.%s", r.ns, clusterID), fmt.Sprintf("k8s.1000_2000.TCP.web.%s.%s", r.ns, clusterID), "Instance",
		"true", "8080",
		"eni-1", "Eni", "10.1.5.8", 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	was := g.ID
	r.wish("web", "server-group-type", "ip")
	// The listener still uses the old group, which cannot be deleted.
	r.saw("web", failed+"Error syncing load balancer ["+id+"]: Message: code: 400, The specified resource of ServerGroup is in use. ")
	r.touch("web", "1")
	svc = r.synced("web", svc.Labels[labelHash])
	g = r.group(id)
	if g.Type != "Ip" || g.ID == was || len(r.cloud.Snapshot().ServerGroups) != 1 {
		t.Errorf("got %+v", g)
	}
	if s := g.Servers[0]; s.ID != "10.1.5.8" || s.IP != "10.1.5.8" || s.Type != "Ip" {
		t.Errorf("server %+v", s)
	}
	r.wish("web", "listener-port-range", "1000-1500:80")
	r.synced("web", svc.Labels[labelHash])
	if all := r.nlb(id).Listeners; len(all) != 1 || all[0].Config["EndPort"] != "1500" {
		t.Errorf("listeners %+v", all)
	}
}

func TestNLBNodeAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, networkWorld(), 1, func(r *rig) {
		r.opts.Speed = 500
		nodes := r.kube.CoreV1().Nodes()
		n, err := nodes.Get(t.Context(), r.ns+"-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: "10.1.0.7"}}
		if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	said := maps.Clone(zones)
	said["server-group-type"] = "ip"
	made := r.service("web", said, network)
	g := r.group(r.synced("web", "").Labels[labelID])
	if s := g.Servers[0]; s.ID != "10.1.0.7" || s.IP != "10.1.0.7" || s.Type != "Ip" || s.Port != int(made.Spec.Ports[0].NodePort) {
		t.Errorf("server %+v", s)
	}
}

// TestNLBUsersGroups tests a user's NLB with the user's groups: only their servers change.
func TestNLBUsersGroups(t *testing.T) {
	t.Parallel()
	w := networkWorld()
	w.NLBs = []sim.NLB{{ID: "nlb-1", Tags: map[string]string{"team": "a"}, Listeners: []sim.NLBListener{{ID: "lsn-1", Port: 80, ServerGroup: "sgp-1"}}}}
	w.ServerGroups = []sim.ServerGroup{{ID: "sgp-1", Name: "mine", Servers: []sim.Server{{ID: "i-9", Port: 9000, Description: "mine"}}}}
	r := newRig(t, w, 2, func(r *rig) { r.opts.Speed = 500 })
	r.service("web", map[string]string{"id": "nlb-1", "vgroup-port": "sgp-1:80", "weight": "60", "scheduler": "rr",
		"additional-resource-tags": "stage=b"}, network)
	svc := r.synced("web", "")
	if diff := cmp.Diff([]string{"AddServersToServerGroup", "TagResources", "UntagResources"}, sorted(r.writes())); diff != "" {
		t.Error(diff)
	}
	servers := func() []string {
		var list []string
		for _, s := range r.cloud.Snapshot().ServerGroups[0].Servers {
			list = append(list, fmt.Sprintf("%s*%d", s.ID, *s.Weight))
		}
		return sorted(list)
	}
	if diff := cmp.Diff([]string{"i-1*30", "i-2*30", "i-9*100"}, servers()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"stage": "b"}, r.nlb("nlb-1").Tags); diff != "" {
		t.Error(diff)
	}
	r.wish("web", "weight", "100")
	r.synced("web", svc.Labels[labelHash])
	r.ensured("web", 2)
	if diff := cmp.Diff([]string{"i-1*50", "i-2*50", "i-9*100"}, servers()); diff != "" {
		t.Error(diff)
	}
	r.delete("web")
	r.gone("web")
	if diff := cmp.Diff([]string{"i-9*100"}, servers()); diff != "" || len(r.nlb("nlb-1").Listeners) != 1 {
		t.Error("after the deletion", diff, r.nlb("nlb-1").Listeners)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func TestNLBJobs(t *testing.T) {
	slow := func(d time.Duration) sim.Lag { return sim.Lag{Jobs: sim.Duration(d)} }
	fault := func(f sim.Fault) func(*rig) { return func(r *rig) { r.cloud.Fault(f) } }
	for _, c := range []struct {
		name, version string
		said          map[string]string
		ranges        []string
		lag           sim.Lag
		speed         float64
		arrange       func(*rig)
		want          string // failure; empty: none
		waits         string // action that is repeated
		times         int    // minimum number of its calls
	}{
		{name: "slow", lag: slow(50 * time.Millisecond), speed: 1000, waits: "GetLoadBalancerAttribute", times: 2},
		{name: "never made", lag: slow(time.Hour), speed: 5000, waits: "GetLoadBalancerAttribute", times: 7,
			want: "[LB]: apply model error: update nlb attribute error: update remote model for lbId LB, error: nlb LB is in creating status"},
		{name: "creation fails", arrange: fault(sim.Fault{Action: "CreateLoadBalancer", FailJob: true}),
			want: "[LB]: Message: code: 400, The status of loadbalancer [LB] is incorrect. "},
		{name: "listener fails", arrange: fault(sim.Fault{Action: "CreateListener", FailJob: true}), waits: "ListAsynJobs", times: 1,
			want: "[LB]: apply model error: wait jobs error: job JOB for API EnsuredListenerChanged failed"},
		{name: "listener fails, v2.11", version: "v2.11.1", arrange: fault(sim.Fault{Action: "CreateListener", FailJob: true}), waits: "GetJobStatus", times: 2},
		{name: "listener takes too long", arrange: fault(sim.Fault{Action: "ListAsynJobs", Body: `{"Jobs":[{"Id":"j-1","Status":"Processing"}]}`}),
			speed: 500, waits: "ListAsynJobs", times: 13,
			want: "[LB]: apply model error: wait jobs error: context deadline exceeded"},
		{name: "listener whose job nobody knows", arrange: fault(sim.Fault{Action: "ListAsynJobs", Body: `{"Jobs":[]}`}), waits: "ListAsynJobs", times: 1},
		{name: "servers fail, which goes unnoticed", arrange: fault(sim.Fault{Action: "AddServersToServerGroup", FailJob: true}), waits: "GetJobStatus", times: 1},
		{name: "listener locked", arrange: fault(sim.Fault{Action: "CreateListener", Code: "Conflict.Lock", Message: "The Lock [nlb] is conflict.", Count: 4}),
			waits: "CreateListener", times: 5},
		{name: "listener locked for good", arrange: fault(sim.Fault{Action: "CreateListener", Code: "Conflict.Lock", Message: "The Lock [nlb] is conflict."}),
			waits: "CreateListener", times: 5,
			want: "[LB]: Message: code: 400, The Lock [nlb] is conflict. "},
		{name: "throttled for a while", arrange: fault(sim.Fault{Action: "CreateLoadBalancer", Code: "Throttling.User", Count: 9}),
			waits: "CreateLoadBalancer", times: 10},
		{name: "throttled, v2.11", version: "v2.11.1", arrange: fault(sim.Fault{Action: "ListLoadBalancers", Code: "Throttling.User", Count: 1}),
			waits: "ListLoadBalancers", times: 1,
			want: "[]: Message: code: 400, Request was denied due to api flow control. "},
		{name: "security group joined twice", said: map[string]string{"security-group-ids": "sg-1"}, waits: "LoadBalancerJoinSecurityGroup", times: 2,
			want: "[LB]: Message: code: 400, The specified resource of sg-1 is already associated. "},
		{name: "security group in the way", said: map[string]string{"security-group-ids": "sg-1"}, waits: "LoadBalancerJoinSecurityGroup", times: 5,
			arrange: fault(sim.Fault{Action: "LoadBalancerJoinSecurityGroup", Code: "Conflict.Lock", Message: "The Lock [nlb] is conflict."}),
			want:    "[LB]: Message: code: 400, The Lock [nlb] is conflict. "},
		{name: "IPv6", said: map[string]string{"zone-maps": "cn-hangzhou-k:vsw-6", "ip-version": "dualstack", "ipv6-address-type": "internet"},
			waits: "EnableLoadBalancerIpv6Internet", times: 2},
		{name: "source ranges without a grant", ranges: []string{"192.0.2.0/24"}, waits: "CreateSecurityGroup", times: 1,
			arrange: func(r *rig) { r.cloud.Revoke("ccm", "ecs:CreateSecurityGroup") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := networkWorld()
			w.Lag = c.lag
			r := newRig(t, w, 1, func(r *rig) {
				r.opts.Version, r.opts.Speed = c.version, max(c.speed, 200)
				if c.arrange != nil {
					c.arrange(r)
				}
			})
			said := maps.Clone(zones)
			maps.Copy(said, c.said)
			r.service("web", said, network, func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = c.ranges })
			if c.want == "" {
				r.synced("web", "")
			} else {
				id := ""
				if strings.HasPrefix(c.want, "[LB]") {
					id = r.failedWith("web")
				}
				want := failed + "Error syncing load balancer " + strings.NewReplacer("LB", id).Replace(c.want)
				before, after, _ := strings.Cut(want, "JOB")
				r.until(want, func() bool {
					return slices.ContainsFunc(slices.Collect(maps.Values(r.all)), func(e *corev1.Event) bool {
						return strings.HasPrefix(line(e), before) && strings.HasSuffix(line(e), after)
					})
				})
			}
			if n := count(r.actions(), c.waits); n < c.times || n > c.times && c.times == 5 {
				t.Errorf("%d calls of %s, want %d", n, c.waits, c.times)
			}
		})
	}
}

func count(list []string, what string) int {
	n := 0
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// TestNLBPodsWithoutInterface: while network interfaces are missing, Pods are added, but none is removed.
func TestNLBPodsWithoutInterface(t *testing.T) {
	t.Parallel()
	r := newRig(t, networkWorld(), 0, func(r *rig) { r.opts.Speed = 500 })
	r.pods("web", "10.1.5.8", "10.1.5.9")
	made := r.service("web", zones, network, eni)
	svc := r.synced("web", "")
	r.ensured("web", 1)
	r.cloud.Edit(func(s *sim.State) { delete(s.ENIs, "eni-2") })
	r.cloud.ResetCalls()
	r.wish("web", "default-weight", "50")
	group := fmt.Sprintf("k8s.8080.TCP.web.%s.%s", r.ns, clusterID)
	r.saw("web", "Warning SkipSyncBackends Not sync pods whose eni is invalid: 10.1.5.9")
	r.saw("web", "Warning SkipSyncBackends Skip delete and update servers to servergroup "+group+" due to invalid servers: 10.1.5.9")
	r.synced("web", svc.Labels[labelHash])
	if w := r.writes(); len(w) > 0 {
		t.Errorf("calls %v", w)
	}
	if g := r.group(svc.Labels[labelID]); len(g.Servers) != 2 || *g.Servers[0].Weight != 100 || ownName(made) != g.Tags["kubernetes.do.not.delete"] {
		t.Errorf("group %+v", g)
	}
}

// TestNLBDryRun runs alone, because the report is about the whole cluster. Releases before v2.15.0 do not support NLB there.
func TestNLBDryRun(t *testing.T) {
	for _, version := range []string{"v2.14.0", "v2.15.0"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, networkWorld(), 1, func(r *rig) { r.opts.Version, r.opts.Speed = version, 500 })
			r.service("web", zones, network)
			id := r.synced("web", "").Labels[labelID]
			r.ensured("web", 1)
			r.stop()
			r.wish("web", "idle-timeout", "30", "address-type", "intranet")
			r.service("new", zones, network)
			before := r.cloud.Snapshot()
			report := r.rehearse()
			if diff := cmp.Diff(before, r.cloud.Snapshot()); diff != "" {
				t.Error("the dry run changed the cloud", diff)
			}
			var got struct {
				CheckResults []struct {
					Name            string
					InstanceResults map[string]struct{ Id, MessageCode string }
					FailedCount     int
				}
			}
			if err := json.Unmarshal([]byte(report.Message), &got); err != nil {
				t.Fatal(err)
			}
			if version == "v2.14.0" {
				if hasReason(r, "SyncLoadBalancerFailed") || len(got.CheckResults) > 0 {
					t.Errorf("a release that panics reported %+v", got)
				}
				return
			}
			lsn := r.nlb(id).Listeners[0].ID
			r.saw("web", failed+"Error syncing load balancer ["+id+
				"]: apply model error: [update nlb attribute error: UpdateNLBAddressType error: OpenAPI: UpdateAddressType, "+
				"Message: nlb "+id+" address type should be updated to Intranet, EnsureListenerCreated error: OpenAPI: UpdateListener, Message: listener "+lsn+
				" should be updated]")
			r.saw("new", failed+"Error syncing load balancer []: apply model error: update nlb attribute error: create nlb error: OpenAPI: CreateNLB, Message: "+
				"nlb should be created")
			if now := r.get("new"); len(now.Finalizers) > 0 {
				t.Error("the dry run changed a Service")
			}
			if len(got.CheckResults) != 1 || got.CheckResults[0].Name != "ccmNLB" || got.CheckResults[0].FailedCount != 3 ||
				got.CheckResults[0].InstanceResults[r.ns+"/new"].MessageCode != "CreateNLB" || len(got.CheckResults[0].InstanceResults) != 2 {
				t.Errorf("report %s", report.Message)
			}
		})
	}
}
