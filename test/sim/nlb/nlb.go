// Package nlb simulates the network load balancer (NLB).
package nlb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
	"github.com/lbremedy/lbremedy/test/sim/slb"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

// An NLB is a network load balancer.
type NLB struct {
	ID                     string            `json:"id,omitempty"`
	Name                   string            `json:"name,omitempty"`
	DNSName                string            `json:"dnsName,omitempty"`
	AddressType            string            `json:"addressType,omitempty"` // Internet if empty, or Intranet
	IPVersion              string            `json:"ipVersion,omitempty"`   // ipv4 if empty, or DualStack
	IPv6AddressType        string            `json:"ipv6AddressType,omitempty"`
	VPC                    string            `json:"vpc,omitempty"`    // the cluster's if empty
	Zones                  []NLBZone         `json:"zones,omitempty"`  // zones with addresses
	Status                 string            `json:"status,omitempty"` // Active if empty
	Tags                   map[string]string `json:"tags,omitempty"`
	ResourceGroup          string            `json:"resourceGroup,omitempty"`
	SecurityGroups         []string          `json:"securityGroups,omitempty"`
	BandwidthPackage       string            `json:"bandwidthPackage,omitempty"`
	CPS                    int               `json:"cps,omitempty"` // new connections per second; 0: unlimited
	NoCrossZone            bool              `json:"noCrossZone,omitempty"`
	DeletionProtection     bool              `json:"deletionProtection,omitempty"`
	DeletionReason         string            `json:"deletionReason,omitempty"` // of the deletion protection
	ModificationProtection slb.Protection    `json:"modificationProtection,omitzero"`
	Listeners              []NLBListener     `json:"listeners,omitempty"`
	Created                time.Time         `json:"created,omitzero"`
}

// An NLBZone is an NLB's address in a zone, in one vSwitch.
type NLBZone struct {
	Zone    string `json:"zone,omitempty"` // default: the vSwitch's
	VSwitch string `json:"vswitch,omitempty"`
	Address string `json:"address,omitempty"` // private; default: the next free one
	EIP     string `json:"eip,omitempty"`     // ID; a new one if empty and the NLB is of type Internet
	Public  string `json:"public,omitempty"`  // address of the EIP
	IPv6    string `json:"ipv6,omitempty"`
}

// The names of quotas of NLB: https://www.alibabacloud.com/help/en/slb/network-load-balancer/product-overview/limits
const (
	quotaNLBs            = "nlb_quota_loadbalancers_num"
	quotaServers         = "nlb_quota_loadbalancer_noeci_servers_num"
	quotaNLBListeners    = "nlb_quota_loadbalancer_listeners_num"
	quotaNLBCertificates = "nlb_quota_loadbalancer_certificates_num"
	quotaServerGroups    = "nlb_quota_servergroups_num"
	// The limits page names no quota for the security groups of an NLB.
	quotaNLBSecurityGroups = "nlb_quota_loadbalancer_securitygroups_num"
)

// Quotas returns an account's default limits.
func Quotas() []quotas.Quota {
	return []quotas.Quota{
		{Product: "nlb", Name: quotaNLBs, Total: 60, Max: 500, Adjustable: true},
		{Product: "nlb", Name: quotaServers, Total: 400, Max: 1000, Adjustable: true},
		{Product: "nlb", Name: quotaNLBListeners, Total: 50, Max: 100, Adjustable: true},
	}
}

// Used returns how many resources count against a quota, if they are counted.
func (s *State) Used(quota string) (int, bool) { return len(s.NLBs), quota == quotaNLBs }

