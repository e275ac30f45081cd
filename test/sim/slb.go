package sim

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slb is the classic load balancer (CLB):
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-overview
func slb() *product {
	p := &product{
		name: "slb", version: "2014-05-15", host: "slb.aliyuncs.com", regional: true,
		refusal: failure{
			Status: http.StatusForbidden, Code: "Forbidden.RAM",
			Message: "User not authorized to operate on the specified resource, or this API doesn't support RAM.",
		},
		actions: map[string]*action{
			"CreateLoadBalancer":                    {do: createLoadBalancer},
			"DeleteLoadBalancer":                    {do: deleteLoadBalancer},
			"DescribeLoadBalancers":                 {do: describeLoadBalancers, filtered: true},
			"DescribeLoadBalancerAttribute":         {do: describeLoadBalancerAttribute},
			"DescribeAvailableResource":             {do: describeAvailableResource},
			"DescribeZones":                         {do: describeZones},
			"DescribeRegions":                       {do: describeRegions},
			"SetLoadBalancerName":                   {do: setLoadBalancerName, need: []string{"LoadBalancerName"}},
			"SetLoadBalancerStatus":                 {do: setLoadBalancerStatus, need: []string{"LoadBalancerStatus"}},
			"SetLoadBalancerDeleteProtection":       {do: setDeleteProtection, need: []string{"DeleteProtection"}},
			"SetLoadBalancerModificationProtection": {do: setModificationProtection, need: []string{"ModificationProtectionStatus"}},
			"ModifyLoadBalancerInstanceSpec":        {do: modifySpec, need: []string{"LoadBalancerSpec"}},
			"ModifyLoadBalancerInstanceChargeType":  {do: modifyChargeType, need: []string{"InstanceChargeType"}},
			"ModifyLoadBalancerInternetSpec":        {do: modifyInternetSpec},
			"ModifyLoadBalancerPayType":             {do: modifyPayType, need: []string{"PayType"}},
			"DescribeServerCertificates":            {do: describeServerCertificates},
		},
	}
	// What is about one load balancer needs its ID.
	for _, name := range []string{
		"DeleteLoadBalancer", "DescribeLoadBalancerAttribute", "SetLoadBalancerName", "SetLoadBalancerStatus",
		"SetLoadBalancerDeleteProtection", "SetLoadBalancerModificationProtection", "ModifyLoadBalancerInstanceSpec",
		"ModifyLoadBalancerInstanceChargeType", "ModifyLoadBalancerInternetSpec", "ModifyLoadBalancerPayType",
	} {
		a := p.actions[name]
		a.need = append([]string{"LoadBalancerId"}, a.need...)
	}
	maps.Copy(p.actions, listenerActions())
	maps.Copy(p.actions, ruleActions())
	maps.Copy(p.actions, aclActions())
	maps.Copy(p.actions, vgroupActions())
	maps.Copy(p.actions, tagActions())
	for _, a := range p.actions {
		a.resource = loadBalancerResource
	}
	return p
}

// loadBalancerResource names the load balancer that a request is about: by its
// own ID, or by a vServer group of it.
func loadBalancerResource(q *request) string {
	id := q.params["LoadBalancerId"]
	if g := q.params["VServerGroupId"]; id == "" && g != "" {
		id = q.state.groups[g]
	}
	if ids := append(q.params.list("ResourceId"), q.params.list("LoadBalancerId")...); id == "" && len(ids) == 1 {
		id = ids[0]
	}
	if id == "" || strings.Contains(id, ",") {
		id = "*"
	}
	return "loadbalancer/" + id
}

func noLoadBalancer() *failure {
	return fail(http.StatusNotFound, "InvalidLoadBalancerId.NotFound", "The specified LoadBalancerId does not exist.")
}

// loadBalancer returns the load balancer that a request names.
func (q *request) loadBalancer() (*LoadBalancer, *failure) {
	if lb := q.state.LoadBalancers[q.params["LoadBalancerId"]]; lb != nil {
		return lb, nil
	}
	return nil, noLoadBalancer()
}

