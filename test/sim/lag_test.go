package sim_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestTagsLag(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		Lag:           sim.Lag{Tags: sim.Duration(10 * time.Second)},
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-a", Tags: map[string]string{"old": "1"}}},
	}, sim.WithClock(func() time.Time { return now }))
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	pass := func(d time.Duration) { c.Edit(func(*sim.State) { now = now.Add(d) }) }
	found := func(key string) int {
		t.Helper()
		r := slb.CreateDescribeLoadBalancersRequest()
		r.Tag = &[]slb.DescribeLoadBalancersTag{{Key: key}}
		resp, err := client.DescribeLoadBalancers(r)
		simtest.Check(t, err)
		return resp.TotalCount
	}
	listed := func() int {
		t.Helper()
		r := slb.CreateListTagResourcesRequest()
		r.ResourceType, r.ResourceId = "instance", &[]string{"lb-a"}
		resp, err := client.ListTagResources(r)
		simtest.Check(t, err)
		return len(resp.TagResources.TagResource)
	}
	set := slb.CreateTagResourcesRequest()
	set.ResourceType, set.ResourceId, set.Tag = "instance", &[]string{"lb-a"}, &[]slb.TagResourcesTag{{Key: "new", Value: "1"}}
	_, err := client.TagResources(set)
	simtest.Check(t, err)
	if found("new") != 0 || listed() != 1 {
		t.Error("a tag shows at once")
	}
	pass(5 * time.Second)
	unset := slb.CreateUntagResourcesRequest()
	unset.ResourceType, unset.ResourceId, unset.TagKey = "instance", &[]string{"lb-a"}, &[]string{"old"}
	_, err = client.UntagResources(unset)
	simtest.Check(t, err)
	pass(6 * time.Second) // the first change is visible, the second is not
	if found("new") != 1 || found("old") != 1 || listed() != 2 {
		t.Errorf("between the two changes: %d, %d, %d", found("new"), found("old"), listed())
	}
	pass(5 * time.Second)
	if found("new") != 1 || found("old") != 0 || listed() != 1 {
		t.Errorf("after both changes: %d, %d, %d", found("new"), found("old"), listed())
	}
	_, err = simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) {
		r.Tag = &[]slb.CreateLoadBalancerTag{{Key: "made", Value: "1"}}
	})
	simtest.Check(t, err)
	if found("made") != 0 {
		t.Error("what was just made is found by its tag")
	}
	pass(11 * time.Second)
	if found("made") != 1 {
		t.Error("what was made is never found by its tag")
	}
}

func TestFreeIPLag(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-a", Free: new(1)}}, Lag: sim.Lag{FreeIP: sim.Duration(time.Minute)}},
		sim.WithClock(func() time.Time { return now }))
	free := func() int64 {
		t.Helper()
		resp, err := simtest.Dial(t, c, c.Admin(), vpc.NewClientWithOptions).DescribeVSwitches(vpc.CreateDescribeVSwitchesRequest())
		simtest.Check(t, err)
		return resp.VSwitches.VSwitch[0].AvailableIpAddressCount
	}
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	in := func(r *slb.CreateLoadBalancerRequest) { r.AddressType, r.VSwitchId = "intranet", "vsw-a" }
	_, err := simtest.Create(client, in)
	simtest.Check(t, err)
	if free() != 1 {
		t.Errorf("%d addresses are shown, want the 1 of before", free())
	}
	_, err = simtest.Create(client, in) // regardless of what is shown
	simtest.Refused(t, err, "VSwitchAvailableIpNotExist", 400)
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	if free() != 0 {
		t.Errorf("%d addresses are shown, want 0", free())
	}
}

func TestQuotaLag(t *testing.T) {
	now := time.Now()
	c := sim.New(t, nil, sim.WithClock(func() time.Time { return now }))
	client := simtest.Dial(t, c, c.Admin(), quotas.NewClientWithOptions)
	l := quotas.CreateListProductQuotasRequest()
	l.ProductCode, l.KeyWord = "slb", "slb_quota_backendservers_num"
	list, err := client.ListProductQuotas(l)
	simtest.Check(t, err)
	a := quotas.CreateCreateQuotaApplicationRequest()
	a.ProductCode, a.QuotaActionCode, a.DesireValue, a.Reason = "slb", list.Quotas[0].QuotaActionCode, requests.NewFloat(300), "more"
	app, err := client.CreateQuotaApplication(a)
	simtest.Check(t, err)
	_, err = client.CreateQuotaApplication(a)
	simtest.Refused(t, err, "QUOTA.APPLICATION.PROCESS", 400)
	g := quotas.CreateGetQuotaApplicationRequest()
	g.ApplicationId = app.ApplicationId
	status := func() string {
		t.Helper()
		resp, err := client.GetQuotaApplication(g)
		simtest.Check(t, err)
		return resp.QuotaApplication.Status
	}
	c.Edit(func(*sim.State) { now = now.Add(10 * time.Minute) })
	if got := status(); got != "Process" {
		t.Errorf("an application that pends is %s", got)
	}
	c.Edit(func(s *sim.State) { s.Lag.Quotas = sim.Duration(5 * time.Minute) })
	if got := status(); got != "Agree" {
		t.Errorf("an old application is %s", got)
	}
	if list, err = client.ListProductQuotas(l); err != nil || list.Quotas[0].TotalQuota != 300 {
		t.Errorf("got %+v, %v", list, err)
	}
	apps := quotas.CreateListQuotaApplicationsRequest()
	apps.ProductCode, apps.Status = "slb", "Agree"
	if got, err := client.ListQuotaApplications(apps); err != nil || len(got.QuotaApplications) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	g.ApplicationId = "app-none"
	_, err = client.GetQuotaApplication(g)
	simtest.Refused(t, err, "QUOTA.APPLICATION.NOT.FOUND", 400)
}

