package vpc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A RouteTable routes a VPC's traffic to addresses outside its vSwitches. Each VPC has a system table.
type RouteTable struct {
	ID     string  `json:"id,omitempty"`
	Name   string  `json:"name,omitempty"`
	VPC    string  `json:"vpc,omitempty"`  // the cluster's if empty
	Type   string  `json:"type,omitempty"` // System if empty, or Custom
	Routes []Route `json:"routes,omitempty"`
}

// A Route sends traffic for an address block to its next hop.
type Route struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Block       string `json:"block,omitempty"`   // such as 172.20.1.0/24
	NextHop     string `json:"nextHop,omitempty"` // ID
	HopType     string `json:"hopType,omitempty"` // Instance if empty
	Status      string `json:"status,omitempty"`  // Available if empty
}

func routeActions() map[string]*core.Action {
	return map[string]*core.Action{
		"DescribeRouteTableList": {Do: on(describeRouteTableList)},
		"DescribeRouteTables":    {Do: on(describeRouteTables)},
		"DescribeRouteEntryList": {Do: on(describeRouteEntryList), Need: []string{"RouteTableId"}},
		"CreateRouteEntry":       {Do: on(createRouteEntry), Need: []string{"RouteTableId", "DestinationCidrBlock"}},
		"DeleteRouteEntry":       {Do: on(deleteRouteEntry)},
		"CreateRouteEntries":     {Do: on(createRouteEntries), Need: []string{"RouteEntries"}},
		"DeleteRouteEntries":     {Do: on(deleteRouteEntries), Need: []string{"RouteEntries"}},
	}
}

func (s *State) fillRoutes(list []RouteTable) error {
	var err error
	s.RouteTables, err = core.Index("route table", list, func(r *RouteTable) string { return r.ID }, func(i int, r *RouteTable) {
		r.VPC = cmp.Or(r.VPC, s.Home)
		r.ID, r.Type = cmp.Or(r.ID, fmt.Sprintf("vtb-%d", i+1)), cmp.Or(r.Type, "System")
		r.fill()
	})
	errs := []error{err}
	for _, r := range s.RouteTables {
		if s.VPCs[r.VPC] == nil {
			errs = append(errs, fmt.Errorf("route table %s: there is no VPC %s", r.ID, r.VPC))
		}
		for _, e := range r.Routes {
			if _, err := netip.ParsePrefix(e.Block); err != nil {
				errs = append(errs, fmt.Errorf("route table %s: %w", r.ID, err))
			}
		}
	}
	s.addRouteTables()
	return errors.Join(errs...)
}

func (r *RouteTable) fill() {
	for i := range r.Routes {
		e := &r.Routes[i]
		e.ID, e.HopType, e.Status = cmp.Or(e.ID, fmt.Sprintf("rte-%s-%d", r.ID, i+1)), cmp.Or(e.HopType, "Instance"), cmp.Or(e.Status, "Available")
	}
}

func (s *State) addRouteTables() {
	has := map[string]bool{}
	for id, r := range s.RouteTables {
		r.ID, r.Type = id, cmp.Or(r.Type, "System")
		r.fill()
		has[r.VPC] = has[r.VPC] || r.Type == "System"
	}
	for id := range s.VPCs {
		if !has[id] {
			s.RouteTables["vtb-"+id] = &RouteTable{ID: "vtb-" + id, VPC: id, Type: "System"}
		}
	}
}

func noRouteTable() *core.Failure {
	return core.Fail(http.StatusNotFound, "InvalidRouteTableId.NotFound", "Specified route table does not exist.")
}

func routerID(vpc string) string { return "vrt-" + vpc }

func (q *request) tables() []*RouteTable {
	p := q.Params
	router := cmp.Or(p["RouterId"], p["VRouterId"])
	var list []*RouteTable
	for _, id := range slices.Sorted(maps.Keys(q.state.RouteTables)) {
		r := q.state.RouteTables[id]
		if core.Is(p["RouteTableId"], id) && core.Is(p["VpcId"], r.VPC) && core.Is(p["RouteTableName"], r.Name) &&
			core.Is(router, routerID(r.VPC)) && core.Is(p["RouteTableType"], r.Type) {
			list = append(list, r)
		}
	}
	return list
}

