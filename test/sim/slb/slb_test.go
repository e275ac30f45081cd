package slb_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestVSwitchRunsOut(t *testing.T) {
	c := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-a", Free: new(1)}}})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	in := func(vswitch string) (*slb.CreateLoadBalancerResponse, error) {
		return simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) { r.AddressType, r.VSwitchId = "intranet", vswitch })
	}
	_, err := in("vsw-b")
	if e := simtest.Refused(t, err, "VSwitchNotExist", 400); e.Message() != "The specified VSwitch does not exist." {
		t.Errorf("got %q", e.Message())
	}
	first, err := in("vsw-a")
	simtest.Check(t, err)
	_, err = in("vsw-a")
	if e := simtest.Refused(t, err, "VSwitchAvailableIpNotExist", 400); e.Message() != "The specified VSwitch has no available ip." {
		t.Errorf("got %q", e.Message())
	}
	d := slb.CreateDeleteLoadBalancerRequest()
	d.LoadBalancerId = first.LoadBalancerId
	_, err = client.DeleteLoadBalancer(d)
	simtest.Check(t, err)
	_, err = simtest.Attribute(client, first.LoadBalancerId)
	if e := simtest.Refused(t, err, "InvalidLoadBalancerId.NotFound", 404); e.Message() != "The specified LoadBalancerId does not exist." {
		t.Errorf("got %q", e.Message())
	}
	if _, err = in("vsw-a"); err != nil {
		t.Errorf("the address was not given back: %v", err)
	}
}

func TestCreate(t *testing.T) {
	c := sim.New(t, nil)
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	made := func(token string) *slb.CreateLoadBalancerResponse {
		lb, err := simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) {
			r.LoadBalancerName, r.ClientToken, r.DeleteProtection = "a1", token, "on"
			r.Tag = &[]slb.CreateLoadBalancerTag{{Key: "kubernetes.do.not.delete", Value: "a1"}}
		})
		simtest.Check(t, err)
		return lb
	}
	lb := made("t1")
	if lb.Address != "203.0.113.1" || lb.RequestId == "" {
		t.Errorf("got %+v", lb)
	}
	if again := made("t1"); again.LoadBalancerId != lb.LoadBalancerId || again.RequestId == lb.RequestId {
		t.Errorf("the same token made %s after %s", again.LoadBalancerId, lb.LoadBalancerId)
	}
	if other := made("t2"); other.LoadBalancerId == lb.LoadBalancerId || other.Address == lb.Address {
		t.Errorf("another token made the same: %+v", other)
	}
	got, err := simtest.Attribute(client, lb.LoadBalancerId)
	simtest.Check(t, err)
	if got.InstanceChargeType != "PayByCLCU" || got.AddressType != "internet" || got.VpcId != "" || got.DeleteProtection != "on" ||
		got.LoadBalancerStatus != "active" || got.Tags.Tag[0].TagValue != "a1" {
		t.Errorf("got %+v", got)
	}
	d := slb.CreateDeleteLoadBalancerRequest()
	d.LoadBalancerId = lb.LoadBalancerId
	_, err = client.DeleteLoadBalancer(d)
	if e := simtest.Refused(t, err, "OperationDenied.DeleteProtectionIsOn",
		400); e.Message() != "The loadbalancer can not be deleted due to DeleteProtection is enabled." {
		t.Errorf("got %q", e.Message())
	}
	// The token is remembered after the deletion of its resource.
	c.DropLoadBalancer(lb.LoadBalancerId)
	if again := made("t1"); again.LoadBalancerId != lb.LoadBalancerId {
		t.Errorf("got %s, want %s, which is gone", again.LoadBalancerId, lb.LoadBalancerId)
	}
}

