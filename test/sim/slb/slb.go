// Package slb simulates the classic load balancer (CLB).
package slb

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
)

// The names of quotas: https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/quotas
const (
	quotaCLBs         = "slb_quota_instances_num"
	quotaListeners    = "slb_quota_listeners_num"
	quotaBackends     = "slb_quota_backendservers_num"
	quotaAttached     = "slb_quota_backendserver_attached_num"
	quotaRules        = "slb_quota_rules_num"
	quotaDomains      = "slb_quota_domain_extensions_num"
	quotaCertificates = "slb_quota_certs_num"
	quotaACLs         = "slb_quota_acls_num"
	quotaACLEntries   = "slb_quota_acl_entries_num"
)

// Quotas returns an account's default limits.
func Quotas() []quotas.Quota {
	return []quotas.Quota{
		{Name: quotaCLBs, Total: 60, Max: 500, Adjustable: true},
		{Name: quotaListeners, Total: 50, Max: 100, Adjustable: true},
		{Name: quotaBackends, Total: 200, Max: 400, Adjustable: true},
		{Name: quotaAttached, Total: 50, Max: 100, Adjustable: true},
		{Name: quotaRules, Total: 40},
		{Name: quotaDomains, Total: 3, Max: 10, Adjustable: true},
		{Name: quotaCertificates, Total: 100, Max: 500, Adjustable: true},
		{Name: quotaACLs, Total: 200, Max: 500, Adjustable: true},
		{Name: quotaACLEntries, Total: 300, Max: 1000, Adjustable: true},
	}
}

// Used returns how many resources count against a quota, if they are counted.
func (s *State) Used(quota string) (int, bool) {
	switch quota {
	case quotaCLBs:
		return len(s.LoadBalancers), true
	case quotaCertificates:
		return len(s.Certificates), true
	}
	return 0, false
}

// Product is the classic load balancer
// (https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-overview).
func Product() *core.Product {
	p := &core.Product{
		Name: "slb", Version: "2014-05-15", Host: "slb.aliyuncs.com", Regional: true,
		Refusal: core.Failure{
			Status: http.StatusForbidden, Code: "Forbidden.RAM",
			Message: "User not authorized to operate on the specified resource, or this API doesn't support RAM.",
		},
		Actions: map[string]*core.Action{
			"CreateLoadBalancer":                    {Do: on(createLoadBalancer)},
			"DeleteLoadBalancer":                    {Do: on(deleteLoadBalancer)},
			"DescribeLoadBalancers":                 {Do: on(describeLoadBalancers), Filtered: true},
			"DescribeLoadBalancerAttribute":         {Do: on(describeLoadBalancerAttribute)},
			"DescribeAvailableResource":             {Do: on(describeAvailableResource)},
			"DescribeZones":                         {Do: on(describeZones)},
			"DescribeRegions":                       {Do: on(describeRegions)},
			"SetLoadBalancerName":                   {Do: on(setLoadBalancerName), Need: []string{"LoadBalancerName"}},
			"SetLoadBalancerStatus":                 {Do: on(setLoadBalancerStatus), Need: []string{"LoadBalancerStatus"}},
			"SetLoadBalancerDeleteProtection":       {Do: on(setDeleteProtection), Need: []string{"DeleteProtection"}},
			"SetLoadBalancerModificationProtection": {Do: on(setModificationProtection), Need: []string{"ModificationProtectionStatus"}},
			"ModifyLoadBalancerInstanceSpec":        {Do: on(modifySpec), Need: []string{"LoadBalancerSpec"}},
			"ModifyLoadBalancerInstanceChargeType":  {Do: on(modifyChargeType), Need: []string{"InstanceChargeType"}},
			"ModifyLoadBalancerInternetSpec":        {Do: on(modifyInternetSpec)},
			"ModifyLoadBalancerPayType":             {Do: on(modifyPayType), Need: []string{"PayType"}},
			"DescribeServerCertificates":            {Do: on(describeServerCertificates)},
		},
	}
	// Actions about one load balancer require its ID.
	for _, name := range []string{
		"DeleteLoadBalancer", "DescribeLoadBalancerAttribute", "SetLoadBalancerName", "SetLoadBalancerStatus",
		"SetLoadBalancerDeleteProtection", "SetLoadBalancerModificationProtection", "ModifyLoadBalancerInstanceSpec",
		"ModifyLoadBalancerInstanceChargeType", "ModifyLoadBalancerInternetSpec", "ModifyLoadBalancerPayType",
	} {
		a := p.Actions[name]
		a.Need = append([]string{"LoadBalancerId"}, a.Need...)
	}
	maps.Copy(p.Actions, listenerActions())
	maps.Copy(p.Actions, ruleActions())
	maps.Copy(p.Actions, aclActions())
	maps.Copy(p.Actions, vgroupActions())
	maps.Copy(p.Actions, tagActions())
	for _, a := range p.Actions {
		a.Resource = loadBalancerResource
	}
	return p
}

