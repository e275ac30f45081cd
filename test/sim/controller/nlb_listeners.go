package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// certificatesPerCall is the number of additional certificates in one call.
	certificatesPerCall = 15
	// jobsPerCall is the number of jobs in one call of ListAsynJobs.
	jobsPerCall = 20

	protocolTLS = "TCPSSL"

	proxyMarks = "ProxyProtocolV2Config."
)

// A networkListener is a port, or a range of ports: a wanted one with the requested parameters, an existing one with those of the cloud.
type networkListener struct {
	id, protocol, status, group, groupID string
	port                                 int // 0: from first to last
	first, last                          int
	params                               map[string]string // by their API names, lists with indexes
	further                              []string          // additional certificates
	servicePort                          corev1.ServicePort
}

func (l *networkListener) ports(between string) string {
	if l.port != 0 {
		return strconv.Itoa(l.port)
	}
	return strconv.Itoa(l.first) + between + strconv.Itoa(l.last)
}

func (l *networkListener) span() (first, last int) {
	if l.port != 0 {
		return l.port, l.port
	}
	return l.first, l.last
}

func (l *networkListener) same(o *networkListener) bool {
	return l.protocol == o.protocol && l.port == o.port && (l.port != 0 || l.first == o.first && l.last == o.last)
}

func (p networkPass) wantedListeners(reused bool) ([]*networkListener, error) {
	var all []*networkListener
	for _, port := range p.svc.Spec.Ports {
		l, err := p.wantedListener(port, reused)
		if err != nil {
			return nil, fmt.Errorf("build listener from servicePort %d error: %w", port.Port, err)
		}
		all = append(all, l)
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			first, last := a.span()
			from, to := b.span()
			if a.protocol == b.protocol && first <= to && from <= last {
				return nil, fmt.Errorf("port of listener [%s] overlaps with listener [%s]", a.ports("-"), b.ports("-"))
			}
		}
	}
	return all, nil
}

func (p networkPass) wantedListener(port corev1.ServicePort, reused bool) (*networkListener, error) {
	l := &networkListener{port: int(port.Port), servicePort: port, params: map[string]string{}}
	var err error
	if l.protocol, err = p.protocolOf(port); err != nil {
		return nil, err
	}
	if err := p.wantedRange(l); err != nil {
		return nil, err
	}
	l.params["ListenerDescription"] = p.networkKey(l.ports("_"), l.protocol)
	number := l.ports("_")
	if l.port != 0 {
		number = strconv.Itoa(int(port.NodePort))
	}
	if l.port != 0 && p.usesENI(p.svc) {
		number = port.TargetPort.String()
		if port.TargetPort.Type == intstr.Int {
			number = strconv.Itoa(port.TargetPort.IntValue())
		}
	}
	l.group = p.networkKey(number, l.protocol)
	if named := p.annotation("vgroup-port"); reused && named != "" {
		if l.groupID, err = namedGroup(named, port); err != nil {
			return nil, err
		}
	}
	for _, n := range []struct{ annotation, name, called string }{{"idle-timeout", "IdleTimeout", "IdleTimeout"}, {"cps", "Cps", "Mss"}} {
		v := p.annotation(n.annotation)
		if v == "" {
			continue
		}
		if _, err := strconv.Atoi(v); err != nil {
			return nil, fmt.Errorf("parse %s error: %w", n.called, err)
		}
		l.params[n.name] = v
	}
	p.wantedTLS(l)
	return l, nil
}

