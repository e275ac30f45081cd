package slb

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

var protocols = []string{"TCP", "UDP", "HTTP", "HTTPS"}

func listenerActions() map[string]*core.Action {
	one := []string{"LoadBalancerId", "ListenerPort"}
	m := map[string]*core.Action{
		"DescribeLoadBalancerListeners": {Do: on(describeListeners)},
		"StartLoadBalancerListener":     {Do: on(setListenerStatus("running")), Need: one},
		"StopLoadBalancerListener":      {Do: on(setListenerStatus("stopped")), Need: one},
		"DeleteLoadBalancerListener":    {Do: on(deleteListener), Need: one},
		"DescribeDomainExtensions":      {Do: on(describeDomainExtensions), Need: one},
		"CreateDomainExtension":         {Do: on(createDomainExtension), Need: append(one, "Domain", "ServerCertificateId")},
		"SetDomainExtensionAttribute":   {Do: on(setDomainExtension), Need: []string{"DomainExtensionId", "ServerCertificateId"}},
		"DeleteDomainExtension":         {Do: on(deleteDomainExtension), Need: []string{"DomainExtensionId"}},
	}
	for _, p := range protocols {
		lower := strings.ToLower(p)
		m["CreateLoadBalancer"+p+"Listener"] = &core.Action{Do: on(createListener(lower)), Need: one}
		m["SetLoadBalancer"+p+"ListenerAttribute"] = &core.Action{Do: on(setListener(lower)), Need: one}
		m["DescribeLoadBalancer"+p+"ListenerAttribute"] = &core.Action{Do: on(describeListener(lower)), Need: one}
	}
	return m
}

// conflict reports whether two protocols cannot share a port: only UDP can share one with others.
func conflict(a, b string) bool { return a == b || a != "udp" && b != "udp" }

func noCertificate() *core.Failure {
	return core.Fail(http.StatusBadRequest, "CertificateNotExist", "The specified CertificateId does not exist.")
}

// listener returns the request's listener. The protocol is optional if only one listener has the port.
func (q *request) listener(lb *LoadBalancer, protocol string) (int, *core.Failure) {
	port, bad := q.Params.Number("ListenerPort", 1, 65535, 0)
	if bad != nil {
		return 0, bad
	}
	found := -1
	for i, l := range lb.Listeners {
		if l.Port != port || !core.Is(strings.ToLower(protocol), l.Protocol) {
			continue
		}
		if found >= 0 {
			return 0, core.Missing("ListenerProtocol")
		}
		found = i
	}
	if found < 0 {
		return 0, core.Fail(http.StatusBadRequest, "InvalidParameter", "The specified resource does not exist.")
	}
	return found, nil
}

var configured = []string{
	"LoadBalancerId", "ListenerPort", "ListenerProtocol", "VServerGroup", "VServerGroupId", "Description", "Scheduler", "Bandwidth",
	"ClientToken", "RegionId",
}

// bounds are the ranges of numbers in a listener's configuration. -520, which the controller sends, means the backend's port:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-createloadbalancertcplistener
var bounds = map[string][2]int{
	"HealthyThreshold": {2, 10}, "UnhealthyThreshold": {2, 10}, "HealthCheckInterval": {1, 50}, "HealthCheckTimeout": {1, 300},
	"HealthCheckConnectTimeout": {1, 300}, "HealthCheckConnectPort": {-520, 65535}, "BackendServerPort": {-520, 65535}, "PersistenceTimeout": {0, 3600},
	"EstablishedTimeout": {10, 900}, "IdleTimeout": {1, 60}, "RequestTimeout": {1, 180}, "CookieTimeout": {0, 86400}, "ConnectionDrainTimeout": {10, 900},
	"ForwardPort": {1, 65535},
}

var choices = map[string]string{
	"HealthCheck": "on,off", "HealthCheckSwitch": "on,off", "StickySession": "on,off", "StickySessionType": "insert,server", "HealthCheckType": "tcp,http,udp",
	"HealthCheckMethod": "get,head", "ConnectionDrain": "on,off", "EnableHttp2": "on,off", "Gzip": "on,off", "XForwardedFor": "on,off",
	"XForwardedFor_proto": "on,off", "XForwardedFor_SLBPORT": "on,off", "XForwardedFor_ClientSrcPort": "on,off", "XForwardedFor_SLBIP": "on,off",
	"XForwardedFor_SLBID": "on,off", "ListenerForward": "on,off", "Scheduler": "wrr,wlc,rr,sch,tch,qch",
}

