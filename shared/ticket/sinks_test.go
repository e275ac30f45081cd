package ticket

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

func simulated(w *world) (*sim.Cloud, func(*Config)) {
	w.Helper()
	s := sim.New(w, &sim.World{})
	k := s.Client("notifier", grant.Actions(SupportGrants)...)
	r, wr, err := cloud.New(cloud.Config{
		Region: s.Region(), ClusterID: "c1", Endpoint: s.Addr(), Scheme: "HTTP", Credentials: cloud.Static(cloud.Key{ID: k.AccessKeyID, Secret: k.Secret}),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(r.Close)
	return s, func(c *Config) { c.Cloud, c.CloudWriter = r, wr }
}

var support = policy.Sink{Name: "support", Kind: policy.Alibaba, Category: "53811", Urgent: true}

func TestAlibaba(t *testing.T) {
	w := newWorld(t)
	s, access := simulated(w)
	q := w.queue(w.follower(access, support), 0)
	one := func(status string, notes int) sim.Ticket {
		t.Helper()
		all := s.Snapshot().Tickets
		if len(all) != 1 || all[0].Status != status || len(all[0].Notes) != notes {
			t.Fatalf("got tickets %+v, want one that is %s with %d notes", all, status, notes)
		}
		return all[0]
	}
	q.put(w.write(w.record(9, "throttling", event.Fixed, cause("slb"))))
	if n := len(s.Snapshot().Tickets); n != 0 {
		t.Errorf("a fix made %d tickets", n)
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	got := one("in_progress", 0)
	if got.Title != "The vSwitch is full (vsw-1), 1 Service" || got.Severity != 2 || got.Category != "53811" ||
		!strings.Contains(got.Description, "Add a vSwitch.") || !strings.Contains(got.Description, "Reference: lbr-") {
		t.Errorf("got %+v", got)
	}
	// A repetition is not news; another Service is a reply.
	q.pass(time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Hour)
	one("in_progress", 0)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Hour)
	one("in_progress", 1)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)), w.write(w.record(2, "vswitch-ip-exhausted", event.Gone)))
	q.pass(time.Hour)
	one("completed", 3)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Hour)
	one("in_progress", 4)
	q.empty()
}

// After a lost answer the existing ticket is found before another is made.
func TestAlibabaHalfAnswers(t *testing.T) {
	for name, f := range map[string]sim.Fault{
		"cut after": {Action: "CreateTicket", CutAfter: true, Count: 1}, "garbage": {Action: "CreateTicket", Garbage: true, Count: 1},
		"cut before": {Action: "CreateTicket", CutBefore: true, Count: 1}, "throttled": {Action: "CreateTicket", Code: "Throttling.User", Count: 3},
		"and no list": {Action: "*Ticket*", CutAfter: true, Count: 6},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, access := simulated(w)
			q := w.queue(w.follower(access, support), 0)
			s.Fault(f)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
			q.pass(time.Hour)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
			q.pass(time.Hour)
			all := s.Snapshot().Tickets
			if len(all) != 1 || all[0].Status != "completed" {
				t.Errorf("got tickets %+v", all)
			}
			q.empty()
		})
	}
}

// The old ticket has the same key. It is closed, and not mistaken for one whose answer was lost.
func TestAlibabaOldTicket(t *testing.T) {
	w := newWorld(t)
	s, access := simulated(w)
	f := w.follower(access, support)
	q := w.queue(f, 0)
	r := w.record(1, "vswitch-ip-exhausted", event.Asked)
	key := ticketKey(support.Name, incidentOf("", r), "")
	s.Edit(func(st *sim.State) {
		st.Tickets["T000001"] = &sim.Ticket{ID: "T000001", Description: key, Status: "completed"}
	})
	s.Fault(sim.Fault{Action: "CreateTicket", Code: "Throttling.User", Count: 1})
	q.put(w.write(r))
	q.pass(time.Minute)
	all := s.Snapshot().Tickets
	if len(all) != 2 || len(all[0].Notes) > 0 || all[0].Status != "completed" || all[1].Status != "in_progress" {
		t.Fatalf("got tickets %+v", all)
	}
	// A ticket that support closed is reopened for news.
	s.Edit(func(st *sim.State) { st.Tickets[all[1].ID].Status = "completed" })
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Hour)
	if all = s.Snapshot().Tickets; len(all) != 2 || len(all[1].Notes) != 1 || all[1].Status != "in_progress" || stats(f).Refused != 0 {
		t.Errorf("got tickets %+v, %d refused", all, stats(f).Refused)
	}
	q.empty()
}