// Product is the network load balancer. A load balancer or listener with a job in progress accepts no changes; [Lag] determines a job's
// duration (https://www.alibabacloud.com/help/en/slb/network-load-balancer/developer-reference/api-nlb-2022-04-30-overview).
func Product() *core.Product {
	one := []string{"LoadBalancerId"}
	p := &core.Product{
		Name: "nlb", Version: "2022-04-30", Host: "nlb.aliyuncs.com", Regional: true, Words: nlbWords,
		Refusal: core.Failure{Status: http.StatusForbidden, Code: "Forbidden.NoPermission", Message: "Authentication is failed for NoPermission."},
		Actions: map[string]*core.Action{
			"ListLoadBalancers":                            {Do: on(listNLBs), Filtered: true},
			"GetLoadBalancerAttribute":                     {Do: on(getNLB), Need: one},
			"CreateLoadBalancer":                           {Do: core.Once(on(createNLB)), Need: []string{"AddressType", "VpcId", "ZoneMappings"}},
			"DeleteLoadBalancer":                           {Do: core.Once(on(deleteNLB)), Need: one},
			"UpdateLoadBalancerAttribute":                  {Do: core.Once(on(updateNLB)), Need: one},
			"UpdateLoadBalancerZones":                      {Do: core.Once(on(updateZones)), Need: append(one, "ZoneMappings")},
			"UpdateLoadBalancerAddressTypeConfig":          {Do: core.Once(on(updateAddressType)), Need: append(one, "AddressType")},
			"UpdateLoadBalancerProtection":                 {Do: core.Once(on(updateProtection)), Need: one},
			"EnableLoadBalancerIpv6Internet":               {Do: core.Once(on(setIPv6Internet("Internet"))), Need: one},
			"DisableLoadBalancerIpv6Internet":              {Do: core.Once(on(setIPv6Internet("Intranet"))), Need: one},
			"LoadBalancerJoinSecurityGroup":                {Do: core.Once(on(joinSecurityGroup)), Need: append(one, "SecurityGroupIds")},
			"LoadBalancerLeaveSecurityGroup":               {Do: core.Once(on(leaveSecurityGroup)), Need: append(one, "SecurityGroupIds")},
			"AttachCommonBandwidthPackageToLoadBalancer":   {Do: core.Once(on(attachBandwidth)), Need: append(one, "BandwidthPackageId")},
			"DetachCommonBandwidthPackageFromLoadBalancer": {Do: core.Once(on(detachBandwidth)), Need: append(one, "BandwidthPackageId")},
			"GetJobStatus":                                 {Do: on(getJobStatus), Need: []string{"JobId"}},
			"ListAsynJobs":                                 {Do: on(listAsynJobs), Need: []string{"JobIds"}},
		},
	}
	maps.Copy(p.Actions, nlbListenerActions())
	maps.Copy(p.Actions, serverGroupActions())
	maps.Copy(p.Actions, nlbTagActions())
	for _, a := range p.Actions {
		a.Resource = nlbResource
	}
	return p
}

func nlbResource(q *core.Request) string {
	for _, of := range [][2]string{{"ListenerId", "listener/"}, {"LoadBalancerId", "loadbalancer/"}, {"ServerGroupId", "servergroup/"}} {
		if id := q.Params[of[0]]; id != "" {
			return of[1] + id
		}
	}
	if ids := q.Params.List("ResourceId"); len(ids) == 1 && q.Params["ResourceType"] != "" {
		return q.Params["ResourceType"] + "/" + ids[0]
	}
	return "*"
}

func nlbWords(f *core.Failure) *core.Failure {
	if name, ok := strings.CutPrefix(f.Code, "MissingParameter."); ok {
		return core.Fail(http.StatusBadRequest, "MissingParam."+name, "The parameter of %s is missing.", name)
	}
	if name, ok := strings.CutPrefix(f.Code, "InvalidParameter."); ok {
		return illegalParam(name)
	}
	out := *f
	switch f.Code {
	case "Throttling.User":
		out.Message = "Request was denied due to api flow control."
	case "SystemBusy":
		out.Message = "System is busy, please try again later."
	}
	return &out
}

func illegalParam(name string) *core.Failure {
	return core.Fail(http.StatusBadRequest, "IllegalParam."+name, "The param of %s is illegal.", name)
}

// notFound returns the error for a missing resource. Codes and texts spell kinds differently.
func notFound(kind string) *core.Failure {
	code := map[string]string{"loadbalancer": "loadBalancer", "vSwitch": "VSwitch", "job": "Job"}[kind]
	return core.Fail(http.StatusNotFound, "ResourceNotFound."+cmp.Or(code, kind), "The specified resource of %s is not found.", kind)
}

func mismatch(what, a, b string) *core.Failure {
	return core.Fail(http.StatusBadRequest, "Mismatch."+what, "The %s is mismatched for %s and %s.", what, a, b)
}

func (q *request) exceeded(name string, standard, used, more int) *core.Failure {
	most := q.state.quotas.Limit(name, standard)
	if more <= 0 || used+more <= most {
		return nil
	}
	return core.Fail(http.StatusBadRequest, "QuotaExceeded.QuotaInsufficient", "The quota of %s is exceeded, usage %d/%d.", name, used, most)
}