func createLoadBalancer(q *request) (any, *failure) {
	p, s := q.params, q.state
	token := p["ClientToken"]
	if done, ok := q.settled(token); ok {
		return maps.Clone(done.answer), nil // each answer has an ID of its own
	}
	lb := &LoadBalancer{
		Name: p["LoadBalancerName"], AddressType: cmp.Or(p["AddressType"], "internet"), IPVersion: p["AddressIPVersion"],
		VSwitch: p["VSwitchId"], VPC: p["VpcId"], Spec: p["LoadBalancerSpec"], ChargeType: p["InstanceChargeType"],
		InternetChargeType: p["InternetChargeType"], PayType: p["PayType"], ResourceGroup: p["ResourceGroupId"],
		MasterZone: p["MasterZoneId"], SlaveZone: p["SlaveZoneId"], DeleteProtection: p["DeleteProtection"] == "on",
		ModificationProtection: Protection{Status: p["ModificationProtectionStatus"], Reason: p["ModificationProtectionReason"]},
		Created:                q.now.UTC().Truncate(time.Second),
	}
	if bad := q.orderable(lb); bad != nil {
		return nil, bad
	}
	var bad *failure
	if lb.Bandwidth, bad = p.number("Bandwidth", -1, 5120, 0); bad != nil {
		return nil, bad
	}
	if lb.Tags, bad = p.tags(); bad != nil {
		return nil, bad
	}
	if bad := checkTags(lb.Tags, nil); bad != nil {
		return nil, bad
	}
	if bad := q.place(lb); bad != nil {
		return nil, bad
	}
	lb.ID = s.id("lb-", func(id string) bool { return s.LoadBalancers[id] != nil })
	lb.Name = cmp.Or(lb.Name, "auto_named_slb")
	lb.fill(s)
	s.LoadBalancers[lb.ID] = lb
	s.stock(lb.MasterZone, -1)
	done := reply{
		"LoadBalancerId": lb.ID, "LoadBalancerName": lb.Name, "Address": lb.Address, "AddressIPVersion": lb.IPVersion,
		"NetworkType": lb.networkType(), "VpcId": lb.vpcID(), "VSwitchId": lb.VSwitch, "ResourceGroupId": lb.ResourceGroup,
		"OrderId": 0,
	}
	s.tagging(lb.ID, nil)
	q.settle(token, settled{answer: maps.Clone(done), made: lb.ID})
	return done, nil
}

// orderable refuses a load balancer that cannot be bought, and settles its
// charge type.
func (q *request) orderable(lb *LoadBalancer) *failure {
	switch {
	case lb.AddressType != "internet" && lb.AddressType != "intranet":
		return invalid("AddressType")
	case !oneOf("ipv4,ipv6", cmp.Or(lb.IPVersion, "ipv4")):
		return invalid("AddressIPVersion")
	case !oneOf("PayByCLCU,PayBySpec", cmp.Or(lb.ChargeType, "PayBySpec")):
		return fail(http.StatusBadRequest, "IllegalParam.InstanceChargeType", "The parameter InstanceChargeType is illegal.")
	}
	if bad := q.payable(); bad != nil {
		return bad
	}
	if lb.Spec == "" && lb.ChargeType != "PayByCLCU" && q.state.Account.ShareInstanceHalt {
		return documented("ShareSlbHaltSales")
	}
	if lb.ChargeType == "" {
		lb.ChargeType = "PayByCLCU"
		if lb.Spec != "" {
			lb.ChargeType = "PayBySpec"
		}
	}
	if len(q.state.LoadBalancers) >= q.state.quota(quotaCLBs, 60) {
		return documented("OverQuota")
	}
	return nil
}

// place gives a new load balancer its address: one of its vSwitch, or a public
// one.
func (q *request) place(lb *LoadBalancer) *failure {
	full := fail(http.StatusBadRequest, "VSwitchAvailableIpNotExist", "The specified VSwitch has no available ip.")
	if lb.AddressType == "internet" {
		lb.VSwitch, lb.VPC = "", ""
		if bad := q.settleZones(lb); bad != nil {
			return bad
		}
		a, ok := q.state.address(lb)
		if !ok {
			return documented("OperationFailed.RegionResourceLimit")
		}
		lb.Address = a
		return nil
	}
	if lb.VSwitch == "" {
		return fail(http.StatusBadRequest, "MissingParam.VSwitchId", "The parameter VSwitchId is required.")
	}
	v := q.state.VSwitches[lb.VSwitch]
	switch {
	case v == nil:
		return documented("VSwitchNotExist")
	case lb.VPC != "" && q.state.VPCs[lb.VPC] == nil:
		return fail(http.StatusBadRequest, "InvalidVpcId.NotExist", "The specified VPC not exist.")
	case lb.VPC != "" && lb.VPC != v.VPC:
		return fail(http.StatusBadRequest, "VpcNotMatchVSwitch", "The specified VSwitch does not belong to the specified VPC.")
	case lb.IPVersion == "ipv6" && v.IPv6 == "":
		return fail(http.StatusBadRequest, "OperationFailed.VSwitchNotSupportIpv6", "The specified VSwitch does not support IPv6.")
	case *v.Free <= 0:
		return full
	}
	lb.VPC, lb.MasterZone = v.VPC, cmp.Or(lb.MasterZone, v.Zone)
	if bad := q.settleZones(lb); bad != nil {
		return bad
	}
	if want := q.params["Address"]; want != "" {
		a, err := netip.ParseAddr(want)
		block, bad := netip.ParsePrefix(v.CIDR)
		if err != nil || bad != nil || !block.Contains(a) {
			return fail(http.StatusBadRequest, "InvalidParameter", "Illegal parameter. The IP address is not in subnet.")
		}
		if !q.state.take(a, v.ID) {
			return fail(http.StatusBadRequest, "InvalidParameter", "The vpc Ip is exist.")
		}
		lb.Address = want
	} else {
		a, ok := q.state.address(lb)
		if !ok {
			return full
		}
		lb.Address = a
	}
	q.state.spend(v, -1)
	return nil
}

