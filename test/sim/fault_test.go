package sim_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestFaults(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	rename := func(to string) error {
		r := slb.CreateSetLoadBalancerNameRequest()
		r.LoadBalancerId, r.LoadBalancerName = "lb-1", to
		_, err := client.SetLoadBalancerName(r)
		return err
	}
	name := func() string { return c.Snapshot().LoadBalancers[0].Name }

	remove := c.Fault(sim.Fault{Product: "slb", Action: "Set*", Code: "Throttling.User"})
	if e := simtest.Refused(t, rename("a"), "Throttling.User", 400); e.Message() != "Request was denied due to user flow control." {
		t.Errorf("got %q", e.Message())
	}
	remove()
	simtest.Check(t, rename("b"))

	for _, tt := range []struct {
		fault sim.Fault
		want  string // name after a call that sets it to "new"
	}{
		{sim.Fault{CutBefore: true, Count: 1}, "old"},
		{sim.Fault{CutAfter: true, Count: 1}, "new"},
		{sim.Fault{Garbage: true, Count: 1}, "new"},
	} {
		simtest.Check(t, rename("old"))
		c.Fault(tt.fault)
		if err := rename("new"); err == nil {
			t.Errorf("%+v: no error", tt.fault)
		}
		if got := name(); got != tt.want {
			t.Errorf("%+v: the name is %q, want %q", tt.fault, got, tt.want)
		}
	}
	simtest.Check(t, rename("b"))

	client.SetReadTimeout(50 * time.Millisecond)
	remove = c.Fault(sim.Fault{Hang: true, Caller: "admin"})
	if err := rename("h"); err == nil || name() != "b" {
		t.Errorf("a call that hangs: got %v, name %q", err, name())
	}
	remove()
	client.SetReadTimeout(time.Minute)
	remove = c.Fault(sim.Fault{Delay: 20 * time.Millisecond})
	at := time.Now()
	if err := rename("e"); err != nil || time.Since(at) < 20*time.Millisecond {
		t.Errorf("a call that is late: got %v after %v", err, time.Since(at))
	}
	remove()
	c.Fault(sim.Fault{Rate: 0.5, Code: "InternalError"})
	failed := 0
	for range 200 {
		if rename("f") != nil {
			failed++
		}
	}
	if failed < 60 || failed > 140 {
		t.Errorf("%d of 200 calls failed, want about half", failed)
	}
}

func TestFaultKinds(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}})
	k := c.Client("one", "slb:*", "vpc:*")
	client := simtest.Dial(t, c, k, slb.NewClientWithOptions)
	list := func() error {
		_, err := client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
		return err
	}
	other := func() error {
		_, err := simtest.Dial(t, c, c.Client("other", "slb:*"), slb.NewClientWithOptions).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
		return err
	}
	vpcs := func() error {
		_, err := simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
		return err
	}
	for _, tt := range []struct {
		code   string
		status int
		text   string
	}{
		{"Throttling", 400, "Request was denied due to request throttling."},
		{"Throttling.User", 400, "Request was denied due to user flow control."},
		{"ServiceUnavailable", 503, "The request has failed due to a temporary failure of the server."},
		{"InternalError", 500, "The request processing has failed due to some unknown error, exception or failure."},
		{"InvalidSecurityToken.Expired", 400, "Specified SecurityToken is expired."},
		{"SystemBusy", 400, "The system is busy."},
		{"OperationFailed.TokenIsProcessing", 400, "The operation is failed, because the Client Token is processing."},
		{"BackendServer.configuring", 409, "A previous configuration of the load balancer is pending; please try again later."},
		{"VSwitchAvailableIpNotExist", 400, "The specified VSwitch has no availabe ip."}, // sic
	} {
		c.Fault(sim.Fault{Code: tt.code, Count: 1})
		if e := simtest.Refused(t, list(), tt.code, tt.status); e.Message() != tt.text {
			t.Errorf("%s: got %q", tt.code, e.Message())
		}
		simtest.Check(t, list())
	}

	for _, tt := range []struct {
		fault            sim.Fault
		mine, theirs, of bool // the fault applies
	}{
		{sim.Fault{Product: "vpc"}, false, false, true},
		{sim.Fault{Action: "DescribeLoadBalancers"}, true, true, false},
		{sim.Fault{Action: "Describe*"}, true, true, true},
		{sim.Fault{Caller: "other"}, false, true, false},
		{sim.Fault{Product: "slb", Action: "Describe*", Caller: "one"}, true, false, false},
		{sim.Fault{Product: "nlb", Action: "Describe*", Caller: "one"}, false, false, false},
	} {
		tt.fault.Code = "InternalError"
		remove := c.Fault(tt.fault)
		if (list() != nil) != tt.mine || (other() != nil) != tt.theirs || (vpcs() != nil) != tt.of {
			t.Errorf("%+v hit the wrong calls", tt.fault)
		}
		remove()
	}
	remove := c.Fault(sim.Fault{Code: "InternalError", Count: 2})
	first, second, third := list(), list(), list()
	if first == nil || second == nil || third != nil {
		t.Errorf("a fault that hits twice: got %v, %v and %v", first, second, third)
	}
	remove()

	c.Fault(sim.Fault{Body: "<html>Bad Gateway</html>", Status: 502, Count: 1})
	simtest.Refused(t, list(), "", 502)
	c.Fault(sim.Fault{Body: "{}", Count: 1})
	simtest.Check(t, list()) // the SDK accepts an answer without its fields
	for _, body := range []string{`[]`, `"text"`, `{"LoadBalancers":[]}`, `{"TotalCount":{}}`} {
		c.Fault(sim.Fault{Body: body, Count: 1})
		if err := list(); err == nil {
			t.Errorf("%s: no error", body)
		}
	}
	c.Fault(sim.Fault{Body: `{"Code":403,"Message":"m"}`, Status: 403, Count: 1})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the SDK no longer panics at a code that is a number")
			}
		}()
		_ = list()
	}()
	calls := c.CallsOf("one")
	if last := calls[len(calls)-1]; last.Status != 403 || last.Code != "garbage" {
		t.Errorf("got %+v", last)
	}
}