func TestAccount(t *testing.T) {
	for _, tt := range []struct {
		account sim.Account
		spec    string
		charge  string
		code    string
	}{
		{sim.Account{Arrearage: true}, "", "", "ORDER.ARREARAGE"},
		{sim.Account{Balance: "99.99"}, "", "", "PAY.INSUFFICIENT_BALANCE"},
		{sim.Account{Balance: "1,234.56"}, "", "", ""},
		{sim.Account{ShareInstanceHalt: true}, "", "", "ShareSlbHaltSales"},
		{sim.Account{ShareInstanceHalt: true}, "", "PayBySpec", "ShareSlbHaltSales"},
		{sim.Account{ShareInstanceHalt: true}, "", "PayByCLCU", ""},
		{sim.Account{ShareInstanceHalt: true}, "slb.s1.small", "", ""},
	} {
		c := sim.New(t, &sim.World{Account: tt.account})
		_, err := simtest.Create(simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions), func(r *slb.CreateLoadBalancerRequest) {
			r.LoadBalancerSpec, r.InstanceChargeType = tt.spec, tt.charge
		})
		if tt.code == "" {
			simtest.Check(t, err)
			continue
		}
		simtest.Refused(t, err, tt.code, 400)
	}
}

func TestDescribeLoadBalancers(t *testing.T) {
	c := sim.New(t, &sim.World{
		VSwitches: []sim.VSwitch{{ID: "vsw-a"}},
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-a", Name: "one", VSwitch: "vsw-a", Address: "10.0.0.9", Tags: map[string]string{"k": "v", "n": "1"}},
			{ID: "lb-b", Name: "two", Tags: map[string]string{"k": "w"}},
			{ID: "lb-c", Name: "twofold"},
		},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	for _, tt := range []struct {
		name string
		edit func(*slb.DescribeLoadBalancersRequest)
		want []string
	}{
		{"all", func(*slb.DescribeLoadBalancersRequest) {}, []string{"lb-a", "lb-b", "lb-c"}},
		{"ids", func(r *slb.DescribeLoadBalancersRequest) { r.LoadBalancerId = "lb-a,lb-c,lb-x" }, []string{"lb-a", "lb-c"}},
		{"address", func(r *slb.DescribeLoadBalancersRequest) { r.Address = "10.0.0.9" }, []string{"lb-a"}},
		{"VPC", func(r *slb.DescribeLoadBalancersRequest) { r.VpcId = "vpc-1" }, []string{"lb-a"}},
		{"vSwitch", func(r *slb.DescribeLoadBalancersRequest) { r.VSwitchId = "vsw-a" }, []string{"lb-a"}},
		{"type", func(r *slb.DescribeLoadBalancersRequest) { r.AddressType = "internet" }, []string{"lb-b", "lb-c"}},
		{"name", func(r *slb.DescribeLoadBalancersRequest) { r.LoadBalancerName = "two" }, []string{"lb-b"}},
		{"fuzzy name", func(r *slb.DescribeLoadBalancersRequest) { r.LoadBalancerName, r.Fuzzy = "two", "true" }, []string{"lb-b", "lb-c"}},
		{"tag", func(r *slb.DescribeLoadBalancersRequest) {
			r.Tag = &[]slb.DescribeLoadBalancersTag{{Key: "k", Value: "v"}, {Key: "n"}}
		}, []string{"lb-a"}},
		{"tag key", func(r *slb.DescribeLoadBalancersRequest) { r.Tag = &[]slb.DescribeLoadBalancersTag{{Key: "k"}} }, []string{"lb-a", "lb-b"}},
		{"tags as JSON", func(r *slb.DescribeLoadBalancersRequest) { r.Tags = `[{"TagKey":"k","TagValue":"w"}]` }, []string{"lb-b"}},
		{"second page", func(r *slb.DescribeLoadBalancersRequest) {
			r.PageSize, r.PageNumber = requests.NewInteger(2), requests.NewInteger(2)
		}, []string{"lb-c"}},
		{"other region", func(r *slb.DescribeLoadBalancersRequest) { r.RegionId = "cn-beijing" }, nil},
	} {
		r := slb.CreateDescribeLoadBalancersRequest()
		tt.edit(r)
		resp, err := client.DescribeLoadBalancers(r)
		simtest.Check(t, err)
		var got []string
		for _, lb := range resp.LoadBalancers.LoadBalancer {
			got = append(got, lb.LoadBalancerId)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTags(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}}})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	tag := func(keys ...string) error {
		r := slb.CreateTagResourcesRequest()
		r.ResourceType, r.ResourceId = "instance", &[]string{"lb-a"}
		var tags []slb.TagResourcesTag
		for _, k := range keys {
			tags = append(tags, slb.TagResourcesTag{Key: k, Value: "v"})
		}
		r.Tag = &tags
		_, err := client.TagResources(r)
		return err
	}
	for i := range 20 {
		simtest.Check(t, tag(fmt.Sprintf("k%02d", i)))
	}
	simtest.Refused(t, tag("k20"), "QuotaExceed.TagsPerResource", 400)
	simtest.Check(t, tag("k19")) // an existing key is only overwritten
	simtest.Refused(t, tag("acs:x"), "InvalidParameter.TagKey", 400)

	l := slb.CreateListTagResourcesRequest()
	l.ResourceType, l.ResourceId = "instance", &[]string{"lb-a"}
	list, err := client.ListTagResources(l)
	simtest.Check(t, err)
	if n := len(list.TagResources.TagResource); n != 20 {
		t.Errorf("got %d tags, want 20", n)
	}
	u := slb.CreateUntagResourcesRequest()
	u.ResourceType, u.ResourceId, u.TagKey = "instance", &[]string{"lb-a"}, &[]string{"k00", "k01"}
	_, err = client.UntagResources(u)
	simtest.Check(t, err)
	a := slb.CreateAddTagsRequest()
	a.LoadBalancerId, a.Tags = "lb-a", `[{"TagKey":"old","TagValue":"way"}]`
	_, err = client.AddTags(a)
	simtest.Check(t, err)
	d := slb.CreateDescribeTagsRequest()
	d.LoadBalancerId = "lb-a"
	sets, err := client.DescribeTags(d)
	simtest.Check(t, err)
	if sets.TotalCount != 19 {
		t.Errorf("got %d tags, want 19", sets.TotalCount)
	}
	rm := slb.CreateRemoveTagsRequest()
	rm.LoadBalancerId, rm.Tags = "lb-a", `[{"TagKey":"old","TagValue":"way"}]`
	_, err = client.RemoveTags(rm)
	simtest.Check(t, err)
	c.LoseTag("lb-a", "k05")
	tags := c.Snapshot().LoadBalancers[0].Tags
	if _, ok := tags["k05"]; ok || len(tags) != 17 {
		t.Errorf("got %v", tags)
	}
	u.ResourceId, u.TagKey = &[]string{"lb-x"}, nil
	u.All = requests.NewBoolean(true)
	_, err = client.UntagResources(u)
	simtest.Refused(t, err, "InvalidResourceId.NotFound", 404)
}