func sound(p core.Params) *core.Failure {
	for name, b := range bounds {
		if _, bad := p.Number(name, b[0], b[1], 0); bad != nil {
			return bad
		}
	}
	for name, list := range choices {
		if v := p[name]; v != "" && !core.OneOf(list, v) {
			return core.Invalid(name)
		}
	}
	return nil
}

func (q *request) configure(lb *LoadBalancer, l *Listener) *core.Failure {
	p := q.Params
	n, bad := p.Number("Bandwidth", -1, 5120, cmp.Or(l.Bandwidth, -1))
	if bad != nil {
		return bad
	}
	if bad := sound(p); bad != nil {
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
		return core.Missing("ServerCertificateId")
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

func (q *request) controlled(config map[string]string) *core.Failure {
	switch {
	case !core.OneOf("on,off", cmp.Or(config["AclStatus"], "off")):
		return core.Invalid("AclStatus")
	case config["AclStatus"] != "on":
		return nil
	case config["AclId"] == "":
		return core.Missing("AclId")
	case !core.OneOf("white,black", cmp.Or(config["AclType"], "none")):
		return core.Invalid("AclType")
	}
	for id := range strings.SplitSeq(config["AclId"], ",") {
		if q.state.ACLs[strings.TrimSpace(id)] == nil {
			return noACL()
		}
	}
	return nil
}

// created returns the parameters of a request that creates a TCP or UDP listener under their other names: those of three differ in case, and
// names are case-sensitive. Source: create_load_balancer_udp_listener.go of the SDK.
func created(p core.Params) core.Params {
	p = maps.Clone(p)
	for _, name := range []string{"HealthCheckInterval", "HealthCheckReq", "HealthCheckExp"} {
		delete(p, name)
		if v, ok := p["h"+name[1:]]; ok {
			delete(p, "h"+name[1:])
			p[name] = v
		}
	}
	delete(p, "HealthCheck") // HealthCheckSwitch
	return p
}

func createListener(protocol string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		return change(q, func(lb *LoadBalancer) *core.Failure {
			port, bad := q.Params.Number("ListenerPort", 1, 65535, 0)
			if bad != nil {
				return bad
			}
			for _, l := range lb.Listeners {
				if l.Port == port && conflict(l.Protocol, protocol) {
					return core.Documented("ListenerAlreadyExists")
				}
			}
			if len(lb.Listeners) >= q.state.quotas.Limit(quotaListeners, 50) {
				return core.Documented("ListenerNumberOverLimit")
			}
			l := Listener{Port: port, Protocol: protocol, Status: "stopped"}
			if protocol == "tcp" || protocol == "udp" {
				q.Params = created(q.Params)
			}
			if bad := q.configure(lb, &l); bad != nil {
				return bad
			}
			lb.Listeners = append(lb.Listeners, l)
			return nil
		})
	}
}

func setListener(protocol string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		return change(q, func(lb *LoadBalancer) *core.Failure {
			i, bad := q.listener(lb, protocol)
			if bad != nil {
				return bad
			}
			return q.configure(lb, &lb.Listeners[i])
		})
	}
}

func setListenerStatus(status string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		return change(q, func(lb *LoadBalancer) *core.Failure {
			i, bad := q.listener(lb, q.Params["ListenerProtocol"])
			if bad == nil {
				lb.Listeners[i].Status = status
			}
			return bad
		})
	}
}

func deleteListener(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		i, bad := q.listener(lb, q.Params["ListenerProtocol"])
		if bad == nil {
			lb.Listeners = slices.Delete(lb.Listeners, i, i+1)
		}
		return bad
	})
}

func (l *Listener) show(lb *LoadBalancer) core.Reply {
	return core.Reply{
		"LoadBalancerId": lb.ID, "ListenerPort": l.Port, "ListenerProtocol": l.Protocol, "Status": l.Status,
		"VServerGroupId": l.VGroup, "Scheduler": l.Scheduler, "Bandwidth": l.Bandwidth, "Description": l.Description,
		"AclStatus": cmp.Or(l.Config["AclStatus"], "off"), "AclType": l.Config["AclType"], "AclId": l.Config["AclId"],
		"BackendServerPort": typed("BackendServerPort", cmp.Or(l.Config["BackendServerPort"], "0")), "ServiceManagedMode": "Unmanaged",
	}
}