func TestAttachmentLag(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		RAM:      sim.RAM{Delay: sim.Duration(time.Minute)},
		Roles:    []sim.Role{{Name: "masters"}},
		Policies: []sim.Policy{{Name: "p", Versions: simtest.Policy(`{"Effect":"Allow","Action":"vpc:*","Resource":"*"}`)}},
		Callers:  []sim.Caller{{Name: "ccm", AccessKeyID: "LTAI-ccm", Secret: "s", Role: "masters"}},
	}, sim.WithClock(func() time.Time { return now }))
	describe := func() error {
		_, err := simtest.Dial(t, c, sim.Credentials{AccessKeyID: "LTAI-ccm", Secret: "s"}, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
		return err
	}
	client := simtest.Dial(t, c, c.Admin(), ram.NewClientWithOptions)
	a := ram.CreateAttachPolicyToRoleRequest()
	a.PolicyName, a.PolicyType, a.RoleName = "p", "Custom", "masters"
	_, err := client.AttachPolicyToRole(a)
	simtest.Check(t, err)
	_, err = client.AttachPolicyToRole(a)
	simtest.Refused(t, err, "EntityAlreadyExists.Role.Policy", 409)
	simtest.Refused(t, describe(), "NoPermission", 403)
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	simtest.Check(t, describe())
	d := ram.CreateDetachPolicyFromRoleRequest()
	d.PolicyName, d.PolicyType, d.RoleName = "p", "Custom", "masters"
	_, err = client.DetachPolicyFromRole(d)
	simtest.Check(t, err)
	_, err = client.DetachPolicyFromRole(d)
	simtest.Refused(t, err, "EntityNotExist.Role.Policy", 404)
	simtest.Check(t, describe())
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	simtest.Refused(t, describe(), "NoPermission", 403)
}

func TestForgetTokens(t *testing.T) {
	c := sim.New(t, &sim.World{ForgetTokens: true})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	made := func() string {
		t.Helper()
		lb, err := simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) { r.ClientToken = "t" })
		simtest.Check(t, err)
		return lb.LoadBalancerId
	}
	first := made()
	if again := made(); again != first {
		t.Errorf("a token of what is there made %s besides %s", again, first)
	}
	c.DropLoadBalancer(first)
	if again := made(); again == first {
		t.Error("a token of what is gone brought it back")
	}
}