func TestListenersAndGroups(t *testing.T) {
	c := sim.New(t, &sim.World{
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}, {ID: "lb-shared", ChargeType: "PayBySpec"}, {ID: "lb-far", VSwitch: "vsw-far"}},
		VPCs:          []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
		Instances:     []sim.Instance{{ID: "i-far", VPC: "vpc-2"}},
		VSwitches:     []sim.VSwitch{{ID: "vsw-1"}, {ID: "vsw-far", VPC: "vpc-2"}},
		Quotas:        []sim.Quota{{Name: "slb_quota_backendservers_num", Total: 2}, {Name: "slb_quota_listeners_num", Total: 3}},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	group := func(lb, backends string) (string, error) {
		r := slb.CreateCreateVServerGroupRequest()
		r.LoadBalancerId, r.VServerGroupName, r.BackendServers = lb, "k8s/30080/web/shop/c1", backends
		resp, err := client.CreateVServerGroup(r)
		if err != nil {
			return "", err
		}
		return resp.VServerGroupId, nil
	}
	g, err := group("lb-a", `[{"serverId":"i-1","weight":100,"port":"30080","type":"ecs"}]`)
	simtest.Check(t, err)
	_, err = group("lb-shared", `[{"ServerId":"eni-1","ServerIp":"10.0.0.7","Port":80,"Type":"eni"}]`)
	if e := simtest.Refused(t, err, "OperationUnsupported.EniBackendServer",
		400); e.Message() != "The loadbalancer does not support backend servers of eni type." {
		t.Errorf("got %q", e.Message())
	}
	_, err = group("lb-far", `[{"ServerId":"i-1","Port":80}]`)
	simtest.Refused(t, err, "NetworkConflict", 400)
	_, err = group("lb-a", `[{"ServerId":"i-far","Port":80}]`) // has backends in another VPC
	simtest.Refused(t, err, "NetworkConflict", 400)
	_, err = group("lb-a", `[{"ServerId":"i-1","Port":"http"}]`)
	if e := simtest.Refused(t, err, "InvalidParameter", 400); e.Message() != "The specified Port must be between 1 and 65535." {
		t.Errorf("got %q", e.Message())
	}

	add := slb.CreateAddVServerGroupBackendServersRequest()
	add.VServerGroupId, add.BackendServers = g, `[{"serverId":"i-1","port":30080},{"serverId":"i-2","port":30080}]`
	_, err = client.AddVServerGroupBackendServers(add)
	simtest.Check(t, err)
	add.BackendServers = `[{"serverId":"i-3","port":30080}]`
	_, err = client.AddVServerGroupBackendServers(add)
	if e := simtest.Refused(t, err, "InstanceBackendServerNumberOverLimit",
		400); e.Message() != "The backend server number has reached to the quota limit of this load balancers" {
		t.Errorf("got %q", e.Message())
	}
	rm := slb.CreateRemoveVServerGroupBackendServersRequest()
	rm.VServerGroupId, rm.BackendServers = g, `[{"serverId":"i-1","port":30080}]`
	_, err = client.RemoveVServerGroupBackendServers(rm)
	simtest.Check(t, err)
	set := slb.CreateSetVServerGroupAttributeRequest()
	set.VServerGroupId, set.BackendServers = g, `[{"serverId":"i-2","port":30080,"weight":7}]`
	_, err = client.SetVServerGroupAttribute(set)
	simtest.Check(t, err)
	mod := slb.CreateModifyVServerGroupBackendServersRequest()
	mod.VServerGroupId, mod.OldBackendServers, mod.NewBackendServers = g, `[{"serverId":"i-2","port":30080}]`, `[{"serverId":"i-4","port":30081,"weight":8}]`
	_, err = client.ModifyVServerGroupBackendServers(mod)
	simtest.Check(t, err)
	d := slb.CreateDescribeVServerGroupAttributeRequest()
	d.VServerGroupId = g
	one, err := client.DescribeVServerGroupAttribute(d)
	simtest.Check(t, err)
	if b := one.BackendServers.BackendServer; len(b) != 1 || b[0].ServerId != "i-4" || b[0].Port != 30081 || b[0].Weight != 8 || one.LoadBalancerId != "lb-a" {
		t.Errorf("got %+v", one)
	}

	listen := func(port int) error {
		r := slb.CreateCreateLoadBalancerTCPListenerRequest()
		r.LoadBalancerId, r.ListenerPort, r.VServerGroupId, r.HealthCheckConnectPort = "lb-a", requests.NewInteger(port), g, requests.NewInteger(30080)
		_, err := client.CreateLoadBalancerTCPListener(r)
		return err
	}
	simtest.Check(t, listen(80))
	simtest.Refused(t, listen(80), "ListenerAlreadyExists", 400)
	udp := slb.CreateCreateLoadBalancerUDPListenerRequest()
	udp.LoadBalancerId, udp.ListenerPort, udp.VServerGroupId = "lb-a", "80", g
	_, err = client.CreateLoadBalancerUDPListener(udp)
	simtest.Check(t, err)
	simtest.Check(t, listen(81))
	simtest.Refused(t, listen(82), "ListenerNumberOverLimit", 400)
	start := slb.CreateStartLoadBalancerListenerRequest()
	start.LoadBalancerId, start.ListenerPort = "lb-a", "80"
	_, err = client.StartLoadBalancerListener(start)
	simtest.Refused(t, err, "MissingParameter.ListenerProtocol", 400)
	start.ListenerProtocol = "tcp"
	_, err = client.StartLoadBalancerListener(start)
	simtest.Check(t, err)

	l := slb.CreateDescribeLoadBalancerListenersRequest()
	l.LoadBalancerId, l.ListenerProtocol = &[]string{"lb-a"}, "tcp"
	list, err := client.DescribeLoadBalancerListeners(l)
	simtest.Check(t, err)
	if e := list.Listeners; len(e) != 2 || e[0].VServerGroupId != g || e[0].Status != "running" || e[1].Status != "stopped" ||
		e[0].TCPListenerConfig.HealthCheckConnectPort != 30080 {
		t.Errorf("got %+v", e)
	}
	a := slb.CreateDescribeLoadBalancerTCPListenerAttributeRequest()
	a.LoadBalancerId, a.ListenerPort = "lb-a", "80"
	tcp, err := client.DescribeLoadBalancerTCPListenerAttribute(a)
	simtest.Check(t, err)
	if tcp.VServerGroupId != g || tcp.HealthCheckConnectPort != 30080 {
		t.Errorf("got %+v", tcp)
	}

	del := slb.CreateDeleteVServerGroupRequest()
	del.VServerGroupId = g
	_, err = client.DeleteVServerGroup(del)
	if e := simtest.Refused(t, err, "RspoolVipExist", 400); e.Message() != "there are vips associating with this vServer group." {
		t.Errorf("got %q", e.Message())
	}
	gs := slb.CreateDescribeVServerGroupsRequest()
	gs.LoadBalancerId, gs.IncludeListener = "lb-a", requests.NewBoolean(true)
	groups, err := client.DescribeVServerGroups(gs)
	simtest.Check(t, err)
	if e := groups.VServerGroups.VServerGroup; len(e) != 1 || len(e[0].AssociatedObjects.Listeners.Listener) != 3 || e[0].ServerCount != 1 {
		t.Errorf("got %+v", e)
	}
	for _, k := range [][2]string{{"80", "tcp"}, {"80", "udp"}, {"81", ""}} {
		r := slb.CreateDeleteLoadBalancerListenerRequest()
		r.LoadBalancerId, r.ListenerPort, r.ListenerProtocol = "lb-a", requests.Integer(k[0]), k[1]
		_, err = client.DeleteLoadBalancerListener(r)
		simtest.Check(t, err)
		_, err = client.DeleteLoadBalancerListener(r)
		if e := simtest.Refused(t, err, "InvalidParameter", 400); e.Message() != "The specified resource does not exist." {
			t.Errorf("got %q", e.Message())
		}
	}
	_, err = client.DeleteVServerGroup(del)
	simtest.Check(t, err)
	_, err = client.DeleteVServerGroup(del)
	simtest.Refused(t, err, "InvalidParameter", 400)
}

