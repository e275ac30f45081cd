package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	corev1 "k8s.io/api/core/v1"
)

const (
	protocolTCP   = "tcp"
	protocolUDP   = "udp"
	protocolHTTP  = "http"
	protocolHTTPS = "https"
)

// A listener is a port of the load balancer: a wanted one with the requested parameters, an existing one with those of the cloud.
type listener struct {
	port      int
	protocol  string
	group     string // name of the wanted group
	groupID   string
	forwardTo int // target port of the redirect of an http listener
	status    string
	params    map[string]string // by their API names, including Description
	domains   map[string]string // certificates of further domains; nil: not requested
}

var (
	every   = []string{protocolTCP, protocolUDP, protocolHTTP, protocolHTTPS}
	layer4  = []string{protocolTCP, protocolUDP}
	layer7  = []string{protocolHTTP, protocolHTTPS}
	checked = []string{protocolTCP, protocolHTTP, protocolHTTPS}
)

func listenerParams() []listenerParam {
	return []listenerParam{
		{"scheduler", "Scheduler", every, "", ""},
		{"persistence-timeout", "PersistenceTimeout", []string{protocolTCP}, "persistence timeout", ""},
		{"established-timeout", "EstablishedTimeout", []string{protocolTCP}, "EstablishedTimeout", ""},
		{"cert-id", "ServerCertificateId", []string{protocolHTTPS}, "", ""},
		{"tls-cipher-policy", "TLSCipherPolicy", []string{protocolHTTPS}, "", ""},
		{"http2-enabled", "EnableHttp2", []string{protocolHTTPS}, "", ""},
		{"proxy-protocol", "ProxyProtocolV2Enabled", layer4, "", ""},
		{"idle-timeout", "IdleTimeout", layer7, "IdleTimeout", ""},
		{"request-timeout", "RequestTimeout", layer7, "RequestTimeout", ""},
		{"acl-status", "AclStatus", every, "", ""},
		{"acl-type", "AclType", every, "", "AclStatus"},
		{"acl-id", "AclId", every, "", "AclStatus"},
		{"connection-drain", "ConnectionDrain", layer4, "", ""},
		{"connection-drain-timeout", "ConnectionDrainTimeout", layer4, "ConnectionDrainTimeout", "ConnectionDrain"},
		{"cookie", "Cookie", layer7, "", ""},
		{"cookie-timeout", "CookieTimeout", layer7, "CookieTimeout", ""},
		{"sticky-session", "StickySession", layer7, "", ""},
		{"sticky-session-type", "StickySessionType", layer7, "", ""},
		{"xforwardedfor-proto", "XForwardedFor_proto", layer7, "", ""},
		{"xforwardedfor-slbport", "XForwardedFor_SLBPORT", layer7, "", ""},
		{"xforwardedfor-clientsrcport", "XForwardedFor_ClientSrcPort", layer7, "", ""},
		{"healthy-threshold", "HealthyThreshold", every, "HealthyThreshold", ""},
		{"unhealthy-threshold", "UnhealthyThreshold", every, "UnhealthyThreshold", ""},
		{"health-check-connect-timeout", "HealthCheckConnectTimeout", layer4, "HealthCheckConnectTimeout", ""},
		{"health-check-connect-port", "HealthCheckConnectPort", every, "HealthCheckConnectPort", ""},
		{"health-check-interval", "HealthCheckInterval", every, "HealthCheckInterval", ""},
		{"health-check-domain", "HealthCheckDomain", checked, "", ""},
		{"health-check-uri", "HealthCheckURI", checked, "", ""},
		{"health-check-httpcode", "HealthCheckHttpCode", checked, "", ""},
		{"health-check-type", "HealthCheckType", []string{protocolTCP}, "", ""},
		{"health-check-flag", "HealthCheck", layer7, "", ""},
		{"health-check-timeout", "HealthCheckTimeout", layer7, "HealthCheckTimeout", ""},
		{"health-check-method", "HealthCheckMethod", layer7, "", ""},
		{"health-check-switch", "HealthCheckSwitch", layer4, "", ""},
	}
}