func (n *NLB) fill(s *State) error {
	n.VPC, n.Status = cmp.Or(n.VPC, s.Home), cmp.Or(n.Status, "Active")
	n.DNSName = cmp.Or(n.DNSName, n.ID+"."+s.Region+".nlb.aliyuncs.com")
	n.AddressType, n.IPVersion = cmp.Or(n.AddressType, "Internet"), cmp.Or(n.IPVersion, "ipv4")
	n.IPv6AddressType = cmp.Or(n.IPv6AddressType, "Intranet")
	n.ResourceGroup = cmp.Or(n.ResourceGroup, s.ResourceGroup())
	n.ModificationProtection.Status = cmp.Or(n.ModificationProtection.Status, "NonProtection")
	if n.Tags == nil {
		n.Tags = map[string]string{}
	}
	var errs []error
	for i := range n.Zones {
		z := &n.Zones[i]
		v := s.vpc.VSwitches[z.VSwitch]
		if v == nil {
			errs = append(errs, fmt.Errorf("there is no vSwitch %s", z.VSwitch))
			continue
		}
		z.Zone = cmp.Or(z.Zone, v.Zone)
		if z.Address == "" && !z.place(s) {
			errs = append(errs, fmt.Errorf("no address left in %s", v.ID))
		}
		if n.AddressType == "Internet" && z.Public == "" {
			z.publish(s, n)
		}
		if n.IPVersion == "DualStack" && z.IPv6 == "" {
			z.IPv6, _ = s.vpc.IPv6("")
		}
	}
	for i := range n.Listeners {
		l := &n.Listeners[i]
		l.ID = cmp.Or(l.ID, fmt.Sprintf("lsn-%s@%d", n.ID, l.Port))
		l.fill()
		if l.ServerGroup != "" && s.ServerGroups[l.ServerGroup] == nil {
			errs = append(errs, fmt.Errorf("listener %d: there is no server group %s", l.Port, l.ServerGroup))
		}
	}
	return errors.Join(errs...)
}

func (z *NLBZone) place(s *State) bool {
	a, ok := s.vpc.Private(z.VSwitch)
	z.Address = a
	return ok
}

func (z *NLBZone) publish(s *State, n *NLB) {
	if e := s.vpc.EIPs[z.EIP]; e != nil {
		e.Instance, e.InstanceType, z.Public = n.ID, "Nlb", e.IP
		return
	}
	z.Public, _ = s.vpc.Public()
	z.EIP = cmp.Or(z.EIP, s.ID("eip-", func(id string) bool { return s.vpc.EIPs[id] != nil }))
	s.vpc.EIPs[z.EIP] = &vpc.EIP{ID: z.EIP, IP: z.Public, Instance: n.ID, InstanceType: "Nlb"}
}

// withdraw removes a zone's public address, and deletes an EIP that was created with the NLB.
func (z *NLBZone) withdraw(s *State) {
	if strings.HasPrefix(z.EIP, "eip-sim") {
		delete(s.vpc.EIPs, z.EIP)
		s.vpc.Release(z.Public, "")
	} else if e := s.vpc.EIPs[z.EIP]; e != nil {
		e.Instance, e.InstanceType = "", ""
	}
	z.EIP, z.Public = "", ""
}

func (z *NLBZone) vacate(s *State) {
	z.withdraw(s)
	s.vpc.Release(z.Address, z.VSwitch)
}

func (q *request) nlb() (*NLB, *core.Failure) {
	if n := q.state.NLBs[q.Params["LoadBalancerId"]]; n != nil {
		return n, nil
	}
	return nil, notFound("loadbalancer")
}

func (q *request) idle() (*NLB, *core.Failure) {
	n, bad := q.nlb()
	switch {
	case bad != nil:
		return nil, bad
	case n.Status == "Provisioning":
		return nil, core.Fail(http.StatusBadRequest, "ResourceInCreating.loadbalancer", "The specified resource of loadbalancer is creating, please try again later.")
	case n.Status == "CreateFailed" && q.Action.Name == "DeleteLoadBalancer": // it can only be deleted
	case n.Status != "Active":
		return nil, core.Fail(http.StatusBadRequest, "ResourceInConfiguring.loadbalancer",
			"The specified resource of loadbalancer is being configured, please try again later.")
	}
	return n, nil
}

// underway starts a job that changes an NLB, which is Configuring until the end.
func (q *request) underway(n *NLB, finish func(*State)) core.Reply {
	n.Status = "Configuring"
	id := n.ID
	active := func(s *State) {
		if n := s.NLBs[id]; n != nil {
			n.Status = "Active"
		}
	}
	return core.Reply{"JobId": q.job(func(s *State) {
		active(s)
		if finish != nil {
			finish(s)
		}
	}, active)}
}