func TestChanges(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-clcu"}, {ID: "lb-spec", Spec: "slb.s1.small"}}})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	spec := slb.CreateModifyLoadBalancerInstanceSpecRequest()
	spec.LoadBalancerId, spec.LoadBalancerSpec = "lb-clcu", "slb.s2.small"
	_, err := client.ModifyLoadBalancerInstanceSpec(spec)
	if e := simtest.Refused(t, err, "OperationDenied.PayByCLCU",
		400); e.Message() != "The operation is not allowed because the instanceChargeType of loadbalancer is PayByCLCU." {
		t.Errorf("got %q", e.Message())
	}
	charge := slb.CreateModifyLoadBalancerInstanceChargeTypeRequest()
	charge.LoadBalancerId, charge.InstanceChargeType, charge.LoadBalancerSpec = "lb-clcu", "PayBySpec", "slb.s1.small"
	_, err = client.ModifyLoadBalancerInstanceChargeType(charge)
	if e := simtest.Refused(t, err, "Forbidden.LcuToSpec", 400); e.Message() != "User does not have permission modify InstanceChargeType to spec." {
		t.Errorf("got %q", e.Message())
	}
	spec.LoadBalancerId = "lb-spec"
	_, err = client.ModifyLoadBalancerInstanceSpec(spec)
	simtest.Check(t, err)
	charge.LoadBalancerId, charge.InstanceChargeType = "lb-spec", "PayByCLCU"
	_, err = client.ModifyLoadBalancerInstanceChargeType(charge)
	simtest.Check(t, err)
	p := slb.CreateSetLoadBalancerModificationProtectionRequest()
	p.LoadBalancerId, p.ModificationProtectionStatus, p.ModificationProtectionReason = "lb-spec", "ConsoleProtection", "managed.by.ack"
	_, err = client.SetLoadBalancerModificationProtection(p)
	simtest.Check(t, err)
	dp := slb.CreateSetLoadBalancerDeleteProtectionRequest()
	dp.LoadBalancerId, dp.DeleteProtection = "lb-spec", "on"
	_, err = client.SetLoadBalancerDeleteProtection(dp)
	simtest.Check(t, err)
	n := slb.CreateModifyLoadBalancerInternetSpecRequest()
	n.LoadBalancerId, n.InternetChargeType, n.Bandwidth = "lb-spec", "paybybandwidth", requests.NewInteger(9)
	_, err = client.ModifyLoadBalancerInternetSpec(n)
	simtest.Check(t, err)
	got, err := simtest.Attribute(client, "lb-spec")
	simtest.Check(t, err)
	if got.InstanceChargeType != "PayByCLCU" || got.LoadBalancerSpec != "" || got.ModificationProtectionReason != "managed.by.ack" ||
		got.DeleteProtection != "on" || got.Bandwidth != 9 || got.InternetChargeType != "paybybandwidth" {
		t.Errorf("got %+v", got)
	}
	a := slb.CreateDescribeAvailableResourceRequest()
	zones, err := client.DescribeAvailableResource(a)
	simtest.Check(t, err)
	if len(zones.AvailableResources.AvailableResource) != 2 {
		t.Errorf("got %+v", zones.AvailableResources)
	}
}