func TestAlibabaRefuses(t *testing.T) {
	w := newWorld(t)
	s, access := simulated(w)
	bad := support
	bad.Category = "1"
	f := w.follower(access, bad)
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	q.pass(59 * time.Minute)
	if n := len(s.CallsOf("notifier")); n != 1 || stats(f).Refused != 1 {
		t.Errorf("%d calls, %d refused", n, stats(f).Refused)
	}
}

func TestEvents(t *testing.T) {
	join := cluster.Join(t)
	ns := join.Namespace(t) // waits while another test has the cluster for itself
	w := newWorld(t)
	k, err := kube.New(join.As(t, "ticket-test-notifier",
		[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "list"}}}))
	if err != nil {
		t.Fatal(err)
	}
	f := w.follower(func(c *Config) { c.Kube = kube.NewWriter(k) }, policy.Sink{Name: "events", Kind: policy.Event})
	q := w.queue(f, 0)
	here := func(r *event.Record) {
		r.Service.Namespace = ns
		r.Steps = []event.StepRecord{{Kind: "annotate", Text: say.Literal("annotate the Service"), Risk: "low"}}
	}
	read := func(n int) corev1.Event {
		t.Helper()
		all, err := join.Client().CoreV1().Events(ns).List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid(n)})
		if err != nil || len(all.Items) != 1 {
			t.Fatalf("got %d Events on Service %d, %v", len(all.Items), n, err)
		}
		return all.Items[0]
	}
	for n := range 3 {
		q.put(w.write(w.record(n, "vswitch-ip-exhausted", event.Planned, here, func(r *event.Record) { r.Ask = nil })))
	}
	for n := range 3 {
		e := read(n)
		if e.Reason != "LBRemedyPlanned" || e.Type != "Normal" || e.InvolvedObject.Name != fmt.Sprintf("web-%d", n) || e.Source.Component != "lbremedy" ||
			!strings.HasPrefix(e.Message, "The vSwitch is full. Plan "+hash(fmt.Sprint(n))+hash("")+" (low risk): 1. annotate the Service.") {
			t.Errorf("got %+v", e)
		}
	}
	q.pass(time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, here)))
	e := read(1)
	if e.Reason != "LBRemedyNeedsApproval" || e.Type != "Warning" || e.Count != 2 ||
		!strings.Contains(e.Message, "To have it applied: lbremedy approve 00000000-20260102T150405. What to do: Add a vSwitch.") {
		t.Errorf("got %+v", e)
	}
	var seen []kube.Event
	if _, err := k.ListEvents(w.ctx, kube.Selection{Namespace: ns, Fields: "involvedObject.kind=Service"},
		func(e kube.Event) error { seen = append(seen, e); return nil }); err != nil {
		t.Fatal(err)
	}
	by := event.NewClassifier(table.Table())
	for _, e := range seen {
		for _, text := range []string{e.Message, "Error syncing load balancer []: Message: The specified VSwitch has no available ip."} {
			m := by.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: text})
			if m.Class != event.Ignored {
				t.Errorf("our Event %s counts as a failure of class %s", e.Reason, m.Class)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("saw %d Events", len(seen))
	}
	q.pass(time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Fixed, here, func(r *event.Record) { r.Next = 1 })))
	if e := read(1); e.Reason != "LBRemedyFixed" || e.Type != "Normal" || !strings.HasPrefix(e.Message, "It is over: fixed by lbremedy") {
		t.Errorf("got %+v", e)
	}
	// A plan that waited for approval and is only shown now asks nobody, at a sink that wants only such plans.
	approvals := w.queue(w.follower(func(c *Config) { c.Kube = kube.NewWriter(k) }, policy.Sink{Name: "approvals", Kind: policy.Event,
		Results: []string{"needs-approval"}}), 0)
	for _, result := range []event.Result{event.Asked, event.Planned} {
		approvals.put(w.write(w.record(9, "vswitch-ip-exhausted", result, here)))
		approvals.pass(time.Minute)
	}
	if e := read(9); e.Reason != "LBRemedyPlanned" || e.Type != "Normal" || strings.Contains(e.Message, "lbremedy approve") {
		t.Errorf("got %+v", e)
	}
	// A huge text fits, and a deleted namespace blocks nothing.
	huge := strings.Repeat("漏", 20000)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Failed, here, func(r *event.Record) {
		r.Finding, r.Ask, r.Error = say.Literal(huge), say.Literal(huge), huge
	})))
	q.put(w.write(w.record(5, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) { r.Service.Namespace = ns + "-gone" })))
	q.pass(time.Minute)
	if e := read(2); len(e.Message) > 1024 || e.Reason != "LBRemedyFailed" {
		t.Errorf("got %d bytes, %s", len(e.Message), e.Reason)
	}
	q.empty()
	if n := stats(f).Refused + stats(f).Retries; n != 0 {
		t.Errorf("%d notifications failed: %s", n, w.log.String())
	}
}