func (q *request) affordable() *core.Failure {
	switch bad := q.state.billing.Payable(); {
	case bad == nil:
		return nil
	case bad.Code == "ORDER.ARREARAGE":
		return core.Fail(http.StatusBadRequest, "OperationFailed.UnpaidBill", "The operation failed because of UnpaidBill.")
	default:
		return core.Fail(http.StatusBadRequest, "OperationFailed.CreateOrderError", "Operation failed because CreateOrderError.")
	}
}

// addressType returns an address type as in answers. Requests may use lower case, as the controller does if a Service names no type.
func addressType(s string) string {
	for _, t := range []string{"Internet", "Intranet"} {
		if strings.EqualFold(s, t) {
			return t
		}
	}
	return s
}

func createNLB(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	n := &NLB{
		Name: p["LoadBalancerName"], AddressType: addressType(p["AddressType"]), IPVersion: p["AddressIpVersion"], VPC: p["VpcId"],
		ResourceGroup: p["ResourceGroupId"], BandwidthPackage: p["BandwidthPackageId"], SecurityGroups: p.List("SecurityGroupIds"),
		DeletionProtection: p["DeletionProtectionConfig.Enabled"] == "true", DeletionReason: p["DeletionProtectionConfig.Reason"],
		ModificationProtection: slb.Protection{Status: p["ModificationProtectionConfig.Status"], Reason: p["ModificationProtectionConfig.Reason"]},
		Status:                 "Provisioning", Created: q.Now.UTC().Truncate(time.Second),
	}
	switch {
	case !core.OneOf("Internet,Intranet", n.AddressType):
		return nil, illegalParam("AddressType")
	case !core.OneOf("ipv4,DualStack", cmp.Or(n.IPVersion, "ipv4")):
		return nil, illegalParam("AddressIpVersion")
	case n.Name != "" && (len(n.Name) < 2 || len(n.Name) > 128):
		return nil, core.Fail(http.StatusBadRequest, "IllegalParam.loadBalancerName", "Param loadBalancerName is illegal.")
	case s.vpc.VPCs[n.VPC] == nil:
		return nil, notFound("Vpc")
	}
	if s.ram.RAM.NoServiceRoles {
		return nil, core.Fail(http.StatusBadRequest, "OperationDenied.ServiceLinkedRoleNotExist",
			"The operation is not allowed because of ServiceLinkedRoleNotExist.")
	}
	if bad := q.affordable(); bad != nil {
		return nil, bad
	}
	if bad := q.exceeded(quotaNLBs, 60, len(s.NLBs), 1); bad != nil {
		return nil, bad
	}
	var bad *core.Failure
	if n.Tags, bad = p.Tags(); bad != nil {
		return nil, bad
	}
	if bad := core.CheckTags(n.Tags, nil); bad != nil {
		return nil, bad
	}
	if bad := q.known(n.SecurityGroups); bad != nil {
		return nil, bad
	}
	n.ID = s.ID("nlb-", func(id string) bool { return s.NLBs[id] != nil })
	if n.Zones, bad = q.zones(n, nil); bad != nil {
		return nil, bad
	}
	_ = n.fill(s) // its references were checked
	s.NLBs[n.ID] = n
	s.Tagging(n.ID, nil)
	id := n.ID
	ends := func(status string) func(*State) {
		return func(s *State) {
			if n := s.NLBs[id]; n != nil && n.Status == "Provisioning" {
				n.Status = status
			}
		}
	}
	job := q.job(ends("Active"), ends("CreateFailed"))
	s.Serial["order"]++
	return core.Reply{"LoadbalancerId": id, "OrderId": 20230000 + s.Serial["order"], "JobId": job}, nil
}

