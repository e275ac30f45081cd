package sim_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	sdkerrors "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

type actionCall struct {
	name   string                            // in RAM
	before func(testing.TB, *sim.Cloud)      // prepares the call; nil: nothing to do
	send   func(*sdk.Client) (string, error) // returns the answer's body
	open   bool                              // unsigned, without a check by RAM
}

func host(product string) string {
	if product == "BssOpenApi" {
		return "business.aliyuncs.com"
	}
	return strings.ToLower(product) + ".cn-hangzhou.aliyuncs.com"
}

// on makes a call from the SDK's types. set has pairs of request fields and values, or pointers to values known only at the call.
func on[Q requests.AcsRequest, A responses.AcsResponse](name string, request func() Q, response func() A, set ...any) actionCall {
	return actionCall{name: name, send: func(c *sdk.Client) (string, error) {
		q, a := request(), response()
		for pair := range slices.Chunk(set, 2) {
			field, value := reflect.ValueOf(q).Elem().FieldByName(pair[0].(string)), reflect.ValueOf(pair[1])
			if field.Kind() != reflect.Pointer {
				value = reflect.Indirect(value)
			}
			field.Set(value.Convert(field.Type()))
		}
		if q.GetStyle() == requests.ROA {
			q.GetHeaders()["Content-Type"] = "application/json"
		}
		q.SetDomain(host(q.GetProduct()))
		err := c.DoAction(q, a)
		return a.GetHttpContentString(), err
	}}
}

// plainly makes a call without an SDK type, with parameters in the query. A call with a path goes to the container service and has a body.
func plainly(name, product, version, path string, said ...string) actionCall {
	return actionCall{name: name, send: func(c *sdk.Client) (string, error) {
		r := requests.NewCommonRequest()
		r.Product, r.Version, r.Domain = product, version, host(product)
		if method, pattern, ok := strings.Cut(path, " "); ok {
			r.Method, r.PathPattern = method, pattern
			if len(said) > 0 {
				r.Content = []byte(said[0])
				r.Headers["Content-Type"] = "application/json"
			}
		} else {
			r.ApiName = path
			for i := 0; i < len(said); i += 2 {
				r.QueryParams[said[i]] = said[i+1]
			}
		}
		resp, err := c.ProcessCommonRequest(r)
		if err != nil {
			return "", err
		}
		return resp.GetHttpContentString(), nil
	}}
}

func (a actionCall) after(before func(testing.TB, *sim.Cloud)) actionCall {
	a.before = before
	return a
}

func everything() *sim.World {
	lb := simtest.Web()
	lb.Tags = map[string]string{"k": "v"}
	lb.VGroups[0].Backends = []sim.Backend{{Server: "i-a", Port: 80}}
	lb.Listeners[0].Rules = []sim.Rule{{ID: "rule-a", Name: "r", URL: "/a", VGroup: "rsp-a"}}
	lb.Listeners[3].Domains = []sim.Domain{{ID: "de-a", Name: "a.example", Certificate: "cert-a"}}
	spare := sim.VGroup{ID: "rsp-spare"}
	lb.VGroups = append(lb.VGroups, spare)
	w := simtest.NLBWorld()
	w.LoadBalancers = []sim.LoadBalancer{lb, {ID: "lb-spec", Spec: "slb.s1.small"}}
	w.Certificates, w.ACLs = []sim.Certificate{{ID: "cert-a"}, {ID: "cert-b"}, {ID: "cert-c"}},
		[]sim.ACL{{ID: "acl-a", Entries: []sim.ACLEntry{{Block: "192.0.2.0/24"}}}}
	w.ENIs = []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.5"}, VSwitch: "vsw-h", Instance: "i-a"}}
	w.SecurityGroups = append(w.SecurityGroups, sim.SecurityGroup{ID: "sg-b",
		Rules: []sim.SecurityRule{{ID: "sgr-a", Protocol: "TCP", Ports: "80/80", Source: "192.0.2.0/24"}}})
	w.RouteTables = []sim.RouteTable{{ID: "vtb-a", Routes: []sim.Route{{ID: "rte-a", Block: "172.20.0.0/24", NextHop: "i-a"}}}}
	w.NLBs = []sim.NLB{{
		ID: "nlb-a", Zones: []sim.NLBZone{{VSwitch: "vsw-h"}, {VSwitch: "vsw-i"}}, SecurityGroups: []string{"sg-b"}, BandwidthPackage: "cbwp-a", IPVersion: "ipv4",
		Tags: map[string]string{"k": "v"}, Listeners: []sim.NLBListener{{ID: "lsn-a", Port: 80, Protocol: "TCP", ServerGroup: "sgp-a"}},
	}}
	w.NLBs = append(w.NLBs, sim.NLB{ID: "nlb-b", Zones: []sim.NLBZone{{VSwitch: "vsw-h"}, {VSwitch: "vsw-i"}}, Listeners: []sim.NLBListener{
		{ID: "lsn-s", Port: 443, Protocol: "TCPSSL", ServerGroup: "sgp-a", Certificates: []string{"cert-a"}, Further: []string{"cert-c"}},
	}}, sim.NLB{ID: "nlb-6", IPVersion: "DualStack", Zones: []sim.NLBZone{{VSwitch: "vsw-k"}}})
	w.ServerGroups = []sim.ServerGroup{{ID: "sgp-a", Servers: []sim.Server{{ID: "i-a", Port: 80}}}, {ID: "sgp-b"}}
	w.Cluster = sim.Cluster{
		ID: "c-a", Addons: map[string]string{"cloud-controller-manager": "v2.12.1", "coredns": "v1.9"},
		AddonLatest: map[string]string{"cloud-controller-manager": "v2.14.0", "ack-node-problem-detector": "v1.2"},
		NodePools:   []sim.NodePool{{ID: "np-a", Default: true}},
	}
	document := `{"Version":"1","Statement":[{"Effect":"Allow","Action":"slb:*","Resource":"*"}]}`
	w.Policies = []sim.Policy{{Name: "p", Versions: []sim.PolicyVersion{{Document: document}, {Document: document}}},
		{Name: "free", Versions: []sim.PolicyVersion{{Document: document}}}}
	w.Roles = []sim.Role{{Name: "masters", Policies: []string{"p"}, OIDC: []sim.OIDCTrust{{Provider: "rrsa", Subject: "*"}}}}
	w.OIDCProviders = []sim.OIDCProvider{{Name: "rrsa", Issuer: "https://issuer"}}
	w.Quotas = []sim.Quota{{Name: "slb_quota_listeners_num", Code: "q_a", Total: 50, Max: 100, Adjustable: true},
		{Name: "slb_quota_backendservers_num", Code: "q_b", Total: 200, Max: 400, Adjustable: true}}
	w.QuotaApplications = []sim.QuotaApplication{{ID: "app-a", Code: "q_b", Desired: 300}}
	w.Tickets = []sim.Ticket{{ID: "T1", Description: "d"}, {ID: "T2", Description: "d", Status: "completed"}}
	return w
}

