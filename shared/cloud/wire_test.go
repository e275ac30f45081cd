package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/google/go-cmp/cmp"
)

type rig struct {
	*Reader
	w *Writer
}

func wire(t testing.TB, h http.HandlerFunc, change ...func(*Config)) rig {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := Config{
		Region: "cn-hangzhou", ClusterID: "c1", Endpoint: s.Listener.Addr().String(), Scheme: "HTTP",
		Credentials: Static(Key{ID: "LTAI5tTheKeyOfTheTest", Secret: "the secret of the test", Token: "CAIS+the/token=="}),
	}
	for _, f := range change {
		f(&c)
	}
	reads, writes, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	reads.client.pause = func(int) time.Duration { return 0 }
	t.Cleanup(reads.Close)
	return rig{reads, writes}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func vswitch(ctx context.Context, c rig) error {
	_, err := c.VPC.VSwitches(ctx, "vpc-1")
	return err
}

func cluster(ctx context.Context, c rig) error {
	_, err := c.CS.Cluster(ctx)
	return err
}

func TestErrorAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		call   func(context.Context, rig) error
		want   Error
	}{
		"usual": {
			403, `{"RequestId":"R-1","Code":"NoPermission","Message":"You are not authorized.","AccessDeniedDetail":{"AuthAction":"vpc:DescribeVSwitches"}}`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "NoPermission", Message: "You are not authorized.", RequestID: "R-1",
				Refused: "vpc:DescribeVSwitches", Status: 403, kind: ErrDenied},
		},
		"the code is a number": {
			400, `{"RequestId":"R-1","Code":403,"Message":"no"}`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "403", Message: "no", RequestID: "R-1", Status: 400},
		},
		"the detail is a text": {
			403, `{"RequestId":"R-1","Code":"Forbidden.RAM","Message":"no","AccessDeniedDetail":"see there"}`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "Forbidden.RAM", Message: "no", RequestID: "R-1", Status: 403, kind: ErrDenied},
		},
		"lower case": {
			404, `{"code":"ErrorClusterNotFound","message":"cluster (c1) not found in our records","requestId":"R-2","status":404}`, cluster,
			Error{Product: "cs", Action: "DescribeClusterDetail", Code: "ErrorClusterNotFound", Message: "cluster (c1) not found in our records", RequestID: "R-2",
				Status: 404, kind: ErrNotFound},
		},
		"snake case": {
			403, `{"code":"StatusForbidden","message":"no","request_id":"R-3"}`, cluster,
			Error{Product: "cs", Action: "DescribeClusterDetail", Code: "StatusForbidden", Message: "no", RequestID: "R-3", Status: 403, kind: ErrDenied},
		},
		"another product's not found": {
			404, `{"RequestId":"R-1","Code":"InvalidLoadBalancerId.NotFound","Message":"no"}`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "InvalidLoadBalancerId.NotFound", Message: "no", RequestID: "R-1", Status: 404},
		},
		"forbidden, but not by RAM": {
			403, `{"RequestId":"R-1","Code":"Forbidden.LcuToSpec","Message":"no"}`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "Forbidden.LcuToSpec", Message: "no", RequestID: "R-1", Status: 403},
		},
		"a gateway": {
			502, `<html>Bad Gateway</html>`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "NoAnswer", Message: "status 502 with no error code", Status: 502, kind: ErrUnavailable},
		},
		"a proxy": {
			407, ``, cluster,
			Error{Product: "cs", Action: "DescribeClusterDetail", Code: "BadAnswer", Message: "status 407 with no error code", Status: 407, kind: ErrUnavailable},
		},
		"a wall": {
			403, `[]`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "BadAnswer", Message: "status 403 with no error code", Status: 403, kind: ErrDenied},
		},
		"a way elsewhere": {
			307, ``, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "BadAnswer", Message: "status 307 with no error code", Status: 307, kind: ErrUnavailable},
		},
		"too many": {
			429, `{"RequestId":"R-1","Code":"Slow","Message":"no"}`, vswitch,
			Error{Product: "vpc", Action: "DescribeVSwitches", Code: "Slow", Message: "no", RequestID: "R-1", Status: 429, kind: ErrThrottled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := wire(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
				says(tt.status, tt.body)(w, r)
			})
			err := tt.call(t.Context(), c)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if d := cmp.Diff(tt.want, *e, cmp.AllowUnexported(Error{}), cmp.Comparer(func(a, b error) bool { return a == b })); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Product: "slb", Action: "TagResources", Code: "Forbidden.RAM", Message: "not authorized", Refused: "slb:TagResources", RequestID: "R-1"}
	if got, want := e.Error(), "slb TagResources: Forbidden.RAM: not authorized (slb:TagResources) [request R-1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := (&Error{Product: "sts", Action: "GetCallerIdentity", Code: "X"}).Error(), "sts GetCallerIdentity: X"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if errors.Is(e, nil) || errors.Is(e, ErrNotFound) {
		t.Error("an error of no kind is of one")
	}
}