func (lb *LoadBalancer) networkType() string {
	if lb.AddressType == "intranet" {
		return "vpc"
	}
	return "classic"
}

// vpcID returns the VPC as the API shows it: an internet load balancer has
// none.
func (lb *LoadBalancer) vpcID() string {
	if lb.AddressType == "intranet" {
		return lb.VPC
	}
	return ""
}

func deleteLoadBalancer(q *request) (any, *failure) {
	lb, bad := q.loadBalancer()
	switch {
	case bad != nil:
		return nil, bad
	case lb.DeleteProtection:
		return nil, documented("OperationDenied.DeleteProtectionIsOn")
	case lb.PayType == "PrePay":
		return nil, documented("InvalidChargeType")
	}
	if bad := q.eipRole(lb); bad != nil {
		return nil, bad
	}
	q.state.dropLoadBalancer(lb.ID)
	return reply{}, nil
}

// loadBalancerFilters are the filters of a list that are for one field, or for
// one of several values of it.
var loadBalancerFilters = []struct {
	param   string
	several bool
	of      func(*LoadBalancer) string
}{
	{"LoadBalancerId", true, func(lb *LoadBalancer) string { return lb.ID }},
	{"Address", false, func(lb *LoadBalancer) string { return lb.Address }},
	{"AddressType", false, func(lb *LoadBalancer) string { return lb.AddressType }},
	{"VpcId", false, (*LoadBalancer).vpcID},
	{"VSwitchId", false, func(lb *LoadBalancer) string { return lb.VSwitch }},
	{"NetworkType", false, (*LoadBalancer).networkType},
	{"AddressIPVersion", false, func(lb *LoadBalancer) string { return lb.IPVersion }},
	{"LoadBalancerStatus", false, func(lb *LoadBalancer) string { return lb.Status }},
	{"PayType", false, func(lb *LoadBalancer) string { return lb.PayType }},
	{"InstanceChargeType", false, func(lb *LoadBalancer) string { return lb.ChargeType }},
	{"ResourceGroupId", false, func(lb *LoadBalancer) string { return lb.ResourceGroup }},
	{"MasterZoneId", false, func(lb *LoadBalancer) string { return lb.MasterZone }},
}

// wanted returns what the parameters of a list ask of a load balancer, besides
// its tags. Most lists name few filters, and there may be many load
// balancers.
func wanted(p params) func(*LoadBalancer) bool {
	var asked []func(*LoadBalancer) bool
	for _, f := range loadBalancerFilters {
		if want := p[f.param]; want != "" && f.several {
			asked = append(asked, func(lb *LoadBalancer) bool { return oneOf(want, f.of(lb)) })
		} else if want != "" {
			asked = append(asked, func(lb *LoadBalancer) bool { return f.of(lb) == want })
		}
	}
	if name := p["LoadBalancerName"]; name != "" && p["Fuzzy"] == "true" {
		asked = append(asked, func(lb *LoadBalancer) bool { return strings.Contains(lb.Name, name) })
	} else if name != "" {
		asked = append(asked, func(lb *LoadBalancer) bool { return oneOf(name, lb.Name) })
	}
	if server := p["ServerId"]; server != "" {
		asked = append(asked, func(lb *LoadBalancer) bool { return lb.serves(server) })
	}
	return func(lb *LoadBalancer) bool {
		for _, f := range asked {
			if !f(lb) {
				return false
			}
		}
		return true
	}
}

