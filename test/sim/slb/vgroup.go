package slb

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

func vgroupActions() map[string]*core.Action {
	one, change := []string{"VServerGroupId"}, []string{"VServerGroupId", "BackendServers"}
	return map[string]*core.Action{
		"CreateVServerGroup":               {Do: on(createVGroup), Need: []string{"LoadBalancerId"}},
		"DeleteVServerGroup":               {Do: on(deleteVGroup), Need: one},
		"DescribeVServerGroups":            {Do: on(describeVGroups), Need: []string{"LoadBalancerId"}},
		"DescribeVServerGroupAttribute":    {Do: on(describeVGroup), Need: one},
		"SetVServerGroupAttribute":         {Do: on(setVGroup), Need: one},
		"AddVServerGroupBackendServers":    {Do: on(addBackends), Need: change},
		"RemoveVServerGroupBackendServers": {Do: on(removeBackends), Need: change},
		"ModifyVServerGroupBackendServers": {Do: on(modifyBackends), Need: one},
	}
}

func noVGroup() *core.Failure {
	return core.Fail(http.StatusBadRequest, "InvalidParameter", "The specified VServerGroupId does not exist.")
}

func (q *request) vgroup() (*LoadBalancer, *VGroup, *core.Failure) {
	lb := q.state.LoadBalancers[q.state.groups[q.Params["VServerGroupId"]]]
	if lb == nil {
		return nil, nil, noVGroup()
	}
	return lb, lb.vgroup(q.Params["VServerGroupId"]), nil
}

// backends parses a list of backends. Keys may have any case, and numbers may be strings.
func (q *request) backends(param string) ([]Backend, *core.Failure) {
	if q.Params[param] == "" {
		return nil, nil
	}
	var list []struct {
		ServerID, ServerIP, Type, Description string
		Port, Weight                          any
	}
	if err := json.Unmarshal([]byte(q.Params[param]), &list); err != nil {
		return nil, core.Invalid(param)
	}
	out := make([]Backend, 0, len(list))
	for _, e := range list {
		b := Backend{Server: e.ServerID, IP: e.ServerIP, Type: e.Type, Description: e.Description}
		if w, err := strconv.Atoi(fmt.Sprint(e.Weight)); err == nil {
			b.Weight = &w
		}
		b.Port, _ = strconv.Atoi(fmt.Sprint(e.Port)) // an invalid number is 0, which the check rejects
		b.fill()
		if b.Server == "" {
			return nil, core.Invalid(param)
		}
		out = append(out, b)
	}
	return out, nil
}

func (q *request) change(param string) (*LoadBalancer, *VGroup, []Backend, *core.Failure) {
	lb, g, bad := q.vgroup()
	if bad != nil {
		return nil, nil, nil, bad
	}
	list, bad := q.backends(param)
	return lb, g, list, bad
}

func (q *request) admit(lb *LoadBalancer, more []Backend) *core.Failure {
	total := len(more)
	for _, g := range lb.VGroups {
		total += len(g.Backends)
	}
	for _, b := range more {
		if bad := q.runs(b); bad != nil {
			return bad
		}
		switch {
		case b.Port < 1 || b.Port > 65535:
			return core.Fail(http.StatusBadRequest, "InvalidParameter", "The specified Port must be between 1 and 65535.")
		case *b.Weight < 0 || *b.Weight > 100:
			return core.Fail(http.StatusBadRequest, "InvalidParameter", "The specified Weight must be between 0 and 100.")
		case b.Type == "eni" && lb.Spec == "" && lb.ChargeType != "PayByCLCU":
			return core.Fail(http.StatusBadRequest, "OperationUnsupported.EniBackendServer", "The loadbalancer does not support backend servers of eni type.")
		case q.state.ecs.VPCOf(b.Server) != q.home(lb, more):
			return core.Documented("NetworkConflict")
		}
	}
	if len(more) > 0 && total > q.state.quotas.Limit(quotaBackends, 200) || q.attachedTooOften(lb, more) {
		return core.Documented("InstanceBackendServerNumberOverLimit")
	}
	return nil
}

// runs rejects a backend that the World does not list as running, if the World lists all.
func (q *request) runs(b Backend) *core.Failure {
	if !q.state.KnownServers {
		return nil
	}
	i := q.state.ecs.Instances[b.Server]
	switch {
	case b.Type == "eni" && q.state.ecs.ENIs[b.Server] == nil:
		return core.Fail(http.StatusNotFound, "ResourceNotFound.vServers", "The specified enis %s does not exist.", b.Server)
	case b.Type == "ecs" && (i == nil || i.Status != "Running"):
		return core.Documented("ObtainIpFail")
	}
	return nil
}

// attachedTooOften reports whether a new server would exceed its limit of load balancers. The API's error for that is not documented.
func (q *request) attachedTooOften(lb *LoadBalancer, more []Backend) bool {
	most := q.state.quotas.Limit(quotaAttached, math.MaxInt)
	if len(q.state.LoadBalancers) <= most {
		return false
	}
	for _, b := range more {
		n := 1
		for id, other := range q.state.LoadBalancers {
			if id != lb.ID && other.serves(b.Server) {
				n++
			}
		}
		if n > most {
			return true
		}
	}
	return false
}

// home returns the VPC required of backends: the load balancer's, or for an internet load balancer that of its existing backends.
func (q *request) home(lb *LoadBalancer, more []Backend) string {
	if lb.AddressType == "intranet" {
		return lb.VPC
	}
	for _, g := range lb.VGroups {
		for _, b := range g.Backends {
			return q.state.ecs.VPCOf(b.Server)
		}
	}
	return q.state.ecs.VPCOf(more[0].Server)
}