// loadBalancerResource returns the RAM resource of a request's load balancer, named by its own ID or by that of a vServer group.
func loadBalancerResource(q *core.Request) string {
	id := q.Params["LoadBalancerId"]
	if g := q.Params["VServerGroupId"]; id == "" && g != "" {
		id = core.Part[*State](q.State).groups[g]
	}
	if ids := append(q.Params.List("ResourceId"), q.Params.List("LoadBalancerId")...); id == "" && len(ids) == 1 {
		id = ids[0]
	}
	if id == "" || strings.Contains(id, ",") {
		id = "*"
	}
	return "loadbalancer/" + id
}

func noLoadBalancer() *core.Failure {
	return core.Fail(http.StatusNotFound, "InvalidLoadBalancerId.NotFound", "The specified LoadBalancerId does not exist.")
}

func (q *request) loadBalancer() (*LoadBalancer, *core.Failure) {
	if lb := q.state.LoadBalancers[q.Params["LoadBalancerId"]]; lb != nil {
		return lb, nil
	}
	return nil, noLoadBalancer()
}

func createLoadBalancer(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	token := p["ClientToken"]
	if done, ok := q.Settled(token); ok {
		return maps.Clone(done.Answer), nil // each answer gets an ID of its own
	}
	lb := &LoadBalancer{
		Name: p["LoadBalancerName"], AddressType: cmp.Or(p["AddressType"], "internet"), IPVersion: p["AddressIPVersion"],
		VSwitch: p["VSwitchId"], VPC: p["VpcId"], Spec: p["LoadBalancerSpec"], ChargeType: p["InstanceChargeType"],
		InternetChargeType: p["InternetChargeType"], PayType: p["PayType"], ResourceGroup: p["ResourceGroupId"],
		MasterZone: p["MasterZoneId"], SlaveZone: p["SlaveZoneId"], DeleteProtection: p["DeleteProtection"] == "on",
		ModificationProtection: Protection{Status: p["ModificationProtectionStatus"], Reason: p["ModificationProtectionReason"]},
		Created:                q.Now.UTC().Truncate(time.Second),
	}
	if bad := q.orderable(lb); bad != nil {
		return nil, bad
	}
	var bad *core.Failure
	if lb.Bandwidth, bad = p.Number("Bandwidth", -1, 5120, 0); bad != nil {
		return nil, bad
	}
	if lb.Tags, bad = p.Tags(); bad != nil {
		return nil, bad
	}
	if bad := core.CheckTags(lb.Tags, nil); bad != nil {
		return nil, bad
	}
	if bad := q.place(lb); bad != nil {
		return nil, bad
	}
	lb.ID = s.ID("lb-", func(id string) bool { return s.LoadBalancers[id] != nil })
	lb.Name = cmp.Or(lb.Name, "auto_named_slb")
	lb.fill(s)
	s.LoadBalancers[lb.ID] = lb
	s.vpc.Stock(lb.MasterZone, -1)
	done := core.Reply{
		"LoadBalancerId": lb.ID, "LoadBalancerName": lb.Name, "Address": lb.Address, "AddressIPVersion": lb.IPVersion,
		"NetworkType": lb.networkType(), "VpcId": lb.vpcID(), "VSwitchId": lb.VSwitch, "ResourceGroupId": lb.ResourceGroup,
		"OrderId": 0,
	}
	s.Tagging(lb.ID, nil)
	q.Settle(token, core.Settled{Answer: maps.Clone(done), Made: lb.ID})
	return done, nil
}