type listenerParam struct {
	annotation, name string
	protocols        []string
	number           string // its name in the error for a value that is not a number; empty: any text is valid
	needs            string // a difference counts only if this parameter is requested to be on
}

// value returns "" for a number that means "not set".
func (l listenerParam) value(text string) (string, error) {
	if l.name == "ProxyProtocolV2Enabled" {
		return strconv.FormatBool(text == "on"), nil
	}
	if l.number == "" {
		return text, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		//lint:ignore ST1005 the controller's own words
		return "", fmt.Errorf("Annotation %s must be integer, but got [%s]. message=[%w] ", l.number, text, err)
	}
	if n == 0 && l.name != "PersistenceTimeout" {
		return "", nil
	}
	return strconv.Itoa(n), nil
}

func (p *pass) wantedListeners(reused bool) ([]*listener, error) {
	var all []*listener
	for _, port := range p.svc.Spec.Ports {
		l, err := p.wantedListener(port, reused)
		if err != nil {
			return nil, fmt.Errorf("build listener from servicePort %d error: %w", port.Port, err)
		}
		all = append(all, l)
	}
	return all, nil
}

func (p *pass) wantedListener(port corev1.ServicePort, reused bool) (*listener, error) {
	protocol, err := protocolOf(p.annotation("protocol-port"), port)
	if err != nil {
		return nil, err
	}
	l := &listener{
		port: int(port.Port), protocol: protocol, group: p.groupName(port),
		params: map[string]string{"Description": p.key(strconv.Itoa(int(port.Port)))},
	}
	if ports := p.annotation("vgroup-port"); reused && ports != "" {
		if l.groupID, err = groupOf(ports, port); err != nil {
			return nil, err
		}
	}
	for _, param := range listenerParams() {
		text := p.annotation(param.annotation)
		if text == "" {
			continue
		}
		v, err := param.value(text)
		if err != nil {
			return nil, err
		}
		if v != "" && slices.Contains(param.protocols, protocol) {
			l.params[param.name] = v
		}
	}
	if v := p.annotation("forward-port"); v != "" && protocol == protocolHTTP {
		if l.forwardTo, err = forwardOf(v, l.port); err != nil {
			//lint:ignore ST1005 the controller's own words
			return nil, fmt.Errorf("Annotation ForwardPort error: %w ", err)
		}
	}
	if v := p.annotation("domain-extensions"); v != "" && protocol == protocolHTTPS {
		if l.domains, err = domainsOf(v); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// protocolOf parses an annotation such as https:443,http:80.
func protocolOf(annotation string, port corev1.ServicePort) (string, error) {
	if annotation == "" {
		return strings.ToLower(string(port.Protocol)), nil
	}
	for v := range strings.SplitSeq(annotation, ",") {
		parts := strings.Split(v, ":")
		if len(parts) < 2 {
			return "", fmt.Errorf("port and protocol format must be like 'https:443' with colon separated. got=[%+v]", parts)
		}
		if !slices.Contains(every, parts[0]) {
			//lint:ignore ST1005 the controller's own words
			return "", fmt.Errorf("port protocol format must be either [http|https|tcp|udp], protocol not supported wit [%s]\n", parts[0])
		}
		if parts[1] == strconv.Itoa(int(port.Port)) {
			return parts[0], nil
		}
	}
	return strings.ToLower(string(port.Protocol)), nil
}

// forwardOf parses an annotation such as 80:443 and returns the port to which a port redirects, or 0.
func forwardOf(annotation string, port int) (int, error) {
	for v := range strings.SplitSeq(annotation, ",") {
		parts := strings.Split(v, ":")
		if len(parts) != 2 {
			return 0, fmt.Errorf("forward port format error: %s, expect 80:443,88:6443", annotation)
		}
		if parts[0] != strconv.Itoa(port) {
			continue
		}
		to, err := strconv.Atoi(parts[1])
		if err != nil {
			return 0, fmt.Errorf("forward port is not an integer, %s", parts[1])
		}
		return to, nil
	}
	return 0, nil
}

func (p *pass) listenersOf(ctx context.Context, lb string) ([]*listener, error) {
	req := slb.CreateDescribeLoadBalancerListenersRequest()
	req.LoadBalancerId, req.MaxResults = &[]string{lb}, requests.NewInteger(50)
	var all []*listener
	for {
		resp := slb.CreateDescribeLoadBalancerListenersResponse()
		if err := p.cloud.call(ctx, req, resp); err != nil {
			return nil, err
		}
		var page struct{ Listeners []map[string]json.RawMessage }
		if err := json.Unmarshal(resp.GetHttpContentBytes(), &page); err != nil {
			return nil, err
		}
		for i, l := range resp.Listeners {
			params := map[string]string{}
			for k, v := range page.Listeners[i] {
				if strings.HasSuffix(k, "ListenerConfig") {
					var config map[string]json.RawMessage
					if json.Unmarshal(v, &config) == nil {
						for k, v := range config {
							put(params, k, v)
						}
					}
					continue
				}
				put(params, k, v)
			}
			forward, _ := strconv.Atoi(params["ForwardPort"])
			all = append(all, &listener{
				port: l.ListenerPort, protocol: l.ListenerProtocol, groupID: l.VServerGroupId,
				status: l.Status, forwardTo: forward, params: params,
			})
		}
		if resp.NextToken == "" {
			return all, nil
		}
		req.NextToken = resp.NextToken
	}
}

func put(params map[string]string, name string, value json.RawMessage) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return
	}
	switch v := v.(type) {
	case string:
		params[name] = v
	case bool, float64:
		params[name] = string(value)
	}
}