func TestEventsDenied(t *testing.T) {
	join := cluster.Join(t)
	ns := join.Namespace(t) // waits while another test has the cluster for itself
	w := newWorld(t)
	k, err := kube.New(join.As(t, "ticket-test-reader", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}}}))
	if err != nil {
		t.Fatal(err)
	}
	f := w.follower(func(c *Config) { c.Kube = kube.NewWriter(k) }, policy.Sink{Name: "events", Kind: policy.Event})
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) { r.Service.Namespace = ns })))
	if stats(f).Refused != 1 || len(q.waiting) != 1 {
		t.Errorf("%d records wait, got %s", len(q.waiting), w.log.String())
	}
}

func TestDingTalk(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	s := policy.Sink{Name: "ding", Kind: policy.DingTalk, URLFrom: secret(t, "https://oapi.dingtalk.com/robot/send?access_token=tok3n"),
		SecretFrom: secret(t, "SECabc")}
	f := w.follower(h.wired, s)
	q := w.queue(f, 0)
	answers := []string{`{"errcode":0,"errmsg":"ok"}`, `{"errcode":130101,"errmsg":"send too fast"}`, `{"errcode":-1,"errmsg":"busy"}`, `<html>`, `{"errcode":0}`,
		`{"errcode":310000,"errmsg":"sign not match, access_token=tok3n"}`}
	i := -1
	h.answers(func(int, post) (int, http.Header, string) { i++; return 200, nil, answers[i] })
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
		r.Finding = say.Literal("Look at [this](https://evil.example) @all <!here>.")
	})))
	posts := h.take()
	u, err := url.Parse(posts[0].url)
	if err != nil {
		t.Fatal(err)
	}
	at := u.Query().Get("timestamp")
	if at != fmt.Sprint(w.now().UnixMilli()) || u.Query().Get("access_token") != "tok3n" || u.Query().Get("sign") != chat.DingSign("SECabc", at) {
		t.Errorf("got %s", posts[0].url)
	}
	var m struct {
		Type     string `json:"msgtype"`
		Markdown struct{ Title, Text string }
	}
	if err := json.Unmarshal([]byte(posts[0].body), &m); err != nil {
		t.Fatal(err)
	}
	if m.Type != "markdown" || m.Markdown.Title != "The vSwitch is full (vsw-1), 1 Service" || strings.Contains(m.Markdown.Text, "](") ||
		strings.Contains(m.Markdown.Text, "@all") {
		t.Errorf("got %+v", m)
	}
	// The robot sends too fast, is busy, doesn't answer, and accepts: one update.
	began := w.now()
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Hour)
	if n := len(h.take()); n != 4 {
		t.Errorf("it was tried %d times", n)
	}
	if w.now().Sub(began) < chat.DingPause {
		t.Errorf("a robot that sends too fast paused only %s", w.now().Sub(began))
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	q.pass(50 * time.Minute)
	if stats(f).Refused != 1 || strings.Contains(w.log.String(), "tok3n") || strings.Contains(w.log.String(), "SECabc") {
		t.Errorf("got %d refused, %s", stats(f).Refused, w.log.String())
	}
}

