package nlb

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A ServerGroup is a group of backends of NLBs.
type ServerGroup struct {
	ID            string            `json:"id,omitempty"`
	Name          string            `json:"name,omitempty"`
	VPC           string            `json:"vpc,omitempty"`       // the cluster's if empty
	Type          string            `json:"type,omitempty"`      // Instance if empty, or Ip
	Protocol      string            `json:"protocol,omitempty"`  // TCP if empty, UDP or TCP_UDP
	Scheduler     string            `json:"scheduler,omitempty"` // Wrr if empty
	IPVersion     string            `json:"ipVersion,omitempty"` // ipv4 if empty, or DualStack
	Status        string            `json:"status,omitempty"`    // Available if empty
	ResourceGroup string            `json:"resourceGroup,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Config        map[string]string `json:"config,omitempty"` // other parameters by their API names
	Servers       []Server          `json:"servers,omitempty"`
}

// A Server is a backend of a server group.
type Server struct {
	ID          string `json:"id,omitempty"`   // of an instance or an ENI, or an address
	Type        string `json:"type,omitempty"` // Ecs if empty, Eni, Eci or Ip
	IP          string `json:"ip,omitempty"`
	Port        int    `json:"port,omitempty"`
	Weight      *int   `json:"weight,omitempty"` // 100 if nil
	Description string `json:"description,omitempty"`
	Status      string `json:"status,omitempty"` // Available if empty
}

func serverGroupActions() map[string]*core.Action {
	one := []string{"ServerGroupId"}
	servers := append(one, "Servers")
	return map[string]*core.Action{
		"ListServerGroups":                  {Do: on(listServerGroups)},
		"ListServerGroupServers":            {Do: on(listServers)},
		"CreateServerGroup":                 {Do: core.Once(on(createServerGroup)), Need: []string{"ServerGroupName", "VpcId"}},
		"UpdateServerGroupAttribute":        {Do: core.Once(on(updateServerGroup)), Need: one},
		"DeleteServerGroup":                 {Do: core.Once(on(deleteServerGroup)), Need: one},
		"AddServersToServerGroup":           {Do: core.Once(on(addServers)), Need: servers},
		"RemoveServersFromServerGroup":      {Do: core.Once(on(removeServers)), Need: servers},
		"UpdateServerGroupServersAttribute": {Do: core.Once(on(updateServers)), Need: servers},
	}
}

func (g *ServerGroup) fill(s *State) {
	g.VPC, g.Type, g.Protocol = cmp.Or(g.VPC, s.Home), cmp.Or(g.Type, "Instance"), cmp.Or(g.Protocol, "TCP")
	g.Scheduler, g.IPVersion, g.Status = cmp.Or(g.Scheduler, "Wrr"), cmp.Or(g.IPVersion, "ipv4"), cmp.Or(g.Status, "Available")
	g.ResourceGroup = cmp.Or(g.ResourceGroup, s.ResourceGroup())
	if g.Tags == nil {
		g.Tags = map[string]string{}
	}
	if g.Config == nil {
		g.Config = map[string]string{}
	}
	for i := range g.Servers {
		v := &g.Servers[i]
		v.Type, v.Status = cmp.Or(v.Type, "Ecs"), cmp.Or(v.Status, "Available")
		if v.Weight == nil {
			v.Weight = new(100)
		}
	}
}

func (q *request) serverGroup() (*ServerGroup, *core.Failure) {
	g := q.state.ServerGroups[q.Params["ServerGroupId"]]
	if g == nil {
		return nil, notFound("serverGroup")
	}
	if g.Status != "Available" {
		return nil, core.Fail(http.StatusBadRequest, "IncorrectStatus.serverGroup", "The status of servergroup [%s] is incorrect.", g.ID)
	}
	return g, nil
}

const check = "HealthCheckConfig."

var groupFields = []string{
	"ServerGroupId", "ServerGroupName", "VpcId", "ServerGroupType", "Protocol", "Scheduler", "AddressIPVersion", "ResourceGroupId",
	"ClientToken", "DryRun", "RegionId",
}

// schedulers are a group's scheduling algorithms. Requests may use any case.
var schedulers = []string{"Wrr", "Wlc", "Rr", "Sch", "Tch", "Qch"}

func (q *request) setServerGroup(g *ServerGroup) *core.Failure {
	p := q.Params
	scheduler := p["Scheduler"]
	if i := slices.IndexFunc(schedulers, func(s string) bool { return strings.EqualFold(s, scheduler) }); i >= 0 {
		scheduler = schedulers[i]
	} else if scheduler != "" {
		return illegalParam("Scheduler")
	}
	for name, of := range map[string][2]int{
		"ConnectionDrainTimeout": {0, 900}, "PersistenceTimeout": {0, 3600}, check + "HealthCheckConnectPort": {0, 65535},
		check + "HealthyThreshold": {2, 10}, check + "UnhealthyThreshold": {2, 10}, check + "HealthCheckConnectTimeout": {1, 300},
		check + "HealthCheckInterval": {1, 300},
	} {
		if _, bad := p.Number(name, of[0], of[1], of[0]); bad != nil {
			return bad
		}
	}
	if !core.OneOf("TCP,UDP,HTTP", strings.ToUpper(cmp.Or(p[check+"HealthCheckType"], "TCP"))) {
		return illegalParam(check + "HealthCheckType")
	}
	if bad := p.Switches("ConnectionDrainEnabled", "PreserveClientIpEnabled", "AnyPortEnabled", check+"HealthCheckEnabled"); bad != nil {
		return bad
	}
	g.Name, g.Scheduler = cmp.Or(p["ServerGroupName"], g.Name), cmp.Or(scheduler, g.Scheduler)
	for k, v := range p {
		if !slices.Contains(groupFields, k) && !strings.HasPrefix(k, "Tag.") {
			g.Config[k] = v
		}
	}
	return nil
}

func createServerGroup(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	g := &ServerGroup{
		VPC: p["VpcId"], Type: p["ServerGroupType"], Protocol: p["Protocol"], IPVersion: p["AddressIPVersion"], ResourceGroup: p["ResourceGroupId"],
		Status: "Creating",
	}
	g.fill(s)
	switch {
	case s.vpc.VPCs[g.VPC] == nil:
		return nil, notFound("Vpc")
	case !core.OneOf("Instance,Ip", g.Type):
		return nil, illegalParam("ServerGroupType")
	case !core.OneOf("TCP,UDP,TCPSSL,TCP_UDP", g.Protocol):
		return nil, illegalParam("Protocol")
	}
	var bad *core.Failure
	if g.Tags, bad = p.Tags(); bad != nil {
		return nil, bad
	}
	if bad := core.CheckTags(g.Tags, nil); bad != nil {
		return nil, bad
	}
	if bad := q.setServerGroup(g); bad != nil {
		return nil, bad
	}
	if bad := q.exceeded(quotaServerGroups, 3000, len(s.ServerGroups), 1); bad != nil {
		return nil, bad
	}
	g.ID = s.ID("sgp-", func(id string) bool { return s.ServerGroups[id] != nil })
	s.ServerGroups[g.ID] = g
	s.Tagging(g.ID, nil)
	return core.Reply{"ServerGroupId": g.ID, "JobId": q.available(g.ID)}, nil
}

// available starts a job that makes a group and its servers Available and deletes servers to remove, or after a failure those to add.
func (q *request) available(id string) string {
	without := func(status string) func(*State) {
		return func(s *State) {
			g := s.ServerGroups[id]
			if g == nil {
				return
			}
			g.Status = "Available"
			g.Servers = slices.DeleteFunc(g.Servers, func(v Server) bool { return v.Status == status })
			for i := range g.Servers {
				g.Servers[i].Status = "Available"
			}
		}
	}
	return q.job(without("Removing"), without("Adding"))
}

func updateServerGroup(q *request) (any, *core.Failure) {
	g, bad := q.serverGroup()
	if bad != nil {
		return nil, bad
	}
	if bad := q.setServerGroup(g); bad != nil {
		return nil, bad
	}
	g.Status = "Configuring"
	return core.Reply{"ServerGroupId": g.ID, "JobId": q.available(g.ID)}, nil
}

func (s *State) users(group string) []string {
	ids := []string{}
	for _, id := range slices.Sorted(maps.Keys(s.NLBs)) {
		if slices.ContainsFunc(s.NLBs[id].Listeners, func(l NLBListener) bool { return l.ServerGroup == group }) {
			ids = append(ids, id)
		}
	}
	return ids
}

func deleteServerGroup(q *request) (any, *core.Failure) {
	g, bad := q.serverGroup()
	if bad != nil {
		return nil, bad
	}
	if len(q.state.users(g.ID)) > 0 {
		return nil, core.Fail(http.StatusBadRequest, "ResourceInUse.ServerGroup", "The specified resource of ServerGroup is in use.")
	}
	g.Status = "Configuring"
	id := g.ID
	return core.Reply{"JobId": q.job(func(s *State) { delete(s.ServerGroups, id) }, func(s *State) {
		if g := s.ServerGroups[id]; g != nil {
			g.Status = "Available"
		}
	})}, nil
}

func (q *request) servers() ([]Server, *core.Failure) {
	var list []Server
	for _, m := range q.Params.Structs("Servers") {
		v := Server{ID: m["ServerId"], Type: m["ServerType"], IP: m["ServerIp"], Description: m["Description"]}
		var bad *core.Failure
		if v.Port, bad = m.Number("Port", 0, 65535, 0); bad != nil {
			return nil, bad
		}
		weight, bad := m.Number("Weight", 0, 100, 100)
		switch {
		case bad != nil:
			return nil, bad
		case v.ID == "":
			return nil, core.Missing("ServerId")
		case !core.OneOf("Ecs,Eni,Eci,Ip", v.Type) || v.Type == "":
			return nil, illegalParam("ServerType")
		}
		v.Weight = &weight
		if slices.ContainsFunc(list, v.same) {
			return nil, core.Fail(http.StatusBadRequest, "DuplicatedParam.Server", "The param of Server is duplicated.")
		}
		list = append(list, v)
	}
	if len(list) > 200 {
		return nil, illegalParam("Servers")
	}
	return list, nil
}

func (v Server) same(o Server) bool {
	return v.ID == o.ID && v.Port == o.Port && (v.IP == "" || o.IP == "" || v.IP == o.IP)
}

func addServers(q *request) (any, *core.Failure) {
	g, bad := q.serverGroup()
	if bad != nil {
		return nil, bad
	}
	list, bad := q.servers()
	if bad != nil {
		return nil, bad
	}
	for i := range list {
		v := &list[i]
		home := q.state.ecs.VPCOf(v.ID)
		address, err := netip.ParseAddr(cmp.Or(v.IP, v.ID))
		switch {
		case err != nil && (v.IP != "" || v.Type == "Ip"):
			return nil, illegalParam("IP")
		case err == nil && address.Is6() && g.IPVersion != "DualStack":
			return nil, core.Fail(http.StatusBadRequest, "OperationDenied.ServerGroupNotSupportIpv6",
				"The operation is not allowed because of ServerGroupNotSupportIpv6.")
		case (v.Type == "Ip") != (g.Type == "Ip"):
			return nil, mismatch("ServerType", v.ID, g.ID)
		case v.Port == 0 && g.Config["AnyPortEnabled"] != "true":
			return nil, illegalParam("Port")
		case v.Type != "Ip" && home != g.VPC:
			return nil, mismatch("VpcId", v.ID, g.ID)
		case slices.ContainsFunc(g.Servers, v.same):
			return nil, core.Fail(http.StatusBadRequest, "DuplicatedParam.Server", "The param of Server is duplicated.")
		}
		v.Status = "Adding"
	}
	if bad := q.exceeded(quotaServers, 400, len(g.Servers), len(list)); bad != nil {
		return nil, bad
	}
	g.Servers, g.Status = append(g.Servers, list...), "Configuring"
	return core.Reply{"ServerGroupId": g.ID, "JobId": q.available(g.ID)}, nil
}

// each calls do for the request's servers in their group; it changes all of them or none.
func (q *request) each(do func(have *Server, said core.Params)) (any, *core.Failure) {
	g, bad := q.serverGroup()
	if bad != nil {
		return nil, bad
	}
	list, bad := q.servers()
	if bad != nil {
		return nil, bad
	}
	for _, v := range list {
		if !slices.ContainsFunc(g.Servers, v.same) {
			return nil, notFound("server")
		}
	}
	said := q.Params.Structs("Servers")
	for i, v := range list {
		do(&g.Servers[slices.IndexFunc(g.Servers, v.same)], said[i])
	}
	g.Status = "Configuring"
	return core.Reply{"ServerGroupId": g.ID, "JobId": q.available(g.ID)}, nil
}

func removeServers(q *request) (any, *core.Failure) {
	return q.each(func(have *Server, _ core.Params) { have.Status = "Removing" })
}

func updateServers(q *request) (any, *core.Failure) {
	return q.each(func(have *Server, said core.Params) {
		have.Status = "Configuring"
		if n, err := strconv.Atoi(said["Weight"]); err == nil {
			have.Weight = &n
		}
		if d, ok := said["Description"]; ok {
			have.Description = d
		}
	})
}

func (g *ServerGroup) healthCheck() core.Reply {
	out := core.Reply{
		"HealthCheckEnabled": true, "HealthCheckType": "TCP", "HealthCheckConnectPort": 0, "HealthyThreshold": 2, "UnhealthyThreshold": 2,
		"HealthCheckConnectTimeout": 5, "HealthCheckInterval": 10, "HealthCheckDomain": "", "HealthCheckUrl": "", "HttpCheckMethod": "",
	}
	said := core.Params(g.Config).Under("HealthCheckConfig")
	codes := said.List("HealthCheckHttpCode")
	for k, v := range typedConfig(said) {
		if !strings.HasPrefix(k, "HealthCheckHttpCode") {
			out[k] = v
		}
	}
	out["HealthCheckHttpCode"] = slices.Concat([]string{}, codes)
	return out
}

func (g *ServerGroup) show(s *State) core.Reply {
	out := core.Reply{
		"PersistenceEnabled": false, "PersistenceTimeout": 0, "ConnectionDrainEnabled": false, "ConnectionDrainTimeout": 0,
		"PreserveClientIpEnabled": true, "AnyPortEnabled": false,
	}
	flat := maps.Clone(g.Config)
	maps.DeleteFunc(flat, func(k, _ string) bool { return strings.Contains(k, ".") })
	maps.Copy(out, typedConfig(flat))
	maps.Copy(out, core.Reply{
		"ServerGroupId": g.ID, "ServerGroupName": g.Name, "ServerGroupType": g.Type, "ServerGroupStatus": g.Status, "VpcId": g.VPC,
		"Protocol": g.Protocol, "Scheduler": g.Scheduler, "AddressIPVersion": g.IPVersion, "ResourceGroupId": g.ResourceGroup, "RegionId": s.Region,
		"AliUid": s.Owner(), "ServerCount": len(g.Servers), "RelatedLoadBalancerIds": s.users(g.ID), "HealthCheck": g.healthCheck(),
		"Tags": tagPairs(s.SeenTags(g.ID, g.Tags)),
	})
	return out
}

func listServerGroups(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	tags, bad := p.Tags()
	if bad != nil {
		return nil, bad
	}
	ids, names := p.List("ServerGroupIds"), p.List("ServerGroupNames")
	shown := []core.Reply{}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.ServerGroups))) { // newest first
		g := s.ServerGroups[id]
		if inList(ids, id) && inList(names, g.Name) && core.Is(p["VpcId"], g.VPC) && core.Is(p["ServerGroupType"], g.Type) &&
			core.Is(p["ResourceGroupId"], g.ResourceGroup) && core.Carries(s.SeenTags(id, g.Tags), tags) {
			shown = append(shown, g.show(s))
		}
	}
	return q.tokenPage(shown, "ServerGroups")
}

func listServers(q *request) (any, *core.Failure) {
	p := q.Params
	of, ids, ips := p["ServerGroupId"], p.List("ServerIds"), p.List("ServerIps")
	if of != "" && q.state.ServerGroups[of] == nil {
		return nil, notFound("serverGroup")
	}
	shown := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.ServerGroups)) {
		for _, v := range q.state.ServerGroups[id].Servers {
			if core.Is(of, id) && inList(ids, v.ID) && inList(ips, v.IP) {
				shown = append(shown, core.Reply{
					"ServerGroupId": id, "ServerId": v.ID, "ServerType": v.Type, "ServerIp": v.IP, "Port": v.Port, "Weight": *v.Weight,
					"Description": v.Description, "Status": v.Status, "ZoneId": q.state.ecs.ZoneOf(v.ID),
				})
			}
		}
	}
	return q.tokenPage(shown, "Servers")
}
