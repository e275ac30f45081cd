package sim

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, method, address, kind, body string) (int, string, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

func TestXML(t *testing.T) {
	c := New(t, &World{LoadBalancers: []LoadBalancer{{ID: "lb-a", Name: "a <b> & c", Tags: map[string]string{"k": "v"}}, {ID: "lb-b"}}})
	s := &signer{cloud: c, key: c.Admin()}
	for _, format := range []string{"XML", "xml", ""} {
		_, kind, body := get(t, http.MethodPost, s.url("2014-05-15", "DescribeLoadBalancers", url.Values{"Format": {format}}), "", "")
		var out struct {
			XMLName       xml.Name `xml:"DescribeLoadBalancersResponse"`
			RequestID     string   `xml:"RequestId"`
			TotalCount    int
			LoadBalancers struct {
				LoadBalancer []struct {
					LoadBalancerID   string `xml:"LoadBalancerId"`
					LoadBalancerName string
					Tags             struct {
						Tag []struct{ TagKey, TagValue string }
					}
				}
			}
		}
		if err := xml.Unmarshal([]byte(body), &out); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		l := out.LoadBalancers.LoadBalancer
		if !strings.HasPrefix(kind, "text/xml") || out.TotalCount != 2 || out.RequestID == "" || len(l) != 2 || l[0].LoadBalancerName != "a <b> & c" ||
			l[0].Tags.Tag[0].TagKey != "k" {
			t.Errorf("Format=%s: got %s %+v", format, kind, out)
		}
	}
	status, kind, body := get(t, http.MethodPost, s.url("2014-05-15", "DescribeLoadBalancerAttribute",
		url.Values{"Format": {""}, "LoadBalancerId": {"lb-x"}}), "", "")
	var bad struct {
		XMLName                  xml.Name `xml:"Error"`
		RequestID                string   `xml:"RequestId"`
		HostID                   string   `xml:"HostId"`
		Code, Message, Recommend string
	}
	if err := xml.Unmarshal([]byte(body), &bad); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if status != 404 || !strings.HasPrefix(kind, "text/xml") || bad.Code != "InvalidLoadBalancerId.NotFound" ||
		bad.Message != "The specified LoadBalancerId does not exist." ||
		bad.RequestID == "" || bad.HostID != "slb.aliyuncs.com" || bad.Recommend == "" {
		t.Errorf("got %d %s %+v", status, kind, bad)
	}
	if status, code := s.ask(t, strings.Replace(s.url("2014-05-15", "DescribeLoadBalancers", url.Values{"Format": {"JSON"}}), "Format=JSON", "Format=json",
		1)); status != 400 || code != "SignatureDoesNotMatch" {
		t.Errorf("got %d %s", status, code) // JSON as requested
	}
	if status, _, body := get(t, http.MethodPost, s.url("2014-05-15", "DescribeLoadBalancers", url.Values{"Format": {"YAML"}}), "", ""); status != 400 ||
		!strings.Contains(body, "<Code>InvalidParameter.Format</Code>") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestMethodsAndBodies(t *testing.T) {
	c := New(t, &World{LoadBalancers: []LoadBalancer{{ID: "lb-a"}}})
	s := &signer{cloud: c, key: c.Admin()}
	const form = "application/x-www-form-urlencoded"
	split := func(method string, moved ...string) (string, string) {
		s.method = method
		u, err := url.Parse(s.url("2014-05-15", "DescribeLoadBalancerAttribute", url.Values{"LoadBalancerId": {"lb-a"}}))
		if err != nil {
			t.Fatal(err)
		}
		query, body := u.Query(), url.Values{}
		for _, k := range moved {
			body.Set(k, query.Get(k))
			query.Del(k)
		}
		u.RawQuery = query.Encode()
		return u.String(), body.Encode()
	}
	everything := []string{
		"Action", "Version", "AccessKeyId", "SignatureMethod", "SignatureVersion", "Format", "SignatureNonce", "Timestamp", "LoadBalancerId", "Signature",
	}
	for _, moved := range [][]string{nil, {"LoadBalancerId"}, {"Action", "LoadBalancerId"}, everything} {
		address, body := split(http.MethodPost, moved...)
		if status, _, got := get(t, http.MethodPost, address, form, body); status != 200 {
			t.Errorf("%v in the form: got %d %s", moved, status, got)
		}
	}
	address, body := split(http.MethodGet)
	if status, _, got := get(t, http.MethodGet, address, "", body); status != 200 {
		t.Errorf("GET: got %d %s", status, got)
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		address, _ := split(method)
		if status, _, got := get(t, method, address, "", ""); status != 405 || !strings.Contains(got, "UnsupportedHTTPMethod") {
			t.Errorf("%s: got %d %s", method, status, got)
		}
	}
	address, _ = split(http.MethodPost)
	if status, _, got := get(t, http.MethodPost, address, form, strings.Repeat("a", maxBody+1)); status != 413 || !strings.Contains(got, "RequestEntityTooLarge") {
		t.Errorf("too much: got %d %s", status, got)
	}
	if status, _, got := get(t, http.MethodPost, address, form, "a=%zz"); status != 400 || !strings.Contains(got, "InvalidParameter") {
		t.Errorf("a form that cannot be read: got %d %s", status, got)
	}
}

func TestTokensExpire(t *testing.T) {
	now := time.Now()
	c := New(t, &World{Callers: []Caller{{Name: "a", AccessKeyID: "STS.a", Secret: "s", Token: "tok", Expires: now.Add(time.Minute), Allow: []string{"*"}}}},
		WithClock(func() time.Time { return now }))
	s := &signer{cloud: c, key: Credentials{AccessKeyID: "STS.a", Secret: "s"}}
	token := url.Values{"SecurityToken": {"tok"}}
	if status, code := s.ask(t, s.url("2014-05-15", "DescribeLoadBalancers", token)); status != 200 {
		t.Errorf("got %d %s", status, code)
	}
	c.Edit(func(*State) { now = now.Add(time.Minute) })
	if status, code := s.ask(t, s.url("2014-05-15", "DescribeLoadBalancers", token)); status != 400 || code != "InvalidSecurityToken.Expired" {
		t.Errorf("got %d %s", status, code)
	}
}