// DingTalk's own example: base64 of HMAC-SHA256 over timestamp, line break and secret, with the secret as key.
func TestDingSign(t *testing.T) {
	if got, want := chat.DingSign("this is secret", "1577262236757"), "hmPWwU+7lVdm3ZZz0r9tSfx0L4Q26jWOZr9+Gs6EZQM="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWeCom(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(h.wired, policy.Sink{Name: "wecom", Kind: policy.WeCom, URLFrom: secret(t, "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k3y")})
	q := w.queue(f, 0)
	answers := []string{`{"errcode":45009,"errmsg":"api freq out of limit"}`, `{"errcode":-1,"errmsg":"system busy"}`, `<html>`, `{"errcode":0,"errmsg":"ok"}`,
		`{"errcode":93000,"errmsg":"invalid webhook url, key=k3y"}`}
	i := -1
	h.answers(func(int, post) (int, http.Header, string) { i++; return 200, nil, answers[i] })
	began := w.now()
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
		r.Finding, r.Ask = say.Literal("Look at [this](https://evil.example) <@all>."), say.Literal(strings.Repeat("漏", 2000))
	})))
	q.pass(time.Hour)
	posts := h.take()
	if len(posts) != 4 || w.now().Sub(began) < time.Minute || posts[0].url != "/cgi-bin/webhook/send?key=k3y" {
		t.Fatalf("got %+v", posts)
	}
	var m struct {
		Type     string `json:"msgtype"`
		Markdown struct{ Content string }
	}
	if err := json.Unmarshal([]byte(posts[3].body), &m); err != nil {
		t.Fatal(err)
	}
	if text := m.Markdown.Content; m.Type != "markdown" || !strings.HasPrefix(text, "### The vSwitch is full (vsw-1), 1 Service\n") || len(text) > 4096 ||
		strings.Contains(text, "](") || strings.Contains(text, "<@") {
		t.Errorf("got %d bytes: %+v", len(text), m)
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	q.pass(50 * time.Minute)
	if stats(f).Refused != 1 || strings.Contains(w.log.String(), "k3y") {
		t.Errorf("got %d refused, %s", stats(f).Refused, w.log.String())
	}
}

