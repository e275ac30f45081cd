package sim

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
)

// A RouteTable says where a VPC sends what is for addresses outside of its
// vSwitches. Each VPC has one of the system.
type RouteTable struct {
	ID     string  `json:"id,omitempty"`
	Name   string  `json:"name,omitempty"`
	VPC    string  `json:"vpc,omitempty"`  // the cluster's if empty
	Type   string  `json:"type,omitempty"` // System if empty, or Custom
	Routes []Route `json:"routes,omitempty"`
}

// A Route sends what is for a block of addresses to its next hop.
type Route struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Block       string `json:"block,omitempty"`   // such as 172.20.1.0/24
	NextHop     string `json:"nextHop,omitempty"` // ID
	HopType     string `json:"hopType,omitempty"` // Instance if empty
	Status      string `json:"status,omitempty"`  // Available if empty
}

func routeActions() map[string]*action {
	return map[string]*action{
		"DescribeRouteTableList": {do: describeRouteTableList},
		"DescribeRouteTables":    {do: describeRouteTables},
		"DescribeRouteEntryList": {do: describeRouteEntryList, need: []string{"RouteTableId"}},
		"CreateRouteEntry":       {do: createRouteEntry, need: []string{"RouteTableId", "DestinationCidrBlock"}},
		"DeleteRouteEntry":       {do: deleteRouteEntry},
		"CreateRouteEntries":     {do: createRouteEntries, need: []string{"RouteEntries"}},
		"DeleteRouteEntries":     {do: deleteRouteEntries, need: []string{"RouteEntries"}},
	}
}

