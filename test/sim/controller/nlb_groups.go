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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// networkBatch is how many servers go into one call.
const networkBatch = 40

// networkKey returns the name or description of something of this Service.
func (p networkPass) networkKey(port, protocol string) string {
	return strings.Join([]string{"k8s", port, protocol, p.svc.Name, p.svc.Namespace, p.ClusterID}, ".")
}

func (p networkPass) networkMine(key string) bool {
	parts := strings.Split(key, ".")
	return len(parts) == 6 && parts[0] == "k8s" && slices.Equal(parts[3:], []string{p.svc.Name, p.svc.Namespace, p.ClusterID})
}

// A networkListener is a port of an NLB: as the Service wants it, where a
// parameter that is missing is not asked for, or as the cloud has it.
type networkListener struct {
	id, protocol, status, group, groupID string
	port                                 int
	params                               map[string]string // by their names in the API, lists with their numbers
	servicePort                          corev1.ServicePort
}

func (p networkPass) wantedListeners() ([]*networkListener, error) {
	var all []*networkListener
	for _, port := range p.svc.Spec.Ports {
		l, err := p.wantedListener(port)
		if err != nil {
			return nil, fmt.Errorf("build listener from servicePort %d error: %w", port.Port, err)
		}
		all = append(all, l)
	}
	return all, nil
}

