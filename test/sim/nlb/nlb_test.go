package nlb_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

var zones = &[]nlb.CreateLoadBalancerZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-h"}, {ZoneId: "cn-hangzhou-i", VSwitchId: "vsw-i"}}

type tour struct {
	*nlb.Client
	t     *testing.T
	cloud *sim.Cloud
	now   time.Time
}

func newTour(t *testing.T, w *sim.World) *tour {
	tr := &tour{t: t, now: time.Now()}
	tr.cloud = sim.New(t, w, sim.WithClock(func() time.Time { return tr.now }))
	tr.Client = simtest.Dial(t, tr.cloud, tr.cloud.Admin(), nlb.NewClientWithOptions)
	return tr
}

func (tr *tour) pass(d time.Duration) {
	tr.cloud.Edit(func(*sim.State) { tr.now = tr.now.Add(d) })
}

func (tr *tour) create(edit func(*nlb.CreateLoadBalancerRequest)) (*nlb.CreateLoadBalancerResponse, error) {
	r := nlb.CreateCreateLoadBalancerRequest()
	r.AddressType, r.VpcId, r.ZoneMappings, r.LoadBalancerName = "Internet", "vpc-1", zones, "web"
	if edit != nil {
		edit(r)
	}
	return tr.CreateLoadBalancer(r)
}

func (tr *tour) made(edit func(*nlb.CreateLoadBalancerRequest)) string {
	tr.t.Helper()
	resp, err := tr.create(edit)
	simtest.Check(tr.t, err)
	return resp.LoadbalancerId
}

func (tr *tour) get(id string) *nlb.GetLoadBalancerAttributeResponse {
	tr.t.Helper()
	r := nlb.CreateGetLoadBalancerAttributeRequest()
	r.LoadBalancerId = id
	resp, err := tr.GetLoadBalancerAttribute(r)
	simtest.Check(tr.t, err)
	return resp
}

func (tr *tour) group(edit func(*nlb.CreateServerGroupRequest)) string {
	tr.t.Helper()
	r := nlb.CreateCreateServerGroupRequest()
	r.ServerGroupName, r.VpcId, r.Protocol = "group", "vpc-1", "TCP"
	if edit != nil {
		edit(r)
	}
	resp, err := tr.CreateServerGroup(r)
	simtest.Check(tr.t, err)
	return resp.ServerGroupId
}

func (tr *tour) listen(of, group string, port int, edit func(*nlb.CreateListenerRequest)) (*nlb.CreateListenerResponse, error) {
	r := nlb.CreateCreateListenerRequest()
	r.LoadBalancerId, r.ServerGroupId, r.ListenerProtocol, r.ListenerPort = of, group, "TCP", requests.NewInteger(port)
	if edit != nil {
		edit(r)
	}
	return tr.CreateListener(r)
}

func (tr *tour) add(group string, list ...nlb.AddServersToServerGroupServers) error {
	r := nlb.CreateAddServersToServerGroupRequest()
	r.ServerGroupId, r.Servers = group, &list
	_, err := tr.AddServersToServerGroup(r)
	return err
}

func (tr *tour) remove(id string) error {
	r := nlb.CreateDeleteLoadBalancerRequest()
	r.LoadBalancerId = id
	_, err := tr.DeleteLoadBalancer(r)
	return err
}

func (tr *tour) free(vswitch string) int {
	for _, v := range tr.cloud.Snapshot().VSwitches {
		if v.ID == vswitch {
			return *v.Free
		}
	}
	return -1
}

func TestNLBLife(t *testing.T) {
	w := simtest.NLBWorld()
	w.Lag.Jobs = sim.Duration(30 * time.Second)
	tr := newTour(t, w)
	made, err := tr.create(func(r *nlb.CreateLoadBalancerRequest) {
		r.Tag = &[]nlb.CreateLoadBalancerTag{{Key: "kubernetes.do.not.delete", Value: "a1"}}
		r.DeletionProtectionConfig.Enabled = "true"
		r.ModificationProtectionConfig.Status, r.ModificationProtectionConfig.Reason = "ConsoleProtection", "managed.by.ack"
		r.SecurityGroupIds = &[]string{"sg-a"}
	})
	simtest.Check(t, err)
	id := made.LoadbalancerId
	status := func(job string) string {
		r := nlb.CreateGetJobStatusRequest()
		r.JobId = job
		resp, err := tr.GetJobStatus(r)
		simtest.Check(t, err)
		return resp.Status
	}
	if got := tr.get(id).LoadBalancerStatus; got != "Provisioning" || status(made.JobId) != "Processing" {
		t.Errorf("at once: %s, job %s", got, status(made.JobId))
	}
	group := tr.group(nil)
	_, err = tr.listen(id, group, 80, nil)
	simtest.Refused(t, err, "IncorrectStatus.loadbalancer", 400)
	simtest.Refused(t, tr.remove(id), "ResourceInCreating.loadbalancer", 400)
	simtest.Refused(t, tr.add(group, nlb.AddServersToServerGroupServers{ServerId: "i-a", ServerType: "Ecs", Port: "80"}), "IncorrectStatus.serverGroup", 400)
	tr.pass(31 * time.Second)
	got := tr.get(id)
	if got.LoadBalancerStatus != "Active" || status(made.JobId) != "Succeeded" {
		t.Errorf("later: %s, job %s", got.LoadBalancerStatus, status(made.JobId))
	}
	if len(got.ZoneMappings) != 2 || got.ZoneMappings[0].LoadBalancerAddresses[0].PrivateIPv4Address == "" ||
		got.ZoneMappings[0].LoadBalancerAddresses[0].PublicIPv4Address == "" || got.DNSName != id+".cn-hangzhou.nlb.aliyuncs.com" ||
		len(got.Tags) != 1 || got.Tags[0].TagKey != "kubernetes.do.not.delete" || got.Tags[0].TagValue != "a1" || !got.DeletionProtectionConfig.Enabled ||
		got.ModificationProtectionConfig.Reason != "managed.by.ack" || !slices.Equal(got.SecurityGroupIds, []string{"sg-a"}) {
		t.Errorf("got %+v", got)
	}
	if got := tr.free("vsw-h"); got != 4 {
		t.Errorf("%d addresses are free, want 4", got)
	}
	simtest.Refused(t, tr.remove(id), "OperationDenied.DeletionProtectionEnabled", 400)
	p := nlb.CreateUpdateLoadBalancerProtectionRequest()
	p.LoadBalancerId, p.DeletionProtectionEnabled, p.ModificationProtectionStatus = id, requests.NewBoolean(false), "NonProtection"
	_, err = tr.UpdateLoadBalancerProtection(p)
	simtest.Check(t, err)
	simtest.Check(t, tr.remove(id))
	if got := tr.get(id).LoadBalancerStatus; got != "Configuring" {
		t.Errorf("while it is deleted: %s", got)
	}
	simtest.Refused(t, tr.remove(id), "ResourceInConfiguring.loadbalancer", 400)
	tr.pass(time.Minute)
	e := simtest.Refused(t, tr.remove(id), "ResourceNotFound.loadBalancer", 404)
	if e.Message() != "The specified resource of loadbalancer is not found." {
		t.Errorf("got %q", e.Message())
	}
	if got := tr.free("vsw-h"); got != 5 || len(tr.cloud.Snapshot().EIPs) != 2 {
		t.Errorf("%d addresses are free and there are %d EIPs, want 5 and 2", got, len(tr.cloud.Snapshot().EIPs))
	}
}