var everything = map[string]func(context.Context, rig) error{
	"LoadBalancer":  func(ctx context.Context, c rig) error { _, err := c.SLB.LoadBalancer(ctx, "lb-1"); return err },
	"LoadBalancers": func(ctx context.Context, c rig) error { _, err := c.SLB.LoadBalancers(ctx, LBFilter{}); return err },
	"Tags":          func(ctx context.Context, c rig) error { _, err := c.SLB.Tags(ctx, "lb-1"); return err },
	"Listeners":     func(ctx context.Context, c rig) error { _, err := c.SLB.Listeners(ctx, "lb-1"); return err },
	"VServerGroups": func(ctx context.Context, c rig) error { _, err := c.SLB.VServerGroups(ctx, "lb-1"); return err },
	"VServerGroup":  func(ctx context.Context, c rig) error { _, err := c.SLB.VServerGroup(ctx, "rsp-1"); return err },
	"VSwitches":     func(ctx context.Context, c rig) error { _, err := c.VPC.VSwitches(ctx, "vpc-1"); return err },
	"EIPs":          func(ctx context.Context, c rig) error { _, err := c.VPC.EIPs(ctx, "198.51.100.7"); return err },
	"Interfaces": func(ctx context.Context, c rig) error {
		_, err := c.ECS.Interfaces(ctx, "vpc-1", []string{"10.0.0.1"})
		return err
	},
	"Cluster":     cluster,
	"NodePools":   func(ctx context.Context, c rig) error { _, err := c.CS.NodePools(ctx); return err },
	"Addons":      func(ctx context.Context, c rig) error { _, err := c.CS.Addons(ctx); return err },
	"AddonConfig": func(ctx context.Context, c rig) error { _, err := c.CS.AddonConfig(ctx, "ccm"); return err },
	"DeleteProtection": func(ctx context.Context, c rig) error {
		_, err := c.CS.DeleteProtection(ctx, "shop", []string{"web"})
		return err
	},
	"MasterRole":   func(ctx context.Context, c rig) error { _, err := c.CS.MasterRole(ctx); return err },
	"RolePolicies": func(ctx context.Context, c rig) error { _, err := c.RAM.RolePolicies(ctx, "role"); return err },
	"Policy":       func(ctx context.Context, c rig) error { _, err := c.RAM.Policy(ctx, "p", CustomPolicy); return err },
	"PolicyVersions": func(ctx context.Context, c rig) error {
		_, err := c.RAM.PolicyVersions(ctx, "p", CustomPolicy)
		return err
	},
	"PolicyRoles": func(ctx context.Context, c rig) error {
		_, err := c.RAM.PolicyRoles(ctx, "p", CustomPolicy)
		return err
	},
	"Identity": func(ctx context.Context, c rig) error { _, err := c.STS.Identity(ctx); return err },
	"NLBs": func(ctx context.Context, c rig) error {
		_, err := c.NLB.Find(ctx, NLBFilter{TagKey: "k", TagValue: "v"})
		return err
	},
	"NLB":      func(ctx context.Context, c rig) error { _, err := c.NLB.LoadBalancer(ctx, "nlb-1"); return err },
	"NLBTags":  func(ctx context.Context, c rig) error { _, err := c.NLB.Tags(ctx, "nlb-1"); return err },
	"NLBPorts": func(ctx context.Context, c rig) error { _, err := c.NLB.Listeners(ctx, "nlb-1"); return err },
	"NLBCertificates": func(ctx context.Context, c rig) error {
		_, err := c.NLB.FurtherCertificates(ctx, "lsn-1")
		return err
	},
	"Domains": func(ctx context.Context, c rig) error { _, err := c.SLB.Domains(ctx, "lb-1", 443); return err },
	"Find":    func(ctx context.Context, c rig) error { _, err := c.Tickets.Find(ctx, "case"); return err },
	"Create": func(ctx context.Context, c rig) error {
		_, err := c.w.Tickets.Create(ctx, Ticket{Description: "d", Category: "1"})
		return err
	},
	"Reply":  func(ctx context.Context, c rig) error { return c.w.Tickets.Reply(ctx, "T1", "r") },
	"Close":  func(ctx context.Context, c rig) error { return c.w.Tickets.Close(ctx, "T1") },
	"Reopen": func(ctx context.Context, c rig) error { return c.w.Tickets.Reopen(ctx, "T1", "r") },
	"Available": func(ctx context.Context, c rig) error {
		_, err := c.SLB.Available(ctx, "internet", "ipv4")
		return err
	},
	"Quotas": func(ctx context.Context, c rig) error {
		_, err := c.Quotas.List(ctx, "slb", FlowControl, "")
		return err
	},
	"Balance":      func(ctx context.Context, c rig) error { _, err := c.Billing.Balance(ctx); return err },
	"ServerGroups": func(ctx context.Context, c rig) error { _, err := c.NLB.ServerGroups(ctx, "k", "v"); return err },
	"Servers":      func(ctx context.Context, c rig) error { _, err := c.NLB.Servers(ctx, "sgp-1"); return err },
	"Applications": func(ctx context.Context, c rig) error { _, err := c.Quotas.Applications(ctx, "slb", "q_1"); return err },
	"Apply": func(ctx context.Context, c rig) error {
		return c.w.Quotas.Apply(ctx, "slb", "q_1", nil, 300, "it is full")
	},
	"Instances": func(ctx context.Context, c rig) error { _, err := c.ECS.Instances(ctx, []string{"i-1"}); return err },
	"Blocks":    func(ctx context.Context, c rig) error { _, err := c.VPC.Blocks(ctx, "vpc-1"); return err },
	"Tag":       func(ctx context.Context, c rig) error { return c.w.SLB.Tag(ctx, "lb-1", "k", "v") },

	"TagsOf": func(ctx context.Context, c rig) error {
		_, err := c.SLB.TagsOf(ctx, []string{"lb-1", "lb-2"})
		return err
	},
	"RouteTables": func(ctx context.Context, c rig) error { _, err := c.VPC.RouteTables(ctx, "vpc-1"); return err },
	"Routes":      func(ctx context.Context, c rig) error { _, err := c.VPC.Routes(ctx, "vtb-1"); return err },
	"Kubeconfig":  func(ctx context.Context, c rig) error { _, err := c.CS.Kubeconfig(ctx, time.Hour); return err },

	"Certificates": func(ctx context.Context, c rig) error { _, err := c.SLB.Certificates(ctx); return err },
	"ACLs":         func(ctx context.Context, c rig) error { _, err := c.SLB.ACLs(ctx); return err },
}

func TestAnswersThatSayNothing(t *testing.T) {
	for name, call := range everything {
		for _, body := range []string{``, ` `, `null`, `{}`, `[]`, `""`, `{"RequestId":"R-1"}`, `{"RequestId":"R-1","TotalCount":null}`, `<html></html>`,
			`{"RequestId":"R-1","Tot`} {
			if name == "Tag" && strings.HasPrefix(body, `{"RequestId":"R-1"`) && strings.HasSuffix(body, "}") {
				continue // the whole content of the answer
			}
			if name == "MasterRole" && body == `[]` {
				continue // a cluster without resources has no role either
			}
			c := wire(t, says(200, body))
			err := call(t.Context(), c)
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeBadAnswer || !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %s: got %v, want BadAnswer", name, body, err)
			}
		}
	}
}

