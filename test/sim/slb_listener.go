package sim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// protocols are those of listeners, as the names of actions spell them.
var protocols = []string{"TCP", "UDP", "HTTP", "HTTPS"}

func listenerActions() map[string]*action {
	one := []string{"LoadBalancerId", "ListenerPort"}
	m := map[string]*action{
		"DescribeLoadBalancerListeners": {do: describeListeners},
		"StartLoadBalancerListener":     {do: setListenerStatus("running"), need: one},
		"StopLoadBalancerListener":      {do: setListenerStatus("stopped"), need: one},
		"DeleteLoadBalancerListener":    {do: deleteListener, need: one},
		"DescribeDomainExtensions":      {do: describeDomainExtensions, need: one},
		"CreateDomainExtension":         {do: createDomainExtension, need: append(one, "Domain", "ServerCertificateId")},
		"SetDomainExtensionAttribute":   {do: setDomainExtension, need: []string{"DomainExtensionId", "ServerCertificateId"}},
		"DeleteDomainExtension":         {do: deleteDomainExtension, need: []string{"DomainExtensionId"}},
	}
	for _, p := range protocols {
		lower := strings.ToLower(p)
		m["CreateLoadBalancer"+p+"Listener"] = &action{do: createListener(lower), need: one}
		m["SetLoadBalancer"+p+"ListenerAttribute"] = &action{do: setListener(lower), need: one}
		m["DescribeLoadBalancer"+p+"ListenerAttribute"] = &action{do: describeListener(lower), need: one}
	}
	return m
}

// conflict reports whether two protocols cannot share a port: only UDP can
// share one with the others.
func conflict(a, b string) bool { return a == b || a != "udp" && b != "udp" }

func noCertificate() *failure {
	return fail(http.StatusBadRequest, "CertificateNotExist", "The specified CertificateId does not exist.")
}

// listener returns the listener that a request names. The protocol may be
// left out if only one listener has the port.
func (q *request) listener(lb *LoadBalancer, protocol string) (int, *failure) {
	port, bad := q.params.number("ListenerPort", 1, 65535, 0)
	if bad != nil {
		return 0, bad
	}
	found := -1
	for i, l := range lb.Listeners {
		if l.Port != port || !is(strings.ToLower(protocol), l.Protocol) {
			continue
		}
		if found >= 0 {
			return 0, missing("ListenerProtocol")
		}
		found = i
	}
	if found < 0 {
		return 0, fail(http.StatusBadRequest, "InvalidParameter", "The specified resource does not exist.")
	}
	return found, nil
}

// configured are the parameters of a listener that have fields of their own.
var configured = []string{"LoadBalancerId", "ListenerPort", "ListenerProtocol", "VServerGroup", "VServerGroupId", "Description", "Scheduler", "Bandwidth", "ClientToken", "RegionId"}

// bounds are the ranges of the numbers that listeners are configured with. -520
// stands for the port of the backend, which the controller sends:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-createloadbalancertcplistener
var bounds = map[string][2]int{
	"HealthyThreshold": {2, 10}, "UnhealthyThreshold": {2, 10}, "HealthCheckInterval": {1, 50}, "HealthCheckTimeout": {1, 300},
	"HealthCheckConnectTimeout": {1, 300}, "HealthCheckConnectPort": {-520, 65535}, "BackendServerPort": {-520, 65535}, "PersistenceTimeout": {0, 3600},
	"EstablishedTimeout": {10, 900}, "IdleTimeout": {1, 60}, "RequestTimeout": {1, 180}, "CookieTimeout": {0, 86400}, "ConnectionDrainTimeout": {10, 900},
	"ForwardPort": {1, 65535},
}

// choices are the values of the switches and kinds that listeners are
// configured with.
var choices = map[string]string{
	"HealthCheck": "on,off", "HealthCheckSwitch": "on,off", "StickySession": "on,off", "StickySessionType": "insert,server", "HealthCheckType": "tcp,http,udp",
	"HealthCheckMethod": "get,head", "ConnectionDrain": "on,off", "EnableHttp2": "on,off", "Gzip": "on,off", "XForwardedFor": "on,off",
	"XForwardedFor_proto": "on,off", "XForwardedFor_SLBPORT": "on,off", "XForwardedFor_ClientSrcPort": "on,off", "XForwardedFor_SLBIP": "on,off",
	"XForwardedFor_SLBID": "on,off", "ListenerForward": "on,off", "Scheduler": "wrr,wlc,rr,sch,tch,qch",
}