func TestNLBCreateRefused(t *testing.T) {
	for _, tt := range []struct {
		name, code, text string
		status           int
		world            func(*sim.World)
		edit             func(*nlb.CreateLoadBalancerRequest)
	}{
		{name: "full", code: "ResourceNotEnough.VSwitchIp", status: 400, text: "The specified resource of VSwitchIp is not enough.",
			edit: zone("cn-hangzhou-j", "vsw-j")},
		{name: "no such vSwitch", code: "ResourceNotFound.VSwitch", status: 404, text: "The specified resource of vSwitch is not found.",
			edit: zone("cn-hangzhou-h", "vsw-x")},
		{name: "other zone", code: "Mismatch.ZoneIdAndVswitchId", status: 400, edit: zone("cn-hangzhou-h", "vsw-i")},
		{name: "other VPC", code: "Mismatch.VpcId", status: 400, text: "The VpcId is mismatched for vsw-other and vpc-1.", edit: zone("cn-hangzhou-h", "vsw-other")},
		{name: "no zone", code: "MissingParam.ZoneMappings", status: 400, edit: func(r *nlb.CreateLoadBalancerRequest) { r.ZoneMappings = nil }},
		{name: "zone without vSwitch", code: "MissingParam.ZoneMappings", status: 400, edit: zone("cn-hangzhou-h", "")},
		{name: "zone twice", code: "OperationFailed.DuplicateZones.", status: 400, edit: zone("cn-hangzhou-h", "vsw-h", "vsw-h")},
		{name: "too many zones", code: "InvalidZones", status: 400, edit: zone("cn-hangzhou-h", slices.Repeat([]string{"vsw-h"}, 11)...)},
		{name: "no IPv6", code: "OperationFailed.vSwitchNotSupportIpv6", status: 400,
			edit: func(r *nlb.CreateLoadBalancerRequest) { r.AddressIpVersion = "DualStack" }},
		{name: "no such EIP", code: "ResourceNotFound.AllocationId", status: 404, edit: eip("eip-x")},
		{name: "EIP in use", code: "ResourceAlreadyAssociated.AllocationId", status: 400, edit: eip("eip-b")},
		{name: "EIP twice", code: "DuplicatedParam.AllocationId", status: 400, edit: eip("eip-a", "eip-a")},
		{name: "address elsewhere", code: "IllegalParam.PrivateIPv4Address", status: 400, edit: address("192.168.0.1")},
		{name: "address in use", code: "ResourceInUse.IP", status: 400, edit: address("10.0.0.9"), world: func(w *sim.World) {
			w.LoadBalancers = []sim.LoadBalancer{{ID: "lb-1", VSwitch: "vsw-h", Address: "10.0.0.9"}}
		}},
		{name: "unpaid", code: "OperationFailed.UnpaidBill", status: 400, text: "The operation failed because of UnpaidBill.",
			world: func(w *sim.World) { w.Account.Arrearage = true }},
		{name: "no role", code: "OperationDenied.ServiceLinkedRoleNotExist", status: 400, world: func(w *sim.World) { w.RAM.NoServiceRoles = true }},
		{name: "poor", code: "OperationFailed.CreateOrderError", status: 400, text: "Operation failed because CreateOrderError.",
			world: func(w *sim.World) { w.Account.Balance = "1.00" }},
		{name: "quota", code: "QuotaExceeded.QuotaInsufficient", status: 400, text: "The quota of nlb_quota_loadbalancers_num is exceeded, usage 1/1.",
			world: func(w *sim.World) {
				w.NLBs, w.Quotas = []sim.NLB{{ID: "nlb-1"}}, []sim.Quota{{Product: "nlb", Name: "nlb_quota_loadbalancers_num", Total: 1}}
			}},
		{name: "no such VPC", code: "ResourceNotFound.Vpc", status: 404, edit: func(r *nlb.CreateLoadBalancerRequest) { r.VpcId = "vpc-x" }},
		{name: "no VPC", code: "MissingParam.VpcId", status: 400, text: "The parameter of VpcId is missing.",
			edit: func(r *nlb.CreateLoadBalancerRequest) { r.VpcId = "" }},
		{name: "address type", code: "IllegalParam.AddressType", status: 400, edit: func(r *nlb.CreateLoadBalancerRequest) { r.AddressType = "public" }},
		{name: "IP version", code: "IllegalParam.AddressIpVersion", status: 400, edit: func(r *nlb.CreateLoadBalancerRequest) { r.AddressIpVersion = "ipv6" }},
		{name: "short name", code: "IllegalParam.loadBalancerName", status: 400, edit: func(r *nlb.CreateLoadBalancerRequest) { r.LoadBalancerName = "w" }},
		{name: "bad tag", code: "IllegalParam.TagKey", status: 400, edit: func(r *nlb.CreateLoadBalancerRequest) {
			r.Tag = &[]nlb.CreateLoadBalancerTag{{Key: "acs:x", Value: "y"}}
		}},
		{name: "no such security group", code: "ResourceNotFound.SecurityGroup", status: 404,
			edit: func(r *nlb.CreateLoadBalancerRequest) { r.SecurityGroupIds = &[]string{"sg-x"} }},
		{name: "dry run", code: "DryRunOperation", status: 400, edit: func(r *nlb.CreateLoadBalancerRequest) { r.DryRun = requests.NewBoolean(true) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := simtest.NLBWorld()
			if tt.world != nil {
				tt.world(w)
			}
			tr := newTour(t, w)
			before := tr.cloud.Snapshot()
			_, err := tr.create(tt.edit)
			if e := simtest.Refused(t, err, tt.code, tt.status); tt.text != "" && e.Message() != tt.text {
				t.Errorf("got %q, want %q", e.Message(), tt.text)
			}
			if got, want := simtest.Text(t, tr.cloud.Snapshot()), simtest.Text(t, before); got != want {
				t.Errorf("something changed: %s\nwas %s", got, want)
			}
		})
	}
}

