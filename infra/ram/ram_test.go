package ram

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	sdkram "github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestPolicy(t *testing.T) {
	got, err := Policy([]grant.Grant{
		grant.TagSLB, grant.GetServices, grant.DescribeLoadBalancers, grant.CreatePolicyVersion, grant.QueryAccountBalance, grant.GetCallerIdentity, grant.TagSLB,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Document{Version: "1", Statement: []Statement{
		{Effect: "Allow", Action: []string{"bss:DescribeAcccount", "sts:GetCallerIdentity"}, Resource: []string{"*"}},
		{Effect: "Allow", Action: []string{"ram:CreatePolicyVersion"}, Resource: []string{"acs:ram:*:*:policy/k8sMasterRolePolicy-*"}},
		{Effect: "Allow", Action: []string{"slb:DescribeLoadBalancers", "slb:TagResources"}, Resource: []string{"acs:slb:*:*:loadbalancer/*"}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("policy (-want +got):\n%s", d)
	}
	if got, err := Policy([]grant.Grant{grant.GetServices}); err != nil || len(got.Statement) != 0 {
		t.Errorf("got %v, %v for no RAM action, want no statement", got, err)
	}
	if _, err := Policy([]grant.Grant{{Action: "oss:PutObject"}}); err == nil || !strings.Contains(err.Error(), "oss:PutObject") {
		t.Errorf("got %v, want an error that names the action", err)
	}
	var long []grant.Grant
	for i := range 300 {
		long = append(long, grant.Grant{Action: "slb:Describe" + strings.Repeat("x", i)})
	}
	if _, err := Policy(long); err == nil || !strings.Contains(err.Error(), "6144") {
		t.Errorf("got %v, want an error about the length", err)
	}
}

func TestScopes(t *testing.T) {
	for i, s := range scopes {
		if s.source == "" || len(s.resources) == 0 {
			t.Errorf("row %d (%s) names no page or no resource", i, s.action)
		}
		product, _, _ := strings.Cut(s.action, ":")
		for _, r := range s.resources {
			if r != "*" && !strings.HasPrefix(r, "acs:"+product+":*:*:") {
				t.Errorf("row %d: %s is narrowed to %s, which is another product's", i, s.action, r)
			}
		}
	}
}

func TestEnforced(t *testing.T) {
	const masters, own = "k8sMasterRolePolicy-Ccm-c1", "lbremedy-ram-permission"
	document := sim.PolicyVersion{Document: `{"Version":"1","Statement":[{"Effect":"Allow","Action":"slb:*","Resource":"*"}]}`}
	c := sim.New(t, &sim.World{Policies: []sim.Policy{
		{Name: masters, Versions: []sim.PolicyVersion{document}}, {Name: own, Versions: []sim.PolicyVersion{document}},
	}})
	d, err := Policy([]grant.Grant{grant.GetPolicy, grant.CreatePolicyVersion})
	if err != nil {
		t.Fatal(err)
	}
	text := sim.Narrow(string(d.JSON()), c.Snapshot().AccountID, c.Region(), "c-1")
	key := c.Holder("fc", text)
	config := sdk.NewConfig()
	client, err := sdkram.NewClientWithOptions(c.Region(), config, credentials.NewStsTokenCredential(key.AccessKeyID, key.Secret, key.Token))
	if err != nil {
		t.Fatal(err)
	}
	client.Domain = c.Addr()
	write := func(name string) error {
		r := sdkram.CreateCreatePolicyVersionRequest()
		r.PolicyName, r.PolicyDocument = name, document.Document
		_, err := client.CreatePolicyVersion(r)
		return err
	}
	if err := write(masters); err != nil {
		t.Errorf("the policy of the masters: %v", err)
	}
	if err := write(own); err == nil || !strings.Contains(err.Error(), "NoPermission") {
		t.Errorf("got %v for a policy of ours, want a refusal", err)
	}
	r := sdkram.CreateGetPolicyRequest()
	r.PolicyName, r.PolicyType = own, "Custom"
	if _, err := client.GetPolicy(r); err != nil {
		t.Errorf("read a policy: %v", err)
	}
}

func TestNothingElse(t *testing.T) {
	tops, err := fs.ReadDir(os.DirFS("."), ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tops {
		got = append(got, e.Name())
	}
	want := []string{"generated", "ram.go", "ram_test.go", "roles.sh", "roles_test.go", "templates.go"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("infra/ram (-want +got):\n%s", d)
	}
}

func TestNarrow(t *testing.T) {
	d, err := Policy([]grant.Grant{grant.DescribeClusterUserKubeconfig, grant.TagSLB, grant.CreatePolicyVersion})
	if err != nil {
		t.Fatal(err)
	}
	got := sim.Narrow(string(d.JSON()), "1234567890123456", "cn-hangzhou", "c0ffee")
	for _, want := range []string{
		`"acs:cs:cn-hangzhou:1234567890123456:cluster/c0ffee"`, `"acs:slb:cn-hangzhou:1234567890123456:loadbalancer/*"`,
		`"acs:ram:*:*:policy/k8sMasterRolePolicy-*"`, // RAM has no regions, and system policies have another owner
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}