func fillRoutes(s *State, w *World) error {
	var errs []error
	s.RouteTables, errs = index(errs, "route table", w.RouteTables, func(r *RouteTable) string { return r.ID }, func(i int, r *RouteTable) {
		r.VPC = cmp.Or(r.VPC, s.Cluster.VPC)
		r.ID, r.Type = cmp.Or(r.ID, fmt.Sprintf("vtb-%d", i+1)), cmp.Or(r.Type, "System")
		r.fill()
	})
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

// addRouteTables gives each VPC its table of the system.
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

func noRouteTable() *failure {
	return fail(http.StatusNotFound, "InvalidRouteTableId.NotFound", "Specified route table does not exist.")
}

func routerID(vpc string) string { return "vrt-" + vpc }

// tables returns the route tables that a request asks for, in order.
func (q *request) tables() []*RouteTable {
	p := q.params
	router := cmp.Or(p["RouterId"], p["VRouterId"])
	var list []*RouteTable
	for _, id := range slices.Sorted(maps.Keys(q.state.RouteTables)) {
		r := q.state.RouteTables[id]
		if is(p["RouteTableId"], id) && is(p["VpcId"], r.VPC) && is(p["RouteTableName"], r.Name) && is(router, routerID(r.VPC)) && is(p["RouteTableType"], r.Type) {
			list = append(list, r)
		}
	}
	return list
}

// show is what answers say of a route table.
func (r *RouteTable) show(s *State) reply {
	ids := []string{}
	for _, v := range sorted(s.VSwitches) {
		if v.VPC == r.VPC && r.Type == "System" {
			ids = append(ids, v.ID)
		}
	}
	return reply{
		"RouteTableId": r.ID, "RouteTableName": r.Name, "RouteTableType": r.Type, "VpcId": r.VPC, "RouterId": routerID(r.VPC), "VRouterId": routerID(r.VPC),
		"RouterType": "VRouter", "AssociateType": "VSwitch", "Status": "Available", "CreationTime": s.started.Format("2006-01-02T15:04:05Z"),
		"Description": "", "ResourceGroupId": "", "VSwitchIds": reply{"VSwitchId": ids}, "Tags": reply{"Tag": []reply{}},
	}
}

func describeRouteTableList(q *request) (any, *failure) {
	part, n, size, bad := page(q.params, q.tables(), 10, 50)
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, r := range part {
		list = append(list, r.show(q.state))
	}
	return reply{
		"Code": "200", "Message": "success", "Success": true, "PageNumber": n, "PageSize": size, "TotalCount": len(q.tables()),
		"RouterTableList": reply{"RouterTableListType": list},
	}, nil
}

func describeRouteTables(q *request) (any, *failure) {
	part, n, size, bad := page(q.params, q.tables(), 10, 50)
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, r := range part {
		e := r.show(q.state)
		e["RouteEntrys"] = reply{"RouteEntry": r.entries(q.state)}
		list = append(list, e)
	}
	return reply{"PageNumber": n, "PageSize": size, "TotalCount": len(q.tables()), "RouteTables": reply{"RouteTable": list}}, nil
}

// entries shows the routes of a table: those that were made, and of the system
// the ones to its own vSwitches.
func (r *RouteTable) entries(s *State) []reply {
	list := []reply{}
	add := func(e Route, kind string) {
		hops := []reply{}
		if e.NextHop != "" {
			hops = append(hops, reply{"NextHopId": e.NextHop, "NextHopType": e.HopType, "Enabled": 1, "Weight": 0})
		}
		list = append(list, reply{
			"RouteEntryId": e.ID, "RouteEntryName": e.Name, "Description": e.Description, "RouteTableId": r.ID, "DestinationCidrBlock": e.Block,
			"InstanceId": e.NextHop, "NextHopType": e.HopType, "NextHops": reply{"NextHop": hops}, "Type": kind, "Status": e.Status, "IpVersion": "ipv4",
		})
	}
	for _, e := range r.Routes {
		add(e, "Custom")
	}
	if r.Type == "System" {
		for _, v := range sorted(s.VSwitches) {
			if v.VPC == r.VPC {
				add(Route{ID: "rte-" + v.ID, Block: v.CIDR, HopType: "local", Status: "Available"}, "System")
			}
		}
	}
	return list
}

func describeRouteEntryList(q *request) (any, *failure) {
	p := q.params
	r := q.state.RouteTables[p["RouteTableId"]]
	if r == nil {
		return nil, noRouteTable()
	}
	list := slices.DeleteFunc(r.entries(q.state), func(e reply) bool {
		return !is(p["RouteEntryType"], e["Type"].(string)) || !is(p["RouteEntryId"], e["RouteEntryId"].(string)) || !is(p["RouteEntryName"], e["RouteEntryName"].(string)) ||
			!is(p["DestinationCidrBlock"], e["DestinationCidrBlock"].(string)) || !is(p["NextHopId"], e["InstanceId"].(string)) || !is(p["NextHopType"], e["NextHopType"].(string))
	})
	part, next, bad := chunk(params{"MaxResults": p["MaxResult"], "NextToken": p["NextToken"]}, list, 50, 100) // this action says MaxResult
	if bad != nil {
		return nil, invalid("MaxResult")
	}
	return reply{"NextToken": next, "RouteEntrys": reply{"RouteEntry": part}}, nil
}

// route makes a route, or says why not.
func (q *request) route(r *RouteTable, e Route) (string, *failure) {
	if e.Block != "" && !strings.Contains(e.Block, "/") {
		e.Block += "/32"
	}
	block, err := netip.ParsePrefix(e.Block)
	if err != nil {
		return "", fail(http.StatusBadRequest, "InvalidCidrBlock.Malformed", "Specified CIDR block is not valid.")
	}
	inside := netip.MustParsePrefix("100.64.0.0/10").Overlaps(block)
	for _, v := range q.state.VSwitches {
		p, err := netip.ParsePrefix(v.CIDR)
		inside = inside || err == nil && v.VPC == r.VPC && p.Bits() <= block.Bits() && p.Overlaps(block)
	}
	switch {
	case inside:
		return "", fail(http.StatusBadRequest, "InvalidCidrBlock", "Specified CIDR block is not valid.")
	case slices.ContainsFunc(r.Routes, func(o Route) bool { return o.Block == e.Block }):
		return "", fail(http.StatusBadRequest, "InvalidCIDRBlock.Duplicate", "Specified CIDR block is already exists.")
	case e.HopType == "Instance" && q.state.Instances[e.NextHop] == nil:
		return "", fail(http.StatusNotFound, "InvalidNextHopId.NotFound", "Specified next hop does not exist.")
	case len(r.Routes) >= q.state.quota(quotaRoutes, 200):
		return "", fail(http.StatusBadRequest, "QuotaExceeded", "Route entry quota exceeded in this route table.")
	}
	e.ID = q.state.id("rte-", func(id string) bool { return r.find(id) >= 0 })
	e.Status = "Available"
	if late := time.Duration(q.state.Lag.Routes); late > 0 {
		e.Status = "Pending"
		id := e.ID
		q.later(late, func(s *State) {
			if r := s.RouteTables[r.ID]; r != nil {
				if i := r.find(id); i >= 0 {
					r.Routes[i].Status = "Available"
				}
			}
		})
	}
	r.Routes = append(r.Routes, e)
	return e.ID, nil
}

func (r *RouteTable) find(id string) int {
	return slices.IndexFunc(r.Routes, func(e Route) bool { return e.ID == id })
}

func createRouteEntry(q *request) (any, *failure) {
	p := q.params
	r := q.state.RouteTables[p["RouteTableId"]]
	if r == nil {
		return nil, noRouteTable()
	}
	if slices.ContainsFunc(r.Routes, func(e Route) bool { return e.Status == "Pending" }) {
		return nil, fail(http.StatusBadRequest, "IncorrectRouteEntryStatus", "Some route entry status blocked this operation.")
	}
	id, bad := q.route(r, Route{
		Name: p["RouteEntryName"], Description: p["Description"], Block: p["DestinationCidrBlock"], NextHop: p["NextHopId"], HopType: cmp.Or(p["NextHopType"], "Instance"),
	})
	if bad != nil {
		return nil, bad
	}
	return reply{"RouteEntryId": id}, nil
}

// drop deletes the route with this ID, or this block and next hop.
func (q *request) drop(p params, block, hop string) *failure {
	for _, r := range q.state.RouteTables {
		if !is(p["RouteTableId"], r.ID) {
			continue
		}
		i := slices.IndexFunc(r.Routes, func(e Route) bool {
			if p["RouteEntryId"] != "" {
				return e.ID == p["RouteEntryId"]
			}
			return e.Block == block && is(hop, e.NextHop)
		})
		if i >= 0 {
			r.Routes = slices.Delete(r.Routes, i, i+1)
			return nil
		}
	}
	return fail(http.StatusNotFound, "InvalidRouteEntry.NotFound", "Specified route entry does not exist.")
}

func deleteRouteEntry(q *request) (any, *failure) {
	p := q.params
	if p["RouteEntryId"] == "" && (p["RouteTableId"] == "" || p["DestinationCidrBlock"] == "") {
		return nil, fail(http.StatusBadRequest, "MissingParameter", "Miss mandatory parameter.")
	}
	if p["RouteTableId"] != "" && q.state.RouteTables[p["RouteTableId"]] == nil {
		return nil, noRouteTable()
	}
	return reply{}, q.drop(p, p["DestinationCidrBlock"], p["NextHopId"])
}

// failedCodes are the codes by which one of several routes fails, where they are
// not those of a single one.
var failedCodes = map[string]string{
	"InvalidCIDRBlock.Duplicate": "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE", "IncorrectRouteEntryStatus": "VPC_ROUTE_ENTRY_STATUS_ERROR",
}

// each does something with each of the routes of a request, and says what
// failed.
func each(q *request, do func(params) (string, *failure)) (any, *failure) {
	ids, failed := []string{}, []reply{}
	said := q.params.structs("RouteEntries")
	if len(said) > 50 {
		return nil, invalid("RouteEntries")
	}
	for _, p := range said {
		id, bad := do(p)
		if bad != nil {
			failed = append(failed, reply{
				"DstCidrBlock": p["DstCidrBlock"], "NextHop": p["NextHop"], "RouteEntryId": p["RouteEntryId"], "FailedMessage": bad.Message,
				"FailedCode": cmp.Or(failedCodes[bad.Code], bad.Code),
			})
			continue
		}
		ids = append(ids, id)
	}
	return reply{"SuccessCount": len(ids), "FailedCount": len(failed), "RouteEntryIds": ids, "FailedRouteEntries": failed}, nil
}

func createRouteEntries(q *request) (any, *failure) {
	for _, p := range q.params.structs("RouteEntries") {
		if p["RouteTableId"] == "" {
			return nil, fail(http.StatusBadRequest, "MissingParam.RouteTableId", "The parameter RouteTableId is missing.")
		}
	}
	return each(q, func(p params) (string, *failure) {
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

func deleteRouteEntries(q *request) (any, *failure) {
	return each(q, func(p params) (string, *failure) {
		return p["RouteEntryId"], q.drop(p, p["DstCidrBlock"], p["NextHop"])
	})
}

// createVSwitch makes a subnet of a VPC.
func createVSwitch(q *request) (any, *failure) {
	p, s := q.params, q.state
	block, err := netip.ParsePrefix(p["CidrBlock"])
	vpc := s.VPCs[p["VpcId"]]
	switch {
	case vpc == nil:
		return nil, fail(http.StatusNotFound, "InvalidVpcId.NotFound", "Specified VPC does not exist.")
	case s.Zones[p["ZoneId"]] == nil:
		return nil, fail(http.StatusNotFound, "InvalidZoneId.NotFound", "Specified zone does not exist.")
	case err != nil || !block.Addr().Is4() || block.Bits() < 16 || block.Bits() > 29:
		return nil, fail(http.StatusBadRequest, "InvalidCidrBlock.Malformed", "Specified CIDR block is not valid.")
	}
	within := false
	for _, c := range append([]string{vpc.CIDR}, vpc.SecondaryCIDRs...) {
		whole, err := netip.ParsePrefix(c)
		within = within || err == nil && whole.Bits() <= block.Bits() && whole.Overlaps(block)
	}
	if !within {
		return nil, fail(http.StatusBadRequest, "InvalidCidrBlock.Mismatch", "Specified CIDR block is not matched with the VPC.")
	}
	for _, v := range s.VSwitches {
		other, err := netip.ParsePrefix(v.CIDR)
		if err == nil && v.VPC == vpc.ID && other.Overlaps(block) {
			return nil, fail(http.StatusBadRequest, "InvalidCidrBlock.Overlapped", "Specified CIDR block overlapped with other subnets.")
		}
	}
	id := s.id("vsw-", func(id string) bool { return s.VSwitches[id] != nil })
	s.VSwitches[id] = &VSwitch{
		ID: id, Name: p["VSwitchName"], VPC: vpc.ID, Zone: p["ZoneId"], CIDR: block.Masked().String(), Status: "Available", Free: new(1<<(32-block.Bits()) - 4),
	}
	return reply{"VSwitchId": id}, nil
}