func (r *RouteTable) show(s *State) core.Reply {
	ids := []string{}
	for _, v := range core.Sorted(s.VSwitches) {
		if v.VPC == r.VPC && r.Type == "System" {
			ids = append(ids, v.ID)
		}
	}
	return core.Reply{
		"RouteTableId": r.ID, "RouteTableName": r.Name, "RouteTableType": r.Type, "VpcId": r.VPC, "RouterId": routerID(r.VPC), "VRouterId": routerID(r.VPC),
		"RouterType": "VRouter", "AssociateType": "VSwitch", "Status": "Available", "CreationTime": s.Started.Format("2006-01-02T15:04:05Z"),
		"Description": "", "ResourceGroupId": "", "VSwitchIds": core.Reply{"VSwitchId": ids}, "Tags": core.Reply{"Tag": []core.Reply{}},
	}
}

func describeRouteTableList(q *request) (any, *core.Failure) {
	part, n, size, bad := core.Page(q.Params, q.tables(), 10, 50)
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, r := range part {
		list = append(list, r.show(q.state))
	}
	return core.Reply{
		"Code": "200", "Message": "success", "Success": true, "PageNumber": n, "PageSize": size, "TotalCount": len(q.tables()),
		"RouterTableList": core.Reply{"RouterTableListType": list},
	}, nil
}

func describeRouteTables(q *request) (any, *core.Failure) {
	part, n, size, bad := core.Page(q.Params, q.tables(), 10, 50)
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, r := range part {
		e := r.show(q.state)
		e["RouteEntrys"] = core.Reply{"RouteEntry": r.entries(q.state)}
		list = append(list, e)
	}
	return core.Reply{"PageNumber": n, "PageSize": size, "TotalCount": len(q.tables()), "RouteTables": core.Reply{"RouteTable": list}}, nil
}

// entries returns the routes of a table: created ones, and the system's routes to the VPC's own vSwitches.
func (r *RouteTable) entries(s *State) []core.Reply {
	list := []core.Reply{}
	add := func(e Route, kind string) {
		hops := []core.Reply{}
		if e.NextHop != "" {
			hops = append(hops, core.Reply{"NextHopId": e.NextHop, "NextHopType": e.HopType, "Enabled": 1, "Weight": 0})
		}
		list = append(list, core.Reply{
			"RouteEntryId": e.ID, "RouteEntryName": e.Name, "Description": e.Description, "RouteTableId": r.ID, "DestinationCidrBlock": e.Block,
			"InstanceId": e.NextHop, "NextHopType": e.HopType, "NextHops": core.Reply{"NextHop": hops}, "Type": kind, "Status": e.Status, "IpVersion": "ipv4",
		})
	}
	for _, e := range r.Routes {
		add(e, "Custom")
	}
	if r.Type == "System" {
		for _, v := range core.Sorted(s.VSwitches) {
			if v.VPC == r.VPC {
				add(Route{ID: "rte-" + v.ID, Block: v.CIDR, HopType: "local", Status: "Available"}, "System")
			}
		}
	}
	return list
}

func describeRouteEntryList(q *request) (any, *core.Failure) {
	p := q.Params
	r := q.state.RouteTables[p["RouteTableId"]]
	if r == nil {
		return nil, noRouteTable()
	}
	list := slices.DeleteFunc(r.entries(q.state), func(e core.Reply) bool {
		return !core.Is(p["RouteEntryType"], e["Type"].(string)) || !core.Is(p["RouteEntryId"], e["RouteEntryId"].(string)) ||
			!core.Is(p["RouteEntryName"], e["RouteEntryName"].(string)) ||
			!core.Is(p["DestinationCidrBlock"], e["DestinationCidrBlock"].(string)) ||
			!core.Is(p["NextHopId"], e["InstanceId"].(string)) || !core.Is(p["NextHopType"], e["NextHopType"].(string))
	})
	// This action's parameter is MaxResult. The controller asks for 500 (RouteMaxQueryRouteEntry in pkg/model/route.go).
	part, next, bad := core.Chunk(core.Params{"MaxResults": p["MaxResult"], "NextToken": p["NextToken"]}, list, 50, 500)
	if bad != nil {
		return nil, core.Invalid("MaxResult")
	}
	return core.Reply{"NextToken": next, "RouteEntrys": core.Reply{"RouteEntry": part}}, nil
}

