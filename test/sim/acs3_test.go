package sim_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

type acs3 struct {
	cloud           *sim.Cloud
	key             sim.Credentials
	action, version string
	query, form     url.Values
	host            string // nlb.cn-hangzhou.aliyuncs.com if empty
	path            string // / if empty
	nonce           string // a new one if empty

	unsigned string              // header that is not signed
	tamper   func(*http.Request) // applied after signing
	at       time.Time           // now if zero
}

var nonces = func() func() string {
	next := make(chan int, 1)
	next <- 0
	return func() string {
		n := <-next
		next <- n + 1
		return "nonce-" + strconv.Itoa(n)
	}
}()

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (a acs3) send(t testing.TB) (int, map[string]any) {
	t.Helper()
	body := a.form.Encode()
	if a.path == "" {
		a.path = "/"
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.cloud.Addr()+a.path+"?"+a.query.Encode(), strings.NewReader(body))
	simtest.Check(t, err)
	if a.path != "/" {
		r.Method = http.MethodGet
	}
	if a.at.IsZero() {
		a.at = time.Now()
	}
	r.Host = a.host
	if a.host == "" {
		r.Host = "nlb.cn-hangzhou.aliyuncs.com"
	}
	if a.nonce == "" {
		a.nonce = nonces()
	}
	headers := map[string]string{
		"host": r.Host, "x-acs-action": a.action, "x-acs-version": a.version, "x-acs-date": a.at.UTC().Format("2006-01-02T15:04:05Z"),
		"x-acs-signature-nonce": a.nonce, "x-acs-content-sha256": hash(body),
	}
	if body != "" {
		headers["content-type"] = "application/x-www-form-urlencoded"
	}
	if a.key.Token != "" {
		headers["x-acs-security-token"] = a.key.Token
	}
	for k, v := range headers {
		if k != "host" {
			r.Header.Set(k, v)
		}
	}
	delete(headers, a.unsigned)
	names := slices.Sorted(maps.Keys(headers))
	text := r.Method + "\n" + a.path + "\n" + strings.ReplaceAll(a.query.Encode(), "+", "%20") + "\n"
	for _, n := range names {
		text += n + ":" + headers[n] + "\n"
	}
	text += "\n" + strings.Join(names, ";") + "\n" + hash(body)
	mac := hmac.New(sha256.New, []byte(a.key.Secret))
	mac.Write([]byte("ACS3-HMAC-SHA256\n" + hash(text)))
	r.Header.Set("Authorization", "ACS3-HMAC-SHA256 Credential="+a.key.AccessKeyID+",SignedHeaders="+strings.Join(names,
		";")+",Signature="+hex.EncodeToString(mac.Sum(nil)))
	if a.tamper != nil {
		a.tamper(r)
	}
	resp, err := http.DefaultClient.Do(r)
	simtest.Check(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	simtest.Check(t, err)
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return resp.StatusCode, out
}

func TestACS3(t *testing.T) {
	now := time.Now()
	w := simtest.NLBWorld()
	w.Callers = []sim.Caller{{Name: "sts", AccessKeyID: "STS.a", Secret: "s", Token: "tok", Expires: now.Add(time.Hour), Allow: []string{"*"}}}
	c := sim.New(t, w)
	admin, sts := c.Admin(), sim.Credentials{AccessKeyID: "STS.a", Secret: "s", Token: "tok"}
	const nlb = "2022-04-30"
	list := func(edit func(*acs3)) acs3 {
		a := acs3{cloud: c, key: admin, action: "ListLoadBalancers", version: nlb}
		if edit != nil {
			edit(&a)
		}
		return a
	}
	header := func(k, v string) func(*acs3) {
		return func(a *acs3) { a.tamper = func(r *http.Request) { r.Header.Set(k, v) } }
	}
	for _, tt := range []struct {
		name   string
		call   acs3
		status int
		code   string
	}{
		{"good", list(nil), 200, ""},
		{"good token", list(func(a *acs3) { a.key = sts }), 200, ""},
		{"odd characters", list(func(a *acs3) {
			a.query, a.form = url.Values{"LoadBalancerNames.1": {"a b*~+/&=ü%"}}, url.Values{"Tag.1.Key": {"a b*~+/&=ü%"}}
		}), 200, ""},
		{"another product", acs3{cloud: c, key: admin, action: "DescribeVSwitches", version: "2016-04-28", host: "vpc.cn-hangzhou.aliyuncs.com"}, 200, ""},
		{"a path", acs3{cloud: c, key: admin, action: "DescribeClusterDetail", version: "2015-12-15", path: "/clusters/" + c.Snapshot().Cluster.ID,
			host: "cs.cn-hangzhou.aliyuncs.com"}, 200, ""},
		{"no such path", acs3{cloud: c, key: admin, action: "DescribeClusterDetail", version: "2015-12-15", path: "/nothing",
			host: "cs.cn-hangzhou.aliyuncs.com"}, 404, "InvalidAction.NotFound"},
		{"a path's action without it", acs3{cloud: c, key: admin, action: "DescribeClusterDetail", version: "2015-12-15", host: "cs.cn-hangzhou.aliyuncs.com"},
			404, "InvalidAction.NotFound"},
		{"wrong secret", list(func(a *acs3) { a.key.Secret = "x" }), 400, "SignatureDoesNotMatch"},
		{"wrong signature", list(func(a *acs3) {
			a.tamper = func(r *http.Request) { r.Header.Set("Authorization", r.Header.Get("Authorization")+"zz") }
		}), 400, "SignatureDoesNotMatch"},
		{"changed header", list(header("x-acs-action", "GetLoadBalancerAttribute")), 400, "SignatureDoesNotMatch"},
		{"changed query", list(func(a *acs3) {
			a.tamper = func(r *http.Request) { r.URL.RawQuery = "AddressType=Intranet" }
		}), 400, "SignatureDoesNotMatch"},
		{"changed body", list(func(a *acs3) {
			a.form = url.Values{"AddressType": {"Internet"}}
			a.tamper = func(r *http.Request) {
				r.Body = io.NopCloser(strings.NewReader("AddressType=Intranet"))
			}
		}), 400, "SignatureDoesNotMatch"},
		{"unknown key", list(func(a *acs3) { a.key.AccessKeyID = "LTAI" }), 404, "InvalidAccessKeyId.NotFound"},
		{"no key", list(func(a *acs3) { a.key.AccessKeyID = "" }), 400, "IncompleteSignature"},
		{"no token", list(func(a *acs3) { a.key = sts; a.key.Token = "" }), 400, "MissingSecurityToken"},
		{"unsigned action", list(func(a *acs3) { a.unsigned = "x-acs-action" }), 400, "IncompleteSignature"},
		{"unsigned host", list(func(a *acs3) { a.unsigned = "host" }), 400, "IncompleteSignature"},
		{"no action", list(func(a *acs3) { a.action = "" }), 400, "MissingParameter.Action"},
		{"no version", list(func(a *acs3) { a.version = "" }), 400, "MissingParameter.Version"},
		{"unknown version", list(func(a *acs3) { a.version = "2022-05-01" }), 404, "InvalidVersion"},
		{"unknown action", list(func(a *acs3) { a.action = "ListNothing" }), 404, "InvalidAction.NotFound"},
		{"no nonce", list(header("x-acs-signature-nonce", "")), 400, "MissingParameter.SignatureNonce"},
		{"bad date", list(header("x-acs-date", "today")), 400, "InvalidTimeStamp.Format"},
		{"old", list(func(a *acs3) { a.at = now.Add(-16 * time.Minute) }), 400, "InvalidTimeStamp.Expired"},
		{"bad query", list(func(a *acs3) { a.tamper = func(r *http.Request) { r.URL.RawQuery = "a=%zz" } }), 400, "InvalidParameter"},
		{"nonce", list(func(a *acs3) { a.nonce = "once" }), 200, ""},
		{"nonce again", list(func(a *acs3) { a.nonce = "once" }), 400, "SignatureNonceUsed"},
		{"not allowed", list(func(a *acs3) { a.key = c.Client("nobody") }), 403, "Forbidden.NoPermission"},
		{"missing parameter", list(func(a *acs3) { a.action = "GetLoadBalancerAttribute" }), 400, "MissingParam.LoadBalancerId"},
		{"not there", list(func(a *acs3) {
			a.action, a.query = "GetLoadBalancerAttribute", url.Values{"LoadBalancerId": {"nlb-x"}}
		}), 404, "ResourceNotFound.loadBalancer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out := tt.call.send(t)
			code, _ := out["Code"].(string)
			if status != tt.status || code != tt.code {
				t.Errorf("got %d %v, want %d %s", status, out, tt.status, tt.code)
			}
			if tt.code != "" && (out["RequestId"] == nil || out["HostId"] == nil || out["Message"] == "" || out["Recommend"] == nil) {
				t.Errorf("the answer lacks RequestId, HostId, Message or Recommend: %v", out)
			}
		})
	}
}

