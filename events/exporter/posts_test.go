package exporter

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/shell"
)

const (
	target     = "https://lbremedy.example.com/events?cluster=c1"
	postToken  = "t0ken-of-the-target-0123456789"
	certHost   = "cn-hangzhou-eventbridge.oss-accelerate.aliyuncs.com"
	certTarget = "https://" + certHost + "/x509_public_certificate.pem"
)

type bridge struct {
	testing.TB
	key   *rsa.PrivateKey
	cert  []byte
	away  bool
	asked int
}

func newBridge(t testing.TB) *bridge {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &bridge{TB: t, key: key, cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (b *bridge) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.asked++; b.away {
		return nil, errors.New("nobody is there")
	}
	if r.URL.String() != certTarget {
		return &http.Response{StatusCode: 404, Body: http.NoBody}, nil
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(b.cert))}, nil
}

func (b *bridge) posts() *Posts {
	return &Posts{URL: target, Region: "cn-hangzhou", Token: postToken, wire: b}
}

func (b *bridge) request(media, body string, change func(http.Header)) *http.Request {
	b.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://10.0.0.1:8080/events?cluster=c1", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": media, headerTime: strconv.FormatInt(time.Now().UnixMilli(), 10), headerHash: "SHA256", headerVersion: "1.0",
		headerKey: certTarget, headerToken: postToken,
	} {
		r.Header.Set(name, value)
	}
	if change != nil {
		change(r.Header)
	}
	text := target
	for _, name := range []string{headerTime, headerHash, headerVersion, headerKey, headerToken} {
		text += "\n" + name + ": " + r.Header.Get(name)
	}
	sum := sha256.Sum256([]byte(text + "\n" + body))
	signature, err := rsa.SignPKCS1v15(rand.Reader, b.key, crypto.SHA256, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set(headerSignature, base64.StdEncoding.EncodeToString(signature))
	return r
}

func post(e *Exporter, r *http.Request) int {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w.Code
}