// orderable rejects a load balancer that cannot be bought, and sets its charge type.
func (q *request) orderable(lb *LoadBalancer) *core.Failure {
	switch {
	case lb.AddressType != "internet" && lb.AddressType != "intranet":
		return core.Invalid("AddressType")
	case !core.OneOf("ipv4,ipv6", cmp.Or(lb.IPVersion, "ipv4")):
		return core.Invalid("AddressIPVersion")
	case !core.OneOf("PayByCLCU,PayBySpec", cmp.Or(lb.ChargeType, "PayBySpec")):
		return core.Fail(http.StatusBadRequest, "IllegalParam.InstanceChargeType", "The parameter InstanceChargeType is illegal.")
	}
	if bad := q.state.billing.Payable(); bad != nil {
		return bad
	}
	if lb.Spec == "" && lb.ChargeType != "PayByCLCU" && q.state.billing.Account.ShareInstanceHalt {
		return core.Documented("ShareSlbHaltSales")
	}
	if lb.ChargeType == "" {
		lb.ChargeType = "PayByCLCU"
		if lb.Spec != "" {
			lb.ChargeType = "PayBySpec"
		}
	}
	if len(q.state.LoadBalancers) >= q.state.quotas.Limit(quotaCLBs, 60) {
		return core.Documented("OverQuota")
	}
	return nil
}

func (q *request) place(lb *LoadBalancer) *core.Failure {
	full := core.Fail(http.StatusBadRequest, "VSwitchAvailableIpNotExist", "The specified VSwitch has no available ip.")
	if lb.AddressType == "internet" {
		lb.VSwitch, lb.VPC = "", ""
		if bad := q.settleZones(lb); bad != nil {
			return bad
		}
		a, ok := q.state.address(lb)
		if !ok {
			return core.Documented("OperationFailed.RegionResourceLimit")
		}
		lb.Address = a
		return nil
	}
	if lb.VSwitch == "" {
		return core.Fail(http.StatusBadRequest, "MissingParam.VSwitchId", "The parameter VSwitchId is required.")
	}
	v := q.state.vpc.VSwitches[lb.VSwitch]
	switch {
	case v == nil:
		return core.Documented("VSwitchNotExist")
	case lb.VPC != "" && q.state.vpc.VPCs[lb.VPC] == nil:
		return core.Fail(http.StatusBadRequest, "InvalidVpcId.NotExist", "The specified VPC not exist.")
	case lb.VPC != "" && lb.VPC != v.VPC:
		return core.Fail(http.StatusBadRequest, "VpcNotMatchVSwitch", "The specified VSwitch does not belong to the specified VPC.")
	case lb.IPVersion == "ipv6" && v.IPv6 == "":
		return core.Fail(http.StatusBadRequest, "OperationFailed.VSwitchNotSupportIpv6", "The specified VSwitch does not support IPv6.")
	case *v.Free <= 0:
		return full
	}
	lb.VPC, lb.MasterZone = v.VPC, cmp.Or(lb.MasterZone, v.Zone)
	if bad := q.settleZones(lb); bad != nil {
		return bad
	}
	if want := q.Params["Address"]; want != "" {
		a, err := netip.ParseAddr(want)
		block, bad := netip.ParsePrefix(v.CIDR)
		if err != nil || bad != nil || !block.Contains(a) {
			return core.Fail(http.StatusBadRequest, "InvalidParameter", "Illegal parameter. The IP address is not in subnet.")
		}
		if !q.state.vpc.Take(a, v.ID) {
			return core.Fail(http.StatusBadRequest, "InvalidParameter", "The vpc Ip is exist.")
		}
		lb.Address = want
	} else {
		a, ok := q.state.address(lb)
		if !ok {
			return full
		}
		lb.Address = a
	}
	q.state.vpc.Spend(v, -1)
	return nil
}