func (p networkPass) wantedListener(port corev1.ServicePort) (*networkListener, error) {
	protocol, err := networkProtocol(p.annotation("protocol-port"), port)
	if err != nil {
		return nil, err
	}
	number := strconv.Itoa(int(port.NodePort))
	if p.usesENI(p.svc) {
		number = port.TargetPort.String()
		if port.TargetPort.Type == intstr.Int {
			number = strconv.Itoa(port.TargetPort.IntValue())
		}
	}
	// A group of servers knows no TLS.
	l := &networkListener{
		protocol: protocol, port: int(port.Port), servicePort: port, group: p.networkKey(number, strings.Replace(protocol, "TCPSSL", "TCP", 1)),
		params: map[string]string{"ListenerDescription": p.networkKey(strconv.Itoa(int(port.Port)), protocol)},
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
	flag := func(annotation, name string) {
		if v := p.annotation(annotation); v != "" {
			l.params[name] = strconv.FormatBool(strings.EqualFold(v, "on"))
		}
	}
	flag("proxy-protocol", "ProxyProtocolEnabled")
	if protocol == "TCPSSL" {
		flag("cacert", "CaEnabled")
		flag("alpn", "AlpnEnabled")
		say(l.params, "SecurityPolicyId", p.annotation("tls-cipher-policy"))
		say(l.params, "AlpnPolicy", p.annotation("alpn-policy"))
		for annotation, name := range map[string]string{"cert-id": "CertificateIds", "cacert-id": "CaCertificateIds"} {
			if v := p.annotation(annotation); v != "" {
				sayList(l.params, name, strings.Split(v, ","))
			}
		}
	}
	return l, nil
}

// networkProtocol reads an annotation such as tcpssl:443,udp:53.
func networkProtocol(annotation string, port corev1.ServicePort) (string, error) {
	for v := range strings.SplitSeq(annotation, ",") {
		if annotation == "" {
			break
		}
		parts := strings.Split(v, ":")
		if len(parts) < 2 {
			return "", fmt.Errorf("port and protocol format must be like 'https:443' with colon separated. got=[%+v]", parts)
		}
		protocol := strings.ToUpper(parts[0])
		if !slices.Contains([]string{"TCP", "UDP", "TCPSSL"}, protocol) {
			return "", fmt.Errorf("%s protocol is not supported", parts[0])
		}
		if parts[1] == strconv.Itoa(int(port.Port)) {
			return protocol, nil
		}
	}
	return string(port.Protocol), nil
}

// wantedServers finds the servers behind each listener.
func (p networkPass) wantedServers(ctx context.Context, want *networkBalancer) error {
	nodes, err := p.candidates()
	if err != nil {
		return fmt.Errorf("get nodes error: %w", err)
	}
	ends, err := p.endpointSlices()
	if err != nil {
		return fmt.Errorf("get endpointslice error: %w", err)
	}
	want.attributes = map[string]map[string]string{}
	for _, l := range want.listeners {
		g := &group{name: l.group, keepWeights: strings.EqualFold(p.annotation("ignore-weight-update"), "on")}
		if err := p.fillGroup(g, l.servicePort, nodes, ends, -1); err != nil {
			return fmt.Errorf("set ServerGroup for port %d error: %w", l.port, err)
		}
		if len(g.backends) == 0 {
			p.event(note{corev1.EventTypeNormal, reasonUnavailable, "There are no available nodes for NetworkLoadBalancer"})
		}
		want.groups = append(want.groups, g)
		want.attributes[g.name] = p.groupAttributes(l)
	}
	return p.findInterfaces(ctx, want.groups)
}

// groupAttributes returns the parameters of a listener's group.
func (p networkPass) groupAttributes(l *networkListener) map[string]string {
	params := map[string]string{"Protocol": strings.Replace(l.protocol, "TCPSSL", "TCP", 1)}
	say(params, "Scheduler", p.annotation("scheduler"))
	say(params, "ConnectionDrainTimeout", p.annotation("connection-drain-timeout"))
	say(params, "ResourceGroupId", p.annotation("resource-group-id"))
	for annotation, name := range map[string]string{
		"connection-drain": "ConnectionDrainEnabled", "preserve-client-ip": "PreserveClientIpEnabled", "health-check-flag": "HealthCheckConfig.HealthCheckEnabled",
	} {
		if v := p.annotation(annotation); v != "" {
			params[name] = strconv.FormatBool(strings.EqualFold(v, "on"))
		}
	}
	if params["HealthCheckConfig.HealthCheckEnabled"] == "true" {
		for annotation, name := range map[string]string{
			"health-check-type": "HealthCheckType", "health-check-connect-port": "HealthCheckConnectPort", "healthy-threshold": "HealthyThreshold",
			"unhealthy-threshold": "UnhealthyThreshold", "health-check-connect-timeout": "HealthCheckConnectTimeout", "health-check-interval": "HealthCheckInterval",
			"health-check-domain": "HealthCheckDomain", "health-check-uri": "HealthCheckUrl", "health-check-method": "HttpCheckMethod",
		} {
			say(params, "HealthCheckConfig."+name, p.annotation(annotation))
		}
	}
	return params
}

// readGroups reads the Service's groups, which carry its tags, with their servers.
func (p networkPass) readGroups(ctx context.Context, lb *networkBalancer) error {
	lb.groups, lb.attributes = nil, map[string]map[string]string{}
	params := sayTags(map[string]string{"MaxResults": "100"}, map[string]string{tagOwn: p.name, tagCluster: p.ClusterID})
	for {
		var a struct {
			ServerGroups []map[string]json.RawMessage
			NextToken    string
		}
		if err := p.ask(ctx, "ListServerGroups", params, &a); err != nil {
			return err
		}
		for _, raw := range a.ServerGroups {
			all := map[string]string{}
			for k, v := range raw {
				put(all, k, v)
			}
			var check map[string]json.RawMessage
			if json.Unmarshal(raw["HealthCheck"], &check) == nil {
				for k, v := range check {
					put(all, "HealthCheckConfig."+k, v)
				}
			}
			g := &group{id: all["ServerGroupId"], name: all["ServerGroupName"]}
			lb.groups, lb.attributes[g.name] = append(lb.groups, g), all
		}
		if a.NextToken == "" {
			break
		}
		params["NextToken"] = a.NextToken
	}
	for _, g := range lb.groups {
		if err := p.readServers(ctx, g); err != nil {
			return fmt.Errorf("[%s] [%s] %w", g.id, g.name, err)
		}
	}
	return nil
}

func (p networkPass) readServers(ctx context.Context, g *group) error {
	params := map[string]string{"ServerGroupId": g.id, "MaxResults": "100"}
	for {
		var a struct {
			Servers []struct {
				ServerId, ServerIp, ServerType, Description string
				Port, Weight                                int
			}
			NextToken string
		}
		if err := p.ask(ctx, "ListServerGroupServers", params, &a); err != nil {
			return err
		}
		for _, s := range a.Servers {
			foreign := !p.networkMine(s.Description)
			g.foreign = g.foreign || foreign
			g.backends = append(g.backends, backend{
				ServerID: s.ServerId, ServerIP: s.ServerIp, Type: strings.ToLower(s.ServerType), Port: s.Port, Weight: s.Weight,
				Description: s.Description, foreign: foreign,
			})
		}
		if a.NextToken == "" {
			return nil
		}
		params["NextToken"] = a.NextToken
	}
}

// applyGroups makes the moves, and those attributes of groups as wanted that
// differ. It reports each group in done as soon as it is there, before it has
// servers.
func (p networkPass) applyGroups(ctx context.Context, want, lb *networkBalancer, moves []move, done chan<- groupDone) error {
	if done != nil {
		defer close(done)
	}
	if p.changed {
		for _, w := range want.groups {
			i := slices.IndexFunc(lb.groups, func(h *group) bool { return h.id == w.id })
			planned := slices.ContainsFunc(moves, func(m move) bool { return m.want.name == w.name })
			if w.id != "" && i >= 0 && !planned {
				moves = append(moves, move{want: w, have: lb.groups[i]})
			}
		}
	}
	return aggregate(each(ctx, len(moves), func(i int) error {
		m := moves[i]
		if m.have == nil {
			return p.createServers(ctx, lb, m.want, want.attributes[m.want.name], done)
		}
		return p.changeServers(ctx, m, want.attributes[m.want.name], lb.attributes[m.have.name])
	}))
}

func (p networkPass) createServers(ctx context.Context, lb *networkBalancer, g *group, attributes map[string]string, done chan<- groupDone) error {
	err := p.createServerGroup(ctx, lb, g, attributes)
	if done != nil {
		done <- groupDone{g.name, g.id, err}
	}
	if err != nil {
		return fmt.Errorf("EnsureServerGroupCreated error: %w", err)
	}
	return wrap("BatchAddServers error", p.servers(ctx, "AddServersToServerGroup", g.id, g.backends))
}

func (p networkPass) createServerGroup(ctx context.Context, lb *networkBalancer, g *group, attributes map[string]string) error {
	params := sayTags(map[string]string{"ServerGroupName": g.name, "VpcId": lb.vpc}, map[string]string{tagOwn: p.name, tagCluster: p.ClusterID})
	maps.Copy(params, attributes)
	var a struct{ ServerGroupId string }
	if err := p.ask(ctx, "CreateServerGroup", params, &a); err != nil {
		return err
	}
	g.id = a.ServerGroupId
	return p.poll(ctx, groupInterval, groupLimit, func() (bool, error) {
		var list struct {
			ServerGroups []struct{ ServerGroupStatus string }
		}
		err := p.ask(ctx, "ListServerGroups", map[string]string{"ServerGroupIds.1": g.id}, &list)
		return err == nil && len(list.ServerGroups) > 0 && list.ServerGroups[0].ServerGroupStatus != "Creating", err
	})
}

func (p networkPass) changeServers(ctx context.Context, m move, want, have map[string]string) error {
	var errs []error
	params := map[string]string{"ServerGroupId": m.have.id, "ServerGroupName": m.want.name}
	for k, v := range want {
		if k != "Protocol" && k != "ResourceGroupId" && !strings.EqualFold(have[k], v) {
			params[k] = v
		}
	}
	if len(params) > 2 && p.changed {
		errs = append(errs, wrap("UpdateNLBServerGroup error", p.ask(ctx, "UpdateServerGroupAttribute", params, nil)))
	}
	drop, amend := m.drop, m.amend
	if p.mustKeep(m) {
		drop, amend = nil, nil
	}
	errs = append(errs,
		p.servers(ctx, "AddServersToServerGroup", m.have.id, m.add),
		p.servers(ctx, "RemoveServersFromServerGroup", m.have.id, drop),
		p.servers(ctx, "UpdateServerGroupServersAttribute", m.have.id, amend))
	return aggregate(errs)
}

// servers does something about servers of a group, and waits for it.
func (p networkPass) servers(ctx context.Context, action, group string, all []backend) error {
	var errs []error
	for part := range slices.Chunk(all, networkBatch) {
		params := map[string]string{"ServerGroupId": group}
		for i, b := range part {
			at := fmt.Sprintf("Servers.%d.", i+1)
			params[at+"ServerId"], params[at+"Port"] = b.ServerID, strconv.Itoa(b.Port)
			params[at+"ServerType"] = strings.ToUpper(b.Type[:1]) + b.Type[1:]
			say(params, at+"ServerIp", b.ServerIP)
			if action != "RemoveServersFromServerGroup" {
				params[at+"Weight"], params[at+"Description"] = strconv.Itoa(b.Weight), b.Description
			}
		}
		errs = append(errs, p.work(ctx, action, params))
	}
	return aggregate(errs)
}

// cleanup deletes the groups of this Service that no port has any more, or takes
// their tags off if the NLB stays without the Service.
func (p networkPass) cleanup(ctx context.Context, want, lb *networkBalancer) error {
	var gone groups
	for _, g := range lb.groups {
		switch {
		case slices.ContainsFunc(want.groups, func(w *group) bool { return w.id == g.id }):
		case want.preserve && deleting(p.svc):
			if err := p.untag(ctx, "servergroup", g.id, []string{tagCluster, tagOwn}); err != nil {
				return err
			}
		case p.networkMine(g.name) && !g.foreign:
			gone = append(gone, g)
		default:
			own := slices.DeleteFunc(slices.Clone(g.backends), func(b backend) bool { return b.foreign })
			if err := p.servers(ctx, "RemoveServersFromServerGroup", g.id, own); err != nil {
				return err
			}
		}
	}
	return aggregate(each(ctx, len(gone), func(i int) error {
		return p.ask(ctx, "DeleteServerGroup", map[string]string{"ServerGroupId": gone[i].id}, nil)
	}))
}

func (p networkPass) readListeners(ctx context.Context, lb *networkBalancer) error {
	lb.listeners = nil
	params := map[string]string{"LoadBalancerIds.1": lb.id, "MaxResults": "100"}
	for {
		var a struct {
			Listeners []map[string]json.RawMessage
			NextToken string
		}
		if err := p.ask(ctx, "ListListeners", params, &a); err != nil {
			return err
		}
		for _, raw := range a.Listeners {
			l := &networkListener{params: map[string]string{}}
			for k, v := range raw {
				put(l.params, k, v)
				var list []string
				if json.Unmarshal(v, &list) == nil {
					sayList(l.params, k, list)
				}
			}
			l.id, l.protocol, l.status, l.groupID = l.params["ListenerId"], l.params["ListenerProtocol"], l.params["ListenerStatus"], l.params["ServerGroupId"]
			l.port, _ = strconv.Atoi(l.params["ListenerPort"])
			lb.listeners = append(lb.listeners, l)
		}
		if a.NextToken == "" {
			return nil
		}
		params["NextToken"] = a.NextToken
	}
}

// A networkPlan is what to do about the listeners: beside the work on groups,
// and after one group is there, by its name. Each step returns its job.
type networkPlan struct {
	now     []networkStep
	waiting map[string][]networkStep
}

type networkStep func(ctx context.Context, group string) (job string, err error)

func (p networkPass) planListeners(want, lb *networkBalancer) (*networkPlan, error) {
	plan := &networkPlan{waiting: map[string][]networkStep{}}
	for _, l := range want.listeners {
		i := slices.IndexFunc(want.groups, func(g *group) bool { return g.name == l.group })
		if i < 0 {
			return nil, fmt.Errorf("can not find server group by name %s", l.group)
		}
		l.groupID = want.groups[i].id
	}
	same := func(a *networkListener) func(*networkListener) bool {
		return func(b *networkListener) bool { return a.port == b.port && a.protocol == b.protocol }
	}
	for _, r := range lb.listeners {
		kept := slices.ContainsFunc(want.listeners, same(r))
		if kept || want.reused && !p.networkMine(r.params["ListenerDescription"]) {
			continue
		}
		plan.now = append(plan.now, func(ctx context.Context, _ string) (string, error) {
			var a job
			err := p.ask(ctx, "DeleteListener", map[string]string{"ListenerId": r.id}, &a)
			return a.JobId, wrap("EnsureListenerDeleted error", err)
		})
	}
	for _, l := range want.listeners {
		var do networkStep
		if i := slices.IndexFunc(lb.listeners, same(l)); i >= 0 {
			have := lb.listeners[i]
			do = func(ctx context.Context, group string) (string, error) {
				job, err := p.updateListener(ctx, l, have, group)
				return job, wrap("EnsureListenerCreated error", err) // so in the controller
			}
		} else {
			do = func(ctx context.Context, group string) (string, error) {
				params := map[string]string{
					"LoadBalancerId": lb.id, "ListenerProtocol": l.protocol, "ListenerPort": strconv.Itoa(l.port), "ServerGroupId": group,
				}
				maps.Copy(params, l.params)
				var a job
				err := p.ask(ctx, "CreateListener", params, &a)
				return a.JobId, wrap("EnsureListenerUpdated error", err) // so in the controller
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

func (p networkPass) updateListener(ctx context.Context, l, have *networkListener, group string) (string, error) {
	if have.status == "Stopped" {
		if err := p.ask(ctx, "StartListener", map[string]string{"ListenerId": have.id}, nil); err != nil {
			return "", fmt.Errorf("start listener %s error: %w", have.id, err)
		}
	}
	differs := have.groupID != group
	for k, v := range l.params {
		differs = differs || have.params[k] != v
	}
	if !differs {
		return "", nil
	}
	params := map[string]string{"ListenerId": have.id, "ServerGroupId": group}
	maps.Copy(params, l.params)
	var a job
	err := p.ask(ctx, "UpdateListenerAttribute", params, &a)
	return a.JobId, err
}

// applyListeners carries the plan out: what concerns one group in order, and the
// groups side by side.
func (p networkPass) applyListeners(ctx context.Context, lb string, plan *networkPlan, done <-chan groupDone) error {
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

// steps takes steps one after the other, and waits for their jobs together.
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
		errs = append(errs, wrap("wait jobs error", p.together(ctx, jobs)))
	}
	return errs
}

// together waits for jobs. Releases before v2.12.0 asked for each of them.
func (p networkPass) together(ctx context.Context, jobs []string) error {
	if !p.version.since("v2.12.0") {
		for _, id := range jobs {
			if err := p.finished(ctx, id, jobInterval, jobLimit); err != nil {
				return err
			}
		}
		return nil
	}
	return p.poll(ctx, batchInterval, jobLimit, func() (bool, error) {
		var a struct{ Jobs []struct{ Status string } }
		err := p.ask(ctx, "ListAsynJobs", sayList(map[string]string{}, "JobIds", jobs), &a)
		over := len(a.Jobs) == len(jobs)
		for _, j := range a.Jobs {
			over = over && j.Status == "Succeeded"
		}
		return over, err
	})
}
