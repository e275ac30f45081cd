package sim

import (
	"bufio"
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A signer signs requests in the older way at little cost, so benchmarks measure the server.
type signer struct {
	cloud *Cloud
	key   Credentials
	n     int

	method string // POST if empty
}

func (s *signer) verb() string { return cmp.Or(s.method, http.MethodPost) }

func (s *signer) url(version, action string, more url.Values) string {
	s.n++
	q := url.Values{
		"Action": {action}, "Version": {version}, "AccessKeyId": {s.key.AccessKeyID}, "SignatureMethod": {"HMAC-SHA1"}, "SignatureVersion": {"1.0"},
		"Format": {"JSON"}, "SignatureNonce": {s.key.AccessKeyID + strconv.Itoa(s.n)}, "Timestamp": {time.Now().UTC().Format("2006-01-02T15:04:05Z")},
	}
	maps.Copy(q, more)
	mac := hmac.New(sha1.New, []byte(s.key.Secret+"&"))
	_, _ = io.WriteString(mac, s.verb()+"&%2F&"+core.Escape(strings.ReplaceAll(q.Encode(), "+", "%20")))
	return "http://" + s.cloud.Addr() + "/?" + q.Encode() + "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func (s *signer) ask(t testing.TB, address string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), s.verb(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out struct{ Code any }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	code, _ := out.Code.(string)
	return resp.StatusCode, code
}

// TestNothingSaid sends each action without parameters: it either names a missing one or needs none.
func TestNothingSaid(t *testing.T) {
	c := New(t, nil)
	s := &signer{cloud: c, key: c.Admin()}
	for version, p := range byVersion {
		for name, a := range p.Actions {
			if a.Path != "" {
				continue
			}
			status, code := s.ask(t, s.url(version, name, nil))
			if len(a.Need) > 0 && (status != http.StatusBadRequest || !strings.HasPrefix(code, "MissingParam") || !strings.HasSuffix(code, "."+a.Need[0])) {
				t.Errorf("%s %s: got %d %s, want that %s is missing", p.Name, name, status, code, a.Need[0])
			}
			if len(a.Need) == 0 && status >= 500 {
				t.Errorf("%s %s: got %d %s", p.Name, name, status, code)
			}
		}
	}
}

// TestGet sends requests with GET instead of POST, which changes the signature.
func TestGet(t *testing.T) {
	c := New(t, nil)
	s := &signer{cloud: c, key: c.Admin(), method: http.MethodGet}
	if status, code := s.ask(t, s.url("2014-05-15", "DescribeLoadBalancers", nil)); status != http.StatusOK {
		t.Errorf("got %d %s", status, code)
	}
	address := s.url("2014-05-15", "DescribeLoadBalancers", nil)
	s.method = http.MethodPost
	if status, code := s.ask(t, address); status != http.StatusBadRequest || code != "SignatureDoesNotMatch" {
		t.Errorf("signed for GET and posted: got %d %s", status, code)
	}
}

// TestNotThere calls each action about one object with an unknown ID. Support calls such an ID illegal.
func TestNotThere(t *testing.T) {
	c := New(t, nil)
	s := &signer{cloud: c, key: c.Admin()}
	for version, p := range byVersion {
		for name, a := range p.Actions {
			create := strings.HasPrefix(name, "Create") && p.Name != "slb" || name == "AssumeRole" ||
				name == "CreateAccessControlList" || name == "DeleteRouteEntries" || name == "GetAttachmentUploadUrl" ||
				name == "ListCategories" || name == "ListAsynJobs" || p.Name == "quotas"
			if a.Path != "" || len(a.Need) == 0 || create {
				continue
			}
			said := url.Values{}
			for _, n := range a.Need {
				said.Set(n, "none")
				if n == "Tag" {
					said.Set("Tag.1.Key", "none")
				}
			}
			if status, code := s.ask(t, s.url(version, name, said)); status < 400 || status >= 500 || code == "" {
				t.Errorf("%s %s of what is not there: got %d %s", p.Name, name, status, code)
			}
		}
	}
}

func TestWrongType(t *testing.T) {
	c := New(t, &World{LoadBalancers: []LoadBalancer{{ID: "lb-1", VGroups: []VGroup{{ID: "rsp-1"}}}}})
	s := &signer{cloud: c, key: c.Admin()}
	lb := func(more ...string) url.Values {
		v := url.Values{"LoadBalancerId": {"lb-1"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	for _, tt := range []struct {
		version, action string
		said            url.Values
		code            string
	}{
		{"2014-05-15", "DescribeLoadBalancers", url.Values{"PageNumber": {"0"}}, "InvalidParameter.PageNumber"},
		{"2014-05-15", "DescribeLoadBalancers", url.Values{"PageSize": {"many"}}, "InvalidParameter.PageSize"},
		{"2014-05-15", "DescribeLoadBalancers", url.Values{"Tags": {"{"}}, "InvalidParameter.TagKey"},
		{"2014-05-15", "CreateLoadBalancer", url.Values{"Bandwidth": {"wide"}}, "InvalidParameter.Bandwidth"},
		{"2014-05-15", "CreateLoadBalancer", url.Values{"AddressType": {"Internet"}}, "InvalidParameter.AddressType"},
		{"2014-05-15", "CreateLoadBalancer", url.Values{"AddressIPVersion": {"ipv5"}}, "InvalidParameter.AddressIPVersion"},
		{"2014-05-15", "CreateLoadBalancer", url.Values{"InstanceChargeType": {"x"}}, "IllegalParam.InstanceChargeType"},
		{"2014-05-15", "CreateLoadBalancer", url.Values{"AddressType": {"intranet"}}, "MissingParam.VSwitchId"},
		{"2014-05-15", "CreateLoadBalancerTCPListener", lb("ListenerPort", "http"), "InvalidParameter.ListenerPort"},
		{"2014-05-15", "CreateLoadBalancerHTTPSListener", lb("ListenerPort", "443"), "MissingParameter.ServerCertificateId"},
		{"2014-05-15", "StartLoadBalancerListener", lb("ListenerPort", "80"), "InvalidParameter"},
		{"2014-05-15", "CreateVServerGroup", lb("BackendServers", "x"), "InvalidParameter.BackendServers"},
		{"2014-05-15", "CreateVServerGroup", lb("BackendServers", `[{"port":80}]`), "InvalidParameter.BackendServers"},
		{"2014-05-15", "CreateVServerGroup", lb("BackendServers", `[{"serverId":"i-1"}]`), "InvalidParameter"},
		{"2014-05-15", "AddVServerGroupBackendServers",
			url.Values{"VServerGroupId": {"rsp-1"}, "BackendServers": {`[{"serverId":"i-1","port":80,"weight":101}]`}}, "InvalidParameter"},
		{"2014-05-15", "SetLoadBalancerDeleteProtection", lb("DeleteProtection", "yes"), "InvalidParameter.DeleteProtection"},
		{"2014-05-15", "SetLoadBalancerStatus", lb("LoadBalancerStatus", "up"), "InvalidParameter.LoadBalancerStatus"},
		{"2014-05-15", "SetLoadBalancerModificationProtection", lb("ModificationProtectionStatus", "x"), "InvalidParam.ModificationProtectionStatus"},
		{"2014-05-15", "ModifyLoadBalancerInternetSpec", lb("InternetChargeType", "x"), "InvalidParameter.InternetChargeType"},
		{"2014-05-15", "TagResources", url.Values{"ResourceType": {"listener"}, "ResourceId.1": {"lb-1"}}, "InvalidParameter.ResourceType"},
		{"2014-05-15", "TagResources", url.Values{"ResourceType": {"instance"}, "ResourceId.1": {"lb-1"}}, "MissingParameter.Tag"},
		{"2014-05-15", "TagResources", url.Values{"ResourceType": {"instance"}, "ResourceId.1": {"lb-1"}, "Tag.1.Key": {"a"}, "Tag.2.Key": {"a"}},
			"Duplicate.TagKey"},
		{"2014-05-15", "ListTagResources", url.Values{"ResourceType": {"instance"}}, "MissingParameter.ResourceId"},
		{"2014-05-15", "UntagResources", url.Values{"ResourceType": {"instance"}, "ResourceId.1": {"lb-1"}}, "MissingParameter.TagKey"},
		{"2014-05-26", "DescribeInstances", url.Values{"InstanceIds": {"i-1"}}, "InvalidParameter.InstanceIds"},
		{"2014-05-26", "DescribeNetworkInterfaces", url.Values{"MaxResults": {"501"}}, "InvalidParameter.MaxResults"},
		{"2014-05-26", "DescribeSecurityGroups", url.Values{"SecurityGroupIds": {"sg-1"}}, "InvalidParameter.SecurityGroupIds"},
		{"2016-04-28", "DescribeVSwitches", url.Values{"PageSize": {"51"}}, "InvalidParameter.PageSize"},
		{"2016-04-28", "DescribeVSwitches", url.Values{"VpcId": {"vpc-x"}}, "InvalidVpcId.NotFound"},
		{"2016-04-28", "DescribeEipAddresses", url.Values{"PageNumber": {"-1"}}, "InvalidParameter.PageNumber"},
		{"2015-04-01", "AssumeRole", url.Values{"RoleArn": {"acs:ram::1:role/x"}, "RoleSessionName": {"s"}}, "EntityNotExist.Role"},
		{"2021-06-10", "CreateTicket", url.Values{"Severity": {"9"}, "Description": {"d"}, "CategoryId": {"53811"}}, "param.illegal"},
		{"2020-05-10", "ListProductQuotas", url.Values{"ProductCode": {"slb"}, "MaxResults": {"x"}}, "InvalidParameter.MaxResults"},
		{"2020-05-10", "CreateQuotaApplication", url.Values{"ProductCode": {"slb"}, "QuotaActionCode": {"q"}, "DesireValue": {"1"}, "Reason": {"r"}},
			"QUOTA.NOT.FOUND"},
	} {
		if status, code := s.ask(t, s.url(tt.version, tt.action, tt.said)); status < 400 || status >= 500 || code != tt.code {
			t.Errorf("%s %v: got %d %s, want %s", tt.action, tt.said, status, code, tt.code)
		}
	}
}

// large is an account of the maximum size: 200 vSwitches, 500 load balancers with 5,000 groups, 2,000 network interfaces.
func large() *World {
	w := &World{Quotas: []Quota{{Name: "slb_quota_instances_num", Total: 1000}, {Name: "slb_quota_backendserver_attached_num", Total: 1000}}}
	for i := range 200 {
		w.VSwitches = append(w.VSwitches, VSwitch{ID: "vsw-" + strconv.Itoa(i)})
	}
	for i := range 100 {
		w.Instances = append(w.Instances, Instance{ID: "i-" + strconv.Itoa(i), VSwitch: "vsw-0"})
	}
	for i := range 2000 {
		w.ENIs = append(w.ENIs, ENI{ID: "eni-" + strconv.Itoa(i), VSwitch: "vsw-0", IPs: []string{"10.1." + strconv.Itoa(i/200) + "." + strconv.Itoa(i%200)}})
	}
	for i := range 500 {
		lb := LoadBalancer{ID: "lb-" + strconv.Itoa(i), VSwitch: "vsw-" + strconv.Itoa(i%200)}
		lb.Tags = map[string]string{"kubernetes.do.not.delete": "a" + strconv.Itoa(i)}
		for n := range 10 {
			id := "rsp-" + strconv.Itoa(i) + "-" + strconv.Itoa(n)
			g := VGroup{ID: id, Name: "k8s/" + strconv.Itoa(30000+n) + "/web/shop/c"}
			for k := range 3 {
				g.Backends = append(g.Backends, Backend{Server: "i-" + strconv.Itoa((i+k)%100), Port: 30000 + n})
			}
			lb.VGroups, lb.Listeners = append(lb.VGroups, g), append(lb.Listeners, Listener{Port: 80 + n, VGroup: id})
		}
		w.LoadBalancers = append(w.LoadBalancers, lb)
	}
	return w
}

// BenchmarkWire measures calls of cheap clients over real connections in a large account. The target is 5,000 a second on two cores.
func BenchmarkWire(b *testing.B) {
	const slb, vpc, ecs = "2014-05-15", "2016-04-28", "2014-05-26"
	w := large()
	for _, bm := range []struct {
		name, version, action string
		said                  url.Values
	}{
		{"attribute", slb, "DescribeLoadBalancerAttribute", url.Values{"LoadBalancerId": {"lb-7"}}},
		{"by tag", slb, "DescribeLoadBalancers", url.Values{"Tag.1.Key": {"kubernetes.do.not.delete"}, "Tag.1.Value": {"a7"}}},
		{"groups", slb, "DescribeVServerGroups", url.Values{"LoadBalancerId": {"lb-7"}, "IncludeListener": {"true"}}},
		{"group", slb, "DescribeVServerGroupAttribute", url.Values{"VServerGroupId": {"rsp-7-3"}}},
		{"listeners", slb, "DescribeLoadBalancerListeners", url.Values{"LoadBalancerId.1": {"lb-7"}}},
		{"vSwitches", vpc, "DescribeVSwitches", nil},
		{"ENIs", ecs, "DescribeNetworkInterfaces", url.Values{"PrivateIpAddress.1": {"10.1.3.7"}}},
		{"write", slb, "SetLoadBalancerName", url.Values{"LoadBalancerId": {"lb-7"}, "LoadBalancerName": {"web"}}},
		{"backends", slb, "AddVServerGroupBackendServers", url.Values{"VServerGroupId": {"rsp-7-3"}, "BackendServers": {`[{"serverId":"i-50","port":30003}]`}}},
		{"create", slb, "CreateLoadBalancer", url.Values{"ClientToken": {"same"}, "AddressType": {"intranet"}, "VSwitchId": {"vsw-9"}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := New(b, w)
			var client atomic.Int64
			spent := cpu(b)
			b.RunParallel(func(p *testing.PB) {
				s := &signer{cloud: c, key: c.Client("client "+strconv.FormatInt(client.Add(1), 10), "*")}
				conn, err := net.Dial("tcp", c.Addr())
				if err != nil {
					b.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				answers := bufio.NewReader(conn)
				for p.Next() {
					_, path, _ := strings.Cut(strings.TrimPrefix(s.url(bm.version, bm.action, bm.said), "http://"), "/")
					if _, err := io.WriteString(conn, "POST /"+path+" HTTP/1.1\r\nHost: sim\r\nContent-Length: 0\r\n\r\n"); err != nil {
						b.Error(err)
						return
					}
					resp, err := http.ReadResponse(answers, nil)
					if err != nil || resp.StatusCode != http.StatusOK {
						b.Errorf("got %v, %v", resp, err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			// Processor time is independent of other programs.
			each := (cpu(b) - spent) / time.Duration(b.N)
			b.ReportMetric(float64(each.Nanoseconds())/1e3, "cpu-µs/call")
			b.ReportMetric(2*float64(time.Second)/float64(each), "calls/s-of-2-idle-cores")
		})
	}
}

func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestStartsFast: a large account starts within 100 ms of processor time, which is independent of other programs.
func TestStartsFast(t *testing.T) {
	w := large()
	best := time.Hour
	for range 5 {
		before := cpu(t)
		c, err := Start(w)
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, cpu(t)-before)
		c.Close()
	}
	if best > slowdown*100*time.Millisecond {
		t.Errorf("a start took %v", best)
	}
	t.Logf("a start takes %v", best)
}

func TestGatewayRefuses(t *testing.T) {
	c := New(t, nil)
	s := &signer{cloud: c, key: c.Admin()}
	for _, tt := range []struct {
		param, value string // empty: remove it
		status       int
		code         string
	}{
		{"Action", "", 400, "MissingParameter.Action"},
		{"Action", "Nothing", 404, "InvalidAction.NotFound"},
		{"Version", "", 400, "MissingParameter.Version"},
		{"Version", "2000-01-01", 404, "InvalidVersion"},
		{"Version", "2015-12-15", 404, "InvalidAction.NotFound"},
		{"AccessKeyId", "", 400, "MissingParameter.AccessKeyId"},
		{"Signature", "", 400, "MissingParameter.Signature"},
		{"Signature", "x", 400, "SignatureDoesNotMatch"},
		{"SignatureNonce", "", 400, "MissingParameter.SignatureNonce"},
		{"SignatureMethod", "none", 400, "InvalidParameter.SignatureMethod"},
		{"Timestamp", "now", 400, "InvalidTimeStamp.Format"},
		{"PageSize", "10", 400, "SignatureDoesNotMatch"}, // not signed
	} {
		address, err := url.Parse(s.url("2014-05-15", "DescribeLoadBalancers", nil))
		if err != nil {
			t.Fatal(err)
		}
		q := address.Query()
		q.Set(tt.param, tt.value)
		address.RawQuery = q.Encode()
		if status, code := s.ask(t, address.String()); status != tt.status || code != tt.code {
			t.Errorf("%s=%s: got %d %s, want %d %s", tt.param, tt.value, status, code, tt.status, tt.code)
		}
	}
	if status, code := s.ask(t, s.url("2014-05-15", "DescribeLoadBalancers", nil)+"&a=%zz"); status != 400 || code != "InvalidParameter" {
		t.Errorf("a query that cannot be read: got %d %s", status, code)
	}

	now := time.Now().UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		path, version, authorization, date, md5, code string
	}{
		{"/clusters/c", "", "acs a:b", now, "", "InvalidVersion"},
		{"/clusters/c", "2015-12-15", "acs a", now, "", "MissingParameter.Authorization"},
		{"/clusters/c", "2015-12-15", "acs a:b", "now", "", "InvalidTimeStamp.Format"},
		{"/clusters/c", "2015-12-15", "acs a:b", now, "x", "ContentMD5NotMatched"},
		{"/nothing", "2015-12-15", "acs a:b", now, "", "InvalidAction.NotFound"},
		{"/clusters/c", "2015-12-15", "acs a:b", now, "", "InvalidAccessKeyId.NotFound"},
		{"/clusters/c", "2015-12-15", "acs " + s.key.AccessKeyID + ":b", now, "", "SignatureDoesNotMatch"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Addr()+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"x-acs-version": tt.version, "Authorization": tt.authorization, "Date": tt.date, "Content-MD5": tt.md5} {
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var out struct{ Code string }
		err = json.NewDecoder(resp.Body).Decode(&out)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode < 400 || out.Code != tt.code {
			t.Errorf("%+v: got %d %s, %v", tt, resp.StatusCode, out.Code, err)
		}
	}
}
