package ticket

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	platform "github.com/lbremedy/lbremedy/test/chat"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// A night is a chat group with a ticket's messages, and the cluster that gets the answers. Only ann may approve.
type night struct {
	*world
	queue     *queue
	cluster   *cluster.Cluster
	admin     *kube.Cluster
	namespace string
	digests   int
}

var people = []policy.Person{
	{DingTalk: "u-ann", Feishu: "u-ann", User: "ann", Groups: []string{"network"}},
	{DingTalk: "u-zoe", Feishu: "u-zoe", User: "zoe"},
	{DingTalk: "u-eve", Feishu: "u-eve", User: "eve"},
}

// newNight gives the notifier its generated rights, except those in without.
func newNight(t *testing.T, at platform.Group, sink policy.Sink, without ...string) *night {
	c := cluster.Alone(t) // may wait for other tests
	n := &night{world: newWorld(t), cluster: c, namespace: c.Namespace(t)}
	n.clock = time.Date(2026, 1, 2, 22, 0, 0, 0, time.UTC)
	proven := identity.Approvals(t, c)
	rights, err := identity.Of("notifier")
	chats, err2 := identity.Of("chat")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, r := range chats.Rules {
		r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return slices.Contains(without, r.Resources[0]+" "+v) })
		if len(r.Verbs) > 0 {
			rights.Rules = append(rights.Rules, r)
		}
	}
	config, err := rights.Cluster(n.ctx, c, "notifier")
	if err != nil {
		t.Fatal(err)
	}
	k, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if n.admin, err = kube.New(c.Config); err != nil {
		t.Fatal(err)
	}
	approver := []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}}}
	c.As(t, "ann", approver)
	c.As(t, "eve", approver)
	proven()
	f := n.follower(func(c *Config) {
		c.Answers, c.People, c.Language, c.wire = k, people, tongue, wire(at.URL())
		c.Remedies = []*remedy.Remedy{{Class: "vswitch-ip-exhausted", Doc: "# The vSwitch has no free IP address"}}
	}, sink)
	n.queue = n.world.queue(f, 0)
	ctx, cancel := context.WithCancel(n.ctx)
	var wait sync.WaitGroup
	wait.Go(func() { f.outlets[0].to.(*cards).app.Hear(ctx, f.outlets[0].clicked) })
	t.Cleanup(func() { cancel(); wait.Wait() })
	return n
}

func (n *night) asks(service int, change ...func(*event.Record)) event.Record {
	n.Helper()
	n.digests++
	r := n.record(service, "vswitch-ip-exhausted", event.Asked, append([]func(*event.Record){func(r *event.Record) {
		r.Service.Namespace, r.Case = n.namespace, fmt.Sprintf("%08d-20260102T220405", service)
		r.Service.UID = r.Case[:8] + r.Service.UID[8:]
		r.Steps = annotates("vsw-2")
		r.Finding = say.F("The vSwitch is full: %s.", "vsw-1")
		r.Ask = say.F("The Service can use another one: %s.", say.F("%s in %s", "vsw-2", "cn-hangzhou-i"))
		r.Risk, r.Digest = "medium", hash(fmt.Sprint(n.digests))+hash("")
		r.EventTime, r.At, r.First = n.now(), n.now(), n.now()
	}}, change...)...)
	m := n.write(r)
	_, _, err := n.s.PublishNewer(n.ctx, event.FailedSubject("c1", r.Class, r.Service.UID), fmt.Sprint("failed-", n.digests), nil, []byte("{}"),
		func(stream.Message) bool { return true })
	if err != nil {
		n.Fatal(err)
	}
	n.queue.put(m)
	return r
}

func annotates(vswitch string) []event.StepRecord {
	said := say.F("annotate %s", "vswitch-id="+vswitch)
	return []event.StepRecord{{Kind: "annotate", Text: said, Risk: "medium"}}
}

func (n *night) ends(r event.Record, result event.Result, change ...func(*event.Record)) {
	n.Helper()
	r.Result, r.At = result, n.now()
	for _, f := range change {
		f(&r)
	}
	n.queue.put(n.write(r))
}

