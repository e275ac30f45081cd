// Package simtest has helpers for tests of the simulated cloud: SDK clients and worlds.
package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	sdkerrors "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
)

// A Wire is a transport that sends requests for the cloud to the simulator at Addr, with an unchanged Host header.
type Wire struct{ Addr string }

// RoundTrip sends a request to the simulator.
func (w Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host, r.URL.Scheme, r.URL.Host = r.URL.Host, "http", w.Addr
	return http.DefaultTransport.RoundTrip(r)
}

// Instead redirects HTTPS requests of clients with a copy of the default transport, such as those for RAM roles, to addr until
// the test ends. It returns the requested hosts. Tests that use it cannot be parallel.
func Instead(t testing.TB, addr string) (asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var hosts []string
	shared := http.DefaultTransport.(*http.Transport)
	was := shared.DialTLSContext
	t.Cleanup(func() { shared.DialTLSContext = was })
	shared.DialTLSContext = func(ctx context.Context, network, host string) (net.Conn, error) {
		mu.Lock()
		hosts = append(hosts, host)
		mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return hosts
	}
}

// ServiceAccount tests a credentials chain with RRSA: STS is called at its address in the region's VPC if the environment says
// so, as the chart does. If STS refuses, the error names the role and the reason, and the node's role is not used instead.
func ServiceAccount(t *testing.T, chain func(context.Context) error) {
	served := sim.New(t, &sim.World{})
	account := served.Snapshot().AccountID
	token := filepath.Join(t.TempDir(), "token")
	const secret = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	role := "acs:ram::" + account + ":role/lbremedy-up"
	for name, value := range map[string]string{
		"ALIBABA_CLOUD_ACCESS_KEY_ID": "", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "", "ALIBABA_CLOUD_SECURITY_TOKEN": "", "HOME": t.TempDir(),
		"ALIBABA_CLOUD_ROLE_ARN": role, "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "acs:ram::" + account + ":oidc-provider/none",
		"ALIBABA_CLOUD_OIDC_TOKEN_FILE": token, "ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED": "true", "ALIBABA_CLOUD_STS_REGION": "cn-hangzhou",
		"ALIBABA_CLOUD_CREDENTIALS_URI": "http://" + served.Addr() + "/role-of-the-node",
	} {
		t.Setenv(name, value)
	}
	asked := Instead(t, served.Addr())
	err := chain(t.Context())
	if err == nil || !strings.Contains(err.Error(), role+" could not be assumed") || !strings.Contains(err.Error(), "STS says AuthenticationFail.") ||
		strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
	if got := asked(); len(got) != 1 || got[0] != "sts-vpc.cn-hangzhou.aliyuncs.com:443" {
		t.Errorf("asked were %q", got)
	}
}

// dialing serializes the creation of SDK clients: a service package's first client fills its endpoint map without a lock.
var dialing sync.Mutex

// Dial returns an SDK client for c, made by a service package's constructor, that signs with k.
func Dial[T any](t testing.TB, c *sim.Cloud, k sim.Credentials, make func(string, *sdk.Config, auth.Credential) (T, error)) T {
	t.Helper()
	cfg := sdk.NewConfig().WithScheme("HTTPS")
	cfg.Transport = Wire{Addr: c.Addr()}
	var cred auth.Credential = credentials.NewAccessKeyCredential(k.AccessKeyID, k.Secret)
	if k.Token != "" {
		cred = credentials.NewStsTokenCredential(k.AccessKeyID, k.Secret, k.Token)
	}
	dialing.Lock()
	client, err := make("cn-hangzhou", cfg, cred)
	dialing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Refused checks that err has this code and HTTP status.
func Refused(t testing.TB, err error, code string, status int) *sdkerrors.ServerError {
	t.Helper()
	var e *sdkerrors.ServerError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal with %s", err, code)
	}
	if e.ErrorCode() != code || e.HttpStatus() != status {
		t.Fatalf("got %d %s (%s), want %d %s", e.HttpStatus(), e.ErrorCode(), e.Message(), status, code)
	}
	return e
}

// Check fails a test with an error immediately.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Text returns v as JSON.
func Text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	Check(t, err)
	return string(b)
}

// Create creates a CLB.
func Create(client *slb.Client, edit func(*slb.CreateLoadBalancerRequest)) (*slb.CreateLoadBalancerResponse, error) {
	r := slb.CreateCreateLoadBalancerRequest()
	edit(r)
	return client.CreateLoadBalancer(r)
}

// Attribute reads a CLB.
func Attribute(client *slb.Client, id string) (*slb.DescribeLoadBalancerAttributeResponse, error) {
	r := slb.CreateDescribeLoadBalancerAttributeRequest()
	r.LoadBalancerId = id
	return client.DescribeLoadBalancerAttribute(r)
}

// Web returns a load balancer with a listener of each protocol and two groups.
func Web() sim.LoadBalancer {
	return sim.LoadBalancer{
		ID: "lb-a", VGroups: []sim.VGroup{{ID: "rsp-a"}, {ID: "rsp-b"}},
		Listeners: []sim.Listener{
			{Port: 80, Protocol: "http", VGroup: "rsp-a"}, {Port: 81, Protocol: "tcp", VGroup: "rsp-a"}, {Port: 82, Protocol: "udp"},
			{Port: 443, Protocol: "https", Config: map[string]string{"ServerCertificateId": "cert-a"}},
		},
	}
}

// NLBWorld has the resources that an NLB needs, and some that it cannot use.
func NLBWorld() *sim.World {
	return &sim.World{
		VPCs: []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
		VSwitches: []sim.VSwitch{
			{ID: "vsw-h", Free: new(5)}, {ID: "vsw-i", Zone: "cn-hangzhou-i", Free: new(5)}, {ID: "vsw-j", Zone: "cn-hangzhou-j", Free: new(0)},
			{ID: "vsw-k", Zone: "cn-hangzhou-k", IPv6: "2001:db8:1::/64"}, {ID: "vsw-other", VPC: "vpc-2", CIDR: "10.200.0.0/20"},
		},
		EIPs:           []sim.EIP{{ID: "eip-a", IP: "198.51.100.200"}, {ID: "eip-b", IP: "198.51.100.201", Instance: "i-9"}},
		Instances:      []sim.Instance{{ID: "i-a", VSwitch: "vsw-h"}, {ID: "i-far", VSwitch: "vsw-other"}},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-a"}, {ID: "sg-far", VPC: "vpc-2"}},
	}
}

// CallCS makes a request to the container service for which the SDK has no type, and decodes the answer.
func CallCS(t testing.TB, c *sim.Cloud, method, path, body string, out any) error {
	t.Helper()
	r := requests.NewCommonRequest()
	r.Method, r.Product, r.Version, r.PathPattern, r.Domain = method, "CS", "2015-12-15", path, "cs.cn-hangzhou.aliyuncs.com"
	if body != "" {
		r.Content = []byte(body)
		r.Headers["Content-Type"] = "application/json"
	}
	resp, err := Dial(t, c, c.Admin(), sdk.NewClientWithOptions).ProcessCommonRequest(r)
	if err != nil {
		return err
	}
	if out != nil {
		Check(t, json.Unmarshal(resp.GetHttpContentBytes(), out))
	}
	return nil
}

// Policy returns a policy's only version with these statements.
func Policy(statements ...string) []sim.PolicyVersion {
	return []sim.PolicyVersion{{Document: `{"Version":"1","Statement":[` + strings.Join(statements, ",") + `]}`}}
}