func zone(id string, vswitches ...string) func(*nlb.CreateLoadBalancerRequest) {
	return func(r *nlb.CreateLoadBalancerRequest) {
		list := []nlb.CreateLoadBalancerZoneMappings{}
		for _, v := range vswitches {
			list = append(list, nlb.CreateLoadBalancerZoneMappings{ZoneId: id, VSwitchId: v})
		}
		if len(vswitches) == 1 { // after a valid one, which must be undone
			list = append([]nlb.CreateLoadBalancerZoneMappings{{ZoneId: "cn-hangzhou-k", VSwitchId: "vsw-k"}}, list...)
		}
		r.ZoneMappings = &list
	}
}

func eip(ids ...string) func(*nlb.CreateLoadBalancerRequest) {
	return func(r *nlb.CreateLoadBalancerRequest) {
		list := slices.Clone(*zones)
		for i, id := range ids {
			list[i].AllocationId = id
		}
		r.ZoneMappings = &list
	}
}

func address(a string) func(*nlb.CreateLoadBalancerRequest) {
	return func(r *nlb.CreateLoadBalancerRequest) {
		list := slices.Clone(*zones)
		list[0].PrivateIPv4Address = a
		r.ZoneMappings = &list
	}
}

func TestNLBClientToken(t *testing.T) {
	tr := newTour(t, simtest.NLBWorld())
	token := func(r *nlb.CreateLoadBalancerRequest) { r.ClientToken = "token" }
	first := tr.made(token)
	if again := tr.made(token); again != first {
		t.Errorf("a second try made %s besides %s", again, first)
	}
	_, err := tr.create(func(r *nlb.CreateLoadBalancerRequest) { r.ClientToken, r.LoadBalancerName = "token", "other" })
	simtest.Refused(t, err, "IdempotenceSignatureMismatch", 400)
	if n := len(tr.cloud.Snapshot().NLBs); n != 1 {
		t.Errorf("there are %d NLBs, want 1", n)
	}
	simtest.Check(t, tr.remove(first))
	if again := tr.made(token); again != first {
		t.Errorf("a token that is remembered made %s", again)
	}
	tr.cloud.Edit(func(s *sim.State) { s.ForgetTokens = true })
	if again := tr.made(token); again == first {
		t.Error("a token that should be forgotten was remembered")
	}
}

func TestNLBChanges(t *testing.T) {
	tr := newTour(t, simtest.NLBWorld())
	id := tr.made(eip("eip-a"))
	if got := tr.get(id).ZoneMappings[0].LoadBalancerAddresses[0]; got.AllocationId != "eip-a" || got.PublicIPv4Address != "198.51.100.200" {
		t.Errorf("got %+v", got)
	}
	u := nlb.CreateUpdateLoadBalancerAttributeRequest()
	u.LoadBalancerId, u.LoadBalancerName, u.Cps, u.CrossZoneEnabled = id, "renamed", requests.NewInteger(100), requests.NewBoolean(false)
	_, err := tr.UpdateLoadBalancerAttribute(u)
	simtest.Check(t, err)
	if got := tr.get(id); got.LoadBalancerName != "renamed" || got.Cps != 100 || got.CrossZoneEnabled {
		t.Errorf("got %+v", got)
	}
	u.Cps = requests.NewInteger(-1)
	_, err = tr.UpdateLoadBalancerAttribute(u)
	simtest.Refused(t, err, "IllegalParam.Cps", 400)
	u.Cps, u.SecurityGroupIds = requests.NewInteger(1), &[]string{"sg-x"}
	_, err = tr.UpdateLoadBalancerAttribute(u)
	simtest.Refused(t, err, "ResourceNotFound.SecurityGroup", 404)
	u.SecurityGroupIds = &[]string{"sg-a"}
	_, err = tr.UpdateLoadBalancerAttribute(u)
	simtest.Check(t, err)

	a := nlb.CreateUpdateLoadBalancerAddressTypeConfigRequest()
	a.LoadBalancerId, a.AddressType = id, "Intranet"
	_, err = tr.UpdateLoadBalancerAddressTypeConfig(a)
	simtest.Check(t, err)
	if got := tr.get(id); got.AddressType != "Intranet" || got.ZoneMappings[1].LoadBalancerAddresses[0].PublicIPv4Address != "" {
		t.Errorf("got %+v", got)
	}
	if eips := tr.cloud.Snapshot().EIPs; len(eips) != 2 || eips[0].Instance != "" {
		t.Errorf("got %+v", eips)
	}
	a.AddressType = "Internet"
	a.ZoneMappings = &[]nlb.UpdateLoadBalancerAddressTypeConfigZoneMappings{{ZoneId: "cn-hangzhou-i", AllocationId: "eip-a"}}
	_, err = tr.UpdateLoadBalancerAddressTypeConfig(a)
	simtest.Check(t, err)
	if got := tr.get(id).ZoneMappings[1].LoadBalancerAddresses[0].AllocationId; got != "eip-a" {
		t.Errorf("got %s", got)
	}
	a.AddressType = "x"
	_, err = tr.UpdateLoadBalancerAddressTypeConfig(a)
	simtest.Refused(t, err, "IllegalParam.AddressType", 400)

	z := nlb.CreateUpdateLoadBalancerZonesRequest()
	z.LoadBalancerId = id
	z.ZoneMappings = &[]nlb.UpdateLoadBalancerZonesZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-h"}, {ZoneId: "cn-hangzhou-k", VSwitchId: "vsw-k"}}
	_, err = tr.UpdateLoadBalancerZones(z)
	simtest.Check(t, err)
	if got := tr.get(id).ZoneMappings; len(got) != 2 || got[1].VSwitchId != "vsw-k" || tr.free("vsw-i") != 5 || tr.free("vsw-h") != 4 {
		t.Errorf("got %+v, free %d and %d", got, tr.free("vsw-i"), tr.free("vsw-h"))
	}
	z.ZoneMappings = &[]nlb.UpdateLoadBalancerZonesZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-x"}}
	_, err = tr.UpdateLoadBalancerZones(z)
	simtest.Refused(t, err, "ResourceNotFound.VSwitch", 404)
	tr.cloud.Edit(func(s *sim.State) {
		s.VSwitches["vsw-h2"] = &sim.VSwitch{VPC: "vpc-1", Zone: "cn-hangzhou-h", CIDR: "10.90.0.0/20", Free: new(9)}
	})
	(*z.ZoneMappings)[0].VSwitchId = "vsw-h2"
	_, err = tr.UpdateLoadBalancerZones(z)
	simtest.Refused(t, err, "OperationDenied.ZoneVSwitchChanged", 400)

	e := nlb.CreateEnableLoadBalancerIpv6InternetRequest()
	e.LoadBalancerId = id
	_, err = tr.EnableLoadBalancerIpv6Internet(e)
	simtest.Refused(t, err, "OperationDenied.OnlyDualStackSupported", 400)
	e.LoadBalancerId = tr.made(func(r *nlb.CreateLoadBalancerRequest) {
		r.AddressIpVersion, r.ZoneMappings = "DualStack", &[]nlb.CreateLoadBalancerZoneMappings{{ZoneId: "cn-hangzhou-k", VSwitchId: "vsw-k"}}
	})
	_, err = tr.EnableLoadBalancerIpv6Internet(e)
	simtest.Check(t, err)
	if got := tr.get(e.LoadBalancerId); got.Ipv6AddressType != "Internet" || got.ZoneMappings[0].LoadBalancerAddresses[0].Ipv6Address == "" {
		t.Errorf("got %+v", got)
	}
	d := nlb.CreateDisableLoadBalancerIpv6InternetRequest()
	d.LoadBalancerId = e.LoadBalancerId
	_, err = tr.DisableLoadBalancerIpv6Internet(d)
	simtest.Check(t, err)

	b := nlb.CreateAttachCommonBandwidthPackageToLoadBalancerRequest()
	b.LoadBalancerId, b.BandwidthPackageId = id, "cbwp-1"
	_, err = tr.AttachCommonBandwidthPackageToLoadBalancer(b)
	simtest.Check(t, err)
	_, err = tr.AttachCommonBandwidthPackageToLoadBalancer(b)
	simtest.Refused(t, err, "ResourceAlreadyAssociated.BandwidthPackageId", 400)
	o := nlb.CreateDetachCommonBandwidthPackageFromLoadBalancerRequest()
	o.LoadBalancerId, o.BandwidthPackageId = id, "cbwp-1"
	_, err = tr.DetachCommonBandwidthPackageFromLoadBalancer(o)
	simtest.Check(t, err)
	_, err = tr.DetachCommonBandwidthPackageFromLoadBalancer(o)
	simtest.Refused(t, err, "ResourceNotAssociated.BandwidthPackageId", 400)

	p := nlb.CreateUpdateLoadBalancerProtectionRequest()
	p.LoadBalancerId, p.ModificationProtectionStatus = id, "x"
	_, err = tr.UpdateLoadBalancerProtection(p)
	simtest.Refused(t, err, "IllegalParam.ModificationProtectionStatus", 400)
	p.ModificationProtectionStatus, p.DeletionProtectionEnabled = "NonProtection", "x"
	_, err = tr.UpdateLoadBalancerProtection(p)
	simtest.Refused(t, err, "IllegalParam.DeletionProtectionEnabled", 400)
}