func TestMissingFields(t *testing.T) {
	const (
		lb      = `"LoadBalancerId":"lb-1","Address":"10.0.0.1","AddressType":"intranet","LoadBalancerStatus":"active"`
		ports   = `"ListenerPortsAndProtocol":{"ListenerPortAndProtocol":[{"ListenerPort":80,"ListenerProtocol":"tcp"}]}`
		servers = `"BackendServers":{"BackendServer":[]}`
		vsw     = `"VSwitchId":"vsw-1","VpcId":"vpc-1","ZoneId":"z","Status":"Available","AvailableIpAddressCount":3`
		detail  = `"cluster_id":"c1","vpc_id":"vpc-1","cluster_type":"Kubernetes","vswitch_ids":[]`
	)
	// Each field in braces is left out in turn.
	for name, template := range map[string]string{
		"LoadBalancer":  `{"RequestId":"R",` + marked(lb) + `,«` + ports + `»,«` + servers + `»,«"DeleteProtection":"off"»,«"PayType":"PayOnDemand"»}`,
		"LoadBalancers": `{"RequestId":"R",«"TotalCount":1»,"LoadBalancers":{"LoadBalancer":[{` + marked(lb) + `}]}}`,
		"Tags":          `{"RequestId":"R",«"TagResources":{"TagResource":[{«"ResourceId":"lb-1"»,«"TagKey":"k"»,"TagValue":"v"}]}»}`,
		"Certificates":  `{"RequestId":"R",«"ServerCertificates":{"ServerCertificate":[{«"ServerCertificateId":"c-1"»}]}»}`,
		"ACLs":          `{"RequestId":"R",«"TotalCount":1»,«"Acls":{"Acl":[{«"AclId":"acl-1"»}]}»}`,
		"Listeners": `{"RequestId":"R",«"Listeners":[{«"LoadBalancerId":"lb-1"»,«"ListenerPort":80»,` +
			`«"ListenerProtocol":"tcp"»,«"Status":"running"»}]»}`,
		"VServerGroups": `{"RequestId":"R",«"VServerGroups":{"VServerGroup":[{«"VServerGroupId":"rsp-1"»,«"ServerCount":0»}]}»}`,
		"VServerGroup": `{"RequestId":"R",«"VServerGroupId":"rsp-1"»,«"LoadBalancerId":"lb-1"»,` +
			`«"BackendServers":{"BackendServer":[{«"ServerId":"i-1"»,«"Port":80»,«"Weight":0»}]}»}`,
		"VSwitches": `{"RequestId":"R",«"TotalCount":1»,"VSwitches":{"VSwitch":[{` + marked(vsw) + `}]}}`,
		"EIPs": `{"RequestId":"R",«"TotalCount":1»,"EipAddresses":{"EipAddress":[{«"AllocationId":"eip-1"»,«"IpAddress":"198.51.100.7"»,` +
			`"Status":"InUse"}]}}`,
		"Interfaces": `{"RequestId":"R",«"NetworkInterfaceSets":{"NetworkInterfaceSet":[{«"NetworkInterfaceId":"eni-1"»,"VSwitchId":"vsw-1",` +
			`«"Status":"InUse"»}]}»}`,
		"Cluster":          `{"name":"shop",` + marked(detail) + `}`,
		"NodePools":        `{«"nodepools":[{"nodepool_info":{«"nodepool_id":"np-1"»}}]»}`,
		"Addons":           `{"ccm":{«"version":"v2"»}}`,
		"AddonConfig":      `{«"name":"ccm"»,"config":"{}"}`,
		"DeleteProtection": `[{«"name":"web"»,«"protection":true»,"namespace":"shop","resource":"services"}]`,
		"MasterRole":       `[{«"resource_type":"ALIYUN::RAM::Role"»,"instance_id":"KubernetesMasterRole-x"}]`,
		"RolePolicies":     `{"RequestId":"R",«"Policies":{"Policy":[{«"PolicyName":"p"»,«"PolicyType":"Custom"»}]}»}`,
		"Policy":           `{"RequestId":"R","Policy":{«"PolicyName":"p"»,«"DefaultVersion":"v1"»},"DefaultPolicyVersion":{«"PolicyDocument":"{}"»}}`,
		"PolicyVersions":   `{"RequestId":"R",«"PolicyVersions":{"PolicyVersion":[{«"VersionId":"v1"»,«"IsDefaultVersion":true»}]}»}`,
		"PolicyRoles":      `{"RequestId":"R",«"Roles":{"Role":[]}»,«"Users":{"User":[]}»,«"Groups":{"Group":[]}»}`,
		"Identity":         `{"RequestId":"R",«"AccountId":1»,«"Arn":"acs:ram::1:root"»}`,
		"NLBs": `{"RequestId":"R",«"TotalCount":1»,«"LoadBalancers":[{«"LoadBalancerId":"nlb-1"»,«"VpcId":"vpc-1"»,` +
			`«"LoadBalancerStatus":"Active"»}]»}`,
		"NLB": `{"RequestId":"R",` + marked(`"LoadBalancerId":"nlb-1","VpcId":"vpc-1","LoadBalancerStatus":"Active","DNSName":"d",`+
			`"AddressType":"Internet","AddressIpVersion":"ipv4","ResourceGroupId":"rg-1","DeletionProtectionConfig":{"Enabled":false}`) + `}`,
		"NLBTags":         `{"RequestId":"R",«"TagResources":[{«"ResourceId":"nlb-1"»,«"TagKey":"k"»,"TagValue":"v"}]»}`,
		"NLBCertificates": `{"RequestId":"R",«"Certificates":[{«"CertificateId":"c-1"»,"IsDefault":true}]»}`,
		"Domains":         `{"RequestId":"R",«"DomainExtensions":{"DomainExtension":[{«"Domain":"a.example.com"»,«"ServerCertificateId":"c-1"»}]}»}`,
		"NLBPorts": `{"RequestId":"R",«"TotalCount":1»,«"Listeners":[{«"LoadBalancerId":"nlb-1"»,«"ListenerId":"lsn-1"»,` +
			`«"ListenerPort":80»,«"ListenerProtocol":"TCP"»}]»}`,
		"Find":   `{"RequestId":"R",«"Success":true»,«"TotalCount":1»,"Data":[{«"TicketId":"T"»}]}`,
		"Create": `{"RequestId":"R",«"Success":true»,«"Data":"T"»}`,
		"Reply":  `{"RequestId":"R",«"Success":true»,"Data":"2"}`,
		"Close":  `{"RequestId":"R",«"Success":true»}`,
		"Reopen": `{"RequestId":"R",«"Success":true»,"Data":"T"}`,
		"Available": `{"RequestId":"R",«"AvailableResources":{"AvailableResource":[{«"MasterZoneId":"z"»,` +
			`«"SupportResources":{"SupportResource":[{«"AddressType":"internet"»,«"AddressIPVersion":"ipv4"»}]}»}]}»}`,
		"Quotas": `{"RequestId":"R",«"TotalCount":1»,«"Quotas":[{«"QuotaActionCode":"q_1"»,«"QuotaName":"n"»,«"TotalQuota":1.5»,` +
			`«"Adjustable":false»}]»}`,
		"ServerGroups": `{"RequestId":"R",«"TotalCount":1»,«"ServerGroups":[{«"ServerGroupId":"sgp-1"»,«"ServerGroupName":"k8s.80"»}]»}`,
		"Servers":      `{"RequestId":"R",«"TotalCount":1»,«"Servers":[{«"ServerId":"i-1"»,«"ServerType":"Ecs"»,«"Port":80»}]»}`,
		"Applications": `{"RequestId":"R",«"TotalCount":1»,«"QuotaApplications":[{«"ApplicationId":"app-1"»,«"Status":"Process"»}]»}`,
		"Apply":        `{"RequestId":"R",«"ApplicationId":"app-1"»,«"Status":"Process"»}`,
		"Instances":    `{"RequestId":"R",«"Instances":{"Instance":[{«"InstanceId":"i-1"»,«"Status":"Running"»}]}»}`,
		"Blocks":       `{"RequestId":"R",«"VpcId":"vpc-1"»,«"CidrBlock":"10.0.0.0/8"»}`,
		"Balance":      `{"RequestId":"R",«"Success":true»,«"Data":{«"AvailableAmount":"1,234.56"»,«"Currency":"CNY"»}»}`,
	} {
		call := everything[name]
		whole := strings.NewReplacer("«", "", "»", "").Replace(template)
		if err := call(t.Context(), wire(t, says(200, whole))); err != nil {
			t.Errorf("%s: the whole answer: got %v", name, err)
		}
		n := strings.Count(template, "«")
		for i := range n {
			body := without(template, i)
			err := call(t.Context(), wire(t, says(200, body)))
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeBadAnswer {
				t.Errorf("%s: %s: got %v, want BadAnswer", name, body, err)
			}
		}
		if id := `"RequestId":"R",`; strings.Contains(whole, id) {
			err := call(t.Context(), wire(t, says(200, strings.Replace(whole, id, "", 1))))
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s without a request ID: got %v", name, err)
			}
		}
	}
}

func marked(fields string) string {
	return "«" + strings.ReplaceAll(fields, `,"`, `»,«"`) + "»"
}

func without(template string, i int) string {
	start := 0
	for range i + 1 {
		start += strings.Index(template[start:], "«") + len("«")
	}
	depth, end := 1, start
	for depth > 0 {
		switch {
		case strings.HasPrefix(template[end:], "«"):
			depth++
			end++
		case strings.HasPrefix(template[end:], "»"):
			depth--
			end++
		}
		end++
	}
	out := template[:start-len("«")] + template[end:]
	out = strings.NewReplacer("«", "", "»", "").Replace(out)
	out = strings.NewReplacer("{,", "{", ",}", "}", ",,", ",").Replace(out)
	if !json.Valid([]byte(out)) {
		panic("a template that makes no JSON: " + out)
	}
	return out
}

