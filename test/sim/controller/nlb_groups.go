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

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	networkBatch = 40

	groupOfInstances = "Instance"
	groupOfAddresses = "Ip"

	backendIP = "ip" // of a group of addresses
)

func (p networkPass) networkKey(port, protocol string) string {
	return strings.Join([]string{"k8s", port, protocol, p.svc.Name, p.svc.Namespace, p.ClusterID}, ".")
}

func (p networkPass) networkMine(key string) bool {
	parts := strings.Split(key, ".")
	return len(parts) == 6 && parts[0] == "k8s" && slices.Equal(parts[3:], []string{p.svc.Name, p.svc.Namespace, p.ClusterID})
}

type networkGroup struct {
	*group
	kind       string            // empty: not requested
	users      bool              // named by the Service: not the controller's own
	attributes map[string]string // by their API names, lists with indexes
}

type networkGroups []*networkGroup

func (all networkGroups) plain() groups {
	var plain groups
	for _, g := range all {
		plain = append(plain, g.group)
	}
	return plain
}

func (p networkPass) wantedGroups(ctx context.Context, want *networkBalancer) (networkGroups, error) {
	nodes, err := p.candidates()
	if err != nil {
		return nil, fmt.Errorf("get nodes error: %w", err)
	}
	ends, err := p.endpointSlices()
	if err != nil {
		return nil, fmt.Errorf("get endpointslice error: %w", err)
	}
	var all networkGroups
	for _, l := range want.listeners {
		g, err := p.wantedGroup(l)
		if err != nil {
			return nil, err
		}
		if err := p.wantedServers(ctx, want, l, g, nodes, ends); err != nil {
			return nil, fmt.Errorf("set ServerGroup for port %d error: %w", l.servicePort.Port, err)
		}
		if len(g.backends) == 0 {
			p.event(note{corev1.EventTypeNormal, reasonUnavailable, "There are no available nodes for NetworkLoadBalancer"})
		}
		all = append(all, g)
	}
	if !p.version.since(togetherNLB) {
		return all, nil
	}
	return all, p.findInterfaces(ctx, all.plain())
}

func (p networkPass) wantedGroup(l *networkListener) (*networkGroup, error) {
	g := &networkGroup{group: &group{name: l.group, keepWeights: strings.EqualFold(p.annotation("ignore-weight-update"), "on")}}
	switch kind := p.annotation("server-group-type"); {
	case kind == "":
	case strings.EqualFold(kind, groupOfInstances):
		g.kind = groupOfInstances
	case strings.EqualFold(kind, groupOfAddresses):
		g.kind = groupOfAddresses
	default:
		return nil, errors.New("unsupport server ServerGroupType []") // the message names no type
	}
	var err error
	if g.attributes, err = p.groupAttributes(l); err != nil {
		return nil, err
	}
	if s := p.annotation("default-weight"); s != "" {
		switch weight, err := strconv.Atoi(s); {
		case err != nil:
			return nil, fmt.Errorf("default weight parse error: [%w]", err)
		case weight < 0 || weight > 100:
			return nil, fmt.Errorf("default weight must be integer in range [0,100] , got [%s]", s)
		}
	}
	return g, nil
}

// togetherNLB is the first release with one lookup of the interfaces of all groups: pkg/controller/service/nlbv2/server_groups.go.
const togetherNLB = "v2.11.2"