func TestNLBSecurityGroups(t *testing.T) {
	tr := newTour(t, simtest.NLBWorld())
	id := tr.made(nil)
	join := func(groups ...string) error {
		r := nlb.CreateLoadBalancerJoinSecurityGroupRequest()
		r.LoadBalancerId, r.SecurityGroupIds = id, &groups
		_, err := tr.LoadBalancerJoinSecurityGroup(r)
		return err
	}
	leave := func(groups ...string) error {
		r := nlb.CreateLoadBalancerLeaveSecurityGroupRequest()
		r.LoadBalancerId, r.SecurityGroupIds = id, &groups
		_, err := tr.LoadBalancerLeaveSecurityGroup(r)
		return err
	}
	simtest.Check(t, join("sg-a"))
	simtest.Refused(t, join("sg-a"), "ResourceAlreadyAssociated.SecurityGroup", 400)
	simtest.Refused(t, join("sg-x"), "ResourceNotFound.SecurityGroup", 404)
	simtest.Refused(t, join("sg-far"), "Mismatch.VpcId", 400)
	simtest.Check(t, leave("sg-a"))
	simtest.Refused(t, leave("sg-a"), "ResourceNotAssociated.SecurityGroup", 400)
	simtest.Refused(t, join(), "MissingParam.SecurityGroupIds", 400)
}