func (q *request) route(r *RouteTable, e Route) (string, *core.Failure) {
	if e.Block != "" && !strings.Contains(e.Block, "/") {
		e.Block += "/32"
	}
	block, err := netip.ParsePrefix(e.Block)
	if err != nil {
		return "", core.Fail(http.StatusBadRequest, "InvalidCidrBlock.Malformed", "Specified CIDR block is not valid.")
	}
	inside := netip.MustParsePrefix("100.64.0.0/10").Overlaps(block)
	for _, v := range q.state.VSwitches {
		p, err := netip.ParsePrefix(v.CIDR)
		inside = inside || err == nil && v.VPC == r.VPC && p.Bits() <= block.Bits() && p.Overlaps(block)
	}
	switch {
	case inside:
		return "", core.Fail(http.StatusBadRequest, "InvalidCidrBlock", "Specified CIDR block is not valid.")
	case slices.ContainsFunc(r.Routes, func(o Route) bool { return o.Block == e.Block }):
		return "", core.Fail(http.StatusBadRequest, "InvalidCIDRBlock.Duplicate", "Specified CIDR block is already exists.")
	case e.HopType == "Instance" && !q.state.Instance(e.NextHop):
		return "", core.Fail(http.StatusNotFound, "InvalidNextHopId.NotFound", "Specified next hop does not exist.")
	case len(r.Routes) >= q.state.quotas.Limit(quotaRoutes, 200):
		return "", core.Fail(http.StatusBadRequest, "QuotaExceeded", "Route entry quota exceeded in this route table.")
	}
	e.ID = q.state.ID("rte-", func(id string) bool { return r.find(id) >= 0 })
	e.Status = "Available"
	if late := time.Duration(q.state.Lag.Routes); late > 0 {
		e.Status = "Pending"
		id := e.ID
		q.Later(late, core.On(func(s *State) {
			if r := s.RouteTables[r.ID]; r != nil {
				if i := r.find(id); i >= 0 {
					r.Routes[i].Status = "Available"
				}
			}
		}))
	}
	r.Routes = append(r.Routes, e)
	return e.ID, nil
}

func (r *RouteTable) find(id string) int {
	return slices.IndexFunc(r.Routes, func(e Route) bool { return e.ID == id })
}

func createRouteEntry(q *request) (any, *core.Failure) {
	p := q.Params
	r := q.state.RouteTables[p["RouteTableId"]]
	if r == nil {
		return nil, noRouteTable()
	}
	if slices.ContainsFunc(r.Routes, func(e Route) bool { return e.Status == "Pending" }) {
		return nil, core.Fail(http.StatusBadRequest, "IncorrectRouteEntryStatus", "Some route entry status blocked this operation.")
	}
	id, bad := q.route(r, Route{
		Name: p["RouteEntryName"], Description: p["Description"], Block: p["DestinationCidrBlock"],
		NextHop: p["NextHopId"], HopType: cmp.Or(p["NextHopType"], "Instance"),
	})
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"RouteEntryId": id}, nil
}

func (q *request) drop(p core.Params, block, hop string) *core.Failure {
	for _, r := range q.state.RouteTables {
		if !core.Is(p["RouteTableId"], r.ID) {
			continue
		}
		i := slices.IndexFunc(r.Routes, func(e Route) bool {
			if p["RouteEntryId"] != "" {
				return e.ID == p["RouteEntryId"]
			}
			return e.Block == block && core.Is(hop, e.NextHop)
		})
		if i >= 0 {
			r.Routes = slices.Delete(r.Routes, i, i+1)
			return nil
		}
	}
	return core.Fail(http.StatusNotFound, "InvalidRouteEntry.NotFound", "Specified route entry does not exist.")
}

func deleteRouteEntry(q *request) (any, *core.Failure) {
	p := q.Params
	if p["RouteEntryId"] == "" && (p["RouteTableId"] == "" || p["DestinationCidrBlock"] == "") {
		return nil, core.Fail(http.StatusBadRequest, "MissingParameter", "Miss mandatory parameter.")
	}
	if p["RouteTableId"] != "" && q.state.RouteTables[p["RouteTableId"]] == nil {
		return nil, noRouteTable()
	}
	return core.Reply{}, q.drop(p, p["DestinationCidrBlock"], p["NextHopId"])
}