type listenerDiff struct {
	drops, adds []*listener
	changes     []listenerChange // including changes that may turn out to be empty
}

type listenerChange struct{ want, have *listener }

// diffListeners leaves listeners of others alone, unless the Service has the same port.
func (p *pass) diffListeners(want, remote *balancer) (*listenerDiff, error) {
	for _, l := range want.listeners {
		if l.groupID != "" {
			continue
		}
		i := slices.IndexFunc(want.groups, func(g *group) bool { return g.name == l.group })
		if i < 0 {
			return nil, fmt.Errorf("merge listener: find vservergroup error: can not find vgroup by name %s", l.group)
		}
		l.groupID = want.groups[i].id
	}
	d := &listenerDiff{}
	for _, r := range remote.listeners {
		if w := r.among(want.listeners); w != nil {
			d.changes = append(d.changes, listenerChange{w, r})
		} else if p.mine(r.params["Description"]) {
			d.drops = append(d.drops, r)
		}
	}
	for _, l := range want.listeners {
		if l.among(remote.listeners) == nil {
			d.adds = append(d.adds, l)
		}
	}
	return d, nil
}

func (l *listener) among(all []*listener) *listener {
	if i := slices.IndexFunc(all, func(o *listener) bool { return o.port == l.port && o.protocol == l.protocol }); i >= 0 {
		return all[i]
	}
	return nil
}

// A listenerPlan is the work on listeners: during the work on groups, after that on one group (by name), and after all of it.
type listenerPlan struct {
	now, later []func(context.Context) error
	waiting    map[string][]func(ctx context.Context, group string) error
}

// planListeners orders the work: a redirecting listener is created after its target and deleted before it, and a port that
// changes its protocol is free only after its old listener is deleted.
func (p *pass) planListeners(lb string, d *listenerDiff) *listenerPlan {
	plan := &listenerPlan{waiting: map[string][]func(context.Context, string) error{}}
	dropped, redirected := map[int]bool{}, map[int]bool{}
	for _, r := range d.drops {
		dropped[r.port] = true
		redirected[r.forwardTo] = true
	}
	for _, r := range d.drops {
		do := func(ctx context.Context) error { return wrap("delete listener error", p.deleteListener(ctx, lb, r)) }
		if redirected[r.port] {
			plan.later = append(plan.later, do)
			continue
		}
		plan.now = append(plan.now, do)
	}
	put := func(l *listener, after bool, do func(context.Context) error) {
		switch {
		case after:
			plan.later = append(plan.later, do)
		case l.groupID == "":
			plan.waiting[l.group] = append(plan.waiting[l.group], func(ctx context.Context, group string) error {
				l.groupID = group
				return do(ctx)
			})
		default:
			plan.now = append(plan.now, do)
		}
	}
	for _, c := range d.changes {
		put(c.want, false, func(ctx context.Context) error { return wrap("update listener error", p.updateListener(ctx, lb, c)) })
	}
	for _, l := range d.adds {
		put(l, l.forwardTo != 0 || dropped[l.port] && l.groupID != "", func(ctx context.Context) error {
			return wrap("create listener error", p.createListener(ctx, lb, l))
		})
	}
	return plan
}