func TestNLBListeners(t *testing.T) {
	w := simtest.NLBWorld()
	w.Certificates = []sim.Certificate{{ID: "cert-a"}, {ID: "cert-b"}}
	tr := newTour(t, w)
	id, group := tr.made(nil), tr.group(nil)
	udp := tr.group(func(r *nlb.CreateServerGroupRequest) { r.Protocol = "UDP" })
	far := tr.group(func(r *nlb.CreateServerGroupRequest) { r.VpcId = "vpc-2" })
	protocol := func(p string) func(*nlb.CreateListenerRequest) {
		return func(r *nlb.CreateListenerRequest) { r.ListenerProtocol = p }
	}
	first, err := tr.listen(id, group, 80, func(r *nlb.CreateListenerRequest) {
		r.ListenerDescription, r.IdleTimeout, r.ProxyProtocolEnabled = "k8s/80/web/shop/c", requests.NewInteger(60), requests.NewBoolean(true)
	})
	simtest.Check(t, err)
	_, err = tr.listen(id, udp, 80, protocol("UDP"))
	simtest.Check(t, err)
	for _, tt := range []struct {
		code   string
		status int
		group  string
		port   int
		edit   func(*nlb.CreateListenerRequest)
	}{
		{"Conflict.Port", 400, group, 80, nil},
		{"Mismatch.VpcId", 400, far, 81, nil},
		{"Mismatch.Protocol", 400, udp, 81, nil},
		{"ResourceNotFound.serverGroup", 404, "sgp-x", 81, nil},
		{"IllegalParam.ListenerProtocol", 400, group, 81, protocol("HTTP")},
		{"IllegalParam.Port", 400, group, 65536, nil},
		{"IllegalParam.Port", 400, group, 0, nil},
		{"MissingParam.Certificate", 400, group, 81, protocol("TCPSSL")},
		{"IllegalParam.IdleTimeout", 400, group, 81, func(r *nlb.CreateListenerRequest) { r.IdleTimeout = requests.NewInteger(901) }},
		{"ResourceNotFound.Certificate", 400, group, 443, func(r *nlb.CreateListenerRequest) {
			r.ListenerProtocol, r.CertificateIds = "TCPSSL", &[]string{"cert-x"}
		}},
		{"IllegalParamSize.certificateIds", 400, group, 443, func(r *nlb.CreateListenerRequest) {
			r.ListenerProtocol, r.CertificateIds = "TCPSSL", &[]string{"cert-a", "cert-b"}
		}},
		{"ResourceNotFound.loadBalancer", 404, group, 81, func(r *nlb.CreateListenerRequest) { r.LoadBalancerId = "nlb-x" }},
	} {
		_, err := tr.listen(id, tt.group, tt.port, tt.edit)
		simtest.Refused(t, err, tt.code, tt.status)
	}
	secure, err := tr.listen(id, group, 443, func(r *nlb.CreateListenerRequest) {
		r.ListenerProtocol, r.CertificateIds, r.CaCertificateIds = "TCPSSL", &[]string{"cert-a"}, &[]string{"ca-a"}
	})
	simtest.Check(t, err)
	all, err := tr.listen(id, group, 0, func(r *nlb.CreateListenerRequest) {
		r.StartPort, r.EndPort = requests.NewInteger(1000), requests.NewInteger(2000)
	})
	simtest.Check(t, err)

	get := func(listener string) *nlb.GetListenerAttributeResponse {
		t.Helper()
		r := nlb.CreateGetListenerAttributeRequest()
		r.ListenerId = listener
		resp, err := tr.GetListenerAttribute(r)
		simtest.Check(t, err)
		return resp
	}
	if l := get(first.ListenerId); l.ListenerStatus != "Running" || l.ListenerPort != 80 || l.ServerGroupId != group || l.IdleTimeout != 60 ||
		!l.ProxyProtocolEnabled || l.ListenerDescription != "k8s/80/web/shop/c" {
		t.Errorf("got %+v", l)
	}
	if l := get(all.ListenerId); l.StartPort != "1000" || l.EndPort != "2000" {
		t.Errorf("got %+v", l)
	}
	u := nlb.CreateUpdateListenerAttributeRequest()
	u.ListenerId, u.ListenerDescription, u.Cps = first.ListenerId, "changed", requests.NewInteger(5)
	_, err = tr.UpdateListenerAttribute(u)
	simtest.Check(t, err)
	if l := get(first.ListenerId); l.ListenerDescription != "changed" || l.Cps != 5 || l.IdleTimeout != 60 {
		t.Errorf("got %+v", l)
	}
	u.ServerGroupId = udp
	_, err = tr.UpdateListenerAttribute(u)
	simtest.Refused(t, err, "Mismatch.Protocol", 400)

	start, stop := nlb.CreateStartListenerRequest(), nlb.CreateStopListenerRequest()
	start.ListenerId, stop.ListenerId = first.ListenerId, first.ListenerId
	_, err = tr.StartListener(start)
	simtest.Refused(t, err, "IncorrectStatus.listener", 400)
	_, err = tr.StopListener(stop)
	simtest.Check(t, err)
	if l := get(first.ListenerId); l.ListenerStatus != "Stopped" {
		t.Errorf("got %+v", l)
	}
	_, err = tr.StartListener(start)
	simtest.Check(t, err)

	more := nlb.CreateAssociateAdditionalCertificatesWithListenerRequest()
	more.ListenerId, more.AdditionalCertificateIds = secure.ListenerId, &[]string{"cert-b"}
	_, err = tr.AssociateAdditionalCertificatesWithListener(more)
	simtest.Check(t, err)
	_, err = tr.AssociateAdditionalCertificatesWithListener(more)
	simtest.Refused(t, err, "ResourceAlreadyAssociated.Certificate", 400)
	list := nlb.CreateListListenerCertificatesRequest()
	list.ListenerId = secure.ListenerId
	certificates, err := tr.ListListenerCertificates(list)
	simtest.Check(t, err)
	if c := certificates.Certificates; len(c) != 2 || !c[0].IsDefault || c[1].CertificateId != "cert-b" || c[1].IsDefault || c[1].Status != "Associated" {
		t.Errorf("got %+v", c)
	}
	list.CertType = "Ca"
	if certificates, err = tr.ListListenerCertificates(list); err != nil || !slices.Equal(certificates.CertificateIds, []string{"ca-a"}) {
		t.Errorf("got %+v, %v", certificates, err)
	}
	list.CertType = "x"
	_, err = tr.ListListenerCertificates(list)
	simtest.Refused(t, err, "IllegalParam.CertType", 400)
	less := nlb.CreateDisassociateAdditionalCertificatesWithListenerRequest()
	less.ListenerId, less.AdditionalCertificateIds = secure.ListenerId, &[]string{"cert-b"}
	_, err = tr.DisassociateAdditionalCertificatesWithListener(less)
	simtest.Check(t, err)

	ls := nlb.CreateListListenersRequest()
	ls.LoadBalancerIds, ls.ListenerProtocol = &[]string{id}, "TCP"
	listeners, err := tr.ListListeners(ls)
	simtest.Check(t, err)
	if listeners.TotalCount != 2 {
		t.Errorf("got %+v", listeners.Listeners)
	}

	del := nlb.CreateDeleteServerGroupRequest()
	del.ServerGroupId = udp
	_, err = tr.DeleteServerGroup(del)
	if e := simtest.Refused(t, err, "ResourceInUse.ServerGroup", 400); e.Message() != "The specified resource of ServerGroup is in use." {
		t.Errorf("got %q", e.Message())
	}
	for _, l := range append(listeners.Listeners, nlb.ListenerInfo{ListenerId: secure.ListenerId}) {
		r := nlb.CreateDeleteListenerRequest()
		r.ListenerId = l.ListenerId
		_, err := tr.DeleteListener(r)
		simtest.Check(t, err)
		_, err = tr.DeleteListener(r)
		simtest.Refused(t, err, "ResourceNotFound.listener", 404)
	}
	del.ServerGroupId = group
	_, err = tr.DeleteServerGroup(del)
	simtest.Check(t, err)
}