func (n *night) approvals() []string {
	n.Helper()
	all, err := n.admin.Approvals(n.ctx, n.namespace)
	if err != nil {
		n.Fatal(err)
	}
	plans := map[string]string{}
	for i := range n.digests {
		plans[hash(fmt.Sprint(i+1))+hash("")] = fmt.Sprint(i + 1)
	}
	out := []string{}
	for _, a := range all {
		if a.Spec.Chat == nil {
			n.Fatalf("got %+v", a.Spec)
		}
		out = append(out, fmt.Sprintf("%s: %s plan %s, attempt %d, as %s %v from %s of %s", a.Spec.Case[:8], a.Spec.Verdict,
			plans[a.Spec.Plan], a.Spec.Attempt, a.Spec.User, a.Spec.Groups, a.Spec.Chat.User, a.Spec.Chat.Sink))
	}
	slices.Sort(out)
	return out
}

func (n *night) want(want ...string) {
	n.Helper()
	if diff := cmp.Diff(append([]string{}, want...), n.approvals()); diff != "" {
		n.Errorf("Approvals (-want +got):\n%s", diff)
	}
}

func (n *night) golden(file, got string) {
	n.Helper()
	got = strings.ReplaceAll(got, n.namespace, "shop")
	got = regexp.MustCompile(`UID [0-9a-f-]{36}`).ReplaceAllString(got, "UID …")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			n.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		n.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		n.Errorf("%s (-want +got):\n%s\nread it and write it with -update", file, diff)
	}
}

func dingTalk(t *testing.T) (*platform.DingTalk, policy.Sink) {
	d := platform.NewDingTalk(t)
	return d, policy.Sink{Name: "night", Kind: policy.DingTalkApp, App: d.App, SecretFrom: secret(t, d.Secret), Chat: d.Group, Card: d.Template}
}

// heard returns a group in DingTalk whose clicks the follower hears, and the follower's queue.
func heard(t *testing.T) (*platform.DingTalk, *world, *queue) {
	d, sink := dingTalk(t)
	w := newWorld(t)
	f := w.follower(func(c *Config) { c.People, c.wire = people, wire(d.URL()) }, sink)
	ctx, cancel := context.WithCancel(w.ctx)
	var wait sync.WaitGroup
	wait.Go(func() { f.outlets[0].to.(*cards).app.Hear(ctx, f.outlets[0].clicked) })
	t.Cleanup(func() { cancel(); wait.Wait() })
	d.Connected()
	return d, w, w.queue(f, 0)
}

func feishu(t *testing.T) (*platform.Feishu, policy.Sink) {
	f := platform.NewFeishu(t)
	return f, policy.Sink{Name: "night", Kind: policy.FeishuApp, App: f.App, SecretFrom: secret(t, f.Secret), Chat: f.Group}
}

func TestNightInDingTalk(t *testing.T) {
	d, sink := dingTalk(t)
	n := newNight(t, d, sink)
	n.play(d, "The group of a night, as DingTalk shows it.", "testdata/night-dingtalk.txt", d.Secret)
}

// The groups read no English.
func TestNightInChinese(t *testing.T) {
	d, ding := dingTalk(t)
	f, fei := feishu(t)
	for _, c := range []struct {
		d               platform.Group
		sink            policy.Sink
		name, file, key string
	}{
		{d, ding, "DingTalk", "testdata/night-dingtalk-zh.txt", d.Secret},
		{f, fei, "Feishu", "testdata/night-feishu-zh.txt", f.Secret},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sink.Language = "zh"
			newNight(t, c.d, c.sink).play(c.d, "The group of a night, as "+c.name+" shows it to those who read Chinese.", c.file, c.key)
			for line := range strings.Lines(c.d.Transcript()) {
				line = ofTests.ReplaceAllString(strings.TrimSpace(line), "")
				if english.MatchString(line) {
					t.Errorf("in English: %s", line)
				}
			}
		})
	}
}

var english = regexp.MustCompile(`[A-Za-z']{2,}[,:;.]? [a-z']{2,}(?:[ ,.:;)]|$)`)

