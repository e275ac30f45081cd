package sim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

type person struct {
	t    *testing.T
	base string
}

func (p person) do(method, path, body string, header ...string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(body))
	simtest.Check(p.t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	simtest.Check(p.t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	simtest.Check(p.t, err)
	return resp.StatusCode, string(b)
}

func (p person) good(method, path, body string, header ...string) string {
	p.t.Helper()
	status, out := p.do(method, path, body, header...)
	if status >= 300 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, out)
	}
	return out
}

func TestAdmin(t *testing.T) {
	c := sim.New(t, &sim.World{
		VSwitches:     []sim.VSwitch{{ID: "vsw-a", Free: new(3)}},
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-a", VSwitch: "vsw-a", Tags: map[string]string{"k": "v"}, DeleteProtection: true}},
	}, sim.WithAdmin())
	p := person{t, "http://" + c.Addr() + "/sim/"}
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	if got := p.good("GET", "", ""); got != sim.AdminHelp {
		t.Errorf("got %s", got)
	}
	if got := p.good("GET", "actions", ""); !strings.Contains(got, "- nlb:CreateLoadBalancer\n") {
		t.Errorf("got %s", got)
	}

	p.good("PATCH", "loadBalancers/lb-a", `{tags: {k: null, key: "1"}, name: web}`)
	p.good("PUT", "loadBalancers/lb-b", "vswitch: vsw-a\n")
	got, err := simtest.Attribute(client, "lb-a")
	simtest.Check(t, err)
	if got.LoadBalancerName != "web" || len(got.Tags.Tag) != 1 || got.Tags.Tag[0].TagKey != "key" {
		t.Errorf("got %+v", got)
	}
	if got, err := simtest.Attribute(client, "lb-b"); err != nil || got.Address == "" || got.VpcId != "vpc-1" {
		t.Errorf("got %+v, %v", got, err)
	}
	p.good("PUT", "loadBalancers/lb-b", "name: other\n")
	if got := p.good("GET", "loadBalancers/lb-b", ""); !strings.Contains(got, "name: other\n") || strings.Contains(got, "vsw-a") {
		t.Errorf("got %s", got)
	}
	var list []sim.LoadBalancer
	simtest.Check(t, json.Unmarshal([]byte(p.good("GET", "loadBalancers", "", "Accept", "application/json")), &list))
	if len(list) != 2 || list[0].ID != "lb-a" {
		t.Errorf("got %+v", list)
	}
	p.good("DELETE", "loadBalancers/lb-a", "")
	if w := c.Snapshot(); len(w.LoadBalancers) != 1 || *w.VSwitches[0].Free != 4 {
		t.Errorf("got %s", simtest.Text(t, w))
	}
	p.good("PUT", "policies/p", `{versions: [{document: '{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'}]}`)
	p.good("PUT", "nlbs/nlb-a", "zones: [{vswitch: vsw-a}]\n")
	p.good("DELETE", "nlbs/nlb-a", "")
	p.good("DELETE", "policies/p", "")
	if w := c.Snapshot(); len(w.Policies) != 0 || len(w.NLBs) != 0 || *w.VSwitches[0].Free != 5 {
		t.Errorf("got %s", simtest.Text(t, w))
	}

	p.good("PATCH", "world", "account: {arrearage: true}\nlag: {tags: 10s}\n")
	_, err = simtest.Create(client, func(*slb.CreateLoadBalancerRequest) {})
	simtest.Refused(t, err, "ORDER.ARREARAGE", 400)
	p.good("PATCH", "world", "account: {arrearage: null}\n")
	made, err := simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) { r.ClientToken = "t" })
	simtest.Check(t, err)
	world := p.good("GET", "world", "")
	p.good("PUT", "world", "{}")
	if n := len(c.Snapshot().LoadBalancers); n != 0 {
		t.Errorf("%d load balancers in an empty world", n)
	}
	p.good("PUT", "world", world)
	again, err := simtest.Create(client, func(r *slb.CreateLoadBalancerRequest) { r.ClientToken = "t" })
	simtest.Check(t, err)
	if again.LoadBalancerId != made.LoadBalancerId {
		t.Errorf("the token of before made %s", again.LoadBalancerId)
	}
	if got := p.good("GET", "world", ""); got != world {
		t.Errorf("got %s\nwant %s", got, world)
	}

	throttle := p.good("POST", "faults", "{product: slb, action: Describe*, caller: admin, code: Throttling.User}", "Accept", "application/json")
	_, err = simtest.Attribute(client, "lb-b")
	simtest.Refused(t, err, "Throttling.User", 400)
	var fault struct{ ID int }
	simtest.Check(t, json.Unmarshal([]byte(throttle), &fault))
	p.good("DELETE", fmt.Sprintf("faults/%d", fault.ID), "")
	_, err = simtest.Attribute(client, "lb-b")
	simtest.Check(t, err)
	p.good("POST", "faults", "{garbage: true, count: 2}")
	p.good("POST", "faults", "{delay: 1h, rate: 0.5}")
	if got := p.good("GET", "faults", ""); !strings.Contains(got, "count: 2") || !strings.Contains(got, "delay: 1h0m0s") {
		t.Errorf("got %s", got)
	}
	p.good("DELETE", "faults", "")
	_, err = simtest.Attribute(client, "lb-b")
	simtest.Check(t, err)

	if got := p.good("GET", "calls?caller=admin&product=slb&action=Describe*&code=Throttling.User", ""); strings.Count(got, "action: ") != 1 ||
		!strings.Contains(got, "LoadBalancerId: lb-b") {
		t.Errorf("got %s", got)
	}
	if got := p.good("GET", "calls?last=2", ""); strings.Count(got, "action: ") != 2 {
		t.Errorf("got %s", got)
	}
	p.good("DELETE", "calls", "")
	if n := len(c.Calls()); n != 0 {
		t.Errorf("%d calls are left", n)
	}

	p.good("POST", "faults", "{code: X, count: 9}")
	p.good("PUT", "callers/LTAIx", "name: somebody\nallow: [slb:*]\n")
	p.good("PATCH", "callers/somebody", "{allow: null, deny: ['slb:*']}")
	if got := p.good("GET", "callers/somebody", ""); !strings.Contains(got, "accessKeyId: LTAIx") || strings.Contains(got, "allow") {
		t.Errorf("got %s", got)
	}
	before, faults := simtest.Text(t, c.Snapshot()), p.good("GET", "faults", "")
	for _, tt := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "cats", "", 404, "is no kind"},
		{"GET", "loadBalancers/lb-x", "", 404, "lb-x"},
		{"PATCH", "loadBalancers/lb-x", "{}", 404, "lb-x"},
		{"DELETE", "loadBalancers/lb-x", "", 404, "lb-x"},
		{"PUT", "cats/tom", "{}", 404, "is no kind"},
		{"PUT", "loadBalancers/lb-b", "{colour: red}", 400, "colour"},
		{"PUT", "loadBalancers/lb-b", "{", 400, "bad request"},
		{"PUT", "vswitches/vsw-a", "vpc: vpc-x", 400, "there is no VPC vpc-x"},
		{"PATCH", "loadBalancers/lb-b", "tags: [1]", 400, "bad request"},
		{"PATCH", "world", "[]", 400, "bad request"},
		{"PUT", "world", "x: 1", 400, "bad request"},
		{"POST", "faults", "{product: slb}", 400, "does nothing"},
		{"POST", "faults", "{code: X, rate: 2}", 400, "rate"},
		{"POST", "faults", "{code: X, status: 200}", 400, "status"},
		{"POST", "faults", "{code: X, delay: long}", 400, "bad request"},
		{"DELETE", "faults/99", "", 404, "fault 99"},
		{"DELETE", "faults/x", "", 404, "fault x"},
		{"GET", "calls?last=x", "", 400, "last=x"},
		{"GET", "calls?last=-1", "", 400, "last=-1"},
		{"GET", "calls?follow=perhaps", "", 400, "follow=perhaps"},
		{"GET", "calls?collar=x", "", 400, `no parameter "collar"`},
		{"GET", "world?depth=1", "", 400, `no parameter "depth"`},
		{"DELETE", "loadBalancers/lb-b?force=true", "", 400, `no parameter "force"`},
		{"POST", "reset?now=1", "", 400, `no parameter "now"`},
		{"PUT", "loadBalancers/lb-b", "", 400, "the body is empty"},
		{"PUT", "loadBalancers/lb-b", "[1]", 400, "bad request"},
		{"PUT", "loadBalancers/lb-b", "id: lb-c", 400, "the id of loadBalancers/lb-b is not lb-c"},
		{"PATCH", "loadBalancers/lb-b", "id: lb-c", 400, "the id of loadBalancers/lb-b is not lb-c"},
		{"PATCH", "callers/somebody", "accessKeyId: other", 400, "LTAIx is not other"},
		{"PATCH", "policies/none", "{}", 404, "policies/none"},
		{"DELETE", "policies/none", "", 404, "policies/none"},
		{"DELETE", "nlbs/lb-b", "", 404, "nlbs/lb-b"},
		{"DELETE", "cats/tom", "", 404, "is no kind"},
		{"PATCH", "world", "{account: {balance: much}}", 400, "balance"},
		{"PATCH", "world", "", 400, "the body is empty"},
		{"PUT", "world", "", 400, "the body is empty"},
		{"PUT", "world", strings.Repeat("#", 65<<20), 413, "too large"},
		{"POST", "faults", "{product: cats, code: X}", 400, "no product cats"},
		{"POST", "faults", "{delay: 1s, status: 503}", 400, "go with a code"},
		{"POST", "faults", "{code: X, count: -1}", 400, "below 0"},
		{"POST", "faults", "{kode: X}", 400, "kode"},
		{"GET", "faults/99", "", 404, "fault 99"},
		{"POST", "world", "{}", 405, "this path has GET, HEAD, PATCH, PUT"},
		{"DELETE", "world", "", 405, "see GET /sim/"},
		{"GET", "reset", "", 404, "is no kind"},
		{"PUT", "faults", "{}", 405, "GET, HEAD"},
		{"GET", "loadBalancers/lb-b/tags", "", 404, "there is no such path"},
	} {
		if status, out := p.do(tt.method, tt.path, tt.body); status != tt.status || !strings.Contains(out, tt.says) {
			t.Errorf("%s %s %s: got %d %s, want %d %s", tt.method, tt.path, tt.body, status, out, tt.status, tt.says)
		}
	}
	if after := simtest.Text(t, c.Snapshot()); after != before {
		t.Errorf("a refused change changed the world: %s\nwas %s", after, before)
	}
	if got := p.good("GET", "faults", ""); got != faults {
		t.Errorf("a refused change changed the faults: %s\nwere %s", got, faults)
	}
}