func describeLoadBalancers(q *request) (any, *failure) {
	p := q.params
	tags, bad := p.tags()
	if bad != nil {
		return nil, bad
	}
	fits := wanted(p)
	list := picked(q.state.LoadBalancers, func(lb *LoadBalancer) bool {
		return fits(lb) && carries(q.state.seenTags(lb.ID, lb.Tags), tags) && (!q.state.RAM.FilterLists || q.verdict("loadbalancer/"+lb.ID) == "")
	})
	part, n, size, bad := page(p, list, 10, 100)
	if bad != nil {
		return nil, bad
	}
	shown := make([]reply, 0, len(part))
	for _, lb := range part {
		shown = append(shown, lb.brief(q.state))
	}
	return reply{
		"PageNumber": n, "PageSize": size, "TotalCount": len(list), "LoadBalancers": reply{"LoadBalancer": shown},
	}, nil
}

// carries reports whether a resource with these tags has all that are wanted;
// an empty value stands for any.
func carries(tags, want map[string]string) bool {
	for k, v := range want {
		if have, ok := tags[k]; !ok || v != "" && have != v {
			return false
		}
	}
	return true
}

func (lb *LoadBalancer) serves(server string) bool {
	return slices.ContainsFunc(lb.VGroups, func(g VGroup) bool {
		return slices.ContainsFunc(g.Backends, func(b Backend) bool { return b.Server == server })
	})
}

// brief is what a list shows of a load balancer.
func (lb *LoadBalancer) brief(s *State) reply {
	return reply{
		"LoadBalancerId": lb.ID, "LoadBalancerName": lb.Name, "Address": lb.Address, "AddressType": lb.AddressType,
		"AddressIPVersion": lb.IPVersion, "VpcId": lb.vpcID(), "VSwitchId": lb.VSwitch, "NetworkType": lb.networkType(),
		"LoadBalancerStatus": lb.Status, "LoadBalancerSpec": lb.Spec, "PayType": lb.PayType, "InstanceChargeType": lb.ChargeType,
		"InternetChargeType": lb.InternetChargeType, "InternetChargeTypeAlias": lb.InternetChargeType, "Bandwidth": lb.Bandwidth,
		"MasterZoneId": lb.MasterZone, "SlaveZoneId": lb.SlaveZone, "ResourceGroupId": lb.ResourceGroup,
		"DeleteProtection": onOff(lb.DeleteProtection), "ModificationProtectionStatus": lb.ModificationProtection.Status,
		"ModificationProtectionReason": lb.ModificationProtection.Reason, "BusinessStatus": "Normal", "ServiceManagedMode": "Unmanaged",
		"RegionId": s.Region, "RegionIdAlias": s.Region, "CreateTime": lb.Created.Format("2006-01-02T15:04Z"),
		"CreateTimeStamp": lb.Created.UnixMilli(), "Tags": reply{"Tag": pairs(s.seenTags(lb.ID, lb.Tags))},
	}
}

func describeLoadBalancerAttribute(q *request) (any, *failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	out := lb.brief(q.state)
	ports := make([]int, 0, len(lb.Listeners))
	both := make([]reply, 0, len(lb.Listeners))
	for _, l := range lb.Listeners {
		ports = append(ports, l.Port)
		both = append(both, reply{
			"ListenerPort": l.Port, "ListenerProtocol": l.Protocol, "Description": l.Description, "ListenerForward": "off",
		})
	}
	out["ListenerPorts"] = reply{"ListenerPort": ports}
	out["ListenerPortsAndProtocol"] = reply{"ListenerPortAndProtocol": both}
	out["ListenerPortsAndProtocal"] = reply{"ListenerPortAndProtocal": both}
	out["BackendServers"] = reply{"BackendServer": []reply{}} // of the default group, which nobody here uses
	out["RenewalStatus"] = "Normal"
	out["EndTime"], out["EndTimeStamp"] = "2999-09-08T16:00:00Z", 32493801600000 // what pay-as-you-go instances show
	return out, nil
}

// change runs a change of the load balancer that the request names.
func change(q *request, do func(*LoadBalancer) *failure) (any, *failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	if bad := do(lb); bad != nil {
		return nil, bad
	}
	return reply{}, nil
}

func setLoadBalancerName(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		if len(q.params["LoadBalancerName"]) > 80 {
			return invalid("LoadBalancerName")
		}
		lb.Name = q.params["LoadBalancerName"]
		return nil
	})
}

func setLoadBalancerStatus(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		if !oneOf("active,inactive", q.params["LoadBalancerStatus"]) {
			return invalid("LoadBalancerStatus")
		}
		lb.Status = q.params["LoadBalancerStatus"]
		return nil
	})
}