// applyListeners skips a listener whose group was not created, and returns an error for it.
func (p *pass) applyListeners(ctx context.Context, lb string, plan *listenerPlan, done <-chan groupDone) error {
	var mu sync.Mutex
	var errs []error
	var running sync.WaitGroup
	start := func(n int, do func(i int) error) {
		running.Go(func() {
			got := each(ctx, n, do)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, got...)
		})
	}
	start(len(plan.now), func(i int) error { return plan.now[i](ctx) })
	for g := range done {
		if g.err != nil {
			continue
		}
		tasks := plan.waiting[g.name]
		delete(plan.waiting, g.name)
		start(len(tasks), func(i int) error { return tasks[i](ctx, g.id) })
	}
	running.Wait()
	errs = append(errs, each(ctx, len(plan.later), func(i int) error { return plan.later[i](ctx) })...)
	if len(plan.waiting) > 0 {
		errs = append(errs, errors.New("there are unprocessed listeners in reconcile"))
	}
	return aggregate(errs)
}

func (p *pass) createListener(ctx context.Context, lb string, l *listener) error {
	if !slices.Contains(every, l.protocol) { // such as SCTP, which Kubernetes accepts
		return fmt.Errorf("%s protocol is not supported", l.protocol)
	}
	params := map[string]string{"Scheduler": "rr"}
	if l.protocol != protocolHTTP {
		params["Bandwidth"] = "-1"
	}
	if slices.Contains(layer7, l.protocol) {
		params["HealthCheck"], params["StickySession"] = "off", "off"
	}
	maps.Copy(params, l.params)
	if l.forwardTo != 0 {
		params["ListenerForward"], params["ForwardPort"] = "on", strconv.Itoa(l.forwardTo)
	}
	if every := params["HealthCheckInterval"]; every != "" && slices.Contains(layer4, l.protocol) {
		delete(params, "HealthCheckInterval")
		params["healthCheckInterval"] = every // its name in these two actions
	}
	if err := p.writeListener(ctx, "CreateLoadBalancer%sListener", lb, l, params); err != nil {
		return fmt.Errorf("create %s listener %d error: %w", l.protocol, l.port, err)
	}
	for _, domain := range sorted(l.domains) {
		if err := p.addDomain(ctx, lb, l, domain); err != nil {
			return fmt.Errorf("create https listener %d domain extension { %s %s} error: %w", l.port, domain, l.domains[domain], err)
		}
	}
	return p.startListener(ctx, lb, l)
}