// wantedTLS sets the parameters of the proxy protocol and TLS. The controller sends most of them also without TLS.
func (p networkPass) wantedTLS(l *networkListener) {
	flag := func(annotation, name string) {
		if v := p.annotation(annotation); v != "" {
			l.params[name] = strconv.FormatBool(strings.EqualFold(v, "on"))
		}
	}
	list := func(annotation, name string) {
		if v := p.annotation(annotation); v != "" {
			sayList(l.params, name, strings.Split(v, ","))
		}
	}
	flag("proxy-protocol", "ProxyProtocolEnabled")
	flag("ppv2-pvl-ep-id-enabled", proxyMarks+"Ppv2PrivateLinkEpIdEnabled")
	flag("ppv2-pvl-eps-id-enabled", proxyMarks+"Ppv2PrivateLinkEpsIdEnabled")
	flag("ppv2-pvl-vpc-id-enabled", proxyMarks+"Ppv2VpcIdEnabled")
	flag("cacert", "CaEnabled")
	say(l.params, "SecurityPolicyId", p.annotation("tls-cipher-policy"))
	list("cert-id", "CertificateIds")
	list("cacert-id", "CaCertificateIds")
	if l.protocol != protocolTLS {
		return
	}
	flag("alpn", "AlpnEnabled")
	if l.params["AlpnEnabled"] == "true" {
		say(l.params, "AlpnPolicy", p.annotation("alpn-policy"))
	}
	if v := p.annotation("additional-cert-ids"); v != "" {
		l.further = strings.Split(v, ",")
	}
}

// protocolOf returns a port's protocol from an annotation such as tcpssl:443,udp:53, or from the Service.
func (p networkPass) protocolOf(port corev1.ServicePort) (string, error) {
	annotation := p.annotation("protocol-port")
	for v := range strings.SplitSeq(annotation, ",") {
		if annotation == "" {
			break
		}
		parts := strings.Split(v, ":")
		if len(parts) < 2 {
			return "", fmt.Errorf("port and protocol format must be like 'https:443' with colon separated. got=[%+v]", parts)
		}
		protocol := strings.ToUpper(parts[0])
		if !slices.Contains([]string{"TCP", "UDP", protocolTLS}, protocol) {
			with := "with"
			if !p.version.since("v2.13.0") {
				with = "wit" // misspelt in the controller
			}
			// The real text ends with a line break.
			return "", fmt.Errorf("port protocol format must be either [TCP|UDP|TCPSSL], protocol not supported %s [%s]%s", with, parts[0], "\n")
		}
		if parts[1] == strconv.Itoa(int(port.Port)) {
			return protocol, nil
		}
	}
	return string(port.Protocol), nil
}

// wantedRange sets a listener's ports from an annotation such as 1000-2000:80.
func (p networkPass) wantedRange(l *networkListener) error {
	annotation := p.annotation("listener-port-range")
	if annotation == "" {
		return nil
	}
	if !p.usesENI(p.svc) {
		return errors.New("listener port range can only be used for eni backend type service")
	}
	for v := range strings.SplitSeq(annotation, ",") {
		malformed := fmt.Errorf("listener port range must be like 1000-2000:80 with colon separated. got [%+v]", v)
		parts := strings.Split(v, ":")
		if len(parts) != 2 {
			return malformed
		}
		if parts[1] != strconv.Itoa(l.port) {
			continue
		}
		between := strings.Split(parts[0], "-")
		if len(between) != 2 {
			return malformed
		}
		first, err := strconv.Atoi(between[0])
		last, err2 := strconv.Atoi(between[1])
		switch err := cmp.Or(err, err2); {
		case err != nil:
			return fmt.Errorf("failed to convert port range [%+v] to int: %w", v, err)
		case first >= last:
			return fmt.Errorf("start port should be smaller than end port for port range [%+v]", v)
		case first < 1 || last > 65535:
			return fmt.Errorf("port range [%+v] is invalid", v)
		}
		l.port, l.first, l.last = 0, first, last
		return nil
	}
	return nil
}

// namedGroup returns the group of a port in an annotation such as sgp-a:80,sgp-b:443.
func namedGroup(annotation string, port corev1.ServicePort) (string, error) {
	for v := range strings.SplitSeq(annotation, ",") {
		parts := strings.Split(v, ":")
		if len(parts) < 2 {
			return "", fmt.Errorf("server group id and protocol format must be like 'sg-xxx:443' with colon separated. got=[%+v]", parts)
		}
		if parts[1] == strconv.Itoa(int(port.Port)) {
			return parts[0], nil
		}
	}
	return "", nil
}