// The API varies the types of numbers and booleans.
func TestLooseTypes(t *testing.T) {
	body := `{"RequestId":"R","TotalCount":"1","VSwitches":{"VSwitch":[{"VSwitchId":"vsw-1","VpcId":"vpc-1","ZoneId":"z","Status":"Available",` +
		`"AvailableIpAddressCount":%s}]}}`
	for count, want := range map[string]int64{`41`: 41, `"41"`: 41, `41.0`: 41, `0`: 0, `4.1e1`: 41} {
		got, err := wire(t, says(200, fmt.Sprintf(body, count))).VPC.VSwitches(t.Context(), "vpc-1")
		if err != nil || len(got) != 1 || got[0].Free != want {
			t.Errorf("%s: got %v and %v, want %d free", count, got, err, want)
		}
	}
	for _, count := range []string{`""`, `null`, `"many"`, `"1,234"`, `4.5`, `true`, `{}`, `[1]`, `1e400`} {
		if _, err := wire(t, says(200, fmt.Sprintf(body, count))).VPC.VSwitches(t.Context(), "vpc-1"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", count, err)
		}
	}
	for raw, want := range map[string]on{`true`: true, `"true"`: true, `1`: true, `"on"`: true, `false`: false, `"off"`: false, `0`: false, `null`: false,
		`""`: false} {
		var o on
		if err := json.Unmarshal([]byte(`{"v":`+raw+`}`), &struct{ V *on }{&o}); err != nil || o != want {
			t.Errorf("%s: got %t and %v, want %t", raw, o, err, want)
		}
	}
	for _, raw := range []string{`"perhaps"`, `{}`, `2`} {
		if err := json.Unmarshal([]byte(raw), new(on)); err == nil {
			t.Errorf("%s is a truth", raw)
		}
	}
	if when("yesterday") != (time.Time{}) || when("2026-01-02T03:04:05Z").Year() != 2026 {
		t.Error("times are not read")
	}
}

func TestAnswersAboutSomethingElse(t *testing.T) {
	for name, body := range map[string]string{
		"LoadBalancer": `{"RequestId":"R","LoadBalancerId":"lb-2","Address":"10.0.0.1","AddressType":"intranet","LoadBalancerStatus":"active",` +
			`"ListenerPortsAndProtocol":{},"BackendServers":{}}`,
		"Tags":         `{"RequestId":"R","TagResources":{"TagResource":[{"ResourceId":"lb-2","TagKey":"k","TagValue":"v"}]}}`,
		"Listeners":    `{"RequestId":"R","Listeners":[{"LoadBalancerId":"lb-2","ListenerPort":80,"ListenerProtocol":"tcp"}]}`,
		"VServerGroup": `{"RequestId":"R","VServerGroupId":"rsp-2","LoadBalancerId":"lb-1","BackendServers":{}}`,
		"VSwitches": `{"RequestId":"R","TotalCount":1,"VSwitches":{"VSwitch":[{"VSwitchId":"vsw-1","VpcId":"vpc-2","ZoneId":"z",` +
			`"Status":"Available","AvailableIpAddressCount":3}]}}`,
		"EIPs": `{"RequestId":"R","TotalCount":1,"EipAddresses":{"EipAddress":[{"AllocationId":"eip-1","IpAddress":"198.51.100.8",` +
			`"Status":"InUse"}]}}`,
		"Cluster":             `{"cluster_id":"c2","vpc_id":"vpc-1","current_version":"1.36","cluster_type":"Kubernetes","state":"running","vswitch_ids":[]}`,
		"Policy":              `{"RequestId":"R","Policy":{"PolicyName":"q","DefaultVersion":"v1"},"DefaultPolicyVersion":{"PolicyDocument":"{}"}}`,
		"Policy, its version": `{"RequestId":"R","Policy":{"PolicyName":"p","DefaultVersion":"v1"},"DefaultPolicyVersion":{"VersionId":"v2","PolicyDocument":"{}"}}`,
		"MasterRole": `[{"resource_type":"ALIYUN::RAM::Role","instance_id":"KubernetesMasterRole-x"},{"resource_type":"ALIYUN::RAM::Role",` +
			`"instance_id":"KubernetesMasterRole-y"}]`,
		"PolicyVersions": `{"RequestId":"R","IsTruncated":true,"PolicyVersions":{"PolicyVersion":[{"VersionId":"v1","IsDefaultVersion":true}]}}`,
	} {
		method, _, _ := strings.Cut(name, ",")
		err := everything[method](t.Context(), wire(t, says(200, body)))
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeBadAnswer {
			t.Errorf("%s: got %v, want BadAnswer", name, err)
		}
	}
}

// A register is a list of vSwitches, served by page, with a hook to change it after each page.
type register struct {
	ids   []string
	total func(n int) int // the total in the answer for a list of n
	after func(page int, ids []string) []string
	calls atomic.Int64
}

func (l *register) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.calls.Add(1)
	page, _ := strconv.Atoi(r.URL.Query().Get("PageNumber"))
	const size = 2
	from := min((page-1)*size, len(l.ids))
	var items []string
	for _, id := range l.ids[from:min(from+size, len(l.ids))] {
		items = append(items, fmt.Sprintf(`{"VSwitchId":%q,"VpcId":"vpc-1","ZoneId":"z","Status":"Available","AvailableIpAddressCount":1}`, id))
	}
	total := len(l.ids)
	if l.total != nil {
		total = l.total(total)
	}
	_, _ = fmt.Fprintf(w, `{"RequestId":"R","TotalCount":%d,"VSwitches":{"VSwitch":[%s]}}`, total, strings.Join(items, ","))
	if l.after != nil {
		l.ids = l.after(page, l.ids)
	}
}

func TestListsThatChange(t *testing.T) {
	once := func(change func([]string) []string) func(int, []string) []string {
		var o sync.Once
		return func(page int, ids []string) []string {
			if page == 1 {
				o.Do(func() { ids = change(ids) })
			}
			return ids
		}
	}
	abcde := []string{"a", "b", "c", "d", "e"}
	for name, tt := range map[string]struct {
		list *register
		want []string // nil: an error
	}{
		"still":    {&register{ids: abcde}, abcde},
		"one goes": {&register{ids: abcde, after: once(func(l []string) []string { return l[1:] })}, []string{"b", "c", "d", "e"}},
		"one comes": {&register{ids: abcde, after: once(func(l []string) []string { return append([]string{"0"}, l...) })},
			[]string{"0", "a", "b", "c", "d", "e"}},
		"one for another": {&register{ids: abcde, after: once(func(l []string) []string { return append([]string{"0"}, l[:4]...) })},
			[]string{"0", "a", "b", "c", "d"}},
		"never still":    {&register{ids: abcde, after: func(_ int, l []string) []string { return append(l, fmt.Sprint("x", len(l))) }}, nil},
		"filtered":       {&register{ids: abcde, total: func(n int) int { return n + 3 }}, nil},
		"more than said": {&register{ids: abcde, total: func(int) int { return 3 }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := wire(t, tt.list.ServeHTTP).VPC.VSwitches(t.Context(), "vpc-1")
			if tt.want == nil {
				if !errors.Is(err, ErrUnavailable) || list != nil {
					t.Errorf("got %v and %v, want ErrUnavailable", list, err)
				}
				return
			}
			var got []string
			for _, v := range list {
				got = append(got, v.ID)
			}
			if d := cmp.Diff(tt.want, got); d != "" || err != nil {
				t.Errorf("%v\n%s", err, d)
			}
		})
	}
}