func told(t testing.TB, e *corev1.Event) string {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"id":"45ef4dewdwe1-7c35-447a-bd93-fab","source":"acs.cs","specversion":"1.0","subject":"acs:cs:cn-hangzhou:123456789:c1",`+
		`"time":"2026-11-19T21:04:41+08:00","type":"cs:k8s:ServiceRelatedEvent","datacontenttype":"application/json;charset=utf-8",`+
		`"aliyunaccountid":"123456789","aliyunpublishtime":"2026-11-19T21:04:42.179PRC","aliyuneventbusname":"default","aliyunregionid":"cn-hangzhou",`+
		`"aliyunpublishaddr":"172.25.0.1","data":%s}`, data)
}

// An exporter that may watch only Services publishes each Event from EventBridge once, in each form.
func TestPosts(t *testing.T) {
	w := newWorld(t)
	b := newBridge(t)
	config := w.join.As(t, "exporter-test-posts", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
	})
	first := w.event("before.1", w.uid(0), full)
	e := w.exporter(config)
	e.c.Posts = b.posts()
	if err := e.c.Posts.check(); err != nil {
		t.Fatal(err)
	}
	stored := w.tail()
	w.run(e)
	stored.until([]string{string(first.InvolvedObject.UID)}, 1)

	takes := func(r *http.Request) {
		t.Helper()
		if got := post(e, r); got != http.StatusNoContent {
			t.Fatalf("status %d", got)
		}
	}
	one := w.event("one.1", w.uid(1), full)
	takes(b.request("application/cloudevents+json", told(t, one), nil))
	if f := stored.next(1)[0]; f.Service.UID != w.uid(1) || f.Class != "vswitch-ip-exhausted" || f.Event.ResourceVersion != one.ResourceVersion {
		t.Errorf("stored %+v", f)
	}
	one = w.again(one)
	again := b.request("application/json", told(t, one), nil)
	replayed := b.request("application/json", told(t, one), nil)
	takes(again)
	if f := stored.next(1)[0]; f.Count != 2 {
		t.Errorf("stored %+v", f)
	}
	two, three := w.event("two.1", w.uid(2), untaged), w.event("three.1", w.uid(3), full)
	takes(b.request("application/cloudevents-batch+json", "["+told(t, two)+","+told(t, three)+"]", nil))
	stored.until([]string{w.uid(2), w.uid(3)}, 1)
	four := w.event("four.1", w.uid(4), full)
	data, err := json.Marshal(map[string]any{"eventId": four}) // as kube-eventer nests it
	if err != nil {
		t.Fatal(err)
	}
	takes(b.request("application/json", string(data), func(h http.Header) {
		for name, value := range map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "acs.cs", "Ce-Type": "cs:k8s:ServiceRelatedEvent"} {
			h.Set(name, value)
		}
	}))
	stored.until([]string{w.uid(4)}, 1)

	// Only the Event in the cluster counts, not the copy in the request.
	published := e.stats.Published.Load()
	takes(replayed)
	old := one.DeepCopy()
	old.Count = 1
	takes(b.request("application/json", told(t, old), nil))
	forged := one.DeepCopy()
	forged.Name, forged.ResourceVersion = "never.1", "999999999"
	takes(b.request("application/json", told(t, forged), nil))
	forged = one.DeepCopy()
	forged.ResourceVersion, forged.Message, forged.InvolvedObject.UID, forged.Count = "999999999", untaged, "00000000-0000-4000-8000-000000000000", 99
	takes(b.request("application/json", told(t, forged), nil))
	// Of these, rbac.eventWriters covers only those about a Service.
	seen := func() int64 { return e.stats.Ignored.Load() + e.stats.Published.Load() }
	w.await("the lists are through", e.Ready)
	before := seen()
	probe := w.service(event.ProbeService)
	for name, change := range map[string]func(*corev1.Event){
		"pod.1": func(e *corev1.Event) { e.Reason = "BackOff" },
		"pod.2": func(e *corev1.Event) { e.Source.Component = "" },
		"pod.3": func(e *corev1.Event) {
			e.InvolvedObject.Name, e.InvolvedObject.UID = event.ProbeService, types.UID(probe)
			e.Source.Component, e.Reason, e.Message = event.ProbeComponent, event.ProbeReason, event.ProbeMessage(table[0].Class)
		},
	} {
		pod := w.newEvent(name, w.uid(5), full)
		pod.InvolvedObject.Kind = "Pod"
		change(pod)
		w.make(pod)
		pod.InvolvedObject.Kind = "Service" // the request lies
		takes(b.request("application/json", told(t, pod), nil))
	}
	w.await("the Events about a Pod are read", func() bool { return seen() == before+3 })
	last := w.event("last.1", w.uid(6), full)
	takes(b.request("application/json", told(t, last), nil))
	if f := stored.next(1)[0]; f.Service.UID != w.uid(6) {
		t.Errorf("stored %+v", f)
	}
	if got := e.stats.Published.Load() - published; got != 1 {
		t.Errorf("%d were published", got)
	}
	if b.asked != 1 {
		t.Errorf("the certificate was read %d times", b.asked)
	}
}

func TestPostsRefused(t *testing.T) {
	b := newBridge(t)
	good := `{"id":"1","source":"acs.cs","specversion":"1.0","type":"cs:k8s:ServiceRelatedEvent","data":{"metadata":{"namespace":"shop","name":"web.1"},` +
		`"involvedObject":{"kind":"Service"},"reason":"SyncLoadBalancerFailed"}}`
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	now := time.Now() // of the exporter: on a busy machine, signing takes seconds
	at := func(d time.Duration) func(http.Header) {
		return set(headerTime, strconv.FormatInt(now.Add(d).UnixMilli(), 10))
	}
	later := func(change func(*http.Request)) *http.Request { // after signing
		r := b.request("application/json", good, nil)
		change(r)
		return r
	}
	for name, tt := range map[string]struct {
		request *http.Request
		want    int
	}{
		"good":            {b.request("application/json", good, nil), 204},
		"other path":      {later(func(r *http.Request) { r.URL.Path = "/" }), 404},
		"GET":             {later(func(r *http.Request) { r.Method = http.MethodGet }), 405},
		"no token":        {later(func(r *http.Request) { r.Header.Del(headerToken) }), 401},
		"another's token": {b.request("application/json", good, set(headerToken, "t0ken-of-another-target-01234")), 401},
		"expired":         {b.request("application/json", good, at(-61*time.Second)), 401},
		"to come":         {b.request("application/json", good, at(61*time.Second)), 401},
		"no time":         {b.request("application/json", good, set(headerTime, "now")), 401},
		"later time":      {later(func(r *http.Request) { at(time.Second)(r.Header) }), 401},
		"by SHA1":         {b.request("application/json", good, set(headerHash, "SHA1")), 401},
		"no signature":    {later(func(r *http.Request) { r.Header.Del(headerSignature) }), 401},
		"wrong signature": {later(func(r *http.Request) { r.Header.Set(headerSignature, "YWJj") }), 401},
		"another body": {later(func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Replace(good, "shop", "bank", 1)))
		}), 401},
		"key of another":     {newBridge(t).request("application/json", good, nil), 401},
		"key elsewhere":      {b.request("application/json", good, set(headerKey, "https://evil-eventbridge.oss-accelerate.aliyuncs.com/k.pem")), 401},
		"key in the clear":   {b.request("application/json", good, set(headerKey, "http://"+certHost+"/k.pem")), 401},
		"key of a user":      {b.request("application/json", good, set(headerKey, "https://u@"+certHost+"/k.pem")), 401},
		"no key":             {b.request("application/json", good, set(headerKey, "")), 401},
		"key that is gone":   {b.request("application/json", good, set(headerKey, "https://"+certHost+"/k.pem")), 503},
		"10 MiB":             {b.request("application/json", strings.Repeat("x", 10<<20), nil), 413},
		"no JSON":            {b.request("application/json", "{", nil), 400},
		"nothing":            {b.request("application/json", "", nil), 400},
		"no CloudEvent":      {b.request("application/json", `{"id":"1"}`, nil), 400},
		"one bad of a batch": {b.request("application/cloudevents-batch+json", "["+good+`,{"specversion":"1.0"}]`, nil), 400},
		"binary, no type":    {b.request("application/json", "{}", set("Ce-Specversion", "1.0")), 400},
		"nothing of ours":    {b.request("application/json", strings.NewReplacer(`"Service"`, `"Pod"`, "SyncLoadBalancerFailed", "BackOff").Replace(good), nil), 204},
		"bad names":          {b.request("application/json", strings.Replace(good, "web.1", "../../secrets", 1), nil), 204},
	} {
		t.Run(name, func(t *testing.T) {
			var log shell.Log
			e := postsOnly(t, b, &log)
			e.c.Now = func() time.Time { return now }
			if got := post(e, tt.request); got != tt.want {
				t.Errorf("status %d, want %d: %s", got, tt.want, log.String())
			}
			queued := 0
			if name == "good" {
				queued = 1
			}
			if len(e.posted) != queued || strings.Contains(log.String(), postToken) || strings.Contains(log.String(), "t0ken") {
				t.Errorf("%d Events wait to be read; %s", len(e.posted), log.String())
			}
			if n := e.stats.Posted.Load() + e.stats.Refused.Load(); n != 1 {
				t.Errorf("%d requests were counted", n)
			}
		})
	}
}

func postsOnly(t *testing.T, b *bridge, log io.Writer) *Exporter {
	t.Helper()
	e := &Exporter{c: Config{Posts: b.posts(), Now: time.Now}, log: slog.New(slog.NewTextHandler(log, nil)), posted: make(chan kube.Selection, 3)}
	if err := e.c.Posts.check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// A flood with the token is refused, and so is an Event without room; the certificate may be unavailable for a time. A flood without the
// token takes nothing from EventBridge.
func TestPostsFlood(t *testing.T) {
	b := newBridge(t)
	e := postsOnly(t, b, io.Discard)
	good := `{"id":"1","source":"acs.cs","specversion":"1.0","type":"t","data":{"metadata":{"namespace":"shop","name":"web.1"},` +
		`"involvedObject":{"kind":"Service"}}}`
	b.away = true
	if got := post(e, b.request("application/json", good, nil)); got != 503 {
		t.Errorf("without the certificate: status %d", got)
	}
	b.away = false
	got := map[int]int{}
	for range 5 {
		got[post(e, b.request("application/json", good, nil))]++
	}
	if got[204] != 3 || got[503] != 2 {
		t.Errorf("with room for three: %v", got)
	}
	<-e.posted
	for range 2 * postBurst {
		r := b.request("application/json", good, nil)
		r.Header.Del(headerToken)
		if got := post(e, r); got != 401 {
			t.Fatalf("without the token: status %d", got)
		}
	}
	if got := post(e, b.request("application/json", good, nil)); got != 204 {
		t.Errorf("after a flood without the token: status %d", got)
	}
	e.c.Posts.limit = rate.NewLimiter(0, 0)
	if got := post(e, b.request("application/json", good, nil)); got != 429 {
		t.Errorf("too fast: status %d", got)
	}
}

func TestPostsSettings(t *testing.T) {
	for want, p := range map[string]*Posts{
		"":                     {URL: "https://a.example/x?y=z", Region: "cn-hangzhou", Token: postToken},
		"is not a URL such as": {URL: "http://a.example/", Region: "cn-hangzhou", Token: postToken},
		"is not a region":      {URL: "https://a.example/", Region: "evil.example/", Token: postToken},
		"less than 16 chara":   {URL: "https://a.example/", Region: "cn-hangzhou", Token: "short"},
	} {
		err := p.check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestEventIn(t *testing.T) {
	ev := `{"metadata":{"namespace":"shop","name":"web.1"},"involvedObject":{"kind":"Service"}}`
	quoted, _ := json.Marshal(ev)
	for data, want := range map[string]bool{
		ev: true, `{"eventId":` + ev + `}`: true, `{"body":{"EventValue":` + string(quoted) + `}}`: true, string(quoted): true,
		"": false, "null": false, "[]": false, "7": false, `{"data":{"data":{"data":{"data":{"data":` + ev + `}}}}}`: false,
	} {
		which, ok := eventIn([]byte(data))
		if ok != want || ok && (which.Namespace != "shop" || which.Fields != "metadata.name=web.1") {
			t.Errorf("%s: %+v, %v", data, which, ok)
		}
	}
}