func same(a, b Backend) bool {
	return a.Server == b.Server && a.Port == b.Port && (a.Type != "eni" || a.IP == "" || b.IP == "" || a.IP == b.IP)
}

func (g *VGroup) find(b Backend) int {
	return slices.IndexFunc(g.Backends, func(o Backend) bool { return same(o, b) })
}

func (g *VGroup) add(list []Backend) {
	for _, b := range list {
		if i := g.find(b); i >= 0 {
			g.Backends[i] = b
			continue
		}
		g.Backends = append(g.Backends, b)
	}
}

func (g *VGroup) remove(list []Backend) {
	for _, b := range list {
		if i := g.find(b); i >= 0 {
			g.Backends = slices.Delete(g.Backends, i, i+1)
		}
	}
}

func (g *VGroup) show(q *request) core.Reply {
	list := make([]core.Reply, 0, len(g.Backends))
	for _, b := range g.Backends {
		list = append(list, core.Reply{
			"ServerId": b.Server, "ServerIp": b.IP, "Type": b.Type, "Port": b.Port, "Weight": *b.Weight,
			"Description": b.Description, "VpcId": q.state.ecs.VPCOf(b.Server),
		})
	}
	return core.Reply{"VServerGroupId": g.ID, "VServerGroupName": g.Name, "BackendServers": core.Reply{"BackendServer": list}}
}

func createVGroup(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	list, bad := q.backends("BackendServers")
	if bad != nil {
		return nil, bad
	}
	if bad := q.admit(lb, list); bad != nil {
		return nil, bad
	}
	g := VGroup{ID: q.state.ID("rsp-", func(id string) bool { return q.state.groups[id] != "" }), Name: q.Params["VServerGroupName"]}
	g.add(list)
	lb.VGroups = append(lb.VGroups, g)
	q.state.groups[g.ID] = lb.ID
	return g.show(q), nil
}

func deleteVGroup(q *request) (any, *core.Failure) {
	lb, g, bad := q.vgroup()
	if bad != nil {
		return nil, bad
	}
	for _, l := range lb.Listeners {
		if l.VGroup == g.ID {
			return nil, core.Documented("RspoolVipExist")
		}
		if slices.ContainsFunc(l.Rules, func(r Rule) bool { return r.VGroup == g.ID }) {
			return nil, core.Documented("RspoolRuleExist")
		}
	}
	delete(q.state.groups, g.ID)
	id := g.ID
	lb.VGroups = slices.DeleteFunc(lb.VGroups, func(g VGroup) bool { return g.ID == id })
	return core.Reply{}, nil
}

func describeVGroups(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, g := range lb.VGroups {
		listeners, rules := []core.Reply{}, []core.Reply{}
		for _, l := range lb.Listeners {
			if l.VGroup == g.ID && q.Params["IncludeListener"] == "true" {
				listeners = append(listeners, core.Reply{"Port": l.Port, "Protocol": l.Protocol})
			}
			for _, r := range l.Rules {
				if r.VGroup == g.ID && q.Params["IncludeRule"] == "true" {
					rules = append(rules, r.show())
				}
			}
		}
		list = append(list, core.Reply{
			"VServerGroupId": g.ID, "VServerGroupName": g.Name, "ServerCount": len(g.Backends),
			"AssociatedObjects": core.Reply{"Listeners": core.Reply{"Listener": listeners}, "Rules": core.Reply{"Rule": rules}},
		})
	}
	return core.Reply{"VServerGroups": core.Reply{"VServerGroup": list}}, nil
}

func describeVGroup(q *request) (any, *core.Failure) {
	lb, g, bad := q.vgroup()
	if bad != nil {
		return nil, bad
	}
	out := g.show(q)
	out["LoadBalancerId"] = lb.ID
	return out, nil
}

func setVGroup(q *request) (any, *core.Failure) {
	_, g, list, bad := q.change("BackendServers")
	if bad != nil {
		return nil, bad
	}
	for _, b := range list {
		if g.find(b) < 0 {
			return nil, core.Documented("ObtainIpFail")
		}
	}
	g.add(list)
	if n := q.Params["VServerGroupName"]; n != "" {
		g.Name = n
	}
	return g.show(q), nil
}

func addBackends(q *request) (any, *core.Failure) {
	lb, g, list, bad := q.change("BackendServers")
	if bad != nil {
		return nil, bad
	}
	more := slices.DeleteFunc(slices.Clone(list), func(b Backend) bool { return g.find(b) >= 0 })
	if bad := q.admit(lb, more); bad != nil {
		return nil, bad
	}
	g.add(list)
	return g.show(q), nil
}

func removeBackends(q *request) (any, *core.Failure) {
	_, g, list, bad := q.change("BackendServers")
	if bad != nil {
		return nil, bad
	}
	g.remove(list)
	return g.show(q), nil
}

func modifyBackends(q *request) (any, *core.Failure) {
	lb, g, was, bad := q.change("OldBackendServers")
	if bad != nil {
		return nil, bad
	}
	list, bad := q.backends("NewBackendServers")
	if bad != nil {
		return nil, bad
	}
	before := slices.Clone(g.Backends)
	g.remove(was)
	if bad := q.admit(lb, list); bad != nil {
		g.Backends = before
		return nil, bad
	}
	g.add(list)
	return g.show(q), nil
}