// zones assigns the addresses of ZoneMappings, all or none. It keeps existing zones of the NLB.
func (q *request) zones(n *NLB, have []NLBZone) ([]NLBZone, *core.Failure) {
	s := q.state
	want := q.Params.Structs("ZoneMappings")
	if len(want) > 10 {
		return nil, core.Fail(http.StatusBadRequest, "InvalidZones", "The current zone list is illegal.")
	}
	var list, fresh []NLBZone
	var moved []func() // changes of existing zones, to be made when everything has succeeded
	undo := func(bad *core.Failure) ([]NLBZone, *core.Failure) {
		for _, z := range fresh {
			z.vacate(s)
		}
		return nil, bad
	}
	for _, m := range want {
		z := NLBZone{Zone: m["ZoneId"], VSwitch: m["VSwitchId"], Address: m["PrivateIPv4Address"], EIP: m["AllocationId"], IPv6: m["Ipv6Address"]}
		v := s.vpc.VSwitches[z.VSwitch]
		e := s.vpc.EIPs[z.EIP]
		same := slices.IndexFunc(have, func(o NLBZone) bool { return o.Zone == z.Zone })
		switch {
		case z.Zone == "" || z.VSwitch == "":
			return undo(core.Missing("ZoneMappings"))
		case v == nil:
			return undo(notFound("vSwitch"))
		case v.VPC != n.VPC:
			return undo(mismatch("VpcId", v.ID, n.VPC))
		case v.Zone != z.Zone:
			return undo(mismatch("ZoneIdAndVswitchId", z.Zone, v.ID))
		case slices.ContainsFunc(list, func(o NLBZone) bool { return o.Zone == z.Zone }):
			return undo(core.Fail(http.StatusBadRequest, "OperationFailed.DuplicateZones.", "The operation failed because of Can not Specify duplicate zones."))
		case z.EIP != "" && slices.ContainsFunc(list, func(o NLBZone) bool { return o.EIP == z.EIP }):
			return undo(core.Fail(http.StatusBadRequest, "DuplicatedParam.AllocationId", "The param of AllocationId is duplicated."))
		case same >= 0 && have[same].VSwitch != z.VSwitch:
			return undo(core.Fail(http.StatusBadRequest, "OperationDenied.ZoneVSwitchChanged", "The operation is not allowed because of ZoneVSwitchChanged."))
		case z.EIP != "" && e == nil:
			return undo(notFound("AllocationId"))
		case e != nil && e.Instance != "" && (same < 0 || have[same].EIP != z.EIP):
			return undo(core.Fail(http.StatusBadRequest, "ResourceAlreadyAssociated.AllocationId", "The specified resource of %s is already associated.", z.EIP))
		case same >= 0:
			list = append(list, have[same])
			if stays := len(list) - 1; z.EIP != "" && z.EIP != have[same].EIP {
				moved = append(moved, func() {
					list[stays].withdraw(s)
					list[stays].EIP = z.EIP
					list[stays].publish(s, n)
				})
			}
			continue
		case n.IPVersion == "DualStack" && v.IPv6 == "":
			return undo(core.Fail(http.StatusBadRequest, "OperationFailed.vSwitchNotSupportIpv6", "The operation failed because of vSwitchNotSupportIpv6."))
		case *v.Free <= 0:
			return undo(noVSwitchIP())
		}
		if z.Address == "" {
			if !z.place(s) {
				return undo(noVSwitchIP())
			}
		} else if bad := s.occupy(z.Address, v); bad != nil {
			return undo(bad)
		}
		s.vpc.Spend(v, -1)
		if n.AddressType == "Internet" {
			z.publish(s, n)
		}
		list, fresh = append(list, z), append(fresh, z)
	}
	for _, f := range moved {
		f()
	}
	return list, nil
}

func noVSwitchIP() *core.Failure {
	return core.Fail(http.StatusBadRequest, "ResourceNotEnough.VSwitchIp", "The specified resource of VSwitchIp is not enough.")
}

func (s *State) occupy(address string, v *vpc.VSwitch) *core.Failure {
	a, err := netip.ParseAddr(address)
	block, bad := netip.ParsePrefix(v.CIDR)
	if err != nil || bad != nil || !block.Contains(a) {
		return illegalParam("PrivateIPv4Address")
	}
	if !s.vpc.Take(a, v.ID) {
		return core.Fail(http.StatusBadRequest, "ResourceInUse.IP", "The specified resource of IP is in use.")
	}
	return nil
}

func deleteNLB(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	if bad != nil {
		return nil, bad
	}
	if n.DeletionProtection {
		return nil, core.Fail(http.StatusBadRequest, "OperationDenied.DeletionProtectionEnabled",
			"The operation is not allowed because of DeletionProtectionEnabled.")
	}
	id := n.ID
	return q.underway(n, func(s *State) { s.Drop(id) }), nil
}

// Drop deletes an NLB and releases its addresses.
func (s *State) Drop(id string) {
	n := s.NLBs[id]
	if n == nil {
		return
	}
	delete(s.NLBs, id)
	for i := range n.Zones {
		n.Zones[i].vacate(s)
	}
}

func updateNLB(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	if bad != nil {
		return nil, bad
	}
	cps, bad := q.Params.Number("Cps", 0, 1_000_000, n.CPS)
	if bad != nil {
		return nil, bad
	}
	groups := q.Params.List("SecurityGroupIds")
	if bad := q.known(groups); bad != nil {
		return nil, bad
	}
	n.CPS, n.Name = cps, cmp.Or(q.Params["LoadBalancerName"], n.Name)
	if v := q.Params["CrossZoneEnabled"]; v != "" {
		n.NoCrossZone = v == "false"
	}
	if groups != nil {
		n.SecurityGroups = groups
	}
	return q.underway(n, nil), nil
}