// readListeners reads the listeners, and their additional certificates twice if the Service lists any, as the controller does.
func (p networkPass) readListeners(ctx context.Context, lb *networkBalancer) error {
	all, err := p.listListeners(ctx, lb.id)
	named := p.has("additional-cert-ids")
	if err == nil && named {
		err = p.readCertificates(ctx, all)
	}
	if err != nil {
		return fmt.Errorf("DescribeNLBListeners error:%w", err)
	}
	if named {
		if err := p.readCertificates(ctx, all); err != nil {
			return fmt.Errorf("SetListenerAdditionalCertificates error:%w", err)
		}
	}
	lb.listeners = all
	return nil
}

func (p networkPass) listListeners(ctx context.Context, lb string) ([]*networkListener, error) {
	var all []*networkListener
	params := map[string]string{"LoadBalancerIds.1": lb, "MaxResults": "100"}
	for {
		var a struct {
			Listeners []map[string]json.RawMessage
			NextToken string
		}
		if err := p.ask(ctx, "ListListeners", params, &a); err != nil {
			return nil, err
		}
		for _, raw := range a.Listeners {
			l := &networkListener{params: flat(raw)}
			var marks map[string]json.RawMessage
			if json.Unmarshal(raw["ProxyProtocolV2Config"], &marks) == nil {
				for k, v := range flat(marks) {
					l.params[proxyMarks+k] = v
				}
			}
			l.id, l.protocol, l.status, l.groupID = l.params["ListenerId"], l.params["ListenerProtocol"], l.params["ListenerStatus"], l.params["ServerGroupId"]
			l.port, _ = strconv.Atoi(l.params["ListenerPort"])
			l.first, _ = strconv.Atoi(l.params["StartPort"])
			l.last, _ = strconv.Atoi(l.params["EndPort"])
			all = append(all, l)
		}
		if a.NextToken == "" {
			return all, nil
		}
		params["NextToken"] = a.NextToken
	}
}

func (p networkPass) readCertificates(ctx context.Context, all []*networkListener) error {
	tls := slices.DeleteFunc(slices.Clone(all), func(l *networkListener) bool { return l.protocol != protocolTLS })
	return aggregate(each(ctx, len(tls), func(i int) error {
		tls[i].further = nil
		params := map[string]string{"ListenerId": tls[i].id, "MaxResults": "50"}
		for {
			var a struct {
				Certificates []struct {
					CertificateId string
					IsDefault     bool
				}
				NextToken string
			}
			if err := p.ask(ctx, "ListListenerCertificates", params, &a); err != nil {
				return err
			}
			for _, c := range a.Certificates {
				if !c.IsDefault {
					tls[i].further = append(tls[i].further, c.CertificateId)
				}
			}
			if a.NextToken == "" {
				return nil
			}
			params["NextToken"] = a.NextToken
		}
	}))
}

// A networkPlan is the work on listeners: during the work on groups, and after one group exists, by its name. Each step returns its job.
type networkPlan struct {
	now     []networkStep
	waiting map[string][]networkStep
}

type networkStep func(ctx context.Context, group string) (job string, err error)

