package ram_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestUserPolicies(t *testing.T) {
	c := sim.New(t, &sim.World{
		Policies: []sim.Policy{{Name: "p", Users: []string{"ann"}, Versions: simtest.Policy(`{"Effect":"Allow","Action":["vpc:*","ram:*"],"Resource":"*"}`)}},
		Callers:  []sim.Caller{{Name: "ann", AccessKeyID: "LTAI-ann", Secret: "s", User: "ann"}, {Name: "bob", AccessKeyID: "LTAI-bob", Secret: "s", User: "bob"}},
	})
	_, err := simtest.Dial(t, c, sim.Credentials{AccessKeyID: "LTAI-bob", Secret: "s"}, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
	simtest.Refused(t, err, "NoPermission", 403)
	ann := sim.Credentials{AccessKeyID: "LTAI-ann", Secret: "s"}
	_, err = simtest.Dial(t, c, ann, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
	simtest.Check(t, err)
	client := simtest.Dial(t, c, ann, ram.NewClientWithOptions)
	r := ram.CreateGetPolicyVersionRequest()
	r.PolicyName, r.PolicyType, r.VersionId = "p", "Custom", "v1"
	if got, err := client.GetPolicyVersion(r); err != nil || !got.PolicyVersion.IsDefaultVersion || !strings.Contains(got.PolicyVersion.PolicyDocument, "vpc:*") {
		t.Errorf("got %+v, %v", got, err)
	}
	r.VersionId = "v9"
	_, err = client.GetPolicyVersion(r)
	simtest.Refused(t, err, "EntityNotExist.Policy.Version", 404)
}

func TestRAM(t *testing.T) {
	const account = "1298765432101234"
	for _, tt := range []struct {
		name    string
		version []sim.PolicyVersion
		deny    string
	}{
		{"no policy", simtest.Policy(`{"Effect":"Allow","Action":"ecs:*","Resource":"*"}`), "ImplicitDeny"},
		{"allowed", simtest.Policy(`{"Effect":"Allow","Action":["ecs:*","slb:DescribeLoadBalancerAttribute"],"Resource":"*"}`), ""},
		{"wildcard", simtest.Policy(`{"Effect":"Allow","Action":"slb:Describe*","Resource":["*"]}`), ""},
		{"letter case", simtest.Policy(`{"Effect":"Allow","Action":"SLB:describe*","Resource":"*"}`), ""},
		{"this resource", simtest.Policy(`{"Effect":"Allow","Action":"slb:*","Resource":"acs:slb:*:` + account + `:loadbalancer/lb-a"}`), ""},
		{"another resource", simtest.Policy(`{"Effect":"Allow","Action":"slb:*","Resource":"acs:slb:*:*:loadbalancer/lb-b"}`), "ImplicitDeny"},
		{"denied", simtest.Policy(`{"Effect":"Allow","Action":"*","Resource":"*"}`, `{"Effect":"Deny","Action":"slb:Describe*","Resource":"*"}`), "ExplicitDeny"},
		{"other denied", simtest.Policy(`{"Effect":"Allow","Action":"*","Resource":"*"}`, `{"Effect":"Deny","Action":"slb:Delete*","Resource":"*"}`), ""},
		{"not action", simtest.Policy(`{"Effect":"Allow","NotAction":"slb:Delete*","Resource":"*"}`), ""},
		{"condition", simtest.Policy(`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"IpAddress":{"acs:SourceIp":"10.0.0.1"}}}`), "ImplicitDeny"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := sim.New(t, &sim.World{
				LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}},
				Roles:         []sim.Role{{Name: "worker", Policies: []string{"p"}}},
				Policies:      []sim.Policy{{Name: "p", Versions: tt.version}},
				Callers:       []sim.Caller{{Name: "ccm", Role: "worker"}},
			})
			_, err := simtest.Attribute(simtest.Dial(t, c, c.Snapshot().Callers[0].Credentials(), slb.NewClientWithOptions), "lb-a")
			if tt.deny == "" {
				simtest.Check(t, err)
				return
			}
			e := simtest.Refused(t, err, "Forbidden.RAM", 403)
			if e.Message() != "User not authorized to operate on the specified resource, or this API doesn't support RAM." {
				t.Errorf("got %q", e.Message())
			}
			if d := e.AccessDeniedDetail(); d["AuthAction"] != "slb:DescribeLoadBalancerAttribute" || d["NoPermissionType"] != tt.deny {
				t.Errorf("got %v", d)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	c := sim.New(t, nil)
	k := c.Client("nobody")
	_, err := simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVSwitches(vpc.CreateDescribeVSwitchesRequest())
	if e := simtest.Refused(t, err, "NoPermission", 403); e.Message() != "You are not authorized to do this action. You should be authorized by RAM." {
		t.Errorf("got %q", e.Message())
	}
	_, err = simtest.Dial(t, c, k, ecs.NewClientWithOptions).DescribeNetworkInterfaces(ecs.CreateDescribeNetworkInterfacesRequest())
	simtest.Refused(t, err, "NoPermission", 403)
	r := cs.CreateDescribeClusterDetailRequest()
	r.ClusterId = c.Snapshot().Cluster.ID
	_, err = simtest.Dial(t, c, k, cs.NewClientWithOptions).DescribeClusterDetail(r)
	if e := simtest.Refused(t, err, "", 403); !strings.Contains(e.Message(), `"code":"StatusForbidden"`) || !strings.Contains(e.Message(), `"requestId"`) {
		t.Errorf("got %q", e.Message())
	}
	c.Grant("nobody", "vpc:DescribeVSwitches")
	_, err = simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVSwitches(vpc.CreateDescribeVSwitchesRequest())
	simtest.Check(t, err)
	c.Revoke("nobody", "vpc:Describe*")
	_, err = simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVSwitches(vpc.CreateDescribeVSwitchesRequest())
	simtest.Refused(t, err, "NoPermission", 403)
}

// TestHolder: any RAM name of an action allows it, and a holder has only its document's rights.
func TestHolder(t *testing.T) {
	c := sim.New(t, nil)
	id := c.Snapshot().Cluster.ID
	for name, tt := range map[string]struct {
		action, resource string
		good             bool
	}{
		"first name":  {"cs:DescribeClusterDetail", "acs:cs:*:*:cluster/*", true},
		"last name":   {"cs:GetClusterById", "acs:cs:*:*:cluster/" + id, true},
		"other":       {"cs:DescribeClusterDetail", "acs:cs:*:*:cluster/other", false},
		"no action":   {"cs:DescribeClusterNodePools", "*", false},
		"all of them": {"*", "*", true},
	} {
		k := c.Holder(name, `{"Version":"1","Statement":[{"Effect":"Allow","Action":"`+tt.action+`","Resource":"`+tt.resource+`"}]}`)
		r := cs.CreateDescribeClusterDetailRequest()
		r.ClusterId = id
		_, err := simtest.Dial(t, c, k, cs.NewClientWithOptions).DescribeClusterDetail(r)
		if (err == nil) != tt.good {
			t.Errorf("%s: got %v, want it allowed: %t", name, err, tt.good)
		}
	}
}

// TestFilteredLists shows why an empty list proves nothing.
func TestFilteredLists(t *testing.T) {
	c := sim.New(t, &sim.World{
		RAM:           sim.RAM{FilterLists: true},
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}, {ID: "lb-b"}},
		Roles:         []sim.Role{{Name: "some", Policies: []string{"p"}}},
		Policies:      []sim.Policy{{Name: "p", Versions: simtest.Policy(`{"Effect":"Allow","Action":"slb:*","Resource":"acs:slb:*:*:loadbalancer/lb-b"}`)}},
		Callers:       []sim.Caller{{Name: "some", AccessKeyID: "LTAI-some", Secret: "s", Role: "some"}},
	})
	for _, tt := range []struct {
		key  sim.Credentials
		want int
	}{{c.Admin(), 2}, {c.Client("nobody"), 0}, {sim.Credentials{AccessKeyID: "LTAI-some", Secret: "s"}, 1}} {
		resp, err := simtest.Dial(t, c, tt.key, slb.NewClientWithOptions).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
		simtest.Check(t, err)
		if resp.TotalCount != tt.want {
			t.Errorf("%s sees %d, want %d", tt.key.AccessKeyID, resp.TotalCount, tt.want)
		}
	}
}

func TestPolicyVersions(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		Cluster: sim.Cluster{Type: "Kubernetes", MasterRole: "masters"},
		RAM:     sim.RAM{Delay: sim.Duration(time.Minute)},
		Policies: []sim.Policy{{Name: "k8sMasterRolePolicy-Ccm-1", Versions: simtest.Policy(`{"Effect":"Allow","Action":"slb:*","Resource":"*"}`),
			Roles: []string{"masters"}}},
		Callers: []sim.Caller{{Name: "ccm", Role: "masters"}},
	}, sim.WithClock(func() time.Time { return now }))
	ccm := simtest.Dial(t, c, c.Snapshot().Callers[0].Credentials(), vpc.NewClientWithOptions)
	describe := func() error {
		_, err := ccm.DescribeVSwitches(vpc.CreateDescribeVSwitchesRequest())
		return err
	}
	client := simtest.Dial(t, c, c.Admin(), ram.NewClientWithOptions)
	make := func(document, rotate string) (*ram.CreatePolicyVersionResponse, error) {
		r := ram.CreateCreatePolicyVersionRequest()
		r.PolicyName, r.PolicyDocument, r.SetAsDefault, r.RotateStrategy = "k8sMasterRolePolicy-Ccm-1", document, requests.NewBoolean(true), rotate
		return client.CreatePolicyVersion(r)
	}
	l := ram.CreateListPoliciesForRoleRequest()
	l.RoleName = "masters"
	policies, err := client.ListPoliciesForRole(l)
	simtest.Check(t, err)
	if p := policies.Policies.Policy; len(p) != 1 || p[0].PolicyName != "k8sMasterRolePolicy-Ccm-1" || p[0].PolicyType != "Custom" || p[0].DefaultVersion != "v1" {
		t.Errorf("got %+v", p)
	}

	simtest.Refused(t, describe(), "NoPermission", 403)
	both := simtest.Policy(`{"Effect":"Allow","Action":["slb:*","vpc:*"],"Resource":"*"}`)[0].Document
	_, err = make(both, "")
	simtest.Check(t, err)
	simtest.Refused(t, describe(), "NoPermission", 403) // not in effect yet
	c.Edit(func(*sim.State) { now = now.Add(61 * time.Second) })
	simtest.Check(t, describe())

	for range 3 {
		_, err = make(both, "None")
		simtest.Check(t, err)
	}
	_, err = make(both, "None")
	simtest.Refused(t, err, "LimitExceeded.Policy.Version", 409)
	_, err = make(strings.Repeat(" ", 6145), "")
	simtest.Refused(t, err, "InvalidParameter.PolicyDocument.Length", 400)
	_, err = make("{}", "")
	simtest.Refused(t, err, "MalformedPolicyDocument", 400)
	v, err := make(both, "DeleteOldestNonDefaultVersionWhenLimitExceeded")
	simtest.Check(t, err)
	versions := func() []string {
		r := ram.CreateListPolicyVersionsRequest()
		r.PolicyName, r.PolicyType = "k8sMasterRolePolicy-Ccm-1", "Custom"
		resp, err := client.ListPolicyVersions(r)
		simtest.Check(t, err)
		var ids []string
		for _, v := range resp.PolicyVersions.PolicyVersion {
			ids = append(ids, fmt.Sprint(v.VersionId, v.IsDefaultVersion))
		}
		return ids
	}
	if got := versions(); v.PolicyVersion.VersionId != "v6" || !slices.Equal(got, []string{"v2false", "v3false", "v4false", "v5false", "v6true"}) {
		t.Errorf("got %v", got)
	}
	set := ram.CreateSetDefaultPolicyVersionRequest()
	set.PolicyName, set.VersionId = "k8sMasterRolePolicy-Ccm-1", "v2"
	_, err = client.SetDefaultPolicyVersion(set)
	simtest.Check(t, err)
	del := ram.CreateDeletePolicyVersionRequest()
	del.PolicyName, del.VersionId = "k8sMasterRolePolicy-Ccm-1", "v2"
	_, err = client.DeletePolicyVersion(del)
	simtest.Refused(t, err, "DeleteConflict.Policy.Version", 409)
	del.VersionId = "v6"
	_, err = client.DeletePolicyVersion(del)
	simtest.Check(t, err)
	if v, err = make(both, ""); err != nil || v.PolicyVersion.VersionId != "v7" {
		t.Errorf("a number was used again: %+v, %v", v, err)
	}
	g := ram.CreateGetPolicyRequest()
	g.PolicyName, g.PolicyType = "k8sMasterRolePolicy-Ccm-1", "Custom"
	p, err := client.GetPolicy(g)
	simtest.Check(t, err)
	if p.DefaultPolicyVersion.VersionId != "v7" || p.DefaultPolicyVersion.PolicyDocument != both {
		t.Errorf("got %+v", p)
	}
	e := ram.CreateListEntitiesForPolicyRequest()
	e.PolicyName, e.PolicyType = "k8sMasterRolePolicy-Ccm-1", "Custom"
	entities, err := client.ListEntitiesForPolicy(e)
	simtest.Check(t, err)
	if r := entities.Roles.Role; len(r) != 1 || r[0].RoleName != "masters" {
		t.Errorf("got %+v", r)
	}
	g.PolicyName, g.PolicyType = "AdministratorAccess", "System"
	_, err = client.GetPolicy(g)
	simtest.Check(t, err)
	g.PolicyName = "none"
	_, err = client.GetPolicy(g)
	simtest.Refused(t, err, "EntityNotExist.Policy", 404)
	role := ram.CreateGetRoleRequest()
	role.RoleName = "none"
	_, err = client.GetRole(role)
	simtest.Refused(t, err, "EntityNotExist.Role", 404)
}