func TestListsThatDoNotEnd(t *testing.T) {
	var n atomic.Int64
	for name, h := range map[string]http.HandlerFunc{
		"VSwitches": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"RequestId":"R","TotalCount":1000000,"VSwitches":{"VSwitch":[{"VSwitchId":"vsw-%d","VpcId":"vpc-1","ZoneId":"z",`+
				`"Status":"Available","AvailableIpAddressCount":1}]}}`, n.Add(1))
		},
		"Tags": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"RequestId":"R","NextToken":"%d","TagResources":{"TagResource":[]}}`, n.Add(1))
		},
		"Listeners": says(200, `{"RequestId":"R","NextToken":"again","Listeners":[]}`),
		"RolePolicies": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"RequestId":"R","IsTruncated":true,"Marker":"%d","Policies":{"Policy":[]}}`, n.Add(1))
		},
	} {
		n.Store(0)
		err := everything[name](t.Context(), wire(t, h, func(c *Config) { c.Rate = -1 }))
		if e, ok := errors.AsType[*Error](err); !ok || e.Message != "the list does not end" || n.Load() > maxPages {
			t.Errorf("%s: got %v after %d calls", name, err, n.Load())
		}
	}
}

// The API accepts 20 IDs of server groups at once.
func TestManyServerGroups(t *testing.T) {
	var calls []int
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		var groups []string
		for id := r.FormValue("ServerGroupIds.1"); id != ""; id = r.FormValue(fmt.Sprintf("ServerGroupIds.%d", len(groups)+1)) {
			groups = append(groups, fmt.Sprintf(`{"ServerGroupId":%q,"ServerGroupName":"n"}`, id))
		}
		calls = append(calls, len(groups))
		says(200, fmt.Sprintf(`{"RequestId":"R","TotalCount":%d,"ServerGroups":[%s]}`, len(groups), strings.Join(groups, ",")))(w, r)
	})
	var ids []string
	for n := range 41 {
		ids = append(ids, fmt.Sprintf("sgp-%02d", 40-n))
	}
	got, err := c.NLB.ServerGroupsOf(t.Context(), ids)
	sorted := slices.IsSortedFunc(got, func(a, b ServerGroup) int { return strings.Compare(a.ID, b.ID) })
	if err != nil || len(got) != 41 || !sorted || !slices.Equal(calls, []int{20, 20, 1}) {
		t.Errorf("got %d groups, sorted %t, by calls of %v: %v", len(got), sorted, calls, err)
	}
	if _, err := c.NLB.ServerGroupsOf(t.Context(), []string{"sgp-1", ""}); err == nil {
		t.Error("an empty ID was sent")
	}
}

// A list with fewer items than its TotalCount is not whole, and is read again.
func TestShortLists(t *testing.T) {
	for name, list := range map[string]string{
		"Listeners":    `"Listeners":[{"LoadBalancerId":"lb-1","ListenerPort":80,"ListenerProtocol":"tcp","Status":"running"}]`,
		"NLBPorts":     `"Listeners":[{"LoadBalancerId":"nlb-1","ListenerId":"lsn-1","ListenerPort":80,"ListenerProtocol":"TCP"}]`,
		"NLBs":         `"LoadBalancers":[{"LoadBalancerId":"nlb-1","VpcId":"vpc-1","LoadBalancerStatus":"Active"}]`,
		"ServerGroups": `"ServerGroups":[{"ServerGroupId":"sgp-1","ServerGroupName":"k8s.80"}]`,
		"Servers":      `"Servers":[{"ServerId":"i-1","ServerType":"Ecs","Port":80}]`,
		"Quotas":       `"Quotas":[{"QuotaActionCode":"q_1","QuotaName":"n","TotalQuota":1.5,"Adjustable":false}]`,
		"Applications": `"QuotaApplications":[{"ApplicationId":"app-1","Status":"Process"}]`,
	} {
		key, _, _ := strings.Cut(list, ":")
		for what, tt := range map[string]struct {
			answers []string // the last one stays
			calls   int
			want    error
		}{
			"empty":       {[]string{`"TotalCount":3,` + key + `:[]`}, rounds, ErrUnavailable},
			"one of two":  {[]string{`"TotalCount":2,` + list}, rounds, ErrUnavailable},
			"then whole":  {[]string{`"TotalCount":2,"NextToken":"a",` + list, `"TotalCount":2,` + key + `:[]`, `"TotalCount":1,` + list}, 3, nil},
			"two pages":   {[]string{`"TotalCount":2,"NextToken":"a",` + list, `"TotalCount":2,` + list}, 2, nil},
			"counts page": {[]string{`"TotalCount":1,"NextToken":"a",` + list, `"TotalCount":1,` + list}, 2, nil},
		} {
			calls := 0
			err := everything[name](t.Context(), wire(t, func(w http.ResponseWriter, r *http.Request) {
				says(200, `{"RequestId":"R",`+tt.answers[min(calls, len(tt.answers)-1)]+`}`)(w, r)
				calls++
			}))
			if !errors.Is(err, tt.want) || calls != tt.calls {
				t.Errorf("%s, %s: got %v after %d calls", name, what, err, calls)
			}
		}
	}
}

func TestNLBs(t *testing.T) {
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("Tag.1.Key") != "kubernetes.do.not.delete" || q.Get("Tag.1.Value") != "a1" {
			says(400, `{"RequestId":"R","Code":"No","Message":"no"}`)(w, r)
			return
		}
		if q.Get("NextToken") == "" {
			says(200, `{"RequestId":"R","TotalCount":2,"NextToken":"1","LoadBalancers":[{"LoadBalancerId":"nlb-2","VpcId":"vpc-1",`+
				`"LoadBalancerStatus":"Provisioning"}]}`)(w, r)
			return
		}
		says(200, `{"RequestId":"R","TotalCount":2,"LoadBalancers":[{"LoadBalancerId":"nlb-1","LoadBalancerName":"web","DNSName":"nlb-1.example",`+
			`"VpcId":"vpc-1","LoadBalancerStatus":"Active"}]}`)(w, r)
	})
	got, err := c.NLB.Find(t.Context(), NLBFilter{TagKey: "kubernetes.do.not.delete", TagValue: "a1"})
	want := []NetworkLoadBalancer{
		{ID: "nlb-1", Name: "web", DNSName: "nlb-1.example", VPC: "vpc-1", Status: "Active"}, {ID: "nlb-2", VPC: "vpc-1", Status: "Provisioning"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for what, err := range map[string]error{
		"a value alone":        func() error { _, err := c.NLB.Find(t.Context(), NLBFilter{TagValue: "a1"}); return err }(),
		"no ID":                func() error { _, err := c.NLB.LoadBalancer(t.Context(), ""); return err }(),
		"tags of no ID":        func() error { _, err := c.NLB.Tags(t.Context(), ""); return err }(),
		"ports of none":        func() error { _, err := c.NLB.Listeners(t.Context(), ""); return err }(),
		"certificates of none": func() error { _, err := c.NLB.FurtherCertificates(t.Context(), ""); return err }(),
		"domains of none":      func() error { _, err := c.SLB.Domains(t.Context(), "", 443); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestMarkers(t *testing.T) {
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("Marker") == "" {
			says(200, `{"RequestId":"R","IsTruncated":true,"Marker":"more of it","Roles":{"Role":[{"RoleName":"b"}]},"Users":{},`+
				`"Groups":{"Group":[{"GroupName":"g"}]}}`)(w, r)
			return
		}
		says(200, `{"RequestId":"R","IsTruncated":false,"Roles":{"Role":[{"RoleName":"a"}]},"Users":{},"Groups":{}}`)(w, r)
	})
	got, err := c.RAM.PolicyRoles(t.Context(), "p", CustomPolicy)
	if d := cmp.Diff(Entities{Roles: []string{"a", "b"}, Groups: []string{"g"}}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestLongAnswer(t *testing.T) {
	c := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range maxAnswer>>20 + 2 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	err := vswitch(t.Context(), c)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeBadAnswer || !strings.Contains(e.Message, "longer than 32 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestCancelledPause(t *testing.T) {
	c := wire(t, says(503, `{"RequestId":"R","Code":"ServiceUnavailable","Message":"later"}`))
	ctx, cancel := context.WithCancel(t.Context())
	c.client.pause = func(int) time.Duration {
		cancel()
		return time.Hour
	}
	var e *Error
	if err := vswitch(ctx, c); !errors.As(err, &e) || e.Code != "ServiceUnavailable" {
		t.Errorf("got %v, want the error that there was", err)
	}
}

func TestCutAnswer(t *testing.T) {
	var n atomic.Int64
	c := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"RequestId":"R",`)
	})
	var e *Error
	if err := vswitch(t.Context(), c); !errors.As(err, &e) || e.Code != codeNoAnswer || !strings.Contains(e.Message, "read the answer") || n.Load() != tries {
		t.Errorf("got %v after %d tries", err, n.Load())
	}
}