var failedCodes = map[string]string{
	"InvalidCIDRBlock.Duplicate": "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE", "IncorrectRouteEntryStatus": "VPC_ROUTE_ENTRY_STATUS_ERROR",
}

func each(q *request, do func(core.Params) (string, *core.Failure)) (any, *core.Failure) {
	ids, failed := []string{}, []core.Reply{}
	said := q.Params.Structs("RouteEntries")
	if len(said) > 50 {
		return nil, core.Invalid("RouteEntries")
	}
	for _, p := range said {
		id, bad := do(p)
		if bad != nil {
			failed = append(failed, core.Reply{
				"DstCidrBlock": p["DstCidrBlock"], "NextHop": p["NextHop"], "RouteEntryId": p["RouteEntryId"], "FailedMessage": bad.Message,
				"FailedCode": cmp.Or(failedCodes[bad.Code], bad.Code),
			})
			continue
		}
		ids = append(ids, id)
	}
	return core.Reply{"SuccessCount": len(ids), "FailedCount": len(failed), "RouteEntryIds": ids, "FailedRouteEntries": failed}, nil
}

func createRouteEntries(q *request) (any, *core.Failure) {
	for _, p := range q.Params.Structs("RouteEntries") {
		if p["RouteTableId"] == "" {
			return nil, core.Fail(http.StatusBadRequest, "MissingParam.RouteTableId", "The parameter RouteTableId is missing.")
		}
	}
	return each(q, func(p core.Params) (string, *core.Failure) {
		r := q.state.RouteTables[p["RouteTableId"]]
		if r == nil {
			return "", noRouteTable()
		}
		return q.route(r, Route{
			Name: p["Name"], Description: cmp.Or(p["Description"], p["Describption"]), Block: p["DstCidrBlock"], NextHop: p["NextHop"],
			HopType: cmp.Or(p["NextHopType"], "Instance"),
		})
	})
}

func deleteRouteEntries(q *request) (any, *core.Failure) {
	return each(q, func(p core.Params) (string, *core.Failure) {
		return p["RouteEntryId"], q.drop(p, p["DstCidrBlock"], p["NextHop"])
	})
}

func createVSwitch(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	block, err := netip.ParsePrefix(p["CidrBlock"])
	vpc := s.VPCs[p["VpcId"]]
	switch {
	case vpc == nil:
		return nil, core.Fail(http.StatusNotFound, "InvalidVpcId.NotFound", "Specified VPC does not exist.")
	case s.Zones[p["ZoneId"]] == nil:
		return nil, core.Fail(http.StatusNotFound, "InvalidZoneId.NotFound", "Specified zone does not exist.")
	case err != nil || !block.Addr().Is4() || block.Bits() < 16 || block.Bits() > 29:
		return nil, core.Fail(http.StatusBadRequest, "InvalidCidrBlock.Malformed", "Specified CIDR block is not valid.")
	}
	within := false
	for _, c := range append([]string{vpc.CIDR}, vpc.SecondaryCIDRs...) {
		whole, err := netip.ParsePrefix(c)
		within = within || err == nil && whole.Bits() <= block.Bits() && whole.Overlaps(block)
	}
	if !within {
		return nil, core.Fail(http.StatusBadRequest, "InvalidCidrBlock.Mismatch", "Specified CIDR block is not matched with the VPC.")
	}
	for _, v := range s.VSwitches {
		other, err := netip.ParsePrefix(v.CIDR)
		if err == nil && v.VPC == vpc.ID && other.Overlaps(block) {
			return nil, core.Fail(http.StatusBadRequest, "InvalidCidrBlock.Overlapped", "Specified CIDR block overlapped with other subnets.")
		}
	}
	id := s.ID("vsw-", func(id string) bool { return s.VSwitches[id] != nil })
	s.VSwitches[id] = &VSwitch{
		ID: id, Name: p["VSwitchName"], VPC: vpc.ID, Zone: p["ZoneId"], CIDR: block.Masked().String(), Status: "Available", Free: new(1<<(32-block.Bits()) - 4),
	}
	return core.Reply{"VSwitchId": id}, nil
}