func TestSTS(t *testing.T) {
	c := sim.New(t, &sim.World{Roles: []sim.Role{{Name: "Reader", Policies: []string{"AliyunVPCFullAccess", "AliyunSTSFullAccess"}}}})
	r := sts.CreateAssumeRoleRequest()
	r.RoleArn, r.RoleSessionName = "acs:ram::1298765432101234:role/reader", "me"
	a, err := simtest.Dial(t, c, c.Admin(), sts.NewClientWithOptions).AssumeRole(r)
	simtest.Check(t, err)
	k := sim.Credentials{AccessKeyID: a.Credentials.AccessKeyId, Secret: a.Credentials.AccessKeySecret, Token: a.Credentials.SecurityToken}
	_, err = simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
	simtest.Check(t, err)
	_, err = simtest.Dial(t, c, k, slb.NewClientWithOptions).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	simtest.Refused(t, err, "Forbidden.RAM", 403)
	id, err := simtest.Dial(t, c, k, sts.NewClientWithOptions).GetCallerIdentity(sts.CreateGetCallerIdentityRequest())
	simtest.Check(t, err)
	if id.AccountId != "1298765432101234" || id.IdentityType != "AssumedRoleUser" || id.Arn != "acs:ram::1298765432101234:assumed-role/reader/me" {
		t.Errorf("got %+v", id)
	}
}