// sound refuses what is out of range or no choice. What is empty is not said.
func (p params) sound() *failure {
	for name, b := range bounds {
		if _, bad := p.number(name, b[0], b[1], 0); bad != nil {
			return bad
		}
	}
	for name, list := range choices {
		if v := p[name]; v != "" && !oneOf(list, v) {
			return invalid(name)
		}
	}
	return nil
}

// configure sets a listener to what the request says of it, and leaves what it
// does not say.
func (q *request) configure(lb *LoadBalancer, l *Listener) *failure {
	p := q.params
	n, bad := p.number("Bandwidth", -1, 5120, cmp.Or(l.Bandwidth, -1))
	if bad != nil {
		return bad
	}
	if bad := p.sound(); bad != nil {
		return bad
	}
	group := l.VGroup
	if p["VServerGroupId"] != "" && p["VServerGroup"] != "off" {
		group = p["VServerGroupId"]
	}
	if p["VServerGroup"] == "off" {
		group = ""
	}
	if group != "" && lb.vgroup(group) == nil {
		return noVGroup()
	}
	cert := p["ServerCertificateId"]
	if l.Protocol == "https" && cert == "" && l.Config["ServerCertificateId"] == "" {
		return missing("ServerCertificateId")
	}
	if cert != "" && q.state.Certificates[cert] == nil {
		return noCertificate()
	}
	config := maps.Clone(l.Config)
	if config == nil {
		config = map[string]string{}
	}
	for k, v := range p {
		if !slices.Contains(configured, k) && !strings.HasPrefix(k, "Tag") {
			config[k] = v
		}
	}
	if bad := q.controlled(config); bad != nil {
		return bad
	}
	if d, ok := p["Description"]; ok {
		l.Description = d
	}
	l.VGroup, l.Bandwidth, l.Scheduler, l.Config = group, n, cmp.Or(p["Scheduler"], l.Scheduler, "wrr"), config
	return nil
}

// controlled refuses a listener whose access control names no list, or one that
// is not there.
func (q *request) controlled(config map[string]string) *failure {
	switch {
	case !oneOf("on,off", cmp.Or(config["AclStatus"], "off")):
		return invalid("AclStatus")
	case config["AclStatus"] != "on":
		return nil
	case config["AclId"] == "":
		return missing("AclId")
	case !oneOf("white,black", cmp.Or(config["AclType"], "none")):
		return invalid("AclType")
	}
	for id := range strings.SplitSeq(config["AclId"], ",") {
		if q.state.ACLs[strings.TrimSpace(id)] == nil {
			return noACL()
		}
	}
	return nil
}

func createListener(protocol string) func(*request) (any, *failure) {
	return func(q *request) (any, *failure) {
		return change(q, func(lb *LoadBalancer) *failure {
			port, bad := q.params.number("ListenerPort", 1, 65535, 0)
			if bad != nil {
				return bad
			}
			for _, l := range lb.Listeners {
				if l.Port == port && conflict(l.Protocol, protocol) {
					return documented("ListenerAlreadyExists")
				}
			}
			if len(lb.Listeners) >= q.state.quota(quotaListeners, 50) {
				return documented("ListenerNumberOverLimit")
			}
			l := Listener{Port: port, Protocol: protocol, Status: "stopped"}
			if bad := q.configure(lb, &l); bad != nil {
				return bad
			}
			lb.Listeners = append(lb.Listeners, l)
			return nil
		})
	}
}

func setListener(protocol string) func(*request) (any, *failure) {
	return func(q *request) (any, *failure) {
		return change(q, func(lb *LoadBalancer) *failure {
			i, bad := q.listener(lb, protocol)
			if bad != nil {
				return bad
			}
			return q.configure(lb, &lb.Listeners[i])
		})
	}
}

func setListenerStatus(status string) func(*request) (any, *failure) {
	return func(q *request) (any, *failure) {
		return change(q, func(lb *LoadBalancer) *failure {
			i, bad := q.listener(lb, q.params["ListenerProtocol"])
			if bad == nil {
				lb.Listeners[i].Status = status
			}
			return bad
		})
	}
}

func deleteListener(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		i, bad := q.listener(lb, q.params["ListenerProtocol"])
		if bad == nil {
			lb.Listeners = slices.Delete(lb.Listeners, i, i+1)
		}
		return bad
	})
}

// show is what answers say of a listener.
func (l *Listener) show(lb *LoadBalancer) reply {
	return reply{
		"LoadBalancerId": lb.ID, "ListenerPort": l.Port, "ListenerProtocol": l.Protocol, "Status": l.Status,
		"VServerGroupId": l.VGroup, "Scheduler": l.Scheduler, "Bandwidth": l.Bandwidth, "Description": l.Description,
		"AclStatus": cmp.Or(l.Config["AclStatus"], "off"), "AclType": l.Config["AclType"], "AclId": l.Config["AclId"],
		"BackendServerPort": typed("BackendServerPort", cmp.Or(l.Config["BackendServerPort"], "0")), "ServiceManagedMode": "Unmanaged",
	}
}