func TestAdminReset(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}}, Callers: []sim.Caller{{Name: "mine", Deny: []string{"slb:*"}}}},
		sim.WithAdmin(), sim.WithClient("operator", "*"), sim.WithClient("mine", "*"))
	p := person{t, "http://" + c.Addr() + "/sim/"}
	// A World's caller replaces an option's of the same name.
	if got := p.good("GET", "callers/mine", ""); strings.Contains(got, "allow") || !strings.Contains(got, "deny") {
		t.Errorf("got %s", got)
	}
	operator := c.Snapshot().Callers
	first := simtest.Text(t, c.Snapshot())
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	made, err := simtest.Create(client, func(*slb.CreateLoadBalancerRequest) {})
	simtest.Check(t, err)
	p.good("DELETE", "loadBalancers/lb-a", "")
	p.good("POST", "faults", "{hang: true}")
	p.good("POST", "reset", "")
	if got := simtest.Text(t, c.Snapshot()); got != first {
		t.Errorf("got %s\nwant %s", got, first)
	}
	if got := p.good("GET", "faults", "") + p.good("GET", "calls", ""); got != "[]\n[]\n" {
		t.Errorf("got %s", got)
	}
	again, err := simtest.Create(simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions), func(*slb.CreateLoadBalancerRequest) {})
	simtest.Check(t, err)
	if again.LoadBalancerId == made.LoadBalancerId {
		t.Errorf("%s was given a second time", again.LoadBalancerId)
	}
	p.good("PUT", "world", "region: cn-beijing")
	for _, k := range operator {
		if got := p.good("GET", "callers/"+k.AccessKeyID, ""); !strings.Contains(got, "name: "+k.Name+"\n") {
			t.Errorf("got %s", got)
		}
	}
}

