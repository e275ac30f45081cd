package ticket

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

func tongue(tag string) *say.Language {
	if tag == "zh" {
		return chinese.Language()
	}
	return nil
}

type groups map[string]wire

func (g groups) RoundTrip(r *http.Request) (*http.Response, error) { return g[r.URL.Path].RoundTrip(r) }

func TestLanguages(t *testing.T) {
	w := newWorld(t)
	zh, en := newHook(t), newHook(t)
	sinks := []policy.Sink{
		{Name: "cn", Kind: policy.Slack, Language: "zh", URLFrom: secret(t, "https://hooks.slack.com/services/T0/B0/a")},
		{Name: "us", Kind: policy.Slack, URLFrom: secret(t, "https://hooks.slack.com/services/T0/B0/b")},
	}
	at := groups{"/services/T0/B0/a": wire(zh.server.URL), "/services/T0/B0/b": wire(en.server.URL)}
	f := w.follower(func(c *Config) { c.Language, c.wire = tongue, at }, sinks...)
	q, other := w.queue(f, 0), w.queue(f, 1)
	both := func(r event.Record) (string, string) {
		m := w.write(r)
		q.put(m)
		other.put(m)
		q.pass(time.Minute)
		other.pass(time.Minute)
		var texts []string
		for _, h := range []*hook{zh, en} {
			var m struct{ Text string }
			posts := h.take()
			if len(posts) == 0 {
				t.Fatal("nothing was posted")
			}
			if err := json.Unmarshal([]byte(posts[len(posts)-1].body), &m); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, m.Text)
		}
		return texts[0], texts[1]
	}
	r := w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
		r.Finding = say.F("The vSwitch is full: %s.", "vsw-1")
		r.Ask = say.F("The Service can use another one: %s.", say.F("%s in %s", "vsw-2", "cn-hangzhou-i"))
		said := say.F("annotate %s", "vswitch-id=vsw-2")
		r.Steps = []event.StepRecord{{Kind: "annotate", Text: said, Step: []byte("{}")}}
	})
	got, english := both(r)
	for _, part := range []string{
		"（vsw-1），1 个 Service*", "1 个 Service 无法同步，始于 ", "影响：收不到流量：Service 没有地址。", "原因：交换机已满：vsw-1。", "计划（风险：低，摘要 ", "1. 添加注解 vswitch-id=vsw-2",
		"处理方法：Service 可以使用另一个：cn-hangzhou-i 的 vsw-2。", "- shop/web-1，故障记录 ", "：计划需要批准", "参考号：lbr-",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	if !strings.Contains(english, "Cause: The vSwitch is full: vsw-1.") || strings.ContainsRune(english, '。') {
		t.Errorf("in English it is\n%s", english)
	}
	// A person's words are not translated.
	if got, _ = both(w.record(2, "arrearage", event.Asked)); !strings.Contains(got, "原因：The vSwitch is full.") || !strings.Contains(got, "处理方法：Add a vSwitch.") {
		t.Errorf("a record without messages is told as\n%s", got)
	}
	got, _ = both(w.record(1, "vswitch-ip-exhausted", event.Fixed, func(r *event.Record) { r.Finding = nil }))
	if !strings.Contains(got, "已结束：") || !strings.Contains(got, "1 个 Service：已由 lbremedy 修复，并证明有效。") || !strings.Contains(got, "原因：交换机已满：vsw-1。") {
		t.Errorf("at its end it is told as\n%s", got)
	}
}

func TestLines(t *testing.T) {
	var h Head
	if err := json.Unmarshal([]byte(`{"said":["22:01 zoe has muted this for a day."],"refusal":"22:02 it is over"}`), &h); err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var back Head
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, back.lines(chinese.Language())); diff != "" {
			t.Error(diff)
		}
	}
	line := func(clock string, text say.Text) say.Text { return say.Literal(clock).Then(text) }
	check("22:01 zoe has muted this for a day.", "22:02 it is over")
	h.answered(line("22:03", say.F("it is muted already")), true)
	check("22:01 zoe has muted this for a day.", "22:03 已处于静默状态")
	for range 2 { // a repeated line appears once
		h.answered(line("22:04", say.F("%s has muted this for a day.", "ann")), false)
		check("22:01 zoe has muted this for a day.", "22:04 ann 已将此静默一天。")
	}
	for i := range mostSaid {
		h.answered(line("22:05", say.F("%s has muted this for a day.", string(rune('a'+i)))), false)
	}
	check("22:05 a 已将此静默一天。", "22:05 b 已将此静默一天。", "22:05 c 已将此静默一天。", "22:05 d 已将此静默一天。", "22:05 e 已将此静默一天。")
}

func TestWordsThatCantBeRead(t *testing.T) {
	w := newWorld(t)
	data, err := json.Marshal(memberOf(w.record(1, "busy", event.Asked), 1, Member{}))
	if err != nil {
		t.Fatal(err)
	}
	key := incident{"service", "busy", hash("vsw-1")}.member(uid(1))
	if _, m, err := readMember(key, data, 1); err != nil || m.In(tongue("zh")).Ask.String() != "Add a vSwitch." {
		t.Errorf("got %q, %v", m.In(tongue("zh")).Ask, err)
	}
	data = append(data[:len(data)-1], `,"note":[{"format":"%999999999d","args":[1]}]}`...)
	if _, _, err := readMember(key, data, 1); err == nil || !strings.Contains(err.Error(), "the format of a message") {
		t.Errorf("it is read: %v", err)
	}
}