func TestSlack(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(h.wired, policy.Sink{Name: "slack", Kind: policy.Slack, URLFrom: secret(t, "https://hooks.slack.com/services/T0/B0/s3cr3t")})
	q := w.queue(f, 0)
	// Messages can't be changed: repetitions have growing pauses.
	for n := range 200 {
		q.put(w.write(w.record(n, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) { r.Ask = say.Literal("Do <!channel> & that.") })))
		q.pass(30 * time.Second)
	}
	posts := h.take()
	if len(posts) < 3 || len(posts) > 6 {
		t.Errorf("200 Services in 100 minutes made %d messages", len(posts))
	}
	var m struct{ Text string }
	if err := json.Unmarshal([]byte(posts[0].body), &m); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(m.Text, "*The vSwitch is full (vsw-1), 1 Service*\n") || strings.Contains(m.Text, "<!") || !strings.Contains(m.Text, "&amp; that.") {
		t.Errorf("got %s", m.Text)
	}
	h.answers(func(int, post) (int, http.Header, string) { return 410, nil, "channel_is_archived" })
	for n := range 200 {
		q.put(w.write(w.record(n, "vswitch-ip-exhausted", event.Gone)))
	}
	q.pass(time.Minute)
	if n := len(h.take()); n != 1 || stats(f).Refused != 1 || strings.Contains(w.log.String(), "s3cr3t") {
		t.Errorf("got %d posts, %d refused", n, stats(f).Refused)
	}
	h.answers(nil)
	q.pass(time.Hour)
	if n := len(h.take()); n != 1 {
		t.Errorf("got %d posts of the end", n)
	}
	q.empty()
}

func TestWebhook(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(func(c *Config) { c.Now = nil }, h.sink("ops")), 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
		r.At = time.Now()
		r.Steps = []event.StepRecord{{Kind: "x", Text: say.Literal("send Signature=abcdefghijkl0123456789 there"), Risk: "low"}}
		r.Message = `Error Post "https://slb.aliyuncs.com/?AccessKeyId=LTAI5tabcdefghijklmnop12&SecurityToken=CAISabcdef%2Fx&Signature=xyzxyzxyz%3D": EOF, ` +
			`Post "https://slb.aliyuncs.com/?AccessKeyId=STS.NVexample": EOF`
	})))
	p := h.take()[0]
	check, err := standard.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Verify([]byte(p.body), p.header); err != nil {
		t.Error(err)
	}
	if err := check.Verify([]byte(p.body+" "), p.header); err == nil {
		t.Error("a body that was changed is taken")
	}
	var e cloudevents.Event
	if err := json.Unmarshal([]byte(p.body), &e); err != nil || e.Validate() != nil {
		t.Fatalf("got no CloudEvent: %v, %v", err, e.Validate())
	}
	if e.Type() != TypeOpened || e.ID() != p.header.Get("Webhook-Id") || !strings.HasPrefix(p.header.Get("Content-Type"), "application/cloudevents+json") {
		t.Errorf("got %s %s %v", e.Type(), e.ID(), p.header)
	}
	for _, leak := range []string{"LTAI5tabcdef", "xyzxyzxyz", "CAISabcdef", "NVexample", "abcdefghijkl0123456789"} {
		if strings.Contains(p.body, leak) {
			t.Errorf("%s is in %s", leak, p.body)
		}
	}
	_, n := p.notice(t)
	if n.Lead.Service.Name != "web-1" || n.Impact != event.NeverUp || !strings.Contains(n.LogQuery, "grep shop/web-1") {
		t.Errorf("got %+v", n)
	}
}