func TestAdminFollow(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-a"}}}, sim.WithAdmin(), sim.WithCallLimit(2))
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	_, err := simtest.Attribute(client, "lb-0")
	simtest.Refused(t, err, "InvalidLoadBalancerId.NotFound", 404)
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+c.Addr()+"/sim/calls?follow=true&product=slb&action=Describe*", nil)
	simtest.Check(t, err)
	resp, err := http.DefaultClient.Do(r)
	simtest.Check(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := json.NewDecoder(resp.Body)
	saw := func(want string) {
		t.Helper()
		var k struct{ Params map[string]string }
		if err := lines.Decode(&k); err != nil || k.Params["LoadBalancerId"] != want {
			t.Fatalf("got %+v, %v, want %s", k, err, want)
		}
	}
	saw("lb-0")
	for i := range 10 {
		if i == 5 {
			c.ResetCalls()
		}
		_, err := simtest.Attribute(client, "lb-a")
		simtest.Check(t, err)
		saw("lb-a")
	}
	c.Close() // ends the stream
	if err := lines.Decode(new(any)); err == nil {
		t.Error("the stream goes on without a cloud")
	}
}

func TestAdminIsForThisMachine(t *testing.T) {
	on, off := sim.New(t, nil, sim.WithAdmin()), sim.New(t, nil)
	p := person{t, "http://" + on.Addr() + "/sim/"}
	for _, header := range [][]string{{"Origin", "http://example.com"}, {"Host", "example.com"}, {"Host", "example.com:80"}} {
		if status, out := p.do("GET", "world", "", header...); status != 403 {
			t.Errorf("%v: got %d %s", header, status, out)
		}
	}
	p.good("GET", "world", "", "Host", "localhost:1")
	p.good("GET", "world", "", "Host", "[::1]")
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:0", ":0", "example.com:0", "127.0.0.1"} {
		if c, err := sim.Start(nil, sim.WithListener(addr)); err == nil {
			c.Close()
			t.Errorf("it listens on %s", addr)
		}
	}
	if status, out := (person{t, "http://" + off.Addr() + "/sim/"}).do("GET", "world", ""); status < 400 || strings.Contains(out, "vsw") {
		t.Errorf("got %d %s", status, out)
	}
}
