package ccm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

func TestSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, statements string
		want             ccm.Permission
	}{
		{"named", `{"Effect":"Allow","Action":["slb:Describe*","nlb:ListAsynJobs"],"Resource":"*"}`, ccm.Allowed},
		{"in other letters", `{"Effect":"Allow","Action":"NLB:listasynjobs","Resource":["*"]}`, ccm.Allowed},
		{"by wildcards", `{"Effect":"Allow","Action":"n?b:*Jobs","Resource":"*"}`, ccm.Allowed},
		{"by all but others", `{"Effect":"Allow","NotAction":"ecs:*","Resource":"*"}`, ccm.Allowed},
		{"not named", `{"Effect":"Allow","Action":"nlb:List","Resource":"*"}`, ccm.NotAllowed},
		{"left out", `{"Effect":"Allow","NotAction":"nlb:*","Resource":"*"}`, ccm.NotAllowed},
		{"for a resource", `{"Effect":"Allow","Action":"nlb:*","Resource":"acs:nlb:*:*:loadbalancer/nlb-1"}`, ccm.Limited},
		{"on a condition", `{"Effect":"Allow","Action":"nlb:*","Resource":"*","Condition":{"IpAddress":{"acs:SourceIp":"10.0.0.0/8"}}}`, ccm.Limited},
		{"on no condition", `{"Effect":"Allow","Action":"nlb:*","Resource":"*","Condition":{}}`, ccm.Allowed},
		{"limited and allowed", `{"Effect":"Allow","Action":"nlb:*","Resource":"x"},{"Effect":"Allow","Action":"*","Resource":"*"}`, ccm.Allowed},
		{"denied", `{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"nlb:*","Resource":"x"}`, ccm.Denied},
		{"neither allowed nor denied", `{"Effect":"Other","Action":"*","Resource":"*"}`, ccm.NotAllowed},
	} {
		rules, err := ccm.ParsePolicy(`{"Version":"1","Statement":[` + tt.statements + `]}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := ccm.Says(rules, "nlb:ListAsynJobs"); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	for _, bad := range []string{"", "{}", `{"Statement":[]}`, `{"Statement":"x"}`, `{"Statement":[{"Action":{}}]}`} {
		if rules, err := ccm.ParsePolicy(bad); err == nil {
			t.Errorf("%q is a policy: %v", bad, rules)
		}
	}
	if got := ccm.AllowCommand("role-1", []string{"nlb:ListAsynJobs"}).
		String(); !strings.Contains(got, `--PolicyDocument '{"Version":"1","Statement":[{"Effect":"Allow","Action":["nlb:ListAsynJobs"],"Resource":["*"]}]}'`) ||
		!strings.HasSuffix(got, "--RoleName role-1") {
		t.Error(got)
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	rules, err := ccm.ParsePolicy(`{"Statement":[{"Effect":"Allow","Action":["a:all","a:not"],"Resource":"*"},{"Effect":"Allow","Action":"a:some",` +
		`"Resource":"x"},{"Effect":"Deny","Action":"a:not","Resource":"*"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	role := ccm.Role{Rules: rules}
	want := ccm.Gap{Missing: []string{"a:some", "a:never", "a:not"}, Absent: []string{"a:never"}, Limited: []string{"a:some"}, Denied: []string{"a:not"}}
	if diff := cmp.Diff(want, role.Lacks([]string{"a:some", "a:never", "a:all", "a:not"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(ccm.Gap{}, role.Lacks([]string{"a:all"})); diff != "" {
		t.Errorf("where all is allowed, -want +got:\n%s", diff)
	}
}

func TestExtendable(t *testing.T) {
	t.Parallel()
	const common, own = "k8sMasterRolePolicy-1", "k8sMasterRolePolicy-Ccm-2"
	for _, tt := range []struct {
		custom []string
		want   string
	}{
		{nil, ""},
		{[]string{"mine"}, ""},
		{[]string{"mine", common}, common},
		{[]string{own, common}, own},
		{[]string{common, own, "k8sMasterRolePolicy-Ccm-1"}, "k8sMasterRolePolicy-Ccm-1"},
	} {
		role := ccm.Role{Policies: []cloud.Policy{{Name: "k8sMasterRolePolicy-Ccm-0", Type: "System"}}}
		for _, name := range tt.custom {
			role.Policies = append(role.Policies, cloud.Policy{Name: name, Type: cloud.CustomPolicy})
		}
		if got := role.Extendable().Name; got != tt.want {
			t.Errorf("of %q it is %q, want %q", tt.custom, got, tt.want)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{
		`{"Version":"1","Statement":[{"Effect":"Allow","Action":["slb:*"],"Resource":"*"}]}`,
		`{"Statement":[{"Effect":"Deny","NotAction":"slb:Tag*","Condition":{}}]}`,
		`{"Statement":[{"Action":7}]}`, `{"Statement":null}`, `[]`, `{"Statement":[{"Effect":"Allow","Action":"**?*[","Resource":["*"]}]}`,
	} {
		f.Add(s, "slb:TagResources")
	}
	f.Fuzz(func(t *testing.T, document, action string) {
		rules, err := ccm.ParsePolicy(document)
		if (err == nil) != (len(rules) > 0) {
			t.Fatalf("%d statements, %v", len(rules), err)
		}
		before := ccm.Says(rules, action)
		if got := ccm.Says(append(rules, ccm.Statement{Effect: "Deny", Action: []string{"*"}, Resource: []string{"*"}}), action); got != ccm.Denied &&
			before != ccm.Denied {
			t.Errorf("%s: %v before all was denied, %v after", document, before, got)
		}
	})
}

// ACK asks every cluster for an action from a release on. It counts as asked for only while no Service needs it.
func TestAsked(t *testing.T) {
	t.Parallel()
	network := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("alibabacloud.com/nlb")}}
	for _, tt := range []struct {
		version  string
		services []corev1.Service
		want     string
	}{
		{"v2.11.1", nil, ""},
		{"v2.11.2", nil, "nlb:ListAsynJobs"},
		{"v2.14.0", nil, "nlb:ListAsynJobs"},
		{"v2.14.0", []corev1.Service{network}, ""},
	} {
		v, ok := ccm.ParseVersion(tt.version)
		if !ok {
			t.Fatal(tt.version)
		}
		if got := strings.Join(ccm.Asked(v, ccm.InUse(cloud.Cluster{}, tt.services, nil)), " "); got != tt.want {
			t.Errorf("%s with %d Services: got %q, want %q", tt.version, len(tt.services), got, tt.want)
		}
	}
}
