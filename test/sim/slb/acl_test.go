package slb_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestRules(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{simtest.Web()}, Quotas: []sim.Quota{{Name: "slb_quota_rules_num", Total: 2}}})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	make := func(port int, list string) (*slb.CreateRulesResponse, error) {
		r := slb.CreateCreateRulesRequest()
		r.LoadBalancerId, r.ListenerPort, r.RuleList = "lb-a", requests.NewInteger(port), list
		return client.CreateRules(r)
	}
	drop := func(group string) error {
		r := slb.CreateDeleteVServerGroupRequest()
		r.VServerGroupId = group
		_, err := client.DeleteVServerGroup(r)
		return err
	}
	made, err := make(80, `[{"RuleName":"api","Domain":"a.example","Url":"/api","VServerGroupId":"rsp-b"}]`)
	simtest.Check(t, err)
	id := made.Rules.Rule[0].RuleId
	for _, tt := range []struct {
		port       int
		list, code string
	}{
		{81, `[{"RuleName":"x","Url":"/","VServerGroupId":"rsp-b"}]`, "RuleNotSupport"},
		{80, `[]`, "RuleListMalformed"},
		{80, `[{"RuleName":"x","Url":"api","VServerGroupId":"rsp-b"}]`, "UrlMalformed"},
		{80, `[{"RuleName":"x","Url":"/x","VServerGroupId":"rsp-x"}]`, "InvalidParameter"},
		{80, `[{"RuleName":"x","Domain":"a.example","Url":"/api","VServerGroupId":"rsp-b"}]`, "DomainExist"},
		{80, `[{"RuleName":"x","Url":"/x","VServerGroupId":"rsp-b"},{"RuleName":"y","Url":"/y","VServerGroupId":"rsp-b"}]`, "TooManyRules"},
	} {
		_, err := make(tt.port, tt.list)
		simtest.Refused(t, err, tt.code, 400)
	}
	simtest.Refused(t, drop("rsp-a"), "RspoolVipExist", 400)
	if e := simtest.Refused(t, drop("rsp-b"), "RspoolRuleExist", 400); e.Message() != "there are rules associating with this vServer group." {
		t.Errorf("got %q", e.Message())
	}
	groups := slb.CreateDescribeVServerGroupsRequest()
	groups.LoadBalancerId, groups.IncludeRule = "lb-a", requests.NewBoolean(true)
	g, err := client.DescribeVServerGroups(groups)
	simtest.Check(t, err)
	if l := g.VServerGroups.VServerGroup[1].AssociatedObjects.Rules.Rule; len(l) != 1 || l[0].RuleId != id || l[0].Url != "/api" {
		t.Errorf("got %+v", l)
	}
	set := slb.CreateSetRuleRequest()
	set.RuleId, set.VServerGroupId = id, "rsp-a"
	_, err = client.SetRule(set)
	simtest.Check(t, err)
	d := slb.CreateDescribeRuleAttributeRequest()
	d.RuleId = id
	if r, err := client.DescribeRuleAttribute(d); err != nil || r.VServerGroupId != "rsp-a" || r.ListenerPort != "80" || r.LoadBalancerId != "lb-a" {
		t.Errorf("got %+v, %v", r, err)
	}
	simtest.Check(t, drop("rsp-b"))
	del := slb.CreateDeleteRulesRequest()
	del.RuleIds = `["` + id + `"]`
	_, err = client.DeleteRules(del)
	simtest.Check(t, err)
	_, err = client.DeleteRules(del)
	simtest.Refused(t, err, "InvalidRuleId.NotFound", 404)
}

func TestAccessControlLists(t *testing.T) {
	c := sim.New(t, &sim.World{
		LoadBalancers: []sim.LoadBalancer{simtest.Web()}, Certificates: []sim.Certificate{{ID: "cert-a"}},
		ACLs: []sim.ACL{{ID: "acl-office", Name: "office", Entries: []sim.ACLEntry{{Block: "192.0.2.0/24"}}}},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	bind := func(acl string) error {
		r := slb.CreateSetLoadBalancerTCPListenerAttributeRequest()
		r.LoadBalancerId, r.ListenerPort, r.AclStatus, r.AclType, r.AclId = "lb-a", requests.NewInteger(81), "on", "white", acl
		_, err := client.SetLoadBalancerTCPListenerAttribute(r)
		return err
	}
	simtest.Refused(t, bind("acl-x"), "AclNotExist", 400)
	simtest.Check(t, bind("acl-office"))
	get := func() (*slb.DescribeAccessControlListAttributeResponse, error) {
		r := slb.CreateDescribeAccessControlListAttributeRequest()
		r.AclId = "acl-office"
		return client.DescribeAccessControlListAttribute(r)
	}
	add := func(entries string) error {
		r := slb.CreateAddAccessControlListEntryRequest()
		r.AclId, r.AclEntrys = "acl-office", entries
		_, err := client.AddAccessControlListEntry(r)
		return err
	}
	simtest.Check(t, add(`[{"entry":"198.51.100.0/24","comment":"lab"},{"entry":"198.51.100.0/24"}]`))
	simtest.Refused(t, add(`[{"entry":"192.0.2.0/24"}]`), "InvalidParam.AclEntryExists", 400)
	simtest.Refused(t, add(`[{"entry":"2001:db8::/64"}]`), "IllegalEntry", 400)
	simtest.Refused(t, add(`[{"entry":"all"}]`), "InvalidEntry", 400)
	a, err := get()
	simtest.Check(t, err)
	if e, l := a.AclEntrys.AclEntry, a.RelatedListeners.RelatedListener; len(e) != 2 || e[1].AclEntryComment != "lab" || len(l) != 1 ||
		l[0].ListenerPort != 81 || l[0].AclType != "white" {
		t.Errorf("got %+v", a)
	}
	del := slb.CreateDeleteAccessControlListRequest()
	del.AclId = "acl-office"
	_, err = client.DeleteAccessControlList(del)
	simtest.Refused(t, err, "OperationFailed.AclBindedWithVip", 400)
	list, err := client.DescribeAccessControlLists(slb.CreateDescribeAccessControlListsRequest())
	simtest.Check(t, err)
	if l := list.Acls.Acl; len(l) != 1 || l[0].AclId != "acl-office" || l[0].AclName != "office" {
		t.Errorf("got %+v", l)
	}
	https := slb.CreateCreateLoadBalancerHTTPSListenerRequest()
	https.LoadBalancerId, https.ListenerPort, https.ServerCertificateId = "lb-a", requests.NewInteger(444), "cert-x"
	_, err = client.CreateLoadBalancerHTTPSListener(https)
	simtest.Refused(t, err, "CertificateNotExist", 400)
	https.ServerCertificateId = "cert-a"
	_, err = client.CreateLoadBalancerHTTPSListener(https)
	simtest.Check(t, err)
}