func updateZones(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	if bad != nil {
		return nil, bad
	}
	list, bad := q.zones(n, n.Zones)
	if bad != nil {
		return nil, bad
	}
	for _, z := range n.Zones {
		if !slices.ContainsFunc(list, func(o NLBZone) bool { return o.Zone == z.Zone }) {
			z.vacate(q.state)
		}
	}
	n.Zones = list
	return q.underway(n, nil), nil
}

func updateAddressType(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	if bad != nil {
		return nil, bad
	}
	to := addressType(q.Params["AddressType"])
	if !core.OneOf("Internet,Intranet", to) {
		return nil, illegalParam("AddressType")
	}
	eips := map[string]string{}
	for _, m := range q.Params.Structs("ZoneMappings") {
		eips[m["ZoneId"]] = m["AllocationId"]
	}
	for i := range n.Zones {
		z := &n.Zones[i]
		switch {
		case to == "Intranet":
			z.withdraw(q.state)
		case z.Public == "":
			z.EIP = eips[z.Zone]
			z.publish(q.state, n)
		}
	}
	n.AddressType = to
	return q.underway(n, nil), nil
}

func updateProtection(q *request) (any, *core.Failure) {
	n, bad := q.nlb()
	if bad != nil {
		return nil, bad
	}
	p := q.Params
	if !core.OneOf("ConsoleProtection,NonProtection", cmp.Or(p["ModificationProtectionStatus"], "NonProtection")) {
		return nil, illegalParam("ModificationProtectionStatus")
	}
	if !core.OneOf("true,false", cmp.Or(p["DeletionProtectionEnabled"], "false")) {
		return nil, illegalParam("DeletionProtectionEnabled")
	}
	if v := p["DeletionProtectionEnabled"]; v != "" {
		n.DeletionProtection, n.DeletionReason = v == "true", ""
		if n.DeletionProtection {
			n.DeletionReason = p["DeletionProtectionReason"]
		}
	}
	if v := p["ModificationProtectionStatus"]; v != "" {
		n.ModificationProtection = slb.Protection{Status: v}
		if v == "ConsoleProtection" {
			n.ModificationProtection.Reason = p["ModificationProtectionReason"]
		}
	}
	return core.Reply{}, nil
}

func setIPv6Internet(to string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		n, bad := q.idle()
		if bad != nil {
			return nil, bad
		}
		if n.IPVersion != "DualStack" {
			return nil, core.Fail(http.StatusBadRequest, "OperationDenied.OnlyDualStackSupported", "The operation is not allowed because of OnlyDualStackSupported.")
		}
		n.IPv6AddressType = to
		return core.Reply{}, nil
	}
}

func (q *request) known(groups []string) *core.Failure {
	for _, id := range groups {
		if q.state.ecs.SecurityGroups[id] == nil {
			return notFound("SecurityGroup")
		}
	}
	return nil
}

func joinSecurityGroup(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	if bad != nil {
		return nil, bad
	}
	ids := q.Params.List("SecurityGroupIds")
	if bad := q.known(ids); bad != nil {
		return nil, bad
	}
	for _, id := range ids {
		if g := q.state.ecs.SecurityGroups[id]; g.VPC != n.VPC {
			return nil, mismatch("VpcId", id, n.ID)
		}
		if slices.Contains(n.SecurityGroups, id) {
			return nil, core.Fail(http.StatusBadRequest, "ResourceAlreadyAssociated.SecurityGroup", "The specified resource of %s is already associated.", id)
		}
	}
	if bad := q.exceeded(quotaNLBSecurityGroups, 4, len(n.SecurityGroups), len(ids)); bad != nil {
		return nil, bad
	}
	n.SecurityGroups = append(n.SecurityGroups, ids...)
	return q.underway(n, nil), nil
}

func leaveSecurityGroup(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	if bad != nil {
		return nil, bad
	}
	ids := q.Params.List("SecurityGroupIds")
	for _, id := range ids {
		if !slices.Contains(n.SecurityGroups, id) {
			return nil, core.Fail(http.StatusBadRequest, "ResourceNotAssociated.SecurityGroup", "The specified resource of %s is not associated.", id)
		}
	}
	n.SecurityGroups = slices.DeleteFunc(slices.Clone(n.SecurityGroups), func(id string) bool { return slices.Contains(ids, id) })
	return q.underway(n, nil), nil
}