func describeListener(protocol string) func(*request) (any, *failure) {
	return func(q *request) (any, *failure) {
		lb, bad := q.loadBalancer()
		if bad != nil {
			return nil, bad
		}
		i, bad := q.listener(lb, protocol)
		if bad != nil {
			return nil, bad
		}
		out := lb.Listeners[i].show(lb)
		maps.Copy(out, lb.Listeners[i].parameters())
		return out, nil
	}
}

func describeListeners(q *request) (any, *failure) {
	ids := q.params.list("LoadBalancerId")
	if len(ids) > 10 {
		return nil, invalid("LoadBalancerId")
	}
	if ids == nil {
		ids = slices.Sorted(maps.Keys(q.state.LoadBalancers))
	}
	list := []reply{}
	for _, id := range ids {
		lb := q.state.LoadBalancers[id]
		if lb == nil {
			return nil, noLoadBalancer()
		}
		for _, l := range lb.Listeners {
			if !is(q.params["ListenerPort"], strconv.Itoa(l.Port)) || !is(strings.ToLower(q.params["ListenerProtocol"]), l.Protocol) {
				continue
			}
			e := l.show(lb)
			e["AclIds"] = slices.DeleteFunc(strings.Split(l.Config["AclId"], ","), func(id string) bool { return id == "" }) // of the list alone
			e[strings.ToUpper(l.Protocol)+"ListenerConfig"] = l.parameters()
			list = append(list, e)
		}
	}
	part, next, bad := chunk(q.params, list, 20, 100)
	if bad != nil {
		return nil, bad
	}
	return reply{"Listeners": part, "TotalCount": len(list), "MaxResults": len(part), "NextToken": next}, nil
}

// domainExtension finds a further domain of an HTTPS listener by its ID.
func (q *request) domainExtension() (*Listener, int, *failure) {
	for _, lb := range q.state.LoadBalancers {
		for i := range lb.Listeners {
			l := &lb.Listeners[i]
			if n := slices.IndexFunc(l.Domains, func(d Domain) bool { return d.ID == q.params["DomainExtensionId"] }); n >= 0 {
				return l, n, nil
			}
		}
	}
	return nil, 0, fail(http.StatusBadRequest, "InvalidDomainExtensionId.NotFound", "The specified DomainExtension does not exist.")
}

func describeDomainExtensions(q *request) (any, *failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	i, bad := q.listener(lb, "https")
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, d := range lb.Listeners[i].Domains {
		if is(q.params["DomainExtensionId"], d.ID) {
			list = append(list, reply{"DomainExtensionId": d.ID, "Domain": d.Name, "ServerCertificateId": d.Certificate})
		}
	}
	return reply{"DomainExtensions": reply{"DomainExtension": list}}, nil
}

func createDomainExtension(q *request) (any, *failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	i, bad := q.listener(lb, "https")
	if bad != nil {
		return nil, bad
	}
	l := &lb.Listeners[i]
	switch {
	case slices.ContainsFunc(l.Domains, func(d Domain) bool { return d.Name == q.params["Domain"] }):
		return nil, fail(http.StatusBadRequest, "DomainExtensionAlreadyExist", "The specified Domain already exists.")
	case q.state.Certificates[q.params["ServerCertificateId"]] == nil:
		return nil, noCertificate()
	case len(l.Domains) >= q.state.quota(quotaDomains, 3):
		return nil, fail(http.StatusBadRequest, "DomainExtensionNumberOverLimit", "The maximum number of domain extensions is exceeded.")
	}
	q.state.serial["de-"]++
	d := Domain{ID: fmt.Sprintf("de-sim%04d", q.state.serial["de-"]), Name: q.params["Domain"], Certificate: q.params["ServerCertificateId"]}
	l.Domains = append(l.Domains, d)
	return reply{"DomainExtensionId": d.ID, "ListenerPort": l.Port}, nil
}

func setDomainExtension(q *request) (any, *failure) {
	l, i, bad := q.domainExtension()
	if bad != nil {
		return nil, bad
	}
	if q.state.Certificates[q.params["ServerCertificateId"]] == nil {
		return nil, noCertificate()
	}
	l.Domains[i].Certificate = q.params["ServerCertificateId"]
	return reply{}, nil
}

func deleteDomainExtension(q *request) (any, *failure) {
	l, i, bad := q.domainExtension()
	if bad != nil {
		return nil, bad
	}
	l.Domains = slices.Delete(l.Domains, i, i+1)
	return reply{}, nil
}