// wantedServers finds the backends of a group, and before [togetherNLB] the network interfaces of its Pods.
func (p networkPass) wantedServers(ctx context.Context, want *networkBalancer, l *networkListener, g *networkGroup, nodes []*corev1.Node,
	ends []*discoveryv1.EndpointSlice) error {
	weight := -1
	if want.reused && p.annotation("vgroup-port") != "" {
		if err := p.adopt(ctx, g, want.id, l.groupID); err != nil {
			return err
		}
		if s := p.annotation("weight"); s != "" {
			var err error
			if weight, err = strconv.Atoi(s); err != nil || weight < 0 || weight > 100 {
				return fmt.Errorf("weight must be integer in range [0, 100], got [%s]", s)
			}
		}
	}
	if err := p.fillGroup(g.group, l.servicePort, nodes, ends, weight); err != nil {
		return err
	}
	if l.port == 0 { // the server's port is the one that the client requested
		for i := range g.backends {
			g.backends[i].Port = 0
		}
	}
	mode := "local"
	switch {
	case p.usesENI(p.svc):
		mode = "eni"
	case p.svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		mode = "cluster"
	}
	if g.kind == groupOfAddresses {
		return wrap("build "+mode+" backends error", byAddress(g.backends, nodes))
	}
	if p.version.since(togetherNLB) {
		return nil
	}
	err := p.findInterfaces(ctx, groups{g.group})
	if mode != "eni" {
		err = wrap("update eci backends error", err)
	}
	return wrap("build "+mode+" backends error", err)
}

func byAddress(all []backend, nodes []*corev1.Node) error {
	for i := range all {
		b := &all[i]
		if b.Type == backendECS {
			j := slices.IndexFunc(nodes, func(n *corev1.Node) bool {
				id, err := instance(n)
				return err == nil && id == b.ServerID
			})
			k := slices.IndexFunc(nodes[j].Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
			if k < 0 {
				return fmt.Errorf("get node address err: node %s has no internal address", nodes[j].Name)
			}
			b.ServerIP = nodes[j].Status.Addresses[k].Address
		}
		b.Type, b.ServerID = backendIP, b.ServerIP
	}
	return nil
}

func (p networkPass) adopt(ctx context.Context, g *networkGroup, lb, id string) error {
	if id == "" {
		return nil
	}
	there, err := p.groupByID(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("find server group id %s for nlb %s error: %w", id, lb, err)
	case there == nil:
		return fmt.Errorf("cannot find server group id %s for nlb %s", id, lb)
	case len(strings.Split(there.name, ".")) == 6 && strings.HasPrefix(there.name, "k8s."):
		return fmt.Errorf("cannot reuse a ccm created server group %s for nlb %s", id, lb)
	}
	g.id, g.users = id, true
	return nil
}

func (p networkPass) groupByID(ctx context.Context, id string) (*networkGroup, error) {
	list, err := p.listGroups(ctx, map[string]string{"ServerGroupIds.1": id})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], p.readServers(ctx, list[0].group)
}

const checkConfig = "HealthCheckConfig."

func (p networkPass) groupAttributes(l *networkListener) (map[string]string, error) {
	params := map[string]string{"Protocol": l.protocol}
	say(params, "Scheduler", p.annotation("scheduler"))
	say(params, "ResourceGroupId", p.annotation("resource-group-id"))
	for annotation, name := range map[string]string{
		"connection-drain": "ConnectionDrainEnabled", "preserve-client-ip": "PreserveClientIpEnabled", "health-check-flag": checkConfig + "HealthCheckEnabled",
	} {
		if v := p.annotation(annotation); v != "" {
			params[name] = strconv.FormatBool(strings.EqualFold(v, "on"))
		}
	}
	if p.ipv6() {
		params["AddressIPVersion"] = "DualStack"
	}
	if v := p.annotation("connection-drain-timeout"); v != "" {
		if _, err := strconv.Atoi(v); err != nil {
			return nil, fmt.Errorf("ConnectionDrainTimeout parse error: %w", err)
		}
		params["ConnectionDrainTimeout"] = v
	}
	if p.version.since("v2.11.2") {
		params["AnyPortEnabled"] = strconv.FormatBool(l.port == 0)
	}
	flag := p.annotation("health-check-flag")
	if l.port == 0 {
		if flag == "" {
			params[checkConfig+"HealthCheckEnabled"] = "true"
		}
		params[checkConfig+"HealthCheckConnectPort"] = strconv.Itoa(l.servicePort.TargetPort.IntValue())
	}
	if !strings.EqualFold(flag, "on") { // other health check annotations are ignored
		return params, nil
	}
	for _, v := range [][2]string{
		{"health-check-connect-port", "HealthCheckConnectPort"}, {"healthy-threshold", "HealthyThreshold"}, {"unhealthy-threshold", "UnhealthyThreshold"},
		{"health-check-connect-timeout", "HealthCheckConnectTimeout"}, {"health-check-interval", "HealthCheckInterval"},
	} {
		s := p.annotation(v[0])
		if s == "" {
			continue
		}
		if _, err := strconv.Atoi(s); err != nil {
			return nil, fmt.Errorf("%s parse error: [%w]", v[1], err)
		}
		params[checkConfig+v[1]] = s
	}
	say(params, checkConfig+"HealthCheckType", p.annotation("health-check-type"))
	say(params, checkConfig+"HealthCheckDomain", p.annotation("health-check-domain"))
	say(params, checkConfig+"HealthCheckUrl", p.annotation("health-check-uri"))
	say(params, checkConfig+"HttpCheckMethod", p.annotation("health-check-method"))
	if codes := p.annotation("health-check-httpcode"); codes != "" {
		sayList(params, checkConfig+"HealthCheckHttpCode", strings.Split(codes, ","))
	}
	return params, nil
}