func attachBandwidth(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	switch {
	case bad != nil:
		return nil, bad
	case n.BandwidthPackage != "":
		return nil, core.Fail(http.StatusBadRequest, "ResourceAlreadyAssociated.BandwidthPackageId",
			"The specified resource of %s is already associated.", n.BandwidthPackage)
	}
	n.BandwidthPackage = q.Params["BandwidthPackageId"]
	return q.underway(n, nil), nil
}

func detachBandwidth(q *request) (any, *core.Failure) {
	n, bad := q.idle()
	switch {
	case bad != nil:
		return nil, bad
	case n.BandwidthPackage != q.Params["BandwidthPackageId"]:
		return nil, core.Fail(http.StatusBadRequest, "ResourceNotAssociated.BandwidthPackageId",
			"The specified resource of %s is not associated.", q.Params["BandwidthPackageId"])
	}
	n.BandwidthPackage = ""
	return q.underway(n, nil), nil
}

func (n *NLB) show(s *State) core.Reply {
	zones := make([]core.Reply, 0, len(n.Zones))
	for _, z := range n.Zones {
		kind := ""
		if z.EIP != "" {
			kind = "Common"
		}
		zones = append(zones, core.Reply{
			"ZoneId": z.Zone, "VSwitchId": z.VSwitch, "Status": "Active", "EipType": kind, "LoadBalancerAddresses": []core.Reply{{
				"PrivateIPv4Address": z.Address, "PublicIPv4Address": z.Public, "AllocationId": z.EIP, "Ipv6Address": z.IPv6,
				"EniId": "eni-" + strings.ToLower(core.Derive(n.ID+z.Zone, 20)), "PrivateIPv4HcStatus": "Healthy", "PrivateIPv6HcStatus": "",
			}},
		})
	}
	created := n.Created.UTC().Format("2006-01-02T15:04Z")
	return core.Reply{
		"LoadBalancerId": n.ID, "LoadBalancerName": n.Name, "LoadBalancerType": "Network", "DNSName": n.DNSName, "RegionId": s.Region,
		"AddressType": n.AddressType, "AddressIpVersion": n.IPVersion, "Ipv6AddressType": n.IPv6AddressType, "VpcId": n.VPC,
		"LoadBalancerStatus": n.Status, "LoadBalancerBusinessStatus": "Normal", "ResourceGroupId": n.ResourceGroup, "CreateTime": created,
		"BandwidthPackageId": n.BandwidthPackage, "CrossZoneEnabled": !n.NoCrossZone, "Cps": n.CPS, "ZoneMappings": zones,
		"SecurityGroupIds": slices.Concat([]string{}, n.SecurityGroups), "LoadBalancerBillingConfig": core.Reply{"PayType": "PostPay"},
		"DeletionProtectionConfig":     core.Reply{"Enabled": n.DeletionProtection, "Reason": n.DeletionReason, "EnabledTime": created},
		"ModificationProtectionConfig": core.Reply{"Status": n.ModificationProtection.Status, "Reason": n.ModificationProtection.Reason, "EnabledTime": created},
		"OperationLocks":               []core.Reply{}, "Tags": tagPairs(s.SeenTags(n.ID, n.Tags)),
	}
}

func tagPairs(tags map[string]string) []core.Reply {
	list := make([]core.Reply, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, core.Reply{"Key": k, "Value": tags[k]})
	}
	return list
}

func getNLB(q *request) (any, *core.Failure) {
	n, bad := q.nlb()
	if bad != nil {
		return nil, bad
	}
	out := n.show(q.state)
	out["Tags"] = core.ShowTags(q.state.SeenTags(n.ID, n.Tags))
	return out, nil
}

// inList reports whether v passes a filter that is a list; an empty list passes everything.
func inList(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }

func listNLBs(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	tags, bad := p.Tags()
	if bad != nil {
		return nil, bad
	}
	ids, names, vpcs := p.List("LoadBalancerIds"), p.List("LoadBalancerNames"), p.List("VpcIds")
	shown := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(s.NLBs)) {
		n := s.NLBs[id]
		ok := inList(ids, id) && inList(names, n.Name) && inList(vpcs, n.VPC) && core.Is(p["AddressType"], n.AddressType) &&
			core.Is(p["LoadBalancerStatus"], n.Status) && core.Is(p["DNSName"], n.DNSName) && core.Is(p["ResourceGroupId"], n.ResourceGroup) &&
			core.Is(p["AddressIpVersion"], n.IPVersion) && core.Carries(s.SeenTags(id, n.Tags), tags) &&
			(p["ZoneId"] == "" || slices.ContainsFunc(n.Zones, func(z NLBZone) bool { return z.Zone == p["ZoneId"] }))
		if ok && (!s.ram.RAM.FilterLists || q.state.ram.Verdict(q.Request, "loadbalancer/"+id) == "") {
			shown = append(shown, n.show(s))
		}
	}
	return q.tokenPage(shown, "LoadBalancers")
}