func (lb *LoadBalancer) networkType() string {
	if lb.AddressType == "intranet" {
		return "vpc"
	}
	return "classic"
}

// vpcID returns the VPC as in the API: "" for an internet load balancer.
func (lb *LoadBalancer) vpcID() string {
	if lb.AddressType == "intranet" {
		return lb.VPC
	}
	return ""
}

func deleteLoadBalancer(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	switch {
	case bad != nil:
		return nil, bad
	case lb.DeleteProtection:
		return nil, core.Documented("OperationDenied.DeleteProtectionIsOn")
	case lb.PayType == "PrePay":
		return nil, core.Documented("InvalidChargeType")
	}
	if bad := q.eipRole(lb); bad != nil {
		return nil, bad
	}
	q.state.Drop(lb.ID)
	return core.Reply{}, nil
}

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

// wanted returns a function for the list filters, except tags. It skips absent filters, because there may be many load balancers.
func wanted(p core.Params) func(*LoadBalancer) bool {
	var asked []func(*LoadBalancer) bool
	for _, f := range loadBalancerFilters {
		if want := p[f.param]; want != "" && f.several {
			asked = append(asked, func(lb *LoadBalancer) bool { return core.OneOf(want, f.of(lb)) })
		} else if want != "" {
			asked = append(asked, func(lb *LoadBalancer) bool { return f.of(lb) == want })
		}
	}
	if name := p["LoadBalancerName"]; name != "" && p["Fuzzy"] == "true" {
		asked = append(asked, func(lb *LoadBalancer) bool { return strings.Contains(lb.Name, name) })
	} else if name != "" {
		asked = append(asked, func(lb *LoadBalancer) bool { return core.OneOf(name, lb.Name) })
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

func describeLoadBalancers(q *request) (any, *core.Failure) {
	p := q.Params
	tags, bad := p.Tags()
	if bad != nil {
		return nil, bad
	}
	fits := wanted(p)
	list := core.Picked(q.state.LoadBalancers, func(lb *LoadBalancer) bool {
		return fits(lb) && core.Carries(q.state.SeenTags(lb.ID, lb.Tags), tags) &&
			(!q.state.ram.RAM.FilterLists || q.state.ram.Verdict(q.Request, "loadbalancer/"+lb.ID) == "")
	})
	part, n, size, bad := core.Page(p, list, 10, 100)
	if bad != nil {
		return nil, bad
	}
	shown := make([]core.Reply, 0, len(part))
	for _, lb := range part {
		shown = append(shown, lb.brief(q.state))
	}
	return core.Reply{
		"PageNumber": n, "PageSize": size, "TotalCount": len(list), "LoadBalancers": core.Reply{"LoadBalancer": shown},
	}, nil
}

func (lb *LoadBalancer) serves(server string) bool {
	return slices.ContainsFunc(lb.VGroups, func(g VGroup) bool {
		return slices.ContainsFunc(g.Backends, func(b Backend) bool { return b.Server == server })
	})
}

func (lb *LoadBalancer) brief(s *State) core.Reply {
	return core.Reply{
		"LoadBalancerId": lb.ID, "LoadBalancerName": lb.Name, "Address": lb.Address, "AddressType": lb.AddressType,
		"AddressIPVersion": lb.IPVersion, "VpcId": lb.vpcID(), "VSwitchId": lb.VSwitch, "NetworkType": lb.networkType(),
		"LoadBalancerStatus": lb.Status, "LoadBalancerSpec": lb.Spec, "PayType": lb.PayType, "InstanceChargeType": lb.ChargeType,
		"InternetChargeType": lb.InternetChargeType, "InternetChargeTypeAlias": lb.InternetChargeType, "Bandwidth": lb.Bandwidth,
		"MasterZoneId": lb.MasterZone, "SlaveZoneId": lb.SlaveZone, "ResourceGroupId": lb.ResourceGroup,
		"DeleteProtection": core.OnOff(lb.DeleteProtection), "ModificationProtectionStatus": lb.ModificationProtection.Status,
		"ModificationProtectionReason": lb.ModificationProtection.Reason, "BusinessStatus": "Normal", "ServiceManagedMode": "Unmanaged",
		"RegionId": s.Region, "RegionIdAlias": s.Region, "CreateTime": lb.Created.Format("2006-01-02T15:04Z"),
		"CreateTimeStamp": lb.Created.UnixMilli(), "Tags": core.Reply{"Tag": core.ShowTags(s.SeenTags(lb.ID, lb.Tags))},
	}
}

func describeLoadBalancerAttribute(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	out := lb.brief(q.state)
	ports := make([]int, 0, len(lb.Listeners))
	both := make([]core.Reply, 0, len(lb.Listeners))
	for _, l := range lb.Listeners {
		ports = append(ports, l.Port)
		both = append(both, core.Reply{
			"ListenerPort": l.Port, "ListenerProtocol": l.Protocol, "Description": l.Description, "ListenerForward": "off",
		})
	}
	out["ListenerPorts"] = core.Reply{"ListenerPort": ports}
	out["ListenerPortsAndProtocol"] = core.Reply{"ListenerPortAndProtocol": both}
	out["ListenerPortsAndProtocal"] = core.Reply{"ListenerPortAndProtocal": both}
	out["BackendServers"] = core.Reply{"BackendServer": []core.Reply{}} // the default group, which is not used here
	out["RenewalStatus"] = "Normal"
	out["EndTime"], out["EndTimeStamp"] = "2999-09-08T16:00:00Z", 32493801600000 // as for pay-as-you-go instances
	return out, nil
}

func change(q *request, do func(*LoadBalancer) *core.Failure) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	if bad := do(lb); bad != nil {
		return nil, bad
	}
	return core.Reply{}, nil
}

func setLoadBalancerName(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		if len(q.Params["LoadBalancerName"]) > 80 {
			return core.Invalid("LoadBalancerName")
		}
		lb.Name = q.Params["LoadBalancerName"]
		return nil
	})
}