func (p networkPass) planListeners(want, lb *networkBalancer) (*networkPlan, error) {
	plan := &networkPlan{waiting: map[string][]networkStep{}}
	for _, l := range want.listeners {
		i := slices.IndexFunc(want.groups, func(g *networkGroup) bool { return g.name == l.group || l.groupID != "" && g.id == l.groupID })
		if i < 0 {
			return nil, fmt.Errorf("can not find server group by name %s", l.group)
		}
		l.groupID = want.groups[i].id
	}
	for _, r := range lb.listeners {
		kept := slices.ContainsFunc(want.listeners, r.same)
		if kept || want.reused && !p.networkMine(r.params["ListenerDescription"]) {
			continue
		}
		plan.now = append(plan.now, func(ctx context.Context, _ string) (string, error) {
			job, err := p.listener(ctx, "DeleteListener", map[string]string{"ListenerId": r.id}, nil)
			return job, wrap("EnsureListenerDeleted error", err)
		})
	}
	for _, l := range want.listeners {
		var do networkStep
		if i := slices.IndexFunc(lb.listeners, l.same); i >= 0 {
			have := lb.listeners[i]
			do = func(ctx context.Context, group string) (string, error) {
				job, err := p.updateListener(ctx, l, have, group)
				return job, wrap("EnsureListenerCreated error", err) // as in the controller
			}
		} else {
			do = func(ctx context.Context, group string) (string, error) {
				job, err := p.createListener(ctx, lb.id, l, group)
				return job, wrap("EnsureListenerUpdated error", err) // as in the controller
			}
		}
		if l.groupID == "" {
			plan.waiting[l.group] = append(plan.waiting[l.group], do)
			continue
		}
		plan.now = append(plan.now, func(ctx context.Context, _ string) (string, error) { return do(ctx, l.groupID) })
	}
	return plan, nil
}

// listener makes a call that changes a listener, and repeats it after a conflict. It returns its job, and sets id if not nil.
func (p networkPass) listener(ctx context.Context, action string, params map[string]string, id *string) (string, error) {
	var a struct{ JobId, ListenerId string }
	err := p.again(ctx, "Conflict.Lock", func() error { return p.ask(ctx, action, params, &a) })
	if id != nil {
		*id = a.ListenerId
	}
	return a.JobId, err
}

func (p networkPass) createListener(ctx context.Context, lb string, l *networkListener, group string) (string, error) {
	params := map[string]string{"LoadBalancerId": lb, "ListenerProtocol": l.protocol, "ListenerPort": strconv.Itoa(l.port), "ServerGroupId": group}
	if l.port == 0 {
		params["StartPort"], params["EndPort"] = strconv.Itoa(l.first), strconv.Itoa(l.last)
	}
	maps.Copy(params, l.params)
	var id string
	job, err := p.listener(ctx, "CreateListener", params, &id)
	if err != nil || len(l.further) == 0 {
		return job, err
	}
	if err := p.finished(ctx, job, jobInterval, jobLimit); err != nil {
		return "", err
	}
	return "", p.certificates(ctx, "AssociateAdditionalCertificatesWithListener", id, l.further)
}

func (p networkPass) certificates(ctx context.Context, action, listener string, ids []string) error {
	var errs []error
	for part := range slices.Chunk(ids, certificatesPerCall) {
		errs = append(errs, p.work(ctx, action, sayList(map[string]string{"ListenerId": listener}, "AdditionalCertificateIds", part)))
	}
	return aggregate(errs)
}

// listenerAttributes are all sent when one of them changes.
var listenerAttributes = []string{
	"ListenerDescription", "IdleTimeout", "SecurityPolicyId", "CaEnabled", "Cps", "ProxyProtocolEnabled", "AlpnEnabled", "AlpnPolicy",
}

func forTLS(name string) bool {
	return name == "CaEnabled" || name == "SecurityPolicyId" || strings.HasPrefix(name, "CertificateIds.") || strings.HasPrefix(name, "CaCertificateIds.")
}

func (p networkPass) updateListener(ctx context.Context, l, have *networkListener, group string) (string, error) {
	if have.status == "Stopped" {
		if err := p.ask(ctx, "StartListener", map[string]string{"ListenerId": have.id}, nil); err != nil {
			return "", fmt.Errorf("start listener %s error: %w", have.id, err)
		}
	}
	var errs []error
	if l.protocol == protocolTLS && p.has("additional-cert-ids") && differ(l.further, have.further) {
		errs = append(errs, p.again(ctx, "Conflict.Lock", func() error { return p.updateCertificates(ctx, l, have) }))
	}
	differs := have.groupID != group
	for k, v := range l.params {
		differs = differs || have.params[k] != v && (l.protocol == protocolTLS || !forTLS(k))
	}
	if !differs {
		return "", aggregate(errs)
	}
	params := map[string]string{"ListenerId": have.id, "ServerGroupId": group}
	for k, v := range have.params {
		if slices.Contains(listenerAttributes, k) || strings.HasPrefix(k, proxyMarks) || strings.HasPrefix(k, "CertificateIds.") ||
			strings.HasPrefix(k, "CaCertificateIds.") {
			say(params, k, v)
		}
	}
	for k, v := range l.params {
		if l.protocol == protocolTLS || !forTLS(k) {
			params[k] = v
		}
	}
	if params["AlpnEnabled"] != "true" {
		delete(params, "AlpnPolicy")
	}
	job, err := p.listener(ctx, "UpdateListenerAttribute", params, nil)
	return job, aggregate(append(errs, err))
}