func TestPatience(t *testing.T) {
	var n atomic.Int64
	c := wire(t, func(_ http.ResponseWriter, r *http.Request) {
		n.Add(1)
		<-r.Context().Done()
	})
	c.client.patience = 50 * time.Millisecond
	err := vswitch(t.Context(), c)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeNoAnswer || e.Message != tooLate || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if n.Load() != 1 {
		t.Errorf("got %d tries of what takes too long, want 1", n.Load())
	}
}

func TestHosts(t *testing.T) {
	host := func(change func(*Config)) map[string]string {
		seen := map[string]string{}
		c := wire(t, func(w http.ResponseWriter, r *http.Request) {
			product := strings.ToLower(r.Header.Get("x-acs-version"))
			seen[product] = r.Host
			says(400, `{"RequestId":"R","Code":"No","Message":"no"}`)(w, r)
		}, change)
		for _, call := range everything {
			_ = call(t.Context(), c)
		}
		return seen
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		want   map[string]string
	}{
		"public": {func(c *Config) { c.Region = "cn-zhangjiakou" }, map[string]string{
			"2014-05-15": "slb.cn-zhangjiakou.aliyuncs.com", "2016-04-28": "vpc.cn-zhangjiakou.aliyuncs.com", "2014-05-26": "ecs.cn-zhangjiakou.aliyuncs.com",
			"2015-12-15": "cs.cn-zhangjiakou.aliyuncs.com", "2015-05-01": "ram.aliyuncs.com", "2015-04-01": "sts.cn-zhangjiakou.aliyuncs.com",
			"2021-06-10": "workorder.aliyuncs.com", "2022-04-30": "nlb.cn-zhangjiakou.aliyuncs.com",
			"2017-12-14": "business.aliyuncs.com", "2020-05-10": "quotas.aliyuncs.com",
		}},
		"in a VPC": {func(c *Config) { c.VPC = true }, map[string]string{
			"2014-05-15": "slb-vpc.cn-hangzhou.aliyuncs.com", "2016-04-28": "vpc-vpc.cn-hangzhou.aliyuncs.com", "2014-05-26": "ecs-vpc.cn-hangzhou.aliyuncs.com",
			"2015-12-15": "cs-anony-vpc.cn-hangzhou.aliyuncs.com", "2015-05-01": "ram.vpc-proxy.aliyuncs.com", "2015-04-01": "sts-vpc.cn-hangzhou.aliyuncs.com",
			"2021-06-10": "workorder.aliyuncs.com", "2022-04-30": "nlb-vpc.cn-hangzhou.aliyuncs.com",
			"2017-12-14": "business.aliyuncs.com", "2020-05-10": "quotas.aliyuncs.com",
		}},
	} {
		if d := cmp.Diff(tt.want, host(tt.change)); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

// Without another scheme nothing is sent unencrypted.
func TestHTTPS(t *testing.T) {
	var seen atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			seen.Add(1)
		}
		says(200, `{"RequestId":"R","AccountId":"1","Arn":"a"}`)(w, r)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	for name, c := range map[string]Config{
		"endpoint": {Endpoint: s.Listener.Addr().String()},
		"scheme":   {Endpoint: s.Listener.Addr().String(), Scheme: "HTTPS"},
	} {
		c.Region, c.ClusterID, c.Credentials = "cn-hangzhou", "c1", Static(Key{ID: "key", Secret: "secret"})
		k, _, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		k.client.pause = func(int) time.Duration { return 0 }
		if _, err := k.STS.Identity(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: got %v from a server that nobody vouches for", name, err)
		}
		k.client.base.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
		before := seen.Load()
		if _, err := k.STS.Identity(t.Context()); err != nil || seen.Load() != before+1 {
			t.Errorf("%s: got %v", name, err)
		}
		k.Close()
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c := wire(t, nil, func(c *Config) { c.Endpoint = addr })
	for _, call := range []func(context.Context, rig) error{vswitch, cluster} {
		err := call(t.Context(), c)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeNoAnswer || !errors.Is(err, ErrUnavailable) || !strings.Contains(e.Message, "refused") {
			t.Errorf("got %v", err)
		}
		for _, secret := range []string{"LTAI", "CAIS", "Signature", "Action=", "?"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s is in %v", secret, err)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Region: "cn-hangzhou", ClusterID: "c1"}
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string // in the error; empty: no error
	}{
		"good":                  {func(*Config) {}, ""},
		"no region":             {func(c *Config) { c.Region = "" }, "no region is set"},
		"not a region":          {func(c *Config) { c.Region = "cn/hangzhou" }, `region "cn/hangzhou" is not a region ID`},
		"no cluster":            {func(c *Config) { c.ClusterID = "" }, "no cluster ID is set"},
		"a path for a cluster":  {func(c *Config) { c.ClusterID = "c1/../c2" }, `cluster ID "c1/../c2" must be`},
		"a pattern":             {func(c *Config) { c.ClusterID = "[ClusterId]" }, "must be 1 to 64"},
		"a long cluster":        {func(c *Config) { c.ClusterID = strings.Repeat("c", 65) }, "must be 1 to 64"},
		"an address":            {func(c *Config) { c.Endpoint = "http://127.0.0.1:80" }, "must be host:port"},
		"no port":               {func(c *Config) { c.Endpoint = "127.0.0.1" }, "must be host:port"},
		"not a port":            {func(c *Config) { c.Endpoint = "127.0.0.1:http" }, "must be host:port"},
		"port 0":                {func(c *Config) { c.Endpoint = "127.0.0.1:0" }, "must be host:port"},
		"no host":               {func(c *Config) { c.Endpoint = ":80" }, "must be host:port"},
		"loopback":              {func(c *Config) { c.Endpoint, c.Scheme = "127.0.0.1:80", "HTTP" }, ""},
		"loopback by name":      {func(c *Config) { c.Endpoint, c.Scheme = "localhost:80", "HTTP" }, ""},
		"loopback, IPv6":        {func(c *Config) { c.Endpoint, c.Scheme = "[::1]:80", "HTTP" }, ""},
		"HTTP to the world":     {func(c *Config) { c.Scheme = "HTTP" }, "scheme HTTP would send keys in the clear"},
		"HTTP to a host":        {func(c *Config) { c.Endpoint, c.Scheme = "proxy.example:80", "HTTP" }, "scheme HTTP would send keys in the clear"},
		"HTTP to a likely name": {func(c *Config) { c.Endpoint, c.Scheme = "127.0.0.1.example:80", "HTTP" }, "scheme HTTP would send keys in the clear"},
		"HTTPS to a host":       {func(c *Config) { c.Endpoint = "proxy.example:443" }, ""},
		"not a scheme":          {func(c *Config) { c.Scheme = "http" }, `scheme "http" must be HTTPS`},
	} {
		c := good
		tt.change(&c)
		_, _, err := New(c)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: got %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want one sentence with %q", name, err, tt.want)
		}
	}
	if _, _, err := New(Config{}); err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("got %v, want a sentence for each of two mistakes", err)
	}
}

func TestCredentialsOfACall(t *testing.T) {
	served := says(200, `{"RequestId":"R","AccountId":"1","Arn":"a"}`)
	for name, tt := range map[string]struct {
		credentials Credentials
		want        string
	}{
		"none": {func(context.Context) (Key, error) {
			return Key{}, errors.New("ask https://user:pass@vault/?Signature=abc")
		}, "NoCredentials: ask (address)"},
		"no secret": {Static(Key{ID: "key"}), "NoCredentials: the access key is empty"},
		"no ID":     {Static(Key{Secret: "secret"}), "NoCredentials: the access key is empty"},
	} {
		c := wire(t, served, func(c *Config) { c.Credentials = tt.credentials })
		_, err := c.STS.Identity(t.Context())
		if !errors.Is(err, ErrUnavailable) || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}

	type whose struct{}
	var ids []string
	c := wire(t, func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.URL.Query().Get("AccessKeyId"))
		served(w, r)
	}, func(c *Config) {
		c.Credentials = func(ctx context.Context) (Key, error) {
			id, _ := ctx.Value(whose{}).(string)
			return Key{ID: id, Secret: "secret"}, nil
		}
	})
	for _, id := range []string{"ann", "bob"} {
		if _, err := c.STS.Identity(context.WithValue(t.Context(), whose{}, id)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"ann", "bob"}, ids); d != "" {
		t.Error(d)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	c = wire(t, served, func(c *Config) {
		c.Credentials = func(ctx context.Context) (Key, error) { <-ctx.Done(); return Key{}, ctx.Err() }
	})
	if _, err := c.STS.Identity(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

// The chain finds the key in the environment, even after it found none.
func TestDefaultChain(t *testing.T) {
	home := t.TempDir()
	for k, v := range map[string]string{
		"HOME": home, "ALIBABA_CLOUD_ACCESS_KEY_ID": "", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "", "ALIBABA_CLOUD_SECURITY_TOKEN": "",
		"ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true", "ALIBABA_CLOUD_CREDENTIALS_URI": "", "ALIBABA_CLOUD_PROFILE": "",
		"ALIBABA_CLOUD_CREDENTIALS_FILE": filepath.Join(home, "none"), "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "",
	} {
		t.Setenv(k, v)
	}
	served := says(200, `{"RequestId":"R","AccountId":"1","Arn":"a"}`)
	c := wire(t, served, func(c *Config) { c.Credentials = nil })
	_, err := c.STS.Identity(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "no access key found: set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, "+
		"log in with the aliyun command line, or run where a RAM role is attached") {
		t.Fatalf("got %v", err)
	}
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "key")
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "secret")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.STS.Identity(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if k, err := DefaultChain()(t.Context()); err != nil || k != (Key{ID: "key", Secret: "secret"}) {
		t.Errorf("got %v and %v", k, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // either may be ready first
		if _, err := DefaultChain()(gone); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(home); err != nil {
		t.Fatal(err)
	}
}

func TestDebuggingOfTheSDK(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "1": true, "sdks": true, "sdk": false, "app,sdk": false} {
		t.Setenv("DEBUG", value)
		if _, _, err := New(Config{Region: "cn-hangzhou", ClusterID: "c1"}); (err == nil) != ok {
			t.Errorf("DEBUG=%s: got %v", value, err)
		}
	}
}

// Settings in the environment that would break the SDK do not reach it.
func TestEnvironmentOfTheSDK(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://user:the password@%%")
	t.Setenv("NO_PROXY", "+not a regular expression")
	c := wire(t, says(200, `{"RequestId":"R","AccountId":"1","Arn":"a"}`))
	if _, err := c.STS.Identity(t.Context()); err != nil {
		t.Error(err)
	}
}

type mine struct{ *requests.RpcRequest }

func (mine) GetHeaders() map[string]string { panic("the secret of the test") }

func TestTheSDKBreaksDown(t *testing.T) {
	c := wire(t, says(200, "{}"))
	_, err := read(t.Context(), c.client, call[none]{request: func() requests.AcsRequest {
		r := mine{&requests.RpcRequest{}}
		r.InitWithApiInfo("Slb", "2014-05-15", "DescribeRegions", "slb", "openAPI")
		return r
	}})
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeNotSent || e.Message != "the SDK panicked on the request" {
		t.Errorf("got %v", err)
	}
}

func TestRequestThatCannotBeBuilt(t *testing.T) {
	c := wire(t, says(200, "{}"))
	c.client.Region = "no such region!"
	_, err := c.STS.Identity(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != codeNotSent || !strings.Contains(e.Message, "invalid characters") {
		t.Errorf("got %v", err)
	}
}

func TestClean(t *testing.T) {
	key := Key{ID: "LTAI5tTheKeyOfTheTest", Secret: "a/secret+of=the test", Token: "CAIS+the/token=="}
	r := redactorOf(key, "sig/na+ture=")
	for in, want := range map[string]string{
		"plain words":  "plain words",
		"two\n\tlines": "two lines",
		"key LTAI5tTheKeyOfTheTest, again " + url.QueryEscape(url.QueryEscape(key.Token)):                                "key ***, again ***",
		"a " + key.Secret + " b " + url.QueryEscape(key.Secret) + " c sig/na+ture= d " + url.QueryEscape("sig/na+ture="): "a *** b *** c *** d ***",
		`Post "https://slb.aliyuncs.com/?AccessKeyId=x&Signature=y": EOF`:                                                `Post "(address)": EOF`,
		"Specified signature is not matched. server string to sign is:POST&%2F&AccessKeyId%3DOther": "Specified signature is not " +
			"matched. (the signed request is left out)",
		"AccessKeyId=Other1&SecurityToken=Other2&Action=A":        "AccessKeyId=***&SecurityToken=***&Action=A",
		"AccessKeyId%3DOther1%26x":                                "AccessKeyId%3D***%26x",
		`{"SecurityToken": "Other2", "a": 1}`:                     `{"SecurityToken": "***", "a": 1}`,
		"the role STS.NUx7Qexample0123456 and LTAI4another000000": "the role STS.*** and LTAI***",
	} {
		if got := r.clean(in); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", in, got, want)
		}
	}
	if got := (redactor{}).clean(strings.Repeat("é", 1500)); len(got) > longest || !strings.HasSuffix(got, "é […]") {
		t.Errorf("got %d bytes that end in %q", len(got), got[len(got)-6:])
	}
	if got := redactorOf(Key{ID: "a", Secret: "b"}, "").clean("a b"); got != "a b" {
		t.Errorf("got %s", got)
	}
}

func TestPause(t *testing.T) {
	for n, most := range map[int]time.Duration{1: 300 * time.Millisecond, 2: 600 * time.Millisecond} {
		for range 100 {
			if d := pause(n); d < most/3 || d >= most {
				t.Fatalf("pause(%d) = %v", n, d)
			}
		}
	}
}

func TestNetworkOfACluster(t *testing.T) {
	detail := func(meta, rest string) string {
		q, _ := json.Marshal(meta)
		return `{"cluster_id":"c1","vpc_id":"vpc-1","current_version":"1.36","cluster_type":"ManagedKubernetes","state":"running",` + rest + `"meta_data":` +
			string(q) + `}`
	}
	for name, tt := range map[string]struct {
		body  string
		plug  string
		pods  []string
		nodes []string
	}{
		"flannel by add-on": {detail(`{"Addons":[{"name":"kube-flannel-ds"}]}`, `"vswitch_id":"vsw-2, vsw-1",`), "flannel", nil, []string{"vsw-1", "vsw-2"}},
		"by capability":     {detail(`{"Capabilities":{"Network":"Flannel"}}`, `"vswitch_ids":["vsw-1"],`), "flannel", nil, []string{"vsw-1"}},
		"nothing said":      {detail(``, `"vswitch_ids":[],`), "", nil, nil},
		"terway, map in a string": {
			detail(`{"Addons":[{"name":"terway-controlplane"},{"name":"terway-eniip","config":"{\"PodVswitchId\":\"{\\\"z\\\":[\\\"vsw-p\\\"]}\"}"}],`+
				`"Capabilities":{"Network":"Flannel"}}`, `"vswitch_ids":["vsw-1"],`),
			"terway-eniip", []string{"vsw-p"}, []string{"vsw-1"},
		},
		"terway, map": {
			detail(`{"Addons":[{"name":"terway-eniip","config":"{\"PodVswitchId\":{\"z\":[\"vsw-p\",\"vsw-o\"]}}"}]}`, `"vswitch_ids":["vsw-1"],"vswitch_id":"vsw-9",`),
			"terway-eniip", []string{"vsw-o", "vsw-p"}, []string{"vsw-1"},
		},
		"terway, parameter": {
			detail(`{"Addons":[{"name":"terway-eni","config":"{}"}]}`, `"vswitch_ids":["vsw-1"],"parameters":{"PodVswitchIds":"[\"vsw-p\"]"},`),
			"terway-eni", []string{"vsw-p"}, []string{"vsw-1"},
		},
		"terway, field": {
			detail(`{"Addons":[{"name":"terway-eniip"}]}`, `"vswitch_ids":["vsw-1"],"network_config":{"pod_vswitch_ids":["vsw-p"]},"parameters":{"PodVswitchIds":""},`),
			"terway-eniip", []string{"vsw-p"}, []string{"vsw-1"},
		},
	} {
		got, err := wire(t, says(200, tt.body)).CS.Cluster(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff([]any{tt.plug, tt.pods, tt.nodes}, []any{got.Network, got.PodVSwitches, got.VSwitches}); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if !got.Managed() || (Cluster{Type: "Kubernetes"}).Managed() {
			t.Errorf("%s: a managed cluster is not managed, or a dedicated one is", name)
		}
	}
	for name, body := range map[string]string{
		"meta_data":     detail(`{"Addons":`, `"vswitch_ids":[],`),
		"config":        detail(`{"Addons":[{"name":"terway-eniip","config":"none"}]}`, `"vswitch_ids":[],`),
		"pod vSwitches": detail(`{"Addons":[{"name":"terway-eniip","config":"{\"PodVswitchId\":7}"}]}`, `"vswitch_ids":[],`),
		"parameter":     detail(`{}`, `"vswitch_ids":[],"parameters":{"PodVswitchIds":"vsw-p"},`),
	} {
		if err := cluster(t.Context(), wire(t, says(200, body))); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s that can't be read: got %v, want ErrUnavailable", name, err)
		}
	}
}

func TestMasterRoles(t *testing.T) {
	for body, want := range map[string]string{
		`[{"resource_type":"ALIYUN::RAM::Role","instance_id":"KubernetesWorkerRole-x"},{"resource_type":"ALIYUN::RAM::Role",` +
			`"instance_id":"KubernetesMasterRole-x"}]`: "KubernetesMasterRole-x",
		`[{"resource_type":"ALIYUN::RAM::Role","instance_id":"my-role",` +
			`"resource_info":"KubernetesMasterRole"}]`: "my-role",
		`[{"resource_type":"ALIYUN::RAM::Role","instance_id":"r-1","resource_info":"{\"Id\":\"KubernetesMasterRole\",` +
			`\"RamRoleName\":\"my-role\"}"}]`: "my-role",
		`[{"resource_type":"ALIYUN::ECS::VPC","instance_id":"KubernetesMasterRole-x"},{"resource_type":"ALIYUN::RAM::Role",` +
			`"instance_id":"KubernetesWorkerRole-x"}]`: "",
		`[]`: "",
	} {
		got, err := wire(t, says(200, body)).CS.MasterRole(t.Context())
		if got != want || (want == "") != errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %q and %v, want %q", body, got, err, want)
		}
	}
}

func TestSupportRefuses(t *testing.T) {
	for _, method := range []string{"Find", "Create"} {
		for code, want := range map[string]error{`"illegal.auth"`: ErrDenied, `401`: ErrDenied, `500`: ErrUnavailable, `"param.illegal"`: nil} {
			body := `{"RequestId":"R","Success":false,"Code":` + code + `,"Message":"no"}`
			err := everything[method](t.Context(), wire(t, says(200, body)))
			if e, ok := errors.AsType[*Error](err); !ok || e.kind != want || e.Message != "no" {
				t.Errorf("%s: %s: got %v, want %v", method, code, err, want)
			}
		}
	}
}

// A listener whose answer holds more than CreateListener sends, or lacks its protocol's settings, can't be made again.
func TestPartialListeners(t *testing.T) {
	for name, tt := range map[string]struct {
		more string
		want bool
	}{
		"all":           {`"TCPListenerConfig":{"EstablishedTimeout":900,"HealthCheckTcpFastCloseEnabled":true,"HealthCheckURI":null}`, false},
		"empty lists":   {`"TCPListenerConfig":{"EstablishedTimeout":900,"PortRanges":{"PortRange":[]}},"Tags":[]`, true},
		"no ranges":     {`"TCPListenerConfig":{"EstablishedTimeout":900,"PortRanges":[]}`, false},
		"port ranges":   {`"TCPListenerConfig":{"EstablishedTimeout":900,"PortRanges":[{"StartPort":1,"EndPort":2}]}`, true},
		"tags":          {`"TCPListenerConfig":{"EstablishedTimeout":900},"Tags":[{"TagKey":"a"}]`, true},
		"no settings":   {`"AclStatus":"off"`, true},
		"null settings": {`"TCPListenerConfig":null`, true},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"RequestId":"R","Listeners":[{"LoadBalancerId":"lb-1","ListenerPort":80,"ListenerProtocol":"tcp","Status":"running",` + tt.more + `}]}`
			list, err := wire(t, says(200, body)).SLB.Listeners(t.Context(), "lb-1")
			if err != nil || len(list) != 1 || list[0].Partial != tt.want {
				t.Errorf("got %+v, %v, want it partial: %v", list, err, tt.want)
			}
		})
	}
}