// readGroups reads the Service's tagged groups and the user's groups that it names, with their servers.
func (p networkPass) readGroups(ctx context.Context, lb *networkBalancer) error {
	var err error
	if lb.groups, err = p.listGroups(ctx, sayTags(map[string]string{}, map[string]string{tagOwn: p.name, tagCluster: p.ClusterID})); err != nil {
		return err
	}
	for _, g := range lb.groups {
		if g.attributes["ServerCount"] == "0" && p.version.since("v2.12.0") {
			continue // pkg/provider/alibaba/nlb/servergroup.go
		}
		if err := p.readServers(ctx, g.group); err != nil {
			return err
		}
	}
	named := p.annotation("vgroup-port")
	if named == "" {
		return nil
	}
	for v := range strings.SplitSeq(named, ",") {
		parts := strings.Split(v, ":")
		if len(parts) < 2 {
			return fmt.Errorf("server group id and protocol format must be like'sgp-xxx:443' with colon separated. got=[%+v]", parts)
		}
		g, err := p.groupByID(ctx, parts[0])
		if err != nil {
			return err
		}
		if g == nil {
			return fmt.Errorf("reused server group id %s not found", parts[0])
		}
		g.users = true
		lb.groups = append(lb.groups, g)
	}
	return nil
}

func (p networkPass) listGroups(ctx context.Context, params map[string]string) (networkGroups, error) {
	var all networkGroups
	params["MaxResults"] = "100"
	for {
		var a struct {
			ServerGroups []map[string]json.RawMessage
			NextToken    string
		}
		if err := p.ask(ctx, "ListServerGroups", params, &a); err != nil {
			return nil, err
		}
		for _, raw := range a.ServerGroups {
			attributes := flat(raw)
			var check map[string]json.RawMessage
			if json.Unmarshal(raw["HealthCheck"], &check) == nil {
				for k, v := range flat(check) {
					attributes[checkConfig+k] = v
				}
			}
			all = append(all, &networkGroup{
				group: &group{id: attributes["ServerGroupId"], name: attributes["ServerGroupName"]},
				kind:  attributes["ServerGroupType"], attributes: attributes,
			})
		}
		if a.NextToken == "" {
			return all, nil
		}
		params["NextToken"] = a.NextToken
	}
}