func describeListener(protocol string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
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

func describeListeners(q *request) (any, *core.Failure) {
	ids := q.Params.List("LoadBalancerId")
	if len(ids) > 10 {
		return nil, core.Invalid("LoadBalancerId")
	}
	if ids == nil {
		ids = slices.Sorted(maps.Keys(q.state.LoadBalancers))
	}
	list := []core.Reply{}
	for _, id := range ids {
		lb := q.state.LoadBalancers[id]
		if lb == nil {
			return nil, noLoadBalancer()
		}
		for _, l := range lb.Listeners {
			if !core.Is(q.Params["ListenerPort"], strconv.Itoa(l.Port)) || !core.Is(strings.ToLower(q.Params["ListenerProtocol"]), l.Protocol) {
				continue
			}
			e := l.show(lb)
			e["AclIds"] = slices.DeleteFunc(strings.Split(l.Config["AclId"], ","), func(id string) bool { return id == "" }) // in this list only
			e[strings.ToUpper(l.Protocol)+"ListenerConfig"] = l.parameters()
			list = append(list, e)
		}
	}
	part, next, bad := core.Chunk(q.Params, list, 20, 100)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"Listeners": part, "TotalCount": len(list), "MaxResults": len(part), "NextToken": next}, nil
}

func (q *request) domainExtension() (*Listener, int, *core.Failure) {
	for _, lb := range q.state.LoadBalancers {
		for i := range lb.Listeners {
			l := &lb.Listeners[i]
			if n := slices.IndexFunc(l.Domains, func(d Domain) bool { return d.ID == q.Params["DomainExtensionId"] }); n >= 0 {
				return l, n, nil
			}
		}
	}
	return nil, 0, core.Fail(http.StatusBadRequest, "InvalidDomainExtensionId.NotFound", "The specified DomainExtension does not exist.")
}

func describeDomainExtensions(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	i, bad := q.listener(lb, "https")
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, d := range lb.Listeners[i].Domains {
		if core.Is(q.Params["DomainExtensionId"], d.ID) {
			list = append(list, core.Reply{"DomainExtensionId": d.ID, "Domain": d.Name, "ServerCertificateId": d.Certificate})
		}
	}
	return core.Reply{"DomainExtensions": core.Reply{"DomainExtension": list}}, nil
}

func createDomainExtension(q *request) (any, *core.Failure) {
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
	case slices.ContainsFunc(l.Domains, func(d Domain) bool { return d.Name == q.Params["Domain"] }):
		return nil, core.Fail(http.StatusBadRequest, "DomainExtensionAlreadyExist", "The specified Domain already exists.")
	case q.state.Certificates[q.Params["ServerCertificateId"]] == nil:
		return nil, noCertificate()
	case len(l.Domains) >= q.state.quotas.Limit(quotaDomains, 3):
		return nil, core.Fail(http.StatusBadRequest, "DomainExtensionNumberOverLimit", "The maximum number of domain extensions is exceeded.")
	}
	q.state.Serial["de-"]++
	d := Domain{ID: fmt.Sprintf("de-sim%04d", q.state.Serial["de-"]), Name: q.Params["Domain"], Certificate: q.Params["ServerCertificateId"]}
	l.Domains = append(l.Domains, d)
	return core.Reply{"DomainExtensionId": d.ID, "ListenerPort": l.Port}, nil
}

func setDomainExtension(q *request) (any, *core.Failure) {
	l, i, bad := q.domainExtension()
	if bad != nil {
		return nil, bad
	}
	if q.state.Certificates[q.Params["ServerCertificateId"]] == nil {
		return nil, noCertificate()
	}
	l.Domains[i].Certificate = q.Params["ServerCertificateId"]
	return core.Reply{}, nil
}

func deleteDomainExtension(q *request) (any, *core.Failure) {
	l, i, bad := q.domainExtension()
	if bad != nil {
		return nil, bad
	}
	l.Domains = slices.Delete(l.Domains, i, i+1)
	return core.Reply{}, nil
}