func setLoadBalancerStatus(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		if !core.OneOf("active,inactive", q.Params["LoadBalancerStatus"]) {
			return core.Invalid("LoadBalancerStatus")
		}
		lb.Status = q.Params["LoadBalancerStatus"]
		return nil
	})
}

func setDeleteProtection(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		if !core.OneOf("on,off", q.Params["DeleteProtection"]) {
			return core.Invalid("DeleteProtection")
		}
		lb.DeleteProtection = q.Params["DeleteProtection"] == "on"
		return nil
	})
}

func setModificationProtection(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		status := q.Params["ModificationProtectionStatus"]
		if !core.OneOf("ConsoleProtection,NonProtection", status) {
			return core.Fail(http.StatusBadRequest, "InvalidParam.ModificationProtectionStatus", "The param ModificationProtectionStatus is invalid.")
		}
		lb.ModificationProtection = Protection{Status: status}
		if status == "ConsoleProtection" {
			lb.ModificationProtection.Reason = q.Params["ModificationProtectionReason"]
		}
		return nil
	})
}

func modifySpec(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		if lb.ChargeType == "PayByCLCU" {
			return core.Documented("OperationDenied.PayByCLCU")
		}
		if bad := q.state.billing.Payable(); bad != nil {
			return bad
		}
		lb.Spec = q.Params["LoadBalancerSpec"]
		return nil
	})
}