// TestTogether creates load balancers concurrently: only one gets the last address.
func TestTogether(t *testing.T) {
	c := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-a", Free: new(5)}}, Quotas: []sim.Quota{{Name: "slb_quota_instances_num", Total: 100}}})
	k := c.Admin()
	var wg sync.WaitGroup
	results := make(chan error, 40)
	for range 8 {
		client := simtest.Dial(t, c, k, slb.NewClientWithOptions)
		wg.Go(func() {
			for range 5 {
				_, err := simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) { r.AddressType, r.VSwitchId = "intranet", "vsw-a" })
				results <- err
				c.Snapshot()
				c.SetFree("vsw-none", 3)
			}
		})
	}
	wg.Wait()
	close(results)
	good := 0
	for err := range results {
		if err == nil {
			good++
			continue
		}
		simtest.Refused(t, err, "VSwitchAvailableIpNotExist", 400)
	}
	addresses := map[string]bool{}
	for _, lb := range c.Snapshot().LoadBalancers {
		addresses[lb.Address] = true
	}
	if good != 5 || len(addresses) != 5 {
		t.Errorf("%d were made, with the addresses %v", good, addresses)
	}
}

func TestEdit(t *testing.T) {
	c := sim.New(t, nil)
	c.Edit(func(s *sim.State) {
		s.LoadBalancers["lb-new"] = &sim.LoadBalancer{VGroups: []sim.VGroup{{ID: "rsp-new", Backends: []sim.Backend{{Server: "i-1", Port: 80}}}}}
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	a := slb.CreateAddTagsRequest()
	a.LoadBalancerId, a.Tags = "lb-new", `[{"TagKey":"k","TagValue":"v"}]`
	_, err := client.AddTags(a)
	simtest.Check(t, err)
	d := slb.CreateDescribeVServerGroupAttributeRequest()
	d.VServerGroupId = "rsp-new"
	g, err := client.DescribeVServerGroupAttribute(d)
	simtest.Check(t, err)
	if g.LoadBalancerId != "lb-new" || g.BackendServers.BackendServer[0].Weight != 100 {
		t.Errorf("got %+v", g)
	}
	lb, err := simtest.Attribute(client, "lb-new")
	simtest.Check(t, err)
	if lb.Address != "203.0.113.1" || lb.LoadBalancerStatus != "active" {
		t.Errorf("got %+v", lb)
	}
}
