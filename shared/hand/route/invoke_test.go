package route

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

func TestURL(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Invoke{
		"https://12345.cn-hangzhou.fc.aliyuncs.com/2023-03-30/functions/f/invocations": {Function: "f", Account: "12345", Region: "cn-hangzhou"},
		"https://12345.cn-hangzhou-internal.fc.aliyuncs.com/2023-03-30/functions/f/invocations?qualifier=v%2F1": {Function: "f", Account: "12345",
			Region: "cn-hangzhou", Internal: true, Qualifier: "v/1"},
		"http://127.0.0.1:1/2023-03-30/functions/a%20b/invocations": {Function: "a b", Account: "12345", Region: "cn-hangzhou", Endpoint: "http://127.0.0.1:1"},
	} {
		if got := f.address(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSigned(t *testing.T) {
	t.Parallel()
	good, temporary := cloud.Key{ID: "LTAI4TestTestTest", Secret: "s3cr3t"}, cloud.Key{ID: "STS.Test", Secret: "s3cr3t2", Token: "tok/en+="}
	gateway := httptest.NewServer(&fc.Gateway{
		Callers: []sim.Credentials{{AccessKeyID: good.ID, Secret: good.Secret}, {AccessKeyID: temporary.ID, Secret: temporary.Secret, Token: temporary.Token}},
		Functions: map[string]func([]byte) (string, string){
			"echo":  func(body []byte) (string, string) { return "", string(body) },
			"fails": func([]byte) (string, string) { return "Dead", "no" },
		},
		Trigger: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
	})
	t.Cleanup(gateway.Close)
	api := Invoke{Function: "echo", Qualifier: "LATEST", Endpoint: gateway.URL}.address()
	trigger := func(r *http.Request, _ []byte, k cloud.Key, now time.Time) { signTrigger(r, k, now) }
	keep := func(*http.Request) {}
	for _, tt := range []struct {
		name, url string
		key       cloud.Key
		late      time.Duration
		sign      func(*http.Request, []byte, cloud.Key, time.Time)
		change    func(*http.Request)
		want      int
	}{
		{"the API", api, good, 0, signAPI, keep, 200},
		{"the API with a temporary key", api, temporary, 0, signAPI, keep, 200},
		{"a trigger", gateway.URL, good, 0, trigger, keep, 204},
		{"a trigger with path and query", gateway.URL + "/a/b~c%20d/$e?x=1%2B2&empty=&y=a*b", good, 0, trigger, keep, 204},
		{"a trigger with a temporary key", gateway.URL + "/", temporary, 0, trigger, keep, 204},
		{"another secret", api, cloud.Key{ID: good.ID, Secret: "other"}, 0, signAPI, keep, 403},
		{"a trigger with another secret", gateway.URL, cloud.Key{ID: good.ID, Secret: "other"}, 0, trigger, keep, 403},
		{"another key", api, cloud.Key{ID: "LTAI4OtherOther", Secret: good.Secret}, 0, signAPI, keep, 403},
		{"a token too few", api, cloud.Key{ID: temporary.ID, Secret: temporary.Secret}, 0, signAPI, keep, 403},
		{"a clock that is an hour behind", api, good, -time.Hour, signAPI, keep, 403},
		{"another query", api, good, 0, signAPI, func(r *http.Request) { r.URL.RawQuery = "qualifier=other" }, 403},
		{"another date", gateway.URL, good, 0, trigger, func(r *http.Request) { r.Header.Set("x-acs-date", "2026-11-20T00:00:00Z") }, 403},
		{"another body", api, good, 0, signAPI, func(r *http.Request) {
			*r = *r.Clone(r.Context())
			r.Body = http.NoBody
			r.ContentLength = 0
			r.GetBody = nil
		}, 403},
		{"another function", Invoke{Function: "none", Endpoint: gateway.URL}.address(), good, 0, signAPI, keep, 404},
		{"a trigger's signature for the API", api, good, 0, trigger, keep, 400},
		{"none", gateway.URL, good, 0, func(*http.Request, []byte, cloud.Key, time.Time) {}, keep, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := []byte(`{"a": "b"}`)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.url, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/cloudevents+json")
			tt.sign(r, body, tt.key, time.Now().Add(tt.late))
			tt.change(r)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var said bytes.Buffer
			if _, err := said.ReadFrom(resp.Body); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.want {
				t.Errorf("the gateway answers %d, want %d: %s", resp.StatusCode, tt.want, said.String())
			}
			if refused := refused(said.Bytes()); refused != (tt.want >= 400) {
				t.Errorf("it is the platform that refuses: %v: %s", refused, said.String())
			}
			if text := r.Header.Get("Authorization"); strings.Contains(text, tt.key.Secret) {
				t.Errorf("the signature holds the secret: %s", text)
			}
		})
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	k := cloud.Key{ID: "LTAI4TestTestTest", Secret: "s3cr3t"}
	gateway := httptest.NewServer(&fc.Gateway{
		Callers:   []sim.Credentials{{AccessKeyID: k.ID, Secret: k.Secret}},
		Functions: map[string]func([]byte) (string, string){"f": func([]byte) (string, string) { return "", "" }},
	})
	t.Cleanup(gateway.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, Invoke{Function: "f", Endpoint: gateway.URL}.address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	signAPI(r, nil, k, time.Now())
	for _, want := range []int{200, 403} {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("got %d, want %d", resp.StatusCode, want)
		}
	}
}

// The signature was computed with another language's library from Alibaba's description of version 3.
func TestVector(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://f-abc.cn-hangzhou.fcapp.run/hello?foo=bar", nil)
	if err != nil {
		t.Fatal(err)
	}
	signTrigger(r, cloud.Key{ID: "testid", Secret: "testsecret"}, time.Date(2026, 11, 20, 8, 9, 10, 0, time.UTC))
	const want = "ACS3-HMAC-SHA256 Credential=testid,SignedHeaders=x-acs-date,Signature=5829b573d05a3f510fe21d2d2092c420a7be41a16a66d5c723eeacd777669310"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFaultOf(t *testing.T) {
	t.Parallel()
	failed := http.Header{"X-Fc-Error-Type": {"HandledInvocationError"}}
	for _, tt := range []struct {
		header http.Header
		body   string
		want   string
		is     bool
	}{
		{http.Header{}, `{"errorType":"Dead","errorMessage":"no"}`, "", false},
		{failed, `{"errorType":"Dead","errorMessage":"no"}`, "no", true},
		{failed, `the case is not settled yet`, "the case is not settled yet", true},
		{failed, ``, "", true},
	} {
		if got, is := faultOf(tt.header, []byte(tt.body)); got != tt.want || is != tt.is {
			t.Errorf("%s: %+v, %v", tt.body, got, is)
		}
	}
}