func TestSameAddress(t *testing.T) {
	c := sim.New(t, &sim.World{
		VPCs:      []sim.VPC{{ID: "vpc-a"}, {ID: "vpc-b"}},
		VSwitches: []sim.VSwitch{{ID: "vsw-a", VPC: "vpc-a", CIDR: "10.0.0.0/24"}, {ID: "vsw-b", VPC: "vpc-b", CIDR: "10.0.0.0/24"}},
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-a", VSwitch: "vsw-a", Address: "10.0.0.9"}, {ID: "lb-b", VSwitch: "vsw-b", Address: "10.0.0.9"},
			{ID: "lb-api", Name: "ManagedK8SSlbIntranet", VSwitch: "vsw-a", Address: "10.0.0.10", Tags: map[string]string{"ack.aliyun.com": "c1"}},
		},
		EIPs: []sim.EIP{{ID: "eip-a", IP: "198.51.100.7", Instance: "lb-a"}},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	r := slb.CreateDescribeLoadBalancersRequest()
	r.Address = "10.0.0.9"
	both, err := client.DescribeLoadBalancers(r)
	simtest.Check(t, err)
	r.VpcId = "vpc-b"
	one, err := client.DescribeLoadBalancers(r)
	simtest.Check(t, err)
	if both.TotalCount != 2 || one.TotalCount != 1 || one.LoadBalancers.LoadBalancer[0].LoadBalancerId != "lb-b" {
		t.Errorf("got %+v and %+v", both.LoadBalancers, one.LoadBalancers)
	}
	_, err = simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) {
		r.AddressType, r.VSwitchId, r.Address = "intranet", "vsw-a", "10.0.0.9"
	})
	simtest.Refused(t, err, "InvalidParameter", 400)
	api := slb.CreateDescribeLoadBalancersRequest()
	api.Tag = &[]slb.DescribeLoadBalancersTag{{Key: "ack.aliyun.com", Value: "c1"}}
	if got, err := client.DescribeLoadBalancers(api); err != nil || got.TotalCount != 1 || got.LoadBalancers.LoadBalancer[0].LoadBalancerId != "lb-api" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRegions(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}}, NLBs: []sim.NLB{{ID: "nlb-a"}}})
	call := func(action, version, host string, query url.Values) (int, map[string]any) {
		t.Helper()
		return acs3{cloud: c, key: c.Admin(), action: action, version: version, host: host, query: query}.send(t)
	}
	const clb = "2014-05-15"
	id := url.Values{"LoadBalancerId": {"lb-a"}}
	for _, tt := range []struct {
		name, action, version, host string
		query                       url.Values
		status                      int
		code                        string
	}{
		{"its endpoint", "DescribeLoadBalancerAttribute", clb, "slb.cn-hangzhou.aliyuncs.com", id, 200, ""},
		{"its VPC endpoint", "DescribeLoadBalancerAttribute", clb, "slb-vpc.cn-hangzhou.aliyuncs.com", id, 200, ""},
		{"the central endpoint", "DescribeLoadBalancerAttribute", clb, "slb.aliyuncs.com", id, 200, ""},
		{"one address for all", "DescribeLoadBalancerAttribute", clb, "127.0.0.1:1", id, 200, ""},
		{"with a port", "DescribeLoadBalancerAttribute", clb, "slb.cn-hangzhou.aliyuncs.com:443", id, 200, ""},
		{"another region's endpoint", "DescribeLoadBalancerAttribute", clb, "slb.cn-shanghai.aliyuncs.com", id, 404, "InvalidLoadBalancerId.NotFound"},
		{"another region", "DescribeLoadBalancerAttribute", clb, "127.0.0.1:1", url.Values{"LoadBalancerId": {"lb-a"}, "RegionId": {"cn-shanghai"}}, 404,
			"InvalidLoadBalancerId.NotFound"},
		{"no region", "DescribeLoadBalancerAttribute", clb, "127.0.0.1:1", url.Values{"LoadBalancerId": {"lb-a"}, "RegionId": {"nowhere"}}, 404,
			"InvalidRegionId.NotFound"},
		{"another product's endpoint", "DescribeLoadBalancerAttribute", clb, "vpc.cn-hangzhou.aliyuncs.com", id, 404, "InvalidVersion"},
		{"an old endpoint", "DescribeInstances", "2014-05-26", "ecs-cn-hangzhou.aliyuncs.com", nil, 200, ""},
		{"a product of no region", "GetCallerIdentity", "2015-04-01", "sts.cn-shanghai.aliyuncs.com", nil, 200, ""},
		{"money", "QueryAccountBalance", "2017-12-14", "business.aliyuncs.com", nil, 200, ""},
	} {
		if status, out := call(tt.action, tt.version, tt.host, tt.query); status != tt.status || tt.code != "" && out["Code"] != tt.code {
			t.Errorf("%s: got %d %v, want %d %s", tt.name, status, out, tt.status, tt.code)
		}
	}
	if status, out := call("CreateLoadBalancer", clb, "slb.cn-shanghai.aliyuncs.com", nil); status != http.StatusOK {
		t.Errorf("got %d %v", status, out)
	}
	_, there := call("DescribeLoadBalancers", clb, "slb.cn-shanghai.aliyuncs.com", nil)
	_, here := call("DescribeLoadBalancers", clb, "slb.cn-hangzhou.aliyuncs.com", nil)
	if there["TotalCount"] != 1.0 || here["TotalCount"] != 1.0 || simtest.Text(t, there["LoadBalancers"]) == simtest.Text(t, here["LoadBalancers"]) {
		t.Errorf("got %v and %v", there, here)
	}
	if _, out := call("DescribeVpcs", "2016-04-28", "vpc.cn-beijing.aliyuncs.com", nil); out["TotalCount"] != 0.0 {
		t.Errorf("got %v", out)
	}
}

// TestNLBFaults: faults use NLB's own error texts, and can apply to one caller.
func TestNLBFaults(t *testing.T) {
	c := sim.New(t, nil)
	list := func(k sim.Credentials) error {
		_, err := simtest.Dial(t, c, k, nlb.NewClientWithOptions).ListLoadBalancers(nlb.CreateListLoadBalancersRequest())
		return err
	}
	for code, want := range map[string]string{
		"Throttling.User": "Request was denied due to api flow control.", "SystemBusy": "System is busy, please try again later.",
		"InvalidSecurityToken.Expired": "Specified SecurityToken is expired.",
	} {
		c.Fault(sim.Fault{Code: code, Caller: "admin", Count: 2})
		simtest.Check(t, list(c.Client("other", "nlb:*")))
		for range 2 {
			if e := simtest.Refused(t, list(c.Admin()), code, 400); e.Message() != want {
				t.Errorf("%s: got %q", code, e.Message())
			}
		}
		simtest.Check(t, list(c.Admin()))
	}
	c.Fault(sim.Fault{Code: "ServiceUnavailable", Count: 1})
	simtest.Refused(t, list(c.Admin()), "ServiceUnavailable", 503)
}