var ofTests = regexp.MustCompile(`^(The group of|---|===|\([A-Za-z', ]+\)$).*|^\(only \S+ sees: |lbremedy approve|kubectl .*`)

func TestNightInFeishu(t *testing.T) {
	f, sink := feishu(t)
	f.Parts = 3
	n := newNight(t, f, sink)
	n.play(f, "The group of a night, as Feishu shows it.", "testdata/night-feishu.txt", f.Secret)
}

// Only a valid click creates an Approval.
func (n *night) play(d platform.Group, title, file, key string) {
	t := n.world
	q := n.queue
	d.Connected()
	bad := func(who string, c platform.Click) {
		t.Helper()
		before := n.approvals()
		d.Say("\n(%s)", who)
		d.Click(c)
		if diff := cmp.Diff(before, n.approvals()); diff != "" {
			t.Errorf("%s made an Approval:\n%s", who, diff)
		}
	}
	d.Say("%s", title)
	web1 := n.asks(1)
	bad("nobody that the policy knows", d.On(0, "u-stranger", "approve"))
	bad("one without the right", d.On(0, "u-zoe", "approve"))
	c := d.On(0, "u-ann", "approve")
	c.Value = strings.Replace(c.Value, "1/"+web1.Digest, "1/"+strings.Repeat("f", 32), 1)
	bad("a forged plan", c)
	c.Value = strings.Replace(d.On(0, "u-ann", "approve").Value, "/1/", "/2/", 1)
	c.ID = ""
	bad("a forged attempt", c)
	of := web1
	of.Class = "arrearage"
	c.ID, c.Value = "", counted(of)
	bad("a plan of another class", c)
	c = d.On(0, "u-ann", "undo")
	bad("a button that there is not", c)
	c = d.On(0, "u-ann", "approve")
	c.Card = "lbr-0000000000000000-0-x"
	bad("another app's card", c)

	d.Say("\n(another Service joins)")
	q.pass(time.Minute)
	web2 := n.asks(2)
	d.Disconnect() // as a release of DingTalk does
	c = d.On(0, "u-ann", "approve")
	d.Click(c)
	counts1 := "00000001: Approve plan 1, attempt 1, as ann [network] from u-ann of night"
	n.want(counts1)
	bad("delivered twice", c)
	c.ID = ""
	bad("clicked twice", c)
	bad("the other verdict", d.On(0, "u-ann", "reject"))

	d.Say("\n(the plan is applied)")
	q.pass(time.Minute)
	n.ends(web1, event.Fixed, func(r *event.Record) {
		r.Approved, r.Next = &event.Approved{By: "ann", Identity: "ann", At: n.now(), Object: "u", Chat: kube.Chat{
			Sink: "night", Kind: n.queue.o.Kind, User: "u-ann", Click: "17",
		}.String()}, 1
	})
	late := c
	late.ID = ""
	bad("late, on the message before", late)

	d.Say("\n(the plan changes before anybody has looked)")
	stale := d.On(1, "u-ann", "approve")
	q.pass(time.Minute)
	n.asks(2, func(r *event.Record) { r.Steps = annotates("vsw-3") })
	bad("the plan of before", stale)

	d.Say("\n(somebody wants to sleep)")
	d.Cut()
	d.Connected()
	d.Click(d.On(2, "u-zoe", "mute"))
	q.pass(time.Minute)
	d.Say("\n(a new plan changes the message alone)")
	n.asks(2)
	if got := d.Count(); got != 3 {
		t.Errorf("a muted group has %d messages", got)
	}
	q.pass(time.Minute)
	d.Say("\n(another Service is worth a message)")
	web3 := n.asks(3)
	if got := d.Count(); got != 4 {
		t.Errorf("a muted group has %d messages, and it has become worse", got)
	}
	d.Say("\n(two answers)")
	d.Click(d.On(3, "u-eve", "reject"))
	q.pass(time.Minute)
	n.ends(web2, event.Asked, func(r *event.Record) {
		r.Digest, r.Rejected = hash("4")+hash(""), &event.Approved{By: "eve", Identity: "eve", At: n.now(), Object: "u"}
	})
	q.pass(time.Minute)
	d.Click(d.On(3, "u-ann", "approve"))
	counts2 := "00000002: Reject plan 4, attempt 1, as eve [] from u-eve of night"
	counts3 := "00000003: Approve plan 5, attempt 1, as ann [network] from u-ann of night"
	n.want(counts1, counts2, counts3)
	q.pass(time.Minute)
	n.ends(web3, event.Fixed, func(r *event.Record) { r.Next = 1 })
	over := d.On(3, "u-ann", "approve")
	over.Value = counted(web3)
	bad("when all is over", over)
	d.Say("\n(it comes back)")
	q.pass(time.Hour)
	n.asks(1, func(r *event.Record) { r.Attempt, r.Attempts = 1, nil })
	q.pass(time.Minute)
	q.empty()
	if st := stats(q.o.Follower); st.Refused+st.Retries > 0 {
		t.Errorf("got %+v: %s", st, n.log.String())
	}
	n.golden(file, d.Transcript())
	for _, text := range []string{key, "t0ken", "t1cket"} {
		if strings.Contains(n.log.String(), text) {
			t.Errorf("the log has %s", text)
		}
	}
}