func TestNLBListenerBusy(t *testing.T) {
	w := simtest.NLBWorld()
	w.Lag.Jobs = sim.Duration(time.Second)
	w.NLBs = []sim.NLB{{ID: "nlb-1", Listeners: []sim.NLBListener{{ID: "lsn-1@80", Port: 80, ServerGroup: "sgp-1"}}}}
	w.ServerGroups = []sim.ServerGroup{{ID: "sgp-1"}}
	tr := newTour(t, w)
	r := nlb.CreateDeleteListenerRequest()
	r.ListenerId = "lsn-1@80"
	_, err := tr.DeleteListener(r)
	simtest.Check(t, err)
	_, err = tr.DeleteListener(r)
	if e := simtest.Refused(t, err, "IncorrectStatus.listener", 400); e.Message() != "The status of listener [lsn-1@80] is incorrect." {
		t.Errorf("got %q", e.Message())
	}
	_, err = tr.listen("nlb-1", "sgp-1", 80, nil)
	if e := simtest.Refused(t, err, "Conflict.Port", 400); e.Message() != "The Port [80] is conflict." {
		t.Errorf("got %q", e.Message())
	}
	tr.pass(time.Second)
	_, err = tr.listen("nlb-1", "sgp-1", 80, nil)
	simtest.Check(t, err)
	if got := tr.cloud.Snapshot().NLBs[0].Listeners[0].Status; got != "Provisioning" {
		t.Errorf("got %s", got)
	}
}

func TestNLBFailedJobs(t *testing.T) {
	w := simtest.NLBWorld()
	w.Lag.Jobs = sim.Duration(time.Second)
	w.NLBs = []sim.NLB{{ID: "nlb-1", Listeners: []sim.NLBListener{{ID: "lsn-1@80", Port: 80, ServerGroup: "sgp-1"}}}}
	w.ServerGroups = []sim.ServerGroup{{ID: "sgp-1", Servers: []sim.Server{{ID: "i-a", Port: 80}}}, {ID: "sgp-2"}}
	tr := newTour(t, w)
	failed := func(action string, do func()) {
		t.Helper()
		tr.cloud.Fault(sim.Fault{Product: "nlb", Action: action, FailJob: true, Count: 1})
		do()
		tr.pass(time.Second)
	}
	var made *nlb.CreateLoadBalancerResponse
	failed("CreateLoadBalancer", func() {
		var err error
		made, err = tr.create(nil)
		simtest.Check(t, err)
	})
	j := nlb.CreateGetJobStatusRequest()
	j.JobId = made.JobId
	if job, err := tr.GetJobStatus(j); err != nil || job.Status != "Failed" || tr.get(made.LoadbalancerId).LoadBalancerStatus != "CreateFailed" {
		t.Errorf("got %v, %v, load balancer %s", job, err, tr.get(made.LoadbalancerId).LoadBalancerStatus)
	}
	simtest.Check(t, tr.remove(made.LoadbalancerId))
	tr.pass(time.Second)
	before := simtest.Text(t, tr.cloud.Snapshot())
	failed("CreateListener", func() { _, err := tr.listen("nlb-1", "sgp-1", 81, nil); simtest.Check(t, err) })
	failed("DeleteListener", func() {
		r := nlb.CreateDeleteListenerRequest()
		r.ListenerId = "lsn-1@80"
		_, err := tr.DeleteListener(r)
		simtest.Check(t, err)
	})
	failed("StopListener", func() {
		r := nlb.CreateStopListenerRequest()
		r.ListenerId = "lsn-1@80"
		_, err := tr.StopListener(r)
		simtest.Check(t, err)
	})
	failed("AddServers*", func() {
		simtest.Check(t, tr.add("sgp-1", nlb.AddServersToServerGroupServers{ServerId: "i-b", ServerType: "Ecs", Port: "80"}))
	})
	failed("RemoveServers*", func() {
		r := nlb.CreateRemoveServersFromServerGroupRequest()
		r.ServerGroupId, r.Servers = "sgp-1", &[]nlb.RemoveServersFromServerGroupServers{{ServerId: "i-a", ServerType: "Ecs", Port: "80"}}
		_, err := tr.RemoveServersFromServerGroup(r)
		simtest.Check(t, err)
	})
	failed("DeleteServerGroup", func() {
		r := nlb.CreateDeleteServerGroupRequest()
		r.ServerGroupId = "sgp-2"
		_, err := tr.DeleteServerGroup(r)
		simtest.Check(t, err)
	})
	failed("DeleteLoadBalancer", func() { simtest.Check(t, tr.remove("nlb-1")) })
	if got := simtest.Text(t, tr.cloud.Snapshot()); got != before {
		t.Errorf("got %s\nwant %s", got, before)
	}
}