func setDeleteProtection(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		if !oneOf("on,off", q.params["DeleteProtection"]) {
			return invalid("DeleteProtection")
		}
		lb.DeleteProtection = q.params["DeleteProtection"] == "on"
		return nil
	})
}

func setModificationProtection(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		status := q.params["ModificationProtectionStatus"]
		if !oneOf("ConsoleProtection,NonProtection", status) {
			return fail(http.StatusBadRequest, "InvalidParam.ModificationProtectionStatus", "The param ModificationProtectionStatus is invalid.")
		}
		lb.ModificationProtection = Protection{Status: status}
		if status == "ConsoleProtection" {
			lb.ModificationProtection.Reason = q.params["ModificationProtectionReason"]
		}
		return nil
	})
}

func modifySpec(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		if lb.ChargeType == "PayByCLCU" {
			return documented("OperationDenied.PayByCLCU")
		}
		if bad := q.payable(); bad != nil {
			return bad
		}
		lb.Spec = q.params["LoadBalancerSpec"]
		return nil
	})
}

func modifyChargeType(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		to := q.params["InstanceChargeType"]
		switch {
		case !oneOf("PayByCLCU,PayBySpec", to):
			return fail(http.StatusBadRequest, "IllegalParam.InstanceChargeType", "The parameter InstanceChargeType is illegal.")
		case to == "PayBySpec" && lb.ChargeType == "PayByCLCU":
			return documented("Forbidden.LcuToSpec")
		case lb.PayType == "PrePay":
			return documented("InvalidChargeType")
		}
		if bad := q.payable(); bad != nil {
			return bad
		}
		lb.ChargeType, lb.Spec = to, q.params["LoadBalancerSpec"]
		if to == "PayByCLCU" {
			lb.Spec = ""
		}
		return nil
	})
}

func modifyInternetSpec(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		n, bad := q.params.number("Bandwidth", -1, 5120, lb.Bandwidth)
		if bad != nil {
			return bad
		}
		if !oneOf("paybytraffic,paybybandwidth", cmp.Or(q.params["InternetChargeType"], "paybytraffic")) {
			return invalid("InternetChargeType")
		}
		lb.Bandwidth, lb.InternetChargeType = n, cmp.Or(q.params["InternetChargeType"], lb.InternetChargeType)
		return nil
	})
}

// modifyPayType turns an internet load balancer that is paid for by use into a
// subscription, once somebody has paid the order.
func modifyPayType(q *request) (any, *failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	if q.params["PayType"] != "PrePay" || lb.AddressType != "internet" {
		return nil, invalid("PayType")
	}
	if _, bad := q.params.number("Duration", 1, 9, 1); bad != nil {
		return nil, bad
	}
	if bad := q.payable(); bad != nil {
		return nil, bad
	}
	if q.params["AutoPay"] == "true" {
		lb.PayType = "PrePay"
	}
	q.state.serial["order"]++
	return reply{"OrderId": 201429619780000 + q.state.serial["order"]}, nil
}

func describeServerCertificates(q *request) (any, *failure) {
	want, bad := q.params.tags()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, c := range sorted(q.state.Certificates) {
		if !is(q.params["ServerCertificateId"], c.ID) || !carries(c.Tags, want) {
			continue
		}
		names := slices.Concat([]string{}, c.Names)
		e := reply{
			"ServerCertificateId": c.ID, "ServerCertificateName": c.Name, "CommonName": c.Domain, "RegionId": q.state.Region, "RegionIdAlias": q.state.Region,
			"Fingerprint": derive(c.ID, 40), "IsAliCloudCertificate": 0, "SubjectAlternativeNames": reply{"SubjectAlternativeName": names},
			"CreateTime": q.state.started.Format(time.RFC3339), "CreateTimeStamp": q.state.started.UnixMilli(), "Tags": reply{"Tag": pairs(c.Tags)},
		}
		if !c.Expires.IsZero() {
			e["ExpireTime"], e["ExpireTimeStamp"] = c.Expires.UTC().Format(time.RFC3339), c.Expires.UnixMilli()
		}
		list = append(list, e)
	}
	return reply{"ServerCertificates": reply{"ServerCertificate": list}}, nil
}

// numeric reports whether a parameter of a listener is a number in answers.
func numeric(name string) bool {
	for _, end := range []string{"Timeout", "Threshold", "Interval", "Port", "MaxConnection"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// typed returns a parameter's value as an answer shows it.
func typed(name, v string) any {
	if n, err := strconv.Atoi(v); err == nil && numeric(name) {
		return n
	}
	return v
}