func TestACS3Writes(t *testing.T) {
	c := sim.New(t, simtest.NLBWorld())
	call := func(action string, form url.Values) map[string]any {
		t.Helper()
		status, out := acs3{cloud: c, key: c.Admin(), action: action, version: "2022-04-30", form: form}.send(t)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", action, status, out)
		}
		return out
	}
	id := call("CreateLoadBalancer", url.Values{
		"AddressType": {"Internet"}, "VpcId": {"vpc-1"}, "ZoneMappings.1.VSwitchId": {"vsw-h"}, "ZoneMappings.1.ZoneId": {"cn-hangzhou-h"},
		"ZoneMappings.2.VSwitchId": {"vsw-i"}, "ZoneMappings.2.ZoneId": {"cn-hangzhou-i"}, "Tag.1.Key": {"kubernetes.do.not.delete"}, "Tag.1.Value": {"a1"},
		"DeletionProtectionConfig.Enabled": {"true"}, "ClientToken": {"t"},
	})["LoadbalancerId"].(string)
	group := call("CreateServerGroup", url.Values{"ServerGroupName": {"k8s.80.web.shop.c"}, "VpcId": {"vpc-1"}, "Protocol": {"TCP"}})["ServerGroupId"].(string)
	call("AddServersToServerGroup", url.Values{
		"ServerGroupId": {group}, "Servers.1.ServerId": {"i-a"}, "Servers.1.ServerType": {"Ecs"}, "Servers.1.Port": {"30080"}, "Servers.1.Weight": {"100"},
	})
	call("CreateListener", url.Values{"LoadBalancerId": {id}, "ListenerPort": {"80"}, "ListenerProtocol": {"TCP"}, "ServerGroupId": {group}})
	if s := c.Snapshot(); len(s.NLBs) != 1 || len(s.NLBs[0].Listeners) != 1 || len(s.ServerGroups[0].Servers) != 1 ||
		s.NLBs[0].Tags["kubernetes.do.not.delete"] != "a1" {
		t.Errorf("got %s", simtest.Text(t, s))
	}
}