// updateListener sends existing parameters together with the changed ones. A redirect cannot be changed, so its listener is recreated.
func (p *pass) updateListener(ctx context.Context, lb string, c listenerChange) error {
	l, have := c.want, c.have
	if have.status == "stopped" {
		if err := p.startListener(ctx, lb, l); err != nil {
			return fmt.Errorf("start %s listener %d error: %w", l.protocol, l.port, err)
		}
	}
	forward := have.params["ListenerForward"]
	if l.protocol == protocolHTTP && (l.forwardTo != have.forwardTo || l.forwardTo != 0 && forward != "on" || l.forwardTo == 0 && forward != "off") {
		if err := p.deleteListener(ctx, lb, have); err != nil {
			return fmt.Errorf("delete port [%d] error: %w", have.port, err)
		}
		return p.createListener(ctx, lb, l)
	}
	if forward == "on" {
		return nil
	}
	if err := p.changeDomains(ctx, lb, l); err != nil {
		return err
	}
	params := map[string]string{"Description": l.params["Description"], "VServerGroup": "on"}
	differs := l.groupID != have.groupID || params["Description"] != have.params["Description"]
	for _, param := range listenerParams() {
		if !slices.Contains(param.protocols, l.protocol) {
			continue
		}
		v, asked := l.params[param.name]
		off := param.needs != "" && l.params[param.needs] != "on"
		if !asked && param.name != "ServerCertificateId" || off {
			v = have.params[param.name]
		}
		differs = differs || v != have.params[param.name]
		if v != "" {
			params[param.name] = v
		}
	}
	if differs {
		if cert := have.params["ServerCertificateId"]; l.protocol == protocolHTTPS && params["ServerCertificateId"] != cert && p.version.goesOn() {
			if err := p.checkCertificate(ctx, cert, params["ServerCertificateId"]); err != nil {
				return err
			}
		}
		return p.writeListener(ctx, "SetLoadBalancer%sListenerAttribute", lb, l, params)
	}
	return nil
}

// checkCertificate refuses to replace a certificate by an expired one. It reads both, and none for a new listener.
func (p *pass) checkCertificate(ctx context.Context, old, now string) error {
	was, err := p.certificate(ctx, old)
	if err != nil {
		return fmt.Errorf("describe old cert %s error: %w", old, err)
	}
	cert, err := p.certificate(ctx, now)
	switch {
	case err != nil:
		return fmt.Errorf("describe new cert %s error: %w", now, err)
	case was == nil:
		return nil
	case cert == nil:
		return fmt.Errorf("can not found cert by id %s", now)
	case cert.ExpireTimeStamp < time.Now().UnixMilli():
		return fmt.Errorf("can not update cert %s because it is expired", now)
	}
	return nil
}

func (p *pass) certificate(ctx context.Context, id string) (*slb.ServerCertificate, error) {
	req, resp := slb.CreateDescribeServerCertificatesRequest(), slb.CreateDescribeServerCertificatesResponse()
	req.ServerCertificateId = id
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return nil, err
	}
	if all := resp.ServerCertificates.ServerCertificate; len(all) > 0 {
		return &all[0], nil
	}
	return nil, nil
}

func (p *pass) writeListener(ctx context.Context, action, lb string, l *listener, params map[string]string) error {
	req := requests.NewCommonRequest()
	req.Method, req.Product, req.Version = requests.POST, "Slb", "2014-05-15"
	req.ApiName = fmt.Sprintf(action, strings.ToUpper(l.protocol))
	maps.Copy(req.QueryParams, params)
	req.QueryParams["LoadBalancerId"] = lb
	req.QueryParams["ListenerPort"] = strconv.Itoa(l.port)
	if l.groupID != "" {
		req.QueryParams["VServerGroupId"] = l.groupID
	}
	req.TransToAcsRequest()
	return p.cloud.call(ctx, req, responses.NewCommonResponse())
}

func (p *pass) startListener(ctx context.Context, lb string, l *listener) error {
	req := slb.CreateStartLoadBalancerListenerRequest()
	req.LoadBalancerId, req.ListenerPort, req.ListenerProtocol = lb, requests.NewInteger(l.port), p.named(l.protocol)
	return p.cloud.call(ctx, req, slb.CreateStartLoadBalancerListenerResponse())
}

func (p *pass) deleteListener(ctx context.Context, lb string, l *listener) error {
	req := slb.CreateDeleteLoadBalancerListenerRequest()
	req.LoadBalancerId, req.ListenerPort, req.ListenerProtocol = lb, requests.NewInteger(l.port), p.named(l.protocol)
	return p.cloud.call(ctx, req, slb.CreateDeleteLoadBalancerListenerResponse())
}

// named returns the protocol parameter: since v2.6.0 a port can have a TCP and a UDP listener.
func (p *pass) named(protocol string) string {
	if !p.version.since("v2.6.0") {
		return ""
	}
	return protocol
}