func unsigned(said map[string]any) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]any{"alg": "RS256"}) + "." + part(said) + ".c2ln"
}

type refusal struct{ code, text string }

var refusals = map[string]refusal{
	"slb": {"Forbidden.RAM", "User not authorized to operate on the specified resource, or this API doesn't support RAM."},
	"nlb": {"Forbidden.NoPermission", "Authentication is failed for NoPermission."},
	"cs":  {"StatusForbidden", "You are not authorized to do this action. You should be authorized by RAM."},
	"":    {"NoPermission", "You are not authorized to do this action. You should be authorized by RAM."}, // all others
}

func denied(t *testing.T, product, action string, err error) {
	t.Helper()
	want, ok := refusals[product]
	if !ok {
		want = refusals[""]
	}
	e, ok := errors.AsType[*sdkerrors.ServerError](err)
	if !ok {
		t.Fatalf("without a grant: got %v", err)
	}
	code, message, detail := e.ErrorCode(), e.Message(), e.AccessDeniedDetail()
	if product == "cs" { // its lower-case fields are not decoded by the SDK
		var body struct {
			Code, Message, RequestID string
			AccessDeniedDetail       map[string]any
		}
		simtest.Check(t, json.Unmarshal([]byte(e.Message()), &body))
		code, message, detail = body.Code, body.Message, body.AccessDeniedDetail
	} else if e.RequestId() == "" || e.HostId() == "" || e.Recommend() == "" {
		t.Errorf("the refusal lacks RequestId, HostId or Recommend: %v", e)
	}
	if e.HttpStatus() != 403 || code != want.code || message != want.text {
		t.Errorf("without a grant: got %d %s (%s)", e.HttpStatus(), code, message)
	}
	if detail["AuthAction"] != action || detail["NoPermissionType"] != "ImplicitDeny" || detail["AuthPrincipalDisplayName"] != "nobody" {
		t.Errorf("without a grant: got %v", detail)
	}
}

// TestActions calls each action of the Cloud with the SDK: with only the grant that it needs, without grants, and with a wrong key.
func TestActions(t *testing.T) {
	calls := slices.Concat(slbCalls(), vpcCalls(), ecsCalls(), ramCalls(), stsCalls(), csCalls(), supportCalls(), nlbCalls())
	byName := map[string]actionCall{}
	for _, c := range calls {
		if _, twice := byName[c.name]; twice {
			t.Errorf("%s is called twice", c.name)
		}
		byName[c.name] = c
	}
	for _, name := range sim.Actions() {
		call, ok := byName[name]
		if !ok {
			t.Errorf("%s: no call; add one to the table of its product", name)
			continue
		}
		delete(byName, name)
		t.Run(strings.ReplaceAll(name, ":", "."), func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			c := sim.New(t, everything(), sim.WithClock(func() time.Time { return now }))
			if call.before != nil {
				call.before(t, c)
			}
			product, _, _ := strings.Cut(name, ":")
			if !call.open {
				_, err := call.send(simtest.Dial(t, c, c.Client("nobody"), sdk.NewClientWithOptions))
				denied(t, product, name, err)
				k := c.Client("one", name)
				k.Secret = "wrong"
				_, err = call.send(simtest.Dial(t, c, k, sdk.NewClientWithOptions))
				if e := simtest.Refused(t, err, "SignatureDoesNotMatch", 400); !strings.Contains(e.Message(), "server string to sign is:") {
					t.Errorf("got %q", e.Message())
				}
			}
			answer, err := call.send(simtest.Dial(t, c, c.Client("one", name), sdk.NewClientWithOptions))
			if err != nil {
				t.Fatal(err)
			}
			if product != "cs" && !strings.Contains(answer, `"RequestId":"`) {
				t.Errorf("an answer without its ID: %s", answer)
			}
			for _, k := range c.CallsOf("one") {
				if k.Code == "" && k.Product != product {
					t.Errorf("the call was recorded as %+v", k)
				}
			}
		})
	}
	for name := range byName {
		t.Errorf("%s: the Cloud has no such action", name)
	}
}