func TestEndpoints(t *testing.T) {
	h := newHook(t)
	d := func(change func(*policy.Sink)) endpoint {
		s := h.sink("ops")
		change(&s)
		return newEndpoint(s, Config{Now: time.Now})
	}
	missing := policy.Reference{File: filepath.Join(t.TempDir(), "none")}
	for name, tt := range map[string]struct {
		change  func(*policy.Sink)
		status  int
		refused bool
		want    string
	}{
		"redirect":         {func(*policy.Sink) {}, 307, true, "status 307"},
		"not found":        {func(*policy.Sink) {}, 404, true, "status 404"},
		"gone":             {func(*policy.Sink) {}, 410, true, "status 410"},
		"teapot":           {func(*policy.Sink) {}, 418, true, "status 418"},
		"timeout":          {func(*policy.Sink) {}, 408, false, "status 408"},
		"server's fault":   {func(*policy.Sink) {}, 500, false, "status 500"},
		"cut off":          {func(*policy.Sink) {}, 0, false, "EOF"},
		"in the clear":     {func(s *policy.Sink) { s.URL, s.URLFrom = "", secret(t, "http://example.com/s3cr3t") }, 200, true, "https://"},
		"no URL":           {func(s *policy.Sink) { s.URL, s.URLFrom = "", secret(t, "s3cr3t") }, 200, true, "not a URL"},
		"no file":          {func(s *policy.Sink) { s.URL, s.URLFrom = "", missing }, 200, false, "no such file"},
		"no variable":      {func(s *policy.Sink) { s.URL, s.URLFrom = "", policy.Reference{Env: "LBREMEDY_TEST_NONE"} }, 200, false, "LBREMEDY_TEST_NONE is empty"},
		"no key":           {func(s *policy.Sink) { s.SecretFrom = missing }, 200, false, "no such file"},
		"key of no base64": {func(s *policy.Sink) { s.SecretFrom = secret(t, "s3cr3t!!") }, 200, true, "not a key in base64"},
		"key of two lines": {func(s *policy.Sink) { s.SecretFrom = secret(t, "a\nb") }, 200, false, "one line"},
	} {
		t.Run(name, func(t *testing.T) {
			h.answers(func(int, post) (int, http.Header, string) {
				return tt.status, http.Header{"Location": {"https://example.com"}}, strings.Repeat("x", 1<<20)
			})
			hook := webhook{d(tt.change)}
			_, err := hook.Send(t.Context(), Ticket{Notice: Notice{Facts: Facts{Key: "lbr-1", Incident: "a.b.c"}}, Message: "lbr-1.1", Opens: true, At: time.Now()})
			if err == nil || errors.Is(err, ErrRefused) != tt.refused || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cr3t") ||
				len(err.Error()) > 600 {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		h.server.Close()
		hook := webhook{d(func(*policy.Sink) {})}
		opens := Ticket{Notice: Notice{Facts: Facts{Key: "lbr-1"}}, Message: "lbr-1.1", Opens: true, At: time.Now()}
		if _, err := hook.Send(t.Context(), opens); err == nil || errors.Is(err, ErrRefused) ||
			strings.Contains(err.Error(), "/hook") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTemplates(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "t.tmpl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	w := newWorld(t)
	h := newHook(t)
	for name, tt := range map[string]struct{ text, want string }{
		"syntax":      {`{{define "text"}}{{.Lead`, "unclosed action"},
		"field":       {`{{define "text"}}{{.Leed.Finding}}{{end}}`, "Leed"},
		"empty":       {`{{define "text"}}{{if .Reopened}}again{{end}}{{end}}`, "empty text"},
		"endless":     {`{{define "text"}}{{range .Services}}{{template "text" $}}{{end}}{{end}}`, "calls itself"},
		"no function": {`{{define "text"}}{{env "HOME"}}{{end}}`, `"env" not defined`},
		"too long":    {strings.Repeat("x", 70<<10), "larger than 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			s := h.sink("ops")
			s.Template = file(tt.text)
			_, err := New(Config{Stream: w.s, Cluster: "c1", Sinks: []policy.Sink{s}, Secrets: []string{dir}})
			if err == nil || !strings.Contains(err.Error(), "tell.ops: template ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	missing := h.sink("ops")
	missing.Template = filepath.Join(dir, "none")
	if _, err := New(Config{Stream: w.s, Cluster: "c1", Sinks: []policy.Sink{missing}, Secrets: []string{dir}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a template that isn't there: got %v", err)
	}
	// A template that fails only later is replaced for that ticket, which is logged.
	s := h.sink("ops")
	s.Template = file(`{{define "text"}}Mine: {{(index .Services 0).Service.Name}} {{slice .Cause 0 4}}{{end}}`)
	f := w.follower(func(c *Config) { c.Secrets = []string{dir} }, s)
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	q.put(w.write(w.record(2, "throttling", event.Asked, cause("x"))))
	posts := h.take()
	_, first := posts[0].notice(t)
	_, second := posts[1].notice(t)
	if first.Text != "Mine: web-1 vsw-" || !strings.Contains(second.Text, "What happened") {
		t.Errorf("got %q and %q", first.Text, second.Text)
	}
	if strings.Count(w.log.String(), "a template fails") != 1 {
		t.Errorf("got %s", w.log.String())
	}
}

func TestHugeTexts(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	huge := func(r *event.Record) {
		text := strings.Repeat("满 \x1b[31m ", 4000)
		r.Message, r.Finding, r.Ask, r.Note, r.Rule, r.Error, r.Cause = text, say.Literal(text), say.Literal(text), say.Literal(text), say.Literal(text), text, text
		for range 40 {
			r.Steps = append(r.Steps, event.StepRecord{Kind: "x", Text: say.Literal(text[:5000]), Risk: "low"})
		}
	}
	var last post
	for n := range 30 {
		q.put(w.write(w.record(n, "vswitch-ip-exhausted", event.Asked, huge)))
	}
	q.pass(time.Minute)
	for _, p := range h.take() {
		last = p
	}
	_, n := last.notice(t)
	if len(last.body) > postSize || len(n.Text) > 16000 || len(n.Title) > 200 || n.Failing != 30 {
		t.Errorf("got a body of %d bytes, a text of %d, a title of %d, %d fail", len(last.body), len(n.Text), len(n.Title), n.Failing)
	}
	q.empty()
}

func TestTextOfNode(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	q.put(w.write(w.record(1, "route-conflict", event.Asked, func(r *event.Record) {
		r.Service = event.Service{Kind: event.KindNode, Name: "node-1", UID: r.Service.UID}
	})))
	_, n := h.take()[0].notice(t)
	if !strings.Contains(n.Text, "Failing since ") || !strings.Contains(n.Text, "1 node.") || strings.Contains(n.Text, "Services:") {
		t.Errorf("it says %s", n.Text)
	}
}

func TestText(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	full := func(r *event.Record) {
		r.At, r.First, r.EventTime = at, at, at
		r.Steps = []event.StepRecord{{Kind: "annotate", Text: say.Literal("annotate the Service with vsw-b"), Risk: "low"},
			{Kind: "resync", Text: say.Literal("trigger a resync"), Risk: "low"}}
		r.Rule = say.Literal("The risk of the plan is medium. The policy applies plans up to low automatically.")
	}
	w.write(w.record(2, "vswitch-ip-exhausted", event.Asked, full))
	q.o.since = at
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, full)))
	_, n := h.take()[0].notice(t)
	want := `1 Service of type LoadBalancer can't be synced, since 2026-01-02 15:04 UTC.

What happened: of shop/web-1 in cluster c1 the controller said at 2026-01-02 15:04 UTC:
Error syncing load balancer []: Message: it is full.

Impact: No traffic arrives: the Service has no address.

Cause: The vSwitch is full.

Plan (low risk, digest 6b86b273ff34fce1e3b0c44298fc1c14):
1. annotate the Service with vsw-b
2. trigger a resync
The risk of the plan is medium. The policy applies plans up to low automatically.
To have it applied: lbremedy approve 00000000-20260102T150405

What to do: Add a vSwitch.

Services:
- shop/web-1 in cluster c1, case 00000000-20260102T150405: needs approval of its plan.

The controller's log shows the error code: kubectl -n kube-system logs -l app=cloud-controller-manager --tail=-1 | grep shop/web-1

The journal tells the whole story: lbremedy show 00000000-20260102T150405
Reference: ` + n.Key
	if diff := cmp.Diff(want, n.Text); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !slices.Equal(n.Clusters, []string{"c1"}) {
		t.Errorf("got clusters %q", n.Clusters)
	}
}