func counted(r event.Record) string {
	return approval.Question{Cluster: r.Cluster, UID: r.Service.UID, Class: r.Class, Case: r.Case, Attempt: r.NextAttempt(), Digest: r.Digest}.String()
}

// Without one of its rights, the notifier answers for nobody, and the message says why.
func TestClicksWithoutRights(t *testing.T) {
	for without, want := range map[string]string{
		"approvals create":            "not allowed",
		"approvals relay":             "only the notifier may say",
		"subjectaccessreviews create": "not allowed",
	} {
		t.Run(without, func(t *testing.T) {
			d, sink := dingTalk(t)
			n := newNight(t, d, sink, without)
			d.Connected()
			n.asks(1)
			d.Click(d.On(0, "u-ann", "approve"))
			if got := d.Said(0); !strings.Contains(got, want) {
				t.Errorf("the message says %q", got)
			}
			n.want()
		})
	}
}

func TestFollowerHears(t *testing.T) {
	f, sink := feishu(t)
	w := newWorld(t)
	follower := w.follower(func(c *Config) { c.Now, c.People, c.wire = time.Now, people, wire(f.URL()) }, sink)
	ctx, cancel := context.WithCancel(w.ctx)
	var wait sync.WaitGroup
	wait.Go(func() { follower.Run(ctx) })
	t.Cleanup(func() { cancel(); wait.Wait() })
	f.Connected()
	w.write(w.record(1, "vswitch-ip-exhausted", event.Asked))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); f.Count() == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("no card comes")
		}
	}
	if text := f.Transcript(); !strings.Contains(text, "\n[Mute for a day]") { // without a plan, only muting is possible
		t.Errorf("got %s", text)
	}
	// Until the head records the notification, the card belongs to no ticket.
	for deadline := time.Now().Add(time.Minute); stats(follower).Opened == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it is not counted")
		}
	}
	mutes := func() bool {
		f.Click(f.On(0, "u-zoe", "mute"))
		return strings.Contains(f.Said(0), "zoe has muted this for a day.")
	}
	for deadline := time.Now().Add(time.Minute); !mutes(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("got %q", f.Said(0))
		}
	}
}