func TestFaultsOfOtherManners(t *testing.T) {
	c := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: "c-a"}})
	c.Fault(sim.Fault{Product: "cs", Action: "DescribeClusterDetail", Code: "ServiceUnavailable", Count: 1})
	err := simtest.CallCS(t, c, "GET", "/clusters/c-a", "", nil)
	if e := simtest.Refused(t, err, "", 503); !strings.Contains(e.Message(), `"code":"ServiceUnavailable"`) {
		t.Errorf("got %s", e.Message())
	}
	simtest.Check(t, simtest.CallCS(t, c, "GET", "/clusters/c-a", "", nil))
	c.Fault(sim.Fault{Product: "nlb", Code: "Throttling.User", Count: 1})
	a := acs3{cloud: c, key: c.Admin(), action: "ListLoadBalancers", version: "2022-04-30"}
	if status, out := a.send(t); status != 400 || out["Code"] != "Throttling.User" || out["Message"] != "Request was denied due to api flow control." {
		t.Errorf("got %d %v", status, out)
	}
	if status, out := a.send(t); status != 200 {
		t.Errorf("got %d %v", status, out)
	}
	for _, f := range []sim.Fault{{CutBefore: true}, {CutAfter: true}} {
		remove := c.Fault(f)
		if err := simtest.CallCS(t, c, "GET", "/clusters/c-a", "", nil); err == nil { // as a retried GET, too
			t.Errorf("%+v: no error", f)
		}
		remove()
	}
}

func TestCalls(t *testing.T) {
	c := sim.New(t, nil, sim.WithCallLimit(3))
	client := simtest.Dial(t, c, c.Client("reader", "slb:DescribeLoadBalancers"), slb.NewClientWithOptions)
	for range 10 {
		_, err := client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
		simtest.Check(t, err)
	}
	r := slb.CreateDeleteLoadBalancerRequest()
	r.LoadBalancerId = "lb-1"
	_, err := client.DeleteLoadBalancer(r)
	simtest.Refused(t, err, "Forbidden.RAM", 403)
	calls := c.CallsOf("reader")
	last := calls[len(calls)-1]
	if len(calls) > 6 || last.Product != "slb" || last.Action != "DeleteLoadBalancer" || last.Code != "Forbidden.RAM" || last.Status != 403 ||
		last.Params["LoadBalancerId"] != "lb-1" || last.Params["Signature"] != "" || last.RequestID == "" || last.At.IsZero() {
		t.Errorf("got %+v", calls)
	}
	c.ResetCalls()
	if n := len(c.Calls()); n != 0 {
		t.Errorf("%d calls after a reset", n)
	}
}

func BenchmarkCalls(b *testing.B) {
	w := &sim.World{}
	for range 60 {
		w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{VSwitch: "vsw-1", Tags: map[string]string{"kubernetes.do.not.delete": "a"}})
	}
	c := sim.New(b, w)
	k := c.Admin()
	var before, after syscall.Rusage
	simtest.Check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		client := simtest.Dial(b, c, k, slb.NewClientWithOptions)
		for p.Next() {
			r := slb.CreateDescribeLoadBalancerAttributeRequest()
			r.LoadBalancerId = "lb-7"
			if _, err := client.DescribeLoadBalancerAttribute(r); err != nil {
				b.Error(err)
			}
		}
	})
	simtest.Check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(spent)/1e3/float64(b.N), "cpu-µs/call") // independent of other processes
}

// BenchmarkServer measures only the simulator, with presigned requests.
func BenchmarkServer(b *testing.B) {
	c := sim.New(b, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}}})
	k := c.Admin()
	signed := make([]*http.Request, 0, 1000)
	sign := func(n int) *http.Request {
		q := url.Values{
			"Action": {"DescribeLoadBalancerAttribute"}, "Version": {"2014-05-15"}, "LoadBalancerId": {"lb-a"}, "RegionId": {"cn-hangzhou"},
			"AccessKeyId": {k.AccessKeyID}, "SignatureMethod": {"HMAC-SHA1"}, "SignatureVersion": {"1.0"}, "Format": {"JSON"},
			"SignatureNonce": {strconv.Itoa(n)}, "Timestamp": {time.Now().UTC().Format("2006-01-02T15:04:05Z")},
		}
		mac := hmac.New(sha1.New, []byte(k.Secret+"&"))
		mac.Write([]byte("POST&%2F&" + url.QueryEscape(q.Encode())))
		q.Set("Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		return httptest.NewRequest(http.MethodPost, "/?"+q.Encode(), nil)
	}
	for n := 0; b.Loop(); n++ {
		if len(signed) == 0 {
			b.StopTimer()
			for i := range 1000 {
				signed = append(signed, sign(n+i))
			}
			b.StartTimer()
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, signed[0])
		if w.Code != http.StatusOK {
			b.Fatal(w.Body.String())
		}
		signed = signed[1:]
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		c, err := sim.Start(nil)
		simtest.Check(b, err)
		c.Close()
	}
}
