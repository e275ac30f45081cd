package sim_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
)

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	check(t, err)
	return string(b)
}

func TestFaults(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}}})
	client := dial(t, c, c.Admin(), slb.NewClientWithOptions)
	rename := func(to string) error {
		r := slb.CreateSetLoadBalancerNameRequest()
		r.LoadBalancerId, r.LoadBalancerName = "lb-1", to
		_, err := client.SetLoadBalancerName(r)
		return err
	}
	name := func() string { return c.Snapshot().LoadBalancers[0].Name }

	remove := c.Fault(sim.Fault{Product: "slb", Action: "Set*", Code: "Throttling.User"})
	if e := refused(t, rename("a"), "Throttling.User", 400); e.Message() != "Request was denied due to user flow control." {
		t.Errorf("got %q", e.Message())
	}
	remove()
	check(t, rename("b"))

	for _, tt := range []struct {
		fault sim.Fault
		want  string // the name after a call that sets it to "new"
	}{
		{sim.Fault{CutBefore: true, Count: 1}, "old"},
		{sim.Fault{CutAfter: true, Count: 1}, "new"},
		{sim.Fault{Garbage: true, Count: 1}, "new"},
	} {
		check(t, rename("old"))
		c.Fault(tt.fault)
		if err := rename("new"); err == nil {
			t.Errorf("%+v: no error", tt.fault)
		}
		if got := name(); got != tt.want {
			t.Errorf("%+v: the name is %q, want %q", tt.fault, got, tt.want)
		}
	}
	check(t, rename("b"))

	client.SetReadTimeout(50 * time.Millisecond)
	remove = c.Fault(sim.Fault{Hang: true, Caller: "admin"})
	if err := rename("h"); err == nil || name() != "b" {
		t.Errorf("a call that hangs: got %v, name %q", err, name())
	}
	remove()
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

func TestCalls(t *testing.T) {
	c := sim.New(t, nil, sim.WithCallLimit(3))
	client := dial(t, c, c.Client("reader", "slb:DescribeLoadBalancers"), slb.NewClientWithOptions)
	for range 10 {
		_, err := client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
		check(t, err)
	}
	r := slb.CreateDeleteLoadBalancerRequest()
	r.LoadBalancerId = "lb-1"
	_, err := client.DeleteLoadBalancer(r)
	refused(t, err, "Forbidden.RAM", 403)
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

// BenchmarkCalls measures whole calls: the SDK, the wire and the simulator.
func BenchmarkCalls(b *testing.B) {
	w := &sim.World{}
	for range 60 {
		w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{VSwitch: "vsw-1", Tags: map[string]string{"kubernetes.do.not.delete": "a"}})
	}
	c := sim.New(b, w)
	k := c.Admin()
	slb.GetEndpointMap() // filled when first used, without a lock
	var before, after syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		client := dial(b, c, k, slb.NewClientWithOptions)
		for p.Next() {
			r := slb.CreateDescribeLoadBalancerAttributeRequest()
			r.LoadBalancerId = "lb-7"
			if _, err := client.DescribeLoadBalancerAttribute(r); err != nil {
				b.Error(err)
			}
		}
	})
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(spent)/1e3/float64(b.N), "cpu-µs/call") // does not depend on what else runs
}

// BenchmarkServer measures the simulator alone, with requests signed beforehand.
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
		check(b, err)
		c.Close()
	}
}