func (p networkPass) updateCertificates(ctx context.Context, l, have *networkListener) error {
	var errs []error
	if add := without(l.further, have.further); len(add) > 0 {
		errs = append(errs, wrap("error associate additional certs", p.certificates(ctx, "AssociateAdditionalCertificatesWithListener", have.id, add)))
	}
	if drop := without(have.further, l.further); len(drop) > 0 {
		errs = append(errs, wrap("error disassociate additional certs", p.certificates(ctx, "DisassociateAdditionalCertificatesWithListener", have.id, drop)))
	}
	return aggregate(errs)
}

func (p networkPass) applyListeners(ctx context.Context, plan *networkPlan, done <-chan groupDone) error {
	var mu sync.Mutex
	var errs []error
	var running sync.WaitGroup
	start := func(steps []networkStep, group string) {
		if len(steps) == 0 {
			return
		}
		running.Go(func() {
			got := p.steps(ctx, steps, group)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, got...)
		})
	}
	start(plan.now, "")
	for g := range done {
		if g.err != nil {
			continue
		}
		steps := plan.waiting[g.name]
		delete(plan.waiting, g.name)
		start(steps, g.id)
	}
	running.Wait()
	if len(plan.waiting) > 0 {
		errs = append(errs, errors.New("there are unprocessed listeners in reconcile"))
	}
	return aggregate(errs)
}

func (p networkPass) steps(ctx context.Context, steps []networkStep, group string) []error {
	var errs []error
	var jobs []string
	for _, do := range steps {
		id, err := do(ctx, group)
		errs = append(errs, err)
		if err == nil && id != "" {
			jobs = append(jobs, id)
		}
	}
	if len(jobs) > 0 {
		errs = append(errs, wrap("wait jobs error", p.allFinished(ctx, "EnsuredListenerChanged", jobs)))
	}
	return errs
}

// allFinished waits for jobs, beginning with a pause. Failed or slow jobs are errors; unknown ones are done. Releases before
// v2.12.0 polled each job and ignored its result.
func (p networkPass) allFinished(ctx context.Context, api string, left []string) error {
	if !p.version.since("v2.12.0") {
		for _, id := range left {
			if err := p.finished(ctx, id, jobInterval, jobLimit); err != nil {
				return err
			}
		}
		return nil
	}
	var errs []error
	for over := jobLimit; ; over -= batchInterval {
		if err := p.wait(ctx, min(over, batchInterval)); err != nil {
			return err
		}
		if over <= batchInterval {
			return aggregate(append(errs, context.DeadlineExceeded))
		}
		var on []string
		for part := range slices.Chunk(left, jobsPerCall) {
			var a struct{ Jobs []struct{ Id, Status string } }
			if err := p.ask(ctx, "ListAsynJobs", sayList(map[string]string{}, "JobIds", part), &a); err != nil {
				return aggregate(append(errs, err))
			}
			for _, j := range a.Jobs {
				switch j.Status {
				case "Succeeded":
				case "Failed":
					errs = append(errs, fmt.Errorf("job %s for API %s failed", j.Id, api))
				default:
					on = append(on, j.Id)
				}
			}
		}
		if left = on; len(left) == 0 {
			return aggregate(errs)
		}
	}
}