func (q *request) tokenPage(list []core.Reply, name string) (any, *core.Failure) {
	part, next, bad := core.Chunk(q.Params, list, 20, 100)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"TotalCount": len(list), "MaxResults": len(part), "NextToken": next, name: part}, nil
}

func nlbTagActions() map[string]*core.Action {
	need := []string{"ResourceType", "ResourceId"}
	return map[string]*core.Action{
		"TagResources":     {Do: core.Once(on(tagNLB)), Need: append(need, "Tag")},
		"UntagResources":   {Do: core.Once(on(untagNLB)), Need: need},
		"ListTagResources": {Do: on(listNLBTags), Need: []string{"ResourceType"}},
	}
}

func (s *State) nlbTags(kind string) (map[string]map[string]string, *core.Failure) {
	m := map[string]map[string]string{}
	switch kind {
	case "loadbalancer":
		for id, n := range s.NLBs {
			m[id] = n.Tags
		}
	case "servergroup":
		for id, g := range s.ServerGroups {
			m[id] = g.Tags
		}
	case "listener":
		for _, n := range s.NLBs {
			for i := range n.Listeners {
				m[n.Listeners[i].ID] = n.Listeners[i].Tags
			}
		}
	default:
		return nil, illegalParam("ResourceType")
	}
	return m, nil
}

func (q *request) taggedNLB() (map[string]map[string]string, *core.Failure) {
	all, bad := q.state.nlbTags(q.Params["ResourceType"])
	if bad != nil {
		return nil, bad
	}
	ids := q.Params.List("ResourceId")
	if len(ids) > 50 {
		return nil, illegalParam("ResourceId")
	}
	if len(ids) == 0 {
		return all, nil
	}
	m := map[string]map[string]string{}
	for _, id := range ids {
		if all[id] == nil {
			return nil, notFound(q.Params["ResourceType"])
		}
		m[id] = all[id]
	}
	return m, nil
}

func tagNLB(q *request) (any, *core.Failure) {
	list, bad := q.taggedNLB()
	if bad != nil {
		return nil, bad
	}
	tags, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	for _, have := range list { // all or none
		if bad := core.CheckTags(tags, have); bad != nil {
			return nil, bad
		}
	}
	for id, have := range list {
		q.state.Tagging(id, have)
		maps.Copy(have, tags)
	}
	return core.Reply{"JobId": q.job(stays, stays)}, nil
}

// stays is the end of a job whose changes were made at once.
func stays(*State) {}

func untagNLB(q *request) (any, *core.Failure) {
	list, bad := q.taggedNLB()
	if bad != nil {
		return nil, bad
	}
	keys := q.Params.List("TagKey")
	if len(keys) == 0 && q.Params["All"] != "true" {
		return nil, core.Missing("TagKey")
	}
	for id, have := range list {
		q.state.Tagging(id, have)
		maps.DeleteFunc(have, func(k, _ string) bool { return len(keys) == 0 || slices.Contains(keys, k) })
	}
	return core.Reply{"JobId": q.job(stays, stays)}, nil
}

func listNLBTags(q *request) (any, *core.Failure) {
	list, bad := q.taggedNLB()
	if bad != nil {
		return nil, bad
	}
	want, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	if len(want) == 0 && !q.Params.Has("ResourceId") {
		return nil, core.Missing("ResourceId")
	}
	shown := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(list)) {
		tags := q.state.SeenTags(id, list[id])
		if !core.Carries(tags, want) {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			shown = append(shown, core.Reply{
				"ResourceId": id, "ResourceType": q.Params["ResourceType"], "TagKey": k, "TagValue": tags[k], "RegionNo": q.state.Region,
				"AliUid": q.state.Owner(), "Category": "Custom", "Scope": "public",
			})
		}
	}
	return q.tokenPage(shown, "TagResources")
}

// typedConfig returns further parameters as in answers, with numbers and booleans recognized by the suffix of their names.
func typedConfig(config map[string]string) core.Reply {
	out := core.Reply{}
	for k, v := range config {
		out[k] = v
		switch {
		case strings.HasSuffix(k, "Enabled"):
			out[k] = v == "true"
		case k == "StartPort" || k == "EndPort": // strings in answers
		default:
			if n, err := strconv.Atoi(v); err == nil {
				out[k] = n
			}
		}
	}
	return out
}
