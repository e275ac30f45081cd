package sim_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestGateway(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{Callers: []sim.Caller{
		{Name: "sts", AccessKeyID: "STS.a", Secret: "s", Token: "tok", Expires: now.Add(time.Hour), Allow: []string{"*"}},
		{Name: "old", AccessKeyID: "STS.b", Secret: "s", Token: "tok", Expires: now.Add(-time.Hour), Allow: []string{"*"}},
	}})
	admin := c.Admin()
	for _, tt := range []struct {
		name   string
		key    sim.Credentials
		edit   func(*slb.DescribeLoadBalancersRequest)
		code   string
		status int
	}{
		{name: "good", key: admin},
		{name: "good token", key: sim.Credentials{AccessKeyID: "STS.a", Secret: "s", Token: "tok"}},
		{name: "unknown key", key: sim.Credentials{AccessKeyID: "LTAI", Secret: "x", Token: ""}, code: "InvalidAccessKeyId.NotFound", status: 404},
		{name: "wrong secret", key: sim.Credentials{AccessKeyID: admin.AccessKeyID, Secret: "x", Token: ""}, code: "SignatureDoesNotMatch", status: 400},
		{name: "wrong token", key: sim.Credentials{AccessKeyID: "STS.a", Secret: "s", Token: "other"}, code: "InvalidSecurityToken.MismatchWithAccessKey",
			status: 400},
		{name: "no token", key: sim.Credentials{AccessKeyID: "STS.a", Secret: "s", Token: ""}, code: "MissingSecurityToken", status: 400},
		{name: "expired token", key: sim.Credentials{AccessKeyID: "STS.b", Secret: "s", Token: "tok"}, code: "InvalidSecurityToken.Expired", status: 400},
		{name: "page too large", key: admin, edit: func(r *slb.DescribeLoadBalancersRequest) { r.PageSize = requests.NewInteger(101) },
			code: "InvalidParameter.PageSize", status: 400},
		{name: "odd characters", key: admin, edit: func(r *slb.DescribeLoadBalancersRequest) { r.LoadBalancerName = "a b*~+/&=ü%" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := slb.CreateDescribeLoadBalancersRequest()
			if tt.edit != nil {
				tt.edit(r)
			}
			_, err := simtest.Dial(t, c, tt.key, slb.NewClientWithOptions).DescribeLoadBalancers(r)
			if tt.code == "" {
				simtest.Check(t, err)
				return
			}
			e := simtest.Refused(t, err, tt.code, tt.status)
			if e.RequestId() == "" || e.HostId() == "" || e.Recommend() == "" {
				t.Errorf("the answer lacks RequestId, HostId or Recommend: %v", e)
			}
		})
	}
	t.Run("unknown action", func(t *testing.T) {
		r := requests.NewCommonRequest()
		r.Product, r.Version, r.ApiName, r.Domain = "Slb", "2014-05-15", "DescribeNothing", "slb.aliyuncs.com"
		_, err := simtest.Dial(t, c, admin, sdk.NewClientWithOptions).ProcessCommonRequest(r)
		simtest.Refused(t, err, "InvalidAction.NotFound", 404)
	})
	t.Run("missing parameter", func(t *testing.T) {
		_, err := simtest.Dial(t, c, admin, slb.NewClientWithOptions).DescribeLoadBalancerAttribute(slb.CreateDescribeLoadBalancerAttributeRequest())
		simtest.Refused(t, err, "MissingParameter.LoadBalancerId", 400)
	})
}

type replay struct {
	simtest.Wire
	url string
}

func (r *replay) RoundTrip(q *http.Request) (*http.Response, error) {
	r.url = q.URL.RawQuery
	return r.Wire.RoundTrip(q)
}

func TestNonceAndTime(t *testing.T) {
	now := time.Now()
	c := sim.New(t, nil, sim.WithClock(func() time.Time { return now }))
	k := c.Admin()
	cfg := sdk.NewConfig()
	rec := &replay{Wire: simtest.Wire{Addr: c.Addr()}}
	cfg.Transport = rec
	client, err := slb.NewClientWithOptions("cn-hangzhou", cfg, credentials.NewAccessKeyCredential(k.AccessKeyID, k.Secret))
	simtest.Check(t, err)
	_, err = client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	simtest.Check(t, err)
	again := func() string {
		resp, err := http.Post("http://"+c.Addr()+"/?"+rec.url, "application/x-www-form-urlencoded", nil)
		simtest.Check(t, err)
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		simtest.Check(t, err)
		return string(b)
	}
	if got := again(); !strings.Contains(got, "SignatureNonceUsed") {
		t.Errorf("a request sent twice: got %s", got)
	}
	c.Edit(func(*sim.State) { now = now.Add(16 * time.Minute) })
	if got := again(); !strings.Contains(got, "InvalidTimeStamp.Expired") {
		t.Errorf("a request of 16 minutes ago: got %s", got)
	}
}

func TestWorldDefaultsAndSnapshot(t *testing.T) {
	w, err := sim.ParseWorld([]byte("vswitches:\n- {id: vsw-a, zone: cn-hangzhou-h, free: 0}\n- {id: vsw-b}\nram: {delay: 30s}\n"))
	simtest.Check(t, err)
	c := sim.New(t, w)
	s := c.Snapshot()
	if len(s.VPCs) != 1 || s.Cluster.VPC != "vpc-1" || s.VSwitches[0].VPC != "vpc-1" || *s.VSwitches[0].Free != 0 || *s.VSwitches[1].Free != 4092 {
		t.Errorf("got %+v", s)
	}
	if s.VSwitches[0].CIDR == s.VSwitches[1].CIDR {
		t.Errorf("both vSwitches have %s", s.VSwitches[0].CIDR)
	}
	again := sim.New(t, s).Snapshot()
	if got, want := simtest.Text(t, again), simtest.Text(t, s); got != want {
		t.Errorf("a Cloud that starts from a snapshot differs:\n%s\n%s", got, want)
	}
	for _, bad := range []string{
		"nothing: true", "vswitches: [{id: a, cidr: x}]", "loadBalancers: [{id: lb-1}, {id: lb-1}]", "vswitches: [{id: a, vpc: vpc-9}]",
		"cluster: {type: Serverless}", "policies: [{name: p, versions: [{document: x}]}]", "callers: [{name: a, role: none}]",
		"loadBalancers: [{id: lb-1, address: 10.0.0.9}, {id: lb-2, address: 10.0.0.9}]", "account: {balance: much}",
		"loadBalancers: [{id: lb-1, listeners: [{port: 80, vgroup: rsp-9}]}]",
	} {
		w, err := sim.ParseWorld([]byte(bad))
		if err == nil {
			_, err = sim.Start(w)
		}
		if err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}

func TestOnlyLoopback(t *testing.T) {
	if c, err := sim.Start(nil, sim.WithListener("0.0.0.0:0")); err == nil {
		c.Close()
		t.Error("a server for everybody was started")
	}
}