// A card that could not be replaced or changed is remembered until another one shows how its incident ends.
func TestCardThatFails(t *testing.T) {
	const changes, sends = "/v1.0/card/instances", "/v1.0/card/instances/createAndDeliver"
	for name, tt := range map[string]struct {
		path   string // of the failing call
		status int
		more   bool // it fails when another Service fails, not when the plan changes
		cards  int  // in the end
	}{
		"the new card fails":         {sends, 503, false, 1},
		"the old card fails":         {changes, 503, false, 1},
		"the new card is refused":    {sends, 400, false, 2},
		"a change of it fails":       {changes, 503, true, 1},
		"a change of it is refused":  {changes, 400, true, 2},
		"it is gone as plans change": {changes, 404, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, sink := dingTalk(t)
			w := newWorld(t)
			q := w.queue(w.follower(func(c *Config) { c.wire = wire(d.URL()) }, sink), 0)
			asks := func(n int, plan string) {
				q.put(w.write(w.record(n, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
					r.Steps, r.Digest = []event.StepRecord{{Kind: "x", Text: say.Literal("annotate it"), Risk: "low"}}, hash(plan)+hash("")
				})))
			}
			ticket := func() Notified {
				t.Helper()
				list, err := List(w.ctx, w.s)
				if err != nil || len(list) != 1 || len(list[0].Tickets) != 1 {
					t.Fatalf("got %+v, %v", list, err)
				}
				return list[0].Tickets[0]
			}
			asks(1, "one")
			q.pass(time.Minute)
			d.Fail(tt.path, tt.status, `{"code":"x","message":"not now"}`)
			if tt.more {
				asks(2, "other")
			} else {
				asks(1, "two")
			}
			if ticket().ID == "" {
				t.Error("nobody knows the card any more")
			}
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)), w.write(w.record(2, "vswitch-ip-exhausted", event.Gone)))
			q.pass(2 * time.Hour)
			all := d.Cards()
			if len(all) != tt.cards || ticket().Status != Closed {
				t.Errorf("there are %d cards, and the ticket is %s", len(all), ticket().Status)
			}
			last := all[len(all)-1].Params
			if last["over"] != "true" || last["approve"] == "true" || strings.Contains(last["text"], "taken the place") {
				t.Errorf("the last card has %v", last)
			}
			q.empty()
		})
	}
}

// A click on the closed card of a Service that still fails leaves its text as it is.
func TestClickAfterTheEnd(t *testing.T) {
	d, w, q := heard(t)
	for _, result := range []event.Result{event.Asked, event.Planned} {
		q.put(w.write(w.record(1, "vswitch-ip-exhausted", result, func(r *event.Record) {
			r.Steps, r.Digest = []event.StepRecord{{Kind: "x", Text: say.Literal("annotate it"), Risk: "low"}}, hash("plan")+hash("")
		})))
		q.pass(time.Minute)
	}
	last := len(d.Cards()) - 1
	before := d.Cards()[last].Params["text"]
	d.Click(d.On(last, "u-ann", "approve"))
	if now := d.Cards()[last].Params["text"]; now != before || !strings.Contains(now, "the failure goes on") {
		t.Errorf("the card says\n%s\nand said\n%s", now, before)
	}
}

func TestMuteEnds(t *testing.T) {
	d, w, q := heard(t)
	plans := 0
	asks := func(want int) {
		t.Helper()
		plans++
		q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
			r.Steps, r.Digest = []event.StepRecord{{Kind: "x", Text: say.Literal("annotate it"), Risk: "low"}}, hash(fmt.Sprint("plan", plans))+hash("")
		})))
		q.pass(time.Minute)
		if got := d.Count(); got != want {
			t.Fatalf("after plan %d the group has %d messages, want %d", plans, got, want)
		}
	}
	asks(1)
	d.Click(d.On(0, "u-stranger", "mute")) // an unknown person
	asks(2)
	d.Click(d.On(1, "u-zoe", "mute"))
	d.Click(d.On(1, "u-ann", "mute"))
	if !strings.HasSuffix(d.Said(1), "it is muted already") {
		t.Errorf("got %s", d.Said(1))
	}
	asks(2)
	q.pass(23 * time.Hour)
	asks(2)
	q.pass(time.Hour)
	asks(3)
	d.Click(d.On(2, "u-zoe", "mute"))
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	q.pass(time.Minute)
	asks(4)
	if got := d.Cards()[3].Params; got["mute"] != "true" || got["said"] != "" {
		t.Errorf("a new message has %v", got)
	}
	d.Click(d.On(3, "u-ann", "approve"))
	if !strings.HasSuffix(d.Said(3), "no access to the cluster") {
		t.Errorf("got %s", d.Said(3))
	}
	q.empty()
}