// needed are the actions that the real controller and lbremedy call or may need. Those of NLB are in the tests of nlb.
var needed = map[string]string{
	"slb": `DescribeLoadBalancers CreateLoadBalancer DescribeLoadBalancerAttribute DeleteLoadBalancer ListTagResources TagResources UntagResources
		DescribeVServerGroups DescribeVServerGroupAttribute CreateVServerGroup SetVServerGroupAttribute DeleteVServerGroup AddVServerGroupBackendServers
		RemoveVServerGroupBackendServers ModifyVServerGroupBackendServers DescribeLoadBalancerListeners CreateLoadBalancerTCPListener
		CreateLoadBalancerUDPListener CreateLoadBalancerHTTPListener CreateLoadBalancerHTTPSListener SetLoadBalancerTCPListenerAttribute
		SetLoadBalancerUDPListenerAttribute SetLoadBalancerHTTPListenerAttribute SetLoadBalancerHTTPSListenerAttribute StartLoadBalancerListener
		StopLoadBalancerListener DeleteLoadBalancerListener SetLoadBalancerDeleteProtection SetLoadBalancerModificationProtection SetLoadBalancerName
		ModifyLoadBalancerInternetSpec ModifyLoadBalancerInstanceSpec ModifyLoadBalancerInstanceChargeType ModifyLoadBalancerPayType
		DescribeServerCertificates CreateDomainExtension SetDomainExtensionAttribute DeleteDomainExtension DescribeDomainExtensions AddTags RemoveTags
		DescribeTags DescribeAvailableResource DescribeAccessControlLists DescribeAccessControlListAttribute DescribeRules`,
	"vpc": `DescribeVSwitches DescribeVSwitchAttributes DescribeVpcAttribute DescribeVpcs CreateVSwitch DescribeEipAddresses DescribeRouteTableList
		DescribeRouteEntryList CreateRouteEntry DeleteRouteEntry CreateRouteEntries DeleteRouteEntries`,
	"ecs": `DescribeNetworkInterfaces DescribeNetworkInterfaceAttribute DescribeInstances ModifyNetworkInterfaceAttribute CreateSecurityGroup
		DeleteSecurityGroup DescribeSecurityGroups DescribeSecurityGroupAttribute ModifySecurityGroupAttribute ModifySecurityGroupRule
		AuthorizeSecurityGroup RevokeSecurityGroup`,
	"ram": `ListPoliciesForRole GetPolicy GetPolicyVersion CreatePolicyVersion ListPolicyVersions DeletePolicyVersion SetDefaultPolicyVersion GetRole
		ListEntitiesForPolicy AttachPolicyToRole`,
	"sts": `AssumeRole AssumeRoleWithOIDC GetCallerIdentity`,
	"cs": `DescribeClusterDetail DescribeClusterAddonsVersion DescribeClusterAddonsUpgradeStatus UpgradeK8sComponents InstallK8sComponents
		DescribeClusterNodePools DescribeClusterNodePoolDetail DescribeClustersV1 DescribeClusterUserKubeconfig DescribeAddons DescribeClusterResources
		DescribeTaskInfo DescribeUserQuota ModifyClusterAddon QueryK8sComponentUpgradeStatus ListAddons DescribeAddon ListClusterAddonInstances
		GetClusterAddonInstance RunClusterCheck CreateClusterDiagnosis DescribeResourcesDeleteProtection UpdateResourcesDeleteProtection`,
	"quotas": `ListProductQuotas GetProductQuota CreateQuotaApplication GetQuotaApplication ListQuotaApplications ListProducts ListProductQuotaDimensions
		CreateQuotaAlarm`,
	"workorder": `CreateTicket ListTickets ListCategories ListProducts CloseTicket ReplyTicket ListTicketNotes GetTicket ReopenTicket EvaluateTicket
		GetAttachmentUploadUrl`,
	"bss": `DescribeAcccount`,
}

func TestNeeded(t *testing.T) {
	has := sim.Actions()
	for product, names := range needed {
		for name := range strings.FieldsSeq(names) {
			if !slices.Contains(has, product+":"+name) {
				t.Errorf("%s:%s is lacking", product, name)
			}
		}
	}
}