func TestServerGroups(t *testing.T) {
	w := simtest.NLBWorld()
	w.Quotas = []sim.Quota{{Product: "nlb", Name: "nlb_quota_loadbalancer_noeci_servers_num", Total: 2}}
	w.Lag.Jobs = sim.Duration(time.Second)
	tr := newTour(t, w)
	group := tr.group(func(r *nlb.CreateServerGroupRequest) {
		r.Tag = &[]nlb.CreateServerGroupTag{{Key: "ack.aliyun.com", Value: "c1"}}
		r.HealthCheckConfig.HealthCheckType, r.HealthCheckConfig.HealthCheckInterval = "HTTP", "7"
		r.HealthCheckConfig.HealthCheckHttpCode = &[]string{"http_2xx", "http_3xx"}
		r.ConnectionDrainEnabled, r.ConnectionDrainTimeout = requests.NewBoolean(true), requests.NewInteger(30)
	})
	ips := tr.group(func(r *nlb.CreateServerGroupRequest) { r.ServerGroupType, r.ServerGroupName = "Ip", "ips" })
	tr.pass(time.Second)
	server := func(id, kind, port string) nlb.AddServersToServerGroupServers {
		return nlb.AddServersToServerGroupServers{ServerId: id, ServerType: kind, Port: port, Weight: "50"}
	}
	for _, tt := range []struct {
		code    string
		status  int
		group   string
		servers []nlb.AddServersToServerGroupServers
	}{
		{"Mismatch.VpcId", 400, group, []nlb.AddServersToServerGroupServers{server("i-far", "Ecs", "80")}},
		{"Mismatch.ServerType", 400, group, []nlb.AddServersToServerGroupServers{server("10.0.0.1", "Ip", "80")}},
		{"IllegalParam.Port", 400, group, []nlb.AddServersToServerGroupServers{server("i-a", "Ecs", "0")}},
		{"IllegalParam.Port", 400, group, []nlb.AddServersToServerGroupServers{server("i-a", "Ecs", "65536")}},
		{"IllegalParam.ServerType", 400, group, []nlb.AddServersToServerGroupServers{server("i-a", "ecs", "80")}},
		{"MissingParam.ServerId", 400, group, []nlb.AddServersToServerGroupServers{{Port: "80", ServerType: "Ecs"}}},
		{"MissingParam.Servers", 400, group, nil},
		{"DuplicatedParam.Server", 400, group, []nlb.AddServersToServerGroupServers{server("i-a", "Ecs", "80"), server("i-a", "Ecs", "80")}},
		{"QuotaExceeded.QuotaInsufficient", 400, group, []nlb.AddServersToServerGroupServers{server("i-1", "Ecs", "80"), server("i-2", "Ecs", "80"),
			server("i-3", "Ecs", "80")}},
		{"ResourceNotFound.serverGroup", 404, "sgp-x", []nlb.AddServersToServerGroupServers{server("i-a", "Ecs", "80")}},
	} {
		simtest.Refused(t, tr.add(tt.group, tt.servers...), tt.code, tt.status)
	}
	simtest.Check(t, tr.add(group, server("i-a", "Ecs", "80"), server("eni-a", "Eni", "80")))
	simtest.Check(t, tr.add(ips, server("10.0.0.1", "Ip", "80")))
	servers := func() []string {
		r := nlb.CreateListServerGroupServersRequest()
		r.ServerGroupId = group
		resp, err := tr.ListServerGroupServers(r)
		simtest.Check(t, err)
		var list []string
		for _, s := range resp.Servers {
			list = append(list, fmt.Sprintf("%s:%d*%d %s", s.ServerId, s.Port, s.Weight, s.Status))
		}
		return list
	}
	if got, want := servers(), []string{"i-a:80*50 Adding", "eni-a:80*50 Adding"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tr.pass(time.Second)
	simtest.Refused(t, tr.add(group, server("i-a", "Ecs", "80")), "DuplicatedParam.Server", 400)
	u := nlb.CreateUpdateServerGroupServersAttributeRequest()
	u.ServerGroupId = group
	u.Servers = &[]nlb.UpdateServerGroupServersAttributeServers{{ServerId: "i-a", ServerType: "Ecs", Port: "80", Weight: "7", Description: "d"}}
	_, err := tr.UpdateServerGroupServersAttribute(u)
	simtest.Check(t, err)
	tr.pass(time.Second)
	(*u.Servers)[0].ServerId = "i-x"
	_, err = tr.UpdateServerGroupServersAttribute(u)
	simtest.Refused(t, err, "ResourceNotFound.server", 404)
	(*u.Servers)[0].ServerId, (*u.Servers)[0].Weight = "i-a", "101"
	_, err = tr.UpdateServerGroupServersAttribute(u)
	simtest.Refused(t, err, "IllegalParam.Weight", 400)
	r := nlb.CreateRemoveServersFromServerGroupRequest()
	r.ServerGroupId, r.Servers = group, &[]nlb.RemoveServersFromServerGroupServers{{ServerId: "eni-a", ServerType: "Eni", Port: "80"}}
	_, err = tr.RemoveServersFromServerGroup(r)
	simtest.Check(t, err)
	if got, want := servers(), []string{"i-a:80*7 Available", "eni-a:80*50 Removing"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tr.pass(time.Second)
	if got, want := servers(), []string{"i-a:80*7 Available"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	a := nlb.CreateUpdateServerGroupAttributeRequest()
	a.ServerGroupId, a.ServerGroupName, a.Scheduler = group, "new", "Rr"
	_, err = tr.UpdateServerGroupAttribute(a)
	simtest.Check(t, err)
	tr.pass(time.Second)
	a.Scheduler = "x"
	_, err = tr.UpdateServerGroupAttribute(a)
	simtest.Refused(t, err, "IllegalParam.Scheduler", 400)
	a.Scheduler, a.ConnectionDrainTimeout = "Wrr", requests.NewInteger(901)
	_, err = tr.UpdateServerGroupAttribute(a)
	simtest.Refused(t, err, "IllegalParam.ConnectionDrainTimeout", 400)
	l := nlb.CreateListServerGroupsRequest()
	l.Tag = &[]nlb.ListServerGroupsTag{{Key: "ack.aliyun.com", Value: "c1"}}
	groups, err := tr.ListServerGroups(l)
	simtest.Check(t, err)
	if len(groups.ServerGroups) != 1 {
		t.Fatalf("got %+v", groups.ServerGroups)
	}
	if g := groups.ServerGroups[0]; g.ServerGroupName != "new" || g.Scheduler != "Rr" || g.ServerCount != 1 || !g.ConnectionDrainEnabled ||
		g.ConnectionDrainTimeout != 30 ||
		g.HealthCheck.HealthCheckType != "HTTP" || g.HealthCheck.HealthCheckInterval != 7 || len(g.HealthCheck.HealthCheckHttpCode) != 2 ||
		!g.HealthCheck.HealthCheckEnabled {
		t.Errorf("got %+v", g)
	}
	for _, tt := range []struct {
		code string
		edit func(*nlb.CreateServerGroupRequest)
	}{
		{"ResourceNotFound.Vpc", func(r *nlb.CreateServerGroupRequest) { r.VpcId = "vpc-x" }},
		{"IllegalParam.ServerGroupType", func(r *nlb.CreateServerGroupRequest) { r.ServerGroupType = "x" }},
		{"IllegalParam.Protocol", func(r *nlb.CreateServerGroupRequest) { r.Protocol = "HTTP" }},
		{"MissingParam.ServerGroupName", func(r *nlb.CreateServerGroupRequest) { r.ServerGroupName = "" }},
	} {
		r := nlb.CreateCreateServerGroupRequest()
		r.ServerGroupName, r.VpcId = "g", "vpc-1"
		tt.edit(r)
		_, err := tr.CreateServerGroup(r)
		simtest.Refused(t, err, tt.code, map[bool]int{true: 404, false: 400}[tt.code == "ResourceNotFound.Vpc"])
	}
}

func TestNLBTags(t *testing.T) {
	tr := newTour(t, simtest.NLBWorld())
	id, group := tr.made(nil), tr.group(nil)
	listener, err := tr.listen(id, group, 80, nil)
	simtest.Check(t, err)
	for kind, id := range map[string]string{"loadbalancer": id, "servergroup": group, "listener": listener.ListenerId} {
		r := nlb.CreateTagResourcesRequest()
		r.ResourceType, r.ResourceId, r.Tag = kind, &[]string{id}, &[]nlb.TagResourcesTag{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}
		_, err := tr.TagResources(r)
		simtest.Check(t, err)
		l := nlb.CreateListTagResourcesRequest()
		l.ResourceType, l.Tag = kind, &[]nlb.ListTagResourcesTag{{Key: "a", Value: "1"}}
		tags, err := tr.ListTagResources(l)
		simtest.Check(t, err)
		if len(tags.TagResources) != 2 || tags.TagResources[0].ResourceId != id || tags.TagResources[0].TagKey != "a" {
			t.Errorf("%s: got %+v", kind, tags.TagResources)
		}
		u := nlb.CreateUntagResourcesRequest()
		u.ResourceType, u.ResourceId = kind, &[]string{id}
		_, err = tr.UntagResources(u)
		simtest.Refused(t, err, "MissingParam.TagKey", 400)
		u.TagKey = &[]string{"a"}
		_, err = tr.UntagResources(u)
		simtest.Check(t, err)
		l = nlb.CreateListTagResourcesRequest()
		l.ResourceType, l.ResourceId = kind, &[]string{id}
		if tags, err = tr.ListTagResources(l); err != nil || len(tags.TagResources) != 1 {
			t.Errorf("%s: got %+v, %v", kind, tags, err)
		}
		l = nlb.CreateListTagResourcesRequest()
		l.ResourceType = kind
		_, err = tr.ListTagResources(l)
		simtest.Refused(t, err, "MissingParam.ResourceId", 400)
		r.ResourceId = &[]string{"x"}
		_, err = tr.TagResources(r)
		simtest.Refused(t, err, cmp.Or(map[string]string{"loadbalancer": "ResourceNotFound.loadBalancer"}[kind], "ResourceNotFound."+kind), 404)
		r.ResourceType = "x"
		_, err = tr.TagResources(r)
		simtest.Refused(t, err, "IllegalParam.ResourceType", 400)
	}
	l := nlb.CreateListLoadBalancersRequest()
	l.Tag, l.AddressType, l.VpcIds, l.ZoneId = &[]nlb.ListLoadBalancersTag{{Key: "b", Value: "2"}}, "Internet", &[]string{"vpc-1"}, "cn-hangzhou-h"
	list, err := tr.ListLoadBalancers(l)
	simtest.Check(t, err)
	if list.TotalCount != 1 || list.LoadBalancers[0].LoadBalancerId != id {
		t.Errorf("got %+v", list.LoadBalancers)
	}
	l.MaxResults = requests.NewInteger(101)
	_, err = tr.ListLoadBalancers(l)
	simtest.Refused(t, err, "IllegalParam.MaxResults", 400)
}

// TestListAsynJobs requests several jobs at once, for which this SDK has no request type.
func TestListAsynJobs(t *testing.T) {
	tr := newTour(t, simtest.NLBWorld())
	made, err := tr.create(nil)
	simtest.Check(t, err)
	r := requests.NewCommonRequest()
	r.Method, r.Product, r.Version, r.ApiName, r.Domain = "POST", "Nlb", "2022-04-30", "ListAsynJobs", "nlb.cn-hangzhou.aliyuncs.com"
	r.QueryParams["JobIds.1"], r.QueryParams["JobIds.2"] = made.JobId, "none"
	resp, err := simtest.Dial(t, tr.cloud, tr.cloud.Admin(), sdk.NewClientWithOptions).ProcessCommonRequest(r)
	simtest.Check(t, err)
	if got, want := resp.GetHttpContentString(), fmt.Sprintf(`"Jobs":[{"Id":%q,"Status":"Succeeded"}]`, made.JobId); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	j := nlb.CreateGetJobStatusRequest()
	j.JobId = "none"
	_, err = tr.GetJobStatus(j)
	simtest.Refused(t, err, "ResourceNotFound.Job", 404)
}

func TestNLBWorld(t *testing.T) {
	c := sim.New(t, &sim.World{
		NLBs: []sim.NLB{{
			ID: "nlb-1", AddressType: "Intranet", Zones: []sim.NLBZone{{VSwitch: "vsw-1"}, {VSwitch: "vsw-1", Zone: "cn-hangzhou-x", Address: "10.0.0.1"}},
			Listeners: []sim.NLBListener{{Port: 80, ServerGroup: "sgp-1"}},
		}, {ID: "nlb-2", Zones: []sim.NLBZone{{VSwitch: "vsw-1", EIP: "eip-1"}, {VSwitch: "vsw-1"}}}},
		EIPs:           []sim.EIP{{ID: "eip-1", IP: "198.51.100.9"}},
		ServerGroups:   []sim.ServerGroup{{ID: "sgp-1", Servers: []sim.Server{{ID: "i-1", Port: 80}}}},
		SecurityGroups: []sim.SecurityGroup{{Rules: []sim.SecurityRule{{Source: "10.0.0.0/8"}}}},
	})
	s := c.Snapshot()
	n := s.NLBs[0]
	if n.Zones[0].Address != "10.0.0.2" || n.Zones[0].Zone != "cn-hangzhou-h" || n.Zones[0].Public != "" || n.Listeners[0].ID != "lsn-nlb-1@80" ||
		s.ServerGroups[0].Servers[0].Type != "Ecs" || s.SecurityGroups[0].Rules[0].Ports != "-1/-1" || s.NLBs[1].Zones[0].Public != "198.51.100.9" {
		t.Errorf("got %s", simtest.Text(t, s))
	}
	if got, want := simtest.Text(t, sim.New(t, s).Snapshot()), simtest.Text(t, s); got != want {
		t.Errorf("a Cloud that starts from a snapshot differs:\n%s\n%s", got, want)
	}
	c.Edit(func(s *sim.State) {
		s.NLBs["nlb-3"] = &sim.NLB{Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}
		s.ServerGroups["sgp-2"], s.SecurityGroups["sg-2"] = &sim.ServerGroup{}, &sim.SecurityGroup{}
	})
	if s = c.Snapshot(); s.NLBs[2].ID != "nlb-3" || s.NLBs[2].Zones[0].Address == "" || s.ServerGroups[1].VPC != "vpc-1" || s.SecurityGroups[1].ID != "sg-2" {
		t.Errorf("got %s", simtest.Text(t, s))
	}
	for _, bad := range []*sim.World{
		{NLBs: []sim.NLB{{Zones: []sim.NLBZone{{VSwitch: "vsw-x"}}}}},
		{NLBs: []sim.NLB{{Zones: []sim.NLBZone{{VSwitch: "vsw-1", Address: "10.0.0.1"}, {VSwitch: "vsw-1", Address: "10.0.0.1"}}}}},
		{NLBs: []sim.NLB{{Zones: []sim.NLBZone{{VSwitch: "vsw-1", Public: "x"}}}}},
		{NLBs: []sim.NLB{{Listeners: []sim.NLBListener{{Port: 80, ServerGroup: "sgp-x"}}}}},
	} {
		if c, err := sim.Start(bad); err == nil {
			c.Close()
			t.Errorf("%s: accepted", simtest.Text(t, bad))
		}
	}
}
