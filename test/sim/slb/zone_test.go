package slb_test

import (
	"strings"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestZones(t *testing.T) {
	c := sim.New(t, &sim.World{
		VSwitches: []sim.VSwitch{{ID: "vsw-a", Zone: "cn-hangzhou-a"}, {ID: "vsw-b", Zone: "cn-hangzhou-b"}},
		Zones:     []sim.Zone{{ID: "cn-hangzhou-a", Stock: new(1)}, {ID: "cn-hangzhou-b", NoIPv6: true}, {ID: "cn-hangzhou-c", Stock: new(0)}},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	pairs := func(address, version string) (found []string) {
		t.Helper()
		r := slb.CreateDescribeAvailableResourceRequest()
		r.AddressType, r.AddressIPVersion = address, version
		resp, err := client.DescribeAvailableResource(r)
		simtest.Check(t, err)
		for _, p := range resp.AvailableResources.AvailableResource {
			found = append(found, p.MasterZoneId[12:]+p.SlaveZoneId[12:])
		}
		return found
	}
	if got, want := simtest.Text(t, pairs("vpc", "ipv4")), `["ab","ba"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := pairs("classic_internet", "ipv6"); got != nil {
		t.Errorf("got %s", got)
	}
	r := slb.CreateDescribeAvailableResourceRequest()
	r.AddressType = "intranet" // this action uses other words
	_, err := client.DescribeAvailableResource(r)
	simtest.Refused(t, err, "InvalidParameter.AddressType", 400)

	in := func(zone, vswitch string) func(*slb.CreateLoadBalancerRequest) {
		return func(r *slb.CreateLoadBalancerRequest) {
			r.MasterZoneId, r.VSwitchId = zone, vswitch
			if vswitch != "" {
				r.AddressType = "intranet"
			}
		}
	}
	_, err = simtest.Create(client, in("cn-hangzhou-c", ""))
	if e := simtest.Refused(t, err, "OperationFailed.ZoneResourceLimit",
		400); e.Message() != "The operation failed because of resource limit of the specified zone." {
		t.Errorf("got %q", e.Message())
	}
	_, err = simtest.Create(client, in("cn-hangzhou-x", ""))
	simtest.Refused(t, err, "PRODUCT.NOT_AVAILABLE_IZ", 400)
	made, err := simtest.Create(client, in("", "vsw-a"))
	simtest.Check(t, err)
	_, err = simtest.Create(client, in("", "vsw-a"))
	simtest.Refused(t, err, "OperationFailed.ZoneResourceLimit", 400)
	del := slb.CreateDeleteLoadBalancerRequest()
	del.LoadBalancerId = made.LoadBalancerId
	_, err = client.DeleteLoadBalancer(del)
	simtest.Check(t, err)
	_, err = simtest.Create(client, in("", "vsw-a"))
	simtest.Check(t, err)
	c.Edit(func(s *sim.State) { s.Zones["cn-hangzhou-b"].Stock = new(0) })
	_, err = simtest.Create(client, in("", ""))
	simtest.Refused(t, err, "OperationFailed.RegionResourceLimit", 400)
	zones, err := client.DescribeZones(slb.CreateDescribeZonesRequest())
	simtest.Check(t, err)
	if z := zones.Zones.Zone; len(z) != 3 || len(z[0].SlaveZones.SlaveZone) != 2 {
		t.Errorf("got %+v", z)
	}
}

func TestGates(t *testing.T) {
	c := sim.New(t, nil)
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	plain := func(*slb.CreateLoadBalancerRequest) {}
	for _, tt := range []struct {
		account    sim.Account
		code, text string
	}{
		{sim.Account{Balance: "99.99"}, "PAY.INSUFFICIENT_BALANCE", "Your account does not have enough balance."},
		{sim.Account{Balance: "1,000.00", Arrearage: true}, "ORDER.ARREARAGE", "The account is arrearage."},
		{sim.Account{Balance: "1,000.00", Gate: "ORDER.NO_REAL_NAME_AUTHENTICATION"}, "ORDER.NO_REAL_NAME_AUTHENTICATION",
			"The account is not real name authentication."},
		{sim.Account{Balance: "1,000.00", Gate: "RISK.RISK_CONTROL_REJECTION"}, "RISK.RISK_CONTROL_REJECTION", "The Account is rejected by risk control system."},
		{sim.Account{Balance: "1,000.00", Gate: "ORDER.INST_HAS_UNPAID_ORDER"}, "ORDER.INST_HAS_UNPAID_ORDER", "The instance has unpaid order."},
		{sim.Account{Balance: "1,000.00", Gate: "OrderFailed"}, "OrderFailed", "The Account failed to create order."},
	} {
		c.Edit(func(s *sim.State) { s.Account = tt.account })
		_, err := simtest.Create(client, plain)
		if e := simtest.Refused(t, err, tt.code, 400); e.Message() != tt.text {
			t.Errorf("got %q, want %q", e.Message(), tt.text)
		}
	}
	c.Edit(func(s *sim.State) { s.Account = sim.Account{Balance: "100.00"} })
	made, err := simtest.Create(client, plain)
	simtest.Check(t, err)
	c.Edit(func(s *sim.State) {
		s.RAM.NoServiceRoles = true
		s.EIPs["eip-a"] = &sim.EIP{ID: "eip-a", Instance: made.LoadBalancerId}
	})
	r := slb.CreateDeleteLoadBalancerRequest()
	r.LoadBalancerId = made.LoadBalancerId
	_, err = client.DeleteLoadBalancer(r)
	simtest.Refused(t, err, "NoPermission.AliyunServiceRoleForSlbEipAccess", 400)
	if _, err := sim.Start(&sim.World{Account: sim.Account{Gate: "closed"}}); err == nil {
		t.Error("a gate that nobody documents was accepted")
	}
}

func TestKnownServers(t *testing.T) {
	c := sim.New(t, &sim.World{
		KnownServers: true, LoadBalancers: []sim.LoadBalancer{{ID: "lb-a", VGroups: []sim.VGroup{{ID: "rsp-a"}}}},
		Instances: []sim.Instance{{ID: "i-a"}, {ID: "i-off", Status: "Stopped"}}, ENIs: []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.9"}}},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	add := func(backend string) error {
		r := slb.CreateAddVServerGroupBackendServersRequest()
		r.VServerGroupId, r.BackendServers = "rsp-a", "["+backend+"]"
		_, err := client.AddVServerGroupBackendServers(r)
		return err
	}
	simtest.Check(t, add(`{"ServerId":"i-a","Port":80}`))
	simtest.Check(t, add(`{"ServerId":"eni-a","ServerIp":"10.0.0.9","Type":"eni","Port":80}`))
	for _, id := range []string{"i-x", "i-off"} {
		if e := simtest.Refused(t, add(`{"ServerId":"`+id+`","Port":80}`), "ObtainIpFail", 400); !strings.Contains(e.Message(), "do not exist or are not running") {
			t.Errorf("got %q", e.Message())
		}
	}
	if e := simtest.Refused(t, add(`{"ServerId":"eni-x","Type":"eni","Port":80}`), "ResourceNotFound.vServers",
		404); e.Message() != "The specified enis eni-x does not exist." {
		t.Errorf("got %q", e.Message())
	}
}