func modifyChargeType(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		to := q.Params["InstanceChargeType"]
		switch {
		case !core.OneOf("PayByCLCU,PayBySpec", to):
			return core.Fail(http.StatusBadRequest, "IllegalParam.InstanceChargeType", "The parameter InstanceChargeType is illegal.")
		case to == "PayBySpec" && lb.ChargeType == "PayByCLCU":
			return core.Documented("Forbidden.LcuToSpec")
		case lb.PayType == "PrePay":
			return core.Documented("InvalidChargeType")
		}
		if bad := q.state.billing.Payable(); bad != nil {
			return bad
		}
		lb.ChargeType, lb.Spec = to, q.Params["LoadBalancerSpec"]
		if to == "PayByCLCU" {
			lb.Spec = ""
		}
		return nil
	})
}

func modifyInternetSpec(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		n, bad := q.Params.Number("Bandwidth", -1, 5120, lb.Bandwidth)
		if bad != nil {
			return bad
		}
		if !core.OneOf("paybytraffic,paybybandwidth", cmp.Or(q.Params["InternetChargeType"], "paybytraffic")) {
			return core.Invalid("InternetChargeType")
		}
		lb.Bandwidth, lb.InternetChargeType = n, cmp.Or(q.Params["InternetChargeType"], lb.InternetChargeType)
		return nil
	})
}

// modifyPayType turns an internet load balancer that is billed by use into a subscription, once the order is paid.
func modifyPayType(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	if q.Params["PayType"] != "PrePay" || lb.AddressType != "internet" {
		return nil, core.Invalid("PayType")
	}
	if _, bad := q.Params.Number("Duration", 1, 9, 1); bad != nil {
		return nil, bad
	}
	if bad := q.state.billing.Payable(); bad != nil {
		return nil, bad
	}
	if q.Params["AutoPay"] == "true" {
		lb.PayType = "PrePay"
	}
	q.state.Serial["order"]++
	return core.Reply{"OrderId": 201429619780000 + q.state.Serial["order"]}, nil
}

func describeServerCertificates(q *request) (any, *core.Failure) {
	want, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, c := range core.Sorted(q.state.Certificates) {
		if !core.Is(q.Params["ServerCertificateId"], c.ID) || !core.Carries(c.Tags, want) {
			continue
		}
		names := slices.Concat([]string{}, c.Names)
		e := core.Reply{
			"ServerCertificateId": c.ID, "ServerCertificateName": c.Name, "CommonName": c.Domain, "RegionId": q.state.Region, "RegionIdAlias": q.state.Region,
			"Fingerprint": core.Derive(c.ID, 40), "IsAliCloudCertificate": 0, "SubjectAlternativeNames": core.Reply{"SubjectAlternativeName": names},
			"CreateTime": q.state.Started.Format(time.RFC3339), "CreateTimeStamp": q.state.Started.UnixMilli(), "Tags": core.Reply{"Tag": core.ShowTags(c.Tags)},
		}
		if !c.Expires.IsZero() {
			e["ExpireTime"], e["ExpireTimeStamp"] = c.Expires.UTC().Format(time.RFC3339), c.Expires.UnixMilli()
		}
		list = append(list, e)
	}
	return core.Reply{"ServerCertificates": core.Reply{"ServerCertificate": list}}, nil
}

func numeric(name string) bool {
	for _, end := range []string{"Timeout", "Threshold", "Interval", "Port", "MaxConnection"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func typed(name, v string) any {
	if n, err := strconv.Atoi(v); err == nil && numeric(name) {
		return n
	}
	return v
}
