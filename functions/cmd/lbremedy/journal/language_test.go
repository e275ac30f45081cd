package journal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Cases appear in the reader's language, by flag or locale; data and texts without messages stay English.
func TestLanguage(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	r := operator.Journalled()[2]
	r.Case, r.Class, r.Result, r.Digest, r.Undoing = "66666666-20260102T150405", "vswitch-ip-exhausted", event.Asked, strings.Repeat("0", 32), false
	r.Service = event.Service{Namespace: "shop", Name: "web", UID: "66666666-0000-4000-8000-000000000000"}
	r.Finding = say.F("The vSwitch is full: %s.", "vsw-1")
	r.Ask = say.F("The Service can use another one: %s.", say.F("%s in %s", "vsw-2", "cn-hangzhou-i"))
	said := say.F("annotate %s", "vswitch-id=vsw-2")
	r.Steps, r.Next = []event.StepRecord{{Kind: "annotate", Text: said, Step: []byte("{}")}}, 0
	r.Note = say.Literal("A note without a message.")
	if err := operator.Seed(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	run := func(locale string, args ...string) string {
		t.Helper()
		c := c.With("LANG", locale)
		got := c.Run(t.Context(), args...)
		if got.Code != 0 {
			t.Fatalf("%v: code %d, %s", args, got.Code, got.Err)
		}
		return got.Out + got.Err
	}
	shown := run("", "show", "66666666", "--language", "zh")
	for _, part := range []string{
		"发现       交换机已满：vsw-1。", "需要您处理 Service 可以使用另一个：cn-hangzhou-i 的 vsw-2。", "1. 添加注解 vswitch-id=vsw-2", "备注       A note without a message.",
		"下一步     lbremedy approve 66666666", "shop/web  待批准", "，执行者：",
	} {
		if !strings.Contains(shown, part) {
			t.Errorf("%q is not in\n%s", part, shown)
		}
	}
	if got := run("zh_CN.UTF-8", "show", "66666666"); got != shown {
		t.Errorf("by the locale it is\n%s", got)
	}
	if got := run("zh_CN.UTF-8", "show", "66666666", "--language", "en"); !strings.Contains(got, "Finding    The vSwitch is full: vsw-1.") {
		t.Errorf("in English it is\n%s", got)
	}
	if got := run("zh_CN.UTF-8", "ls", "-o", "wide"); !strings.Contains(got, "故障记录") || !strings.Contains(got, "交换机已满：vsw-1。") ||
		!strings.Contains(got, "  待批准  ") || strings.Contains(got, "needs-approval") {
		t.Errorf("the list is\n%s", got)
	}
	var data struct {
		Finding  string
		NextStep string
	}
	if err := json.Unmarshal([]byte(run("zh_CN.UTF-8", "show", "66666666", "-o", "json")), &data); err != nil || data.Finding != "The vSwitch is full: vsw-1." ||
		!strings.HasPrefix(data.NextStep, "lbremedy approve") {
		t.Errorf("data is %+v, %v", data, err)
	}
	if got := c.Run(t.Context(), "ls", "--language", "fr"); got.Code == 0 || !strings.Contains(got.Err, `--language: "fr" is not one of en, zh`) {
		t.Errorf("an unknown language: code %d, %s", got.Code, got.Err)
	}
}