// flat returns the fields of an answer that are strings, numbers or booleans, and lists of strings with indexes.
func flat(raw map[string]json.RawMessage) map[string]string {
	params := map[string]string{}
	for k, v := range raw {
		put(params, k, v)
		var list []string
		if json.Unmarshal(v, &list) == nil {
			sayList(params, k, list)
		}
	}
	return params
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
			if !p.version.since("v2.11.2") {
				err = fmt.Errorf("[%s] [%s] %w", g.id, g.name, err)
			}
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

type networkMove struct {
	want, have       *networkGroup
	vpc              string
	add, drop, amend []backend
}

// planGroups returns the work for the wanted groups, and sets the IDs of existing ones. A group whose type changes is recreated;
// until then it and its listener keep the old one's ID, so the old one is deleted in the next sync.
func (p networkPass) planGroups(want networkGroups, lb *networkBalancer) ([]networkMove, error) {
	var moves []networkMove
	planned := map[string]bool{}
	for _, w := range want {
		key := "name " + w.name // two ports can share a group
		if w.id != "" {
			key = "id " + w.id
		}
		i := slices.IndexFunc(lb.groups, func(h *networkGroup) bool {
			return w.id != "" && h.id == w.id || w.id == "" && h.name == w.name
		})
		if i >= 0 {
			w.id = lb.groups[i].id
		}
		if planned[key] {
			continue
		}
		planned[key] = true
		m := networkMove{want: w, vpc: lb.vpc}
		if i >= 0 && w.kind != "" && w.kind != lb.groups[i].kind {
			if w.users {
				return nil, fmt.Errorf("ServerGroupType of user managed server group %s should be [%s], but [%s]", w.id, w.kind, lb.groups[i].kind)
			}
		} else if i >= 0 {
			m.have = lb.groups[i]
			m.add, m.drop, m.amend = diffServers(w, m.have)
		}
		moves = append(moves, m)
	}
	return moves, nil
}

func (b backend) alike(o backend) bool {
	return strings.EqualFold(b.Type, o.Type) && b.ServerID == o.ServerID && (b.Type == backendECS || b.ServerIP == o.ServerIP)
}

func diffServers(want, have *networkGroup) (add, drop, amend []backend) {
	for _, h := range have.backends {
		if !h.foreign && !slices.ContainsFunc(want.backends, h.alike) {
			drop = append(drop, h)
		}
	}
	for _, w := range want.backends {
		i := slices.IndexFunc(have.backends, w.alike)
		if i < 0 {
			add = append(add, w)
			continue
		}
		h := have.backends[i]
		if w.Port != h.Port || w.Description != h.Description || !want.keepWeights && w.Weight != h.Weight {
			amend = append(amend, w)
		}
	}
	return add, drop, amend
}

// applyGroups sends each group to done as soon as it exists, before its servers are added.
func (p networkPass) applyGroups(ctx context.Context, moves []networkMove, done chan<- groupDone) error {
	if done != nil {
		defer close(done)
	}
	return aggregate(each(ctx, len(moves), func(i int) error {
		if m := moves[i]; m.have != nil {
			return p.changeServers(ctx, m)
		}
		return p.createServers(ctx, moves[i], done)
	}))
}

func (p networkPass) createServers(ctx context.Context, m networkMove, done chan<- groupDone) error {
	err := p.createServerGroup(ctx, m)
	if done != nil {
		done <- groupDone{m.want.name, m.want.id, err}
	}
	if err != nil {
		return fmt.Errorf("EnsureServerGroupCreated error: %w", err)
	}
	return wrap("BatchAddServers error", p.servers(ctx, "AddServersToServerGroup", m.want.id, m.want.backends))
}

func (p networkPass) createServerGroup(ctx context.Context, m networkMove) error {
	params := sayTags(map[string]string{"ServerGroupName": m.want.name, "VpcId": m.vpc}, map[string]string{tagOwn: p.name, tagCluster: p.ClusterID})
	say(params, "ServerGroupType", m.want.kind)
	maps.Copy(params, m.want.attributes)
	if params["ConnectionDrainEnabled"] == "" {
		delete(params, "ConnectionDrainTimeout")
	} else if params["ConnectionDrainTimeout"] == "" {
		params["ConnectionDrainTimeout"] = "0"
	}
	var a struct{ ServerGroupId, JobId string }
	if err := p.ask(ctx, "CreateServerGroup", params, &a); err != nil {
		return err
	}
	m.want.id = a.ServerGroupId
	if p.version.since("v2.11.2") { // pkg/provider/alibaba/nlb/servergroup.go
		return p.finished(ctx, a.JobId, groupJobInterval, jobLimit)
	}
	return p.poll(ctx, groupInterval, groupLimit, func() (bool, error) {
		var list struct {
			ServerGroups []struct{ ServerGroupStatus string }
		}
		err := p.ask(ctx, "ListServerGroups", map[string]string{"ServerGroupIds.1": m.want.id}, &list)
		return err == nil && len(list.ServerGroups) > 0 && list.ServerGroups[0].ServerGroupStatus != "Creating", err
	})
}

func (p networkPass) changeServers(ctx context.Context, m networkMove) error {
	var errs []error
	if !m.want.users {
		errs = append(errs, wrap("UpdateNLBServerGroup error", p.updateServerGroup(ctx, m)))
	}
	errs = append(errs, p.servers(ctx, "AddServersToServerGroup", m.have.id, m.add))
	if len(m.want.bad) > 0 && len(m.add)+len(m.drop)+len(m.amend) > 0 {
		// A Pod that is temporarily not found must keep its place.
		p.event(note{corev1.EventTypeWarning, reasonSkipBackends, fmt.Sprintf(
			"Skip delete and update servers to servergroup %s due to invalid servers: %s", m.have.name, addresses(m.want.bad))})
		return aggregate(errs)
	}
	return aggregate(append(errs,
		p.servers(ctx, "RemoveServersFromServerGroup", m.have.id, m.drop),
		p.servers(ctx, "UpdateServerGroupServersAttribute", m.have.id, m.amend)))
}

// keptAttributes are the changeable attributes of a group; a change sends all of them.
var keptAttributes = []string{"Scheduler", "ConnectionDrainEnabled", "ConnectionDrainTimeout", "PreserveClientIpEnabled"}

func (p networkPass) updateServerGroup(ctx context.Context, m networkMove) error {
	fixed := func(k string) bool { return !slices.Contains(keptAttributes, k) && !strings.HasPrefix(k, checkConfig) }
	differs := m.want.name != m.have.name
	for k, v := range m.want.attributes {
		differs = differs || !fixed(k) && !strings.EqualFold(m.have.attributes[k], v)
	}
	if !differs {
		return nil
	}
	params := map[string]string{"ServerGroupId": m.have.id, "ServerGroupName": m.want.name}
	for k, v := range m.have.attributes {
		if !fixed(k) {
			say(params, k, v)
		}
	}
	if _, ok := m.want.attributes[checkConfig+"HealthCheckHttpCode.1"]; ok { // a list replaces the old one
		maps.DeleteFunc(params, func(k, _ string) bool { return strings.HasPrefix(k, checkConfig+"HealthCheckHttpCode.") })
	}
	for k, v := range m.want.attributes {
		if !fixed(k) {
			params[k] = v
		}
	}
	return p.ask(ctx, "UpdateServerGroupAttribute", params, nil)
}

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

// cleanup deletes the Service's groups that no port uses, or only untags them if the NLB outlives the Service. From a group with
// servers of others it removes its own. An unused security group of source ranges goes last.
func (p networkPass) cleanup(ctx context.Context, want, lb *networkBalancer) error {
	var gone networkGroups
	for _, g := range lb.groups {
		switch {
		case slices.ContainsFunc(want.groups, func(w *networkGroup) bool { return w.id == g.id }):
		case want.preserve:
			if err := p.untag(ctx, "servergroup", g.id, []string{tagCluster, tagOwn}); err != nil {
				return err
			}
		case p.networkMine(g.name) && !g.foreign && !g.users:
			gone = append(gone, g)
		default:
			own := slices.DeleteFunc(slices.Clone(g.backends), func(b backend) bool { return b.foreign })
			if err := p.servers(ctx, "RemoveServersFromServerGroup", g.id, own); err != nil {
				return err
			}
		}
	}
	errs := each(ctx, len(gone), func(i int) error {
		return p.ask(ctx, "DeleteServerGroup", map[string]string{"ServerGroupId": gone[i].id}, nil)
	})
	return aggregate(append(errs, p.cleanSources(ctx, want, lb)))
}
